//! PTDaemon's log: uncertainty was watched, and nothing went wrong while it counted.

use std::collections::BTreeMap;

use super::clock::Stamp;
use super::recorded::Files;
use super::run::Run;
use super::session::Session;
use super::{Found, Program, Report};
use crate::finding::Severity;

const CHECK: &str = "power.daemon_log";
const FILE: &str = "power/ptd_logs.txt";
/// What goes wrong in ranging as a matter of course: the range is not known yet.
const EXPECTED_IN_RANGING: [&str; 6] = [
    "Can't evaluate uncertainty of this sample!",
    "Bad watts reading nan from ",
    "Bad amps reading nan from ",
    "Bad pf reading nan from ",
    "Bad volts reading nan from ",
    "Current appears to be too high for set range",
];
/// Says nothing of the measurement.
const HARMLESS: &str = "USB.";

/// Checks the log against the session and the run that counts.
pub(super) fn check(
    server: &Session,
    files: &Files,
    testing: &Run,
    program: Program,
    report: &mut Report,
) {
    if !files.has(FILE) {
        return;
    }
    let Some(ranging) = ranging_span(server, files) else {
        let message = "does not say when ranging began and ended".to_owned();
        let mend = "submit the log of the session that server.json names";
        return report.say(Found::error(CHECK, FILE, message, mend));
    };
    check_uncertainty_is_on(files, ranging.0, report);
    // Which kind of trouble, and in which part of the session.
    let mut seen: BTreeMap<(Severity, String), (usize, u32)> = BTreeMap::new();
    for (number, line) in files.lines(FILE) {
        let Some((severity, what)) = judge(line, ranging, testing, program) else { continue };
        seen.entry((severity, what)).or_insert((number, 0)).1 += 1;
        if program == Program::Official {
            break;
        }
    }
    for ((severity, what), (line, count)) in seen {
        let again = if count > 1 { format!(", {count} times") } else { String::new() };
        let mend = "find out why, and measure again";
        let found = Found::error(CHECK, FILE, format!("{what}{again}"), mend);
        report.say(Found { severity, ..found }.at(line));
    }
}

/// Begin and end of ranging, by the mark that the server gave it.
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
        return report.say(Found::error(CHECK, FILE, message, MEND));
    };
    if Stamp::leading(line).is_none_or(|(at, _)| at >= ranging) {
        let message = "uncertainty checking was not activated before ranging".to_owned();
        report.say(Found::error(CHECK, FILE, message, MEND).at(number));
    }
}

/// What a line with an error or a warning means; `None` if nothing.
fn judge(
    line: &str,
    (begin, end): (Stamp, Stamp),
    testing: &Run,
    program: Program,
) -> Option<(Severity, String)> {
    let after = |word: &str| line.split_once(word).map(|(_, text)| text).filter(|t| !t.is_empty());
    let at = Stamp::leading(line).map(|(at, _)| at);
    if let Some(text) = after("WARNING:") {
        let Some(at) = at else { return Some(without_stamp(line)) };
        // The official program adds its tolerance of milliseconds to seconds.
        let tolerance_ms = if program == Program::Official { 800_000 } else { 800 };
        let (from, to) = testing.span()?;
        let inside = from.shifted_ms(tolerance_ms) < at && at < to.shifted_ms(-tolerance_ms);
        let above = is_above_limit(text);
        let severity = if above { Severity::Error } else { Severity::Warning };
        let what = if above { "a reading is too uncertain" } else { text.trim() };
        return inside.then(|| (severity, format!("while the run counted, a warning: {what}")));
    }
    let text = after("ERROR:")?.trim();
    let Some(at) = at else { return Some(without_stamp(line)) };
    if text == HARMLESS {
        let what = format!("an error that is taken as harmless: {text}");
        return Some((Severity::Warning, what));
    }
    if !(begin < at && at < end) {
        return Some((Severity::Error, format!("outside of ranging, an error: {text}")));
    }
    let expected = EXPECTED_IN_RANGING.iter().any(|known| text.starts_with(known));
    (!expected).then(|| (Severity::Warning, format!("in ranging, an uncommon error: {text}")))
}

fn without_stamp(line: &str) -> (Severity, String) {
    (
        Severity::Error,
        format!("a line without a time: {}", line.chars().take(80).collect::<String>()),
    )
}

/// `Uncertainty N.NN%, which is above 1.00% limit for the last sample!`
fn is_above_limit(text: &str) -> bool {
    let number = text.split_once("Uncertainty ").map_or("", |(_, rest)| rest);
    let (number, rest) = number.split_once('%').unwrap_or_default();
    number.parse::<f64>().is_ok()
        && rest.starts_with(", which is above 1.00% limit for the last sample!")
}
