//! TEST01 and TEST08.

use dyno_loadgen::settings::{Scenario, TestMode};
use dyno_submission::audit::{
    Accuracies, AuditPlan, AuditResult, AuditTest, DTYPES, Element, Evidence, Reason, RunFolder,
    baseline_log, plan, verify, write_folder,
};
use proptest::prelude::*;

use super::logs::{Folder, Performance, write_answers};
use super::round;

fn planned(of: &str) -> AuditPlan {
    plan(AuditTest::Test01, round(of), Some("resnet"), Scenario::Offline).unwrap()
}

/// Verifies TEST01 for two runs with these answers and equal scores.
fn audit(
    folder: &Folder,
    plan: &AuditPlan,
    [accuracy, audited]: [&[(u64, Vec<u8>)]; 2],
    element: Element,
) -> (AuditResult, Evidence) {
    let runs = ["accuracy", "performance", "audit"].map(|name| folder.run(name));
    write_answers(&runs[0], accuracy);
    let performance = Performance::new(Scenario::Offline, 100.0);
    performance.write(&runs[1]);
    write_answers(&runs[2], audited);
    performance.planned(plan, 0).write(&runs[2]);
    let [accuracy, performance, audited] = runs;
    let mut evidence = Evidence::new(vec![audited], element);
    evidence.accuracy = Some(accuracy);
    evidence.performance = Some(performance);
    (verify(plan, &evidence), evidence)
}

fn verdicts(result: &AuditResult) -> (bool, bool) {
    (result.corrected().is_passed(), result.official().is_passed())
}

/// An image without objects has an empty answer. If all are empty, nothing was computed.
#[test]
fn answers_that_are_all_empty_prove_nothing() {
    let reasons = |logged: &[(u64, Vec<u8>)]| {
        let folder = Folder::new();
        let known = [(0, vec![]), (1, vec![7])];
        let (result, _) = audit(&folder, &planned("v5.1"), [&known, logged], Element::I8);
        assert!(result.official().is_passed(), "{result:?}");
        result.corrected().reasons().to_vec()
    };
    assert_eq!(reasons(&[(0, vec![])]), [Reason::EmptyAnswers { count: 1 }]);
    assert_eq!(reasons(&[(0, vec![]), (1, vec![7])]), []);
}

/// Sequence numbers that the reference LoadGen 6.0.17 logged in a SingleStream run of 400 queries
/// with the seed of TEST01, a sampling target of 64 and no minimum duration
/// (`loadgen/testdata/traces/audit-accuracy-sampling.json`).
const LOGGED_BY_LOADGEN: [u64; 54] = [
    5, 17, 39, 53, 56, 65, 82, 87, 89, 92, 103, 107, 113, 116, 119, 129, 137, 140, 155, 167, 170,
    182, 188, 200, 210, 221, 222, 223, 236, 250, 257, 263, 279, 287, 289, 293, 301, 304, 313, 321,
    327, 329, 339, 345, 346, 348, 349, 365, 366, 372, 380, 384, 393, 394,
];

/// Verifies TEST01 of a run that should log as LoadGen did, with entries of these sequence numbers.
fn logged_as(numbers: &[u64], lines: &[(&str, &str)]) -> Vec<Reason> {
    let folder = Folder::new();
    let mut plan =
        plan(AuditTest::Test01, round("v5.1"), Some("resnet"), Scenario::SingleStream).unwrap();
    for (field, value) in &mut plan.runs[0].settings {
        if *field == "accuracy_log_sampling_target" {
            *value = "64".into();
        }
    }
    let runs = ["accuracy", "performance", "audit"].map(|name| folder.run(name));
    write_answers(&runs[0], &[(0, vec![7])]);
    let entry =
        |number: &u64| format!("{{ \"seq_id\" : {number}, \"qsl_idx\" : 0, \"data\" : \"07\" }}");
    let entries: Vec<String> = numbers.iter().map(entry).collect();
    std::fs::write(runs[2].accuracy_path(), format!("[\n{}\n]\n", entries.join(",\n"))).unwrap();
    let performance = Performance::new(Scenario::SingleStream, 1e6);
    performance.write(&runs[1]);
    let mut audited = performance.planned(&plan, 0);
    let counts = [
        ("effective_target_qps", "1000"),
        ("effective_min_query_count", "400"),
        ("generated_query_count", "400"),
        ("generated_samples_per_query", "1"),
    ];
    for (key, value) in counts.iter().chain(lines) {
        audited.settings.push(((*key).to_owned(), (*value).to_owned()));
    }
    audited.write(&runs[2]);
    // The last line of a key counts, and `write` has the number of entries.
    let detail = std::fs::read_to_string(runs[2].detail_path()).unwrap();
    let queries = detail.lines().find(|line| line.contains("\"result_query_count\"")).unwrap();
    let old = format!("\"value\": {}", numbers.len());
    let all = queries.replace(&old, "\"value\": 400");
    std::fs::write(runs[2].detail_path(), detail.replace(queries, &all)).unwrap();
    let [accuracy, performance, audited] = runs;
    let mut evidence = Evidence::new(vec![audited], Element::I8);
    evidence.accuracy = Some(accuracy);
    evidence.performance = Some(performance);
    verify(&plan, &evidence).parts[0].corrected.reasons().to_vec()
}

#[test]
fn answers_that_loadgen_logs_must_be_in_the_log() {
    let all = LOGGED_BY_LOADGEN;
    assert_eq!(logged_as(&all, &[]), []);
    assert_eq!(
        logged_as(&all[1..], &[]),
        [Reason::MissingAnswers { missing: 1, expected: 54, first: 5 }]
    );
    assert_eq!(
        logged_as(&all[..1], &[]),
        [Reason::MissingAnswers { missing: 53, expected: 54, first: 17 }]
    );
    let repeated = [5; 54];
    assert_eq!(
        logged_as(&repeated, &[]),
        [
            Reason::RepeatedAnswers { count: 53 },
            Reason::MissingAnswers { missing: 53, expected: 54, first: 17 },
        ]
    );
    // The mean is 54 / 400 = 0.135, so that 0.135 + 8 * (0.367 + 1) = 11.07 are permitted.
    let loaded = ("effective_performance_sample_count", "400");
    assert_eq!(
        logged_as(&all, &[loaded]),
        [Reason::FrequentSample { sample: 0, count: 54, most: 11 }]
    );
    // Failed samples have no answers.
    assert_eq!(logged_as(&all[1..], &[("dyno_failed_samples", "1")]), []);
}

#[test]
fn equal_answers_pass_and_are_written_as_checkers_search_for_them() {
    let folder = Folder::new();
    let answers: Vec<(u64, Vec<u8>)> = (0..5).map(|i| (i, vec![i as u8; 40])).collect();
    let logged = [answers[3].clone(), answers[1].clone(), answers[3].clone()];
    let (result, evidence) = audit(&folder, &planned("v5.1"), [&answers, &logged], Element::I8);
    assert!(result.is_passed(), "{result:?}");

    let scenario = folder.0.join("Offline");
    write_folder(&result, &evidence, &scenario).unwrap();
    let read = |name: &str| std::fs::read_to_string(scenario.join("TEST01").join(name)).unwrap();
    assert_eq!(
        read("verify_accuracy.txt"),
        "num_acc_log_entries = 5\nnum_acc_log_duplicate_keys = 0\nnum_acc_log_data_mismatch = 0\n\
         num_perf_log_entries = 3\nnum_perf_log_qsl_idx_match = 3\nnum_perf_log_data_mismatch = 0\n\
         num_missing_qsl_idxs = 0\nTEST PASS\n\n"
    );
    assert_eq!(
        read("verify_performance.txt"),
        "Verifying performance.\nReference score = 100.0\nTest score = 100.0\nTEST PASS\n"
    );
    // Output of sha256sum for this log.
    assert!(read("accuracy/accuracy.txt").starts_with("hash="));
    assert_eq!(read("accuracy/accuracy.txt").len(), "hash=\n".len() + 64);
    assert!(read("performance/run_1/mlperf_log_summary.txt").starts_with("Scenario"));
    assert!(read("performance/run_1/mlperf_log_detail.txt").starts_with(":::MLLOG"));
}

/// SPEC 2.3: the script compares only the first element.
#[test]
fn an_answer_that_agrees_in_its_first_element_only_is_different() {
    let folder = Folder::new();
    let (before, now) = (vec![(0, vec![1, 0, 0, 0, 9, 9, 9, 9])], vec![(0, vec![1, 0, 0, 0])]);
    let (result, _) = audit(&folder, &planned("v5.1"), [&before, &now], Element::I32);
    assert_eq!(verdicts(&result), (false, true));
    let reasons = result.corrected();
    assert_eq!(reasons.reasons(), [Reason::Answers { different: 1, total: 1, first: 0 }]);
    // A failure by the rules is not written as passed.
    let file = result.parts[0].file.as_ref().unwrap();
    assert!(file.text.contains("TEST FAIL") && !file.text.contains("TEST PASS"), "{}", file.text);
}

/// The script overwrites the answers that it compares with. A sample without an answer in the
/// accuracy run is compared with its own first answer.
#[test]
fn a_sample_that_the_accuracy_run_does_not_have_is_no_match() {
    let folder = Folder::new();
    let now = [(7, vec![1]), (7, vec![1])];
    let (result, _) = audit(&folder, &planned("v5.1"), [&[(0, vec![1])], &now], Element::I8);
    assert_eq!(verdicts(&result), (false, true));
    let reasons = result.corrected();
    assert!(reasons.reasons().contains(&Reason::NothingLogged), "{reasons:?}");
    assert!(reasons.reasons().contains(&Reason::Unmatched { count: 2, total: 2 }));
}

#[test]
fn nothing_logged_passes_in_the_first_round_only() {
    for (of, official) in [("v0.5", true), ("v0.7", false)] {
        let folder = Folder::new();
        let (result, _) = audit(&folder, &planned(of), [&[(0, vec![1])], &[]], Element::I8);
        assert_eq!(verdicts(&result), (false, official), "{of}");
    }
}

#[test]
fn the_script_stops_at_half_an_element() {
    let folder = Folder::new();
    let answers = [(0, vec![1, 2, 3])];
    let (result, _) = audit(&folder, &planned("v5.1"), [&answers, &answers], Element::I32);
    assert_eq!(verdicts(&result), (true, false));
}

fn qualities(values: [f64; 2]) -> Accuracies {
    let benchmark = round("v5.1").benchmark("resnet");
    let texts = values.map(|value| format!("accuracy={value}%, good=1, total=2\n"));
    Accuracies::from_texts(round("v5.1"), benchmark, texts)
}

/// Nondeterministic systems may differ by 1 % in quality.
#[test]
fn other_answers_pass_if_they_are_as_good() {
    for (now, passes) in [(76.0, true), (75.25, true), (75.24, false), (12.0, false)] {
        let folder = Folder::new();
        let plan = planned("v5.1");
        let (_, mut evidence) =
            audit(&folder, &plan, [&[(0, vec![1])], &[(0, vec![2])]], Element::I8);
        evidence.qualities = Some(qualities([76.0, now]));
        let result = verify(&plan, &evidence);
        assert_eq!(verdicts(&result), (passes, passes), "{now}");
        let text = &result.parts[0].file.as_ref().unwrap().text;
        assert!(text.contains("TEST FAIL"), "the first file tells of determinism alone: {text}");
        write_folder(&result, &evidence, &folder.0.join("out")).unwrap();
        let baseline = folder.0.join("out/TEST01/accuracy/baseline_accuracy.txt");
        let written = std::fs::read_to_string(baseline).unwrap_or_default();
        assert_eq!(written.starts_with("accuracy=76%"), passes, "{written}");
    }
}

/// Accuracy scripts score only the first answer to each sample.
#[test]
fn later_answers_must_be_as_good_as_first_ones() {
    let folder = Folder::new();
    let plan = planned("v5.1");
    let now = [(0, vec![1]), (0, vec![2])];
    let (_, mut evidence) = audit(&folder, &plan, [&[(0, vec![1])], &now], Element::I8);
    let same = Accuracies { of_every_answer: Some([76.0, 40.0]), ..qualities([76.0, 76.0]) };
    evidence.qualities = Some(same);
    assert_eq!(verdicts(&verify(&plan, &evidence)), (false, true));
}

#[test]
fn the_bound_of_a_target_of_99_9_percent_is_a_tenth_of_a_percent() {
    let of = |benchmark| {
        let plan =
            plan(AuditTest::Test01, round("v5.1"), Some(benchmark), Scenario::Offline).unwrap();
        (plan.quality_delta_percent.0.get("FID_SCORE").copied(), plan.quality_delta_percent.1)
    };
    assert_eq!(of("3d-unet-99.9"), (None, 0.1));
    assert_eq!(of("3d-unet-99"), (None, 1.0));
    assert_eq!(of("stable-diffusion-xl"), (Some(2.0), 1.0));
}

#[test]
fn the_baseline_log_has_the_audited_samples_once_and_reads_back() {
    let folder = Folder::new();
    let [accuracy, audited] = ["accuracy", "audited"].map(|name| folder.run(name));
    let answers: Vec<(u64, Vec<u8>)> = (0..6).map(|i| (i, vec![0xa0 + i as u8; 3])).collect();
    write_answers(&accuracy, &answers);
    write_answers(&audited, &[(4, vec![0]), (1, vec![0]), (4, vec![0])]);
    let into = folder.0.join("mlperf_log_accuracy_baseline.json");
    let count = baseline_log(&accuracy.accuracy_path(), &audited.accuracy_path(), &into).unwrap();
    assert_eq!(count, 2);
    let entries = dyno_loadgen::log::read::open_accuracy(&into).unwrap();
    let entries: Vec<_> = entries.map(|entry| entry.unwrap()).collect();
    assert_eq!(entries.iter().map(|entry| entry.qsl_idx).collect::<Vec<_>>(), [1, 4]);
    assert_eq!(entries[1].data, [0xa4; 3]);
}

/// Others may write in a shared folder, too.
#[test]
#[cfg(unix)]
fn a_baseline_log_does_not_follow_a_link_of_its_temporary_name() {
    let folder = Folder::new();
    let [accuracy, audited] = ["accuracy", "audited"].map(|name| folder.run(name));
    for run in [&accuracy, &audited] {
        write_answers(run, &[(0, vec![1])]);
    }
    let [into, other] = ["baseline.json", "other"].map(|name| folder.0.join(name));
    std::fs::write(&other, "kept").unwrap();
    std::os::unix::fs::symlink(&other, folder.0.join("baseline.json.partial")).unwrap();
    baseline_log(&accuracy.accuracy_path(), &audited.accuracy_path(), &into).unwrap();
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "kept");
    assert!(std::fs::symlink_metadata(&into).unwrap().is_file());
}

#[test]
fn a_baseline_log_over_a_log_of_the_runs_is_refused() {
    let folder = Folder::new();
    let [accuracy, audited] = ["accuracy", "audited"].map(|name| folder.run(name));
    for run in [&accuracy, &audited] {
        write_answers(run, &[(0, vec![1])]);
    }
    for into in [accuracy.accuracy_path(), audited.accuracy_path()] {
        let before = std::fs::read(&into).unwrap();
        baseline_log(&accuracy.accuracy_path(), &audited.accuracy_path(), &into).unwrap_err();
        assert_eq!(std::fs::read(&into).unwrap(), before);
    }
}

#[test]
fn a_folder_that_is_judged_is_not_written_over() {
    let folder = Folder::new();
    let plan = planned("v5.1");
    let answers = [(0, vec![1])];
    let (result, mut evidence) = audit(&folder, &plan, [&answers, &answers], Element::I8);
    let scenario = folder.0.join("Offline");
    write_folder(&result, &evidence, &scenario).unwrap();
    let again = scenario.join("TEST01");
    evidence.audited = vec![RunFolder::find(&again, TestMode::PerformanceOnly).unwrap()];
    let log = again.join("accuracy/mlperf_log_accuracy.json");
    let before = std::fs::read(&log).unwrap();
    assert!(!before.is_empty());
    write_folder(&result, &evidence, &scenario).unwrap_err();
    assert_eq!(std::fs::read(&log).unwrap(), before);
}

/// The text of a passed audit is removed when the next audit fails.
#[test]
fn a_failed_audit_leaves_no_pass_of_an_earlier_one() {
    let folder = Folder::new();
    let plan = planned("v5.1");
    let answers = [(0, vec![1])];
    let (result, evidence) = audit(&folder, &plan, [&answers, &answers], Element::I8);
    let scenario = folder.0.join("Offline");
    write_folder(&result, &evidence, &scenario).unwrap();
    for file in [evidence.audited[0].accuracy_path(), evidence.audited[0].detail_path()] {
        std::fs::remove_file(file).unwrap();
    }
    let result = verify(&plan, &evidence);
    write_folder(&result, &evidence, &scenario).unwrap();
    for name in ["verify_accuracy.txt", "verify_performance.txt"] {
        let text = std::fs::read_to_string(scenario.join("TEST01").join(name)).unwrap();
        assert_eq!(text, "TEST FAIL\n", "{name}");
    }
    assert!(!scenario.join("TEST01/accuracy").exists());
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// TEST08 matches answers by time and query, regardless of the sample index, and allows a
/// difference of 0.1 % in entropy.
#[test]
fn a_streaming_recommender_is_compared_by_entropy() {
    let plan = plan(AuditTest::Test08, round("v6.1"), Some("dlrm-v3"), Scenario::Offline).unwrap();
    let before = floats(&[3.0, 8.0, 0.9, 0.2, 1.0, 0.0, 1.0, 1.0, 2.0]);
    for (now, passes) in [
        (vec![3.0, 8.0, 0.9, 0.2], true),
        (vec![3.0, 8.0, 0.900_01, 0.2], true),
        (vec![3.0, 8.0, 0.89, 0.2], false),
        (vec![3.0, 9.0, 0.9, 0.2], false),
        (vec![3.0, 8.0, 0.9], false),
        (vec![3.0], false),
    ] {
        let folder = Folder::new();
        let [accuracy, audited] = ["accuracy", "audited"].map(|name| folder.run(name));
        write_answers(&accuracy, &[(0, before.clone())]);
        write_answers(&audited, &[(55, floats(&now))]);
        Performance::new(Scenario::Offline, 1.0).planned(&plan, 0).write(&audited);
        let mut evidence = Evidence::new(vec![audited], Element::F32);
        evidence.accuracy = Some(accuracy);
        let result = verify(&plan, &evidence);
        assert_eq!(verdicts(&result), (passes, passes), "{now:?} {result:?}");
        let text = &result.parts[0].file.as_ref().unwrap().text;
        assert_eq!(text.contains("TEST PASS"), passes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Verification returns a verdict for any content of the logs.
    #[test]
    fn no_logs_make_an_audit_panic(
        logs in proptest::collection::vec(
            prop_oneof![
                any::<Vec<u8>>(),
                "[\\[\\]{}\",: a0\\n]{0,60}".prop_map(String::into_bytes),
                "\\[\n(\\{ \"seq_id\" : 1, \"qsl_idx\" : [0-9], \"data\" : \"([0-9A-F]{2}){0,9}\" \\},\n){0,4}\\{ \"seq_id\" : 0, \"qsl_idx\" : 3, \"data\" : \"[0-9A-F]{8}\" \\}\n\\]\n"
                    .prop_map(String::into_bytes),
                "(Scenario : (Server|Offline|SingleStream)\n)?(Samples per second: [0-9a-z.-]{0,5}\n)?(Result is : (IN)?VALID\n)?"
                    .prop_map(String::into_bytes),
            ],
            9,
        ),
        element in proptest::sample::select(DTYPES.map(|(_, element)| element).to_vec()),
    ) {
        let folder = Folder::new();
        let runs = ["a", "b", "c"].map(|name| folder.run(name));
        for (run, logs) in runs.iter().zip(logs.chunks(3)) {
            let paths = [run.detail_path(), run.summary_path(), run.accuracy_path()];
            for (path, bytes) in paths.iter().zip(logs) {
                std::fs::write(path, bytes).unwrap();
            }
        }
        let [accuracy, performance, audited] = runs;
        for test in AuditTest::ALL {
            for (name, scenario) in [("v0.5", Scenario::Server), ("v4.1", Scenario::SingleStream), ("v6.1", Scenario::Offline)] {
                let Ok(plan) = plan(test, round(name), None, scenario) else { continue };
                let mut evidence = Evidence::new(vec![audited.clone(); plan.runs.len()], element);
                evidence.accuracy = Some(accuracy.clone());
                evidence.performance = Some(performance.clone());
                evidence.samples = Some(4);
                evidence.quality = Some(f64::NAN);
                let result = verify(&plan, &evidence);
                prop_assert!(!result.parts.is_empty());
                for reason in result.corrected().reasons() {
                    prop_assert!(!reason.to_string().is_empty());
                }
            }
        }
    }
}

#[test]
fn an_accuracy_run_of_one_sample_has_not_answered_the_others() {
    let folder = Folder::new();
    let plan = planned("v5.1");
    let one = vec![(0, vec![1]); 3];
    let (_, evidence) = audit(&folder, &plan, [&one, &one], Element::I8);
    let accuracy = evidence.accuracy.clone().unwrap();
    let failed = |samples: &str| {
        let settings = vec![("effective_accuracy_sample_count".to_owned(), samples.to_owned())];
        Performance { settings, ..Performance::new(Scenario::Offline, 1.0) }.write(&accuracy);
        verify(&plan, &evidence).corrected().reasons().to_vec()
    };
    assert_eq!(failed("1"), []);
    assert_eq!(failed("3"), [Reason::FewSamples { found: 1, expected: 3 }]);
}
