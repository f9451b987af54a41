//! Scores: TEST01, TEST03, TEST04, its pair, TEST05.

use dyno_loadgen::settings::Scenario;
use dyno_submission::audit::{
    AuditPlan, AuditResult, AuditTest, Element, Evidence, Reason, Side, plan, verify,
};

use super::logs::{Folder, Performance};
use super::round;

fn audit(plan: &AuditPlan, reference: &Performance, audited: &Performance) -> AuditResult {
    let folder = Folder::new();
    let [first, second] = ["first", "second"].map(|name| folder.run(name));
    let is_pair = plan.test == AuditTest::Test04Pair;
    if is_pair {
        reference.clone().planned(plan, 0).write(&first);
    } else {
        reference.write(&first);
    }
    audited.clone().planned(plan, plan.runs.len() - 1).write(&second);
    let runs = if is_pair { vec![first.clone(), second] } else { vec![second] };
    let mut evidence = Evidence::new(runs, Element::I8);
    evidence.performance = (!is_pair).then_some(first);
    verify(plan, &evidence)
}

fn verdicts(test: AuditTest, name: &str, scenario: Scenario, scores: [f64; 2]) -> (bool, bool) {
    let plan = plan(test, round(name), None, scenario).unwrap();
    let [before, now] = scores.map(|score| Performance::new(scenario, score));
    let result = audit(&plan, &before, &now);
    (result.corrected().is_passed(), result.official().is_passed())
}

const BOTH: (bool, bool) = (true, true);
const NEITHER: (bool, bool) = (false, false);
const SCRIPT: (bool, bool) = (false, true);

#[test]
fn one_sample_may_not_be_faster_by_a_tenth() {
    let offline = |now| verdicts(AuditTest::Test04, "v5.1", Scenario::Offline, [1000.0, now]);
    assert_eq!(offline(1099.9), BOTH);
    assert_eq!(offline(1100.1), NEITHER);
    assert_eq!(offline(1.0), BOTH);
}

#[test]
fn a_note_states_why_a_run_is_not_valid() {
    let plan = plan(AuditTest::Test04, round("v5.1"), None, Scenario::Offline).unwrap();
    let good = Performance::new(Scenario::Offline, 100.0);
    let why = "Increase expected QPS so the loadgen pre-generates a larger (coalesced) query.";
    let settings = vec![("result_invalid_reason".to_owned(), why.to_owned())];
    let bad = Performance { validity: "INVALID", settings, ..good.clone() };
    let expected = format!("The reference run is INVALID by its log: {why}");
    assert_eq!(audit(&plan, &bad, &good).notes, [expected]);
    assert_eq!(audit(&plan, &good, &good).notes, [""; 0]);
}

/// Values that are no latency are not replaced by those of the summary.
#[test]
fn a_score_that_is_no_number_is_no_score() {
    let key = "early_stopping_latency_ss";
    let reasons = |name: &str, value: &str| {
        let test = if name == "v1.1" { AuditTest::Test05 } else { AuditTest::Test04 };
        let plan = plan(test, round(name), None, Scenario::SingleStream).unwrap();
        let folder = Folder::new();
        let [first, second] = ["first", "second"].map(|name| folder.run(name));
        let run = Performance::new(Scenario::SingleStream, 1e6);
        run.write(&first);
        run.planned(&plan, 0).write(&second);
        let detail = std::fs::read_to_string(second.detail_path()).unwrap();
        let (good, bad) =
            (format!("\"{key}\", \"value\": 1000000,"), format!("\"{key}\", \"value\": {value},"));
        assert!(detail.contains(&good), "{detail}");
        std::fs::write(second.detail_path(), detail.replace(&good, &bad)).unwrap();
        let mut evidence = Evidence::new(vec![second], Element::I8);
        evidence.performance = Some(first);
        verify(&plan, &evidence).corrected().reasons().to_vec()
    };
    assert_eq!(reasons("v5.1", "1000000"), []);
    for value in ["0", "-5", "\"NaN\"", "null"] {
        let found = reasons("v5.1", value);
        assert_eq!(found, [Reason::NoScore { side: Side::Audit }], "{value}");
    }
    // Rounds without early stopping have no estimate: their score is the percentile.
    assert_eq!(reasons("v1.1", "0"), []);
    assert_eq!(reasons("v1.1", "-5"), [Reason::NoScore { side: Side::Audit }]);
}

/// SPEC 2.3: the script checks whether a speed, in queries/s, is at most 200,000, which holds
/// from 5 us on.
#[test]
fn the_script_allows_nearly_every_stream_a_fifth() {
    let single =
        |before, now| verdicts(AuditTest::Test04, "v5.1", Scenario::SingleStream, [before, now]);
    // 15 % faster.
    assert_eq!(single(1_150_000.0, 1_000_000.0), SCRIPT);
    assert_eq!(single(1_090_000.0, 1_000_000.0), BOTH);
    assert_eq!(single(1_250_000.0, 1_000_000.0), NEITHER);
    // Both readings allow this for short latencies.
    assert_eq!(single(115_000.0, 100_000.0), BOTH);
    // Below 5 us the script is stricter.
    assert_eq!(single(4_600.0, 4_000.0), (true, false));
    let multi =
        |before, now| verdicts(AuditTest::Test04, "v5.1", Scenario::MultiStream, [before, now]);
    assert_eq!(multi(11_500_000.0, 10_000_000.0), SCRIPT);
    assert_eq!(multi(1_150_000.0, 1_000_000.0), BOTH);
}

/// A submission that was run with the audit's seeds is as fast as the audit, even if it cheats.
#[test]
fn a_submission_with_the_seeds_of_the_audit_proves_nothing() {
    let plan = plan(AuditTest::Test05, round("v4.1"), None, Scenario::Offline).unwrap();
    let run = Performance::new(Scenario::Offline, 1000.0);
    let result = audit(&plan, &run.clone().planned(&plan, 0), &run);
    let reasons = result.corrected();
    let [first, _, _] = reasons.reasons() else { panic!("{result:?}") };
    assert!(first.to_string().ends_with("expected another than that of the audit"), "{first}");
    assert!(result.official().is_passed());
}

/// SPEC 2.3: because of an unescaped parenthesis, the script never finds the bound.
#[test]
fn another_bound_of_latency_escapes_the_script_on_summaries() {
    let scenario = Scenario::Server;
    for (test, round_name, official) in [
        (AuditTest::Test04, "v5.1", true),
        (AuditTest::Test05, "v4.1", true),
        (AuditTest::Test01, "v5.1", false),
    ] {
        let plan = plan(test, round(round_name), None, scenario).unwrap();
        let before = Performance { target_latency: 15, ..Performance::new(scenario, 100.0) };
        let now = Performance { target_latency: 30, ..before.clone() };
        let result = audit(&plan, &before, &now);
        let part = result.parts.iter().find(|part| part.name == "score").unwrap();
        assert_eq!(part.official.is_passed(), official, "{test}");
        let expected = Reason::Setting {
            side: Side::Audit,
            key: "effective_target_latency_ns",
            expected: "15".into(),
            found: Some("30".into()),
        };
        assert_eq!(part.corrected.reasons(), [expected]);
    }
}

#[test]
fn logging_answers_may_cost_a_tenth() {
    let offline = |now| {
        let plan = plan(AuditTest::Test01, round("v5.1"), None, Scenario::Offline).unwrap();
        let [before, now] = [1000.0, now].map(|score| Performance::new(Scenario::Offline, score));
        let result = audit(&plan, &before, &now);
        let part = result.parts.iter().find(|part| part.name == "score").unwrap();
        (part.corrected.is_passed(), part.official.is_passed())
    };
    assert_eq!(offline(900.0), BOTH);
    assert_eq!(offline(1100.0), BOTH);
    assert_eq!(offline(899.0), NEITHER);
    assert_eq!(offline(1101.0), NEITHER);
}

#[test]
fn other_seeds_may_be_faster_in_later_rounds() {
    let offline = |name, now| verdicts(AuditTest::Test05, name, Scenario::Offline, [1000.0, now]);
    assert_eq!(offline("v0.7", 960.0), BOTH);
    assert_eq!(offline("v0.7", 1060.0), NEITHER);
    assert_eq!(offline("v4.1", 1060.0), BOTH);
    assert_eq!(offline("v4.1", 940.0), NEITHER);
    let single = |now| verdicts(AuditTest::Test05, "v4.1", Scenario::SingleStream, [1e6, now]);
    assert_eq!(single(1.06e6), NEITHER);
    assert_eq!(single(0.5e6), BOTH);
}

#[test]
fn one_sample_may_be_slower_than_many_but_not_faster() {
    let pair = |scenario, now| verdicts(AuditTest::Test04Pair, "v0.5", scenario, [1e6, now]);
    assert_eq!(pair(Scenario::Offline, 1.2e6), NEITHER);
    assert_eq!(pair(Scenario::Offline, 0.5e6), BOTH);
    assert_eq!(pair(Scenario::SingleStream, 0.85e6), NEITHER);
    assert_eq!(pair(Scenario::SingleStream, 3e6), BOTH);
    let custom = |now| verdicts(AuditTest::Test03, "v0.5", Scenario::Offline, [1e6, now]);
    assert_eq!(custom(0.85e6), NEITHER);
    assert_eq!(custom(0.95e6), BOTH);
}

/// A run with a fixed interval whose result is this number of streams.
fn streams(count: u64) -> Performance {
    let key = "dyno_result_samples_per_query".to_string();
    let settings = vec![(key, count.to_string())];
    Performance { settings, ..Performance::new(Scenario::MultiStream, 0.0) }
}

#[test]
fn more_streams_are_faster() {
    let plan = plan(AuditTest::Test04Pair, round("v0.7"), None, Scenario::MultiStream).unwrap();
    let result = |before, now| audit(&plan, &streams(before), &streams(now));
    let faster = result(3, 30);
    let [Reason::Score { reference: 3.0, audit: 30.0, is_faster: true, .. }] =
        faster.corrected().reasons()
    else {
        panic!("{faster:?}")
    };
    assert!(faster.parts[0].figures[..2].iter().all(|figure| figure.unit == "streams"));
    // Fewer streams are slower, which is allowed for one sample.
    assert!(result(30, 3).corrected().is_passed());
    assert!(result(15, 15).corrected().is_passed());
}

#[test]
fn an_audit_may_have_another_load_if_its_performance_is_near() {
    let plan = plan(AuditTest::Test05, round("v0.7"), None, Scenario::Server).unwrap();
    let run = |score: f64, load: &str| {
        let mut run = Performance::new(Scenario::Server, score);
        run.settings.push(("effective_target_qps".into(), load.into()));
        run
    };
    let reasons = |before: &Performance, now: &Performance| {
        audit(&plan, before, now).corrected().reasons().to_vec()
    };
    assert_eq!(reasons(&run(600.0, "700.5"), &run(600.0, "665.5")), []);
    let slow = reasons(&run(600.0, "700.5"), &run(400.0, "700.5"));
    assert!(matches!(slow[..], [Reason::Score { .. }]), "{slow:?}");
}

#[test]
fn a_run_that_is_invalid_or_was_made_otherwise_fails_and_says_so() {
    let scenario = Scenario::Offline;
    let plan = plan(AuditTest::Test04, round("v5.1"), None, scenario).unwrap();
    let good = Performance::new(scenario, 100.0);
    let reasons = |before: &Performance, now: &Performance| {
        let result = audit(&plan, before, now);
        let corrected = result.corrected();
        (corrected.reasons().to_vec(), result.official().is_passed())
    };
    let invalid = Performance { validity: "INVALID", ..good.clone() };
    let of = |side| vec![Reason::NotValid { side }];
    assert_eq!(reasons(&invalid, &good), (of(Side::Reference), false));
    assert_eq!(reasons(&good, &invalid), (of(Side::Audit), false));
    let errors = Performance { errors: 2, ..good.clone() };
    assert_eq!(
        reasons(&good, &errors),
        (vec![Reason::Errors { side: Side::Audit, count: 2 }], true)
    );
    let seeds = Performance { seeds: 8, ..good.clone() };
    let (found, official) = reasons(&good, &seeds);
    assert_eq!((found.len(), official), (3, true), "{found:?}");

    // The scripts do not detect a submission that is its own audit.
    let folder = Folder::new();
    let run = folder.run("both");
    good.write(&run);
    let mut evidence = Evidence::new(vec![run.clone()], Element::I8);
    evidence.performance = Some(run);
    let result = verify(&plan, &evidence);
    assert!(result.official().is_passed());
    assert!(
        result.corrected().reasons().iter().any(|reason| matches!(
            reason,
            Reason::Setting { key: "effective_performance_issue_same", found: None, .. }
        )),
        "{result:?}"
    );
}

/// The runs of a pair end after the loaded samples, which may be too early for a percentile or a
/// minimum duration.
#[test]
fn the_runs_of_a_pair_need_not_be_valid() {
    let plan = plan(AuditTest::Test04Pair, round("v2.0"), None, Scenario::Offline).unwrap();
    let good = Performance::new(Scenario::Offline, 100.0);
    let invalid = Performance { validity: "INVALID", ..good.clone() };
    assert!(audit(&plan, &invalid, &good).is_passed());
    assert!(audit(&plan, &good, &invalid).is_passed());

    // Ten samples issued a hundred times each are not unique.
    let many = |queries: &str| {
        let settings = [
            ("effective_performance_sample_count", "10"),
            ("generated_samples_per_query", "1"),
            ("result_query_count", queries),
        ];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        Performance { settings, ..invalid.clone() }
    };
    let now = Performance { validity: "VALID", ..many("1000") };
    assert!(audit(&plan, &many("10"), &now).is_passed());
    let expected = Reason::Setting {
        side: Side::Reference,
        key: "result_query_count",
        expected: "at most 10".into(),
        found: Some("1000".into()),
    };
    assert_eq!(audit(&plan, &many("1000"), &now).corrected().reasons(), [expected]);
    // A run may be too short but not too slow.
    let mut slow = many("10");
    slow.settings.push(("result_perf_constraints_met".into(), "false".into()));
    let result = audit(&plan, &slow, &now);
    assert_eq!(result.corrected().reasons(), [Reason::NotValid { side: Side::Reference }]);
}

/// Scenarios without a percentile logged uninitialized memory as theirs before v1.1.
#[test]
fn percentiles_that_mean_nothing_may_differ() {
    let plan = plan(AuditTest::Test01, round("v0.7"), None, Scenario::Offline).unwrap();
    let key = "effective_target_latency_percentile";
    let reasons = |before: &str, now: &str| {
        let with = |run: Performance, value: &str| {
            let mut settings = run.settings.clone();
            settings.push((key.to_owned(), value.to_owned()));
            Performance { settings, ..run }
        };
        let run = Performance::new(Scenario::Offline, 100.0);
        let (before, now) = (with(run.clone(), before), with(run, now));
        audit(&plan, &before, &now).corrected().reasons().to_vec()
    };
    let is_about_it =
        |reason: &Reason| matches!(reason, Reason::Setting { key: k, .. } if *k == key);
    assert!(!reasons("4.6e-310", "0").iter().any(is_about_it));
    assert!(reasons("0.9", "0.99").iter().any(is_about_it));
}

#[test]
fn a_submission_of_one_sample_is_no_reference() {
    for test in [AuditTest::Test01, AuditTest::Test04] {
        let plan = plan(test, round("v5.1"), None, Scenario::Offline).unwrap();
        let good = Performance::new(Scenario::Offline, 100.0);
        let mut one = good.clone();
        let key = "effective_performance_issue_same";
        one.settings.push((key.into(), "true".into()));
        let now = if test == AuditTest::Test01 { one.clone() } else { good };
        let result = audit(&plan, &one, &now);
        let score = result.parts.iter().find(|part| part.name == "score").unwrap();
        let expected = Reason::Setting {
            side: Side::Reference,
            key,
            expected: "false".into(),
            found: Some("true".into()),
        };
        assert_eq!(score.corrected.reasons(), [expected], "{test}");
    }
}

/// Either of two contradicting lines may be the true one.
#[test]
fn a_log_that_says_two_things_fails_its_audit() {
    let plan = plan(AuditTest::Test04, round("v5.1"), None, Scenario::Offline).unwrap();
    let good = Performance::new(Scenario::Offline, 100.0);
    let mut twice = Performance::new(Scenario::Offline, 900.0);
    let key = "result_samples_per_second".to_owned();
    twice.settings.push((key.clone(), "100".into()));
    let of = |side| vec![Reason::Contradiction { side, key: key.clone() }];
    assert_eq!(audit(&plan, &good, &twice).corrected().reasons(), of(Side::Audit));
    assert_eq!(audit(&plan, &twice, &good).corrected().reasons(), of(Side::Reference));
    let mut same = good.clone();
    same.settings.push((key.clone(), "100".into()));
    assert!(audit(&plan, &good, &same).corrected().is_passed());
}

#[test]
fn a_server_that_got_faster_is_told_though_its_score_is_the_same() {
    let plan = plan(AuditTest::Test04, round("v5.1"), None, Scenario::Server).unwrap();
    let before = Performance { mean_latency: 9_000, ..Performance::new(Scenario::Server, 100.0) };
    let now = Performance { mean_latency: 2_000, ..before.clone() };
    let result = audit(&plan, &before, &now);
    assert!(result.is_passed());
    assert_eq!(result.notes.len(), 1, "{result:?}");
}

#[test]
fn what_is_not_there_is_a_reason() {
    let plan = plan(AuditTest::Test04, round("v5.1"), None, Scenario::Offline).unwrap();
    let evidence = Evidence::new(vec![], Element::I8);
    let result = verify(&plan, &evidence);
    assert_eq!(result.corrected().reasons(), [Reason::NotGiven { what: "run of the audit" }]);
    let folder = Folder::new();
    let evidence = Evidence::new(vec![folder.run("empty")], Element::I8);
    let result = verify(&plan, &evidence);
    assert_eq!(result.corrected().reasons(), [Reason::NotGiven { what: "performance run" }]);
}

#[test]
fn a_latency_is_told_in_whole_nanoseconds() {
    let plan = plan(AuditTest::Test04, round("v5.1"), None, Scenario::SingleStream).unwrap();
    let at = |score| Performance::new(Scenario::SingleStream, score);
    let result = audit(&plan, &at(1_038_815.0), &at(20_001.0));
    let told = result.corrected().reasons()[0].to_string();
    assert!(told.starts_with("the score is 20001 ns against 1038815 ns"), "{told}");
}

/// TEST04 issues one sample, however many are loaded.
#[test]
fn test04_may_load_another_number_of_samples() {
    let key = "effective_performance_sample_count";
    let reasons = |test, benchmark, now: &str| {
        let plan = plan(test, round("v6.0"), benchmark, Scenario::Offline).unwrap();
        let [before, now] = ["56", now].map(|count| {
            let settings = vec![(key.to_owned(), count.to_owned())];
            Performance { settings, ..Performance::new(Scenario::Offline, 100.0) }
        });
        audit(&plan, &before, &now).corrected().reasons().to_vec()
    };
    let wan = Some("wan-2.2-t2v-a14b");
    for benchmark in [None, wan] {
        let free = reasons(AuditTest::Test04, benchmark, "248");
        assert!(free.is_empty(), "{free:?}");
    }
    // The data set has 248 samples, so the log is that of another benchmark.
    for (test, benchmark, now) in [
        (AuditTest::Test01, None, "248"),
        (AuditTest::Test04, wan, "249"),
        (AuditTest::Test04, wan, "1024"),
    ] {
        let (expected, found) = ("56".into(), Some(now.into()));
        let differs = Reason::Setting { side: Side::Audit, key, expected, found };
        assert!(reasons(test, benchmark, now).contains(&differs), "{test} {now}");
    }
}

#[test]
fn a_reason_states_the_speed_if_speeds_are_compared() {
    let plan = plan(AuditTest::Test04, round("v3.1"), None, Scenario::SingleStream).unwrap();
    let text = |now| {
        let [before, now] = [215_092_705.0, now].map(|ns| Performance::new(plan.scenario, ns));
        let verdict = audit(&plan, &before, &now).corrected();
        verdict.reasons().iter().map(Reason::to_string).collect::<String>()
    };
    let faster = text(194_860_484.0);
    assert!(faster.contains("ns, speed +10.4 %: the audited run is faster"), "{faster}");
    let faster = text(150_000_000.0);
    assert!(faster.contains("ns, -30.3 %: the audited run is faster"), "{faster}");
}
