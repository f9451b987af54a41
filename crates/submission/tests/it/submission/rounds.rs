//! Trees of several rounds: what each round asks for, and the official checker of each.

use dyno_rules::{OneFileChecker, Round, Version};
use dyno_submission::check::{CheckReport, Options, Outcome, Program, Skip, check};
use dyno_submission::finding::{Finding, Severity};

use super::made;
use crate::made::folder::{Folder, copy};

pub const RESULT: &str = "closed/acme/results/box/resnet50";
pub const RUN: &str = "performance/run_1/mlperf_log_detail.txt";

/// Returns a tree that is valid in a round but for audits.
pub fn tree(round: &str) -> Folder {
    let folder = made::submission(Round::named(round).unwrap());
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let described = format!("closed/acme/measurements/box/resnet50/{scenario}");
        folder.write(&format!("{described}/mlperf.conf"), "made");
    }
    folder
}

fn judged(folder: &Folder, round: &str, options: &Options) -> CheckReport {
    check(folder.path(), Round::named(round).unwrap(), options).unwrap()
}

/// Returns options without audits, of which the generated trees have not what each round asks for.
fn options(program: Program) -> Options {
    Options { skip: vec![Skip::Compliance], ..Options::new(program) }
}

pub fn rules(folder: &Folder, round: &str) -> CheckReport {
    judged(folder, round, &options(Program::Strict))
}

fn forensic(folder: &Folder, round: &str) -> CheckReport {
    judged(folder, round, &Options { forensic: true, ..options(Program::Strict) })
}

pub fn as_of(folder: &Folder, tag: &str) -> CheckReport {
    let checker = OneFileChecker::new(tag.parse().unwrap());
    judged(folder, tag, &options(Program::Tag(checker)))
}

pub fn severities(checked: &CheckReport, check: &str) -> Vec<Severity> {
    let found = checked.findings.iter().filter(|finding| finding.check == check);
    found.map(|finding| finding.severity).collect()
}

pub fn counts(checked: &CheckReport, scenario: &str) -> bool {
    let path = std::path::Path::new(RESULT).join(scenario);
    matches!(checked.results.get(&path), Some(Outcome::Valid { .. }))
}

#[test]
fn a_check_without_a_written_source_rejects_only_with_forensic() {
    let folder = tree("v5.1");
    // The generated logs lack most keys that LoadGen writes, which no official program reads.
    let lenient = rules(&folder, "v5.1");
    assert!(lenient.is_valid(), "{:#?}", lenient.findings);
    assert!(severities(&lenient, "log.keys").iter().all(|s| *s == Severity::Warning));
    assert!(!severities(&lenient, "log.keys").is_empty());
    let strict = forensic(&folder, "v5.1");
    assert!(!strict.is_valid() && severities(&strict, "log.keys").contains(&Severity::Error));
}

#[test]
fn a_user_conf_that_is_not_of_the_run_is_a_warning() {
    let conf = "closed/acme/measurements/box/resnet50/Offline/user.conf";
    // So many models are not compared.
    let many: String = (0..50_000).map(|n| format!("m{n}.Offline.target_qps = 100\n")).collect();
    for (text, differs) in [
        (many.as_str(), false),
        ("my-1.5b.Offline.target_qps = 100\n", true),
        ("*.Offline.target_qps = 200\n", false),
        ("*.Offline.target_qps = 100\n", true),
        // The system may have looked up any name.
        ("a.Offline.target_qps = 100\nb.Offline.target_qps = 200\n", false),
        ("resnet50.*.target_qps = 100\n", true),
        ("*.Server.target_qps = 100\n", false),
        ("*.*.max_duration = 5\n", false),
    ] {
        let folder = tree("v5.1");
        folder.write(conf, text);
        let log = format!("{RESULT}/Offline/{RUN}");
        folder.write(&log, folder.read(&log) + &made::line("effective_target_qps", "200"));
        let expected = if differs { vec![Severity::Warning] } else { Vec::new() };
        for checked in [rules(&folder, "v5.1"), forensic(&folder, "v5.1")] {
            assert_eq!(severities(&checked, "measurement.settings"), expected, "{text}");
        }
    }
}

#[test]
fn an_audit_of_another_system_is_a_warning_and_an_error_with_forensic() {
    let folder = tree("v5.1");
    let audit = "closed/acme/compliance/box/resnet50/Offline/TEST01";
    folder.set(&format!("{audit}/{RUN}"), "sut_name", "\"another\"");
    assert_eq!(severities(&rules(&folder, "v5.1"), "log.system"), [Severity::Warning]);
    assert_eq!(severities(&forensic(&folder, "v5.1"), "log.system"), [Severity::Error]);
}

#[test]
fn a_file_in_the_root_rejects_all_results_since_v3_1_and_can_be_skipped() {
    for (round, rejects) in [("v3.0", false), ("v3.1", true), ("v5.1", true)] {
        let folder = tree(round);
        folder.write("run.sh", "echo");
        for checked in [rules(&folder, round), as_of(&folder, round)] {
            assert_eq!(checked.valid() == 0, rejects, "{round}: {:#?}", checked.findings);
        }
        let mut options = options(Program::Strict);
        options.skip.push(Skip::RootFiles);
        assert_eq!(judged(&folder, round, &options).valid(), 3, "{round}");
    }
}

#[test]
fn a_calibration_page_is_asked_for_since_v5_1() {
    for (round, rejects) in [("v4.1", false), ("v5.1", true)] {
        let folder = tree(round);
        std::fs::remove_file(folder.path().join("closed/acme/documentation/calibration.md"))
            .unwrap();
        folder.write("closed/acme/documentation/more.md", "made");
        assert_eq!(rules(&folder, round).valid() == 0, rejects, "{round}");
        assert_eq!(as_of(&folder, round).looks_fine(), !rejects, "{round}");
    }
}

#[test]
fn early_checkers_log_foreign_seeds_and_the_rules_reject_them() {
    for (round, rejects) in [("v3.0", false), ("v3.1", true)] {
        let folder = tree(round);
        folder.set(&format!("{RESULT}/Offline/{RUN}"), "effective_schedule_rng_seed", "1");
        assert_eq!(counts(&as_of(&folder, round), "Offline"), !rejects, "{round}");
        assert!(!counts(&rules(&folder, round), "Offline"), "{round}");
    }
}

/// Early checkers accept a folder with other files than the required ones, but not without a log.
#[test]
fn every_checker_rejects_an_accuracy_run_without_its_logs() {
    for round in ["v2.1", "v3.0", "v3.1", "v4.1", "v5.1"] {
        for log in ["mlperf_log_accuracy.json", "mlperf_log_detail.txt"] {
            let folder = tree(round);
            let path = format!("{RESULT}/Offline/accuracy/{log}");
            std::fs::remove_file(folder.path().join(path)).unwrap();
            let official = as_of(&folder, round);
            assert!(!counts(&official, "Offline") && !official.crashes, "{round} {log}");
            assert!(counts(&official, "SingleStream"), "{round} {log}");
            assert!(!counts(&rules(&folder, round), "Offline"), "{round} {log}");
        }
    }
}

/// The program of v4.1 requires a file that the rules of v4.1 do not.
#[test]
fn early_checkers_ask_for_the_settings_of_the_round() {
    for (round, rules_reject) in [("v3.0", true), ("v4.0", true), ("v4.1", false)] {
        let folder = tree(round);
        let settings = "closed/acme/measurements/box/resnet50/Offline/mlperf.conf";
        folder.write(settings, "");
        let rejects = round != "v3.0";
        assert_eq!(!counts(&as_of(&folder, round), "Offline"), rejects, "{round}");
        std::fs::remove_file(folder.path().join(settings)).unwrap();
        // Up to v3.0 the program logs it and goes on.
        assert_eq!(!counts(&as_of(&folder, round), "Offline"), rejects, "{round}");
        assert!(!severities(&as_of(&folder, round), "measurement.files").is_empty(), "{round}");
        assert_eq!(!counts(&rules(&folder, round), "Offline"), rules_reject, "{round}");
    }
    let folder = made::submission(Round::named("v5.1").unwrap());
    assert!(as_of(&folder, "v5.1").is_valid());
}

/// Moves the generated submission to the open division.
fn open(round: &str) -> Folder {
    let (from, to) = (tree(round), Folder::new("open"));
    crate::made::folder::each_file(from.path(), &mut |file| {
        let path = file.strip_prefix(from.path()).unwrap().to_str().unwrap();
        to.write(&path.replacen("closed", "open", 1), std::fs::read(file).unwrap());
    });
    to.set_field("open/acme/systems/box.json", "division", "open");
    to
}

fn counts_in_open(checked: &CheckReport) -> bool {
    let path = std::path::Path::new("open/acme/results/box/resnet50/Offline");
    matches!(checked.results.get(path), Some(Outcome::Valid { .. }))
}

#[test]
fn the_open_division_needs_an_accuracy_since_v5_1_and_its_run_may_have_errors_before() {
    let accuracy = "open/acme/results/box/resnet50/Offline/accuracy";
    for round in ["v2.1", "v3.0", "v4.1", "v5.0", "v5.1"] {
        let is_last = round == "v5.1";
        let folder = open(round);
        assert!(counts_in_open(&as_of(&folder, round)), "{round}");
        folder.write(&format!("{accuracy}/accuracy.txt"), "accuracy=1.0%, good=500\n");
        assert!(counts_in_open(&as_of(&folder, round)), "{round}: a low accuracy without a hash");
        folder.write(&format!("{accuracy}/accuracy.txt"), "nothing\nhash=0123\n");
        assert_eq!(counts_in_open(&as_of(&folder, round)), !is_last, "{round}: no accuracy");
        let folder = open(round);
        let log = format!("{accuracy}/mlperf_log_detail.txt");
        folder.edit(&log, "\"is_error\": false", "\"is_error\": true");
        folder.set(&log, "num_errors", "19");
        let checked = as_of(&folder, round);
        // v5.1 ends with a traceback here.
        assert_eq!((counts_in_open(&checked), checked.crashes), (!is_last, is_last), "{round}");
    }
}

#[test]
fn the_last_accuracy_before_the_hash_decides_up_to_v3_0_and_each_one_since() {
    for (text, early, since) in [
        ("accuracy=10.0%\naccuracy=76.1%\nhash=0123\n", true, false),
        ("accuracy=76.1%\naccuracy=10.0%\nhash=0123\n", false, false),
        ("accuracy=76.1%\nhash=0123\naccuracy=10.0%\n", true, true),
        ("hash=0123\naccuracy=76.1%\naccuracy=10.0%\n", true, true),
    ] {
        for (round, expected) in
            [("v2.1", early), ("v3.0", early), ("v3.1", since), ("v5.1", since)]
        {
            let folder = tree(round);
            folder.write(&format!("{RESULT}/Offline/accuracy/accuracy.txt"), text);
            let found = counts(&as_of(&folder, round), "Offline");
            assert_eq!(found, expected, "{round}: {text}");
            assert!(!counts(&rules(&folder, round), "Offline"), "{round}: {text}");
        }
    }
}

#[test]
fn keys_are_asked_for_by_the_release_of_loadgen_in_the_log() {
    let key = "effective_sample_concatenate_permutation";
    for (release, is_asked) in
        [("4.0 @ 7fc059bf91", false), ("4.1 @ 2ed9555be0", false), ("5.0.25 @ 1bc3e998cb", true)]
    {
        let folder = tree("v5.1");
        let path = format!("{RESULT}/Offline/{RUN}");
        let log = folder.read(&path) + &made::line("loadgen_version", &format!("\"{release}\""));
        folder.write(&path, log);
        let checked = forensic(&folder, "v5.1");
        let of_run = |f: &&dyno_submission::finding::Finding| {
            f.check == "log.keys" && f.path.ends_with(&path)
        };
        let message =
            checked.findings.iter().find(of_run).map(|f| f.message.clone()).unwrap_or_default();
        assert_eq!(message.contains(key), is_asked, "{release}: {message}");
    }
}

#[test]
fn a_clock_that_was_set_back_is_named() {
    let folder = tree("v5.1");
    let path = format!("{RESULT}/SingleStream/{RUN}");
    let log = folder.read(&path) + &made::line("result_min_latency_ns", "-12345");
    folder.write(&path, log);
    let checked = forensic(&folder, "v5.1");
    let clock = checked.findings.iter().find(|finding| finding.check == "performance.clock");
    let clock = clock.expect("the clock is reported");
    assert!(clock.message.contains("set back") && clock.severity == Severity::Warning, "{clock:?}");
}

#[test]
fn an_inferred_result_may_have_other_words_beside_the_same_accuracy() {
    let (source, copy) = (format!("{RESULT}/SingleStream"), format!("{RESULT}/Offline"));
    let text = "accuracy/accuracy.txt";
    let folder = tree("v5.1");
    for file in ["performance/run_1/mlperf_log_detail.txt", "accuracy/mlperf_log_detail.txt"] {
        folder.write(&format!("{copy}/{file}"), folder.read(&format!("{source}/{file}")));
    }
    let old = folder.read(&format!("{copy}/{text}"));
    folder.write(&format!("{copy}/{text}"), format!("loading annotations took 0.31 s\n{old}"));
    assert!(severities(&forensic(&folder, "v5.1"), "performance.inferred_copy").is_empty());
    folder.edit(&format!("{copy}/{text}"), "76.100", "76.200");
    assert!(!severities(&forensic(&folder, "v5.1"), "performance.inferred_copy").is_empty());
}

#[test]
fn a_result_in_two_folders_is_a_warning_outside_the_network_division() {
    let folder = tree("v5.1");
    for part in ["results", "measurements"] {
        let model = folder.path().join("closed/acme").join(part).join("box/resnet50");
        crate::made::folder::copy(&model.join("Offline"), &model.join("offline"));
    }
    let checked = rules(&folder, "v5.1");
    assert_eq!(severities(&checked, "result.twice"), [Severity::Warning]);
    assert_eq!(checked.valid(), 4, "{:#?}", checked.findings);
}

#[test]
fn systems_of_one_name_are_told_apart_by_their_folder() {
    let folder = tree("v5.1");
    let closed = folder.path().join("closed/acme");
    for part in ["results", "measurements", "compliance"] {
        crate::made::folder::copy(&closed.join(part).join("box"), &closed.join(part).join("box2"));
    }
    folder.write("closed/acme/systems/box2.json", folder.read("closed/acme/systems/box.json"));
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let described = format!("closed/acme/measurements/box2/resnet50/{scenario}");
        folder.write(&format!("{described}/box2.json"), made::MEASUREMENT);
    }
    let checked = rules(&folder, "v5.1");
    assert_eq!(checked.valid(), 6, "{:#?}", checked.findings);
    assert!(severities(&checked, "result.twice").is_empty());
}

#[test]
fn a_log_of_two_systems_is_a_warning_and_one_of_two_targets_is_not() {
    let folder = tree("v5.1");
    let log = format!("{RESULT}/Offline/{RUN}");
    let times = made::line("power_begin", "\"07-23-2025 02:30:20.039\"")
        + &made::line("power_end", "\"07-23-2025 02:40:21.100\"");
    folder.write(&log, folder.read(&log) + &times);
    let results = folder.path().join("closed/acme/results");
    crate::made::folder::copy(&results.join("box"), &results.join("box2"));
    folder.write("closed/acme/systems/box2.json", folder.read("closed/acme/systems/box.json"));
    assert_eq!(severities(&rules(&folder, "v5.1"), "result.copied"), [Severity::Warning]);
    assert_eq!(severities(&forensic(&folder, "v5.1"), "result.copied"), [Severity::Warning]);
    let copy = format!("closed/acme/results/box2/resnet50/Offline/{RUN}");
    folder.edit(&copy, "02:40:21.100", "02:40:21.101");
    assert!(severities(&rules(&folder, "v5.1"), "result.copied").is_empty());

    // A run may count for both targets of a benchmark.
    let (folder, model) = (tree_of("3d-unet-99", "v5.1"), "closed/acme/results/box/3d-unet-99");
    let log = format!("{model}/Offline/{RUN}");
    folder.write(&log, folder.read(&log) + &times);
    crate::made::folder::copy(
        &folder.path().join(model),
        &folder.path().join(format!("{model}.9")),
    );
    assert!(severities(&rules(&folder, "v5.1"), "result.copied").is_empty());
}

#[test]
fn two_folders_of_one_model_are_one_row_of_a_system_in_the_closed_division() {
    let folder = tree("v5.1");
    for part in ["results", "measurements"] {
        let models = folder.path().join("closed/acme").join(part).join("box");
        crate::made::folder::copy(&models.join("resnet50"), &models.join("resnet"));
    }
    // The final table has the column MlperfModel and the folder of the system, which are equal.
    let found = severities(&rules(&folder, "v5.1"), "result.twice");
    assert_eq!(found, [Severity::Warning; 3]);
}

#[test]
fn tables_of_a_tag_have_its_columns_and_accuracy() {
    let row = |tag: &str| {
        let checked = as_of(&tree(tag), tag);
        let tag: Version = tag.parse().unwrap();
        let mut table = Vec::new();
        let program = Program::Tag(OneFileChecker::new(tag));
        dyno_submission::table::write_csv(&checked.rows, program, &mut table).unwrap();
        let table = String::from_utf8(table).unwrap();
        (table.lines().next().unwrap().to_owned(), table.lines().nth(1).unwrap().to_owned())
    };
    let (header, early) = row("v2.1");
    assert!(header.contains(",compilance,") && !header.contains("weight_data_types"), "{header}");
    assert!(early.contains(",76.100,"), "{early}");
    let (header, late) = row("v5.1");
    assert!(header.contains(",compliance,") && header.ends_with(",weight_data_types"), "{header}");
    assert!(late.contains(",acc: 76.100,"), "{late}");
}

#[test]
fn quotes_are_doubled_by_default_and_as_they_are_in_the_official_table() {
    let folder = tree("v5.1");
    folder.set_field("closed/acme/systems/box.json", "system_name", "a \"fast\" box");
    let table = |program: Program| {
        let checked = judged(&folder, "v5.1", &options(program));
        let mut table = Vec::new();
        dyno_submission::table::write_csv(&checked.rows, program, &mut table).unwrap();
        String::from_utf8(table).unwrap()
    };
    assert!(table(Program::Strict).contains("\"a \"\"fast\"\" box\""));
    assert!(table(Program::Mono).contains("\"a \"fast\" box\""));
}

/// Returns the generated tree with another model in place of ResNet-50.
fn tree_of(model: &str, round: &str) -> Folder {
    let (from, to) = (tree(round), Folder::new("renamed"));
    crate::made::folder::each_file(from.path(), &mut |file| {
        let path = file.strip_prefix(from.path()).unwrap().to_str().unwrap();
        to.write(&path.replace("resnet50", model), std::fs::read(file).unwrap());
    });
    to
}

#[test]
fn equal_issue_is_asked_of_the_models_of_the_round_and_settings_prove_it_for_early_logs() {
    let key = "effective_sample_concatenate_permutation";
    let is_rejected = |folder: &Folder, round: &str| {
        severities(&rules(folder, round), "performance.equal_issue").contains(&Severity::Error)
    };
    // LoadGen did not log the key before the middle of 4.1.
    for (model, round, rejects) in [
        ("3d-unet-99", "v4.0", false),
        ("3d-unet-99", "v4.1", true),
        ("resnet50", "v4.1", false),
        ("gpt-oss-120b", "v6.1", true),
        ("qwen3-vl-235b-a22b", "v6.1", true),
    ] {
        let folder = tree_of(model, round);
        assert_eq!(is_rejected(&folder, round), rejects, "{model} {round}");
    }
    let folder = tree_of("3d-unet-99", "v4.1");
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let conf = format!("closed/acme/measurements/box/3d-unet-99/{scenario}/user.conf");
        folder.write(&conf, "3d-unet.*.sample_concatenate_permutation = 1\n");
    }
    assert!(!is_rejected(&folder, "v4.1"));
    // A log that has the key is the better proof.
    let log = format!("closed/acme/results/box/3d-unet-99/Offline/{RUN}");
    folder.write(&log, folder.read(&log) + &made::line(key, "false"));
    assert!(is_rejected(&folder, "v4.1"));
}

#[test]
fn checks_of_the_checker_in_one_file_alone_only_warn_from_v6_0_on() {
    let folder = made::submission(Round::named("v6.0").unwrap());
    let result = format!("{RESULT}/Offline");
    let more = ["performance/run_1", "accuracy"].map(|run| format!("{result}/{run}/metadata.json"));
    for file in ["closed/acme/.more", "closed/acme/no more", "closed/acme/src/README.md"] {
        folder.write(file, "made");
    }
    more.iter().for_each(|file| folder.write(file, "{}"));
    std::os::unix::fs::symlink("nowhere", folder.path().join("closed/acme/link")).unwrap();
    for gone in ["documentation", "src/resnet50"] {
        std::fs::remove_dir_all(folder.path().join("closed/acme").join(gone)).unwrap();
    }
    let (lenient, forensic) = (rules(&folder, "v6.0"), forensic(&folder, "v6.0"));
    assert_eq!(lenient.valid(), 3, "{:#?}", lenient.findings);
    for check in [
        "submitter.links",
        "submitter.hidden_names",
        "submitter.blanks",
        "submitter.calibration",
        "measurement.code",
        "accuracy.files",
        "performance.files",
    ] {
        for (checked, expected) in [(&lenient, Severity::Warning), (&forensic, Severity::Error)] {
            let found = severities(checked, check);
            assert!(!found.is_empty(), "{check}");
            assert!(found.iter().all(|severity| *severity == expected), "{check}: {found:?}");
        }
    }
    // The rules list the summary among the mandatory files.
    let summary = format!("{result}/performance/run_1/mlperf_log_summary.txt");
    std::fs::remove_file(folder.path().join(summary)).unwrap();
    assert!(!counts(&rules(&folder, "v6.0"), "Offline"));
}

#[test]
fn a_result_without_an_accuracy_run_is_rejected_in_every_round() {
    for round in ["v0.5", "v0.7", "v1.1", "v2.1", "v3.1", "v4.0", "v5.1", "v6.0"] {
        let folder = tree(round);
        let run = folder.path().join(RESULT).join("Offline/accuracy");
        std::fs::remove_dir_all(run).unwrap();
        let checked = rules(&folder, round);
        assert_eq!(severities(&checked, "accuracy.text"), [Severity::Error], "{round}");
        assert!(!counts(&checked, "Offline"), "{round}");
    }
}

/// The list of mandatory files is of September 2020. The checker in one file rejects other files in the
/// folder of a run since v3.1, and beside accuracy logs since v4.1.
#[test]
fn logs_are_complete_from_v0_7_on() {
    for (round, of_run, of_accuracy) in [
        ("v0.7", false, false),
        ("v3.0", false, false),
        ("v3.1", true, false),
        ("v4.1", true, true),
    ] {
        for (run, check, is_exact) in [
            ("performance/run_1", "performance.files", of_run),
            ("accuracy", "accuracy.files", of_accuracy),
        ] {
            let folder = tree(round);
            let logs = format!("{RESULT}/Offline/{run}");
            assert!(severities(&rules(&folder, round), check).is_empty(), "{round}");
            folder.write(&format!("{logs}/metadata.json"), "{}");
            let expected = if is_exact { vec![Severity::Error] } else { Vec::new() };
            assert_eq!(severities(&rules(&folder, round), check), expected, "{round} {run}");
            let summary = format!("{logs}/mlperf_log_summary.txt");
            std::fs::remove_file(folder.path().join(summary)).unwrap();
            let found = severities(&rules(&folder, round), check);
            assert_eq!(found, [Severity::Error], "{round} {run}");
        }
    }
}

/// The checker in modules rejects a result without any code as well.
#[test]
fn a_submitter_without_any_code_is_rejected_from_v6_0_on() {
    let folder = made::submission(Round::named("v6.0").unwrap());
    assert_eq!(rules(&folder, "v6.0").valid(), 3);
    std::fs::remove_dir_all(folder.path().join("closed/acme/src")).unwrap();
    let checked = rules(&folder, "v6.0");
    assert_eq!(severities(&checked, "measurement.all_code"), [Severity::Error]);
    assert_eq!(checked.valid(), 0);
}

#[test]
fn an_invalid_run_of_an_audit_of_answers_is_a_warning_and_an_error_with_forensic() {
    let round = Round::named("v6.0").unwrap();
    let folder = made::submission(round);
    let models = folder.path().join("closed/acme/results/box");
    std::fs::rename(models.join("resnet50"), models.join("gpt-oss-120b")).unwrap();
    let run = format!("closed/acme/results/box/gpt-oss-120b/Offline/TEST07/{RUN}");
    let log = made::log(round, "Offline");
    let invalid = log.replace("\"VALID\"", "\"INVALID\"");
    let error = made::line("error_runtime", "\"Ending early: Max query count reached.\"");
    let error = error.replace("\"is_error\": false", "\"is_error\": true");
    for (text, check) in [(invalid, "performance.result"), (log + &error, "performance.errors")] {
        folder.write(&run, &text);
        for (forensic, expected) in [(false, Severity::Warning), (true, Severity::Error)] {
            let options = Options { forensic, ..Options::new(Program::Strict) };
            let findings = judged(&folder, "v6.0", &options).findings;
            let of_run = |finding: &&Finding| finding.path == std::path::Path::new(&run);
            let found = findings.iter().filter(of_run).filter(|finding| finding.check == check);
            let found: Vec<Severity> = found.map(|finding| finding.severity).collect();
            assert_eq!(found, [expected], "{check}: {findings:#?}");
        }
    }
}

#[test]
fn a_run_for_both_targets_of_yolo_is_not_reported_as_a_copy() {
    let round = Round::named("v6.0").unwrap();
    let folder = made::submission(round);
    let models = folder.path().join("closed/acme/results/box");
    std::fs::rename(models.join("resnet50"), models.join("yolo-99")).unwrap();
    let mut log = made::log(round, "Offline");
    for (key, time) in [("power_begin", "02:30:20.039"), ("power_end", "02:40:21.100")] {
        log += &made::line(key, &format!("\"07-23-2025 {time}\""));
    }
    folder.write(&format!("closed/acme/results/box/yolo-99/Offline/{RUN}"), log);
    copy(&models.join("yolo-99"), &models.join("yolo-95"));
    let checked = rules(&folder, "v6.0");
    assert!(severities(&checked, "result.copied").is_empty());
    assert_eq!(severities(&checked, "performance.lower_target"), [Severity::Note; 3]);
}

#[test]
fn a_log_that_git_lfs_did_not_fetch_is_reported_as_such() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5000000\n";
    let accuracy_run = "accuracy/mlperf_log_detail.txt";
    for (run, check) in [(RUN, "performance.readable"), (accuracy_run, "accuracy.readable")] {
        let folder = tree("v5.1");
        folder.write(&format!("{RESULT}/Offline/{run}"), pointer);
        let checked = rules(&folder, "v5.1");
        let errors = checked.findings.iter().filter(|found| found.severity == Severity::Error);
        let errors: Vec<_> = errors.map(|found| (found.check, found.message.as_str())).collect();
        let message = "is a pointer of Git LFS instead of the log; run `git lfs pull`";
        assert!(errors.contains(&(check, message)), "{errors:?}");
        assert!(!counts(&checked, "Offline") && counts(&checked, "SingleStream"), "{errors:?}");
    }
}

#[test]
fn a_log_of_an_audit_that_git_lfs_did_not_fetch_is_reported_once() {
    let folder = tree("v5.1");
    let log = format!("closed/acme/compliance/box/resnet50/Offline/TEST01/{RUN}");
    folder.write(&log, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5000000\n");
    let checked = judged(&folder, "v5.1", &Options::new(Program::Strict));
    let of_log = checked.findings.iter().filter(|found| found.path == std::path::Path::new(&log));
    let found: Vec<_> = of_log.map(|found| (found.check, found.message.as_str())).collect();
    let message = "is a pointer of Git LFS instead of the log; run `git lfs pull`";
    assert_eq!(found, [("performance.readable", message)]);
    assert!(!counts(&checked, "Offline"));
}
