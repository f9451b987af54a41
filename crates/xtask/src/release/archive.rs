//! The archive of a program: itself, what explains it, what it is made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::target::Target;
use super::{Release, shell};

/// Of the repository, for whoever unpacks an archive.
const PAPERS: [&str; 3] = ["LICENSE", "README.md", "CHANGELOG.md"];

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// What goes into it besides.
pub struct Contents<'a> {
    pub program: &'a Path,
    /// Under these names.
    pub files: &'a [(&'a str, &'a Path)],
    /// The folder with manual pages and completions.
    pub manual: &'a Path,
}

/// Its name without an ending, and that of the folder in it.
pub fn stem(version: &str, target: Target) -> String {
    format!("dyno-{version}-{}", target.triple)
}

/// Packs it into the release's folder; the same contents give the same bytes.
pub fn pack(release: &Release, target: Target, contents: &Contents) -> Result<PathBuf> {
    let stem = stem(&release.version, target);
    let stage = release.work.join("archives");
    let folder = stage.join(&stem);
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the archive of an earlier release")?;
    }
    fs::create_dir_all(&folder).context("cannot make the folder of the archive")?;
    copy(contents.program, &folder.join("dyno"))?;
    for paper in PAPERS {
        copy(&release.root.join(paper), &folder.join(paper))?;
    }
    for (name, file) in contents.files {
        copy(file, &folder.join(name))?;
    }
    shell::run(Command::new("cp").arg("-R").arg(contents.manual.join(".")).arg(&folder))?;
    let archive = release.out.join(format!("{stem}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u+rw,go+r,go-w,a+X", "--use-compress-program=gzip -9n"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg("--create").arg("--file").arg(&archive);
    shell::run(tar.arg("--directory").arg(&stage).arg(&stem))?;
    Ok(archive)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// What [`manual`] writes, at least.
pub const MANUAL: [&str; 4] =
    ["man/man1/dyno.1", "completions/dyno.bash", "completions/dyno.zsh", "completions/dyno.fish"];

/// Has the program write its manual pages and completions into a new folder.
pub fn manual(program: &Path, folder: &Path) -> Result<()> {
    let pages = folder.join("man/man1");
    let completions = folder.join("completions");
    for folder in [&pages, &completions] {
        fs::create_dir_all(folder).context("cannot make the folder of the manual")?;
    }
    shell::said(Command::new(program).arg("man").arg(&pages))?;
    for shell in SHELLS {
        let text = shell::said(Command::new(program).args(["completions", shell]))?;
        fs::write(completions.join(format!("dyno.{shell}")), text + "\n")
            .context("cannot write a completion")?;
    }
    Ok(())
}

/// Unpacks an archive; the folder in it.
pub fn unpack(archive: &Path, into: &Path) -> Result<PathBuf> {
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| format!("cannot remove {}", into.display()))?;
    }
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--file"]).arg(archive);
    shell::run(tar.arg("--directory").arg(into))?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    Ok(into.join(name.trim_end_matches(".tar.gz")))
}
