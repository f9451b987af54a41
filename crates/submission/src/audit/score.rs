//! Compares the score of an audited run with the submission's, by the rules and by the official
//! scripts.

use dyno_loadgen::log::read::{Detail, Summary, read_summary};
use dyno_loadgen::settings::Scenario;

use super::evidence::RunFolder;
use super::plan::{AuditPlan, Deviation, PlannedRun};
use super::ratio::{
    self, RunFacts, Score, ScoreKind, differs, score_deviation, summary_score, tolerance,
};
use super::reason::{Reason, Side};
use super::text;
use super::{AuditTest, Figure, Part, Verdict, VerdictFile};
use dyno_rules::Version;

/// Logs of a performance run.
struct Logs {
    detail: Detail,
    summary: Option<String>,
}

impl Logs {
    fn read(run: &RunFolder) -> Result<Self, Reason> {
        Ok(Self { detail: run.detail()?, summary: run.summary().ok() })
    }

    fn facts(&self) -> RunFacts<'_> {
        let facts = RunFacts::from_log(&self.detail);
        match self.summary() {
            Some(summary) => facts.or_summary(&summary),
            None => facts,
        }
    }

    fn official(&self) -> SummaryReading {
        self.summary().as_ref().map(SummaryReading::from_summary).unwrap_or_default()
    }

    fn summary(&self) -> Option<Summary<'_>> {
        self.summary.as_deref().map(|text| read_summary(text).0)
    }
}

/// Values that the official scripts read from a summary.
#[derive(Default)]
struct SummaryReading {
    scenario: String,
    score: Option<Score>,
    is_invalid: bool,
}

impl SummaryReading {
    fn from_summary(summary: &Summary<'_>) -> Self {
        Self {
            scenario: summary.value("Scenario").unwrap_or_default().replace(' ', ""),
            score: summary_score(summary),
            is_invalid: summary.value("Result is") == Some("INVALID"),
        }
    }
}

/// Compares the score of `audited` with that of `reference`. Returns the part and the notes.
pub(super) fn compare(
    plan: &AuditPlan,
    run: &PlannedRun,
    reference: &RunFolder,
    audited: &RunFolder,
) -> (Part, Vec<String>) {
    let (reference_logs, audited_logs) = match (Logs::read(reference), Logs::read(audited)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(reason), _) | (_, Err(reason)) => {
            return (Part::failed("score", text::PERFORMANCE, &reason), Vec::new());
        }
    };
    let (a, b) = (reference_logs.facts(), audited_logs.facts());
    let officials = [reference_logs.official(), audited_logs.official()];
    let (official, printed) = official_verdict(plan, [&a, &b], &officials);
    let reasons = ratio::compare(plan, run, &a, &b);
    let mut figures = Vec::new();
    for (name, facts) in [("reference score", &a), ("audited score", &b)] {
        let figure = |score: Score| Figure { name, value: score.value, unit: score.kind.unit() };
        figures.extend(facts.score.map(figure));
    }
    for (name, facts) in [("reference mean latency", &a), ("audited mean latency", &b)] {
        figures.extend(facts.mean_latency.map(|value| Figure { name, value, unit: "ns" }));
    }
    let repeated = repeat_note(plan, &a).filter(|_| reasons.is_empty());
    let notes = load_note(plan, &a, &b).into_iter().chain(repeated).collect();
    let is_passed = reasons.is_empty() && official.is_passed();
    let names = match plan.test {
        AuditTest::Test01 => ["Reference score", "Test score"],
        AuditTest::Test04Pair => ["TEST04-A score", "TEST04-B score"],
        _ => ["reference score", "test score"],
    };
    let text = text::scores(names, printed, is_passed);
    let file = Some(VerdictFile { path: text::PERFORMANCE, text });
    (
        Part { name: "score", corrected: Verdict::from_reasons(reasons), official, figures, file },
        notes,
    )
}

/// Returns the settings of the audit that the audited run does not have, for audits that compare
/// no scores.
pub(super) fn settings_of(run: &PlannedRun, audited: &RunFolder) -> Result<Vec<Reason>, Reason> {
    Ok(ratio::check_audit_run(run, &audited.detail()?))
}

/// Returns a note if the load determines the score regardless of latency, but the latency fell.
fn load_note(plan: &AuditPlan, a: &RunFacts<'_>, b: &RunFacts<'_>) -> Option<String> {
    let score = match (a.scenario?, a.score?.kind) {
        (Scenario::Server, _) => "In Server the score is the arrival rate",
        // The pair of TEST04 is compared by its latency.
        (_, ScoreKind::Streams) if plan.test != AuditTest::Test04Pair && a.score == b.score => {
            "At a fixed interval the score is the number of streams"
        }
        _ => return None,
    };
    let (before, now) = (a.mean_latency?, b.mean_latency?);
    let is_reported = plan.deviation == Deviation::Faster && now < before * (1.0 - plan.tolerance);
    is_reported.then(|| {
        format!(
            "{score}, which both runs have in common, so this audit cannot fail because of speed; \
             but the mean latency fell from {:.3} ms to {:.3} ms. Audit SingleStream or Offline \
             as well.",
            before / 1e6,
            now / 1e6
        )
    })
}

/// Returns a note if the reference run repeated its samples so often that a cache of all of them determined its
/// score, too. TEST04 cannot detect that cache.
fn repeat_note(plan: &AuditPlan, reference: &RunFacts<'_>) -> Option<String> {
    // The first queries of each sample are not the ones that the percentile names, or a small part of the time.
    let fewest_new = match reference.scenario? {
        Scenario::SingleStream | Scenario::Offline => 0.1,
        Scenario::MultiStream => 0.01,
        Scenario::Server => return None,
    };
    let [issued, loaded] = reference.issued_and_loaded()?;
    let is_blind = plan.test == AuditTest::Test04 && loaded < fewest_new * issued;
    is_blind.then(|| {
        format!(
            "The reference run issued {issued} samples of a set of {loaded}. A cache that holds the set \
             makes both runs fast, so this audit does not detect it. Use more samples, or a shorter run."
        )
    })
}

/// Returns the verdict of the round's script, and the two scores that it prints.
fn official_verdict(
    plan: &AuditPlan,
    [a, b]: [&RunFacts<'_>; 2],
    summaries: &[SummaryReading; 2],
) -> (Verdict, [f64; 2]) {
    let reads_detail = plan.test == AuditTest::Test01 && plan.round >= Version::new(4, 0);
    let scores =
        if reads_detail { [a.score, b.score] } else { [summaries[0].score, summaries[1].score] };
    let kind = scores[0].map_or(ScoreKind::Rate, |score| score.kind);
    // The script uses 0 if no line matches.
    let scores = scores.map(|score| score.map_or(0.0, |score| score.value));
    let is_speed = plan.test == AuditTest::Test04 && kind == ScoreKind::Latency;
    let speed = |score: f64| if score > 0.0 { 1e9 / score } else { 0.0 };
    let scores = if is_speed { scores.map(speed) } else { scores };
    let mut reasons = Vec::new();
    for (side, facts, summary) in
        [(Side::Reference, a, &summaries[0]), (Side::Audit, b, &summaries[1])]
    {
        let is_refused = match plan.test {
            AuditTest::Test01 if reads_detail => !facts.is_valid(),
            // The script of the pair does not check validity.
            AuditTest::Test04Pair => false,
            _ => summary.is_invalid,
        };
        if is_refused {
            reasons.push(Reason::NotValid { side });
        }
    }
    if summaries[0].scenario != summaries[1].scenario {
        let [reference, audit] = [0, 1].map(|index: usize| summaries[index].scenario.clone());
        reasons.push(Reason::Scenarios { reference, audit });
    }
    if reads_detail && a.scenario == Some(Scenario::Server) {
        // The scripts that read summaries intend to compare this, but their pattern never
        // matches.
        let key = "effective_target_latency_ns";
        let expected = a.log.value_text(key).map(Into::into);
        reasons.extend(differs(Side::Audit, key, b.log, expected));
    }
    let [before, now] = scores;
    // In TEST04 the script compares a speed with a bound in ns, so nearly all values are below
    // it.
    let tolerance = match a.scenario {
        Some(scenario) => tolerance(plan, scenario, Score { kind, value: before }),
        None => plan.tolerance,
    };
    if before == 0.0 || now == 0.0 {
        let side = if before == 0.0 { Side::Reference } else { Side::Audit };
        reasons.push(Reason::NoScore { side });
    } else {
        let kind = if is_speed { ScoreKind::Rate } else { kind };
        reasons.extend(score_deviation(plan, kind, scores, tolerance));
    }
    (Verdict::from_reasons(reasons), scores)
}
