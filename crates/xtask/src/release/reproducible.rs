//! Whether the same sources give the same bytes from another folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::target::Target;
use super::{Release, build, name_of, shell};

/// Builds a copy of the sources elsewhere, and compares what came of it with
/// the release.
pub fn check(release: &Release, target: Target) -> Result<()> {
    let elsewhere = release.work.join("elsewhere");
    if elsewhere.exists() {
        fs::remove_dir_all(&elsewhere).context("cannot remove the build of before")?;
    }
    let root = elsewhere.join("a copy of the sources");
    copy(&release.root, &root)?;
    let copy = Release {
        root,
        target: elsewhere.join("target"),
        work: elsewhere.join("work"),
        out: elsewhere.join("out"),
        ..release.clone()
    };
    eprintln!("release: building {} again, from another folder", target.triple);
    let tools = build::tools(release).map_err(anyhow::Error::msg)?;
    copy.build(&tools, &[target], &mut Vec::new())?;
    let mut same = 0;
    for entry in fs::read_dir(&copy.out).context("the second build left nothing")? {
        let file = entry.context("cannot read the folder")?.path();
        let first = release.out.join(name_of(&file));
        let (first, second) = (fs::read(&first), fs::read(&file).context("a file is gone")?);
        let first =
            first.with_context(|| format!("only the second build has {}", name_of(&file)))?;
        ensure!(first == second, "{} differs from that of the second build", name_of(&file));
        same += 1;
    }
    eprintln!("release: {same} files are the same, byte for byte, when built in another folder");
    fs::remove_dir_all(&elsewhere).context("cannot remove the second build")?;
    Ok(())
}

/// Copies what git knows, and what it would take.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = shell::said(list.current_dir(from))?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (source, target) = (from.join(name), to.join(name));
        // Deleted, and not committed yet.
        if !source.is_file() {
            continue;
        }
        let folder = target.parent().context("a file has no folder")?;
        fs::create_dir_all(folder).with_context(|| format!("no {}", folder.display()))?;
        fs::copy(&source, &target).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}
