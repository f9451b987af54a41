//! Logs of LoadGen before v1.0. Their detail log has lines of text instead of keys, and only the
//! summary has the result.
//!
//! Values are stored under the keys of v1.0. Source: LoadGen of v0.5 and v0.7 (loadgen.cc,
//! test_settings_internal.cc, version.cc), and logs of both rounds.

use serde_json::Value;

use super::detail::{DetailLog, IGNORED};
use super::keys::{ValueType, value_type};
use dyno_loadgen::log::read::read_summary;

/// Start of every line of a plain detail log.
const PREFIX: &str = "\"pid\": ";
/// Separator of the prefix, and of label and value.
const SEPARATOR: &str = " : ";

/// Line of values that are not from the detail log.
const NO_LINE: usize = 0;

/// Part of a plain detail log, which decides what a label means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Section {
    /// Version, system and library.
    #[default]
    Head,
    /// Settings in effect.
    Effective,
    /// Settings as requested.
    Requested,
    /// Events of the run.
    Events,
}

/// Returns the text of a line of a plain detail log after process, thread and time.
pub(super) fn text_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(PREFIX)?;
    let (stamp, text) = rest.split_once(SEPARATOR)?;
    stamp.ends_with("ns").then(|| text.trim_end())
}

/// Takes the text of a line of a plain detail log.
pub(super) fn take(log: &mut DetailLog, text: &str) {
    match text {
        "Effective Settings:" => return log.set_section(Section::Effective),
        "Requested Settings:" => return log.set_section(Section::Requested),
        _ if text.starts_with("Starting ") => return log.set_section(Section::Events),
        _ => {}
    }
    if let Some(error) = text.strip_prefix("ERROR : ") {
        if !error.contains(IGNORED) {
            log.add_error(error);
        }
        return;
    }
    match log.section() {
        Section::Head => take_head(log, text),
        Section::Effective => take_setting(log, "effective", text),
        Section::Requested => take_setting(log, "requested", text),
        Section::Events => take_event(log, text),
    }
}

fn take_head(log: &mut DetailLog, text: &str) {
    let Some((label, value)) = text.split_once(':') else { return };
    let key = match label.trim() {
        "version" => "loadgen_version",
        "Date + time of test" => "test_datetime",
        "System Under Test (SUT) name" => "sut_name",
        "Query Sample Library (QSL) name" => "qsl_name",
        "QSL total size" => "qsl_reported_total_count",
        "QSL performance size*" => "qsl_reported_performance_count",
        _ => return,
    };
    put(log, log.lines, key, value.trim());
}

fn take_setting(log: &mut DetailLog, whose: &str, text: &str) {
    let Some((label, value)) = text.split_once(':') else { return };
    put(log, log.lines, &format!("{whose}_{}", setting(label.trim())), value.trim());
}

/// Returns the name of a setting in the keys of v1.0, such as `min_duration_ms`.
fn setting(label: &str) -> String {
    match label {
        "Scenario" => "scenario".to_owned(),
        "Test mode" => "test_mode".to_owned(),
        _ => label.replace(" (", "_").replace(')', ""),
    }
}

fn take_event(log: &mut DetailLog, text: &str) {
    let Some((event, fields)) = text.split_once(": ") else { return };
    let value = |name: &str| {
        let (_, rest) = fields.split_once(&format!("\"{name}\"{SEPARATOR}"))?;
        rest.split(", ").next()
    };
    let pairs = match event {
        "GeneratedQueries" => [
            ("generated_query_count", value("queries")),
            ("generated_samples_per_query", value("samples per query")),
            ("generated_query_duration", value("duration")),
        ],
        "POWER_BEGIN" => [("power_begin", value("time")), ("", None), ("", None)],
        "POWER_END" => [("power_end", value("time")), ("", None), ("", None)],
        _ => return,
    };
    for (key, value) in pairs {
        if let Some(value) = value {
            put(log, log.lines, key, value.trim());
        }
    }
}

/// Adds the values of a summary, which has the result of a run.
pub(super) fn take_summary(log: &mut DetailLog, text: &str) {
    let (summary, _) = read_summary(text);
    // At a fixed interval, latencies of queries precede those of samples.
    let mut per_query = false;
    for (_, label, value) in &summary.fields {
        match *label {
            "Per-query latency" => per_query = true,
            "Per-sample latency" => per_query = false,
            label => {
                if let Some(key) = result_key(label, per_query) {
                    put(log, NO_LINE, &key, value);
                }
            }
        }
    }
    let estimates = summary.early_stopping.iter().flat_map(|(_, text)| text.lines());
    for (key, estimate) in estimates.filter_map(estimate) {
        put(log, NO_LINE, key, estimate);
    }
    for (key, count) in [("num_warnings", summary.warnings), ("num_errors", summary.errors)] {
        if let Some(count) = count {
            put(log, NO_LINE, key, &count.to_string());
        }
    }
}

/// Returns the key and the value of a line such as ` * Early stopping 90.0th percentile estimate: 7`,
/// which LoadGen writes from v2.0 on.
fn estimate(line: &str) -> Option<(&'static str, &str)> {
    let (label, value) = line.trim_start_matches([' ', '*']).split_once(':')?;
    let key = match label {
        "Early stopping 90.0th percentile estimate" => "early_stopping_latency_ss",
        "Early stopping 99.0th percentile estimate" => "early_stopping_latency_ms",
        _ => return None,
    };
    Some((key, value.trim()))
}

/// Returns the key of v1.0 for a label of a summary.
fn result_key(label: &str, per_query: bool) -> Option<String> {
    let key = match label {
        "SUT name" => "sut_name",
        "Scenario" => "effective_scenario",
        "Mode" => "effective_test_mode",
        "Result is" => "result_validity",
        "90th percentile latency (ns)" => "result_90.00_percentile_latency_ns",
        // The number of streams, which MultiStream has as its result.
        "Samples per query" => "effective_samples_per_query",
        "Samples per second" => "result_samples_per_second",
        "Scheduled samples per second" => "result_scheduled_samples_per_sec",
        "Completed samples per second" => "result_completed_samples_per_sec",
        "Tokens per second" => "result_tokens_per_second",
        "Completed tokens per second" => "result_completed_tokens_per_second",
        "Performance constraints satisfied" => "result_perf_constraints_met",
        "Min duration satisfied" => "result_min_duration_met",
        "Min queries satisfied" => "result_min_queries_met",
        "QPS w/ loadgen overhead" => "result_qps_with_loadgen_overhead",
        "QPS w/o loadgen overhead" => "result_qps_without_loadgen_overhead",
        "Min latency (ns)" => "result_min_latency_ns",
        "Max latency (ns)" => "result_max_latency_ns",
        "Mean latency (ns)" => "result_mean_latency_ns",
        _ => return percentile_key(label, per_query).or_else(|| setting_key(label)),
    };
    Some(key.to_owned())
}

fn percentile_key(label: &str, per_query: bool) -> Option<String> {
    let (percent, rest) = label.split_once(" percentile")?;
    let kind = match rest {
        "" => "num_intervals_between_queries",
        " latency (ns)" if per_query => "per_query_latency_ns",
        " latency (ns)" => "latency_ns",
        _ => return None,
    };
    Some(format!("result_{percent}_percentile_{kind}"))
}

/// Returns the key of a setting, whose names begin in lower case.
fn setting_key(label: &str) -> Option<String> {
    let is_setting = label.starts_with(|first: char| first.is_ascii_lowercase());
    is_setting.then(|| format!("effective_{}", setting(label)))
}

/// Stores a value with the type of its key. A value of another type remains a text, which checks
/// report.
fn put(log: &mut DetailLog, line: usize, key: &str, text: &str) {
    let Some(kind) = value_type(key) else { return };
    let parsed = match kind {
        ValueType::Flag => match text {
            "Yes" | "true" | "1" => Some(Value::Bool(true)),
            "No" | "false" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        ValueType::Whole | ValueType::Number => {
            let whole = text.parse::<u64>().ok().map(Value::from);
            let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
            whole.or_else(|| number().map(Value::from))
        }
        ValueType::Text | ValueType::Stamp => Some(Value::from(name_in_keys(key, text))),
    };
    log.put(line, key, parsed.unwrap_or_else(|| text.into()));
}

/// Returns the name of a scenario or a mode in the keys of v1.0.
fn name_in_keys(key: &str, text: &str) -> String {
    match (key, text) {
        ("effective_test_mode" | "requested_test_mode", "Performance" | "Accuracy") => {
            format!("{text}Only")
        }
        ("effective_test_mode" | "requested_test_mode", "Submission") => "SubmissionRun".to_owned(),
        (
            "effective_scenario"
            | "requested_scenario"
            | "effective_test_mode"
            | "requested_test_mode",
            _,
        ) => text.replace(' ', ""),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::detail::scan;
    use super::*;

    /// Shortened from the format of LoadGen v0.5.
    const DETAIL: &str = r#""pid": 7, "tid": 8, "ts": 9ns : LoadgenVersionInfo:
"pid": 7, "tid": 8, "ts": 9ns : version : .5a1 @ 0123456789
"pid": 7, "tid": 8, "ts": 9ns : git_log :

ab19825ca48a check for ERROR in detailed logs
"pid": 7, "tid": 8, "ts": 10ns : System Under Test (SUT) name: A: box
"pid": 7, "tid": 8, "ts": 10ns : QSL total size: 1600
"pid": 7, "tid": 8, "ts": 11ns : Effective Settings:
"pid": 7, "tid": 8, "ts": 11ns : Scenario : Multi Stream
"pid": 7, "tid": 8, "ts": 11ns : Test mode : Performance
"pid": 7, "tid": 8, "ts": 11ns : min_duration (ms): 60000
"pid": 7, "tid": 8, "ts": 11ns : qsl_rng_seed : 3133965575612453542
"pid": 7, "tid": 8, "ts": 11ns : performance_issue_same : false
"pid": 7, "tid": 8, "ts": 11ns : performance_sample_count : 1024
"pid": 7, "tid": 8, "ts": 12ns : Requested Settings:
"pid": 7, "tid": 8, "ts": 12ns : min_duration_ms : 50000
"pid": 7, "tid": 8, "ts": 13ns : Starting performance mode:
"pid": 7, "tid": 8, "ts": 14ns : GeneratedQueries: "queries" : 2654, "samples per query" : 25, "duration" : 60000080217
"pid": 7, "tid": 8, "ts": 15ns : ERROR : Ending early: "queries" : 3
"pid": 7, "tid": 8, "ts": 15ns : ERROR : CAS failed: "attempts" : 2
"pid": 7, "tid": 8, "ts": 16ns : POWER_BEGIN: "mode" : Performance, "time" : 10-09-2019 07:20:32.109
"#;

    const SUMMARY: &str = "\
================================================
MLPerf Results Summary
================================================
SUT name : A: box
Scenario : Multi Stream
Mode     : Performance
Samples per query : 25
Result is : VALID
  Min queries satisfied : Yes

Intervals between each IssueQuery:  \"qps\" : 20, \"ms\" : 50
99.00 percentile : 1

Per-query latency:  \"target_ns\" : 50000000, \"target_ms\" : 50
99.00 percentile latency (ns)   : 48916779

Per-sample latency:
Min latency (ns)                : 46156208
99.00 percentile latency (ns)   : 48916000

samples_per_query : 25
target_latency (ns): 50000000

No warnings encountered during test.

1 ERROR encountered. See detailed log.
";

    fn log() -> DetailLog {
        let mut log = scan(&mut DETAIL.as_bytes()).unwrap();
        take_summary(&mut log, SUMMARY);
        log
    }

    #[test]
    fn lines_become_the_keys_of_v1_0() {
        let log = log();
        assert!(log.is_plain && !log.begins_with_marker);
        for (key, value) in [
            ("loadgen_version", ".5a1 @ 0123456789"),
            ("sut_name", "A: box"),
            ("effective_scenario", "MultiStream"),
            ("effective_test_mode", "PerformanceOnly"),
            ("result_validity", "VALID"),
            ("power_begin", "10-09-2019 07:20:32.109"),
        ] {
            assert_eq!(log.text(key), Some(value), "{key}");
        }
        for (key, value) in [
            ("qsl_reported_total_count", 1600),
            ("effective_min_duration_ms", 60_000),
            ("requested_min_duration_ms", 50_000),
            ("effective_qsl_rng_seed", 3_133_965_575_612_453_542),
            ("effective_performance_sample_count", 1024),
            ("generated_query_count", 2654),
            ("generated_query_duration", 60_000_080_217),
            ("effective_samples_per_query", 25),
            ("effective_target_latency_ns", 50_000_000),
            ("result_99.00_percentile_num_intervals_between_queries", 1),
            ("result_99.00_percentile_per_query_latency_ns", 48_916_779),
            ("result_99.00_percentile_latency_ns", 48_916_000),
            ("result_min_latency_ns", 46_156_208),
            ("num_errors", 1),
        ] {
            assert_eq!(log.whole(key), Some(value), "{key}");
        }
        assert_eq!(log.flag("effective_performance_issue_same"), Some(false));
        assert_eq!(log.flag("result_min_queries_met"), Some(true));
    }

    /// JSON has no such numbers, but Python's `float` reads their texts.
    #[test]
    fn a_number_that_is_not_finite_remains_a_text() {
        for text in ["inf", "nan"] {
            let mut log = log();
            take_summary(&mut log, &format!("Samples per second: {text}\n"));
            assert_eq!(log.text("result_samples_per_second"), Some(text));
        }
    }

    /// The commit messages in a log are not errors of the run, and neither are failed atomic
    /// operations.
    #[test]
    fn only_lines_of_the_run_are_errors() {
        let log = log();
        assert_eq!((log.errors.count, log.errors.first[0].0), (1, 19));
        assert_eq!(log.errors.first[0].1, "Ending early: \"queries\" : 3");
        // The checker of v0.7 searched for the word.
        assert_eq!(log.errors.words, 2);
    }

    #[test]
    fn other_text_is_no_plain_log() {
        let log = scan(&mut "hello : world\n\"pid\": 7 : x\n".as_bytes()).unwrap();
        assert!(!log.is_plain);
    }
}
