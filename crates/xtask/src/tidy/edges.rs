//! Which crate knows which: the tree has the listed edges and no others.

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Finding;
use super::allowed::Edge;
use super::tree::Tree;

/// A manifest of one of our crates, and what it depends on.
#[derive(Debug)]
pub struct Manifest {
    /// Folder below `crates/`.
    pub folder: String,
    pub package: String,
    /// Packages, for the build and for what ships.
    pub dependencies: Vec<String>,
    /// Packages, for tests and benches only.
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
        // Tables of one platform count like those of all.
        let platforms = table.get("target").and_then(Value::as_table);
        let scopes: Vec<&Table> = std::iter::once(&table)
            .chain(platforms.into_iter().flat_map(Table::values).filter_map(Value::as_table))
            .collect();
        let of = |kinds: &[&str]| -> Vec<String> {
            let tables = scopes.iter().flat_map(|scope| kinds.iter().map(|kind| scope.get(*kind)));
            tables.flatten().filter_map(Value::as_table).flat_map(packages).collect()
        };
        Ok(Manifest {
            folder: folder.to_owned(),
            package: package.to_owned(),
            dependencies: of(&["dependencies", "build-dependencies"]),
            dev_dependencies: of(&["dev-dependencies"]),
        })
    }
}

/// Names of the packages in a table of dependencies, renamed ones by their own name.
fn packages(table: &Table) -> impl Iterator<Item = String> + '_ {
    table
        .iter()
        .map(|(key, value)| value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned())
}

/// The manifests below `crates/`.
pub fn manifests(tree: &Tree) -> Result<Vec<Manifest>> {
    let mut found = Vec::new();
    for file in &tree.files {
        let folder = file.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml"));
        if let (Some(folder), Some(text)) = (folder, file.text()) {
            found.push(Manifest::parse(folder, text).with_context(|| file.path.clone())?);
        }
    }
    Ok(found)
}

/// Returns how many crates of ours depend on how many others of ours, summed.
pub fn count(manifests: &[Manifest]) -> usize {
    let is_ours = |package: &&String| manifests.iter().any(|other| other.package == **package);
    manifests.iter().map(|from| from.dependencies.iter().filter(is_ours).count()).sum()
}

/// Edges that are not allowed, edges that are allowed and not there, and
/// dependencies from outside that a crate may not have.
pub fn check(manifests: &[Manifest], edges: &[Edge], outside: &[(&str, &[&str])]) -> Vec<Finding> {
    let ours = |package: &String| manifests.iter().find(|other| other.package == *package);
    let mut found = Vec::new();
    for from in manifests {
        let to: Vec<&str> =
            from.dependencies.iter().filter_map(ours).map(|m| m.folder.as_str()).collect();
        for to in &to {
            if !edges.iter().any(|edge| edge.0 == from.folder && edge.1 == *to) {
                found.push(Finding::of_file(&from.path(), format!(
                    "{} may not depend on {to}: a new edge needs an entry with its reason in tidy/allowed.rs",
                    from.folder
                )));
            }
        }
        let of_tests: Vec<&str> =
            from.dev_dependencies.iter().filter_map(ours).map(|m| m.folder.as_str()).collect();
        for to in &of_tests {
            if !edges.iter().any(|edge| edge.0 == from.folder && edge.1 == *to) {
                found.push(Finding::of_file(&from.path(), format!(
                    "the tests of {} may not depend on {to}: a new edge needs an entry with its reason in tidy/allowed.rs",
                    from.folder
                )));
            }
        }
        for edge in edges.iter().filter(|edge| edge.0 == from.folder) {
            if !to.contains(&edge.1) && !of_tests.contains(&edge.1) {
                found.push(Finding::of_file(
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
                found.push(Finding::of_file(
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
    found
}

/// Dependencies on packages that another crate keeps to itself.
pub fn fenced(manifests: &[Manifest], fenced: &[(&str, &str)]) -> Vec<Finding> {
    let breaks = |from: &Manifest| {
        let others = fenced.iter().filter(|(_, keeper)| *keeper != from.folder);
        let kept = others.filter(|(package, _)| from.dependencies.iter().any(|of| of == package));
        let path = from.path();
        let told = kept.map(|(package, keeper)| {
            let message =
                format!("{} may not depend on {package}: {keeper} alone may", from.folder);
            Finding::of_file(&path, message)
        });
        told.collect::<Vec<_>>()
    };
    manifests.iter().flat_map(breaks).collect()
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
    fn a_fenced_package_is_of_one_crate() {
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
