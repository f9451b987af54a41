//! Other programs, and what they say.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A tool of Rust's: what the variable names (cargo sets it), or this name.
pub fn tool(variable: &str, name: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()));
    command.current_dir(root);
    command
}

/// Runs a command whose talk goes to stderr, and fails if it does.
pub fn run(command: &mut Command) -> Result<()> {
    // One may not hold what the other waits for.
    let status = command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr())).status();
    let status = status.with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("{}: {status}", shown(command));
    }
    Ok(())
}

/// What a command prints on stdout, trimmed.
pub fn said(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", shown(command), output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_told_with_its_words() {
        let error = said(Command::new("no-such-program-here").arg("a")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run no-such-program-here a");
        let cargo = said(tool("CARGO", "cargo", &crate::root()).arg("no-such-command"));
        assert!(cargo.unwrap_err().to_string().contains("no-such-command"), "cargo says which");
    }
}
