//! Licenses of the packages in a program: their texts, which must accompany it, and the report of
//! `cargo deny`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use dyno_peers::{cargo, shell};

use super::packages::Package;

/// Name of the file with all texts.
pub const TEXTS: &str = "THIRD_PARTY_LICENSES.txt";

/// Prefixes of the names of license files, in lower case.
const NAMES: [&str; 6] = ["license", "licence", "copying", "notice", "unlicense", "copyright"];

/// Returns a list of the packages of others with their licenses, and each text once with the
/// packages that it belongs to. `more` are names and license files of linked code that is no package.
pub fn texts(title: &str, packages: &[Package], more: &[(&str, PathBuf)]) -> Result<String> {
    let foreign: Vec<&Package> = packages.iter().filter(|package| package.is_foreign()).collect();
    let mut used_by: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for package in &foreign {
        let files = files(&package.folder);
        if files.is_empty() {
            without.push(*package);
        }
        for file in files {
            used_by.entry(read(&file)?).or_default().insert(package.key());
        }
    }
    for (whose, file) in more {
        used_by.entry(read(file)?).or_default().insert((*whose).to_owned());
    }
    let mut text = format!(
        "Licences of the software of others in {title}\n\n\
         the standard library of Rust: MIT OR Apache-2.0\n"
    );
    for package in &foreign {
        let license = package.license.as_deref().unwrap_or("see its text");
        let _ = writeln!(text, "{}: {license}", package.key());
    }
    if !without.is_empty() {
        text.push_str("\nThese packages carry no text of their licence:\n");
    }
    for package in without {
        let place = package.repository.as_deref().unwrap_or("no repository is named");
        let by = if package.authors.is_empty() {
            "its contributors".to_owned()
        } else {
            package.authors.join(", ")
        };
        let _ = writeln!(text, "{} ({place}), by {by}", package.key());
    }
    for (license, users) in used_by {
        let users: Vec<String> = users.into_iter().collect();
        let _ = write!(text, "\n{}\nOf {}:\n\n{license}\n", "=".repeat(80), users.join(", "));
    }
    Ok(text)
}

fn read(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    Ok(text.trim_end().to_owned())
}

/// Returns the license files in a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && is_license(path))
        .collect();
    files.sort();
    files
}

fn is_license(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    NAMES.iter().any(|start| name.starts_with(start)) && !name.ends_with(".rs")
}

/// Version of `cargo deny`.
const DENY: &str = "0.20.2";

/// Checks licenses, banned packages and sources with `cargo deny` by `deny.toml`, and returns its
/// list. The inner error is the reason why it cannot be installed.
pub fn deny(root: &Path, tools: &Path) -> Result<Result<String, String>> {
    let program = tools.join("bin/cargo-deny");
    let version = shell::output(std::process::Command::new(&program).arg("--version"));
    if !version.is_ok_and(|version| version.ends_with(DENY)) {
        eprintln!("installing cargo-deny {DENY} into {}", tools.display());
        let mut install = cargo::command(root);
        install.args(["install", "cargo-deny", "--version", DENY, "--locked", "--force", "--root"]);
        // A debug build compiles faster.
        install.arg(tools).arg("--target-dir").arg(tools.join("target"));
        install.arg("--debug").env("CARGO_PROFILE_DEV_DEBUG", "0");
        if let Err(why) = shell::run(&mut install) {
            return Ok(Err(format!("cargo-deny cannot be installed: {why:#}")));
        }
        let _ = fs::remove_dir_all(tools.join("target"));
    }
    let mut check = std::process::Command::new(&program);
    check.args(["--color", "never", "check", "licenses", "bans", "sources"]).current_dir(root);
    shell::run(&mut check)?;
    let mut list = std::process::Command::new(&program);
    list.args(["--color", "never", "list", "--layout", "license"]).current_dir(root);
    Ok(Ok(shell::output(&mut list)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::{build, packages, target};

    /// Returns whether the allowed licenses satisfy an SPDX expression: one side of each OR, both
    /// sides of each AND. AND has the higher precedence.
    fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
        let expression = expression.trim();
        let side = |part: &str| is_allowed(part, allowed);
        let split = |word| split_outside(expression, word);
        if let Some((left, right)) = split(" OR ") {
            return side(left) || side(right);
        }
        if let Some((left, right)) = split(" AND ") {
            return side(left) && side(right);
        }
        match expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(inner) => side(inner),
            None => allowed.contains(&expression),
        }
    }

    /// Splits an expression at the first such word outside of parentheses.
    fn split_outside<'a>(expression: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
        expression.match_indices(word).find_map(|(at, _)| {
            let before = &expression[..at];
            let is_outside = before.matches('(').count() == before.matches(')').count();
            is_outside.then(|| (before, &expression[at + word.len()..]))
        })
    }

    #[test]
    fn licenses_of_all_that_is_released_are_allowed() {
        let allowed = ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"];
        for (expression, expected) in [
            ("MIT OR GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Zlib", true),
            ("GPL-3.0 OR MIT AND GPL-2.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
        // `cargo deny` checks this only in a full release.
        let root = cargo::root();
        let deny: toml::Table =
            fs::read_to_string(root.join("deny.toml")).unwrap().parse().unwrap();
        let allow = deny["licenses"]["allow"].as_array().unwrap();
        let allow: Vec<&str> = allow.iter().filter_map(toml::Value::as_str).collect();
        for package in [build::Kind::Full.program(), build::MODULE] {
            for package in packages::linked(&root, package.build_for(target::ALL[0])).unwrap() {
                let license = package.license.clone().unwrap_or_default();
                assert!(is_allowed(&license, &allow), "{}: {license}", package.key());
            }
        }
    }

    #[test]
    fn each_text_occurs_once_with_all_its_packages() {
        let folder = std::env::temp_dir().join(format!("dyno-licenses-{}", std::process::id()));
        let package = |name: &str, checksum: Option<&str>, files: &[(&str, &str)]| {
            let folder = folder.join(name);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in files {
                fs::write(folder.join(file), text).unwrap();
            }
            Package {
                name: name.to_owned(),
                version: "1.0.0".to_owned(),
                license: Some("MIT".to_owned()),
                authors: Vec::new(),
                repository: None,
                checksum: checksum.map(str::to_owned),
                folder,
                uses: Vec::new(),
            }
        };
        let packages = [
            package("a", Some("00"), &[("LICENSE-MIT", "Take it.\r\n"), ("license.rs", "code")]),
            package("b", Some("00"), &[("license.txt", "Take it.\n")]),
            package("c", Some("00"), &[("README.md", "c")]),
            package("ours", None, &[("LICENSE", "Ours.")]),
        ];
        let text =
            texts("dyno 1.0.0", &packages, &[("libc", folder.join("a/LICENSE-MIT"))]).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text.matches("Take it.").count(), 1, "{text}");
        assert!(text.contains("Of a 1.0.0, b 1.0.0, libc:\n\nTake it.\n"), "{text}");
        assert!(text.contains("carry no text of their licence:\nc 1.0.0 ("), "{text}");
        assert!(!text.contains("Ours.") && !text.contains("code"), "{text}");
    }
}
