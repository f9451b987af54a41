//! Session files of client and server: `client.json` and `server.json`.

use serde_json::Value;

use super::recorded::Files;
use super::{PowerFinding, Report};
use crate::python;

const MEND: &str = "submit the file unchanged, as the power client or server wrote it";

/// Fields that both files must have.
const FIELDS: [&str; 9] = [
    "version",
    "timezone",
    "modules",
    "sources",
    "messages",
    "uuid",
    "session_name",
    "results",
    "phases",
];

/// Session file of one side.
pub(super) struct Session {
    /// Path below the performance folder.
    pub(super) file: &'static str,
    json: Value,
}

impl Session {
    /// Returns the value at a path of keys, or `Null` if it does not exist.
    pub(super) fn value(&self, keys: &[&str]) -> &Value {
        keys.iter().fold(&self.json, |value, key| value.get(key).unwrap_or(&Value::Null))
    }

    /// Returns the text at a path of keys.
    pub(super) fn text(&self, keys: &[&str]) -> Option<&str> {
        self.value(keys).as_str()
    }

    /// Returns a list of pairs of `cmd` and `reply`.
    pub(super) fn exchanges(&self, key: &str) -> Vec<Exchange<'_>> {
        let list = self.value(&[key]).as_array().map_or(&[][..], Vec::as_slice);
        let word =
            |entry: &'_ Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        list.iter()
            .map(|entry| Exchange {
                command: entry.get("cmd").and_then(Value::as_str).unwrap_or_default(),
                reply: word(entry, "reply").unwrap_or_default(),
            })
            .collect()
    }
}

/// A command and its reply.
pub(super) struct Exchange<'a> {
    pub(super) command: &'a str,
    pub(super) reply: String,
}

/// Reads the file of one side. Returns `None`, with a finding, unless it is an object with all
/// fields.
pub(super) fn read(
    file: &'static str,
    text: Option<&[u8]>,
    report: &mut Report,
) -> Option<Session> {
    let json: Value = match serde_json::from_slice(text?) {
        Ok(json) => json,
        Err(error) => {
            let message = format!("is not JSON: {error}");
            report.add(PowerFinding::error("power.session", file, message, MEND).at(error.line()));
            return None;
        }
    };
    let missing: Vec<&str> = FIELDS.into_iter().filter(|field| json.get(field).is_none()).collect();
    if missing.is_empty() {
        return Some(Session { file, json });
    }
    let message = format!("has no field {}", missing.join(", "));
    report.add(PowerFinding::error("power.session", file, message, MEND));
    None
}

/// Whether both sides have their distance from UTC, which the checkers up to v1.1 add to the times of
/// the run. They end the measurement without it.
pub(super) fn have_zones(files: &Files, report: &mut Report) -> bool {
    let has_zone = |file: &str| {
        let json = files.text(file).and_then(|text| serde_json::from_slice::<Value>(text).ok());
        json.is_some_and(|json| json.get("timezone").and_then(python::number).is_some())
    };
    let sides = ["power/server.json", "power/client.json"];
    let without = sides.into_iter().find(|file| !has_zone(file));
    if let Some(file) = without {
        let message = "has no number `timezone`".to_owned();
        report.add(PowerFinding::error("power.metric", file, message, MEND));
    }
    without.is_none()
}

/// Checks that both sides name the same session.
pub(super) fn check_identity(client: &Session, server: &Session, report: &mut Report) {
    const MEND: &str = "submit client.json and server.json of the same session";
    for side in ["client", "server"] {
        let session_uuid = |session: &Session| session.text(&["uuid", side]).and_then(uuid);
        let (first, second) = (session_uuid(client), session_uuid(server));
        if first.is_none() || first != second {
            let message = format!("the UUID of the {side} differs from that in client.json");
            let found = PowerFinding::error("power.uuid", server.file, message, MEND);
            let expected = client.text(&["uuid", side]).unwrap_or("a UUID in client.json");
            report.add(found.expected(expected));
        }
    }
    let (first, second) = (client.value(&["session_name"]), server.value(&["session_name"]));
    if first != second || first.is_null() {
        let message = format!("the session is {second}, but {first} in client.json");
        report.add(PowerFinding::error("power.session_name", server.file, message, MEND));
    }
}

/// Returns the digits of a UUID in any notation.
fn uuid(text: &str) -> Option<String> {
    let plain = text.replace("urn:", "").replace("uuid:", "");
    let digits: String = plain.chars().filter(|c| !matches!(c, '-' | '{' | '}')).collect();
    let valid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| digits.to_ascii_lowercase())
}

/// Checks that the server did not run in debug mode.
pub(super) fn check_debug(server: &Session, report: &mut Report) {
    let debug = server.value(&["debug"]);
    if !debug.is_null() && *debug != Value::Bool(false) {
        let message = "the server ran in debug mode".to_owned();
        let mend = "measure again with `debug` off in the server's configuration";
        report
            .add(PowerFinding::error("power.debug", server.file, message, mend).expected("false"));
    }
}
