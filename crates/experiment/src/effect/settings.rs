//! Settings of the command line without effect: they belong to scenarios that are not run, or
//! depend on another setting that is not set.

use dyno_loadgen::settings::{Arrivals, EarlyStopping, Origin, Scenario, Settings, TestMode};
use dyno_results::effective::is_relevant;

use super::{Facts, Strictness, UnmetNeed};
use crate::options::Assignment;
use crate::system::System;
use crate::system::net::Remote;

/// Settings that need certain values of other settings.
struct Row {
    keys: &'static [&'static str],
    /// Returns whether they take effect in a test with these settings.
    takes_effect: fn(&Settings) -> bool,
    why: &'static str,
    fix: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        keys: &["server_target_qps"],
        takes_effect: |settings| {
            let arrivals = &settings.values.server_arrivals;
            !matches!(arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_))
        },
        why: "a fixed concurrency and recorded times have no rate",
        fix: "remove the rate, or choose poisson, constant, gamma or burst arrivals with --set \
             server_arrivals=poisson; the key speed=X of openai: plays a recorded trace X times \
             as fast",
    },
    Row {
        keys: &[
            "server_find_peak_qps_decimals_of_precision",
            "server_find_peak_qps_boundary_step_size",
        ],
        takes_effect: |settings| settings.values.mode == TestMode::FindPeakPerformance,
        why: "it configures the search for the peak",
        fix: "use --mode peak, or remove it",
    },
    Row {
        keys: &["performance_issue_same_index"],
        takes_effect: |settings| settings.values.performance_issue_same,
        why: "performance_issue_same is false",
        fix: "add --set performance_issue_same=true, or remove it",
    },
    Row {
        keys: &["test05_qsl_rng_seed", "test05_sample_index_rng_seed", "test05_schedule_rng_seed"],
        takes_effect: |settings| settings.values.test05,
        why: "test05 is false",
        fix: "add --set test05=true, or remove it",
    },
    Row {
        keys: &["token_latency_scaling_factor"],
        takes_effect: |settings| settings.values.infer_token_latencies,
        why: "infer_token_latencies is false",
        fix: "add --set infer_token_latencies=true, or remove it",
    },
    Row {
        keys: &["early_stopping", "early_stopping_confidence", "early_stopping_tolerance"],
        takes_effect: |settings| {
            let is_offline = settings.values.scenario == Scenario::Offline;
            !is_offline && settings.values.mode != TestMode::AccuracyOnly
        },
        why: "Offline and accuracy tests have no early stopping",
        fix: "add a performance test of another scenario, or remove it",
    },
    Row {
        keys: &["early_stopping_confidence", "early_stopping_tolerance"],
        takes_effect: |settings| settings.values.early_stopping != EarlyStopping::Never,
        why: "early_stopping is never",
        fix: "remove one of the two",
    },
    Row {
        keys: &["accuracy_log_probability"],
        takes_effect: |settings| settings.values.accuracy_log_sampling_target == 0,
        why: "accuracy_log_sampling_target replaces the share",
        fix: "remove one of the two",
    },
    Row {
        keys: &["accuracy_log_rng_seed"],
        takes_effect: |settings| {
            let values = &settings.values;
            values.accuracy_log_probability > 0.0 || values.accuracy_log_sampling_target > 0
        },
        why: "a performance run logs no responses",
        fix: "add --set accuracy_log_sampling_target=N, or remove it",
    },
    Row {
        keys: &["schedule_rng_seed"],
        takes_effect: |settings| {
            let is_server = settings.values.scenario == Scenario::Server;
            let arrivals = &settings.values.server_arrivals;
            let is_random =
                matches!(arrivals, Arrivals::Poisson | Arrivals::Gamma(_) | Arrivals::Burst(_));
            is_server && is_random
        },
        why: "no arrival time of this run is random",
        fix: "add --scenario Server with random arrivals, or remove it",
    },
    Row {
        keys: &["accuracy_sample_count_override"],
        takes_effect: |settings| settings.values.mode == TestMode::AccuracyOnly,
        why: "this run has no accuracy test",
        fix: "use --mode accuracy or --mode both, or remove it",
    },
    Row {
        keys: &["min_duration_ms", "max_duration_ms", "min_query_count", "max_query_count"],
        takes_effect: |settings| settings.values.mode != TestMode::AccuracyOnly,
        why: "this run has no performance test",
        fix: "use --mode performance or --mode both, or remove it",
    },
];

/// Returns the settings of the command line without effect, each with the reason.
///
/// Settings of files and variables may be meant for other commands.
pub fn without_effect(facts: &Facts<'_>, strictness: Strictness) -> Vec<(String, UnmetNeed)> {
    let mut found = Vec::new();
    for set in facts.options.assigned() {
        let (scenario, key) = (set.scenario, set.key);
        let Origin::Flag(flag) = &set.origin else { continue };
        // Other settings may have an effect at other points; a trace has its times at every point.
        if strictness == Strictness::Point && !(key == "server_target_qps" && is_trace(facts)) {
            continue;
        }
        // Other flags have a table of their own; the rate depends on the arrivals as well.
        if flag != "--set" && key != "server_target_qps" {
            continue;
        }
        let Some((why, fix)) = reason(facts, scenario, key, flag == "--set") else { continue };
        let why = format!("has no effect: {why}");
        let name = written(set);
        found.push((format!("{name} {why}"), UnmetNeed::new(why, fix)));
    }
    found
}

/// Returns a setting as the user wrote it.
pub fn written(set: &Assignment) -> String {
    let key = set.key;
    match (&set.origin, set.scenario) {
        (Origin::Flag(flag), Some(scenario)) if flag == "--set" => {
            format!("--set {scenario}.{key}")
        }
        (Origin::Flag(flag), None) if flag == "--set" => format!("--set {key}"),
        (Origin::Flag(name) | Origin::Environment(name), _) => name.clone(),
        (Origin::File { path, line }, _) => format!("{}:{line}: `{key}`", path.display()),
        _ => key.to_owned(),
    }
}

/// Returns whether a setting, or `Scenario.setting`, changes no test of the run.
pub fn is_useless(facts: &Facts<'_>, setting: &str) -> bool {
    let (scenario, key) = match setting.split_once('.') {
        Some((name, key)) => (crate::options::scenario(name).ok(), key),
        None => (None, setting),
    };
    reason(facts, scenario, key, true).is_some()
}

/// Returns whether the data have arrival times, or the load has stages.
fn is_trace(facts: &Facts<'_>) -> bool {
    let has_stages = facts.options.run.stages.is_some();
    let remote = facts.loaded.and_then(System::remote);
    has_stages || remote.is_some_and(Remote::has_schedule)
}

/// Returns why a setting changes no test of the run, and a remedy.
fn reason(
    facts: &Facts<'_>,
    scenario: Option<Scenario>,
    key: &str,
    is_set: bool,
) -> Option<(String, String)> {
    let is_meant = |one: &Scenario| scenario.is_none_or(|only| only == *one);
    let is_used = |one: &Scenario| is_meant(one) && is_relevant(key, *one);
    if !facts.scenarios.iter().any(is_used) {
        // Keys of other flags are in the table of options.
        if !is_set {
            return None;
        }
        let names = facts.scenario_names();
        let Some(wanted) = Scenario::ALL.iter().find(|one| is_used(one)) else {
            let only = scenario.map_or("another scenario", Scenario::name);
            return Some((format!("{key} has no effect in {only}"), "remove it".into()));
        };
        return Some((
            format!("it belongs to {wanted}, and this run has {names} only"),
            format!("add --scenario {wanted}, or remove it"),
        ));
    }
    let tests = facts.scenarios.iter().filter(|one| is_used(one)).flat_map(|scenario| {
        facts.modes.iter().map(|mode| {
            let mut settings = facts.options.settings(*scenario, *mode, None);
            // Data of a server may be a recorded trace, which has arrival times.
            if let Some(remote) = facts.loaded.and_then(System::remote) {
                remote.complete(&mut settings);
            }
            settings
        })
    });
    let tests: Vec<Settings> = tests.collect();
    // Modes are in the table of options.
    if tests.is_empty() {
        return None;
    }
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.keys.contains(&key)).collect();
    if tests.iter().any(|settings| rows.iter().all(|row| (row.takes_effect)(settings))) {
        return None;
    }
    // If no row fails in all tests, different rows fail in different tests; the last is the most specific.
    let useless = rows.iter().find(|row| !tests.iter().any(row.takes_effect)).or(rows.last())?;
    Some((useless.why.into(), useless.fix.into()))
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::settings::FIELDS;

    use super::*;

    #[test]
    fn settings_of_the_table_exist() {
        let keys = ROWS.iter().flat_map(|row| row.keys);
        let unknown: Vec<_> =
            keys.filter(|key| FIELDS.iter().all(|field| field.name != **key)).collect();
        assert_eq!(unknown, Vec::<&&str>::new());
    }
}
