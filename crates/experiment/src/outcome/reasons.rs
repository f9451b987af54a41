//! Reasons why a performance run is not VALID, in reading order: the end of the run, failures, the
//! client, the bounds, the length, and the certainty of the percentile.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::early_stopping::Estimate;
use dyno_loadgen::log::Report;
use dyno_loadgen::plan::{Load, Plan, Tokens};
use dyno_loadgen::record::Record;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::Arrivals;
use dyno_loadgen::verdict::{BoundedTime, EarlyStoppingResult, Finding, Verdict, Violation};
use dyno_results::summary::distributions::Percentiles;
use dyno_results::summary::{self, Cause, NO_BOUND, Reason, ReasonKind};
use dyno_results::units::{self, count, counted, counted_with_verb, duration, percentile};

use super::failures::{Failures, Troubles};
use crate::options::{FailureRule, Stages};
use crate::requirement::JudgedRun;

/// Facts besides the report that the reasons of a run depend on.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Failures that the client of a server counted during the test.
    pub troubles: &'a Troubles,
    /// Message of a system in this process for its first failed sample.
    pub failure: Option<&'a str>,
    /// Whether a round requires a number of queries, so that fewer are INVALID and not undecided.
    pub has_round: bool,
    /// Percentiles of the metrics of text servers.
    pub percentiles: &'a Percentiles,
    /// Stages of the load, if it has any.
    pub stages: Option<&'a Stages>,
}

/// Returns the reasons of a run; empty if it is VALID.
pub fn list(report: &Report<'_>, context: Context<'_>) -> Vec<Reason> {
    let Verdict::Invalid(violations) = &report.judgement.verdict else { return Vec::new() };
    let (run, metrics) = (report.run, &report.metrics);
    if run.ended == EndReason::Aborted && metrics.query_count == 0 {
        // The run ended before its first query, so that there is no other reason.
        return vec![Reason::new(ReasonKind::Ended, stopped(0))];
    }
    let failures = Failures::from_samples(&run.record.failed, context.troubles);
    let failures = failures.with_reason(context.failure);
    let judged = InvalidRun { report, violations, failures, has_round: context.has_round };
    let mut reasons: Vec<Reason> = judged.end().into_iter().chain(judged.failed()).collect();
    // Consequences of an early end are not separate reasons.
    let is_cut = matches!(run.ended, EndReason::Aborted | EndReason::Lost { .. });
    let follows = |violation: &Violation| {
        matches!(
            violation,
            Violation::Duration { .. } | Violation::Count { .. } | Violation::EarlyStopping { .. }
        )
    };
    let own = violations.iter().filter(|violation| !is_cut || !follows(violation));
    reasons.extend(own.filter_map(|violation| judged.reason(violation)));
    reasons.sort_by_key(|reason| place(reason.kind));
    reasons
}

/// Applies the rule for failed requests to a performance test. (The load generator tolerates failures
/// up to the bound of the percentile.)
pub fn judge_failures(
    test: &mut summary::Test,
    run: &JudgedRun<'_>,
    troubles: &Troubles,
    rule: FailureRule,
) {
    let is_told =
        |test: &summary::Test| test.causes.iter().any(|reason| reason.kind == ReasonKind::Failures);
    let failed = &run.record.failed;
    match rule {
        FailureRule::Requirement if is_told(test) => test.remove_reasons(&[ReasonKind::Failures]),
        FailureRule::None if !failed.is_empty() && !is_told(test) => {
            let failures = Failures::from_samples(failed, troubles);
            let place = run.name.as_ref().map_or(String::new(), |name| format!("In {name}: "));
            let text = format!(
                "{place}{}. In this profile VALID means complete answers; --require 'errors<=1%' \
                 allows a share of failures (in a search: --limit). {}",
                failed_share(&failures, run.record),
                failures.advice()
            );
            let reason = Reason::new(ReasonKind::Failures, text).because_of(failures.cause());
            test.add_reason_after_failures(reason);
        }
        _ => return,
    }
    test.settle();
}

/// Returns how many of the samples that were answered or failed did fail, and why. Samples outstanding at
/// the end of the run, such as those of an interrupt, are neither.
fn failed_share(failures: &Failures, record: &Record) -> String {
    let settled = (record.completed_at.len() - record.missing()) as u64;
    let settled = settled.max(failures.samples);
    format!(
        "{} of {} samples failed ({}): {}",
        count(failures.samples),
        count(settled),
        share(failures.samples, settled),
        failures.by_kind()
    )
}

/// Returns a share in percent: whole from 10 % on, with one decimal from 0.1 % on, and with four below.
fn share(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    let digits = match percent {
        10.0.. => 0,
        0.1..10.0 => 1,
        _ => 4,
    };
    format!("{percent:.digits$} %")
}

/// Returns why a run that was stopped does not count, with its unfinished samples.
pub fn stopped(unfinished: u64) -> String {
    let unfinished = match unfinished {
        0 => String::new(),
        samples => format!(" with {} unfinished", counted(samples, "sample", "samples")),
    };
    format!("the run was stopped{unfinished} before its end; run it again to the end")
}

/// Returns the reason for a system that answered nothing within the deadline.
pub fn silent(plan: &Plan, missing: u64) -> Reason {
    let samples = match missing {
        1 => "1 sample was".to_string(),
        _ => format!("{} samples were", count(missing)),
    };
    let text = format!(
        "The system stopped answering: {samples} outstanding after {} without an answer. Check \
         the system, or raise --deadline.",
        span(plan.response_deadline)
    );
    Reason::new(ReasonKind::Ended, text).because_of(Cause::System)
}

/// Returns the rank of a reason in reading order.
fn place(kind: ReasonKind) -> u8 {
    match kind {
        ReasonKind::Ended => 0,
        ReasonKind::Failures => 1,
        ReasonKind::Missing => 2,
        ReasonKind::ClientLag => 3,
        ReasonKind::Bound | ReasonKind::Intervals => 4,
        ReasonKind::Duration | ReasonKind::QueryCount => 5,
        ReasonKind::EarlyStopping => 6,
        _ => 7,
    }
}

/// A run that is not VALID, whose reasons are listed.
struct InvalidRun<'a> {
    report: &'a Report<'a>,
    violations: &'a [Violation],
    failures: Failures,
    has_round: bool,
}

/// Counts of a bound of a Server run.
struct AgainstBound {
    /// Name of the bound, such as `p99 <= 50.0 ms`.
    name: String,
    answered: u64,
    /// Answered samples over the bound.
    over_answered: u64,
    /// Samples over the bound, including failed and missing ones.
    over: u64,
    samples: u64,
    /// Samples that may be over the bound.
    allowed: u64,
}

impl AgainstBound {
    /// Returns whether the answered samples alone meet the bound.
    fn is_met_by_answered(&self, percentile: f64) -> bool {
        self.answered > 0 && self.over_answered <= allowed(self.answered, percentile)
    }
}

/// Returns the number of samples that may exceed a bound, by the index of the reference.
pub fn allowed(samples: u64, percentile: f64) -> u64 {
    samples.saturating_sub((samples as f64 * percentile) as u64).saturating_sub(1)
}

/// Formats a time limit with its percentile, such as `p99 <= 50.0 ms` or `TTFT p99 <= 2.00 s`.
fn limit(bounded: BoundedTime, at: f64, bound: Nanos) -> String {
    let of = match bounded {
        BoundedTime::Latency => "",
        BoundedTime::FirstToken => "TTFT ",
        BoundedTime::TimePerOutputToken => "TPOT ",
    };
    format!("{of}{} <= {}", percentile(at), units::bound(bound))
}

fn span(ns: Nanos) -> String {
    duration(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// Returns the bounds of a Server run that are judged.
fn bounds(plan: &Plan) -> Vec<(BoundedTime, Nanos)> {
    let mut bounds = match (&plan.load, plan.tokens) {
        (Load::Server(_), Some(Tokens::Measured { ttft, tpot })) => {
            vec![(BoundedTime::FirstToken, ttft), (BoundedTime::TimePerOutputToken, tpot)]
        }
        (Load::Server(server), _) => vec![(BoundedTime::Latency, server.target_latency)],
        _ => Vec::new(),
    };
    bounds.retain(|(_, bound)| *bound < NO_BOUND);
    bounds
}

impl InvalidRun<'_> {
    fn plan(&self) -> &Plan {
        &self.report.run.plan
    }

    /// Returns the number of failed and missing samples.
    fn lost(&self) -> u64 {
        self.failures.samples + self.report.metrics.missing
    }

    fn answered(&self) -> u64 {
        self.report.metrics.sample_count
    }

    /// Returns the reason of an early end.
    fn end(&self) -> Option<Reason> {
        let text = match self.report.run.ended {
            EndReason::TooManyOutstanding { issued, outstanding } => {
                let most = self.plan().max_async_queries;
                let advice = if self.failures.are_overload() {
                    "; lower the load, or raise server_max_async_queries"
                } else {
                    ""
                };
                format!(
                    "the run ended early: {} queries were outstanding after {} were issued, but \
                     server_max_async_queries allows {}{advice}",
                    count(outstanding),
                    count(issued),
                    count(most)
                )
            }
            EndReason::Deadline { missing } => return Some(silent(self.plan(), missing)),
            EndReason::Aborted => stopped(self.report.metrics.missing),
            EndReason::Lost { worker, workers } => Violation::Lost { worker, workers }.to_string(),
            _ => return None,
        };
        Some(Reason::new(ReasonKind::Ended, text))
    }

    /// Returns the reason for failed samples, if they make the run INVALID.
    fn failed(&self) -> Option<Reason> {
        let counts = |violation: &Violation| {
            matches!(
                violation,
                Violation::Failed { .. } | Violation::Bound { .. } | Violation::Intervals { .. }
            )
        };
        if self.failures.samples == 0 || !self.violations.iter().any(counts) {
            return None;
        }
        let mut text = failed_share(&self.failures, &self.report.run.record);
        // If the answered samples meet a bound, only the failures miss it.
        for bound in self.against_bounds() {
            if bound.is_met_by_answered(self.plan().percentile()) {
                text += &format!(
                    ". {} holds for the {} answered samples ({} over it), but only {} of {} may \
                     fail or be over it",
                    bound.name,
                    count(bound.answered),
                    count(bound.over_answered),
                    count(bound.allowed),
                    count(bound.samples)
                );
            }
        }
        if self.violations.iter().any(|v| matches!(v, Violation::Failed { .. })) {
            text += ". This scenario allows no failure";
        }
        text += &format!(". {}", self.failures.advice());
        Some(Reason::new(ReasonKind::Failures, text).because_of(self.failures.cause()))
    }

    /// Returns the counts of each bound of a Server run.
    fn against_bounds(&self) -> Vec<AgainstBound> {
        let over = self.report.metrics.over;
        let (at, samples) = (self.plan().percentile(), self.answered() + self.lost());
        let of = |(bounded, bound)| {
            let over = match bounded {
                BoundedTime::Latency => over.latency,
                BoundedTime::FirstToken => over.first_token,
                BoundedTime::TimePerOutputToken => over.time_per_output_token,
            };
            AgainstBound {
                name: limit(bounded, at, bound),
                answered: self.answered(),
                over_answered: over.saturating_sub(self.lost()),
                over,
                samples,
                allowed: allowed(samples, at),
            }
        };
        bounds(self.plan()).into_iter().map(of).collect()
    }

    /// Returns the reason of a violation; `None` if another reason covers it.
    fn reason(&self, violation: &Violation) -> Option<Reason> {
        let text = || violation.to_string();
        Some(match violation {
            Violation::Bound { .. } => return self.bound(violation),
            Violation::Intervals { over, by_client, .. } => {
                let cause = if by_client * 2 > *over { Cause::Client } else { Cause::System };
                let text = text();
                // Failures need no advice on speed.
                let text = match self.lost() {
                    0 => text,
                    _ => text.split("; ").next().unwrap_or_default().to_owned(),
                };
                Reason::new(ReasonKind::Intervals, text).because_of(cause)
            }
            Violation::ClientLag { .. } => {
                Reason::new(ReasonKind::ClientLag, text()).because_of(Cause::Client)
            }
            Violation::Missing { .. } => {
                Reason::new(ReasonKind::Missing, text()).because_of(Cause::System)
            }
            Violation::Duration { .. } => {
                Reason::new(ReasonKind::Duration, self.too_short(&text()))
            }
            Violation::Count { .. } => self.too_few(violation),
            Violation::EarlyStopping { further } => return self.uncertain(*further),
            // They were added before.
            Violation::Failed { .. } | Violation::Aborted | Violation::Lost { .. } => return None,
            _ => Reason::new(ReasonKind::Other, text()),
        })
    }

    /// Returns the reason for answered samples over a bound; `None` if only failures miss it.
    fn bound(&self, violation: &Violation) -> Option<Reason> {
        let Violation::Bound { bounded, percentile: at, bound, measured, .. } = violation else {
            return None;
        };
        let name = limit(*bounded, *at, *bound);
        let found = self.against_bounds().into_iter().find(|found| found.name == name)?;
        if found.answered == 0 || (self.lost() > 0 && found.is_met_by_answered(*at)) {
            return None;
        }
        let mut text = format!(
            "{} of {} answered samples {} over the bound on {bounded} ({name}), {} allowed; ",
            count(found.over_answered),
            count(found.answered),
            if found.over_answered == 1 { "is" } else { "are" },
            count(allowed(found.answered, *at)),
        );
        let without = match bounded {
            BoundedTime::Latency => 0,
            BoundedTime::FirstToken | BoundedTime::TimePerOutputToken => self.no_first_token(),
        };
        text += &match without {
            0 => format!("{} is {}", percentile(*at), duration(*measured)),
            _ => format!(
                "{} of them have no first token, because the system reported none",
                count(without.min(found.over_answered))
            ),
        };
        if self.lost() > 0 {
            text += &format!(
                "; {} of {} including failed and unanswered samples",
                count(found.over),
                count(found.samples)
            );
        }
        // Advice on speed only helps against overload.
        if self.failures.are_overload() && without == 0 {
            text += "; lower server_target_qps or make the system faster";
        }
        Some(Reason::new(ReasonKind::Bound, text).because_of(Cause::System))
    }

    /// Returns the number of answered samples for which no first token was reported.
    fn no_first_token(&self) -> u64 {
        let record = &self.report.run.record;
        let is_without = |(at, first): &(&Nanos, &Nanos)| **at != 0 && **first == 0;
        let without = record.completed_at.iter().zip(&record.first_token_at).filter(is_without);
        (without.count() as u64).saturating_sub(self.failures.samples)
    }

    /// Returns the text for a run that was too short. `text` is that of the load generator, whose
    /// advice only helps if the rate determines how many queries there are.
    fn too_short(&self, text: &str) -> String {
        let Load::Server(server) = &self.plan().load else { return text.into() };
        if !matches!(server.arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_)) {
            return text.into();
        }
        let found = text.split("; ").next().unwrap_or_default();
        let mut why = self.why_short();
        if why.is_empty() {
            why = "; see in the detail log why it ended".into();
        }
        format!("{found}{why}, or lower min_duration_ms")
    }

    /// Returns the reason for fewer queries or samples than the settings require.
    fn too_few(&self, violation: &Violation) -> Reason {
        let Violation::Count { queries, minimum_queries, samples, minimum_samples } = violation
        else {
            return Reason::new(ReasonKind::QueryCount, violation.to_string());
        };
        let missing = match minimum_queries.saturating_sub(*queries) {
            0 => format!("{} more samples", count(minimum_samples.saturating_sub(*samples))),
            1 => "1 more query".into(),
            missing => format!("{} more queries", count(missing)),
        };
        let text = format!(
            "{} of at least {} queries were issued, and {} of at least {} samples were answered: \
             {missing} needed{}",
            count(*queries),
            count(*minimum_queries),
            count(*samples),
            count(*minimum_samples),
            self.why_short()
        );
        let reason = Reason::new(ReasonKind::QueryCount, text);
        if self.has_round { reason } else { reason.undecided() }
    }

    /// Returns the setting that ended the run.
    fn why_short(&self) -> String {
        match self.report.run.ended {
            EndReason::MaxQueryCount { .. } => "; raise max_query_count".into(),
            EndReason::MaxDuration { .. } => "; raise max_duration_ms".into(),
            EndReason::RanOut => "; the generated queries ran out: raise min_duration_ms, or the \
                              expected rate"
                .into(),
            _ => String::new(),
        }
    }

    /// Returns the reason for too few queries, with the number of missing queries and the current
    /// estimate.
    fn uncertain(&self, further: u64) -> Option<Reason> {
        let new = |text: String| Reason::new(ReasonKind::EarlyStopping, text).undecided();
        if self.answered() == 0 && self.lost() > 0 {
            return None;
        }
        if further == u64::MAX {
            return Some(new(Violation::EarlyStopping { further }.to_string()));
        }
        let needed = self.report.metrics.query_count.saturating_add(further);
        let more = counted_with_verb(further, "more query", "more queries");
        let is_missed = self.violations.iter().any(|v| matches!(v, Violation::Bound { .. }));
        let (bounded, finding) = self.unmet()?;
        let at = self.plan().percentile();
        Some(new(match finding {
            Finding::Bound { .. } if is_missed => format!(
                "also too few queries to be certain of {}: {more} needed if all of them are \
                 within the bound",
                percentile(at)
            ),
            Finding::Bound { over, .. } => {
                let bound = bounds(self.plan()).into_iter().find(|(of, _)| *of == bounded)?.1;
                let over_answered = over.saturating_sub(self.lost());
                let failed = match self.lost() {
                    0 => String::new(),
                    lost => format!(", {} failed", count(lost)),
                };
                format!(
                    "{} holds for the {} answered ({} over it{failed}{}); {more} needed to be \
                     certain if all of them are within it; use {}",
                    limit(bounded, at, bound),
                    count(self.answered()),
                    count(over_answered),
                    self.single_tokens(bounded),
                    self.option_for(needed)
                )
            }
            Finding::Estimated(estimates) => {
                let Estimate { processed, .. } = estimates.target;
                format!(
                    "{} too few to be certain of {}; {more} needed; use {}",
                    counted_with_verb(processed, "query answered", "queries answered"),
                    percentile(at),
                    self.option_for(needed)
                )
            }
        }))
    }

    /// Returns the option that makes a run have this number of queries.
    fn option_for(&self, queries: u64) -> String {
        // --num-prompts sets both.
        let plan = self.plan();
        if plan.max_query_count > 0 && plan.max_query_count == plan.min_query_count {
            format!("--num-prompts {queries}")
        } else {
            format!("--set min_query_count={queries}")
        }
    }

    /// Returns a remark on answers of one token, which have no time per output token.
    fn single_tokens(&self, bounded: BoundedTime) -> String {
        let record = &self.report.run.record;
        let is_single = |sample: &usize| record.timed_tokens(*sample) == Some(1);
        let single = (0..record.tokens.len()).filter(is_single).count() as u64;
        match (bounded, single) {
            (BoundedTime::Latency | BoundedTime::FirstToken, _) | (_, 0) => String::new(),
            (BoundedTime::TimePerOutputToken, single) => {
                format!(", {} have one token and therefore no TPOT", count(single))
            }
        }
    }

    /// Returns the first bound that is not certain enough.
    fn unmet(&self) -> Option<(BoundedTime, Finding)> {
        let findings = match self.report.judgement.early_stopping {
            EarlyStoppingResult::None => [None, None],
            EarlyStoppingResult::Latency(finding) => [Some((BoundedTime::Latency, finding)), None],
            EarlyStoppingResult::Tokens { first_token, time_per_output_token } => [
                Some((BoundedTime::TimePerOutputToken, time_per_output_token)),
                first_token.map(|finding| (BoundedTime::FirstToken, finding)),
            ],
        };
        findings.into_iter().flatten().find(|(_, finding)| !finding.is_met())
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::record;

    use super::*;

    #[test]
    fn failures_are_a_share_of_the_samples_that_came_back() {
        // The second sample was outstanding when the run ended.
        let record = Record {
            completed_at: vec![50, 0, 70, 90, 95],
            failed: vec![(2, record::Failure::Cut)],
            ..Record::default()
        };
        let failures = Failures::from_samples(&record.failed, &Troubles::new());
        let text = failed_share(&failures, &record);
        assert!(text.starts_with("1 of 4 samples failed (25 %): 1 "), "{text}");
    }

    #[test]
    fn failures_of_another_run_of_a_repetition_name_it() {
        let good = Record { completed_at: vec![50, 70], ..Record::default() };
        let bad = Record { failed: vec![(1, record::Failure::Cut)], ..good.clone() };
        let shown = JudgedRun { record: &good, name: None };
        let other = JudgedRun { record: &bad, name: Some("run 2 of 3".into()) };
        let mut test: summary::Test = serde_json::from_value(serde_json::json!({
            "scenario": "Server", "mode": "performance", "folder": "", "state": "complete",
            "verdict": "VALID", "reasons": [], "notes": [], "settings": {},
        }))
        .unwrap();
        for run in [&shown, &other] {
            judge_failures(&mut test, run, &Troubles::new(), FailureRule::None);
        }
        let [reason] = &test.reasons[..] else { panic!("{:?}", test.reasons) };
        assert!(reason.starts_with("In run 2 of 3: 1 of 2 samples failed (50 %): 1 "), "{reason}");
        assert_eq!(test.verdict, "INVALID");
    }
}
