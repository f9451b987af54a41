//! Checks the messages between client and server, and between server and PTDaemon.

use super::equipment::{self, Equipment};
use super::session::{Exchange, Session};
use super::{PowerFinding, Report};

const CHECK_DAEMON: &str = "power.daemon";
const CHECK_MESSAGES: &str = "power.messages";

/// Prefixes of PTDaemon commands, with the reply that each requires.
const REPLIES: [(&str, &str); 4] = [
    ("SR,A", "Range A changed"),
    ("SR,V", "Range V changed"),
    (
        "Go,1000,",
        "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples",
    ),
    ("Stop", "Stopping untimed measurement"),
];

/// Checks that PTDaemon has a supported version and analyzer, confirmed its commands, and was
/// reset to its initial ranges.
pub(super) fn check_daemon(server: &Session, rules: &Equipment, report: &mut Report) {
    let exchanges = server.exchanges("ptd_messages");
    check_identify(server, &exchanges, rules, report);
    for (command, reply) in REPLIES {
        check_replies(server, &exchanges, command, reply, report);
    }
    check_ranges(server, &exchanges, report);
}

fn check_identify(
    server: &Session,
    exchanges: &[Exchange<'_>],
    rules: &Equipment,
    report: &mut Report,
) {
    let identify = exchanges.iter().find(|exchange| exchange.command == "Identify");
    let reply = identify.map_or("", |exchange| exchange.reply.as_str());
    if reply.is_empty() {
        let message = "PTDaemon did not identify itself".to_owned();
        let mend = "measure again; the server asks PTDaemon to identify itself";
        return report.add(PowerFinding::error(CHECK_DAEMON, server.file, message, mend));
    }
    let after = reply.split_once("version=").map_or("", |(_, after)| after);
    let version = after.split_once('-').map_or("", |(version, _)| version);
    if !rules.daemons.iter().any(|known| known == version) {
        let message = format!("PTDaemon `{version}` is not supported in this round");
        let mend = "measure with a version of PTDaemon that the round supports";
        let found = PowerFinding::error(CHECK_DAEMON, server.file, message, mend);
        report.add(found.expected(rules.daemons.join(" or ")));
    }
    let analyzer = reply.split(',').next().unwrap_or_default();
    if !equipment::analyzers().any(|known| known == analyzer) {
        let message = format!("the power analyzer `{analyzer}` is not supported");
        let mend = "measure with a supported power analyzer";
        let list: Vec<&str> = equipment::analyzers().collect();
        let found = PowerFinding::error(CHECK_DAEMON, server.file, message, mend);
        report.add(found.expected(format!("one of {}", list.join(", "))));
    }
}

fn check_replies(
    server: &Session,
    exchanges: &[Exchange<'_>],
    command: &str,
    expected: &str,
    report: &mut Report,
) {
    let mut stops = 0;
    for exchange in exchanges.iter().filter(|exchange| exchange.command.starts_with(command)) {
        stops += usize::from(exchange.command == "Stop");
        // There are two measurements to stop. A third stop finds none, which is not an error.
        let expected = if stops > 2 { "Error: no measurement to stop" } else { expected };
        if exchange.reply != expected {
            let message =
                format!("PTDaemon answered `{}` with `{}`", exchange.command, exchange.reply);
            let mend = "find out why PTDaemon refused the command, and measure again";
            let found = PowerFinding::error(CHECK_DAEMON, server.file, message, mend);
            report.add(found.expected(expected));
        }
    }
}

fn check_ranges(server: &Session, exchanges: &[Exchange<'_>], report: &mut Report) {
    const MEND: &str = "let the server end the session itself; it then resets the ranges";
    // Format: `Ranges,<auto 0|1>,<amps>,<auto 0|1>,<volts>`.
    let ranges = exchanges.iter().find(|exchange| exchange.command == "RR");
    let ranges = ranges.map_or("", |exchange| exchange.reply.as_str());
    let fields: Vec<&str> = ranges.split(',').collect();
    for (name, letter, index) in [("amps", "A", 1), ("volts", "V", 3)] {
        let value = fields.get(index + 1).copied().unwrap_or_default();
        let initial = match (fields.get(index), value.parse::<f64>()) {
            (Some(&"0"), Ok(range)) if range > 0.0 => value,
            (Some(_), Ok(_)) => "Auto",
            _ => {
                let message = format!("the initial range for {name} is not in `{ranges}`");
                report.add(PowerFinding::error(CHECK_DAEMON, server.file, message, MEND));
                continue;
            }
        };
        let begins = format!("SR,{letter}");
        let set = exchanges.iter().filter(|exchange| exchange.command.starts_with(&begins));
        let (count, last) = set.fold((0, ""), |(count, _), e| (count + 1, e.command));
        let expected = format!("{begins},{initial}");
        // The range is set three times: automatic for ranging, the found range for testing, then
        // the initial one.
        if count < 3 || last != expected {
            let found = if count < 3 { "never reset" } else { last };
            let message =
                format!("the range for {name} is not reset to its initial value: {found}");
            report.add(
                PowerFinding::error(CHECK_DAEMON, server.file, message, MEND).expected(expected),
            );
        }
    }
}

/// Checks that client and server logged the same messages and have the same version.
pub(super) fn check_session(client: &Session, server: &Session, report: &mut Report) {
    const MEND: &str = "submit client.json and server.json of the same session";
    let (ours, theirs) = (client.exchanges("messages"), server.exchanges("messages"));
    if ours.len() != theirs.len() {
        let message = format!("has {} messages, but client.json has {}", theirs.len(), ours.len());
        return report.add(PowerFinding::error(CHECK_MESSAGES, server.file, message, MEND));
    }
    for (number, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        let number = number + 1;
        // Each side answers `time` with its own clock.
        let same_reply = our.command == "time" || our.reply == their.reply;
        if our.command != their.command {
            let message = format!("message {number} is `{}`", their.command);
            let found = PowerFinding::error(CHECK_MESSAGES, server.file, message, MEND);
            return report.add(found.expected(format!("`{}` as in client.json", our.command)));
        }
        if !same_reply {
            let message = format!("the reply to message {number} is `{}`", their.reply);
            let found = PowerFinding::error(CHECK_MESSAGES, server.file, message, MEND);
            return report.add(found.expected(format!("`{}` as in client.json", our.reply)));
        }
    }
    let greeting = theirs.first();
    let version = |text: Option<&str>, begins: &str| {
        let digits = text?.split_once(begins)?.1;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.to_owned())
    };
    let client_version = version(greeting.map(|g| g.command), "mlcommons/power client v");
    let server_version = version(greeting.map(|g| g.reply.as_str()), "mlcommons/power server v");
    if client_version.is_none() || client_version != server_version {
        let shown = |version: Option<String>| version.unwrap_or_else(|| "unknown".to_owned());
        let message = format!(
            "client version {} does not match server version {}",
            shown(client_version),
            shown(server_version)
        );
        let mend = "measure with client and server of the same release";
        report.add(PowerFinding::error(CHECK_MESSAGES, server.file, message, mend));
    }
}
