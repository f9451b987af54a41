//! What `bench/dropin` and `bench/report` share: what they are asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

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

    /// Whether no figure is named.
    pub fn is_all(&self) -> bool {
        self.wanted.is_empty()
    }

    pub fn skip(&self, what: &str, why: &str) {
        eprintln!("skipped {what}: {why}");
    }
}
