//! `cargo xtask screenshots`: pictures of the documentation, and those with which tests compare.

mod svg;
#[cfg(target_os = "linux")]
mod terminal;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use dyno_peers::groups;

/// Name of one or several pictures, and the function that writes them.
type Part = (&'static str, fn(&Path) -> Result<()>);

const PARTS: &[Part] = &[
    ("report", groups::pictures),
    #[cfg(target_os = "linux")]
    ("tui", terminal::picture),
];

/// Options of `cargo xtask screenshots`.
#[derive(Debug, Args)]
pub struct Options {
    /// Pictures to write; all when none is named
    #[arg(value_name = "PART", value_parser = PossibleValuesParser::new(PARTS.iter().map(|(name, _)| *name)))]
    parts: Vec<String>,
}

/// Writes the wanted pictures.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let is_wanted =
        |name| options.parts.is_empty() || options.parts.iter().any(|part| part == name);
    for (_, draw) in PARTS.iter().filter(|(name, _)| is_wanted(name)) {
        draw(root)?;
    }
    Ok(ExitCode::SUCCESS)
}
