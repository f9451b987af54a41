//! The files of the repository, and rules about their existence and size.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Finding;
use super::source::Source;

/// The files that git tracks or would add.
pub struct Tree {
    pub files: Vec<File>,
}

/// A file of the repository.
pub struct File {
    /// Path relative to the root, with `/`.
    pub path: String,
    pub contents: Vec<u8>,
    pub executable: bool,
}

/// Maximum size of a binary file outside of `testdata/`.
const BINARY_BYTES: usize = 256 * 1024;

/// Folders to skip without git, which would ignore them.
const UNTRACKED: &[&str] = &[".git", "target", "runs"];

impl Tree {
    pub fn read(root: &Path) -> Result<Tree> {
        let mut paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let full = root.join(&path);
            // Git lists removed files until the removal is committed. Links are followed.
            if !full.is_file() {
                continue;
            }
            let contents = fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            files.push(File { executable: is_executable(&full), contents, path });
        }
        Ok(Tree { files })
    }

    pub fn rust_sources(&self) -> impl Iterator<Item = Source> {
        let rust = self.files.iter().filter(|file| file.is_rust() && !file.in_testdata());
        rust.filter_map(|file| Some(Source::new(&file.path, file.text()?)))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text()
    }
}

impl File {
    #[cfg(test)]
    pub fn of_text(path: &str, text: &str) -> File {
        File { path: path.to_owned(), contents: text.into(), executable: false }
    }

    pub fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    /// Returns whether the file was recorded elsewhere or contains errors on purpose.
    pub fn in_testdata(&self) -> bool {
        self.path.split('/').any(|part| part == "testdata")
    }

    /// Returns the text; `None` for a binary file.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.contents).ok().filter(|text| !text.contains('\0'))
    }

    /// Returns a finding for each line for which `judge` returns a message.
    pub fn lines_with(&self, judge: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
        let lines = self.text().unwrap_or("").lines().enumerate();
        let findings = lines.filter_map(|(i, line)| {
            Some(Finding { path: self.path.clone(), line: i + 1, message: judge(line)? })
        });
        findings.collect()
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let paths: Vec<String> =
        String::from_utf8(output.stdout).ok()?.split_terminator('\0').map(str::to_owned).collect();
    // Git lists nothing if we are an ignored folder of another repository.
    (!paths.is_empty()).then_some(paths)
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(below)).with_context(|| format!("cannot list {below}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            if !UNTRACKED.contains(&name.as_str()) {
                walk(root, &path, paths)?;
            }
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

pub fn large_binary(file: &File) -> Vec<Finding> {
    let bytes = file.contents.len();
    if bytes <= BINARY_BYTES || file.text().is_some() || file.in_testdata() {
        return Vec::new();
    }
    let message =
        format!("a binary of {} KiB outside of testdata/: fetch or make it", bytes / 1024);
    vec![Finding::of_file(&file.path, message)]
}

pub fn changelog(tree: &Tree) -> Vec<Finding> {
    if tree.text("CHANGELOG.md").is_some_and(|text| text.contains("## [Unreleased]")) {
        return Vec::new();
    }
    vec![Finding::of_file("CHANGELOG.md", "there is none with a section [Unreleased]")]
}

/// BENCHMARKS.md names every program in `bench/`, or its folder below `bench/`.
pub fn benchmarks_are_listed(tree: &Tree) -> Vec<Finding> {
    let listed = tree.text("BENCHMARKS.md").unwrap_or("");
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.executable) {
        let Some(below) = file.path.strip_prefix("bench/") else { continue };
        let entry = format!("bench/{}", below.split('/').next().unwrap_or(below));
        if !listed.contains(&entry) {
            findings
                .push(Finding::of_file(&file.path, format!("BENCHMARKS.md does not name {entry}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_binary_is_found() {
        let file = |path: &str, byte: u8, bytes: usize| File {
            path: path.to_owned(),
            contents: vec![byte; bytes],
            executable: false,
        };
        assert_eq!(large_binary(&file("a/model.bin", 0, BINARY_BYTES + 1)).len(), 1);
        assert_eq!(large_binary(&file("a/model.bin", 0, BINARY_BYTES)).len(), 0);
        assert_eq!(large_binary(&file("a/testdata/model.bin", 0, BINARY_BYTES + 1)).len(), 0);
        assert_eq!(large_binary(&file("a/table.csv", b'1', BINARY_BYTES + 1)).len(), 0);
    }

    #[test]
    fn a_missing_changelog_is_found() {
        let found =
            |text| changelog(&Tree { files: vec![File::of_text("CHANGELOG.md", text)] }).len();
        assert_eq!(found("# Changelog\n## [Unreleased]\n"), 0);
        assert_eq!(found("# Changelog\n"), 1);
        assert_eq!(changelog(&Tree { files: vec![] }).len(), 1);
    }

    #[test]
    fn a_benchmark_that_is_not_listed_is_found() {
        let found = |listed, executable| {
            let run = File { executable, ..File::of_text("bench/loadgen/run", "") };
            let files = vec![run, File::of_text("BENCHMARKS.md", listed)];
            benchmarks_are_listed(&Tree { files }).len()
        };
        assert_eq!(found("", true), 1);
        assert_eq!(found("", false), 0);
        assert_eq!(found("run `bench/loadgen`", true), 0);
    }

    #[test]
    fn the_tree_is_found_without_git_too() {
        let mut walked = Vec::new();
        walk(&dyno_peers::cargo::root(), "", &mut walked).unwrap();
        for path in ["Cargo.toml", ".cargo/config.toml", "crates/xtask/src/tidy/tree.rs"] {
            assert!(walked.iter().any(|found| found == path), "{path}");
        }
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
    }
}
