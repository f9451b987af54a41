//! Whether the score of an audited run is that of the submission, by the rules and by
//! the official scripts.

use dyno_loadgen::log::read::{Detail, Summary, read_summary};
use dyno_loadgen::settings::Scenario;

use super::evidence::Played;
use super::plan::{Deviation, Plan, PlannedRun};
use super::ratio::{self, Facts, Kind, Score, away, differs, summary_score, tolerance};
use super::reason::{Reason, Side};
use super::text;
use super::{Figure, Part, Test, TextFile, Verdict};
use dyno_rules::Version;

/// The logs of a performance run.
struct Logs {
    detail: Detail,
    summary: Option<String>,
}

impl Logs {
    fn read(run: &Played) -> Result<Self, Reason> {
        Ok(Self { detail: run.detail()?, summary: run.summary().ok() })
    }

    fn facts(&self) -> Facts<'_> {
        let facts = Facts::of(&self.detail);
        match self.summary() {
            Some(summary) => facts.or_summary(&summary),
            None => facts,
        }
    }

    fn official(&self) -> Official {
        self.summary().as_ref().map(Official::of).unwrap_or_default()
    }

    fn summary(&self) -> Option<Summary<'_>> {
        self.summary.as_deref().map(|text| read_summary(text).0)
    }
}

/// What the official scripts see of a summary.
#[derive(Default)]
struct Official {
    scenario: String,
    score: Option<Score>,
    is_invalid: bool,
}

impl Official {
    fn of(summary: &Summary<'_>) -> Self {
        Self {
            scenario: summary.value("Scenario").unwrap_or_default().replace(' ', ""),
            score: summary_score(summary),
            is_invalid: summary.value("Result is") == Some("INVALID"),
        }
    }
}

/// Compares the score of `audited` with that of `reference`.
pub(super) fn compare(
    plan: &Plan,
    run: &PlannedRun,
    reference: &Played,
    audited: &Played,
) -> (Part, Vec<String>) {
    let (of_reference, of_audited) = match (Logs::read(reference), Logs::read(audited)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(reason), _) | (_, Err(reason)) => {
            return (Part::failed("score", text::PERFORMANCE, &reason), Vec::new());
        }
    };
    let (a, b) = (of_reference.facts(), of_audited.facts());
    let officials = [of_reference.official(), of_audited.official()];
    let (official, printed) = officially(plan, [&a, &b], &officials);
    let reasons = ratio::compare(plan, run, &a, &b);
    let mut figures = Vec::new();
    for (name, facts) in [("reference score", &a), ("audited score", &b)] {
        let figure = |score: Score| Figure { name, value: score.value, unit: score.kind.unit() };
        figures.extend(facts.score.map(figure));
    }
    for (name, facts) in [("reference mean latency", &a), ("audited mean latency", &b)] {
        figures.extend(facts.mean_latency.map(|value| Figure { name, value, unit: "ns" }));
    }
    let notes = load_note(plan, &a, &b).into_iter().collect();
    let is_passed = reasons.is_empty() && official.is_passed();
    let names = match plan.test {
        Test::Test01 => ["Reference score", "Test score"],
        Test::Test04Pair => ["TEST04-A score", "TEST04-B score"],
        _ => ["reference score", "test score"],
    };
    let text = text::scores(names, printed, is_passed);
    let file = Some(TextFile { path: text::PERFORMANCE, text });
    (Part { name: "score", corrected: Verdict::of(reasons), official, figures, file }, notes)
}

/// What the audit asks for and the audited run has not, where no scores are compared.
pub(super) fn settings_of(run: &PlannedRun, audited: &Played) -> Result<Vec<Reason>, Reason> {
    Ok(ratio::alone(run, &audited.detail()?))
}

/// Where the load is given, it is the score, however fast its queries are answered.
fn load_note(plan: &Plan, a: &Facts<'_>, b: &Facts<'_>) -> Option<String> {
    let score = match (a.scenario?, a.score?.kind) {
        (Scenario::Server, _) => "In Server the score is the rate of arrivals",
        (_, Kind::Streams) if a.score == b.score => {
            "At a fixed interval the score is the number of streams"
        }
        _ => return None,
    };
    let (before, now) = (a.mean_latency?, b.mean_latency?);
    let is_told = plan.deviation == Deviation::Faster && now < before * (1.0 - plan.tolerance);
    is_told.then(|| {
        format!(
            "{score}, which both runs were given, so this audit cannot fail by speed; yet the mean \
             latency fell from {:.3} ms to {:.3} ms. Audit SingleStream or Offline as well.",
            before / 1e6,
            now / 1e6
        )
    })
}

/// What the script of the round says, and the two scores that it prints.
fn officially(
    plan: &Plan,
    [a, b]: [&Facts<'_>; 2],
    summaries: &[Official; 2],
) -> (Verdict, [f64; 2]) {
    let of_detail = plan.test == Test::Test01 && plan.round >= Version::new(4, 0);
    let scores = match of_detail {
        true => [a.score, b.score],
        false => [summaries[0].score, summaries[1].score],
    };
    let kind = scores[0].map_or(Kind::Rate, |score| score.kind);
    // A score that no line matches is 0.
    let scores = scores.map(|score| score.map_or(0.0, |score| score.value));
    let is_speed = plan.test == Test::Test04 && kind == Kind::Latency;
    let speed = |score: f64| if score > 0.0 { 1e9 / score } else { 0.0 };
    let scores = if is_speed { scores.map(speed) } else { scores };
    let mut reasons = Vec::new();
    for (side, facts, summary) in
        [(Side::Reference, a, &summaries[0]), (Side::Audit, b, &summaries[1])]
    {
        let is_refused = match plan.test {
            Test::Test01 if of_detail => !facts.is_valid(),
            // Its script does not look.
            Test::Test04Pair => false,
            _ => summary.is_invalid,
        };
        if is_refused {
            reasons.push(Reason::NotValid { side });
        }
    }
    if summaries[0].scenario != summaries[1].scenario {
        let [reference, audit] = [0, 1].map(|at: usize| summaries[at].scenario.clone());
        reasons.push(Reason::Scenarios { reference, audit });
    }
    if of_detail && a.scenario == Some(Scenario::Server) {
        // The scripts on summaries mean to compare it, with a pattern that never matches.
        let key = "effective_target_latency_ns";
        let expected = a.log.said(key).map(Into::into);
        reasons.extend(differs(Side::Audit, key, b.log, expected));
    }
    let [before, now] = scores;
    // Of TEST04 a speed is compared with a bound in ns, which nearly all are below.
    let tolerance = match a.scenario {
        Some(scenario) => tolerance(plan, scenario, Score { kind, value: before }),
        None => plan.tolerance,
    };
    if before == 0.0 || now == 0.0 {
        let side = if before == 0.0 { Side::Reference } else { Side::Audit };
        reasons.push(Reason::NoScore { side });
    } else {
        let kind = if is_speed { Kind::Rate } else { kind };
        reasons.extend(away(plan, kind, scores, tolerance));
    }
    (Verdict::of(reasons), scores)
}
