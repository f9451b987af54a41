//! The bill of materials of a binary, as CycloneDX 1.5 in JSON.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::packages::Package;

/// What the document is about, besides the packages.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The package that is built.
    pub name: &'a str,
    pub triple: &'a str,
    pub features: &'a str,
    /// Of the commit, as `2026-11-21T14:48:44Z`: the same for every build of it.
    pub timestamp: &'a str,
    /// `1.95.0`; its standard library is part of every binary.
    pub rustc: &'a str,
}

/// The property that holds the features.
pub const FEATURES: &str = "dyno:features";

/// Writes the document.
pub fn document(subject: Subject, packages: &[Package]) -> Result<Value> {
    let main = packages.iter().find(|package| package.name == subject.name);
    let main = main.with_context(|| format!("{} is not among its packages", subject.name))?;
    let mut root = component(main, "application");
    root["properties"] = json!([
        { "name": "dyno:target", "value": subject.triple },
        { "name": FEATURES, "value": subject.features },
    ]);
    let others = packages.iter().filter(|package| package.name != subject.name);
    let mut components: Vec<Value> = others.map(|package| component(package, "library")).collect();
    let standard_library = format!("rust-std {}", subject.rustc);
    components.push(json!({
        "type": "library",
        "bom-ref": standard_library,
        "name": "rust-std",
        "version": subject.rustc,
        "description": "the standard library of Rust",
        "licenses": [{ "expression": "MIT OR Apache-2.0" }],
    }));
    let mut dependencies: Vec<Value> = packages
        .iter()
        .map(|package| {
            let mut uses = package.uses.clone();
            uses.push(standard_library.clone());
            json!({ "ref": package.key(), "dependsOn": uses })
        })
        .collect();
    dependencies.push(json!({ "ref": standard_library, "dependsOn": [] }));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": subject.timestamp, "component": root },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Package, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": package.key(),
        "name": package.name,
        "version": package.version,
        "scope": "required",
    });
    if let Some(licence) = &package.licence {
        component["licenses"] = json!([{ "expression": licence }]);
    }
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        component["purl"] = format!("pkg:cargo/{}@{}", package.name, package.version).into();
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

/// Fails unless the document names all of these packages with the checksums that
/// they have, and each of its references leads somewhere.
pub fn covers(document: &Value, packages: &[Package]) -> Result<()> {
    ensure!(document["bomFormat"] == "CycloneDX", "it is no document of CycloneDX");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut components = list(&document["components"]);
    components.push(document["metadata"]["component"].clone());
    let find = |key: &str| components.iter().find(|component| component["bom-ref"] == key);
    for package in packages {
        let key = package.key();
        let component = find(&key).with_context(|| format!("it does not name {key}"))?;
        let stated = component["hashes"][0]["content"].as_str();
        ensure!(
            stated == package.checksum.as_deref(),
            "it gives {key} another checksum than Cargo.lock"
        );
    }
    for dependency in list(&document["dependencies"]) {
        for reference in list(&dependency["dependsOn"]).iter().chain([&dependency["ref"]]) {
            let key = reference.as_str().unwrap_or_default();
            ensure!(find(key).is_some(), "it refers to {key}, which it does not hold");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, checksum: Option<&str>, uses: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT".to_owned()),
            authors: Vec::new(),
            repository: None,
            checksum: checksum.map(str::to_owned),
            folder: "src".into(),
            uses: uses.iter().map(|&key| key.to_owned()).collect(),
        }
    }

    const SUBJECT: Subject = Subject {
        name: "dyno",
        triple: "x86_64-unknown-linux-gnu",
        features: "tract",
        timestamp: "2026-11-21T14:48:44Z",
        rustc: "1.95.0",
    };

    #[test]
    fn the_document_covers_what_it_was_made_from() {
        let packages = [package("clap", Some("ab"), &[]), package("dyno", None, &["clap 1.0.0"])];
        let document = document(SUBJECT, &packages).unwrap();
        covers(&document, &packages).unwrap();
        assert_eq!(document["metadata"]["component"]["bom-ref"], "dyno 1.0.0");
        assert_eq!(document["components"][0]["purl"], "pkg:cargo/clap@1.0.0");
        assert_eq!(
            document["dependencies"][1]["dependsOn"],
            json!(["clap 1.0.0", "rust-std 1.95.0"])
        );
    }

    #[test]
    fn what_a_document_lacks_is_named() {
        let packages = [package("dyno", None, &[])];
        let mut document = document(SUBJECT, &packages).unwrap();
        let error = |document: &Value, packages: &[Package]| {
            covers(document, packages).unwrap_err().to_string()
        };
        let more = [package("dyno", None, &[]), package("clap", Some("ab"), &[])];
        assert_eq!(error(&document, &more), "it does not name clap 1.0.0");
        let other = [package("dyno", Some("ab"), &[])];
        assert!(error(&document, &other).contains("another checksum"));
        document["dependencies"][0]["dependsOn"] = json!(["lost 1.0.0"]);
        assert!(error(&document, &packages).contains("refers to lost 1.0.0"));
    }
}
