//! Errors of flags with numbers, in the words of other errors of values.

use std::error::Error as _;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cmd::command_line;

/// Replaces the words of a number parser in the error of a command line.
pub fn with_expectation(error: Error) -> Error {
    match problem(&error) {
        Some(problem) => {
            let message = format!("{problem}\n\nFor more information, try '--help'.\n");
            Error::raw(error.kind(), message).with_cmd(&command_line())
        }
        None => error,
    }
}

/// Returns the first paragraph of an error; the others explain how to get help.
pub fn cause(error: &Error) -> String {
    let text = problem(error).unwrap_or_else(|| error.to_string());
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the problem of a flag with a wrong number; `None` for other errors.
fn problem(error: &Error) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (flag, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let expected = expected_number(error.source()?, value)?;
    Some(format!("invalid value '{value}' for '{flag}': expected {expected}, found `{value}`"))
}

/// Returns the number that a flag takes, by the error of its parser; `None` for other errors.
fn expected_number(error: &(dyn std::error::Error + 'static), value: &str) -> Option<String> {
    if error.is::<ParseFloatError>() {
        return Some("a number".to_owned());
    }
    let Some(error) = error.downcast_ref::<ParseIntError>() else {
        return expected_range(&error.to_string(), value);
    };
    let is_negative = value.strip_prefix('-').is_some_and(|digits| digits.parse::<u64>().is_ok());
    let expected = match error.kind() {
        IntErrorKind::InvalidDigit if is_negative => "a whole number that is not negative",
        IntErrorKind::Zero => "a number of at least 1",
        IntErrorKind::PosOverflow => "a smaller number",
        IntErrorKind::NegOverflow => "a larger number",
        _ => "a whole number",
    };
    Some(expected.to_owned())
}

/// Returns the numbers that a flag takes. The range is only in the text of clap's error.
fn expected_range(problem: &str, value: &str) -> Option<String> {
    let (_, range) = problem.split_once(" is not in ")?;
    let (from, to) = range.split_once("..")?;
    let to: u64 = to.trim_start_matches('=').parse().ok()?;
    let is_above = value.parse::<u64>().is_ok_and(|value| value > to);
    // The largest number of a type is shown only to users who exceed it.
    Some(if is_above || to < u64::from(u32::MAX) {
        format!("a number from {from} to {to}")
    } else {
        format!("a number of at least {from}")
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::cmd::Dyno;

    /// Returns the message for a wrong command line.
    fn read(arguments: &[&str]) -> String {
        Dyno::read(arguments.iter().map(OsString::from).collect()).unwrap_err().to_string()
    }

    #[test]
    fn numbers_are_answered_without_words_of_parsers() {
        for (arguments, expected) in [
            (&["serve", "--queue", "x"][..], "'--queue <N>': expected a whole number, found `x`"),
            (
                &["serve", "--queue=-1"][..],
                "expected a whole number that is not negative, found `-1`",
            ),
            (&["serve", "--queue", "0"][..], "expected a number of at least 1, found `0`"),
            (&["serve", "--queue", "99999999999999999999"][..], "expected a smaller number"),
            (&["probe", "--queries", "0"][..], "expected a number from 1 to 1000, found `0`"),
            (&["sweep", "--repeat", "0"][..], "expected a number of at least 1, found `0`"),
            (&["sweep", "--repeat", "4294967296"][..], "expected a number from 1 to 4294967295"),
            (&["audit", "--end-of-text=-x"][..], "expected a whole number, found `-x`"),
            (&["search", "--from", "x"][..], "'--from <LOAD>': expected a number, found `x`"),
        ] {
            let message = read(&[&["dyno"][..], arguments].concat());
            assert!(message.starts_with("error: invalid value '"), "{message}");
            assert!(message.contains(expected), "{message}");
            assert!(message.ends_with("\n\nFor more information, try '--help'.\n"), "{message}");
        }
        let other = read(&["dyno", "serve", "--request-limit", "5"]);
        assert!(other.contains("expected a duration such as"), "{other}");
    }
}
