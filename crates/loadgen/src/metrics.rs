//! Metrics of a run: latencies, percentiles, rates, counts.
//!
//! [`Metrics::from_record`] has the arithmetic of the reference, bit for bit, with one exception:
//! means are signed. [`Definitions::Native`] differs in tokens and in completed rates. A sample that failed or is
//! missing counts neither as throughput nor as a latency:
//!
//! | | answered | failed | missing |
//! |---|---|---|---|
//! | latency, first token, time per output token | yes | no | no |
//! | query latency (MultiStream) | if the whole query was answered | no | no |
//! | `sample_count`, completed rates, tokens | yes | no | no |
//! | scheduled rate, `query_count` | yes | yes | yes |
//! | `max_latency` | yes | yes, until it failed | no |
//! | over-latency counts (Server) | if over the bound | always | always |
//! | early-stopping estimates (SingleStream, MultiStream) | yes | no | no |
//!
//! The last row favors runs with failures, but these are INVALID in any case.
//!
//! ```
//! use dyno_loadgen::metrics::Metrics;
//! use dyno_loadgen::plan::{Library, Plan};
//! use dyno_loadgen::record::Record;
//! use dyno_loadgen::settings::TestSettings;
//!
//! let library = Library { total: 3, performance: 3 };
//! let plan = Plan::resolve(&TestSettings::default(), library).unwrap();
//! let record = Record {
//!     samples_per_query: 1,
//!     issued_at: vec![0, 10, 30],
//!     indices: vec![0, 1, 2],
//!     completed_at: vec![10, 30, 0],
//!     ..Record::default()
//! };
//! let metrics = Metrics::from_record(&record, &plan);
//! assert_eq!((metrics.query_count, metrics.sample_count, metrics.missing), (3, 2, 1));
//! assert_eq!((metrics.latency.min, metrics.latency.max), (10, 20));
//! ```

mod definitions;
mod distribution;
mod intervals;
mod pace;

pub use self::definitions::Definitions;
pub(crate) use self::distribution::rank;
use self::distribution::summarize;
pub use self::distribution::{Distribution, Estimates, PERCENTILES};
pub use self::intervals::Intervals;
pub use self::pace::{Pace, PaceBasis, closed_loop, open_loop};
use crate::clock::{Nanos, SECOND};
use crate::early_stopping::{Estimate, Params};
use crate::plan::{Load, Plan, StreamPacing, Tokens};
use crate::record::{Failure, Record};

/// Times of the last issued query, ns since the start.
///
/// Durations and rates are computed from these times, as in the reference. The last issued query
/// need not be the last one to complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FinalQuery {
    /// When it was due.
    pub scheduled: Nanos,
    /// When it was issued.
    pub issued: Nanos,
    /// When all its samples were answered or failed; the last completion of the run if one of its
    /// samples is missing.
    pub done: Nanos,
}

/// Queries or samples per second; NaN or infinite if a run has one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rates {
    /// Queries/s.
    SingleStream {
        /// Over the time until the last issue.
        with_overhead: f64,
        /// 1 / mean latency.
        without_overhead: f64,
    },
    /// Reports no rate.
    MultiStream,
    /// Samples/s.
    Server {
        /// Offered rate.
        scheduled: f64,
        /// Rate of answered samples.
        completed: f64,
    },
    /// Samples/s.
    Offline {
        /// Rate of answered samples.
        samples: f64,
    },
}

/// Tokens per second; NaN or infinite if a run has one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TokenRates {
    /// Measured, all scenarios but Offline.
    Measured {
        /// Over the time until the last issue.
        with_overhead: f64,
        /// Over the sum of all latencies.
        without_overhead: f64,
        /// Over the sum of all latencies in ns: the value of `result_token_throughput` in the
        /// reference's detail log.
        without_overhead_per_ns: f64,
        /// Over the time of the completed rate: [`Metrics::pace`].
        completed: f64,
    },
    /// Measured in Offline.
    MeasuredOffline {
        /// Over the longest latency.
        tokens: f64,
    },
    /// Samples/s times a factor; only Server and Offline have it.
    Inferred {
        /// Tokens/s.
        tokens: f64,
    },
}

/// Number of failed samples, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailureCounts {
    /// Refused.
    pub rejected: u64,
    /// Too slow by the system's own clock.
    pub timed_out: u64,
    /// Connection lost.
    pub disconnected: u64,
    /// Error reported.
    pub internal: u64,
    /// Answers without output.
    pub empty: u64,
    /// Answers that ended before they were finished.
    pub cut: u64,
    /// Answers that the system gave up.
    pub aborted: u64,
    /// Answers that a filter withheld.
    pub filtered: u64,
    /// Answers with fewer tokens than demanded.
    pub short: u64,
}

impl FailureCounts {
    /// Returns the number of failed samples, all reasons together.
    pub fn total(&self) -> u64 {
        self.on_the_wire() + self.not_whole()
    }

    /// Returns the number of samples without an answer.
    pub fn on_the_wire(&self) -> u64 {
        self.rejected + self.timed_out + self.disconnected + self.internal
    }

    /// Returns the number of samples with an incomplete answer.
    pub fn not_whole(&self) -> u64 {
        self.empty + self.cut + self.aborted + self.filtered + self.short
    }
}

/// Number of samples over each Server bound, failed and missing ones included. 0 in other
/// scenarios, and for token bounds unless tokens are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverBoundCounts {
    /// Latency > `server_target_latency_ns`.
    pub latency: u64,
    /// Time to first token > `server_ttft_latency`, or no first token.
    pub first_token: u64,
    /// Time per output token > `server_tpot_latency`, or no first token.
    pub time_per_output_token: u64,
}

/// Early-stopping estimates of SingleStream and MultiStream. MultiStream estimates only the query
/// latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScenarioEstimates {
    /// Estimates of the latency (MultiStream: of the query latency).
    pub latency: Estimates,
    /// Estimates of the time to first token.
    pub first_token: Option<Estimates>,
    /// Estimates of the time per output token.
    pub time_per_output_token: Option<Estimates>,
}

/// Metrics of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    /// Queries issued, without those that the record excludes.
    pub query_count: u64,
    /// Queries issued that the client cancelled. Of other figures, only the scheduled rate includes them.
    pub cancelled: u64,
    /// When the last of them was due, ns: they are part of the length of the run.
    pub cancelled_until: Nanos,
    /// Length of the run, as [`Record::lasted`].
    pub lasted: Nanos,
    /// Samples answered: n in the reference.
    pub sample_count: u64,
    /// Samples that failed.
    pub failed: FailureCounts,
    /// Samples issued that were never completed.
    pub missing: u64,
    /// Server: samples over each bound.
    pub over: OverBoundCounts,
    /// MultiStream at a fixed interval: intervals between queries.
    pub intervals: Option<Intervals>,
    /// Latency of samples, from the due time.
    pub latency: Distribution,
    /// MultiStream: latency of queries, from the due time to the completion of the last sample.
    pub query_latency: Option<Distribution>,
    /// Time to first token, from the due time, if any first token was reported.
    pub first_token: Option<Distribution>,
    /// Time per output token, of samples for which [`Definitions::time_per_output_token`] is
    /// defined, if there are any.
    pub time_per_output_token: Option<Distribution>,
    /// Output tokens of answered samples.
    pub token_count: i64,
    /// Longest time until a sample was answered or failed, ns.
    pub max_latency: Nanos,
    /// Times of the last issued query.
    pub final_query: FinalQuery,
    /// Time over which completed rates count the answers.
    pub pace: Pace,
    /// Queries or samples per second.
    pub rates: Rates,
    /// Tokens per second, if the plan has token metrics.
    pub token_rates: Option<TokenRates>,
    /// Lateness of the issue; `None` unless queries are due at set times.
    pub lag: Option<Distribution>,
    /// Part of the lag that the client caused.
    pub client_lag: Option<Distribution>,
    /// Early-stopping estimates of SingleStream and MultiStream.
    pub estimates: Option<ScenarioEstimates>,
}

impl Metrics {
    /// Computes all metrics by the definitions of the reference, in O(samples).
    ///
    /// An empty record has zeros and non-finite rates.
    pub fn from_record(record: &Record, plan: &Plan) -> Self {
        Self::with_definitions(Definitions::Reference, record, plan)
    }

    /// Computes all metrics by these definitions, in O(samples).
    pub fn with_definitions(definitions: Definitions, record: &Record, plan: &Plan) -> Self {
        let mut times = Times::from_record(record, plan, definitions);
        let target = plan.percentile();
        let sample_count = times.latency.len() as u64;
        let estimates = ScenarioEstimates::for_counts(&times, plan);

        let of_latency = estimates.filter(|_| times.query_latency.is_none()).map(|e| e.latency);
        let (latency, of_latency) = summarize(&mut times.latency, target, of_latency);
        let query_latency = times.query_latency.as_mut().map(|values| {
            let of_query = estimates.map(|e| e.latency);
            summarize(values, target, of_query)
        });
        let first_token = times
            .first_token
            .as_mut()
            .map(|values| summarize(values, target, estimates.and_then(|e| e.first_token)));
        let time_per_output_token = times.time_per_output_token.as_mut().map(|values| {
            summarize(values, target, estimates.and_then(|e| e.time_per_output_token))
        });
        let estimates = query_latency.and_then(|(_, found)| found).or(of_latency).map(|found| {
            ScenarioEstimates {
                latency: found,
                first_token: first_token.and_then(|(_, found)| found),
                time_per_output_token: time_per_output_token.and_then(|(_, found)| found),
            }
        });

        let final_query = FinalQuery::from_record(record);
        let pace = definitions.pace(record, plan, sample_count, final_query.done);
        let cancelled_until = record.excluded.as_ref().map_or(0, |of| of.cancelled_until);
        let span = Denominators {
            samples: sample_count,
            issued: times.issued_samples + record.cancelled(),
            last_due: final_query.scheduled.max(cancelled_until),
            mean: latency.mean,
            max_latency: times.max_latency,
            final_query,
            throughput: definitions.throughput_span(sample_count, final_query.done, pace),
        };
        Self {
            query_count: record.query_count() as u64,
            cancelled: record.cancelled(),
            cancelled_until,
            lasted: record.lasted(),
            sample_count,
            failed: FailureCounts::from_record(record),
            missing: times.missing,
            over: times.over,
            intervals: Intervals::from_record(record, plan),
            latency,
            query_latency: query_latency.map(|(distribution, _)| distribution),
            first_token: first_token.map(|(distribution, _)| distribution),
            time_per_output_token: time_per_output_token.map(|(distribution, _)| distribution),
            token_count: times.token_count,
            max_latency: times.max_latency,
            final_query,
            pace,
            rates: span.rates(plan),
            token_rates: span.token_rates(plan, times.token_count),
            lag: lag(record, target, &mut times.latency),
            client_lag: client_lag(record, target, &mut times.latency),
            estimates,
        }
    }

    /// Returns the number of issued samples, whether answered, failed or missing.
    pub fn issued_samples(&self) -> u64 {
        self.sample_count + self.failed.total() + self.missing
    }
}

/// Columns of times, and counts that are taken while they are read.
struct Times {
    latency: Vec<i64>,
    query_latency: Option<Vec<i64>>,
    first_token: Option<Vec<i64>>,
    time_per_output_token: Option<Vec<i64>>,
    token_count: i64,
    max_latency: Nanos,
    missing: u64,
    issued_samples: u64,
    over: OverBoundCounts,
}

impl Times {
    fn from_record(record: &Record, plan: &Plan, definitions: Definitions) -> Self {
        let samples = record.samples_per_query.max(1);
        let completed = &record.completed_at[..];
        let mut failed = vec![false; if record.failed.is_empty() { 0 } else { completed.len() }];
        for &(sequence, _) in &record.failed {
            if let Some(flag) = usize::try_from(sequence).ok().and_then(|at| failed.get_mut(at)) {
                *flag = true;
            }
        }
        let multi = matches!(plan.load, Load::MultiStream { .. });
        let mut times = Self {
            latency: Vec::with_capacity(completed.len()),
            query_latency: multi.then(|| Vec::with_capacity(record.query_count())),
            first_token: None,
            time_per_output_token: None,
            token_count: 0,
            max_latency: 0,
            missing: 0,
            issued_samples: 0,
            over: OverBoundCounts::default(),
        };
        for (query, stamps) in (0..record.query_count()).zip(completed.chunks(samples)) {
            let (due, first) = (record.scheduled(query), query * samples);
            times.issued_samples += stamps.len() as u64;
            let (mut last, mut whole) = (0, stamps.len() == samples);
            for (sample, &at) in (first..).zip(stamps) {
                let failed = !failed.is_empty() && failed[sample];
                if at != 0 {
                    times.max_latency = times.max_latency.max(at.saturating_sub(due));
                }
                if failed || at == 0 {
                    whole = false;
                    times.missing += u64::from(!failed);
                } else {
                    last = last.max(at);
                    times.latency.push(span(due, at));
                }
            }
            if let Some(query_latency) = times.query_latency.as_mut().filter(|_| whole) {
                query_latency.push(span(due, last));
            }
        }
        times.count_over_latency(plan);
        if plan.measures_tokens() {
            times.read_tokens(record, plan, &failed, definitions);
        }
        times
    }

    fn count_over_latency(&mut self, plan: &Plan) {
        if let Load::Server(server) = &plan.load {
            let within = self.latency.iter().filter(|&&l| is_within(l, server.target_latency));
            self.over.latency = self.issued_samples - within.count() as u64;
        }
    }

    fn read_tokens(
        &mut self,
        record: &Record,
        plan: &Plan,
        failed: &[bool],
        definitions: Definitions,
    ) {
        let samples = record.samples_per_query.max(1);
        let answered = |sample: usize| {
            let failed = failed.get(sample).is_some_and(|&failed| failed);
            let at = record.completed_at.get(sample).copied().filter(|&at| at != 0 && !failed)?;
            Some((at, record.tokens.get(sample).copied().unwrap_or(0)))
        };
        let (mut first_token, mut per_token, mut undefined) = (Vec::new(), Vec::new(), 0);
        let count = record.completed_at.len().min(record.query_count() * samples);
        for sample in 0..count {
            let Some((at, tokens)) = answered(sample) else {
                continue;
            };
            self.token_count = self.token_count.saturating_add(definitions.counted(tokens));
            let first = record.first_token_at.get(sample).copied().unwrap_or(0);
            if first == 0 {
                continue;
            }
            first_token.push(span(record.scheduled(sample / samples), first));
            match definitions.time_per_token_of(record, sample, (first, at)) {
                Some(time) => per_token.push(time),
                None => undefined += 1,
            }
        }
        if let (Load::Server(_), Some(Tokens::Measured { ttft, tpot })) = (&plan.load, plan.tokens)
        {
            let over = |times: &[i64], bound| {
                let within = times.iter().filter(|&&t| is_within(t, bound)).count();
                self.issued_samples - within as u64
            };
            self.over.first_token = over(&first_token, ttft);
            // Undefined times miss no bound.
            self.over.time_per_output_token = over(&per_token, tpot) - undefined;
        }
        self.first_token = Some(first_token).filter(|times| !times.is_empty());
        self.time_per_output_token = Some(per_token).filter(|times| !times.is_empty());
    }
}

/// Returns the span from `begin` to `end`, ns; negative if `end` is earlier.
fn span(begin: Nanos, end: Nanos) -> i64 {
    end.wrapping_sub(begin).cast_signed()
}

fn is_within(time: i64, bound: Nanos) -> bool {
    i64::try_from(bound).is_ok_and(|bound| time <= bound) || bound > i64::MAX.unsigned_abs()
}

impl ScenarioEstimates {
    /// Chooses the ranks; the latencies are filled in by [`summarize`].
    fn for_counts(times: &Times, plan: &Plan) -> Option<Self> {
        let tail = match plan.load {
            Load::SingleStream { .. } => Some(0.99),
            Load::MultiStream { pacing: StreamPacing::OnCompletion, .. } => None,
            // A fixed interval has a different rule.
            Load::MultiStream { .. } | Load::Server(_) | Load::Offline => return None,
        };
        let of = |count: usize| {
            let at = |percentile| {
                Estimate::for_count(count as u64, &Params::new(&plan.early_stopping, percentile))
            };
            Estimates { target: at(plan.percentile()), tail: tail.map(at) }
        };
        let tokens = tail.is_some();
        Some(Self {
            latency: of(times.query_latency.as_ref().unwrap_or(&times.latency).len()),
            first_token: times.first_token.as_ref().filter(|_| tokens).map(|t| of(t.len())),
            time_per_output_token: times
                .time_per_output_token
                .as_ref()
                .filter(|_| tokens)
                .map(|t| of(t.len())),
        })
    }
}

impl FinalQuery {
    fn from_record(record: &Record) -> Self {
        let Some(last) = record.query_count().checked_sub(1) else {
            return Self::default();
        };
        let samples = record.samples_per_query.max(1);
        let stamps = record.completed_at.get(last * samples..).unwrap_or_default();
        let stamps = &stamps[..stamps.len().min(samples)];
        let done = if stamps.contains(&0) { &record.completed_at[..] } else { stamps };
        Self {
            scheduled: record.scheduled(last),
            issued: record.issued_at[last],
            done: done.iter().copied().max().unwrap_or(0),
        }
    }
}

impl FailureCounts {
    fn from_record(record: &Record) -> Self {
        let mut counts = Self::default();
        for (_, reason) in &record.failed {
            match reason {
                Failure::Rejected => counts.rejected += 1,
                Failure::TimedOut => counts.timed_out += 1,
                Failure::Disconnected => counts.disconnected += 1,
                Failure::Internal => counts.internal += 1,
                Failure::Empty => counts.empty += 1,
                Failure::Cut => counts.cut += 1,
                Failure::Aborted => counts.aborted += 1,
                Failure::Filtered => counts.filtered += 1,
                Failure::Short => counts.short += 1,
                // Excluded from every record.
                Failure::Cancelled => {}
            }
        }
        counts
    }
}

/// Numerators and denominators of rates.
struct Denominators {
    samples: u64,
    /// Samples that were issued, and when the last of them was due; cancelled ones belong to the load.
    issued: u64,
    last_due: Nanos,
    mean: i64,
    max_latency: Nanos,
    final_query: FinalQuery,
    /// Number of completions in a span of this many ns, for completed rates.
    throughput: (f64, Nanos),
}

impl Denominators {
    fn rates(&self, plan: &Plan) -> Rates {
        match plan.load {
            Load::SingleStream { .. } => Rates::SingleStream {
                with_overhead: gaps(self.samples) / seconds(self.final_query.issued),
                without_overhead: 1.0 / self.mean_seconds(),
            },
            Load::MultiStream { .. } => Rates::MultiStream,
            Load::Server(_) => Rates::Server {
                scheduled: gaps(self.issued) / seconds(self.last_due),
                completed: self.throughput.0 / seconds(self.throughput.1),
            },
            Load::Offline => {
                Rates::Offline { samples: self.samples as f64 / seconds(self.max_latency) }
            }
        }
    }

    fn token_rates(&self, plan: &Plan, token_count: i64) -> Option<TokenRates> {
        let tokens = token_count as f64;
        match (plan.tokens?, &plan.load) {
            (Tokens::Measured { .. }, Load::Offline) => {
                Some(TokenRates::MeasuredOffline { tokens: tokens / seconds(self.max_latency) })
            }
            (Tokens::Measured { .. }, _) => Some(TokenRates::Measured {
                with_overhead: tokens / seconds(self.final_query.issued),
                without_overhead: tokens / (self.mean_seconds() * self.samples as f64),
                without_overhead_per_ns: tokens / (self.mean as f64 * self.samples as f64),
                completed: tokens / seconds(self.throughput.1),
            }),
            (Tokens::Inferred { scaling_factor }, Load::Offline) => Some(TokenRates::Inferred {
                tokens: scaling_factor as f64 * self.samples as f64 / seconds(self.max_latency),
            }),
            (Tokens::Inferred { scaling_factor }, Load::Server(_)) => Some(TokenRates::Inferred {
                tokens: scaling_factor as f64 * self.throughput.0 / seconds(self.throughput.1),
            }),
            (Tokens::Inferred { .. }, _) => None,
        }
    }

    fn mean_seconds(&self) -> f64 {
        self.mean as f64 / SECOND as f64
    }
}

/// Returns the number of intervals between `count` events.
fn gaps(count: u64) -> f64 {
    count.saturating_sub(1) as f64
}

fn seconds(time: Nanos) -> f64 {
    time as f64 / SECOND as f64
}

/// Returns the distribution of the lateness of the issue. It reuses `buffer`, because new memory
/// pages would cost as much as the computation.
fn lag(record: &Record, target: f64, buffer: &mut Vec<i64>) -> Option<Distribution> {
    if record.scheduled_at.is_empty() {
        return None;
    }
    buffer.clear();
    let pairs = record.scheduled_at.iter().zip(&record.issued_at);
    buffer.extend(pairs.map(|(&due, &at)| span(due, at)));
    Some(summarize(buffer, target, None).0)
}

/// Returns the distribution of the client's part of the lag; reuses `buffer` like [`lag`].
fn client_lag(record: &Record, target: f64, buffer: &mut Vec<i64>) -> Option<Distribution> {
    buffer.clear();
    buffer.extend(record.client_lag.iter().copied().map(i64::from));
    (!buffer.is_empty()).then(|| summarize(buffer, target, None).0)
}
