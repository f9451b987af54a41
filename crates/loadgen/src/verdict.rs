//! The verdict on a performance run: whether it counts, why not, and what to do about it.
//!
//! ```
//! use dyno_loadgen::metrics::Metrics;
//! use dyno_loadgen::plan::{Library, Plan};
//! use dyno_loadgen::record::Record;
//! use dyno_loadgen::session::EndReason;
//! use dyno_loadgen::settings::TestSettings;
//! use dyno_loadgen::verdict::{Verdict, judge};
//!
//! let library = Library { total: 1, performance: 1 };
//! let plan = Plan::resolve(&TestSettings::default(), library).unwrap();
//! let metrics = Metrics::from_record(&Record::default(), &plan);
//! let Verdict::Invalid(violations) = judge(&metrics, &plan, EndReason::Aborted).verdict else {
//!     panic!("an empty run is INVALID")
//! };
//! let last = violations.last().unwrap().to_string();
//! assert_eq!(last, "the run was aborted; run it again to the end");
//! ```

mod wording;

use crate::clock::Nanos;
use crate::early_stopping::{Look, Params, look};
use crate::metrics::{self, Distribution, Estimates, Intervals, Metrics};
use crate::plan::{Load, Plan, Tokens};
use crate::session::EndReason;
use crate::settings::{EarlyStopping, Scenario};

/// Whether a run counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The run counts.
    Valid,
    /// The run does not count, for these reasons (at least one).
    Invalid(Vec<Violation>),
}

/// Kind of time that a Server bound limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundedTime {
    /// Time from the due time to the answer.
    Latency,
    /// Time from the due time to the first token.
    FirstToken,
    /// Time between tokens after the first.
    TimePerOutputToken,
}

/// Reason why a run does not count. It displays as a sentence with advice.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// Server: too many samples were over a bound.
    Bound {
        /// Kind of the bounded time.
        bounded: BoundedTime,
        /// Share that must meet it, in (0, 1).
        percentile: f64,
        /// Bound, ns.
        bound: Nanos,
        /// Value at that percentile of the answered samples, ns.
        measured: i64,
        /// Samples over the bound, failed and missing ones included.
        over: u64,
        /// Total samples.
        samples: u64,
    },
    /// MultiStream at a fixed interval: too many queries made the next one skip an interval.
    Intervals {
        /// Share of queries that must not skip, in (0, 1).
        percentile: f64,
        /// Interval, ns.
        interval: Nanos,
        /// Samples in a query.
        streams: u64,
        /// Queries that skipped, unanswered ones included.
        over: u64,
        /// Total queries.
        queries: u64,
        /// Intervals skipped.
        skipped: u64,
        /// Queries whose completion the client noticed too late.
        by_client: u64,
    },
    /// The run was too short.
    Duration {
        /// Scenario, which determines the advice; `None` is MultiStream at a fixed interval.
        scenario: Option<Scenario>,
        /// Duration of the run, ns.
        lasted: Nanos,
        /// Minimum duration, ns.
        minimum: Nanos,
    },
    /// Too few queries were issued, or too few samples were answered or failed.
    Count {
        /// Queries issued.
        queries: u64,
        /// Minimum queries.
        minimum_queries: u64,
        /// Samples answered or failed.
        samples: u64,
        /// Minimum samples.
        minimum_samples: u64,
    },
    /// The percentile is not certain enough.
    EarlyStopping {
        /// Queries needed beyond those of the run.
        further: u64,
    },
    /// The client was late, so that it caused a part of the latencies.
    ClientLag {
        /// Percentile at which the lag is judged, in (0, 1).
        percentile: f64,
        /// Lag of the client at that percentile, ns.
        measured: i64,
        /// `max_client_lag_ns`.
        budget: Nanos,
    },
    /// Samples were never answered.
    Missing {
        /// Number of samples.
        samples: u64,
    },
    /// The system failed samples in a scenario where each one counts.
    Failed {
        /// Number of samples.
        samples: u64,
    },
    /// The run was aborted.
    Aborted,
    /// A worker was lost, and with it its part of the load.
    Lost {
        /// Index of the worker.
        worker: u32,
        /// Number of workers.
        workers: u32,
    },
}

/// Result of early stopping for one kind of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    /// Server: the queries over the bound.
    Bound {
        /// Queries issued.
        queries: u64,
        /// Queries over the bound.
        over: u64,
        /// Further queries needed; 0 if the criterion is met.
        deficit: u64,
    },
    /// SingleStream and MultiStream: estimates of percentiles.
    Estimated(Estimates),
}

/// Result of early stopping for a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EarlyStoppingResult {
    /// No result: Offline and MultiStream at a fixed interval have no criterion, or the policy is
    /// [`EarlyStopping::Never`].
    None,
    /// Result for the latency.
    Latency(Finding),
    /// Results for tokens. The time to first token is judged only if the time per output token
    /// passes, as in the reference.
    Tokens {
        /// Result for the time to first token, if judged.
        first_token: Option<Finding>,
        /// Result for the time per output token.
        time_per_output_token: Finding,
    },
}

/// The reference's advice on its three conditions, each empty if the condition is met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recommendations {
    /// Advice on the latency bound.
    pub performance: String,
    /// Advice on the minimum duration.
    pub min_duration: String,
    /// Advice on the minimum of queries.
    pub min_queries: String,
}

/// Verdict on a performance run, with the result of each condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Whether the run counts.
    pub verdict: Verdict,
    /// Server, and MultiStream at a fixed interval: whether the bounds are met.
    pub performance_met: Option<bool>,
    /// Whether the run was long enough.
    pub min_duration_met: bool,
    /// Whether there were enough queries and samples.
    pub min_queries_met: bool,
    /// Whether the percentile is certain enough.
    pub early_stopping_met: bool,
    /// Result of early stopping.
    pub early_stopping: EarlyStoppingResult,
    /// Whether the lag of the client was within its budget; `None` without a budget, or if queries
    /// are not due at set times.
    pub client_lag_met: Option<bool>,
    /// Notes that are needed to interpret the verdict.
    pub notes: Vec<&'static str>,
}

/// Shown with every verdict under the `Extend` policy. The figures are those of
/// `examples/repeated_looks.rs` at the rules' minimum query counts.
pub const EXTENDED_RUN_NOTE: &str = "The run could be extended until the early-stopping criterion \
     held. Each further look is another chance to pass: a system exactly on the boundary passes \
     about 6 % of the time at a cap of 4 times the minimum of queries and 8 % at 10 times, where \
     one look passes it 1 % of the time.";

/// Judges a performance run. An accuracy run has no verdict.
///
/// The first four conditions are those of the reference. Dyno adds four: no sample may be missing,
/// only Server may have failed samples (they count as over the bound), the lag of the client must
/// be within its budget, and the run must not be aborted.
#[must_use]
pub fn judge(metrics: &Metrics, plan: &Plan, ended: EndReason) -> Judgement {
    let mut judging = Judge { metrics, plan, violations: Vec::new() };
    let performance_met = judging.performance();
    let min_duration_met = judging.duration(ended);
    let min_queries_met = judging.count();
    let early_stopping = judging.early_stopping();
    let client_lag_met = judging.client_lag();
    judging.completeness(ended);
    let violations = judging.violations;
    let extended = plan.early_stopping.policy == EarlyStopping::Extend
        && early_stopping != EarlyStoppingResult::None;
    Judgement {
        verdict: if violations.is_empty() { Verdict::Valid } else { Verdict::Invalid(violations) },
        performance_met,
        min_duration_met,
        min_queries_met,
        early_stopping_met: early_stopping.is_met(),
        early_stopping,
        client_lag_met,
        notes: if extended { vec![EXTENDED_RUN_NOTE] } else { Vec::new() },
    }
}

/// Returns whether a Server run meets its bounds, or MultiStream at a fixed interval its share of
/// skipped intervals, at the target percentile. Failed and missing samples count as over. `None` in
/// other scenarios.
///
/// The search for the peak depends only on this condition.
pub fn performance_met(metrics: &Metrics, plan: &Plan) -> Option<bool> {
    Judge { metrics, plan, violations: Vec::new() }.performance()
}

/// Returns whether a lower load may fix all violations: too many latencies over a bound, skipped
/// intervals, or an end because queries piled up. Violations that an idle system would also have
/// (errors, too few queries, too short a run) are not fixed by a lower load.
pub fn is_of_load(
    violations: &[Violation],
    metrics: &Metrics,
    plan: &Plan,
    ended: EndReason,
) -> bool {
    // Rejections and timeouts are signs of overload.
    let failed = &metrics.failed;
    let broken = failed.disconnected + failed.internal + failed.not_whole();
    let piled_up = matches!(ended, EndReason::TooManyOutstanding { .. });
    violations.iter().all(|violation| match violation {
        Violation::Bound { percentile, samples, .. } => {
            samples - broken > metrics::rank(*samples, *percentile)
        }
        // The client would notice completions late with fewer streams, too.
        Violation::Intervals { over, by_client, .. } => {
            let allowed = metrics.intervals.map_or(0, |intervals| intervals.allowed);
            over - by_client > allowed
        }
        Violation::EarlyStopping { .. } => {
            let params = Params::new(&plan.early_stopping, plan.percentile());
            piled_up || look(metrics.query_count, broken, &params) == Look::Met
        }
        Violation::Duration { .. } | Violation::Count { .. } => piled_up,
        Violation::ClientLag { .. }
        | Violation::Missing { .. }
        | Violation::Failed { .. }
        | Violation::Aborted
        | Violation::Lost { .. } => false,
    })
}

struct Judge<'a> {
    metrics: &'a Metrics,
    plan: &'a Plan,
    violations: Vec<Violation>,
}

impl Judge<'_> {
    fn performance(&mut self) -> Option<bool> {
        if let Some(intervals) = self.metrics.intervals {
            return Some(self.intervals(&intervals));
        }
        let Load::Server(server) = &self.plan.load else {
            return None;
        };
        let (over, before) = (self.metrics.over, self.violations.len());
        if let Some(Tokens::Measured { ttft, tpot }) = self.plan.tokens {
            let first_token = self.metrics.first_token;
            let per_token = self.metrics.time_per_output_token;
            self.bound(BoundedTime::FirstToken, ttft, first_token, over.first_token);
            let over = over.time_per_output_token;
            self.bound(BoundedTime::TimePerOutputToken, tpot, per_token, over);
        } else {
            let latency = Some(self.metrics.latency);
            self.bound(BoundedTime::Latency, server.target_latency, latency, over.latency);
        }
        Some(self.violations.len() == before)
    }

    /// The reference checks that the count of intervals at the percentile is below 2, which is
    /// equivalent.
    fn intervals(&mut self, found: &Intervals) -> bool {
        let queries = self.metrics.query_count;
        let met = queries > 0 && found.over <= found.allowed;
        if !met {
            self.violations.push(Violation::Intervals {
                percentile: self.plan.percentile(),
                interval: self.plan.target_latency(),
                streams: self.plan.samples_per_query,
                over: found.over,
                queries,
                skipped: found.skipped,
                by_client: found.by_client,
            });
        }
        met
    }

    /// Checks that the percentile is within the bound, by counts: the value at index `rank` is
    /// within it if more than `rank` values are. Counts include samples without a latency.
    fn bound(
        &mut self,
        bounded: BoundedTime,
        bound: Nanos,
        times: Option<Distribution>,
        over: u64,
    ) {
        let (samples, percentile) = (self.metrics.issued_samples(), self.plan.percentile());
        if samples - over > metrics::rank(samples, percentile) {
            return;
        }
        let measured = times.map_or(0, |times| times.target);
        self.violations.push(Violation::Bound {
            bounded,
            percentile,
            bound,
            measured,
            over,
            samples,
        });
    }

    fn duration(&mut self, ended: EndReason) -> bool {
        // The last turn of a session may have been due long before the end, during a think time, and
        // sessions that are played once last as long as they do.
        let (scenario, minimum) = (self.plan.scenario(), self.plan.min_duration);
        let is_whole = match ended {
            EndReason::Naturally => true,
            // It waited for samples that were lost, and issued nothing after an answer beyond its duration.
            EndReason::Deadline { .. } => self.metrics.lasted >= minimum,
            _ => false,
        };
        if self.plan.sessions.is_some() && (is_whole || ended == EndReason::TraceIssued) {
            return true;
        }
        // A closed loop issues no query after its duration is over.
        if self.plan.in_flight().is_some() && is_whole {
            return true;
        }
        let lasted = match scenario {
            Scenario::Offline => self.metrics.max_latency,
            Scenario::Server => self.metrics.final_query.scheduled,
            Scenario::SingleStream | Scenario::MultiStream => self.metrics.final_query.issued,
        };
        // Cancelled queries are not in the record, but the load went on with them.
        let lasted = lasted.max(self.metrics.cancelled_until);
        if lasted < minimum {
            let scenario = self.metrics.intervals.is_none().then_some(scenario);
            self.violations.push(Violation::Duration { scenario, lasted, minimum });
        }
        lasted >= minimum
    }

    fn count(&mut self) -> bool {
        // Cancelled queries were issued as required, and were to have no answer.
        let cancelled = self.metrics.cancelled;
        let queries = self.metrics.query_count + cancelled;
        let samples = self.metrics.sample_count + self.metrics.failed.total() + cancelled;
        let (minimum_queries, minimum_samples) =
            (self.plan.min_query_count, self.plan.min_sample_count);
        let met = queries >= minimum_queries && samples >= minimum_samples;
        if !met {
            self.violations.push(Violation::Count {
                queries,
                minimum_queries,
                samples,
                minimum_samples,
            });
        }
        met
    }

    fn early_stopping(&mut self) -> EarlyStoppingResult {
        let result = early_stopping_result(self.metrics, self.plan);
        if let Some(unmet) = result.unmet() {
            self.violations.push(Violation::EarlyStopping { further: unmet.further() });
        }
        result
    }

    fn client_lag(&mut self) -> Option<bool> {
        let budget = self.plan.max_client_lag;
        let lag = self.metrics.client_lag.filter(|_| budget > 0)?;
        let met = u64::try_from(lag.target).is_ok_and(|lag| lag <= budget);
        if !met {
            self.violations.push(Violation::ClientLag {
                percentile: self.plan.percentile(),
                measured: lag.target,
                budget,
            });
        }
        Some(met)
    }

    fn completeness(&mut self, ended: EndReason) {
        let failed = self.metrics.failed.total();
        if failed > 0 && self.plan.scenario() != Scenario::Server {
            self.violations.push(Violation::Failed { samples: failed });
        }
        // After an abort and without a worker, the run is stopped: the system may have answered
        // each sample.
        let is_stopped = matches!(ended, EndReason::Aborted | EndReason::Lost { .. });
        if self.metrics.missing > 0 && !is_stopped {
            self.violations.push(Violation::Missing { samples: self.metrics.missing });
        }
        match ended {
            EndReason::Aborted => self.violations.push(Violation::Aborted),
            EndReason::Lost { worker, workers } => {
                self.violations.push(Violation::Lost { worker, workers });
            }
            _ => {}
        }
    }
}

fn early_stopping_result(metrics: &Metrics, plan: &Plan) -> EarlyStoppingResult {
    if plan.early_stopping.policy == EarlyStopping::Never {
        return EarlyStoppingResult::None;
    }
    let (latency, first_token, per_token) = match (&plan.load, metrics.estimates) {
        (Load::Offline, _) => return EarlyStoppingResult::None,
        (Load::Server(_), _) => {
            let params = Params::new(&plan.early_stopping, plan.percentile());
            let finding = |over| {
                let queries = metrics.query_count;
                let deficit = match look(queries, over, &params) {
                    Look::Met => 0,
                    Look::Further(further) => further,
                };
                Finding::Bound { queries, over, deficit }
            };
            let over = metrics.over;
            let tokens = (finding(over.first_token), finding(over.time_per_output_token));
            (finding(over.latency), tokens.0, tokens.1)
        }
        (_, Some(estimates)) => {
            // MultiStream has no estimates of tokens; those of the query latency are shown instead,
            // as in the reference.
            let or_latency =
                |tokens: Option<Estimates>| Finding::Estimated(tokens.unwrap_or(estimates.latency));
            (
                Finding::Estimated(estimates.latency),
                or_latency(estimates.first_token),
                or_latency(estimates.time_per_output_token),
            )
        }
        (_, None) => return EarlyStoppingResult::None,
    };
    if plan.measures_tokens() {
        EarlyStoppingResult::Tokens {
            first_token: per_token.is_met().then_some(first_token),
            time_per_output_token: per_token,
        }
    } else {
        EarlyStoppingResult::Latency(latency)
    }
}

impl Finding {
    /// Returns whether the criterion is met.
    pub fn is_met(&self) -> bool {
        self.further() == 0
    }

    /// Returns the minimum number of further queries needed.
    pub fn further(&self) -> u64 {
        match self {
            Self::Bound { deficit, .. } => *deficit,
            Self::Estimated(Estimates { target, .. }) if target.rank.is_some() => 0,
            Self::Estimated(Estimates { target, .. }) => {
                target.needed.saturating_sub(target.processed).max(1)
            }
        }
    }
}

impl EarlyStoppingResult {
    /// Returns whether all judged criteria are met.
    pub fn is_met(&self) -> bool {
        self.unmet().is_none()
    }

    fn unmet(&self) -> Option<&Finding> {
        let findings = match self {
            Self::None => [None, None],
            Self::Latency(finding) => [Some(finding), None],
            Self::Tokens { first_token, time_per_output_token } => {
                [Some(time_per_output_token), first_token.as_ref()]
            }
        };
        findings.into_iter().flatten().find(|finding| !finding.is_met())
    }

    /// Returns the estimates for the detail log: those of the kind judged last.
    pub fn logged_estimates(&self) -> Option<&Estimates> {
        let last = match self {
            Self::None => return None,
            Self::Latency(finding) => finding,
            Self::Tokens { first_token, time_per_output_token } => {
                first_token.as_ref().unwrap_or(time_per_output_token)
            }
        };
        match last {
            Finding::Estimated(estimates) => Some(estimates),
            Finding::Bound { .. } => None,
        }
    }
}
