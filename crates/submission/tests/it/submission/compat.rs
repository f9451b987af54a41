//! Edits in which the official single-file checkers behave as Python does, or as no rule says.
//! Expectations follow from the programs, by tag and line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use dyno_rules::{OneFileChecker, Round};
use dyno_submission::check::{CheckReport, Options, Outcome, Program, Skip, check};
use dyno_submission::table::{Column, Row};

use super::made;
use super::rounds::tree;
use crate::made::folder::{Folder, each_file};

const MODEL: &str = "closed/acme/results/box/resnet50";
const OFFLINE: &str = "closed/acme/results/box/resnet50/Offline";
const LANGUAGE: &str = "closed/acme/results/box/llama2-70b-99";
const SYSTEM: &str = "closed/acme/systems/box.json";
const RUN: &str = "performance/run_1/mlperf_log_detail.txt";
const ACCURACY_RUN: &str = "accuracy/mlperf_log_detail.txt";

/// Checks as the program of a tag does, without audits.
fn as_of(folder: &Folder, tag: &str) -> CheckReport {
    let program = Program::Tag(OneFileChecker::new(tag.parse().unwrap()));
    let options = Options { skip: vec![Skip::Compliance], ..Options::new(program) };
    check(folder.path(), Round::named(tag).unwrap(), &options).unwrap()
}

fn metric(checked: &CheckReport, path: &str) -> Option<f64> {
    match checked.results.get(Path::new(path)) {
        Some(Outcome::Valid { metric }) => Some(*metric),
        _ => None,
    }
}

fn has(checked: &CheckReport, check: &str, path: &str) -> bool {
    let mut found = checked.findings.iter().filter(|finding| finding.check == check);
    found.any(|finding| finding.path.to_string_lossy().contains(path))
}

/// Returns the generated tree with another model in a division.
fn moved(round: &str, model: &str, division: &str) -> Folder {
    let (from, to) = (tree(round), Folder::new("moved"));
    each_file(from.path(), &mut |file| {
        let path = file.strip_prefix(from.path()).unwrap().to_str().unwrap();
        let path = path.replacen("closed", division, 1).replace("resnet50", model);
        // The program of v4.1 ends at settings that it cannot split.
        let is_settings = path.ends_with(".conf");
        let bytes = if is_settings { b"# made\n".to_vec() } else { fs::read(file).unwrap() };
        to.write(&path, bytes);
    });
    to.set_field(&format!("{division}/acme/systems/box.json"), "division", division);
    to
}

/// Returns a generated result of a language model on a datacenter system, valid but for audits.
fn language(tag: &str, scenario: &str) -> Folder {
    let folder = moved(tag, "llama2-70b-99", "closed");
    folder.edit(SYSTEM, "\"edge\"", "\"datacenter\"");
    for part in ["results", "measurements"] {
        let model = folder.path().join(format!("closed/acme/{part}/box/llama2-70b-99"));
        fs::remove_dir_all(model.join("SingleStream")).unwrap();
        fs::remove_dir_all(model.join("MultiStream")).unwrap();
        fs::rename(model.join("Offline"), model.join("moved")).unwrap();
        fs::rename(model.join("moved"), model.join(scenario)).unwrap();
    }
    let mut log = made::log(Round::named(tag).unwrap(), scenario);
    for (key, value) in [
        ("requested_use_token_latencies", "true"),
        ("effective_sample_concatenate_permutation", "true"),
        ("result_first_token_99.00_percentile_latency_ns", "1"),
        ("result_time_per_output_token_99.00_percentile_ns", "1"),
        ("result_tokens_per_second", "77"),
    ] {
        log += &made::line(key, value);
    }
    let result = format!("{LANGUAGE}/{scenario}");
    folder.write(&format!("{result}/{RUN}"), log);
    folder.set(&format!("{result}/{RUN}"), "effective_performance_sample_count", "24576");
    let text = "{'rouge1': 44.5, 'rouge2': 22.1, 'rougeL': 29.0, 'tokens_per_sample': 294.45}";
    folder.write(&format!("{result}/accuracy/accuracy.txt"), format!("{text}\nhash=00\n"));
    folder
}

/// Returns the column of errors of each result, and whether the result is listed after another.
fn errors_after(checked: &CheckReport, folder: &Folder, other: &str) -> Vec<(String, bool)> {
    let listed = fs::read_dir(folder.path().join(MODEL)).unwrap();
    let names: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
    let place = |name: &str| names.iter().position(|one| one == name).unwrap();
    let row = |row: &Row| {
        let is_after = place(other) < place(row.get(Column::Scenario));
        (row.get(Column::Errors).to_owned(), is_after)
    };
    checked.rows.iter().map(row).collect()
}

/// v5.1.1:2552 counts it and v3.0:2224 does not.
#[test]
fn an_unknown_scenario_counts_for_the_results_that_the_system_lists_after_it() {
    for (tag, counts) in [("v2.1", false), ("v3.0", false), ("v4.1", true), ("v5.1", true)] {
        let folder = tree(tag);
        folder.write(&format!("{MODEL}/Unknown/made"), "");
        let checked = as_of(&folder, tag);
        let errors = errors_after(&checked, &folder, "Unknown");
        assert_eq!(errors.len(), 3, "{tag}: {:#?}", checked.findings);
        for (errors, is_after) in errors {
            assert_eq!(errors, if is_after && counts { "1" } else { "0" }, "{tag}");
        }
    }
}

/// v5.1.1:2686 and 2703 go on with the next run before v5.1.1:2787 counts.
#[test]
fn a_run_that_is_not_judged_is_no_error_and_an_invalid_one_is() {
    let summary = format!("{OFFLINE}/performance/run_1/mlperf_log_summary.txt");
    let missing = tree("v5.1");
    fs::remove_file(missing.path().join(summary)).unwrap();
    let invalid = tree("v5.1");
    invalid.set(&format!("{OFFLINE}/{RUN}"), "result_validity", "\"INVALID\"");
    for (folder, counts) in [(missing, false), (invalid, true)] {
        let errors = errors_after(&as_of(&folder, "v5.1"), &folder, "Offline");
        assert_eq!(errors.len(), 2);
        for (errors, is_after) in errors {
            assert_eq!(errors, if is_after && counts { "1" } else { "0" });
        }
    }
}

/// v4.0:2942 goes on, so that the performance run makes the scenario complete. v4.1:1999 does not.
#[test]
fn a_result_without_accuracy_is_judged_and_not_counted_up_to_v4_0() {
    for (tag, goes_on) in [("v3.0", true), ("v4.0", true), ("v4.1", false), ("v5.1", false)] {
        let folder = tree(tag);
        fs::remove_file(folder.path().join(format!("{OFFLINE}/accuracy/accuracy.txt"))).unwrap();
        let checked = as_of(&folder, tag);
        assert_eq!(metric(&checked, OFFLINE), None);
        assert_eq!(checked.results.contains_key(Path::new(MODEL)), !goes_on, "{tag}");
        for (errors, is_after) in errors_after(&checked, &folder, "Offline") {
            assert_eq!(errors, if is_after && !goes_on { "1" } else { "0" }, "{tag}");
        }
        // The list of files in this folder rejects since v4.1 as well.
        let folder = tree(tag);
        folder.write(&format!("{OFFLINE}/accuracy/more.txt"), "");
        assert_eq!(metric(&as_of(&folder, tag), OFFLINE).is_some(), goes_on, "{tag}");
    }
}

/// v3.0:2238 counts a problem and accepts the result.
#[test]
fn a_problem_of_a_measurement_counts_in_the_row_of_its_result() {
    let folder = tree("v3.0");
    let described = "closed/acme/measurements/box/resnet50/Offline/README.md";
    fs::remove_file(folder.path().join(described)).unwrap();
    let checked = as_of(&folder, "v3.0");
    let row = checked.rows.iter().find(|row| row.get(Column::Scenario) == "Offline").unwrap();
    assert_ne!(row.get(Column::Errors), "0", "{:#?}", checked.findings);
}

/// v5.1.1:1601 knows neither the division nor audits; v5.0.1:1001 knows divisions; v4.1:2080 is of the
/// result alone.
#[test]
fn equal_issue_is_asked_of_audits_since_v5_0_and_of_the_open_division_since_v5_1() {
    for (tag, of_audits, of_open) in
        [("v4.1", false, false), ("v5.0", true, false), ("v5.1", true, true)]
    {
        let program = Program::Tag(OneFileChecker::new(tag.parse().unwrap()));
        let round = Round::named(tag).unwrap();
        let judged = |division: &str| {
            let folder = moved(tag, "3d-unet-99", division);
            check(folder.path(), round, &Options::new(program)).unwrap()
        };
        let check = "performance.equal_issue";
        assert!(has(&judged("closed"), check, "results/"), "{tag}");
        assert_eq!(has(&judged("closed"), check, "TEST01"), of_audits, "{tag}");
        assert_eq!(has(&judged("open"), check, "results/"), of_open, "{tag}");
    }
}

/// The program compares the value with `True`, as which Python also takes 1.
#[test]
fn equal_issue_is_true_or_one() {
    for (value, is_on) in [("true", true), ("1", true), ("2", false), ("\"true\"", false)] {
        let folder = moved("v5.1", "3d-unet-99", "closed");
        let log = format!("closed/acme/results/box/3d-unet-99/Offline/{RUN}");
        let line = made::line("effective_sample_concatenate_permutation", value);
        folder.write(&log, folder.read(&log) + &line);
        let found = has(&as_of(&folder, "v5.1"), "performance.equal_issue", "Offline");
        assert_eq!(found, !is_on, "{value}");
    }
}

/// v5.1.1:1775 rejects only Interactive from another scenario than Server.
#[test]
fn the_run_of_another_scenario_is_taken_as_it_is() {
    for tag in ["v2.1", "v4.1", "v5.1"] {
        let folder = tree(tag);
        let log = made::log(Round::named(tag).unwrap(), "Offline");
        folder.write(&format!("{MODEL}/SingleStream/{RUN}"), log);
        let checked = as_of(&folder, tag);
        let found = metric(&checked, &format!("{MODEL}/SingleStream"));
        assert_eq!(found, Some(6607.5), "{tag}: {:#?}", checked.findings);
    }
}

/// v4.1:1320 sets a variable that nothing reads, so that the run is valid and its result 0.
#[test]
fn an_estimate_of_zero_completes_the_scenario_from_v3_1_to_v5_0() {
    for (tag, completes) in [("v3.0", false), ("v4.1", true), ("v5.0", true), ("v5.1", false)] {
        let folder = tree(tag);
        let log = made::log(Round::named(tag).unwrap(), "SingleStream").replace("2048000", "0");
        folder.write(&format!("{MODEL}/MultiStream/{RUN}"), log);
        let checked = as_of(&folder, tag);
        assert_eq!(metric(&checked, &format!("{MODEL}/MultiStream")), None, "{tag}");
        assert_eq!(checked.results.contains_key(Path::new(MODEL)), !completes, "{tag}");
    }
}

#[test]
fn a_token_latency_that_is_no_number_is_below_no_limit() {
    let folder = moved("v5.1", "llama2-70b-99", "closed");
    folder.edit(SYSTEM, "\"edge\"", "\"datacenter\"");
    for part in ["results", "measurements"] {
        let model = folder.path().join(format!("closed/acme/{part}/box/llama2-70b-99"));
        fs::rename(model.join("Offline"), model.join("Server")).unwrap();
    }
    let log = made::log(Round::named("v5.1").unwrap(), "Server")
        + &made::line("requested_use_token_latencies", "true")
        + &made::line("result_first_token_99.00_percentile_latency_ns", "NaN")
        + &made::line("result_time_per_output_token_99.00_percentile_ns", "1");
    folder.write(&format!("closed/acme/results/box/llama2-70b-99/Server/{RUN}"), log);
    assert!(has(&as_of(&folder, "v5.1"), "performance.token_limits", "Server"));
}

/// v4.1:1112 replaces the verdict of the log, v5.0.1:1404 adds to it.
#[test]
fn token_limits_overrule_the_verdict_of_the_log_up_to_v4_1() {
    for (tag, overrule) in [("v4.0", true), ("v4.1", true), ("v5.0", false), ("v5.1", false)] {
        let folder = language(tag, "Server");
        folder.set(&format!("{LANGUAGE}/Server/{RUN}"), "result_validity", "\"INVALID\"");
        let found = has(&as_of(&folder, tag), "performance.result", "Server");
        assert_eq!(found, !overrule, "{tag}");
    }
}

/// v5.0.1:739 asks for a digit after the colon, v5.1.1:890 allows a quote before it.
#[test]
fn an_accuracy_in_quotes_is_read_since_v5_1() {
    for (tag, is_read) in [("v5.0", false), ("v5.1", true)] {
        let folder = language(tag, "Offline");
        let text = format!("{LANGUAGE}/Offline/accuracy/accuracy.txt");
        assert!(!has(&as_of(&folder, tag), "accuracy.metric", "Offline"), "{tag}");
        folder.edit(&text, "44.5", "'44.5'");
        assert_eq!(has(&as_of(&folder, tag), "accuracy.metric", "Offline"), !is_read, "{tag}");
        let options = Options { skip: vec![Skip::Compliance], ..Options::new(Program::Strict) };
        let by_rules = check(folder.path(), Round::named(tag).unwrap(), &options).unwrap();
        assert!(!has(&by_rules, "accuracy.metric", "Offline"), "{tag}");
    }
}

/// v5.0.1:1307 exempts Offline alone, v5.1.1:1491 everything but Server and Interactive.
#[test]
fn token_limits_hold_for_streams_up_to_v5_0() {
    for (tag, hold) in [("v4.0", true), ("v5.0", true), ("v5.1", false)] {
        let folder = language(tag, "SingleStream");
        let log = format!("{LANGUAGE}/SingleStream/{RUN}");
        folder.set(&log, "result_time_per_output_token_99.00_percentile_ns", "900000000");
        // The closed division does not know the scenario, so that the program stops before.
        let open = Folder::new("open");
        crate::made::folder::copy(&folder.path().join("closed"), &open.path().join("open"));
        open.set_field("open/acme/systems/box.json", "division", "open");
        let checked = as_of(&open, tag);
        assert_eq!(has(&checked, "performance.token_limits", "SingleStream"), hold, "{tag}");
    }
}

/// v4.0:1383, where the table names models for every round.
#[test]
fn an_offline_result_of_a_language_model_is_in_tokens_since_v4_0() {
    for tag in ["v4.0", "v4.1", "v5.0"] {
        let checked = as_of(&language(tag, "Offline"), tag);
        let found = metric(&checked, &format!("{LANGUAGE}/Offline"));
        assert_eq!(found, Some(77.0), "{tag}: {:#?}", checked.findings);
    }
}

/// v4.1:1231 and v5.0.1:1533 compare the count of every model.
#[test]
fn an_offline_result_needs_a_count_of_queries_that_is_a_number() {
    for tag in ["v4.0", "v4.1", "v5.0"] {
        let folder = language(tag, "Offline");
        folder.set(&format!("{LANGUAGE}/Offline/{RUN}"), "effective_min_query_count", "[]");
        let checked = as_of(&folder, tag);
        assert_eq!(metric(&checked, &format!("{LANGUAGE}/Offline")), None, "{tag}");
        assert!(!checked.crashes, "{tag}: {:#?}", checked.findings);
    }
}

/// v5.0.1:2873 asks for both scenarios. v5.1.1:2872 rejects the result that it listed last instead of
/// the model.
#[test]
fn without_server_and_interactive_v5_1_rejects_the_result_that_is_listed_last() {
    for (tag, rejects) in [("v5.0", false), ("v5.1", true)] {
        let checked = as_of(&language(tag, "Offline"), tag);
        let found = metric(&checked, &format!("{LANGUAGE}/Offline"));
        assert_eq!(found.is_none(), rejects, "{tag}: {:#?}", checked.findings);
        assert_eq!(checked.results.contains_key(Path::new(LANGUAGE)), !rejects, "{tag}");
        assert!(has(&checked, "model.scenarios", "llama2-70b-99"), "{tag}");
    }
}

/// v5.0.1:613 has a bound, and the table at v5.1.1:700 lacks the model.
#[test]
fn gpt_j_has_a_bound_of_offline_samples_except_in_the_last_program() {
    let folder = moved("v5.0", "gptj-99", "closed");
    let round = Round::named("v5.0").unwrap();
    let last = check(folder.path(), round, &Options::new(Program::Mono)).unwrap();
    let rules = check(folder.path(), round, &Options::new(Program::Strict)).unwrap();
    for (checked, rejects) in [(as_of(&folder, "v5.0"), false), (rules, false), (last, true)] {
        assert_eq!(has(&checked, "performance.offline_samples", "Offline"), rejects);
    }
}

/// `log_parser.py` returns the value of `num_errors`, which is compared with 0, or reads the flag of
/// each line. Without the flag it raises an exception, which the accuracy run does not handle.
#[test]
fn errors_are_counted_by_a_number_or_by_every_flag() {
    let without_flag = ":::MLLOG {\"key\": \"more\", \"value\": 1}\n";
    for (tag, reads_flags) in [("v2.1", true), ("v4.1", true), ("v5.0", true), ("v5.1", false)] {
        for (run, crashes) in [(RUN, false), (ACCURACY_RUN, true)] {
            let folder = tree(tag);
            let log = format!("{OFFLINE}/{run}");
            folder.write(&log, folder.read(&log) + without_flag);
            let checked = as_of(&folder, tag);
            assert_eq!(checked.crashes, reads_flags && crashes, "{tag} {run}");
            assert_eq!(metric(&checked, OFFLINE).is_none(), reads_flags, "{tag} {run}");
        }
    }
    let log = format!("{OFFLINE}/{RUN}");
    for (count, counts) in [("0.0", true), ("false", true), ("\"0\"", false), ("null", false)] {
        let folder = tree("v5.1");
        folder.set(&log, "num_errors", count);
        assert_eq!(metric(&as_of(&folder, "v5.1"), OFFLINE).is_some(), counts, "{count}");
    }
    let folder = tree("v5.1");
    let others = folder.read(&log).replace("num_errors", "other");
    folder.write(&log, others + without_flag);
    assert_eq!(metric(&as_of(&folder, "v5.1"), OFFLINE), None);
}

#[test]
fn a_result_may_be_a_text_that_python_converts() {
    for (text, value) in [("\" 6_607.5 \"", Some(6607.5)), ("\"6__607\"", None)] {
        let folder = tree("v5.1");
        folder.edit(&format!("{OFFLINE}/{RUN}"), "6607.5", text);
        assert_eq!(metric(&as_of(&folder, "v5.1"), OFFLINE), value, "{text}");
    }
}

/// v4.1:1141 searches the whole path for the name of the audit.
#[test]
fn a_system_named_after_an_audit_needs_its_seeds() {
    let (from, to) = (tree("v4.1"), Folder::new("named"));
    each_file(from.path(), &mut |file| {
        let path = file.strip_prefix(from.path()).unwrap().to_str().unwrap();
        to.write(&path.replace("/box", "/boxTEST05"), fs::read(file).unwrap());
    });
    assert!(has(&as_of(&to, "v4.1"), "performance.seeds", "Offline/performance"));
}

/// v5.1.1:2433 stops before it reads the other fields.
#[test]
fn a_description_is_read_up_to_its_first_problem() {
    for (status, crashes) in [("planned", false), ("available", true)] {
        let folder = tree("v5.1");
        folder.edit(SYSTEM, "\"submitter\": \"acme\"", "\"submitter\": 5");
        folder.set_field(SYSTEM, "status", status);
        let checked = as_of(&folder, "v5.1");
        assert_eq!((checked.crashes, checked.valid()), (crashes, 0), "{status}");
    }
}

#[test]
fn names_below_a_linked_submitter_are_checked() {
    let (folder, elsewhere) = (tree("v5.1"), Folder::new("elsewhere"));
    let (from, to) = (folder.path().join("closed/acme"), elsewhere.path().join("acme"));
    crate::made::folder::copy(&from, &to);
    fs::remove_dir_all(&from).unwrap();
    symlink(&to, &from).unwrap();
    assert_eq!(as_of(&folder, "v5.1").valid(), 3);
    elsewhere.write("acme/documentation/.hidden", "");
    let checked = as_of(&folder, "v5.1");
    assert!(has(&checked, "submitter.hidden_names", ".hidden") && checked.valid() == 0);
}

/// v5.1.1:2285 looks for the target from the root, and then asks for the size of the link.
#[test]
fn a_broken_link_whose_target_is_in_the_root_ends_the_program() {
    for (tag, crashes) in [("v2.1", false), ("v3.0", false), ("v4.1", true), ("v5.1", true)] {
        let folder = tree(tag);
        symlink("closed", folder.path().join("closed/acme/documentation/link")).unwrap();
        assert_eq!(as_of(&folder, tag).crashes, crashes, "{tag}");
    }
}

#[test]
fn a_valid_result_of_an_unknown_scenario_ends_the_program() {
    for (tag, name, crashes) in [
        ("v5.1", "other", true),
        ("v5.1", "Interactive", false),
        ("v3.0", "other", true),
        ("v3.0", "Interactive", true),
    ] {
        let folder = moved(tag, "resnet50", "open");
        for part in ["results", "measurements"] {
            let model = folder.path().join(format!("open/acme/{part}/box/resnet50"));
            fs::rename(model.join("Offline"), model.join(name)).unwrap();
        }
        let log = format!("open/acme/results/box/resnet50/{name}/{RUN}");
        if name == "Interactive" {
            let server = made::log(Round::named(tag).unwrap(), "Server")
                + &made::line("result_completed_samples_per_sec", "7")
                + &made::line("result_scheduled_samples_per_sec", "7")
                + &made::line("effective_target_latency_ns", "1");
            folder.write(&log, server);
        }
        let checked = as_of(&folder, tag);
        assert_eq!(checked.crashes, crashes, "{tag} {name}: {:#?}", checked.findings);
    }
}

#[test]
fn notes_and_weights_are_concatenated() {
    for (note, crashes) in [("5", true), ("null", false), ("\"\"", false)] {
        let folder = tree("v5.1");
        let notes = format!("\"hw_notes\": {note}");
        folder.edit(SYSTEM, "\"hw_notes\": \"something\"", &notes);
        assert_eq!(as_of(&folder, "v5.1").crashes, crashes, "{note}");
    }
    // v5.1.1:2191 converts weights to a text, v5.0.1:2011 does not.
    for (tag, crashes) in [("v5.0", true), ("v5.1", false)] {
        let folder = tree(tag);
        let json = "closed/acme/measurements/box/resnet50/Offline/box.json";
        folder.edit(json, "\"weight_data_types\": \"int8\"", "\"weight_data_types\": [\"int8\"]");
        let checked = as_of(&folder, tag);
        assert_eq!(checked.crashes, crashes, "{tag}");
        let row = checked.rows.iter().find(|row| row.get(Column::Scenario) == "Offline").unwrap();
        assert_eq!(row.get(Column::WeightDataTypes), "['int8']", "{tag}");
    }
}

#[test]
fn the_code_may_be_in_a_folder_outside_the_one_of_code() {
    let folder = tree("v5.1");
    fs::remove_dir_all(folder.path().join("closed/acme/code/resnet50")).unwrap();
    folder.write("closed/acme/code/resnet50", "../documentation\n");
    assert!(metric(&as_of(&folder, "v5.1"), OFFLINE).is_some());
    folder.write("closed/acme/code/resnet50", "../nowhere/at/all\n");
    assert_eq!(metric(&as_of(&folder, "v5.1"), OFFLINE), None);
}

/// v5.1.1:1065 looks up the name and tries to guess if the value is false.
#[test]
fn a_map_of_models_has_texts_or_nothing() {
    for (map, crashes) in [
        ("[]", true),
        ("null", false),
        ("{\"mine\": [\"resnet\"]}", true),
        ("{\"mine\": \"\"}", false),
        ("{\"other\": 5}", false),
    ] {
        let folder = moved("v5.1", "mine", "open");
        folder.write("open/acme/model_mapping.json", map);
        let checked = as_of(&folder, "v5.1");
        assert_eq!((checked.crashes, checked.valid()), (crashes, 0), "{map}");
    }
    // The program in modules handles exceptions of a check, but looks up the name before.
    for (map, crashes) in [("[]", true), ("null", false), ("{\"mine\": [\"resnet\"]}", false)] {
        let folder = moved("v5.1", "mine", "open");
        folder.write("open/acme/model_mapping.json", map);
        let round = Round::named("v5.1").unwrap();
        let checked = check(folder.path(), round, &Options::new(Program::Modular)).unwrap();
        assert_eq!((checked.crashes, checked.valid()), (crashes, 0), "{map}");
    }
}

#[test]
fn a_file_in_place_of_results_and_a_folder_in_place_of_a_description_end_the_program() {
    let folder = tree("v5.1");
    folder.write("closed/other/results", "");
    assert!(as_of(&folder, "v5.1").crashes);
    let folder = tree("v5.1");
    fs::remove_file(folder.path().join(SYSTEM)).unwrap();
    folder.write(&format!("{SYSTEM}/made"), "");
    assert!(as_of(&folder, "v5.1").crashes);
}

/// The first description that the operating system lists counts (v5.1.1:3040).
#[test]
fn the_description_of_a_measurement_is_the_first_one_listed() {
    let folder = tree("v5.1");
    let described = "closed/acme/measurements/box/resnet50/Offline";
    for name in ["box_a.json", "box_b.json", "box_c.json"] {
        folder.write(&format!("{described}/{name}"), made::MEASUREMENT.replace("int8", name));
    }
    folder.write(&format!("{described}/box.json"), made::MEASUREMENT.replace("int8", "box.json"));
    let listed = fs::read_dir(folder.path().join(described)).unwrap();
    let mut names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let first = names.find(|name| name.ends_with(".json")).unwrap();
    let checked = as_of(&folder, "v5.1");
    let row = checked.rows.iter().find(|row| row.get(Column::Scenario) == "Offline").unwrap();
    assert_eq!(row.get(Column::WeightDataTypes), first);
}
