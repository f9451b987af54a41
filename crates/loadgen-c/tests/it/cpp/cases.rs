//! Harnesses in C++ run, and their logs are as they should be.

use std::fs;
use std::path::Path;

use dyno_loadgen::log::read::{Detail, open_accuracy, read_detail_file};

use super::installed;
use crate::program::{Link, folder, run};

/// Runs a case linked in both ways; shows what was printed and the folder with
/// its logs to `check`.
fn check_case(case: &str, check: impl Fn(&Path, &str)) {
    let Some(installed) = installed() else { return };
    for (link, harness) in Link::BOTH.iter().zip(&installed.harness) {
        let folder = folder(&format!("cpp-{case}-{link:?}"));
        fs::create_dir(folder.join("logs")).unwrap();
        let printed = run(harness, &folder, &[case]);
        check(&folder, &printed);
    }
}

/// The detail log of the n-th test of a case.
fn detail(folder: &Path, test: usize) -> Detail {
    let path = folder.join(format!("{test}_detail.txt"));
    let (detail, problems) = read_detail_file(&path).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    detail
}

/// Errors and warnings of a test.
fn grave(folder: &Path, test: usize) -> Vec<String> {
    let detail = detail(folder, test);
    let grave = detail.entries.iter().filter(|entry| entry.is_error || entry.is_warning);
    grave.map(|entry| format!("{:?}", entry.value)).collect()
}

fn check_valid(folder: &Path, tests: usize) {
    for test in 0..tests {
        assert_eq!(grave(folder, test), [""; 0], "test {test}");
        let detail = detail(folder, test);
        assert_eq!(detail.text("result_validity"), Some("VALID"), "test {test}");
    }
}

/// Position in the library and payload of each response of a test's log.
fn answers(folder: &Path, test: usize) -> Vec<(u64, Vec<u8>)> {
    let entries = open_accuracy(&folder.join(format!("{test}_accuracy.json"))).unwrap();
    entries.map(|entry| entry.unwrap()).map(|e| (e.qsl_idx, e.data)).collect()
}

#[test]
fn systems_that_complete_in_the_call_are_valid() {
    check_case("inline_completion", |folder, _| check_valid(folder, 4));
}

#[test]
fn systems_with_a_queue_and_workers_are_valid() {
    check_case("queue_and_workers", |folder, _| check_valid(folder, 4));
}

#[test]
fn systems_with_a_thread_for_each_query_are_valid() {
    check_case("a_thread_for_each_query", |folder, _| check_valid(folder, 4));
}

#[test]
fn coalesced_queries_come_in_one_call() {
    check_case("coalesced_queries", |folder, _| check_valid(folder, 1));
}

#[test]
fn samples_come_in_a_vector_that_nobody_copied() {
    check_case("samples_are_not_copied", |folder, _| check_valid(folder, 1));
}

#[test]
fn payloads_are_in_the_accuracy_log() {
    check_case("accuracy_payloads", |folder, _| {
        for test in 0..4 {
            let mut answers = answers(folder, test);
            for (index, data) in &answers {
                assert_eq!(data[..], index.to_ne_bytes());
            }
            answers.sort_unstable();
            answers.dedup();
            assert_eq!(answers.len(), 256, "test {test}");
        }
    });
}

#[test]
fn a_response_callback_is_called_for_what_is_logged() {
    check_case("response_callback", |folder, _| {
        assert_eq!(answers(folder, 0), []);
        let answers = answers(folder, 1);
        assert_eq!(answers.len(), 256);
        for (index, data) in &answers {
            assert_eq!(data[..], u32::try_from(*index).unwrap().to_ne_bytes());
        }
    });
}

#[test]
fn tokens_are_measured_and_logged() {
    check_case("token_metrics", |folder, _| {
        check_valid(folder, 4);
        for test in 0..3 {
            let fastest = detail(folder, test).whole("result_first_token_min_latency_ns");
            assert!(fastest.is_some(), "test {test}");
        }
        let name = detail(folder, 0).text("sut_name").unwrap().to_owned();
        assert!(name.starts_with("model behind a network, asked"), "{name}");
        let log = open_accuracy(&folder.join("0_accuracy.json")).unwrap();
        for entry in log.map(Result::unwrap) {
            assert_eq!(entry.data, b"tokens");
            assert_eq!(entry.token_data.as_deref(), Some(&b"tok"[..]));
            assert_eq!(entry.token_count, Some(2 + i64::try_from(entry.qsl_idx % 3).unwrap()));
        }
    });
}

#[test]
fn a_search_for_the_peak_ends_where_the_base_rate_fails() {
    check_case("the_peak_is_found", |folder, _| {
        let grave = grave(folder, 0);
        assert!(grave[0].contains("Initial lower bound"), "{grave:?}");
    });
}

#[test]
fn registered_threads_issue_test_after_test() {
    check_case("issue_threads_twice", |folder, _| check_valid(folder, 3));
}

#[test]
fn threads_that_complete_at_flush_and_exit_do_no_harm() {
    check_case("threads_exit_at_flush", |folder, _| check_valid(folder, 2));
}

#[test]
fn a_test_is_aborted_from_another_thread() {
    check_case("abort_from_another_thread", |folder, _| {
        let aborted = grave(folder, 0);
        assert!(aborted[0].contains("aborted"), "{aborted:?}");
        assert_eq!(grave(folder, 1), [""; 0]);
    });
}

#[test]
fn exceptions_of_callbacks_come_out_of_the_test() {
    check_case("exceptions_of_callbacks", |folder, _| check_valid(folder, 4));
    check_case("exceptions_in_the_middle", |folder, _| {
        let grave = grave(folder, 0);
        assert!(grave[0].contains("aborted"), "{grave:?}");
    });
}

#[test]
fn exceptions_of_issue_threads_come_out_of_the_test() {
    check_case("exceptions_of_issue_threads", |folder, _| {
        let grave = grave(folder, 1);
        assert_eq!(grave, [""; 0]);
    });
}

#[test]
fn exceptions_of_response_callbacks_leave_the_completion() {
    check_case("exceptions_of_response_callbacks", |folder, _| {
        assert_eq!(answers(folder, 0).len(), 256);
    });
}

#[test]
fn a_second_test_at_once_throws_and_the_first_goes_on() {
    check_case("two_tests_at_once", |folder, _| {
        check_valid(folder, 1);
        assert!(!folder.join("7_detail.txt").exists());
    });
}

#[test]
fn logs_that_cannot_be_opened_throw_before_the_test() {
    check_case("logs_that_cannot_be_opened", |folder, _| check_valid(folder, 1));
}

#[test]
fn a_library_without_samples_throws() {
    check_case("libraries_without_samples", |folder, _| {
        check_valid(folder, 1);
        let told = grave(folder, 1);
        assert!(told[0].contains("expected at least 1 performance sample"), "{told:?}");
    });
}

#[test]
fn arguments_that_cannot_be_throw() {
    check_case("arguments_that_cannot_be", |folder, _| check_valid(folder, 1));
}

#[test]
fn settings_that_the_reference_calls_errors_run() {
    check_case("settings_that_are_errors", |folder, _| {
        let errors = detail(folder, 0).errors().count();
        assert!(errors >= 2, "{:?}", grave(folder, 0));
    });
}

#[test]
fn completions_of_nothing_are_told_in_the_next_log() {
    check_case("completions_that_are_wrong", |folder, _| {
        let told = grave(folder, 1);
        let expected = "Samples that were completed while no test was running: 2.";
        assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
    });
}

#[test]
fn configuration_files_set_fields() {
    check_case("from_config", |folder, _| assert!(folder.join("user.conf").exists()));
}

#[test]
fn audit_files_override_settings() {
    check_case("audit_files", |folder, _| {
        let counts = [0, 1, 2].map(|t| detail(folder, t).whole("effective_min_query_count"));
        assert_eq!(counts, [Some(77), Some(88), Some(700)]);
    });
}

#[test]
fn logs_are_named_and_copied_as_asked() {
    check_case("logs_on_stdout", |folder, printed| {
        for name in ["summary end.txt", "detail end.txt", "accuracy end.json", "trace end.json"] {
            let text = fs::read_to_string(folder.join("logs").join(format!("begin {name}")));
            let text = text.unwrap();
            assert!(!text.is_empty(), "{name}");
            let is_copied = printed.contains(&text);
            assert_eq!(is_copied, name.ends_with(".txt"), "{name}: {printed}");
        }
    });
}

#[test]
fn functions_are_a_harness_too() {
    check_case("c_api_performance", |folder, _| {
        let path = folder.join("mlperf_log_detail.txt");
        let (detail, _) = read_detail_file(&path).unwrap();
        assert_eq!(detail.text("sut_name"), Some("functions"));
        assert_eq!(detail.text("result_validity"), Some("VALID"));
        assert_eq!(detail.text("effective_scenario"), Some("Offline"));
    });
    check_case("c_api_accuracy", |folder, _| {
        let log = open_accuracy(&folder.join("mlperf_log_accuracy.json")).unwrap();
        let fetched = log.map(Result::unwrap).filter(|entry| entry.data == b"four");
        assert_eq!(fetched.count(), 32);
    });
    check_case("c_api_issue_threads", |folder, _| {
        assert!(folder.join("mlperf_log_summary.txt").exists());
    });
}
