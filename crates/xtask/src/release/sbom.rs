//! The bill of materials of a binary, as CycloneDX 1.5 in JSON.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::packages::Package;
use super::runtime::Runtime;
use super::sums;

/// Subject of a document.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Name of the built package.
    pub name: &'a str,
    pub triple: &'a str,
    pub features: &'a str,
    /// Time of the commit, such as `2026-11-21T14:48:44Z`; equal for every build of it.
    pub timestamp: &'a str,
    /// Code in the program that is no package.
    pub runtime: &'a Runtime,
}

/// The property that holds the features.
pub const FEATURES: &str = "dyno:features";

/// Returns the document of a program with these packages.
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
    let standard_library = format!("rust-std {}", subject.runtime.rust);
    components.push(rust_std(&standard_library, subject.runtime));
    let musl = subject.runtime.musl.as_deref().map(musl);
    let libc: Vec<Value> = musl.iter().map(|musl| musl["bom-ref"].clone()).collect();
    components.extend(musl);
    let mut dependencies: Vec<Value> = packages
        .iter()
        .map(|package| {
            let mut uses = package.uses.clone();
            uses.push(standard_library.clone());
            json!({ "ref": package.key(), "dependsOn": uses })
        })
        .collect();
    dependencies.push(json!({ "ref": standard_library, "dependsOn": libc }));
    dependencies.extend(libc.iter().map(|key| json!({ "ref": key, "dependsOn": [] })));
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": subject.timestamp,
            "tools": { "components": [{
                "type": "application",
                "name": "cargo xtask release",
                "version": main.version,
            }] },
            "component": root,
            "supplier": { "name": SUPPLIER },
        },
        "components": components,
        "dependencies": dependencies,
    });
    document["serialNumber"] = serial_number(&document.to_string()).into();
    Ok(document)
}

/// Supplier of our own packages.
const SUPPLIER: &str = "the contributors of Dyno";

/// Returns a UUID of version 8, whose other bits are a hash of the contents, so that equal contents have
/// equal numbers.
fn serial_number(contents: &str) -> String {
    let mut digits = sums::sha256(contents.as_bytes());
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "a");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("urn:uuid:{}", parts.join("-"))
}

/// Returns the component of the standard library with the packages in it.
fn rust_std(key: &str, runtime: &Runtime) -> Value {
    let version = &runtime.rust;
    let part = |[name, version, license]: &[String; 3]| {
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "licenses": [{ "expression": license }],
            "purl": format!("pkg:cargo/{name}@{version}"),
        })
    };
    json!({
        "type": "library",
        "bom-ref": key,
        "name": "rust-std",
        "version": version,
        "scope": "required",
        "description": "the standard library of Rust",
        "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        "purl": format!("pkg:generic/rust-std@{version}"),
        "components": runtime.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

fn musl(version: &str) -> Value {
    json!({
        "type": "library",
        "bom-ref": format!("musl {version}"),
        "name": "musl",
        "version": version,
        "scope": "required",
        "description": "the C library, as ziglang links it",
        "licenses": [{ "expression": "MIT" }],
        "purl": format!("pkg:generic/musl@{version}"),
    })
}

fn component(package: &Package, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": package.key(),
        "name": package.name,
        "version": package.version,
        "scope": "required",
    });
    if let Some(license) = &package.license {
        component["licenses"] = json!([{ "expression": license }]);
    }
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    } else {
        component["supplier"] = json!({ "name": SUPPLIER });
    }
    // Our packages are not in the registry, which may have others of the same name.
    let registry = if package.is_foreign() { "cargo" } else { "generic" };
    let (name, version) = (&package.name, &package.version);
    component["purl"] = format!("pkg:{registry}/{name}@{version}").into();
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

/// Checks that a document names all of these packages with their checksums, and that it contains the
/// target of each reference.
pub fn check(document: &Value, packages: &[Package]) -> Result<()> {
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
            license: Some("MIT".to_owned()),
            authors: Vec::new(),
            repository: None,
            checksum: checksum.map(str::to_owned),
            folder: "src".into(),
            uses: uses.iter().map(|&key| key.to_owned()).collect(),
        }
    }

    fn written(musl: Option<&str>, packages: &[Package]) -> Value {
        let runtime = Runtime {
            rust: "1.95.0".to_owned(),
            parts: vec![["libc", "0.2.178", "MIT OR Apache-2.0"].map(str::to_owned)],
            musl: musl.map(str::to_owned),
            texts: Vec::new(),
            lacks: Vec::new(),
        };
        let subject = Subject {
            name: "dyno",
            triple: "x86_64-unknown-linux-gnu",
            features: "tract",
            timestamp: "2026-11-21T14:48:44Z",
            runtime: &runtime,
        };
        document(subject, packages).unwrap()
    }

    #[test]
    fn the_document_covers_what_it_was_made_from() {
        let packages = [package("clap", Some("ab"), &[]), package("dyno", None, &["clap 1.0.0"])];
        let document = written(None, &packages);
        check(&document, &packages).unwrap();
        assert_eq!(document["metadata"]["component"]["bom-ref"], "dyno 1.0.0");
        assert_eq!(document["components"][0]["purl"], "pkg:cargo/clap@1.0.0");
        assert_eq!(document["components"][1]["components"][0]["name"], "libc");
        assert_eq!(
            document["dependencies"][1]["dependsOn"],
            json!(["clap 1.0.0", "rust-std 1.95.0"])
        );
    }

    #[test]
    fn a_static_program_has_its_libc_in_the_document() {
        let packages = [package("dyno", None, &[])];
        let with = written(Some("1.2.5"), &packages);
        let without = written(None, &packages);
        check(&with, &packages).unwrap();
        assert_eq!(with["components"][1]["bom-ref"], "musl 1.2.5");
        assert_eq!(with["dependencies"][1]["dependsOn"], json!(["musl 1.2.5"]));
        assert_eq!(without["components"].as_array().unwrap().len(), 1);
        assert_eq!(without, written(None, &packages));
        assert_ne!(with["serialNumber"], without["serialNumber"]);
        let number = with["serialNumber"].as_str().unwrap();
        assert_eq!((number.len(), &number[23..24], &number[28..29]), (45, "8", "a"), "{number}");
    }

    #[test]
    fn the_error_names_what_a_document_lacks() {
        let packages = [package("dyno", None, &[])];
        let mut document = written(None, &packages);
        let error = |document: &Value, packages: &[Package]| {
            check(document, packages).unwrap_err().to_string()
        };
        let more = [package("dyno", None, &[]), package("clap", Some("ab"), &[])];
        assert_eq!(error(&document, &more), "it does not name clap 1.0.0");
        let other = [package("dyno", Some("ab"), &[])];
        assert!(error(&document, &other).contains("another checksum"));
        document["dependencies"][0]["dependsOn"] = json!(["lost 1.0.0"]);
        assert!(error(&document, &packages).contains("refers to lost 1.0.0"));
    }
}
