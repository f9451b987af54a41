//! Checks PTDaemon's log: uncertainty checking was active, and no errors occurred during the run
//! that counts.

use std::collections::BTreeMap;

use super::clock::Stamp;
use super::recorded::Files;
use super::run::Run;
use super::session::Session;
use super::{PowerChecker, PowerFinding, Report};
use crate::finding::Severity;
use crate::python;

const CHECK: &str = "power.daemon_log";
const FILE: &str = "power/ptd_logs.txt";
/// Errors that are expected in ranging, before the range is known.
const EXPECTED_IN_RANGING: [&str; 6] = [
    "Can't evaluate uncertainty of this sample!",
    "Bad watts reading nan from ",
    "Bad amps reading nan from ",
    "Bad pf reading nan from ",
    "Bad volts reading nan from ",
    "Current appears to be too high for set range",
];
/// Error that does not affect the measurement.
const HARMLESS: &str = "USB.";

/// Checks the log against the session and the run that counts.
pub(super) fn check(
    server: &Session,
    files: &Files,
    testing: &Run,
    program: PowerChecker,
    report: &mut Report,
) {
    if !files.has(FILE) {
        return;
    }
    let Some(ranging) = ranging_span(server, files) else {
        let message = "has no begin and end of ranging".to_owned();
        let mend = "submit the log of the session that server.json names";
        return report.add(PowerFinding::error(CHECK, FILE, message, mend));
    };
    if program != PowerChecker::Rules && python::int(server.value(&["timezone"])).is_none() {
        let message = "the server's `timezone` is not a whole number".to_owned();
        let mend = "submit server.json unchanged, as the server wrote it";
        report.add(PowerFinding::error(CHECK, FILE, message, mend));
    }
    check_uncertainty_is_on(files, ranging.0, report);
    // First line and number of occurrences, by severity and message.
    let mut problems: BTreeMap<(Severity, String), (usize, u32)> = BTreeMap::new();
    for (number, line) in files.lines(FILE) {
        let Some((severity, what)) = judge(line, ranging, testing, program) else { continue };
        problems.entry((severity, what)).or_insert((number, 0)).1 += 1;
        if program != PowerChecker::Rules {
            break;
        }
    }
    for ((severity, what), (line, count)) in problems {
        let again = if count > 1 { format!(", {count} times") } else { String::new() };
        let mend = "find the cause, and measure again";
        let found = PowerFinding::error(CHECK, FILE, format!("{what}{again}"), mend);
        report.add(PowerFinding { severity, ..found }.at(line));
    }
}

/// Returns the start and the end of ranging, found by the mark that the server set.
fn ranging_span(server: &Session, files: &Files) -> Option<(Stamp, Stamp)> {
    let go = format!("Go with mark '{}_ranging'", server.text(&["session_name"])?);
    let mut lines = files.lines(FILE).filter_map(|(_, line)| Stamp::leading(line));
    let (begin, _) = lines.find(|(_, text)| text.trim_start_matches(':').trim() == go)?;
    let (end, _) =
        lines.find(|(_, text)| text.trim_start_matches(':').trim() == "Completed test")?;
    Some((begin, end))
}

fn check_uncertainty_is_on(files: &Files, ranging: Stamp, report: &mut Report) {
    const MEND: &str = "measure again with a PTDaemon that checks uncertainty (`-u` off)";
    let activated = |line: &str| {
        let model = line.split_once("Uncertainty checking for Yokogawa").map(|(_, rest)| rest);
        let model = model.and_then(|rest| rest.split_once(" is activated")).map(|(model, _)| model);
        model.is_some_and(|model| !model.is_empty() && !model.contains(char::is_whitespace))
    };
    let first = files.lines(FILE).find(|(_, line)| activated(line));
    let Some((number, line)) = first else {
        let message = "uncertainty checking was never activated".to_owned();
        return report.add(PowerFinding::error(CHECK, FILE, message, MEND));
    };
    if Stamp::leading(line).is_none_or(|(time, _)| time >= ranging) {
        let message = "uncertainty checking was not activated before ranging".to_owned();
        report.add(PowerFinding::error(CHECK, FILE, message, MEND).at(number));
    }
}

/// Returns the severity and the message of a line with an error or a warning, or `None` if the
/// line has no effect.
fn judge(
    line: &str,
    (begin, end): (Stamp, Stamp),
    testing: &Run,
    program: PowerChecker,
) -> Option<(Severity, String)> {
    let after = |word: &str| line.split_once(word).map(|(_, text)| text).filter(|t| !t.is_empty());
    let time = Stamp::leading(line).map(|(time, _)| time);
    if let Some(text) = after("WARNING:") {
        let Some(time) = time else { return Some(without_stamp(line)) };
        // The official program adds its tolerance of milliseconds to seconds.
        let tolerance_ms = if program != PowerChecker::Rules { 800_000 } else { 800 };
        let (run_begin, run_end) = testing.span()?;
        let inside =
            run_begin.shifted_ms(tolerance_ms) < time && time < run_end.shifted_ms(-tolerance_ms);
        let above = is_above_limit(text);
        let severity = if above { Severity::Error } else { Severity::Warning };
        let what = if above { "a reading is too uncertain" } else { text.trim() };
        return inside.then(|| (severity, format!("warning during the measured run: {what}")));
    }
    let text = after("ERROR:")?.trim();
    let Some(time) = time else { return Some(without_stamp(line)) };
    if text == HARMLESS {
        let what = format!("harmless error: {text}");
        return Some((Severity::Warning, what));
    }
    if !(begin < time && time < end) {
        return Some((Severity::Error, format!("error outside ranging: {text}")));
    }
    let expected = EXPECTED_IN_RANGING.iter().any(|known| text.starts_with(known));
    (!expected).then(|| (Severity::Warning, format!("unexpected error in ranging: {text}")))
}

fn without_stamp(line: &str) -> (Severity, String) {
    (Severity::Error, format!("line without a time: {}", line.chars().take(80).collect::<String>()))
}

/// Whether the text is `Uncertainty N.NN%, which is above 1.00% limit for the last sample!`.
fn is_above_limit(text: &str) -> bool {
    let number = text.split_once("Uncertainty ").map_or("", |(_, rest)| rest);
    let (number, rest) = number.split_once('%').unwrap_or_default();
    number.parse::<f64>().is_ok()
        && rest.starts_with(", which is above 1.00% limit for the last sample!")
}
