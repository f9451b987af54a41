//! The packages that are linked into a program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use dyno_peers::{cargo, shell};
use serde_json::Value;

/// A package as the resolver chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub license: Option<String>,
    pub authors: Vec<String>,
    pub repository: Option<String>,
    /// SHA-256 of the registry's archive; `None` for our own packages.
    pub checksum: Option<String>,
    /// Folder of the sources on this machine.
    pub folder: PathBuf,
    /// Keys of its dependencies, sorted.
    pub uses: Vec<String>,
}

impl Package {
    /// Returns name and version.
    pub fn key(&self) -> String {
        key(&self.name, &self.version)
    }

    /// Returns whether the package comes from the registry.
    pub fn is_foreign(&self) -> bool {
        self.checksum.is_some()
    }
}

fn key(name: &str, version: &str) -> String {
    format!("{name} {version}")
}

/// Arguments of a build.
#[derive(Debug, Clone, Copy)]
pub struct Build<'a> {
    /// Manifest of the package, relative to the root.
    pub manifest: &'a str,
    pub triple: &'a str,
    /// Features separated by commas.
    pub features: &'a str,
}

/// Returns the package and all packages that are linked into it, sorted by name. Packages that only
/// the build needs are left out, as are procedural macros.
pub fn linked(root: &Path, build: Build) -> Result<Vec<Package>> {
    let mut tree = cargo::command(root);
    // `cargo metadata` includes features that only tests need.
    tree.args(["tree", "--locked", "--edges", "normal,no-proc-macro"]);
    tree.args(["--prefix", "none", "--format", "{p}"]);
    tree.args(["--manifest-path", build.manifest, "--features", build.features]);
    tree.args(["--target", build.triple]);
    let tree = keys(&shell::output(&mut tree)?);
    let mut metadata = cargo::command(root);
    metadata.args(["metadata", "--format-version", "1", "--locked"]);
    metadata.args(["--manifest-path", build.manifest, "--features", build.features]);
    metadata.args(["--filter-platform", build.triple]);
    let metadata: Value = serde_json::from_str(&shell::output(&mut metadata)?)
        .context("cannot read what cargo metadata says")?;
    let lock =
        std::fs::read_to_string(root.join("Cargo.lock")).context("there is no Cargo.lock")?;
    join(&tree, &metadata, &checksums(&lock)?)
}

/// Returns the keys in lines of `cargo tree`, such as `ratatui v0.30.2 (*)`.
fn keys(tree: &str) -> BTreeSet<String> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        Some(key(words.next()?, words.next()?.strip_prefix('v')?))
    };
    tree.lines().filter_map(line).collect()
}

/// Returns the checksums of a lock file by key.
pub fn checksums(lock: &str) -> Result<BTreeMap<String, String>> {
    let lock: toml::Table = lock.parse().context("cannot read Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let entry = |package: &toml::Value| {
        let text = |name| package.get(name).and_then(toml::Value::as_str);
        Some((key(text("name")?, text("version")?), text("checksum")?.to_owned()))
    };
    Ok(packages.into_iter().flatten().filter_map(entry).collect())
}

/// Combines the packages of `cargo tree` with their metadata and checksums.
fn join(
    tree: &BTreeSet<String>,
    metadata: &Value,
    checksums: &BTreeMap<String, String>,
) -> Result<Vec<Package>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut by_id = BTreeMap::new();
    let mut packages = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let name = text(&package["name"]).context("a package has no name")?;
        let version = text(&package["version"]).context("a package has no version")?;
        let key = key(&name, &version);
        by_id.insert(text(&package["id"]).unwrap_or_default(), key.clone());
        if !tree.contains(&key) {
            continue;
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]).unwrap_or_default());
        let package = Package {
            // Older manifests separate alternatives by a slash.
            license: text(&package["license"]).map(|license| license.replace('/', " OR ")),
            authors: list(&package["authors"]).iter().filter_map(text).collect(),
            repository: text(&package["repository"]),
            checksum: checksums.get(&key).cloned(),
            folder: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
            uses: Vec::new(),
            name,
            version,
        };
        packages.insert(key, package);
    }
    if let Some(lost) = tree.iter().find(|key| !packages.contains_key(*key)) {
        anyhow::bail!("cargo tree names {lost}, which cargo metadata does not know");
    }
    for node in list(&metadata["resolve"]["nodes"]) {
        let user = by_id.get(node["id"].as_str().unwrap_or_default());
        let Some(user) = user.and_then(|key| packages.get_mut(key)) else { continue };
        let is_normal =
            |dep: &Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let used = list(&node["deps"]);
        let used = used.iter().filter(|dep| is_normal(dep));
        let used = used.filter_map(|dep| by_id.get(dep["pkg"].as_str()?)).cloned();
        user.uses = used.filter(|key| tree.contains(key)).collect();
        user.uses.sort();
    }
    Ok(packages.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_metadata_and_lock_are_joined() {
        let tree = keys("ours v0.1.0 (src)\na v1.0.0\na v1.0.0 (*)\nm v2.0.0 (proc-macro)\n\n");
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let package = |name: &str, version: &str| {
            serde_json::json!({
                "id": name, "name": name, "version": version, "license": "MIT/Apache-2.0",
                "authors": [], "repository": null, "manifest_path": format!("src/{name}/Cargo.toml"),
            })
        };
        let dep = |name: &str, kind: Option<&str>| serde_json::json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = serde_json::json!({
            "packages": [package("ours", "0.1.0"), package("a", "1.0.0"), package("m", "2.0.0"),
                         package("unused", "3.0.0")],
            "resolve": { "nodes": [
                { "id": "ours", "deps": [dep("m", None), dep("a", None), dep("unused", None)] },
                { "id": "a", "deps": [dep("m", Some("build"))] },
            ] },
        });
        let found = join(&tree, &metadata, &checksums(lock).unwrap()).unwrap();
        let keys: Vec<String> = found.iter().map(Package::key).collect();
        assert_eq!(keys, ["a 1.0.0", "m 2.0.0", "ours 0.1.0"]);
        assert_eq!(found[0].checksum.as_deref(), Some("ab"));
        assert_eq!(found[0].license.as_deref(), Some("MIT OR Apache-2.0"));
        assert!(found[0].uses.is_empty(), "what builds it is no part of it");
        assert_eq!(found[2].uses, ["a 1.0.0", "m 2.0.0"]);
        assert!(!found[2].is_foreign());
        assert_eq!(found[0].folder, Path::new("src/a"));
    }

    #[test]
    fn the_program_contains_packages_of_the_lock_file() {
        let manifest = "crates/cli/Cargo.toml";
        let build = Build { manifest, triple: "x86_64-unknown-linux-gnu", features: "" };
        let packages = linked(&cargo::root(), build).unwrap();
        let find = |name: &str| packages.iter().find(|package| package.name == name);
        let dyno = find("dyno").unwrap();
        assert!(dyno.uses.iter().any(|key| key.starts_with("clap ")), "{:?}", dyno.uses);
        assert!(find("clap").unwrap().is_foreign());
        assert!(find("proptest").is_none(), "tests are no part of what is released");
        assert!(find("serde_derive").is_none(), "the compiler runs it; nothing of it is linked");
    }
}
