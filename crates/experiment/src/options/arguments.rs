//! Dotted flags: every key of `dyno.toml` is also a flag with its full name.
//!
//! `--settings.server_target_qps 100` is `--set server_target_qps=100`, and `--run.out DIR` is
//! `--out DIR`. They are rewritten before the flags are parsed, because settings are not known to
//! the parser.

use std::ffi::OsString;

use crate::failure::Failure;

/// Returns the arguments with dotted flags expanded.
///
/// # Errors
/// A dotted flag has no value.
pub fn expand(arguments: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, Failure> {
    let mut expanded = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.to_str() else {
            expanded.push(argument);
            continue;
        };
        if let Some(key) = text.strip_prefix("--settings.") {
            let assignment = match key.split_once('=') {
                Some(_) => key.to_string(),
                None => {
                    let value = arguments.next().and_then(|value| value.into_string().ok());
                    let value = value.ok_or_else(|| {
                        Failure::usage(format!("`{text}` needs a value"))
                            .hint(format!("use {text} VALUE or {text}=VALUE"))
                    })?;
                    format!("{key}={value}")
                }
            };
            expanded.push("--set".into());
            expanded.push(assignment.into());
        } else if let Some(key) = text.strip_prefix("--run.") {
            expanded.push(format!("--{}", key.replace('_', "-")).into());
        } else {
            expanded.push(argument);
        }
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[&str], expected: &[&str]) {
        let expanded = expand(given.iter().map(OsString::from)).unwrap();
        assert_eq!(expanded, expected.iter().map(OsString::from).collect::<Vec<_>>());
    }

    #[test]
    fn dotted_flags_become_assignments() {
        check(&["run", "--settings.min_query_count", "5"], &["run", "--set", "min_query_count=5"]);
        check(&["--settings.Server.x=1", "-q"], &["--set", "Server.x=1", "-q"]);
        check(&["--run.conf_model", "bert"], &["--conf-model", "bert"]);
        assert!(expand(["--settings.x"].iter().map(OsString::from)).is_err());
    }
}
