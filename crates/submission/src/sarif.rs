//! Findings as SARIF 2.1.0, which code hosts and editors show next to the lines.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::check::catalogue::{self, Check};
use super::check::{CheckReport, Program};
use super::json;
use crate::finding::{Finding, Severity};
use dyno_rules::Round;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// Name of the base of all paths.
const ROOT: &str = "SUBMISSION";

/// Writes the findings of a checked tree as SARIF.
///
/// # Errors
/// Fails if the writer fails.
pub fn write(
    checked: &CheckReport,
    tree: &Path,
    round: &Round,
    program: Program,
    out: &mut impl Write,
) -> io::Result<()> {
    let checks = checks(checked);
    let place: BTreeMap<&str, usize> =
        checks.iter().enumerate().map(|(index, (id, _))| (*id, index)).collect();
    let rules: Vec<Value> = checks.iter().map(|(id, check)| rule(id, *check)).collect();
    let results: Vec<Value> = checked.findings.iter().map(|found| result(found, &place)).collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "dyno check",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "originalUriBaseIds": { ROOT: {
                "uri": base(tree),
                "description": { "text": "root of the submission tree" },
            } },
            "columnKind": "unicodeCodePoints",
            "properties": {
                "round": round.version.to_string(),
                "program": json::name(program),
                "validResults": checked.valid(),
            },
            "results": results,
        }],
    });
    let mut writer = serde_json::Serializer::pretty(&mut *out);
    log.serialize(&mut writer)?;
    out.write_all(b"\n")
}

/// Returns the checks with findings: those of the catalogue in its order, then others sorted by
/// id.
fn checks(checked: &CheckReport) -> Vec<(&str, Option<&'static Check>)> {
    let found: BTreeMap<&str, ()> = checked.findings.iter().map(|f| (f.check, ())).collect();
    let known = catalogue::ALL.iter().filter(|check| found.contains_key(check.id));
    let mut checks: Vec<(&str, Option<&'static Check>)> =
        known.map(|check| (check.id, Some(*check))).collect();
    let others = found.keys().filter(|id| catalogue::ALL.iter().all(|check| check.id != **id));
    checks.extend(others.map(|id| (*id, None)));
    checks
}

fn rule(id: &str, check: Option<&Check>) -> Value {
    let title =
        check.map_or_else(|| format!("the check {id} passes"), |check| check.title.to_owned());
    let mut rule = json!({ "id": id, "shortDescription": { "text": title } });
    if let Some(check) = check {
        rule["help"] = json!({ "text": check.mend });
    }
    rule
}

fn result(finding: &Finding, place: &BTreeMap<&str, usize>) -> Value {
    let mut message = finding.message.clone();
    if let Some(expected) = &finding.expected {
        message += &format!(" (expected {expected})");
    }
    message += &format!("; {}", finding.mend);
    let mut physical = json!({
        "artifactLocation": { "uri": uri(&finding.path), "uriBaseId": ROOT },
    });
    if let Some(line) = finding.line {
        physical["region"] = json!({ "startLine": line.max(1) });
    }
    json!({
        "ruleId": finding.check,
        "ruleIndex": place.get(finding.check),
        "level": match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        },
        "message": { "text": message },
        "locations": [{ "physicalLocation": physical }],
    })
}

/// Returns the root as SARIF requires it: an absolute URI that ends with a slash.
fn base(tree: &Path) -> String {
    let absolute = tree.canonicalize().unwrap_or_else(|_| tree.to_owned());
    format!("file://{}/", uri(&absolute).trim_end_matches('/'))
}

/// Returns a path as a relative URI reference. Bytes other than letters, digits and a few marks
/// are percent-encoded.
fn uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b'+' => {
                uri.push(char::from(byte));
            }
            other => uri += &format!("%{other:02X}"),
        }
    }
    if uri.is_empty() { ".".to_owned() } else { uri }
}
