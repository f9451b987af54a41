//! TEST06, TEST07 and TEST09.

use dyno_loadgen::settings::{Scenario, TestMode};
use dyno_submission::audit::{
    AuditResult, AuditTest, Element, Evidence, RunFolder, plan, verify, write_folder,
};

use super::logs::{Folder, Performance, Row, write_tokens};
use super::round;

fn tokens(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// An answer with its reported first token and its count.
fn answer(values: &[i64]) -> Row {
    (0, tokens(values), Some(tokens(&values[..1])), Some(values.len() as i64))
}

fn test06(scenario: Scenario, rows: &[Row]) -> AuditResult {
    let plan = plan(AuditTest::Test06, round("v5.1"), None, scenario).unwrap();
    let folder = Folder::new();
    let run = folder.run("audit");
    // The number of answers that the audit logs.
    let rows: Vec<Row> =
        rows.iter().cycle().take(if rows.is_empty() { 0 } else { 100 }).cloned().collect();
    write_tokens(&run, &rows);
    Performance::new(scenario, 1.0).planned(&plan, 0).write(&run);
    verify(&plan, &Evidence::new(vec![run], Element::I64))
}

fn verdicts(scenario: Scenario, rows: &[Row]) -> (bool, bool) {
    let result = test06(scenario, rows);
    (result.corrected().is_passed(), result.official().is_passed())
}

#[test]
fn tokens_that_agree_pass() {
    let result = test06(Scenario::Server, &[answer(&[5, 6, 2]), answer(&[5]), answer(&[2, 2])]);
    assert!(result.is_passed(), "{result:?}");
    assert_eq!(
        result.parts[0].file.as_ref().unwrap().text,
        "First token check pass: True\nEOS check pass: True\nSample length check pass: True\n\
         TEST06 verification complete\n"
    );
    let offline = test06(Scenario::Offline, &[(0, tokens(&[5]), None, Some(1))]);
    assert!(offline.is_passed(), "{offline:?}");
    assert!(
        offline.parts[0].file.as_ref().unwrap().text.starts_with("First token check pass: Skipped")
    );
}

/// SPEC 2.3: the script looks for repeated end tokens only at the end, and ignores the first
/// token.
#[test]
fn tokens_after_the_end_of_the_text_are_found() {
    let server = |values: &[i64]| verdicts(Scenario::Server, &[answer(values)]);
    assert_eq!(server(&[5, 2, 2]), (false, false));
    assert_eq!(server(&[5, 2, 7, 7]), (false, true));
    assert_eq!(server(&[2, 7, 7, 2]), (false, true));
    assert_eq!(server(&[2]), (true, true));
}

#[test]
fn first_tokens_and_counts_must_be_those_of_the_answer() {
    let server = |row: Row| verdicts(Scenario::Server, &[row]);
    assert_eq!(server((0, tokens(&[5, 6]), Some(tokens(&[6])), Some(2))), (false, false));
    // The script accepts an empty report of first tokens.
    assert_eq!(server((0, tokens(&[5, 6]), Some(vec![]), Some(2))), (false, true));
    assert_eq!(server((0, tokens(&[5, 6]), None, Some(2))), (false, false));
    assert_eq!(server((0, tokens(&[5, 6]), Some(tokens(&[5])), Some(3))), (false, false));
    assert_eq!(server((0, vec![1, 2, 3], Some(vec![]), Some(0))), (false, false));
    assert_eq!(verdicts(Scenario::Server, &[]), (false, true));
}

/// Reasons against the run itself are included in the submitted text.
#[test]
fn a_run_that_is_not_that_of_the_audit_fails_it_and_its_text() {
    let plan = plan(AuditTest::Test06, round("v5.1"), None, Scenario::Server).unwrap();
    let of = |change: &dyn Fn(&mut Performance), rows: usize| {
        let folder = Folder::new();
        let run = folder.run("audit");
        write_tokens(&run, &vec![answer(&[5, 2]); rows]);
        let mut played = Performance::new(Scenario::Server, 1.0).planned(&plan, 0);
        change(&mut played);
        played.write(&run);
        let result = verify(&plan, &Evidence::new(vec![run], Element::I64));
        let is_passed = result.corrected().is_passed();
        let text = &result.parts[0].file.as_ref().unwrap().text;
        assert_eq!(text.contains("TEST06 verification complete"), is_passed, "{text}");
        is_passed
    };
    let set = |key: &'static str, value: &'static str| {
        move |run: &mut Performance| {
            run.settings.retain(|(known, _)| known != key);
            run.settings.push((key.into(), value.into()));
        }
    };
    assert!(of(&|_| (), 100));
    assert!(!of(&|_| (), 1), "one answer of a hundred");
    assert!(!of(&|run| run.validity = "INVALID", 100));
    assert!(!of(&set("effective_min_query_count", "99"), 100));
    assert!(of(&set("effective_min_query_count", "101"), 100));
    assert!(!of(&set("effective_min_duration_ms", "600000"), 100));
    assert!(!of(&set("effective_sample_concatenate_permutation", "true"), 100));
    // A hundred queries are too few for early stopping.
    let short = |run: &mut Performance| {
        run.validity = "INVALID";
        run.settings.push(("early_stopping_met".into(), "false".into()));
    };
    assert!(of(&short, 100));
    let slow = |run: &mut Performance| {
        short(run);
        run.settings.push(("result_perf_constraints_met".into(), "false".into()));
    };
    assert!(!of(&slow, 100));
}

/// The rules require only the text and the answers of TEST06, no log.
#[test]
fn answers_alone_are_judged_and_leave_no_empty_folder() {
    let plan = plan(AuditTest::Test06, round("v5.1"), None, Scenario::Server).unwrap();
    let folder = Folder::new();
    write_tokens(&folder.run("TEST06/accuracy"), &vec![answer(&[5, 2]); 100]);
    let run = RunFolder::find(&folder.0.join("TEST06"), TestMode::PerformanceOnly).unwrap();
    let evidence = Evidence::new(vec![run], Element::I64);
    let result = verify(&plan, &evidence);
    assert!(result.is_passed(), "{result:?}");
    assert_eq!(result.notes.len(), 1, "that the settings were not judged");
    write_folder(&result, &evidence, &folder.0.join("again")).unwrap();
    assert!(folder.0.join("again/TEST06/accuracy/mlperf_log_accuracy.json").is_file());
    assert!(!folder.0.join("again/TEST06/performance").exists());

    write_tokens(&folder.run("TEST06/accuracy"), &vec![answer(&[5, 2, 2]); 100]);
    assert!(!verify(&plan, &evidence).corrected().is_passed());
}

#[test]
fn no_bound_of_nan_is_met() {
    let mut plan =
        plan(AuditTest::Test07, round("v6.1"), Some("gpt-oss-120b"), Scenario::Offline).unwrap();
    plan.threshold = Some(f64::NAN);
    let folder = Folder::new();
    let run = folder.run("audit");
    write_tokens(&run, &[answer(&[1])]);
    Performance::new(Scenario::Offline, 1.0).planned(&plan, 0).write(&run);
    let mut evidence = Evidence::new(vec![run], Element::I32);
    (evidence.quality, evidence.samples) = (Some(99.0), Some(1));
    assert!(!verify(&plan, &evidence).is_passed());
    plan.threshold = Some(60.0);
    assert!(verify(&plan, &evidence).is_passed());
    // Without a known number of samples, the number that the audit logs applies.
    evidence.samples = None;
    assert!(!verify(&plan, &evidence).is_passed());
}

/// v6.0 draws samples with replacement, so that some are not logged.
#[test]
fn samples_may_repeat_in_the_round_that_draws_them() {
    for (name, passes) in [("v6.0", true), ("v6.1", false)] {
        let plan =
            plan(AuditTest::Test07, round(name), Some("gpt-oss-120b"), Scenario::Offline).unwrap();
        let folder = Folder::new();
        let run = folder.run("audit");
        // Each of 330 samples three times.
        let row = |at: u64| (at % 330, tokens(&[1]), None, None);
        write_tokens(&run, &(0..990).map(row).collect::<Vec<Row>>());
        Performance::new(Scenario::Offline, 1.0).planned(&plan, 0).write(&run);
        let mut evidence = Evidence::new(vec![run], Element::I32);
        evidence.quality = Some(61.0);
        assert_eq!(verify(&plan, &evidence).is_passed(), passes, "{name}");
    }
}

#[test]
fn the_mean_length_must_lie_within_the_bounds_of_the_benchmark() {
    let plan =
        plan(AuditTest::Test09, round("v6.1"), Some("gpt-oss-120b"), Scenario::Offline).unwrap();
    let audit = |lengths: [usize; 2], samples: u64| {
        let folder = Folder::new();
        let run = folder.run("audit");
        let row = |(at, tokens): (usize, usize)| (at as u64, vec![1; 4 * tokens], None, None);
        let rows: Vec<Row> = lengths.into_iter().enumerate().map(row).collect();
        write_tokens(&run, &rows);
        Performance::new(Scenario::Offline, 1.0).planned(&plan, 0).write(&run);
        let mut evidence = Evidence::new(vec![run], Element::I32);
        evidence.samples = Some(samples);
        verify(&plan, &evidence)
    };
    let good = audit([1_000, 1_500], 2);
    assert!(good.is_passed(), "{good:?}");
    let text = &good.parts[0].file.as_ref().unwrap().text;
    assert!(text.contains("Mean output tokens: 1250.00\n") && text.contains("TEST PASS"), "{text}");
    assert!(!audit([1_000, 1_300], 2).official().is_passed());
    assert!(!audit([1_500, 1_500], 2).official().is_passed());
    // The log covers only part of the data set.
    let part = audit([1_250, 1_250], 3);
    assert!(part.official().is_passed() && !part.corrected().is_passed());
}

#[test]
fn the_quality_of_a_whole_performance_run_has_a_bound() {
    let plan =
        plan(AuditTest::Test07, round("v6.1"), Some("gpt-oss-120b"), Scenario::Offline).unwrap();
    for (quality, passes) in
        [(Some(60.698), true), (Some(60.69), false), (Some(f64::NAN), false), (None, false)]
    {
        let folder = Folder::new();
        let run = folder.run("audit");
        write_tokens(&run, &[answer(&[1])]);
        Performance::new(Scenario::Offline, 1.0).planned(&plan, 0).write(&run);
        let mut evidence = Evidence::new(vec![run], Element::I32);
        evidence.quality = quality;
        evidence.samples = Some(1);
        let result = verify(&plan, &evidence);
        assert_eq!(result.is_passed(), passes, "{quality:?} {result:?}");
        let text = &result.parts[0].file.as_ref().unwrap().text;
        assert_eq!(text.contains("TEST PASS"), passes, "{text}");
    }
}
