//! Equipment of a measurement: releases of the programs, analyzers, PTDaemon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use super::session::Session;
use super::{PowerChecker, PowerFinding, Report};
use dyno_rules::{Version, parse_embedded};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    since: Vec<EquipmentEntry>,
    analyzers: BTreeMap<String, u64>,
    sources: Vec<Release>,
}

/// A release of the programs that measure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    /// Rounds whose official program knows it.
    rounds: Vec<String>,
    /// SHA-1 by file.
    files: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EquipmentEntry {
    round: String,
    daemons: Vec<String>,
    clock_tolerance_ms: u32,
    #[serde(default)]
    compares_power: bool,
}

fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| parse_embedded(include_str!("power.toml")))
}

/// Equipment that a round accepts.
pub(super) struct Equipment {
    /// Accepted versions of PTDaemon.
    pub(super) daemons: &'static [String],
    /// Maximum difference between the clocks of client and server, ms.
    pub(super) clock_tolerance_ms: u32,
    /// Whether the mean power must not be below that of ranging.
    pub(super) compares_power: bool,
}

/// Returns the equipment of a round. Rounds before v1.0 had no power measurement and use v1.0's.
pub(super) fn equipment_of(round: Version) -> Equipment {
    let started =
        |entry: &&EquipmentEntry| entry.round.parse().is_ok_and(|first: Version| first <= round);
    let entry = file().since.iter().rfind(started).unwrap_or(&file().since[0]);
    let EquipmentEntry { daemons, clock_tolerance_ms, compares_power, .. } = entry;
    Equipment { daemons, clock_tolerance_ms: *clock_tolerance_ms, compares_power: *compares_power }
}

/// Returns the names of the accepted analyzers.
pub(super) fn analyzers() -> impl Iterator<Item = &'static str> {
    file().analyzers.keys().map(String::as_str)
}

/// Checks that client or server is an unchanged release: by the rules any known one, for an
/// official program one that it knows.
pub(super) fn check_sources(
    session: &Session,
    round: Version,
    program: PowerChecker,
    report: &mut Report,
) {
    let Some(sources) = session.value(&["sources"]).as_object() else {
        let message = "the checksums of the sources are not a table".to_owned();
        let mend = "submit the file unchanged, as the power client or server wrote it";
        return report.add(PowerFinding::error("power.sources", session.file, message, mend));
    };
    let recorded: BTreeMap<&str, &str> = sources
        .iter()
        .map(|(name, sum)| (name.as_str(), sum.as_str().unwrap_or_default()))
        .collect();
    let differing = |known: &BTreeMap<String, String>| {
        let names: BTreeSet<&str> =
            known.keys().map(String::as_str).chain(recorded.keys().copied()).collect();
        let same = |name: &str| known.get(name).map(String::as_str) == recorded.get(name).copied();
        names.into_iter().filter(|name| !same(name)).map(str::to_owned).collect::<Vec<_>>()
    };
    let round = round.to_string();
    let is_known =
        |release: &&Release| program == PowerChecker::Rules || release.rounds.contains(&round);
    let releases = file().sources.iter().filter(is_known).map(|release| &release.files);
    let nearest = releases.map(differing).min_by_key(Vec::len).unwrap_or_default();
    if nearest.is_empty() {
        return;
    }
    let message = format!("the checksums match no known release: {}", nearest.join(", "));
    let mend = "measure with an unchanged release of the power client and server";
    report.add(PowerFinding::error("power.sources", session.file, message, mend));
}

/// Checks the devices that PTDaemon was configured to use. The file has one object, or a list
/// with one object per device.
pub(super) fn check_devices(server: &Session, report: &mut Report) {
    const MULTICHANNEL: u64 = 77;
    let config = server.value(&["ptd_config"]);
    let devices: Vec<&Value> = match config {
        Value::Array(list) => list.iter().collect(),
        Value::Object(_) => vec![config],
        _ => Vec::new(),
    };
    if devices.is_empty() {
        let message = "has no PTDaemon configuration".to_owned();
        let mend = "submit server.json unchanged, as the server wrote it";
        report.add(PowerFinding::error("power.devices", server.file, message, mend));
    }
    for device in devices {
        let number = device.get("device_type").and_then(Value::as_u64);
        let known: BTreeSet<u64> = file().analyzers.values().copied().collect();
        if number.is_none_or(|number| !known.contains(&number)) {
            let found = device.get("device_type").unwrap_or(&Value::Null);
            let message = format!("PTDaemon device {found} is not supported");
            let list: Vec<String> = known.iter().map(u64::to_string).collect();
            let mend = "measure with a supported power analyzer";
            let found = PowerFinding::error("power.devices", server.file, message, mend);
            report.add(found.expected(format!("one of {}", list.join(", "))));
        } else if number == Some(MULTICHANNEL) && !has_two_channels(device) {
            let message = "a multichannel analyzer measured one channel".to_owned();
            let mend = "give PTDaemon two channels (`-c FIRST,LAST`)";
            report.add(PowerFinding::error("power.devices", server.file, message, mend));
        }
    }
}

fn has_two_channels(device: &Value) -> bool {
    let command = device.get("command").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let flag = command.iter().position(|word| word.as_str() == Some("-c"));
    let named =
        flag.and_then(|index| command.get(index + 1)).and_then(Value::as_str).unwrap_or_default();
    let listed = device.get("channel").and_then(Value::as_array).map_or(0, Vec::len);
    named.split(',').count() == 2 && listed == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_takes_what_was_current_then() {
        assert_eq!(file().sources.len(), 10);
        assert_eq!(file().analyzers.len(), 11);
        assert_eq!(equipment_of(Version::new(1, 0)).clock_tolerance_ms, 1000);
        assert!(!equipment_of(Version::new(3, 0)).compares_power);
        assert!(equipment_of(Version::new(3, 1)).compares_power);
        assert_eq!(equipment_of(Version::new(6, 1)).daemons, ["1.11.1"]);
        assert_eq!(equipment_of(Version::new(0, 5)).daemons, ["1.9.1", "1.9.2"]);
    }
}
