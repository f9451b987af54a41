//! Audits of logs that these tests write.

mod answers;
pub mod logs;
mod published;
mod scores;
mod tokens;

use dyno_loadgen::settings::Scenario;
use dyno_rules::Round;
use dyno_submission::audit::{AuditTest, RequiredRuns, plan};

fn round(name: &str) -> &'static Round {
    Round::named(name).unwrap()
}

fn settings(test: AuditTest, of: &str, benchmark: Option<&str>) -> Vec<Vec<String>> {
    let plan = plan(test, round(of), benchmark, Scenario::Offline).unwrap();
    let rows = |run: &dyno_submission::audit::PlannedRun| {
        run.settings.iter().map(|(key, value)| format!("{key}={value}")).collect()
    };
    plan.runs.iter().map(rows).collect()
}

/// Every audit that a round's benchmark asks for has a plan in that round.
#[test]
fn every_audit_of_every_round_has_a_plan() {
    for name in Round::names() {
        for benchmark in &round(name).benchmarks {
            for audit in &benchmark.audits {
                let test = AuditTest::named(audit).unwrap();
                let planned = plan(test, round(name), Some(&benchmark.name), Scenario::Offline);
                let planned = planned.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(!planned.runs.is_empty());
                if test == AuditTest::Test07 {
                    assert!(planned.threshold.is_some(), "{name} {}", benchmark.name);
                }
                if test == AuditTest::Test09 {
                    assert!(planned.mean_tokens.is_some(), "{name} {}", benchmark.name);
                }
            }
        }
    }
}

/// compliance/TEST07 and compliance/TEST09 of mlcommons/inference, at 986d8b6d for v6.0 and at d8230cdd
/// for v6.1.
#[test]
fn each_sample_is_issued_once_from_v61_on() {
    for test in [AuditTest::Test07, AuditTest::Test09] {
        let is_unique = |round: &str| {
            let settings = settings(test, round, Some("gpt-oss-120b")).remove(0);
            settings.iter().any(|setting| setting == "performance_issue_unique=true")
        };
        assert_eq!(["v6.0", "v6.1"].map(is_unique), [false, true], "{test}");
    }
    let settings = settings(AuditTest::Test09, "v6.1", Some("gpt-oss-120b")).remove(0);
    assert!(settings.contains(&"min_query_count=6396".to_owned()), "{settings:?}");
}

/// Audits of the paper's round, by audit folder.
#[test]
fn the_first_round_logs_one_answer_of_ten() {
    let of = settings(AuditTest::Test01, "v0.5", Some("resnet"));
    assert_eq!(
        of,
        [["mode=PerformanceOnly", "accuracy_log_probability=0.1", "accuracy_log_rng_seed=456"]]
    );
    let pair = settings(AuditTest::Test04Pair, "v0.5", None);
    assert_eq!(pair[0], ["mode=PerformanceOnly", "performance_issue_unique=true"]);
    assert_eq!(
        pair[1],
        ["mode=PerformanceOnly", "performance_issue_same=true", "performance_issue_same_index=3"]
    );
    let seeds = settings(AuditTest::Test05, "v0.5", None).remove(0);
    assert_eq!(
        seeds[1..],
        ["qsl_rng_seed=195", "sample_index_rng_seed=235", "schedule_rng_seed=634"]
    );
}

#[test]
fn later_rounds_log_a_number_of_answers_by_benchmark() {
    let target = |round, benchmark| {
        let settings = settings(AuditTest::Test01, round, Some(benchmark)).remove(0);
        settings.into_iter().find(|row| row.starts_with("accuracy_log_sampling_target")).unwrap()
    };
    for (round, benchmark, samples) in [
        ("v5.1", "resnet", 4096),
        ("v5.1", "retinanet", 256),
        ("v5.1", "3d-unet-99.9", 64),
        ("v5.1", "stable-diffusion-xl", 128),
        ("v0.7", "ssd-large", 256),
        ("v6.1", "yolo-95", 64),
    ] {
        assert_eq!(target(round, benchmark), format!("accuracy_log_sampling_target={samples}"));
    }
    let counts = settings(AuditTest::Test04, "v5.1", Some("stable-diffusion-xl")).remove(0);
    assert!(counts.contains(&"min_query_count=500".to_string()), "{counts:?}");
    let counts = settings(AuditTest::Test04, "v5.1", Some("resnet")).remove(0);
    assert!(counts.iter().all(|row| !row.starts_with("min_query_count")), "{counts:?}");
}

#[test]
fn an_audit_that_a_round_does_not_have_is_refused_with_the_rounds_that_do() {
    let of = |test, name| plan(test, round(name), None, Scenario::Offline).unwrap_err().to_string();
    assert_eq!(of(AuditTest::Test04, "v0.5"), "round v0.5 has no TEST04; it began with v2.1");
    assert_eq!(of(AuditTest::Test03, "v0.7"), "round v0.7 has no TEST03; only v0.5 has it");
    assert_eq!(of(AuditTest::Test05, "v5.1"), "round v5.1 has no TEST05; v0.5 to v4.1 have it");
    let needs = plan(AuditTest::Test01, round("v5.1"), None, Scenario::Server).unwrap().needs;
    assert_eq!(needs, RequiredRuns { accuracy: true, performance: true });
}

#[test]
fn either_half_of_the_pair_names_it() {
    assert_eq!(AuditTest::named("test04-b"), Some(AuditTest::Test04Pair));
    assert_eq!(AuditTest::named("TEST04-A"), Some(AuditTest::Test04Pair));
    assert_eq!(AuditTest::named("TEST02"), None);
    assert_eq!(AuditTest::nearest("TSET05"), Some("TEST05"));
}
