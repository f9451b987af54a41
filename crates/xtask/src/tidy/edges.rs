//! Dependencies between crates: the tree has exactly the listed edges.

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Finding;
use super::allowed::Edge;
use super::tree::Tree;

/// The manifest of one of our crates.
#[derive(Debug)]
pub struct Manifest {
    /// Folder below `crates/`.
    pub folder: String,
    pub package: String,
    /// Packages that the crate or its build script depends on.
    pub dependencies: Vec<String>,
    /// Packages that only tests, benches and examples depend on.
    pub dev_dependencies: Vec<String>,
}

impl Manifest {
    fn path(&self) -> String {
        format!("crates/{}/Cargo.toml", self.folder)
    }

    fn parse(folder: &str, text: &str) -> Result<Manifest> {
        let table: Table = text.parse()?;
        let package = table
            .get("package")
            .and_then(|package| package.get("name")?.as_str())
            .context("no package name")?;
        // Dependencies on one platform count, too.
        let platforms = table.get("target").and_then(Value::as_table);
        let scopes: Vec<&Table> = std::iter::once(&table)
            .chain(platforms.into_iter().flat_map(Table::values).filter_map(Value::as_table))
            .collect();
        let collect = |kinds: &[&str]| -> Vec<String> {
            let tables = scopes.iter().flat_map(|scope| kinds.iter().map(|kind| scope.get(*kind)));
            tables.flatten().filter_map(Value::as_table).flat_map(packages).collect()
        };
        Ok(Manifest {
            folder: folder.to_owned(),
            package: package.to_owned(),
            dependencies: collect(&["dependencies", "build-dependencies"]),
            dev_dependencies: collect(&["dev-dependencies"]),
        })
    }
}

/// Returns the names of the packages in a table of dependencies, also those of renamed ones.
fn packages(table: &Table) -> impl Iterator<Item = String> + '_ {
    table
        .iter()
        .map(|(key, value)| value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned())
}

/// Returns the manifests of all crates.
pub fn manifests(tree: &Tree) -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for file in &tree.files {
        let folder = file.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml"));
        if let (Some(folder), Some(text)) = (folder, file.text()) {
            manifests.push(Manifest::parse(folder, text).with_context(|| file.path.clone())?);
        }
    }
    Ok(manifests)
}

/// Returns the number of dependencies between our crates.
pub fn count(manifests: &[Manifest]) -> usize {
    let is_ours = |package: &&String| manifests.iter().any(|other| other.package == **package);
    manifests.iter().map(|from| from.dependencies.iter().filter(is_ours).count()).sum()
}

/// Finds edges that are not listed, listed edges that do not exist, and dependencies on packages of
/// others that a crate may not have.
pub fn check(manifests: &[Manifest], edges: &[Edge], outside: &[(&str, &[&str])]) -> Vec<Finding> {
    let ours = |package: &String| manifests.iter().find(|other| other.package == *package);
    let mut findings = Vec::new();
    for from in manifests {
        let mut targets = Vec::new();
        for (prefix, packages) in
            [("", &from.dependencies), ("the tests of ", &from.dev_dependencies)]
        {
            for to in packages.iter().filter_map(ours).map(|manifest| manifest.folder.as_str()) {
                targets.push(to);
                if !edges.iter().any(|edge| edge.0 == from.folder && edge.1 == to) {
                    findings.push(Finding::of_file(&from.path(), format!(
                        "{prefix}{} may not depend on {to}: a new edge needs an entry with its reason in tidy/allowed.rs",
                        from.folder
                    )));
                }
            }
        }
        for edge in edges.iter().filter(|edge| edge.0 == from.folder) {
            if !targets.contains(&edge.1) {
                findings.push(Finding::of_file(
                    &from.path(),
                    format!(
                        "the edge {} -> {} is gone: remove its entry from tidy/allowed.rs",
                        edge.0, edge.1
                    ),
                ));
            }
        }
        if let Some((_, allowed)) = outside.iter().find(|(name, _)| *name == from.folder) {
            let others = from.dependencies.iter().filter(|package| ours(package).is_none());
            for package in others.filter(|package| !allowed.contains(&package.as_str())) {
                findings.push(Finding::of_file(
                    &from.path(),
                    match allowed {
                        [] => {
                            format!("{} may depend on nothing from outside: {package}", from.folder)
                        }
                        _ => format!(
                            "{} may depend on {} alone from outside, not on {package}",
                            from.folder,
                            allowed.join(", ")
                        ),
                    },
                ));
            }
        }
    }
    findings
}

/// Finds dependencies on packages that only another crate may have.
pub fn fenced(manifests: &[Manifest], fenced: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for from in manifests {
        for (package, owner) in fenced.iter().filter(|(_, owner)| *owner != from.folder) {
            if from.dependencies.iter().any(|dependency| dependency == package) {
                let message =
                    format!("{} may not depend on {package}: {owner} alone may", from.folder);
                findings.push(Finding::of_file(&from.path(), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADGEN: &str = "[package]\nname = \"dyno-loadgen\"\n";
    const CLI: &str = "[package]\nname = \"dyno\"\n[dependencies]\ndyno-loadgen.workspace = true\n";

    fn messages(manifests: &[(&str, &str)], edges: &[Edge]) -> Vec<String> {
        let manifests: Vec<_> =
            manifests.iter().map(|(f, text)| Manifest::parse(f, text).unwrap()).collect();
        let found = check(&manifests, edges, &[("loadgen", &["rustix"])]);
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn the_edges_must_be_the_listed_ones() {
        let listed: &[Edge] = &[("cli", "loadgen", "wires it")];
        assert!(messages(&[("loadgen", LOADGEN), ("cli", CLI)], listed).is_empty());
        assert_eq!(
            messages(&[("loadgen", LOADGEN), ("cli", CLI)], &[]),
            [
                "cli may not depend on loadgen: a new edge needs an entry with its reason in tidy/allowed.rs"
            ]
        );
        let alone = "[package]\nname = \"dyno\"\n";
        assert_eq!(
            messages(&[("loadgen", LOADGEN), ("cli", alone)], listed),
            ["the edge cli -> loadgen is gone: remove its entry from tidy/allowed.rs"]
        );
    }

    #[test]
    fn platform_tables_and_renamed_packages_count() {
        let hidden = "[package]\nname = \"dyno-sut\"\n\
            [target.'cfg(unix)'.build-dependencies]\nother = { package = \"dyno-loadgen\", path = \"x\" }\n";
        assert_eq!(messages(&[("loadgen", LOADGEN), ("sut", hidden)], &[]).len(), 1);
    }

    #[test]
    fn edges_of_tests_are_listed_as_well() {
        let sut =
            "[package]\nname = \"dyno-sut\"\n[dev-dependencies]\ndyno-loadgen.workspace = true\n";
        let found = |edges| messages(&[("loadgen", LOADGEN), ("sut", sut)], edges);
        assert_eq!(
            found(&[]),
            [
                "the tests of sut may not depend on loadgen: a new edge needs an entry with its reason in tidy/allowed.rs"
            ]
        );
        assert!(found(&[("sut", "loadgen", "tests it")]).is_empty());
    }

    #[test]
    fn the_instrument_takes_nothing_else_from_outside() {
        let text = format!("{LOADGEN}[dependencies]\nrustix = \"1\"\nserde = \"1\"\n");
        assert_eq!(
            messages(&[("loadgen", &text)], &[]),
            ["loadgen may depend on rustix alone from outside, not on serde"]
        );
    }

    #[test]
    fn only_one_crate_may_depend_on_a_fenced_package() {
        let with =
            |name: &str| format!("[package]\nname = \"{name}\"\n[dependencies]\ntokio = \"1\"\n");
        let manifests: Vec<_> = ["net", "cli"]
            .map(|folder| Manifest::parse(folder, &with(folder)).unwrap())
            .into_iter()
            .collect();
        let found = fenced(&manifests, &[("tokio", "net")]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "cli may not depend on tokio: net alone may");
    }
}
