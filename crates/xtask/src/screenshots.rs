//! `cargo xtask screenshots`: the pictures of the documentation, and those that
//! tests compare with.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::peers::browser;

/// Writes the pictures of the named part, or of all.
///
/// # Errors
/// What keeps them from being made.
pub fn run(root: &Path, parts: &[&str]) -> Result<ExitCode> {
    if let Some(unknown) = parts.iter().find(|part| **part != "report") {
        eprintln!("there is no part '{unknown}'; there is report");
        return Ok(ExitCode::from(2));
    }
    browser::pictures(root)?;
    Ok(ExitCode::SUCCESS)
}
