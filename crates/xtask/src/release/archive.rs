//! Archives: the program, its documentation, licenses and bill of materials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use dyno_peers::{folder, shell};

use super::Release;
use super::target::Target;

/// Files of the repository in every archive.
const PAPERS: [&str; 3] = ["LICENSE", "README.md", "CHANGELOG.md"];

/// Script that installs the unpacked archive.
pub const INSTALLER: &str = "install.sh";

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Further contents of an archive.
pub struct Contents<'a> {
    pub program: &'a Path,
    /// Names in the archive, and files.
    pub files: &'a [(&'a str, &'a Path)],
    /// The folder with manual pages and completions.
    pub manual: &'a Path,
}

/// Returns the name of an archive without its ending, which is also that of the folder in it.
pub fn stem(version: &str, target: Target) -> String {
    format!("dyno-{version}-{}", target.triple)
}

/// Packs an archive into the release's folder. Equal contents give equal bytes.
pub fn pack(release: &Release, target: Target, contents: &Contents) -> Result<PathBuf> {
    let stem = stem(&release.version, target);
    let stage = release.work.join("archives");
    let folder = stage.join(&stem);
    folder::recreate(&folder)?;
    copy(contents.program, &folder.join("dyno"))?;
    for paper in PAPERS {
        copy(&release.root.join(paper), &folder.join(paper))?;
    }
    let installer = release.root.join("crates/xtask/packaging").join(INSTALLER);
    copy(&installer, &folder.join(INSTALLER))?;
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

/// Some of the files that [`manual`] writes.
pub const MANUAL: [&str; 4] =
    ["man/man1/dyno.1", "completions/dyno.bash", "completions/dyno.zsh", "completions/dyno.fish"];

/// Runs the program to write its manual pages and completions into a new folder.
pub fn manual(program: &Path, folder: &Path) -> Result<()> {
    let pages = folder.join("man/man1");
    let completions = folder.join("completions");
    for folder in [&pages, &completions] {
        folder::create(folder)?;
    }
    shell::output(Command::new(program).arg("man").arg(&pages))?;
    for shell in SHELLS {
        let text = shell::output(Command::new(program).args(["completions", shell]))?;
        fs::write(completions.join(format!("dyno.{shell}")), text + "\n")
            .context("cannot write a completion")?;
    }
    Ok(())
}

/// Unpacks an archive and returns the folder in it.
pub fn unpack(archive: &Path, into: &Path) -> Result<PathBuf> {
    folder::recreate(into)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--file"]).arg(archive);
    shell::run(tar.arg("--directory").arg(into))?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    Ok(into.join(name.trim_end_matches(".tar.gz")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the installer of an unpacked archive, whose program is a script, in `folder`.
    fn install(folder: &Path, arguments: &[&str]) -> (bool, String) {
        let ran = Command::new("sh")
            .arg("archive/install.sh")
            .args(arguments)
            .current_dir(folder)
            .env("CDPATH", folder)
            .output()
            .unwrap();
        let text = [ran.stdout, ran.stderr].concat();
        (ran.status.success(), String::from_utf8(text).unwrap())
    }

    #[test]
    #[cfg(unix)]
    fn the_installer_accepts_any_folder_and_prints_how_to_remove_the_program() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = std::env::temp_dir().join(format!("dyno-install-{}", std::process::id()));
        let archive = folder.join("archive");
        for below in ["man/man1", "completions"] {
            fs::create_dir_all(archive.join(below)).unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/install.sh");
        fs::copy(script, archive.join(INSTALLER)).unwrap();
        for name in MANUAL {
            fs::write(archive.join(name), "").unwrap();
        }
        let program = archive.join("dyno");
        fs::write(&program, "#!/bin/sh\necho dyno 1\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();

        let (is_installed, text) = install(&folder, &["--prefix", "my tools"]);
        assert!(is_installed && text.contains("installed dyno 1"), "{text}");
        let installed = folder.join("my tools/bin/dyno");
        assert!(installed.exists(), "{text}");
        let remove = text.lines().find_map(|line| line.strip_prefix("remove it with: ")).unwrap();
        let removed = Command::new("sh").args(["-c", remove]).current_dir("/").status().unwrap();
        assert!(removed.success() && !installed.exists(), "{remove}");
        for arguments in [&["--prefix="][..], &["--prefix", ""], &["--prefix"]] {
            let (is_installed, text) = install(&folder, arguments);
            assert!(!is_installed && text.contains("--prefix needs a directory"), "{text}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
