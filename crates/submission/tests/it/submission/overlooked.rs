//! Defects that one round of the official checkers overlooks: code, error flags, first lines, and
//! numbers that are not results.

use std::path::Path;

use dyno_rules::Round;
use dyno_submission::check::{Options, Outcome, Program, check};
use dyno_submission::finding::Severity;
use dyno_submission::table::Column;

use super::made;
use super::rounds::{RESULT, RUN, as_of, counts, rules, severities, tree};
use crate::made::folder::{Folder, copy};
use crate::made::power::{PowerFiles, WATTS};

/// The structure with a folder of code for each benchmark is of October 2019. The checkers only log a
/// missing folder before v3.1.
#[test]
fn a_model_without_code_is_rejected_in_every_round_with_a_folder_of_code() {
    for round in ["v0.5", "v0.7", "v1.0", "v3.0", "v3.1"] {
        let folder = tree(round);
        assert!(severities(&rules(&folder, round), "measurement.code").is_empty(), "{round}");
        std::fs::remove_dir_all(folder.path().join("closed/acme/code")).unwrap();
        let found = severities(&rules(&folder, round), "measurement.code");
        assert_eq!(found, [Severity::Error; 3], "{round}");
    }
}

/// The programs of v1.0 to v5.0 raise an exception at such a line. That of v5.1 does so only if the log
/// has no count of errors.
#[test]
fn a_line_without_an_error_flag_is_rejected_from_v1_0_on() {
    let line = ":::MLLOG {\"key\": \"more\", \"value\": 1}\n";
    let cases: [(&str, &[Severity]); 6] = [
        ("v0.7", &[]),
        ("v1.0", &[Severity::Error]),
        ("v3.1", &[Severity::Error]),
        ("v5.0", &[Severity::Error]),
        ("v5.1", &[Severity::Warning]),
        ("v6.0", &[Severity::Error]),
    ];
    for (round, expected) in cases {
        for run in [RUN, "accuracy/mlperf_log_detail.txt"] {
            let folder = tree(round);
            let log = format!("{RESULT}/Offline/{run}");
            let text = folder.read(&log) + line;
            folder.write(&log, &text);
            let found = severities(&rules(&folder, round), "log.error_marks");
            assert_eq!(found, expected, "{round} {run}");
            folder.write(&log, text.replace(&made::line("num_errors", "0"), ""));
            let found = severities(&rules(&folder, round), "log.error_marks");
            assert_eq!(found, vec![Severity::Error; expected.len()], "{round} {run}");
        }
    }
}

#[test]
fn a_result_is_a_positive_number() {
    for value in ["0", "-6607.5"] {
        let folder = tree("v5.1");
        folder.set(&format!("{RESULT}/Offline/{RUN}"), "result_samples_per_second", value);
        let checked = rules(&folder, "v5.1");
        assert_eq!(severities(&checked, "performance.zero"), [Severity::Error], "{value}");
        assert!(!counts(&checked, "Offline") && counts(&checked, "SingleStream"), "{value}");
        assert!(checked.rows.iter().all(|row| row.get(Column::Scenario) != "Offline"), "{value}");
    }
}

/// A mean of 1e-320 ns is 0 in ms, so that the program divides by 0. One of 1e-305 ns makes an infinite
/// rate, which is a number to Python.
#[test]
fn nothing_is_inferred_from_a_mean_of_zero() {
    let folder = tree("v5.1");
    let log = format!("{RESULT}/Offline/{RUN}");
    for (mean, program, strict) in [
        ("1000000", true, true),
        ("1e-305", true, false),
        ("1e-320", false, false),
        ("0", false, false),
    ] {
        let text = made::log(Round::named("v5.1").unwrap(), "MultiStream")
            + &made::line("result_99.00_percentile_per_query_latency_ns", "1000")
            + &made::line("result_mean_query_latency_ns", mean);
        folder.write(&log, text);
        assert_eq!(counts(&as_of(&folder, "v5.1"), "Offline"), program, "{mean}");
        let checked = rules(&folder, "v5.1");
        assert_eq!(counts(&checked, "Offline"), strict, "{mean}: {:#?}", checked.findings);
    }
}

/// The programs take the rate of an inferred Offline result as it is, and convert another one with
/// `float`, which reads texts and `inf` (v5.1.1:1573 and 1797).
#[test]
fn a_rate_that_is_a_text_is_a_number_to_python_only() {
    for (played, key) in [
        ("SingleStream", "result_qps_without_loadgen_overhead"),
        ("Offline", "result_samples_per_second"),
    ] {
        for (value, rate, strict) in
            [("2000", 2000.0, true), ("\"2000\"", 2000.0, false), ("\"inf\"", f64::INFINITY, false)]
        {
            let folder = tree("v5.1");
            let log = format!("{RESULT}/Offline/{RUN}");
            folder.write(&log, made::log(Round::named("v5.1").unwrap(), played));
            folder.set(&log, key, value);
            let official = as_of(&folder, "v5.1");
            let offline = &official.results[&Path::new(RESULT).join("Offline")];
            assert_eq!(*offline, Outcome::Valid { metric: rate }, "{key} {value}");
            let checked = rules(&folder, "v5.1");
            assert_eq!(
                counts(&checked, "Offline"),
                strict,
                "{key} {value}: {:#?}",
                checked.findings
            );
        }
    }
}

/// Python's `float` also reads these readings of the analyzer.
#[test]
fn a_mean_power_is_a_number() {
    let folder = tree("v5.1");
    let performance = format!("{RESULT}/Offline/performance");
    let log = format!("{RESULT}/Offline/{RUN}");
    let times = made::line("power_begin", "\"01-01-1970 00:00:00.100\"")
        + &made::line("power_end", "\"01-01-1970 00:10:00.100\"");
    folder.write(&log, folder.read(&log) + &times);
    PowerFiles { folder: &folder.path().join(&performance), run: "run_1", round: "v5.1" }.make();
    let readings = format!("{performance}/run_1/spl.txt");
    let text = folder.read(&readings);
    let cases: [(&str, &[Severity]); 3] =
        [(WATTS, &[]), ("inf", &[Severity::Error]), ("nan", &[Severity::Error])];
    for (watts, expected) in cases {
        folder.write(&readings, text.replace(WATTS, watts));
        assert_eq!(severities(&rules(&folder, "v5.1"), "power.metric"), expected, "{watts}");
        assert!(severities(&as_of(&folder, "v5.1"), "power.metric").is_empty(), "{watts}");
    }
}

/// The program in modules raises an exception at a log that begins with another line.
#[test]
fn a_log_begins_with_a_line_of_loadgen() {
    for (round, expected) in [("v5.1", Severity::Warning), ("v6.0", Severity::Error)] {
        for run in [RUN, "accuracy/mlperf_log_detail.txt"] {
            for first in ["\u{feff}\n", "a line\n"] {
                let folder = tree(round);
                let log = format!("{RESULT}/Offline/{run}");
                folder.write(&log, first.to_owned() + &folder.read(&log));
                let found = severities(&rules(&folder, round), "log.first_line");
                assert_eq!(found, [expected], "{round} {run}");
            }
        }
    }
}

/// The open division may miss a target, but `float` raises an exception in the program in modules.
#[test]
fn an_open_accuracy_is_a_number_to_the_program_in_modules() {
    let round = Round::named("v6.0").unwrap();
    let closed = made::submission(round);
    let open = Folder::new("open");
    copy(&closed.path().join("closed"), &open.path().join("open"));
    open.set_field("open/acme/systems/box.json", "division", "open");
    let text = "open/acme/results/box/resnet50/Offline/accuracy/accuracy.txt";
    for (value, valid) in [("76.100", 3), ("1.0", 3), ("1.0.0", 2)] {
        open.write(text, format!("accuracy={value}%, good=38050, total=50000\nhash=0\n"));
        let checked = check(open.path(), round, &Options::new(Program::Modular)).unwrap();
        assert_eq!(checked.valid(), valid, "{value}: {:#?}", checked.findings);
    }
}
