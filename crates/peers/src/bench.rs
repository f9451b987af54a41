//! What benchmarks and comparisons share: their options and their working folder.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::{cargo, folder};

/// Options of a benchmark.
///
/// ```
/// use dyno_peers::bench::FigureOptions;
///
/// let options = FigureOptions { quick: true, parts: vec!["lstm".to_owned()] };
/// assert_eq!(options.to_arguments(), ["--quick", "lstm"]);
/// ```
#[derive(Debug, Clone, Default, Args)]
pub struct FigureOptions {
    /// Run a small version, as CI does
    #[arg(long)]
    pub quick: bool,
    /// Print only figures whose names contain one of these parts
    #[arg(value_name = "PART OF A NAME")]
    pub parts: Vec<String>,
}

impl FigureOptions {
    /// Returns the command line arguments that mean these options.
    pub fn to_arguments(&self) -> Vec<&str> {
        let flag = self.quick.then_some("--quick");
        flag.into_iter().chain(self.parts.iter().map(String::as_str)).collect()
    }
}

/// One run of a benchmark or of a group of comparisons.
#[derive(Debug)]
pub struct Bench<'a> {
    /// Root of the repository.
    pub root: &'a Path,
    /// Folder for everything that the run sets up; later runs reuse it.
    pub folder: PathBuf,
    /// Whether a small run is enough.
    pub quick: bool,
    /// Parts of the names of the wanted figures; empty means all figures.
    parts: Vec<String>,
}

impl<'a> Bench<'a> {
    /// Creates the folder `name` below cargo's target folder.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(root: &'a Path, name: &str, options: &FigureOptions) -> Result<Self> {
        let folder = cargo::target_folder(root)?.join(name);
        folder::create(&folder)?;
        Ok(Self { root, folder, quick: options.quick, parts: options.parts.clone() })
    }

    /// Returns whether a figure is wanted: by its name, or because all are.
    pub fn wants(&self, name: &str) -> bool {
        self.wants_all() || self.names(name)
    }

    /// Returns whether an argument is a part of this name.
    pub fn names(&self, name: &str) -> bool {
        self.parts.iter().any(|part| name.contains(part))
    }

    /// Returns the arguments `--only PART` for a program that prints several figures.
    pub fn only(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(|part| ["--only", part])
    }

    /// Returns whether arguments are given and each of them contains one of these parts.
    pub fn names_only(&self, parts: &[&str]) -> bool {
        let is_one = |wanted: &String| parts.iter().any(|part| wanted.contains(part));
        !self.wants_all() && self.parts.iter().all(is_one)
    }

    /// Returns whether all figures are wanted, because no argument names any.
    pub fn wants_all(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns what a figure needs, or reports on stderr that the figure is skipped because this machine
    /// lacks it.
    pub fn or_skip<T>(&self, what: &str, needed: Result<T, String>) -> Option<T> {
        needed.inspect_err(|missing| self.skip(what, missing)).ok()
    }

    /// Reports on stderr that something is skipped, and why.
    pub fn skip(&self, what: &str, why: &str) {
        eprintln!("skipped {what}: {why}");
    }
}
