//! `cargo xtask screenshots`: the pictures of the documentation, and those that
//! tests compare with.

mod svg;
#[cfg(target_os = "linux")]
mod terminal;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::peers::browser;

/// A picture, or a few of one kind.
type Part = (&'static str, fn(&Path) -> Result<()>);

const PARTS: &[Part] = &[
    ("report", browser::pictures),
    #[cfg(target_os = "linux")]
    ("tui", terminal::picture),
];

/// Writes the pictures of the named parts, or of all.
///
/// # Errors
/// What keeps them from being made.
pub fn run(root: &Path, parts: &[&str]) -> Result<ExitCode> {
    if let Some(unknown) = parts.iter().find(|part| PARTS.iter().all(|(name, _)| name != *part)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no part '{unknown}'; there are {}", names.join(", "));
        return Ok(ExitCode::from(2));
    }
    for (_, draw) in PARTS.iter().filter(|(name, _)| parts.is_empty() || parts.contains(name)) {
        draw(root)?;
    }
    Ok(ExitCode::SUCCESS)
}
