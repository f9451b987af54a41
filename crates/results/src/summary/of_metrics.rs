//! Conversion of the load generator's metrics to those of the summary.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::early_stopping::{self, Params, largest_overlatency, minimum_queries};
use dyno_loadgen::metrics;
use dyno_loadgen::plan::{self, Load, Tokens};
use dyno_loadgen::record::Record;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::verdict::{EarlyStoppingResult, Finding, Judgement};

use super::NO_BOUND;
use super::Sessions;
use super::excluded::ExcludedRequests;
use super::goodput::goodput;
use super::metrics::{
    Bound, Conditions, Distribution, ENDED_ABORTED, ENDED_LOST, EarlyStopping, Estimate,
    FailureCounts, Intervals, Metrics, OverBound, Rates, TokenRates,
};
use super::tasks::TurnCounts;

impl Metrics {
    /// Returns the numbers of a run that ended with `ended` and lasted `lasted_ns`.
    pub fn from_run(
        m: &metrics::Metrics,
        judgement: &Judgement,
        plan: &plan::Plan,
        record: &Record,
        ended: EndReason,
        lasted_ns: Nanos,
    ) -> Self {
        let lost = m.failed.total() + m.missing;
        let counted_over_ns = matches!(plan.load, Load::Server(_)).then_some(m.pace.length);
        Self {
            query_count: m.query_count,
            sample_count: m.sample_count,
            failed: FailureCounts {
                rejected: m.failed.rejected,
                timed_out: m.failed.timed_out,
                disconnected: m.failed.disconnected,
                internal: m.failed.internal,
                empty: m.failed.empty,
                cut: m.failed.cut,
                aborted: m.failed.aborted,
                filtered: m.failed.filtered,
                short: m.failed.short,
            },
            missing: m.missing,
            error_rate: lost as f64 / (m.sample_count + lost).max(1) as f64,
            over_bound: over_bound(&m.over, plan),
            intervals: m.intervals.map(Into::into),
            ended: name_of_end(ended).into(),
            lasted_ns,
            counted_over_ns,
            last_issue_ns: (m.query_count > 0).then_some(m.final_query.issued),
            latency_ns: m.latency.into(),
            query_latency_ns: m.query_latency.map(Into::into),
            first_token_ns: m.first_token.map(Into::into),
            time_per_output_token_ns: m.time_per_output_token.map(Into::into),
            token_count: plan.measures_tokens().then_some(m.token_count),
            answers: None,
            tokens: None,
            sessions: Sessions::from_record(record, plan.percentile(), plan.steps, &|_| {
                TurnCounts::default()
            }),
            distributions: Vec::new(),
            stages: Vec::new(),
            models: Vec::new(),
            excluded: ExcludedRequests::from_record(record),
            steady: None,
            peak_concurrency: None,
            rates: Rates {
                goodput_samples_per_s: goodput(record, plan, m.pace.length),
                ..m.rates.into()
            },
            goodput: None,
            token_rates: m.token_rates.map(Into::into),
            lag_ns: m.lag.map(Into::into),
            client_lag_ns: m.client_lag.map(Into::into),
            conditions: Conditions {
                performance_met: judgement.performance_met.filter(|_| has_bound(plan)),
                min_duration_met: judgement.min_duration_met,
                min_queries_met: judgement.min_queries_met,
                early_stopping_met: judgement.early_stopping_met,
                client_lag_met: judgement.client_lag_met,
            },
            early_stopping: early_stopping_of(judgement.early_stopping, plan, m.estimates),
        }
    }
}

/// Returns whether a bound of a plan is judged; other scenarios than Server have none that a setting
/// could lift.
fn has_bound(plan: &plan::Plan) -> bool {
    match (&plan.load, plan.tokens) {
        (Load::Server(_), Some(Tokens::Measured { ttft, tpot })) => ttft.min(tpot) < NO_BOUND,
        (Load::Server(server), _) => server.target_latency < NO_BOUND,
        _ => true,
    }
}

/// Returns the counts over the bounds that are judged.
fn over_bound(over: &metrics::OverBoundCounts, plan: &plan::Plan) -> OverBound {
    let judged = |bound: u64, over: u64| (bound < NO_BOUND).then_some(over);
    match (&plan.load, plan.tokens) {
        (Load::Server(_), Some(Tokens::Measured { ttft, tpot })) => OverBound {
            latency: None,
            first_token: judged(ttft, over.first_token),
            time_per_output_token: judged(tpot, over.time_per_output_token),
        },
        (Load::Server(server), _) => OverBound {
            latency: judged(server.target_latency, over.latency),
            ..OverBound::default()
        },
        _ => OverBound::default(),
    }
}

impl From<metrics::Distribution> for Distribution {
    fn from(d: metrics::Distribution) -> Self {
        let [p50, p90, p95, p97, p99, p99_9] = d.percentiles;
        let metrics::Distribution { count, min, max, mean, target, .. } = d;
        Self { count, min, mean, p50, p90, p95, p97, p99, p99_9, max, target }
    }
}

impl From<metrics::Intervals> for Intervals {
    fn from(of: metrics::Intervals) -> Self {
        let [p50, _, _, _, p99, p99_9] = of.percentiles;
        let metrics::Intervals { over, allowed, skipped, by_client, target, .. } = of;
        Self { over, allowed, skipped, by_client, p50, p99, p99_9, target }
    }
}

impl From<metrics::Rates> for Rates {
    fn from(rates: metrics::Rates) -> Self {
        match rates {
            metrics::Rates::SingleStream { with_overhead, without_overhead } => Self {
                queries_per_s_with_overhead: finite(with_overhead),
                queries_per_s_without_overhead: finite(without_overhead),
                ..Self::default()
            },
            metrics::Rates::MultiStream => Self::default(),
            metrics::Rates::Server { scheduled, completed } => Self {
                scheduled_samples_per_s: finite(scheduled),
                completed_samples_per_s: finite(completed),
                ..Self::default()
            },
            metrics::Rates::Offline { samples } => {
                Self { samples_per_s: finite(samples), ..Self::default() }
            }
        }
    }
}

impl From<metrics::TokenRates> for TokenRates {
    fn from(rates: metrics::TokenRates) -> Self {
        match rates {
            metrics::TokenRates::Measured {
                with_overhead, without_overhead, completed, ..
            } => Self {
                tokens_per_s_with_overhead: finite(with_overhead),
                tokens_per_s_without_overhead: finite(without_overhead),
                completed_tokens_per_s: finite(completed),
                tokens_per_s: None,
            },
            metrics::TokenRates::MeasuredOffline { tokens }
            | metrics::TokenRates::Inferred { tokens } => {
                Self { tokens_per_s: finite(tokens), ..Self::default() }
            }
        }
    }
}

/// Returns a rate; `None` if it is not finite, such as that of a single query.
fn finite(rate: f64) -> Option<f64> {
    Some(rate).filter(|rate| rate.is_finite())
}

fn name_of_end(ended: EndReason) -> &'static str {
    match ended {
        EndReason::TraceIssued => "trace issued",
        EndReason::Naturally => "minimum reached",
        EndReason::RanOut => "ran out of generated queries",
        EndReason::MaxQueryCount { .. } => "maximum of queries",
        EndReason::MaxDuration { .. } => "maximum duration",
        EndReason::TooManyOutstanding { .. } => "too many outstanding",
        EndReason::Deadline { .. } => "deadline",
        EndReason::Aborted => ENDED_ABORTED,
        EndReason::Lost { .. } => ENDED_LOST,
    }
}

fn early_stopping_of(
    result: EarlyStoppingResult,
    plan: &plan::Plan,
    estimates: Option<metrics::ScenarioEstimates>,
) -> Vec<EarlyStopping> {
    let params = Params::new(&plan.early_stopping, plan.percentile());
    let entry = |of: &str, finding: Finding| EarlyStopping {
        of: of.into(),
        percentile: params.percentile,
        confidence: params.confidence,
        tolerance: params.tolerance,
        bound: match finding {
            Finding::Bound { queries, over, deficit } => Some(Bound {
                queries,
                over,
                allowed: largest_overlatency(queries, &params),
                needed: minimum_queries(over, &params),
                deficit,
            }),
            Finding::Estimated(_) => None,
        },
        estimates: match finding {
            Finding::Bound { .. } => Vec::new(),
            Finding::Estimated(found) => {
                std::iter::once(found.target).chain(found.tail).map(Into::into).collect()
            }
        },
    };
    match result {
        EarlyStoppingResult::None => Vec::new(),
        EarlyStoppingResult::Latency(finding) => vec![entry("latency", finding)],
        EarlyStoppingResult::Tokens { first_token, time_per_output_token } => match estimates {
            None => first_token
                .map(|finding| entry("first_token", finding))
                .into_iter()
                .chain([entry("time_per_output_token", time_per_output_token)])
                .collect(),
            // Estimates follow the definitions of the figures, not those of the verdict.
            Some(own) => {
                let first = own.first_token.map(|of| ("first_token", of));
                let each = own.time_per_output_token.map(|of| ("time_per_output_token", of));
                let tokens = first.into_iter().chain(each);
                let mut all: Vec<_> =
                    tokens.map(|(of, found)| entry(of, Finding::Estimated(found))).collect();
                if all.is_empty() {
                    all.push(entry("latency", Finding::Estimated(own.latency)));
                }
                all
            }
        },
    }
}

impl From<early_stopping::Estimate> for Estimate {
    fn from(e: early_stopping::Estimate) -> Self {
        Self {
            percentile: e.percentile,
            processed: e.processed,
            needed: e.needed,
            rank: e.rank,
            latency_ns: e.rank.map(|_| e.latency),
        }
    }
}
