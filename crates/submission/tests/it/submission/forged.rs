//! Real submissions, edited so that a result must become invalid or must stay valid.

use std::fs;
use std::path::Path;

use dyno_rules::Round;
use dyno_submission::check::{CheckReport, Options, Outcome, Program, check};
use dyno_submission::finding::Severity;

use super::mutations::cut_to_one_model;
use crate::made::folder::Folder;
use crate::shared;

const LENOVO: &str = "closed/Lenovo";
const BOX: &str = "SE100_RTX2000E_Ada_16GBx1_TRT/resnet50";
const KRAI: &str = "open/Krai/results/xe9680_mi300x_x8_vllm_065/llama2-70b-fp8_quark";
const RUN: &str = "performance/run_1/mlperf_log_detail.txt";

/// Returns the edge system of one submitter and the open result of another; `None` if the real
/// submissions are missing.
fn tree() -> Option<Folder> {
    let tree = shared::find("reference/submissions")?.join("tree");
    let folder = Folder::new("forged");
    let base = format!("{LENOVO}/results/{BOX}/SingleStream");
    cut_to_one_model(&tree, Path::new(&base), folder.path());
    cut_to_one_model(&tree, Path::new(&format!("{KRAI}/offline")), folder.path());
    let names = "open/Krai/model_mapping.json";
    fs::copy(tree.join(names), folder.path().join(names)).unwrap();
    Some(folder)
}

fn lenovo(scenario: &str) -> String {
    format!("{LENOVO}/results/{BOX}/{scenario}")
}

fn judged(folder: &Folder) -> CheckReport {
    let round = Round::named("v5.1").unwrap();
    check(folder.path(), round, &Options { forensic: true, ..Options::new(Program::Strict) })
        .unwrap()
}

fn counts(checked: &CheckReport, result: &str) -> bool {
    matches!(checked.results.get(Path::new(result)), Some(Outcome::Valid { .. }))
}

fn edit(folder: &Folder, path: &str, change: impl Fn(String) -> String) {
    let path = folder.path().join(path);
    let old = fs::read_to_string(&path).unwrap();
    let new = change(old.clone());
    assert_ne!(old, new, "nothing to change in {}", path.display());
    fs::write(path, new).unwrap();
}

fn without(key: &str) -> impl Fn(String) -> String {
    let of_key = format!("\"key\": \"{key}\"");
    move |log| {
        log.lines().filter(|line| !line.contains(&of_key)).map(|l| format!("{l}\n")).collect()
    }
}

/// Asserts that a result is invalid, and by which check.
#[track_caller]
fn assert_fails(folder: &Folder, result: &str, id: &str) {
    let checked = judged(folder);
    assert!(!counts(&checked, result), "{result} counts; {id} should find it");
    let errors = checked.findings.iter().filter(|f| f.severity == Severity::Error);
    let ids: Vec<&str> = errors.map(|finding| finding.check).collect();
    assert!(ids.contains(&id), "{id} is not among {ids:?}");
}

#[test]
fn as_it_was_submitted_every_result_counts() {
    let Some(folder) = tree() else { return };
    let checked = judged(&folder);
    let errors: Vec<_> =
        checked.findings.iter().filter(|f| f.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert!(
        counts(&checked, &lenovo("SingleStream")) && counts(&checked, &format!("{KRAI}/offline"))
    );
}

#[test]
fn an_audit_passes_only_by_a_line_of_its_own() {
    for name in ["verify_accuracy.txt", "verify_performance.txt"] {
        let Some(folder) = tree() else { return };
        let text = format!("{LENOVO}/compliance/{BOX}/SingleStream/TEST01/{name}");
        edit(&folder, &text, |text| text.replace("TEST PASS", "not a TEST PASS at all: TEST FAIL"));
        let result = lenovo("SingleStream");
        let id =
            if name.contains("accuracy") { "audit.accuracy_files" } else { "audit.performance" };
        assert_fails(&folder, &result, id);
    }
}

#[test]
fn a_line_that_is_no_text_hides_no_error_of_an_accuracy_run() {
    let Some(folder) = tree() else { return };
    let log = folder.path().join(lenovo("SingleStream")).join("accuracy/mlperf_log_detail.txt");
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend(
        b":::MLLOG {\"key\": \"error\", \"value\": \"\xff\", \"metadata\": {\"is_error\": true}}\n",
    );
    fs::write(log, bytes).unwrap();
    assert_fails(&folder, &lenovo("SingleStream"), "accuracy.readable");
}

#[test]
fn a_stray_file_counts_against_its_own_division() {
    let (closed, open) = (lenovo("SingleStream"), format!("{KRAI}/offline"));
    for (stray, against, not) in [("closed", &closed, &open), ("open", &open, &closed)] {
        let Some(folder) = tree() else { return };
        folder.write(&format!("{stray}/stray.txt"), "x");
        let checked = judged(&folder);
        assert!(!counts(&checked, against) && counts(&checked, not), "{stray}");
    }
    let Some(folder) = tree() else { return };
    folder.write("closed/stray.txt", "x");
    folder.write("open/stray.txt", "x");
    folder.write("network/stray.txt", "x");
    let found = judged(&folder).findings;
    assert_eq!(found.iter().filter(|f| f.check == "tree.division_files").count(), 3);
}

#[test]
fn the_open_division_may_miss_a_target_but_must_say_what_it_reached() {
    let result = format!("{KRAI}/offline");
    let text = format!("{result}/accuracy/accuracy.txt");
    let Some(folder) = tree() else { return };
    edit(&folder, &text, |text| text.replace("rouge1", "rouge_1"));
    assert_fails(&folder, &result, "accuracy.metric");
    let Some(folder) = tree() else { return };
    edit(&folder, &text, |text| text.replace("hash=", "hash:"));
    assert_fails(&folder, &result, "accuracy.hash");
}

#[test]
fn a_pipe_or_a_device_in_place_of_a_file_of_power_is_no_wait() {
    let Some(folder) = tree() else { return };
    let power = folder.path().join(lenovo("SingleStream")).join("performance/power");
    fs::create_dir_all(&power).unwrap();
    let made = std::process::Command::new("mkfifo").arg(power.join("client.json")).status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", power.join("server.json")).unwrap();
    assert_fails(&folder, &lenovo("SingleStream"), "power.files");
}

#[test]
fn no_value_after_the_hash_is_overlooked() {
    let Some(folder) = tree() else { return };
    let text = format!("{}/accuracy/accuracy.txt", lenovo("SingleStream"));
    edit(&folder, &text, |text| text + "\naccuracy=11.000%, good=1, total=50000\n");
    assert_fails(&folder, &lenovo("SingleStream"), "accuracy.target");
}

#[test]
fn a_log_without_a_key_that_every_run_writes_does_not_count() {
    for key in [
        "result_query_count",
        "effective_test_mode",
        "num_errors",
        "power_begin",
        "effective_min_query_count",
        "result_min_queries_met",
    ] {
        let Some(folder) = tree() else { return };
        edit(&folder, &format!("{}/{RUN}", lenovo("SingleStream")), without(key));
        assert_fails(&folder, &lenovo("SingleStream"), "log.keys");
    }
    let Some(folder) = tree() else { return };
    let log = format!("{}/accuracy/mlperf_log_detail.txt", lenovo("SingleStream"));
    edit(&folder, &log, |log| log.lines().take(1).map(|line| format!("{line}\n")).collect());
    assert_fails(&folder, &lenovo("SingleStream"), "accuracy.keys");
}

#[test]
fn the_estimate_is_the_one_of_the_summary_and_of_the_words_of_the_log() {
    let Some(folder) = tree() else { return };
    edit(&folder, &format!("{}/{RUN}", lenovo("SingleStream")), |log| {
        let key = "\"key\": \"early_stopping_latency_ss\", \"value\": ";
        log.replace(&format!("{key}513395"), &format!("{key}513381"))
    });
    assert_fails(&folder, &lenovo("SingleStream"), "performance.summary");
}

/// Official programs read the detail log alone, but a reader sees the summary.
#[test]
fn the_result_of_the_summary_is_that_of_the_log() {
    let Some(folder) = tree() else { return };
    let summary = format!("{}/performance/run_1/mlperf_log_summary.txt", lenovo("SingleStream"));
    edit(&folder, &summary, |text| {
        let result = |line: &str| match line.split_once("th percentile latency (ns) : ") {
            Some((rank, _)) => format!("{rank}th percentile latency (ns) : 1\n"),
            None => format!("{line}\n"),
        };
        text.lines().map(result).collect()
    });
    assert_fails(&folder, &lenovo("SingleStream"), "performance.summary");
}

#[test]
fn an_accuracy_has_one_value() {
    let Some(folder) = tree() else { return };
    let text = format!("{}/accuracy/accuracy.txt", lenovo("SingleStream"));
    edit(&folder, &text, |text| format!("accuracy=99.9%, good=49950, total=50000\n{text}"));
    assert_fails(&folder, &lenovo("SingleStream"), "accuracy.counts");
}

#[test]
fn an_audit_is_of_the_scenario_of_its_result_and_has_its_keys() {
    for test in ["TEST01", "TEST04"] {
        let of = |scenario: &str| format!("{LENOVO}/compliance/{BOX}/{scenario}/{test}/{RUN}");
        let Some(folder) = tree() else { return };
        let other = fs::read_to_string(folder.path().join(of("SingleStream"))).unwrap();
        edit(&folder, &of("Offline"), |_| other.clone());
        assert_fails(&folder, &lenovo("Offline"), "audit.settings");
        for (key, id) in [
            ("result_samples_per_second", "performance.keys"),
            ("effective_performance_issue_same", "audit.settings"),
        ] {
            let Some(folder) = tree() else { return };
            edit(&folder, &of("Offline"), without(key));
            assert_fails(&folder, &lenovo("Offline"), id);
        }
    }
}

#[test]
fn a_log_of_an_audit_has_no_key_with_two_values_and_counts_its_errors() {
    for test in ["TEST01", "TEST04"] {
        let log = format!("{LENOVO}/compliance/{BOX}/SingleStream/{test}/{RUN}");
        let Some(folder) = tree() else { return };
        edit(&folder, &log, |log| {
            let own = log.lines().find(|line| line.contains("early_stopping_latency_ss")).unwrap();
            let (before, _) = own.split_once("\"value\": ").unwrap();
            let (_, after) = own.split_once(", \"time_ms\"").unwrap();
            format!("{log}{before}\"value\": 513396, \"time_ms\"{after}\n")
        });
        assert_fails(&folder, &lenovo("SingleStream"), "log.repeated_keys");
        let Some(folder) = tree() else { return };
        let key = "\"key\": \"num_errors\", \"value\": ";
        edit(&folder, &log, |log| log.replace(&format!("{key}0"), &format!("{key}1")));
        assert_fails(&folder, &lenovo("SingleStream"), "log.error_count");
    }
}

#[test]
fn a_skipped_scenario_may_be_what_another_is_inferred_from() {
    let Some(folder) = tree() else { return };
    let round = Round::named("v5.1").unwrap();
    let mut options = Options { forensic: true, ..Options::new(Program::Strict) };
    options.scenarios_to_skip = vec!["SingleStream".to_owned()];
    let checked = check(folder.path(), round, &options).unwrap();
    assert!(!checked.results.contains_key(Path::new(&lenovo("SingleStream"))));
    assert!(checked.findings.iter().all(|f| f.check != "performance.inferred_copy"));
}

#[test]
fn a_mapping_of_models_that_is_none_is_found() {
    for text in ["[]", "\"x\"", "null", "{\"m\": 5}"] {
        let Some(folder) = tree() else { return };
        folder.write("open/Krai/model_mapping.json", text);
        assert_fails(&folder, &format!("{KRAI}/offline"), "submitter.model_names");
    }
}

#[test]
fn the_text_of_an_error_is_cut() {
    let Some(folder) = tree() else { return };
    let error = format!(
        ":::MLLOG {{\"key\": \"error\", \"value\": \"{}\", \"metadata\": {{\"is_error\": true}}}}\n",
        "é".repeat(100_000)
    );
    edit(&folder, &format!("{}/{RUN}", lenovo("SingleStream")), |log| log + &error);
    let found = judged(&folder).findings;
    let error = found.iter().find(|finding| finding.check == "performance.errors").unwrap();
    assert!(error.message.len() < 1000);
}

#[test]
fn a_result_of_zero_is_none_and_says_so() {
    let Some(folder) = tree() else { return };
    edit(&folder, &format!("{}/{RUN}", lenovo("SingleStream")), |log| {
        let key = "\"key\": \"early_stopping_latency_ss\", \"value\": ";
        log.replace(&format!("{key}513395"), &format!("{key}0"))
    });
    let round = Round::named("v5.1").unwrap();
    assert!(!counts(&judged(&folder), &lenovo("SingleStream")));
    for program in [Program::Mono, Program::Modular] {
        let checked = check(folder.path(), round, &Options::new(program)).unwrap();
        assert!(!counts(&checked, &lenovo("SingleStream")));
        assert!(checked.findings.iter().any(|f| f.check == "performance.zero"), "{program:?}");
    }
}

/// Changes the value of a key.
fn with(key: &'static str, value: &'static str) -> impl Fn(String) -> String {
    let of_key = format!("\"key\": \"{key}\", \"value\": ");
    move |log| {
        let change = |line: &str| match line.split_once(&of_key) {
            Some((before, after)) => {
                let (_, rest) = after.split_once(", \"time_ms\"").unwrap();
                format!("{before}{of_key}{value}, \"time_ms\"{rest}\n")
            }
            None => format!("{line}\n"),
        };
        log.lines().map(change).collect()
    }
}

#[test]
fn a_value_of_another_type_is_as_good_as_none() {
    for (key, value) in [
        ("early_stopping_latency_ss", "\"475000\""),
        ("result_query_count", "null"),
        ("result_query_count", "\"1167425\""),
        ("result_query_count", "-1"),
        ("power_begin", "null"),
        ("power_end", "\"yesterday\""),
        ("early_stopping_met", "1"),
        ("num_errors", "null"),
        ("num_errors", "\"0\""),
        ("effective_target_latency_percentile", "\"0.9\""),
    ] {
        let Some(folder) = tree() else { return };
        edit(&folder, &format!("{}/{RUN}", lenovo("SingleStream")), with(key, value));
        assert_fails(&folder, &lenovo("SingleStream"), "log.keys");
    }
    for (key, value, id) in [
        ("effective_test_mode", "null", "accuracy.keys"),
        ("effective_qsl_rng_seed", "null", "accuracy.keys"),
        ("effective_scenario", "\"Server2\"", "log.scenario"),
    ] {
        let Some(folder) = tree() else { return };
        let log = format!("{}/accuracy/mlperf_log_detail.txt", lenovo("SingleStream"));
        edit(&folder, &log, with(key, value));
        assert_fails(&folder, &lenovo("SingleStream"), id);
    }
    let Some(folder) = tree() else { return };
    let result = lenovo("Offline");
    edit(&folder, &format!("{result}/{RUN}"), with("result_samples_per_second", "\"7200\""));
    let summary = format!("{result}/performance/run_1/mlperf_log_summary.txt");
    edit(&folder, &summary, |text| text.replace("6607.08", "7200"));
    assert_fails(&folder, &result, "performance.keys");
}

#[test]
fn a_count_that_others_contradict_does_not_count() {
    for count in ["583712", "2334850"] {
        let Some(folder) = tree() else { return };
        let run = format!("{}/{RUN}", lenovo("SingleStream"));
        edit(&folder, &run, with("result_query_count", count));
        assert_fails(&folder, &lenovo("SingleStream"), "performance.consistent");
    }
}

#[test]
fn the_percentile_of_a_bound_is_the_one_of_the_round() {
    let (key, result) = ("effective_target_latency_percentile", lenovo("SingleStream"));
    let audit = format!("{LENOVO}/compliance/{BOX}/SingleStream/TEST04/{RUN}");
    for log in [format!("{result}/{RUN}"), audit] {
        let Some(folder) = tree() else { return };
        edit(&folder, &log, with(key, "0.5"));
        assert_fails(&folder, &result, "performance.target_latency");
    }
}

#[test]
fn a_field_of_the_summary_that_no_check_asks_for_is_the_one_of_the_log() {
    let Some(folder) = tree() else { return };
    let summary = format!("{}/performance/run_1/mlperf_log_summary.txt", lenovo("SingleStream"));
    edit(&folder, &summary, |text| text.replace("print_timestamps : 0", "print_timestamps : 1"));
    assert_fails(&folder, &lenovo("SingleStream"), "performance.summary");
}

#[test]
fn answers_are_as_long_as_in_the_accuracy_run() {
    let Some(folder) = tree() else { return };
    let result = format!("{KRAI}/offline");
    edit(&folder, &format!("{result}/{RUN}"), with("result_tokens_per_second", "54371.0"));
    let summary = format!("{result}/performance/run_1/mlperf_log_summary.txt");
    edit(&folder, &summary, |text| text.replace("27185.5", "54371.0"));
    assert_fails(&folder, &result, "performance.consistent");
}

#[test]
fn answers_are_no_longer_than_the_round_lets_them_be() {
    let Some(shared) = shared::find("reference/submissions") else { return };
    let folder = Folder::new("forged");
    let result = "closed/RedHat/results/XE8640_4xH100_vLLM/llama3.1-8b/Offline";
    cut_to_one_model(&shared.join("tree"), Path::new(result), folder.path());
    assert!(counts(&judged(&folder), result));
    edit(&folder, &format!("{result}/{RUN}"), with("result_tokens_per_second", "11554.16"));
    let summary = format!("{result}/performance/run_1/mlperf_log_summary.txt");
    edit(&folder, &summary, |text| text.replace("5777.08", "11554.16"));
    assert_fails(&folder, result, "performance.consistent");
}

#[test]
fn the_wall_clock_sees_what_the_latencies_say() {
    // Each run takes about twice the time of its queries.
    for (scenario, end) in [
        ("SingleStream", "\"07-23-2025 02:38:12.581\""),
        ("Offline", "\"07-23-2025 02:27:43.941\""),
    ] {
        let Some(folder) = tree() else { return };
        edit(&folder, &format!("{}/{RUN}", lenovo(scenario)), with("power_end", end));
        assert_fails(&folder, &lenovo(scenario), "performance.consistent");
    }
}

#[test]
fn a_run_issues_what_its_settings_ask_for() {
    for (scenario, key, value) in [
        ("SingleStream", "effective_min_query_count", "1167426"),
        ("Offline", "effective_samples_per_query", "4554001"),
    ] {
        let Some(folder) = tree() else { return };
        let run = format!("{}/performance/run_1", lenovo(scenario));
        edit(&folder, &format!("{run}/mlperf_log_detail.txt"), with(key, value));
        let (_, key) = key.split_once('_').unwrap();
        edit(&folder, &format!("{run}/mlperf_log_summary.txt"), |text| {
            let change = |line: &str| match line.split_once(" : ") {
                Some((name, _)) if name == key => format!("{name} : {value}\n"),
                _ => format!("{line}\n"),
            };
            text.lines().map(change).collect()
        });
        assert_fails(&folder, &lenovo(scenario), "performance.consistent");
    }
}

#[test]
fn the_run_of_an_audit_is_no_result() {
    let key = "\"effective_performance_issue_same\", \"value\": ";
    for run in [RUN, "accuracy/mlperf_log_detail.txt"] {
        let Some(folder) = tree() else { return };
        edit(&folder, &format!("{}/{run}", lenovo("SingleStream")), |log| {
            log.replace(&format!("{key}false"), &format!("{key}true"))
        });
        assert_fails(&folder, &lenovo("SingleStream"), "log.settings");
    }
}

#[test]
fn a_script_that_scored_fewer_samples_than_there_are_scored_another_run() {
    let Some(folder) = tree() else { return };
    let text = format!("{}/accuracy/accuracy.txt", lenovo("SingleStream"));
    edit(&folder, &text, |text| text.replace("total=50000", "total=1"));
    assert_fails(&folder, &lenovo("SingleStream"), "accuracy.samples");
}

#[test]
fn an_accuracy_is_that_of_the_counts_beside_it() {
    for (from, to) in [("accuracy=76.", "accuracy=77."), ("good=", "good=1"), ("good=3", "good=4")]
    {
        let Some(folder) = tree() else { return };
        let text = format!("{}/accuracy/accuracy.txt", lenovo("SingleStream"));
        edit(&folder, &text, |text| text.replace(from, to));
        assert_fails(&folder, &lenovo("SingleStream"), "accuracy.counts");
    }
}

#[test]
fn answers_of_the_first_audit_are_those_of_the_accuracy_run() {
    let result = lenovo("SingleStream");
    let audit = format!("{LENOVO}/compliance/{BOX}/SingleStream/TEST01/accuracy");
    let log = format!("{audit}/mlperf_log_accuracy.json");
    let Some(folder) = tree() else { return };
    edit(&folder, &log, |_| "[]".to_owned());
    assert_fails(&folder, &result, "accuracy.log_empty");
    let Some(folder) = tree() else { return };
    edit(&folder, &format!("{audit}/accuracy.txt"), |_| "hash=00\n".to_owned());
    assert_fails(&folder, &result, "accuracy.hash_format");
    let known = format!("{result}/accuracy/mlperf_log_accuracy.json");
    for (data, is_same) in [("FF", false), ("", true)] {
        let Some(folder) = tree() else { return };
        let known = fs::read_to_string(folder.path().join(&known)).unwrap();
        let entry = known.lines().nth(1).unwrap();
        let (before, answer) = entry.split_once("\"data\" : \"").unwrap();
        let answer = if is_same { answer } else { &answer[2..] };
        let entry = format!("{before}\"data\" : \"{data}{answer}");
        edit(&folder, &log, |log| log.replacen("[\n", &format!("[\n{entry}\n"), 1));
        if is_same {
            assert!(counts(&judged(&folder), &result));
        } else {
            assert_fails(&folder, &result, "audit.text_derived");
        }
    }
}

/// v5.1.1:2872 rejects the result that it lists last. This is Offline if there is no other one; with
/// two, `read_dir` has the order of `os.listdir`.
#[test]
fn the_program_of_v5_1_rejects_the_last_result_for_a_missing_server() {
    let Some(shared) = shared::find("reference/submissions") else { return };
    let model = "closed/RedHat/results/XE8640_4xH100_vLLM/llama3.1-8b";
    let offline = format!("{model}/Offline");
    let folder = Folder::new("server");
    cut_to_one_model(&shared.join("tree"), Path::new(&format!("{model}/Server")), folder.path());
    let assert_rejects = |rejects: bool| {
        let round = Round::named("v5.1").unwrap();
        let checked = check(folder.path(), round, &Options::new(Program::Mono)).unwrap();
        let missing = checked.findings.iter().find(|one| one.check == "model.scenarios").unwrap();
        let message = "no valid Server or Interactive".to_owned();
        let and = format!("{message}; the program rejects {offline} for it");
        assert_eq!(missing.message, if rejects { and } else { message });
        assert_eq!(counts(&checked, &offline), !rejects, "{:#?}", checked.findings);
    };
    folder.set(&format!("{model}/Server/{RUN}"), "result_validity", "\"INVALID\"");
    let listed = fs::read_dir(folder.path().join(model)).unwrap();
    assert_rejects(listed.last().unwrap().unwrap().file_name() == "Offline");
    fs::remove_dir_all(folder.path().join(model).join("Server")).unwrap();
    assert_rejects(true);
}
