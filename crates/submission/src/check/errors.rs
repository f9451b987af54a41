//! Errors that LoadGen logged, as the programs and the rules count them.

use std::path::Path;

use super::catalogue::LOG_MARKS;
use super::issues::{Issues, Location};
use super::{Place, Program};
use crate::facts::detail::DetailLog;
use crate::python;
use dyno_rules::{Behavior, Round, Version};

/// Whether a single-file checker finds errors in a log. The last one uses the log's own count if
/// there is one, and takes a count that is not a number for errors.
pub(super) fn has_errors(log: &DetailLog, program: Program) -> bool {
    if program.does(Behavior::ErrorWords) {
        return log.errors.words > 0;
    }
    let counted = log.value("num_errors").filter(|_| !program.does(Behavior::ErrorLines));
    counted.map_or(log.errors.count > 0, |count| python::number(count) != Some(0.0))
}

/// Returns the first line without an error flag if a single-file checker reads the flags: to count
/// errors, or to list errors that the log counts. It raises an exception at such a line.
pub(super) fn unflagged_line(log: &DetailLog, program: Program) -> Option<usize> {
    let is_asked = program.one_file().is_some() && !program.does(Behavior::ErrorWords);
    let counts = program.does(Behavior::ErrorLines) || log.value("num_errors").is_none();
    log.unmarked.filter(|_| is_asked && (counts || has_errors(log, program)))
}

/// Reports the first line without an error flag. The program of v5.1 reads no flags if the log counts
/// no errors, so that the line is a warning by the rules of that round.
pub(super) fn check_marks(
    place: &Place<'_, '_>,
    log: &DetailLog,
    path: &Path,
    issues: &mut Issues,
) {
    let Some(line) = log.unmarked else { return };
    let mut own = issues.another();
    let at = Location::path(path).line(Some(line));
    own.add(&LOG_MARKS, at, "`metadata.is_error` is missing");
    let is_unread = place.round.version == Version::new(5, 1) && log.whole("num_errors") == Some(0);
    if issues.program() == Program::Strict && is_unread && !place.options.forensic {
        own.waive(&[&LOG_MARKS]);
    }
    issues.append(own);
}

/// Whether a log has errors by the rules of a round. The checker skips several errors in v0.5, and
/// searches for the word in v0.7 (submission-checker.py r0.7:63 and 408).
pub(super) fn has_errors_by_rules(round: &Round, log: &DetailLog) -> bool {
    if round.version < Version::new(0, 7) {
        return log.errors.first_in_v0_5.is_some();
    }
    let is_searched = round.version < Version::new(1, 0);
    log.errors.count > 0 || (is_searched && log.errors.words > 0)
}

/// Returns the line and the text of the first error of a log that has errors.
pub(super) fn first_error<'a>(round: &Round, log: &'a DetailLog) -> (Option<usize>, &'a str) {
    let errors = &log.errors;
    let in_v0_5 = errors.first_in_v0_5.as_ref().filter(|_| round.version < Version::new(0, 7));
    match (in_v0_5.or(errors.first.first()), log.line_of("num_errors")) {
        (Some((line, text)), _) => (Some(*line), text.as_str()),
        (None, Some(line)) => (Some(line), "the log counts errors"),
        (None, None) => (None, "a line has the word ERROR"),
    }
}
