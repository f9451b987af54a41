//! Other programs and their output.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Returns a command of the program that an environment variable names, or else of `name`, in the
/// folder `root`. Cargo sets such variables for its own tools.
pub fn tool(variable: &str, name: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()));
    command.current_dir(root);
    command
}

/// Runs a command with its stdout redirected to stderr.
///
/// # Errors
/// The command does not start, or fails.
pub fn run(command: &mut Command) -> Result<()> {
    // Without stdin, the command cannot block on the terminal.
    let status = command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr())).status();
    let status = status.with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("{}: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and returns its stdout, trimmed.
///
/// ```
/// let version = dyno_peers::shell::output(std::process::Command::new("cargo").arg("--version"))?;
/// assert!(version.starts_with("cargo "));
/// # anyhow::Ok(())
/// ```
///
/// # Errors
/// The command does not start, or fails; the error contains its stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", shown(command), output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command and passes each line of its stdout to `read` as soon as it is printed.
///
/// # Errors
/// The command does not start, or fails, or `read` does.
pub fn each_line(command: &mut Command, mut read: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run {}", shown(command)))?;
    let stdout = child.stdout.take().context("stdout is piped")?;
    for line in BufReader::new(stdout).lines() {
        read(&line.with_context(|| format!("cannot read the output of {}", shown(command)))?)?;
    }
    let status = child.wait().with_context(|| format!("cannot wait for {}", shown(command)))?;
    if !status.success() {
        bail!("{}: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command that prints one JSON value per line, and passes each value to `read`.
///
/// # Errors
/// As [`each_line`], or a line is not JSON.
pub fn each_value(command: &mut Command, mut read: impl FnMut(Value) -> Result<()>) -> Result<()> {
    each_line(command, |line| {
        read(serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?)
    })
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_failed_command_contains_the_command_line() {
        let error = output(Command::new("no-such-program-here").arg("a")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run no-such-program-here a");
        let cargo = || crate::cargo::command(&crate::cargo::root());
        let error = output(cargo().arg("no-such-command")).unwrap_err();
        assert!(error.to_string().contains("no-such-command"), "{error}");
        let error = each_line(cargo().arg("no-such-command"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("no-such-command: exit"), "{error}");
    }
}
