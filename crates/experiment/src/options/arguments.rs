//! Dotted flags: every key of `dyno.toml` is also a flag with its full name.
//!
//! `--settings.server_target_qps 100` is `--set server_target_qps=100`, and `--run.out DIR` is
//! `--out DIR`. They are rewritten before the flags are parsed, because settings are not known to
//! the parser.
//!
//! Flags whose value is optional take it after `=` only. `--virtual false` and `--sweep 1,4` are
//! joined here, because the parser would read the value as the system to measure.

use std::ffi::OsString;
use std::iter::Peekable;

use crate::failure::Failure;
use crate::options::keys::KEYS;

/// Returns the arguments with dotted flags expanded.
///
/// # Errors
/// A dotted flag has no value.
pub fn expand(arguments: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, Failure> {
    let mut expanded = Vec::new();
    let mut arguments = arguments.peekable();
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
            let argument = with_value(text, &mut arguments).map_or(argument, OsString::from);
            expanded.push(argument);
        }
    }
    Ok(expanded)
}

/// Returns a flag whose value is optional with the value that follows it, if one does.
fn with_value(
    flag: &str,
    arguments: &mut Peekable<impl Iterator<Item = OsString>>,
) -> Option<String> {
    let name = flag.strip_prefix("--")?;
    let is_switch = || KEYS.iter().any(|key| key.name == name && key.value.is_empty());
    let value = arguments.next_if(|next| {
        next.to_str().is_some_and(|next| match name {
            "sweep" => is_loads(next),
            _ => matches!(next, "true" | "false") && is_switch(),
        })
    })?;
    Some(format!("{flag}={}", value.to_str()?))
}

/// Returns whether a text is a list or range of loads, and not a URL, address or path.
fn is_loads(text: &str) -> bool {
    let is_list = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == ',');
    is_list || (text.contains("..") && !text.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[&str], expected: &[&str]) {
        let expanded = expand(given.iter().map(OsString::from)).unwrap();
        assert_eq!(expanded, expected.iter().map(OsString::from).collect::<Vec<_>>());
    }

    #[test]
    fn optional_values_may_follow_a_space() {
        check(&["run", "--virtual", "false"], &["run", "--virtual=false"]);
        check(&["run", "--virtual", "digits"], &["run", "--virtual", "digits"]);
        check(&["run", "--quiet", "false"], &["run", "--quiet", "false"]);
        check(&["--sweep", "1,4", "127.0.0.1:8000"], &["--sweep=1,4", "127.0.0.1:8000"]);
        check(&["--sweep", "request-rate=1..8:x2"], &["--sweep=request-rate=1..8:x2"]);
        for target in ["127.0.0.1:8000", "http://h:1", "../model.onnx", "onnx:model.onnx"] {
            check(&["--sweep", target], &["--sweep", target]);
        }
    }

    #[test]
    fn dotted_flags_become_assignments() {
        check(&["run", "--settings.min_query_count", "5"], &["run", "--set", "min_query_count=5"]);
        check(&["--settings.Server.x=1", "-q"], &["--set", "Server.x=1", "-q"]);
        check(&["--run.conf_model", "bert"], &["--conf-model", "bert"]);
        assert!(expand(["--settings.x"].iter().map(OsString::from)).is_err());
    }
}
