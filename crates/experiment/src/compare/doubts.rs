//! Reasons that make metrics inconclusive regardless of their intervals.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare::{self, Comparison, Metric, Series};
use dyno_results::summary::RequirementFinding;
use dyno_results::units;

use super::compared_run::ComparedTest;
use super::tokens::{TokenRow, depends_on_length};

use crate::outcome::allowed;
use crate::requirement;

/// Reasons that make metrics inconclusive regardless of their intervals.
pub struct Doubts {
    /// Sides that are INVALID, with a reason.
    invalid: Vec<(&'static str, String)>,
    /// Whether a side is INVALID whatever follows; otherwise further slices may change its share of
    /// failures.
    is_final: bool,
    /// Definitions of the two sides, where they differ.
    definitions: Option<[String; 2]>,
    /// Mean output tokens per answer of the two sides, where they differ.
    lengths: Option<[f64; 2]>,
    is_forced: bool,
}

impl Doubts {
    /// Returns the doubts about two sides. `tokens` are their output tokens, unless a different
    /// length of the answers is accepted.
    pub fn new(
        baseline: &[ComparedTest],
        candidate: &[ComparedTest],
        tokens: Option<&TokenRow>,
        is_forced: bool,
    ) -> Self {
        let sides = [("baseline", baseline), ("candidate", candidate)];
        let (mut invalid, mut is_final) = (Vec::new(), false);
        for (side, tests) in sides {
            let reason = reason_of_tests(tests);
            is_final |= reason.is_some();
            let reason = reason.or_else(|| failures_of_slices(tests));
            let reason = reason.or_else(|| missed_in_slices(tests));
            invalid.extend(reason.map(|reason| (side, reason)));
        }
        // Definitions differ only in tokens.
        let mut definitions = baseline
            .iter()
            .chain(candidate)
            .filter(|test| test.has_tokens() && !test.definitions.is_empty())
            .map(|test| test.definitions.clone());
        let definitions = definitions.next().and_then(|first| {
            let other = definitions.find(|other| *other != first)?;
            Some([first, other])
        });
        Self {
            invalid,
            is_final,
            definitions,
            lengths: tokens.filter(|tokens| tokens.is_different).map(|tokens| tokens.values),
            is_forced,
        }
    }

    /// Returns whether a side is INVALID, and its figures are not used anyway.
    pub fn has_invalid_side(&self) -> bool {
        !self.invalid.is_empty() && !self.is_forced
    }

    /// Returns whether further slices could remove all doubts.
    pub fn may_end(&self) -> bool {
        let is_by_slices = !self.invalid.is_empty() && !self.is_final;
        is_by_slices && self.definitions.is_none() && self.lengths.is_none()
    }

    /// Marks metrics as inconclusive. Returns the reasons.
    pub fn apply(&self, comparison: &mut Comparison, headline: Metric) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some([a, b]) = &self.definitions {
            comparison.doubt(headline, is_by_definition, true);
            notes.push(format!(
                "the runs define times of tokens differently ({a} and {b}), so these are inconclusive"
            ));
        }
        if let Some([a, b]) = self.lengths {
            let differ = format!("the answers have {a:.1} and {b:.1} output tokens");
            notes.push(if self.is_forced {
                format!("{differ}; --force compares latency and throughput anyway")
            } else {
                comparison.doubt(headline, depends_on_length, false);
                format!(
                    "{differ}, so latency and throughput of answers cannot be better or equivalent; \
                     request equal lengths (force-output=true), compare TTFT and TPOT \
                     (--metric ttft-p99,tpot-p99), or use --force"
                )
            });
        }
        if self.invalid.is_empty() {
            return notes;
        }
        let sides: Vec<&str> = self.invalid.iter().map(|(side, _)| *side).collect();
        let are = if sides.len() > 1 { "are" } else { "is" };
        let sides = sides.join(" and the ");
        notes.push(if self.is_forced {
            format!("the {sides} {are} INVALID; --force uses the figures anyway")
        } else {
            comparison.doubt(headline, |_| true, false);
            format!(
                "the {sides} {are} INVALID, so no side can be better or equivalent; --force uses \
                 the figures anyway"
            )
        });
        notes.extend(self.invalid.iter().map(|(side, reason)| format!("{side}: {reason}")));
        notes
    }
}

/// Returns why a side is INVALID, except by the failures and requirements of its slices; `None` if it is
/// not.
fn reason_of_tests(tests: &[ComparedTest]) -> Option<String> {
    let whole = tests.iter().filter(|test| !test.is_sliced);
    let whole = whole.flat_map(|test| test.failures.iter().chain(&test.missed));
    let mut reasons = tests.iter().flat_map(|test| &test.invalid).chain(whole);
    reasons.next().cloned()
}

/// Returns why the failures of all slices of a side make it INVALID. Slices are parts of one
/// measurement, and one is so short that a single failure may exceed its limit.
fn failures_of_slices(tests: &[ComparedTest]) -> Option<String> {
    let mut sliced = tests.iter().filter(|test| test.is_sliced);
    if !sliced.any(|test| test.failures.is_some()) {
        return None;
    }
    let runs = || tests.iter().flat_map(|test| &test.observations);
    let requests: usize = runs().map(|run| run.failed.len()).sum();
    let failed = runs().flat_map(|run| &run.failed).filter(|&&failed| failed).count();
    let conditions = &tests[0].conditions;
    let plan = &conditions.plan;
    let bounds = [
        (plan.latency_bound_ns, Series::Latency),
        (plan.first_token_bound_ns, Series::FirstToken),
        (plan.time_per_output_token_bound_ns, Series::TimePerOutputToken),
    ];
    let over = |(bound, series): (Option<Nanos>, Series)| {
        bound.map(|bound| runs().flat_map(|run| times(run, series)).filter(|&&t| t > bound).count())
    };
    let over = bounds.into_iter().filter_map(over).max().unwrap_or(0);
    let is_incomplete = failed > 0 && tests.iter().any(|test| test.allows_no_failure);
    let allowed = match &conditions.scenario[..] {
        "Server" if !is_incomplete => allowed(requests as u64, plan.percentile),
        // Every sample counts.
        _ => 0,
    };
    ((failed + over) as u64 > allowed).then(|| {
        let [failed, over, requests] = [failed, over, requests].map(|n| units::count(n as u64));
        let also = if over == "0" { String::new() } else { format!(", {over} are over the bound") };
        format!(
            "{failed} of {requests} requests in all slices failed{also}, and {} may",
            units::count(allowed)
        )
    })
}

/// Returns which requirement makes a side in slices INVALID: one that is missed over all of them. A single
/// slice misses one by chance more often than the whole run.
fn missed_in_slices(tests: &[ComparedTest]) -> Option<String> {
    let first = tests.iter().find(|test| test.is_sliced && !test.requirements.is_empty())?;
    let slices: Vec<compare::Run> =
        tests.iter().flat_map(|test| test.observations.iter().cloned()).collect();
    first.requirements.iter().find_map(|required| {
        let found = requirement::over_slices(required, &slices)?;
        let is_missed = found.finding == RequirementFinding::Missed;
        is_missed.then(|| {
            let measured = found.measured_text();
            format!("the requirement {} is missed over all slices: {measured}", found.requirement)
        })
    })
}

fn times(run: &compare::Run, series: Series) -> &[Nanos] {
    match series {
        Series::Latency => &run.latency,
        Series::FirstToken => &run.first_token,
        Series::TimePerOutputToken => &run.time_per_output_token,
    }
}

/// Returns whether a metric depends on the definition of tokens and of the last output.
fn is_by_definition(metric: Metric) -> bool {
    match metric {
        Metric::Percentile(series, _) | Metric::Mean(series) => series != Series::FirstToken,
        Metric::Throughput | Metric::Failures => false,
    }
}

#[cfg(test)]
mod tests {
    use dyno_results::summary::Requirement;

    use super::*;

    /// A run in slices of 50 requests with these numbers of failures. Its first slice misses a requirement.
    fn sliced(failures: [usize; 8]) -> ComparedTest {
        let slice = |failures: usize| compare::Run {
            failed: (0..50).map(|at| at * 7 % 50 < failures).collect(),
            ..compare::Run::default()
        };
        let required = Requirement {
            requirement: "errors <= 3 %".into(),
            metric: "errors".into(),
            bound: 0.03,
            unit: "share".into(),
            confidence: 0.95,
            ..Requirement::default()
        };
        ComparedTest {
            missed: vec!["The requirement errors <= 3 % is missed: 12 %.".into()],
            requirements: vec![required],
            is_sliced: true,
            observations: failures.map(slice).to_vec(),
            ..ComparedTest::empty()
        }
    }

    #[test]
    fn force_uses_the_figures_of_an_invalid_side() {
        let invalid = ComparedTest { invalid: vec!["late".into()], ..ComparedTest::empty() };
        let doubts = |baseline: ComparedTest, is_forced: bool| {
            Doubts::new(&[baseline], &[ComparedTest::empty()], None, is_forced)
        };
        assert!(doubts(invalid.clone(), false).has_invalid_side());
        assert!(!doubts(invalid, true).has_invalid_side());
        assert!(!doubts(ComparedTest::empty(), false).has_invalid_side());
    }

    #[test]
    fn a_requirement_is_judged_over_all_slices() {
        // 11 of 400 are less than 3 %.
        let few = [sliced([6, 0, 1, 0, 1, 2, 0, 1])];
        assert_eq!((reason_of_tests(&few), missed_in_slices(&few)), (None, None));
        // 48 of 400 are 12 %.
        let reason = missed_in_slices(&[sliced([6; 8])]).unwrap();
        let expected = "the requirement errors <= 3 % is missed over all slices: 12.000 % (";
        assert!(reason.starts_with(expected), "{reason}");
        let whole = [ComparedTest { is_sliced: false, ..sliced([6; 8]) }];
        assert!(reason_of_tests(&whole).unwrap().contains("is missed: 12 %"));
        assert_eq!(missed_in_slices(&whole), None);
    }
}
