//! What commands of `bench` share: what they are asked for, and programs that they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::peers::target_folder;

/// One run of a benchmark.
pub struct Bench<'a> {
    /// Of the repository.
    pub root: &'a Path,
    /// Where it may leave what it sets up.
    pub folder: PathBuf,
    /// Small, for CI.
    pub quick: bool,
    /// Only figures whose name contains one of these; all if empty.
    wanted: Vec<String>,
}

impl<'a> Bench<'a> {
    /// As the arguments say, with `folder` below that where cargo builds; `Err`
    /// inside after saying what is wrong with them.
    pub fn asked(root: &'a Path, folder: &str, args: &[&str]) -> Result<Result<Self, ExitCode>> {
        let (flags, names): (Vec<&str>, Vec<&str>) =
            args.iter().partition(|arg| arg.starts_with("--"));
        if let Some(unknown) = flags.iter().find(|flag| **flag != "--quick") {
            eprintln!("there is no flag '{unknown}'; there is --quick");
            return Ok(Err(ExitCode::from(2)));
        }
        let folder = target_folder(root)?.join(folder);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let wanted = names.into_iter().map(str::to_owned).collect();
        Ok(Ok(Self { root, folder, quick: !flags.is_empty(), wanted }))
    }

    pub fn wants(&self, name: &str) -> bool {
        self.is_all() || self.asks(name)
    }

    /// Whether a part of this name is among the arguments.
    pub fn asks(&self, name: &str) -> bool {
        self.wanted.iter().any(|part| name.contains(part))
    }

    /// What figures are named by, as options of a program that prints some of them.
    pub fn only(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().flat_map(|part| ["--only", part])
    }

    /// Whether figures are named, and each with one of these parts.
    pub fn asks_only(&self, parts: &[&str]) -> bool {
        let is_one = |wanted: &String| parts.iter().any(|part| wanted.contains(part));
        !self.is_all() && self.wanted.iter().all(is_one)
    }

    /// Whether no figure is named.
    pub fn is_all(&self) -> bool {
        self.wanted.is_empty()
    }

    pub fn skip(&self, what: &str, why: &str) {
        eprintln!("skipped {what}: {why}");
    }
}

/// The program of a package's bench, built.
///
/// # Errors
/// It does not build.
pub fn program(root: &Path, package: &str, name: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["bench", "--package", package, "--bench", name, "--no-run"]);
    build.args(["--message-format", "json-render-diagnostics"]).current_dir(root);
    let built = build.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !built.status.success() {
        bail!("cargo bench --package {package} --bench {name} failed");
    }
    let messages = String::from_utf8(built.stdout)?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_ours = message["target"]["name"] == name;
        message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
    };
    let found = messages.lines().find_map(executable);
    found.with_context(|| format!("cargo named no program for the bench {name}"))
}
