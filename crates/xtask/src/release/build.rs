//! Builds programs and wheels so that a commit gives the same bytes on any machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use dyno_peers::venv::Venv;
use dyno_peers::{cargo, folder, shell};

use super::Release;
use super::packages;
use super::target::{self, Target};

/// The script that seals and checks wheels.
pub const WHEELS: &str = "crates/xtask/release/wheel.py";

/// A crate that is released as a wheel.
#[derive(Debug, Clone, Copy)]
pub struct Crate<'a> {
    pub name: &'static str,
    /// Path relative to the root; `pyproject.toml` is in the same folder.
    pub manifest: &'static str,
    /// Features separated by commas; in a full release, those of `pyproject.toml`.
    pub features: &'a str,
}

/// The module `mlperf_loadgen`.
pub const MODULE: Crate<'static> =
    Crate { name: "dyno-loadgen-py", manifest: "crates/loadgen-py/Cargo.toml", features: "" };

/// Purpose of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// For users.
    Full,
    /// For measurements: the program of a full release, for this machine.
    Host,
    /// For tests: with the linker and libc of this machine, without what takes minutes to compile.
    Quick,
}

impl Kind {
    /// Returns the crate of the program `dyno`.
    pub fn program(self) -> Crate<'static> {
        let features = match self {
            Self::Full | Self::Host => "tract,parquet",
            Self::Quick => "default",
        };
        Crate { name: "dyno", manifest: "crates/cli/Cargo.toml", features }
    }

    /// Returns the Python packages of the wheel builder and of a linker with every libc.
    pub fn tools(self) -> &'static str {
        match self {
            Self::Full | Self::Host => "maturin==1.16.0 ziglang==0.17.1",
            Self::Quick => "maturin==1.16.0",
        }
    }

    /// Returns the profile of cargo.
    pub fn profile(self) -> &'static str {
        match self {
            Self::Full | Self::Host => "dist",
            Self::Quick => "release",
        }
    }

    /// Returns the folder of intermediate files; kinds with equal tools share it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full | Self::Host => "full",
            Self::Quick => "quick",
        }
    }

    /// Returns the folder of the released files of a version.
    pub fn folder(self, version: &str) -> String {
        match self {
            Self::Full => version.to_owned(),
            Self::Host => format!("{version}-host"),
            Self::Quick => format!("{version}-quick"),
        }
    }

    /// Returns the targets that are built by default.
    pub fn targets(self) -> Vec<Target> {
        let all = target::ALL.iter().copied();
        match self {
            Self::Full => all.collect(),
            Self::Host | Self::Quick => all.filter(|t| t.runs_here() && !t.is_static).collect(),
        }
    }

    /// Returns the reason why the release lacks parts of a full one.
    pub fn why_less(self) -> &'static str {
        match self {
            Self::Full => "nothing is left out",
            Self::Host => "this release is for figures",
            Self::Quick => "this is a quick release",
        }
    }
}

impl<'a> Crate<'a> {
    /// Describes the build for a target.
    pub fn build_for(self, target: Target) -> packages::Build<'a> {
        packages::Build { manifest: self.manifest, triple: target.triple, features: self.features }
    }
}

/// Returns the environment with the tools of a release. The error names what this machine lacks.
pub fn tools(release: &Release) -> Result<Venv, String> {
    folder::create(&release.work).map_err(|error| format!("{error:#}"))?;
    Venv::with_modules(&release.work, release.kind.tools(), "maturin")
}

/// Builds a wheel and returns its path; [`seal`] completes it.
pub fn wheel(release: &Release, tools: &Venv, target: Target, package: Crate) -> Result<PathBuf> {
    let out = release.work.join("wheels").join(target.triple).join(package.name);
    folder::remove(&out)?;
    let mut maturin = tools.python();
    maturin.args(["-m", "maturin", "build", "--locked", "--profile", release.kind.profile()]);
    maturin
        .args(["--manifest-path", package.manifest, "--features", package.features, "--out"])
        .arg(&out);
    maturin.current_dir(&release.root).env("CARGO_TARGET_DIR", &release.target);
    if release.kind != Kind::Quick {
        maturin.args(["--zig", "--target", target.triple]);
        maturin.args(["--compatibility", target.compatibility]);
        maturin.env("PATH", path(tools)?);
        repeatable(&mut maturin, release)?;
    }
    shell::run(&mut maturin)?;
    let mut found: Vec<PathBuf> = fs::read_dir(&out)
        .context("maturin made no folder")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    ensure!(found.len() == 1, "maturin made {} files, not one wheel", found.len());
    Ok(found.remove(0))
}

/// Returns PATH with the tools first: maturin finds the linker as a module of the first `python3`.
fn path(tools: &Venv) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = tools.interpreter().parent().map(Path::to_path_buf);
    let folders = first.into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).context("a folder of PATH has a colon in its name")
}

/// Removes the influence of this machine, of the time and of the shell from a build.
fn repeatable(command: &mut Command, release: &Release) -> Result<()> {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let prefixes = ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "MATURIN_"];
        let is_folder = name == "CARGO_TARGET_DIR";
        if name == "RUSTFLAGS"
            || prefixes.iter().any(|prefix| name.starts_with(prefix)) && !is_folder
        {
            command.env_remove(name);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags(release)?.join("\x1f"));
    command.env("CARGO_INCREMENTAL", "0").env("SOURCE_DATE_EPOCH", &release.epoch);
    command.env("LC_ALL", "C").env("TZ", "UTC");
    Ok(())
}

/// Returns the path of the built program in the target folder.
pub fn program(release: &Release, target: Target) -> PathBuf {
    let folder = match release.kind {
        Kind::Full | Kind::Host => release.target.join(target.triple),
        Kind::Quick => release.target.clone(),
    };
    folder.join(release.kind.profile()).join(release.kind.program().name)
}

/// Builds the program for this machine as fast as possible and returns its path.
pub fn native(release: &Release) -> Result<PathBuf> {
    let dyno = release.kind.program();
    let mut build = cargo::command(&release.root);
    build.args(["build", "--locked", "--manifest-path", dyno.manifest]);
    build.args(["--features", dyno.features]);
    shell::run(build.env("CARGO_TARGET_DIR", &release.target))?;
    Ok(release.target.join("debug").join(dyno.name))
}

/// Returns compiler flags that replace folders of this machine in the built files. The last match
/// counts, so subfolders follow their parents.
fn flags(release: &Release) -> Result<Vec<String>> {
    let (home, cargo_home) = homes();
    let rename = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let mut flags = vec![
        rename(&home, "~"),
        rename(&cargo_home, "~/.cargo"),
        rename(&release.root, "dyno"),
        rename(&release.target, "dyno/target"),
    ];
    // The names of subfolders depend on the address of the registry.
    let sources = fs::read_dir(cargo_home.join("registry/src")).into_iter().flatten().flatten();
    let mut sources: Vec<PathBuf> = sources.map(|entry| entry.path()).collect();
    sources.sort();
    flags.extend(sources.iter().map(|folder| rename(folder, "~/.cargo/registry/src")));
    Ok(flags)
}

/// Returns the home folders of the user and of cargo.
fn homes() -> (PathBuf, PathBuf) {
    // Without a home folder, a name that is no prefix of a path; an empty name is a prefix of all.
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.map_or_else(|| PathBuf::from("no home"), PathBuf::from);
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.unwrap_or_else(|| home.join(".cargo"));
    (home, cargo_home)
}

/// Fails if a program contains the path of a folder of this machine: another machine would build
/// other bytes.
pub fn check_paths(release: &Release, program: &[u8]) -> Result<()> {
    let folders = [&homes().1, &release.root, &release.target];
    if let Some(folder) = folder_in_program(program, &folders) {
        bail!("the program names {}, which no other machine has", folder.display());
    }
    Ok(())
}

/// Returns the first of these folders of which a program contains a path. Top-level folders, such as
/// `/src`, are ignored because they are parts of other paths; building twice detects them.
fn folder_in_program<'a>(program: &[u8], folders: &[&'a PathBuf]) -> Option<&'a PathBuf> {
    let is_named = |folder: &Path| {
        let file = format!("{}/", folder.display());
        program.windows(file.len()).any(|part| part == file.as_bytes())
    };
    let is_deep = |folder: &Path| folder.components().count() > 2;
    folders.iter().copied().find(|folder| is_deep(folder) && is_named(folder))
}

/// Writes a wheel with these additional metadata files into a folder, without times and paths of this
/// machine, and returns its path.
pub fn seal(
    release: &Release,
    tools: &Venv,
    wheel: &Path,
    out: &Path,
    files: &[(String, PathBuf)],
) -> Result<PathBuf> {
    let mut script = tools.python();
    script.arg(release.root.join(WHEELS)).arg("seal").arg(wheel).arg(out).arg(&release.epoch);
    script.args(files.iter().map(|(name, path)| format!("{name}={}", path.display())));
    Ok(shell::output(&mut script)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_found_in_the_path_of_a_file() {
        let program = b"\0/usr/src/lib.rs\0/opt/ann/dynometer/a.rs\0/opt/ann/.cargo/b.rs\0";
        let [short, longer, cargo] =
            ["/src", "/opt/ann/dyno", "/opt/ann/.cargo"].map(PathBuf::from);
        assert_eq!(folder_in_program(program, &[&short, &longer]), None);
        assert_eq!(folder_in_program(program, &[&short, &longer, &cargo]), Some(&cargo));
    }

    #[test]
    fn features_and_tools_are_those_of_the_project_files() {
        for package in [Kind::Full.program(), MODULE] {
            let project = cargo::root().join(package.manifest).with_file_name("pyproject.toml");
            let project: toml::Table = fs::read_to_string(project).unwrap().parse().unwrap();
            let maturin = &project["tool"]["maturin"];
            let features = maturin.get("features").and_then(toml::Value::as_array);
            let features: Vec<&str> =
                features.into_iter().flatten().filter_map(toml::Value::as_str).collect();
            assert_eq!(features.join(","), package.features, "{}", package.name);
            let requires = project["build-system"]["requires"].as_array().unwrap();
            assert!(Kind::Full.tools().starts_with(requires[0].as_str().unwrap()), "{requires:?}");
        }
    }
}
