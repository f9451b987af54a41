//! The packages that hold models and data, as data: `packages.toml`.

use std::sync::OnceLock;

use serde::Deserialize;

/// A package of the Python Package Index, pinned.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// As the index has it.
    pub name: String,
    /// The one whose files were looked at.
    pub version: String,
    /// What the package says.
    pub licence: String,
    /// What is kept of it.
    pub files: Vec<PackageFile>,
}

/// A file within a package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageFile {
    /// Within the wheel.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

impl Package {
    /// The file at this path, or those right below it where it ends in `/`.
    pub fn files_at<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a PackageFile> {
        self.files.iter().filter(move |file| {
            let below = file.path.strip_prefix(path);
            below.is_some_and(|rest| match path.ends_with('/') {
                true => !rest.is_empty() && !rest.contains('/'),
                false => rest.is_empty(),
            })
        })
    }

    /// Bytes that are kept of it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// All packages.
pub fn packages() -> &'static [Package] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        package: Vec<Package>,
    }
    static PACKAGES: OnceLock<Vec<Package>> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let file: File = toml::from_str(include_str!("../packages.toml"))
            .unwrap_or_else(|error| panic!("packages.toml: {error}"));
        file.package
    })
}

/// The package of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Package> {
    packages().iter().find(|package| package.name == name)
}
