//! What a harness does wrong is a clear error, and the next test runs.

use std::path::Path;

use crate::logs::{detail, grave};
use crate::program::{Language, Link, build, compile, folder, run};

/// Runs a case of `misuse.c` linked in both ways, and shows the folder with its
/// logs to `check`.
fn check_case(case: &str, check: impl Fn(&Path)) {
    for link in Link::BOTH {
        let folder = folder(&format!("misuse-{case}-{link:?}"));
        let Some(program) = build("tests/c/misuse.c", Language::C, link) else { return };
        run(&program, &folder, &[case]);
        check(&folder);
    }
}

fn check_clean_and_valid(folder: &Path) {
    assert_eq!(grave(folder), [""; 0]);
    assert_eq!(detail(folder).text("result_validity"), Some("VALID"));
}

#[test]
fn wrong_arguments_are_results_with_a_text() {
    for link in Link::BOTH {
        let folder = folder(&format!("calls-{link:?}"));
        let Some(program) = build("tests/c/calls.c", Language::C, link) else { return };
        assert_eq!(run(&program, &folder, &[]), "");
    }
}

#[test]
fn logs_that_cannot_be_opened_are_an_error_before_anything_is_issued() {
    check_case("no_folder", check_clean_and_valid);
}

#[test]
fn second_completions_are_counted_in_the_log() {
    check_case("twice", |folder| {
        let grave = grave(folder);
        assert!(grave.len() == 1 && grave[0].contains("twice. (700 times)"), "{grave:?}");
        assert_eq!(detail(folder).text("result_validity"), Some("VALID"));
    });
}

#[test]
fn ids_of_nobody_are_counted_in_the_log() {
    check_case("unknown_ids", |folder| {
        let grave = grave(folder);
        assert!(grave.iter().any(|text| text.contains("never issued")), "{grave:?}");
        assert_eq!(detail(folder).text("result_validity"), Some("VALID"));
    });
}

#[test]
fn a_completion_after_the_end_is_a_result_and_the_next_log_tells_it() {
    check_case("late", |folder| {
        let grave = grave(folder);
        let told = "Samples that were completed while no test was running: 1.";
        assert!(grave.len() == 1 && grave[0].contains(told), "{grave:?}");
    });
}

#[test]
fn threads_that_exit_at_flush_leave_a_whole_result() {
    check_case("exiting_threads", check_clean_and_valid);
}

#[test]
fn a_second_test_at_once_is_refused() {
    check_case("two_tests", check_clean_and_valid);
}

#[test]
fn a_library_without_samples_is_refused() {
    check_case("empty_library", check_clean_and_valid);
}

#[test]
fn no_callback_follows_one_that_failed() {
    check_case("failing_callbacks", check_clean_and_valid);
}

#[test]
fn an_abort_ends_a_system_that_never_answers() {
    check_case("aborts", |folder| {
        let grave = grave(folder);
        assert!(grave[0].contains("aborted"), "{grave:?}");
    });
}

#[test]
fn registered_threads_issue_in_one_test_after_the_other() {
    check_case("issue_threads", check_clean_and_valid);
}

#[test]
fn names_that_are_not_utf_8_are_in_the_logs() {
    check_case("odd_names", |folder| {
        let name = detail(folder).text("sut_name").map(str::to_owned);
        assert_eq!(name.as_deref(), Some("caf\u{fffd} \"quoted\"\n"));
    });
}

#[cfg(target_os = "linux")]
#[test]
fn completions_for_a_test_of_the_python_module_go_there() {
    for link in Link::BOTH {
        let folder = folder(&format!("module-{link:?}"));
        let mut arguments = vec!["-rdynamic".into(), link.library().into_os_string()];
        arguments.extend(["-lpthread", "-ldl", "-lm"].map(Into::into));
        let program = compile("tests/c/module.c", Language::C, &folder, &arguments);
        let Some(program) = program else { return };
        assert_eq!(run(&program, &folder, &[]), "");
    }
}
