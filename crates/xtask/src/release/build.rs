//! Binaries and wheels, so that the same commit gives the same bytes anywhere.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::Release;
use super::target::{self, Target};
use super::{packages, shell};
use crate::peers::venv::Venv;

/// The script that seals and checks wheels.
pub const WHEELS: &str = "crates/xtask/release/wheel.py";

/// A crate that is released as a wheel.
#[derive(Debug, Clone, Copy)]
pub struct Crate<'a> {
    pub name: &'static str,
    /// From the root; `pyproject.toml` lies beside it.
    pub manifest: &'static str,
    /// With commas between them; in a full release, those of `pyproject.toml`.
    pub features: &'a str,
}

/// The module `mlperf_loadgen`.
pub const MODULE: Crate<'static> =
    Crate { name: "dyno-loadgen-py", manifest: "crates/loadgen-py/Cargo.toml", features: "" };

/// What a release is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// For users.
    Full,
    /// For figures: of a full one, the program for this machine.
    Host,
    /// For tests: with the linker and the libc of this machine, without what takes
    /// minutes to compile.
    Quick,
}

impl Kind {
    /// The program `dyno`.
    pub fn program(self) -> Crate<'static> {
        let features = match self {
            Self::Full | Self::Host => "tract,parquet",
            Self::Quick => "default",
        };
        Crate { name: "dyno", manifest: "crates/cli/Cargo.toml", features }
    }

    /// The builder of wheels, which calls cargo, and a linker that knows every libc.
    pub fn tools(self) -> &'static str {
        match self {
            Self::Full | Self::Host => "maturin==1.16.0 ziglang==0.17.1",
            Self::Quick => "maturin==1.16.0",
        }
    }

    /// Of cargo.
    pub fn profile(self) -> &'static str {
        match self {
            Self::Full | Self::Host => "dist",
            Self::Quick => "release",
        }
    }

    /// Where what is not released lies: the tools differ.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full | Self::Host => "full",
            Self::Quick => "quick",
        }
    }

    /// Where a version's files are.
    pub fn folder(self, version: &str) -> String {
        match self {
            Self::Full => version.to_owned(),
            Self::Host => format!("{version}-host"),
            Self::Quick => format!("{version}-quick"),
        }
    }

    /// What it is built for where nobody says.
    pub fn targets(self) -> Vec<Target> {
        let all = target::ALL.iter().copied();
        match self {
            Self::Full => all.collect(),
            Self::Host | Self::Quick => all.filter(|t| t.runs_here() && !t.is_static).collect(),
        }
    }

    /// Why it lacks what a full one has.
    pub fn why_less(self) -> &'static str {
        match self {
            Self::Full => "nothing is left out",
            Self::Host => "this release is for figures",
            Self::Quick => "this is a quick release",
        }
    }
}

impl<'a> Crate<'a> {
    /// How its packages are asked for.
    pub fn on(self, target: Target) -> packages::Build<'a> {
        packages::Build { manifest: self.manifest, triple: target.triple, features: self.features }
    }
}

/// The environment with the tools of a release; `Err` says what is missing.
pub fn tools(release: &Release) -> Result<Venv, String> {
    fs::create_dir_all(&release.work).map_err(|error| error.to_string())?;
    let venv = Venv::with(&release.work, release.kind.tools())?;
    venv.ask("import maturin")?;
    Ok(venv)
}

/// Builds a wheel; it is not sealed yet.
pub fn wheel(release: &Release, tools: &Venv, target: Target, of: Crate) -> Result<PathBuf> {
    let out = release.work.join("wheels").join(target.triple).join(of.name);
    if out.exists() {
        fs::remove_dir_all(&out).context("cannot remove the wheels of an earlier release")?;
    }
    let mut maturin = tools.python();
    maturin.args(["-m", "maturin", "build", "--locked", "--profile", release.kind.profile()]);
    maturin.args(["--manifest-path", of.manifest, "--features", of.features, "--out"]).arg(&out);
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

/// The linker is looked for as a module of the first `python3`.
fn path(tools: &Venv) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = tools.interpreter().parent().map(Path::to_path_buf);
    let folders = first.into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).context("a folder of PATH has a colon in its name")
}

/// Nothing of this machine, of this moment or of this shell gets into what the
/// command builds.
fn repeatable(command: &mut Command, release: &Release) -> Result<()> {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let of_builds = ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "MATURIN_"];
        let is_folder = name == "CARGO_TARGET_DIR";
        if name == "RUSTFLAGS" || of_builds.iter().any(|of| name.starts_with(of)) && !is_folder {
            command.env_remove(name);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags(release)?.join("\x1f"));
    command.env("CARGO_INCREMENTAL", "0").env("SOURCE_DATE_EPOCH", &release.epoch);
    command.env("LC_ALL", "C").env("TZ", "UTC");
    Ok(())
}

/// The program inside the folder where cargo builds.
pub fn program(release: &Release, target: Target) -> PathBuf {
    let folder = match release.kind {
        Kind::Full | Kind::Host => release.target.join(target.triple),
        Kind::Quick => release.target.clone(),
    };
    folder.join(release.kind.profile()).join(release.kind.program().name)
}

/// The same program for this machine, as fast as it is had; where it is.
pub fn native(release: &Release) -> Result<PathBuf> {
    let of = release.kind.program();
    let mut cargo = shell::tool("CARGO", "cargo", &release.root);
    cargo.args(["build", "--locked", "--manifest-path", of.manifest, "--features", of.features]);
    shell::run(cargo.env("CARGO_TARGET_DIR", &release.target))?;
    Ok(release.target.join("debug").join(of.name))
}

/// Folders of this machine get other names in what is built. The last that fits
/// counts, so that the narrower follow the wider.
fn flags(release: &Release) -> Result<Vec<String>> {
    let (home, cargo_home) = homes();
    let rename = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let mut flags = vec![
        rename(&home, "~"),
        rename(&cargo_home, "~/.cargo"),
        rename(&release.root, "dyno"),
        rename(&release.target, "dyno/target"),
    ];
    // The folder below has a name that depends on how the registry is reached.
    let sources = fs::read_dir(cargo_home.join("registry/src")).into_iter().flatten().flatten();
    let mut sources: Vec<PathBuf> = sources.map(|entry| entry.path()).collect();
    sources.sort();
    flags.extend(sources.iter().map(|folder| rename(folder, "~/.cargo/registry/src")));
    Ok(flags)
}

/// Of the user, and of cargo.
fn homes() -> (PathBuf, PathBuf) {
    // Without one, a name that no path begins with: an empty one begins all.
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.map_or_else(|| PathBuf::from("no home"), PathBuf::from);
    let of_cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let of_cargo = of_cargo.unwrap_or_else(|| home.join(".cargo"));
    (home, of_cargo)
}

/// Fails if a program names a folder of this machine, with which another one
/// would build other bytes.
pub fn names_no_folder(release: &Release, program: &[u8]) -> Result<()> {
    let folders = [&homes().1, &release.root, &release.target];
    if let Some(folder) = named(program, &folders) {
        bail!("the program names {}, which no other machine has", folder.display());
    }
    Ok(())
}

/// The first of these folders that a program names a file of. One below the root,
/// such as `/src`, is also a part of other names: to build twice tells.
fn named<'a>(program: &[u8], folders: &[&'a PathBuf]) -> Option<&'a PathBuf> {
    let is_named = |folder: &Path| {
        let file = format!("{}/", folder.display());
        program.windows(file.len()).any(|part| part == file.as_bytes())
    };
    let is_deep = |folder: &Path| folder.components().count() > 2;
    folders.iter().copied().find(|folder| is_deep(folder) && is_named(folder))
}

/// Writes a wheel with these files among its metadata into a folder, with no
/// trace of when and where; its path there.
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
    Ok(shell::said(&mut script)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_by_a_file_in_it() {
        let program = b"\0/usr/src/lib.rs\0/opt/ann/dynometer/a.rs\0/opt/ann/.cargo/b.rs\0";
        let [short, longer, cargo] =
            ["/src", "/opt/ann/dyno", "/opt/ann/.cargo"].map(PathBuf::from);
        assert_eq!(named(program, &[&short, &longer]), None);
        assert_eq!(named(program, &[&short, &longer, &cargo]), Some(&cargo));
    }

    #[test]
    fn features_and_tools_are_those_of_the_project_files() {
        for of in [Kind::Full.program(), MODULE] {
            let project = crate::root().join(of.manifest).with_file_name("pyproject.toml");
            let project: toml::Table = fs::read_to_string(project).unwrap().parse().unwrap();
            let maturin = &project["tool"]["maturin"];
            let features = maturin.get("features").and_then(toml::Value::as_array);
            let features: Vec<&str> =
                features.into_iter().flatten().filter_map(toml::Value::as_str).collect();
            assert_eq!(features.join(","), of.features, "{}", of.name);
            let requires = project["build-system"]["requires"].as_array().unwrap();
            assert!(Kind::Full.tools().starts_with(requires[0].as_str().unwrap()), "{requires:?}");
        }
    }
}
