//! Compares `user.conf` beside a measurement with the settings in the log of its run.
//!
//! A submitter may set a value after the file was read, and some do, so that a difference is only a
//! warning. The name under which the system looked up its rows is unknown, so that any row counts.

use dyno_loadgen::config::{Conf, ConfType};
use dyno_loadgen::settings::{Origin, Settings, TestSettings};

use crate::check::catalogue::MEASUREMENT_SETTINGS;
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::facts::detail::DetailLog;
use crate::facts::{Facts, text};
use dyno_rules::{RuleScenario, Version};

const FILE: &str = "user.conf";
/// Difference that rounding explains, as a share: LoadGen logs a rate with six digits.
const TOLERANCE: f64 = 1e-3;
/// Maximum number of models of a file that is compared. The time of a comparison grows with its square.
const MOST_MODELS: usize = 256;

/// A setting of the file, and its value in a log.
struct Setting {
    field: &'static str,
    value: fn(&TestSettings) -> f64,
    logged: fn(&DetailLog) -> Option<f64>,
}

const ANY: [Setting; 5] = [
    Setting {
        field: "min_duration_ms",
        value: |set| set.min_duration_ms as f64,
        logged: |log| log.number("requested_min_duration_ms"),
    },
    Setting {
        field: "max_duration_ms",
        value: |set| set.max_duration_ms as f64,
        logged: |log| log.number("effective_max_duration_ms"),
    },
    Setting {
        field: "min_query_count",
        value: |set| set.min_query_count as f64,
        logged: |log| log.number("requested_min_query_count"),
    },
    Setting {
        field: "max_query_count",
        value: |set| set.max_query_count as f64,
        logged: |log| log.number("effective_max_query_count"),
    },
    Setting {
        field: "performance_sample_count_override",
        value: |set| set.performance_sample_count_override as f64,
        logged: |log| log.number("requested_performance_sample_count_override"),
    },
];
const SINGLE_STREAM: [Setting; 1] = [Setting {
    field: "single_stream_expected_latency_ns",
    value: |set| set.single_stream_expected_latency_ns,
    logged: interval,
}];
const MULTI_STREAM: [Setting; 1] = [Setting {
    field: "multi_stream_expected_latency_ns",
    value: |set| set.multi_stream_expected_latency_ns,
    logged: interval,
}];
const SERVER: [Setting; 2] = [
    Setting { field: "server_target_qps", value: |set| set.server_target_qps, logged: rate },
    Setting {
        field: "server_target_latency_ns",
        value: |set| set.server_target_latency_ns as f64,
        logged: |log| log.number("effective_target_latency_ns"),
    },
];
const OFFLINE: [Setting; 1] = [Setting {
    field: "offline_expected_qps",
    value: |set| set.offline_expected_qps,
    logged: rate,
}];

fn rate(log: &DetailLog) -> Option<f64> {
    log.number("effective_target_qps")
}

/// Returns the expected latency in ns, which LoadGen logs as a rate.
fn interval(log: &DetailLog) -> Option<f64> {
    rate(log).filter(|rate| *rate > 0.0).map(|rate| 1e9 / rate)
}

/// Returns the settings of one scenario alone.
fn of_scenario(played: RuleScenario, round: Version) -> &'static [Setting] {
    match played {
        RuleScenario::SingleStream => &SINGLE_STREAM,
        // Before, the interval between queries was fixed.
        RuleScenario::MultiStream if round < Version::new(2, 0) => &[],
        RuleScenario::MultiStream => &MULTI_STREAM,
        RuleScenario::Server | RuleScenario::Interactive => &SERVER,
        RuleScenario::Offline => &OFFLINE,
    }
}

/// Checks the file beside a measurement against the log of the performance run.
pub(super) fn check(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
    let Some(log) = facts.performance.as_ref().ok().filter(|log| !log.is_plain) else { return };
    let Some(file) = place.entry.measurements.and_then(|folder| folder.file(FILE)) else { return };
    let Some(played) = log.text("effective_scenario").and_then(RuleScenario::named) else { return };
    let path = file.path();
    let Ok(text) = text::read(Some(file)) else { return };
    // LoadGen uses nothing of a file that it cannot parse.
    let Ok(conf) = Conf::parse(&text.text, &path) else { return };
    let word = played.loadgen_scenario().name();
    let by_model = |model: &str| {
        let mut settings = Settings::default();
        conf.apply(&mut settings, model, word, ConfType::User);
        settings
    };
    let models = conf.models();
    if models.len() > MOST_MODELS {
        return;
    }
    let tables: Vec<Settings> = models.into_iter().map(by_model).collect();
    for setting in of_scenario(played, place.round.version).iter().chain(&ANY) {
        let Some(logged) = (setting.logged)(log) else { continue };
        if let Some((line, value)) = setting.contradiction(&tables, logged) {
            let at = Location::path(&path).line(Some(line));
            let message = format!("sets {} to {value}, unlike the run", setting.field);
            issues.add_expected(&MEASUREMENT_SETTINGS, at, message, logged.to_string());
        }
    }
}

impl Setting {
    /// Returns the first row that sets the value, if no row sets the one of the log.
    fn contradiction(&self, tables: &[Settings], logged: f64) -> Option<(usize, f64)> {
        let row = |table: &Settings| match table.origin(self.field) {
            Some(Origin::File { line, .. }) => Some((*line, (self.value)(&table.values))),
            _ => None,
        };
        let is_logged = |value: f64| (value - logged).abs() <= TOLERANCE * value.abs();
        let mut rows = tables.iter().filter_map(row);
        let first = rows.next()?;
        let differs = !is_logged(first.1) && !rows.any(|(_, value)| is_logged(value));
        differs.then_some(first)
    }
}
