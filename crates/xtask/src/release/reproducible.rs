//! Checks that a build in another folder gives the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use dyno_peers::{folder, shell};

use super::{Release, TargetBuild, build, name_of};

/// Builds a copy of the sources in another folder and compares the files with those of the first build.
pub fn check(release: &Release, first: &TargetBuild) -> Result<()> {
    let elsewhere = release.work.join("elsewhere");
    folder::remove(&elsewhere)?;
    let root = elsewhere.join("a copy of the sources");
    copy(&release.root, &root)?;
    let copy = Release {
        root,
        target: elsewhere.join("target"),
        work: elsewhere.join("work"),
        out: elsewhere.join("out"),
        ..release.clone()
    };
    eprintln!("release: building {} again, from another folder", first.target.triple);
    let tools = build::tools(release).map_err(anyhow::Error::msg)?;
    let second = copy.build(&tools, &[first.target], &mut Vec::new())?;
    let same = compare(&first.files, &second[0].files)?;
    eprintln!("release: {same} files are the same, byte for byte, when built in another folder");
    folder::remove(&elsewhere)
}

/// Compares two lists of files and returns their number.
fn compare(first: &[PathBuf], second: &[PathBuf]) -> Result<usize> {
    let names = |files: &[PathBuf]| files.iter().map(|file| name_of(file)).collect::<Vec<_>>();
    ensure!(!first.is_empty(), "there is nothing to compare");
    let (ours, theirs) = (names(first), names(second));
    ensure!(ours == theirs, "the builds made different files: {ours:?} and {theirs:?}");
    for (file, again) in first.iter().zip(second) {
        let read = |file| fs::read(file).with_context(|| format!("there is no {}", name_of(file)));
        let same = read(file)? == read(again)?;
        ensure!(same, "{} differs from that of the second build", name_of(file));
    }
    Ok(first.len())
}

/// Copies the files that git tracks or would add.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = shell::output(list.current_dir(from))?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (source, target) = (from.join(name), to.join(name));
        // Deleted files are listed until the deletion is committed.
        if !source.is_file() {
            continue;
        }
        let folder = target.parent().context("a file has no folder")?;
        folder::create(folder)?;
        fs::copy(&source, &target).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_or_is_missing_is_an_error() {
        let folder = std::env::temp_dir().join(format!("dyno-twice-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            file
        };
        let first = [write("1/a", "a"), write("1/b", "b")];
        let second = [write("2/a", "a"), write("2/b", "b")];
        assert_eq!(compare(&first, &second).unwrap(), 2);
        let error =
            |first: &[PathBuf], second: &[PathBuf]| compare(first, second).unwrap_err().to_string();
        assert!(error(&first, &second[..1]).contains("different files"));
        assert!(error(&first[..1], &second).contains("different files"));
        assert_eq!(error(&[], &[]), "there is nothing to compare");
        write("2/b", "c");
        assert_eq!(error(&first, &second), "b differs from that of the second build");
        fs::remove_dir_all(&folder).unwrap();
    }
}
