//! `dyno audit` and `dyno check` agree on two runs.

use std::collections::BTreeSet;

use dyno_loadgen::settings::Scenario;
use dyno_rules::Round;
use dyno_submission::audit::{AuditPlan, AuditTest, Element, Evidence, RunFolder, plan, verify};
use dyno_submission::check::{Options, Program, check};
use dyno_submission::finding::Severity;
use dyno_submission::layout::Layout;

use super::made::submission;
use crate::audits::logs::Performance;
use crate::made::folder::Folder;

const AUDITS: [(&str, AuditTest); 6] = [
    ("v5.1", AuditTest::Test01),
    ("v5.1", AuditTest::Test04),
    ("v4.1", AuditTest::Test05),
    ("v0.7", AuditTest::Test04Pair),
    ("v0.7", AuditTest::Test05),
    ("v0.7", AuditTest::Test01),
];

/// Findings that represent the verdict of an audit.
const VERDICTS: [&str; 5] = [
    "audit.ratio",
    "audit.settings",
    "audit.performance",
    "performance.result",
    "performance.errors",
];

/// A result of ResNet-50 with one audit, in a tree.
struct AuditedResult {
    tree: Folder,
    round: &'static Round,
    plan: AuditPlan,
    result: String,
    audit: String,
}

impl AuditedResult {
    fn new(round: &str, test: AuditTest, scenario: Scenario) -> Self {
        let round = Round::named(round).unwrap();
        let tree = submission(round);
        let plan = plan(test, round, Some("resnet"), scenario).unwrap();
        let below = format!("box/resnet50/{scenario}");
        let compliance = Layout::for_round(round.version).compliance();
        let result = format!("closed/acme/results/{below}");
        let audit = format!("closed/acme/{compliance}/{below}");
        Self { tree, round, plan, result, audit }
    }

    fn run(&self, folder: &str) -> RunFolder {
        let folder = format!("{folder}/performance/run_1");
        self.tree.write(&format!("{folder}/mlperf_log_summary.txt"), "");
        RunFolder::new(self.tree.path().join(folder))
    }

    /// Returns whether `dyno audit` and `dyno check` pass it, with the findings of the latter.
    fn judged(&self, before: &Performance, now: &Performance) -> (bool, bool, BTreeSet<String>) {
        let name = self.plan.test.name();
        let audited = match self.plan.test {
            AuditTest::Test04Pair => format!("{}/TEST04-B", self.audit),
            _ => format!("{}/{name}", self.audit),
        };
        let is_pair = self.plan.test == AuditTest::Test04Pair;
        let first = if is_pair { format!("{}/TEST04-A", self.audit) } else { self.result.clone() };
        let [reference, audit] = [&first, &audited].map(|folder| self.run(folder));
        before.write(&reference);
        now.write(&audit);
        self.tree.write(&format!("{audited}/verify_performance.txt"), "TEST PASS\n");
        let runs = if is_pair { vec![reference.clone(), audit] } else { vec![audit] };
        let mut evidence = Evidence::new(runs, Element::I8);
        evidence.performance = (!is_pair).then_some(reference);
        let result = verify(&self.plan, &evidence);
        let score = result.parts.iter().find(|part| part.name == "score").unwrap();
        // Up to v2.0, an audit that does not pass is a warning.
        let options = Options { forensic: true, ..Options::new(Program::Strict) };
        let checked = check(self.tree.path(), self.round, &options).unwrap();
        let of_audit = |path: &std::path::Path| {
            path.starts_with(&audited) || (!is_pair && path.starts_with(&first))
        };
        let found = checked.findings.iter().filter(|finding| {
            finding.severity == Severity::Error
                && VERDICTS.contains(&finding.check)
                && of_audit(&finding.path)
        });
        let found: BTreeSet<String> =
            found.map(|finding| format!("{}: {}", finding.check, finding.message)).collect();
        (score.corrected.is_passed(), found.is_empty(), found)
    }
}

/// Returns a run with the settings of the audit, and a reference run.
fn pair(plan: &AuditPlan, scores: [f64; 2]) -> [Performance; 2] {
    let [before, now] = scores.map(|score| Performance::new(plan.scenario, score));
    let before = match plan.test {
        AuditTest::Test04Pair => before.planned(plan, 0),
        _ => before,
    };
    [before, now.planned(plan, plan.runs.len() - 1)]
}

fn without(run: &Performance, key: &str) -> Performance {
    let mut run = run.clone();
    run.settings.retain(|(known, _)| known != key);
    run
}

fn with(run: &Performance, key: &str, value: &str) -> Performance {
    let mut run = without(run, key);
    run.settings.push((key.into(), value.into()));
    run
}

#[test]
fn the_check_of_a_tree_and_the_audit_judge_scores_alike() {
    let mut verdicts = [0; 2];
    for (round, test) in AUDITS {
        for scenario in [Scenario::SingleStream, Scenario::MultiStream, Scenario::Offline] {
            // The tree needs no TEST04 of MultiStream in these rounds.
            if (test, scenario) == (AuditTest::Test04Pair, Scenario::MultiStream) {
                continue;
            }
            let made = AuditedResult::new(round, test, scenario);
            // Short and long latencies, and both sides of every bound.
            for base in [150e3, 5e6] {
                for ratio in [0.5, 0.81, 0.89, 0.94, 0.96, 1.0, 1.04, 1.06, 1.09, 1.12, 1.21, 3.0] {
                    let [before, now] = pair(&made.plan, [base, base * ratio]);
                    let (audit, tree, found) = made.judged(&before, &now);
                    let of = format!("{round} {test} {scenario} {base} * {ratio}");
                    assert_eq!(audit, tree, "{of}: {found:?}");
                    verdicts[usize::from(audit)] += 1;
                }
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 50), "{verdicts:?}");
}

#[test]
fn the_check_of_a_tree_and_the_audit_ask_for_the_same_settings() {
    for (round, test) in AUDITS {
        let is_pair = test == AuditTest::Test04Pair;
        let scenario = if is_pair { Scenario::SingleStream } else { Scenario::MultiStream };
        let made = AuditedResult::new(round, test, scenario);
        let [before, now] = pair(&made.plan, [1e6, 1e6]);
        let streams = |run: &Performance, count| with(run, "dyno_result_samples_per_query", count);
        let same = "effective_performance_issue_same";
        let target = "effective_accuracy_log_sampling_target";
        let percentile = "effective_target_latency_percentile";
        for (case, before, now) in [
            ("as asked", before.clone(), now.clone()),
            ("INVALID", before.clone(), Performance { validity: "INVALID", ..now.clone() }),
            ("errors", before.clone(), Performance { errors: 1, ..now.clone() }),
            ("other seeds", before.clone(), Performance { seeds: 8, ..now.clone() }),
            ("another bound", before.clone(), Performance { target_latency: 5, ..now.clone() }),
            ("Offline", before.clone(), Performance { scenario: Scenario::Offline, ..now.clone() }),
            ("no score", before.clone(), Performance { score: 0.0, ..now.clone() }),
            ("no reference", Performance { score: 0.0, ..before.clone() }, now.clone()),
            ("not one sample", before.clone(), without(&now, same)),
            ("few answers", before.clone(), with(&now, target, "5")),
            ("many answers", before.clone(), with(&now, target, "100000")),
            ("a percentile", with(&before, percentile, "0.9"), with(&now, percentile, "0.99")),
            ("a number", with(&before, percentile, "0.90"), with(&now, percentile, "0.9")),
            ("as many streams", streams(&before, "5"), streams(&now, "5")),
            ("more streams", streams(&before, "5"), streams(&now, "50")),
            ("streams and none", streams(&before, "5"), now.clone()),
        ] {
            let (audit, tree, found) = made.judged(&before, &now);
            assert_eq!(audit, tree, "{round} {test}, {case}: {found:?}");
        }
    }
}
