//! Queue with servers in virtual time, whose results can be compared with queueing theory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZero;

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use thiserror::Error;

/// Service time of a query with `n` samples: `base + n * per_sample`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Time per query, ns.
    pub base: Nanos,
    /// Time per sample, ns.
    pub per_sample: Nanos,
}

impl Cost {
    fn query_time(self, samples: usize) -> Nanos {
        self.base.saturating_add(self.per_sample.saturating_mul(samples as u64))
    }
}

/// Distribution of service times.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceTime {
    /// The cost itself.
    Deterministic(Cost),
    /// Exponential with the cost as mean.
    Exponential(Cost),
    /// Lognormal with the cost as mean.
    LogNormal {
        /// Mean.
        mean: Cost,
        /// Standard deviation of the logarithm; at least 0.
        sigma: f64,
    },
    /// Measured times in ns, at least one, drawn at random with replacement. They do not depend on
    /// the size of the query.
    Drawn(Vec<Nanos>),
    /// Query `i` takes the `i`-th of these times in ns, at least one; the list repeats. Times do
    /// not depend on the size of the query.
    Listed(Vec<Nanos>),
}

/// Output tokens of a system that generates text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Minimum number of tokens. The number is drawn uniformly from `fewest..=most` for each query
    /// and applies to all of its samples.
    pub fewest: u32,
    /// Maximum number of tokens; at least `fewest`.
    pub most: u32,
    /// Time per output token after the first, ns.
    pub per_token: Nanos,
}

/// Random, independent faults of queries.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// Share of queries, in [0, 1], whose samples all fail at the time when they would complete.
    pub failed: f64,
    /// Share of queries, in [0, 1], that are never answered. They occupy a server for their service
    /// time.
    pub unanswered: f64,
}

/// Parameters of a [`ServiceModel`].
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Number of servers that share one queue, first come, first served. A server serves a whole
    /// query, and its samples complete together.
    pub servers: NonZero<usize>,
    /// Service time. With tokens, it is the time to the first token.
    pub service: ServiceTime,
    /// Output tokens; `None` for systems without tokens.
    pub tokens: Option<Tokens>,
    /// Faults.
    pub faults: Faults,
    /// Seed of service times and faults.
    pub seed: u64,
}

/// Maximum number of servers of a [`Model`].
pub const MOST_SERVERS: usize = 1_000_000;

/// Maximum standard deviation of the logarithm of lognormal service times: the median is 1/3000 of the
/// mean. With more, nearly all times are 0 ns.
pub const MOST_SIGMA: f64 = 4.0;

impl Model {
    /// Returns the parameters of one server without tokens or faults, with seed 0.
    pub fn single(service: ServiceTime) -> Self {
        let servers = NonZero::<usize>::MIN;
        Self { servers, service, tokens: None, faults: Faults::default(), seed: 0 }
    }
}

/// Error: a [`Model`] has invalid parameters.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A list of service times is empty.
    #[error("a list of service times needs at least one")]
    NoTimes,
    /// Every query takes 0 ns, so that a client that waits for answers never sees time pass.
    #[error("every query takes 0 ns; a service time of at least 1 ns is needed")]
    NoTime,
    /// There are too many servers.
    #[error("expected at most {MOST_SERVERS} servers, found {0}")]
    Servers(usize),
    /// The standard deviation of the logarithm is negative or too large.
    #[error("sigma is {0}; it must be from 0 to {MOST_SIGMA}")]
    Sigma(f64),
    /// The shares of failed and of unanswered queries are not in [0, 1], or their sum exceeds 1.
    #[error(
        "{} of the queries fail and {} are never answered; both shares must lie in 0..=1, and so \
         must their sum",
        .0.failed, .0.unanswered
    )]
    Faults(Faults),
    /// The range of token counts is empty or starts below 1.
    #[error(
        "tokens are {} to {}; the range must start at 1 or more",
        .0.fewest, .0.most
    )]
    Tokens(Tokens),
}

impl Model {
    fn check(&self) -> Result<(), ModelError> {
        match &self.service {
            ServiceTime::Drawn(times) | ServiceTime::Listed(times) if times.is_empty() => {
                return Err(ModelError::NoTimes);
            }
            ServiceTime::LogNormal { sigma, .. } if !(0.0..=MOST_SIGMA).contains(sigma) => {
                return Err(ModelError::Sigma(*sigma));
            }
            _ => {}
        }
        let takes_time = match &self.service {
            ServiceTime::Deterministic(cost) | ServiceTime::Exponential(cost) => {
                cost.query_time(1) > 0
            }
            ServiceTime::LogNormal { mean, .. } => mean.query_time(1) > 0,
            ServiceTime::Drawn(times) | ServiceTime::Listed(times) => times.iter().any(|t| *t > 0),
        };
        let has_slow_tokens =
            self.tokens.is_some_and(|tokens| tokens.per_token > 0 && tokens.most > 1);
        if !takes_time && !has_slow_tokens {
            return Err(ModelError::NoTime);
        }
        if self.servers.get() > MOST_SERVERS {
            return Err(ModelError::Servers(self.servers.get()));
        }
        let Faults { failed, unanswered } = self.faults;
        let share = |share| (0.0..=1.0).contains(&share);
        if !(share(failed) && share(unanswered) && share(failed + unanswered)) {
            return Err(ModelError::Faults(self.faults));
        }
        match self.tokens {
            Some(tokens) if !(1 <= tokens.fewest && tokens.fewest <= tokens.most) => {
                Err(ModelError::Tokens(tokens))
            }
            _ => Ok(()),
        }
    }
}

/// Servers behind one queue, first come, first served.
///
/// The first query after a flush begins a new run: the servers are idle and time restarts at 0. The
/// random numbers continue.
///
/// When a query arrives, the time at which each server becomes free is known. The query therefore
/// gets its server and its end immediately, and only the ends have to be sorted. With one server
/// they are already in order.
///
/// ```
/// use dyno_loadgen::sut::{ResponseId, SimulatedQuery, SimulatedSystem};
/// use dyno_sut::model::{Cost, Model, ServiceModel, ServiceTime};
///
/// let cost = Cost { base: 1_000, per_sample: 10 };
/// let mut model = ServiceModel::new(Model::single(ServiceTime::Deterministic(cost)))?;
/// let query = SimulatedQuery { tenant: 0, first: ResponseId::new(1, 0, 0), indices: &[0, 1] };
/// model.issue(500, &query);
/// assert_eq!(model.next_event(), Some(500 + 1_020));
/// let mut completions = Vec::new();
/// model.advance(1_520, &mut completions);
/// assert_eq!(completions.len(), 2);
/// # Ok::<(), dyno_sut::model::ModelError>(())
/// ```
#[derive(Debug)]
pub struct ServiceModel {
    service: ServiceTime,
    tokens: Option<Tokens>,
    faults: Faults,
    /// Generator of service times. Faults have their own generator, so that they do not change
    /// service times.
    service_rng: Mt19937,
    fault_rng: Mt19937,
    queries: u64,
    servers: Servers,
    /// The run is over: time restarts with the next query.
    flushed: bool,
}

#[derive(Debug)]
enum Servers {
    One { free_at: Nanos, ends: VecDeque<Job> },
    Many { free_at: BinaryHeap<Reverse<Nanos>>, ends: BinaryHeap<Reverse<Job>> },
}

/// A query in service or in the queue. Jobs are ordered by end and then by arrival, because the
/// number is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    end: Nanos,
    number: u64,
    first: ResponseId,
    samples: usize,
    outcome: JobOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum JobOutcome {
    Plain,
    Tokens { first_at: Nanos, count: i64 },
    Failed,
    Unanswered,
}

impl Servers {
    fn idle(count: usize) -> Self {
        match count {
            1 => Self::One { free_at: 0, ends: VecDeque::new() },
            n => Self::Many {
                free_at: std::iter::repeat_n(Reverse(0), n).collect(),
                ends: BinaryHeap::new(),
            },
        }
    }

    /// Makes all servers idle at time 0.
    fn reset(&mut self) {
        match self {
            Self::One { free_at, ends } => {
                *free_at = 0;
                ends.clear();
            }
            Self::Many { free_at, .. } => *self = Self::idle(free_at.len()),
        }
    }
}

impl ServiceModel {
    /// Returns an idle system.
    ///
    /// # Errors
    /// [`ModelError`] if a parameter is invalid.
    pub fn new(model: Model) -> Result<Self, ModelError> {
        model.check()?;
        Ok(Self {
            service: model.service,
            tokens: model.tokens,
            faults: model.faults,
            service_rng: Mt19937::new(model.seed),
            fault_rng: Mt19937::new(model.seed.wrapping_add(1)),
            queries: 0,
            servers: Servers::idle(model.servers.get()),
            flushed: false,
        })
    }

    fn service_time(&mut self, samples: usize) -> Nanos {
        let rng = &mut self.service_rng;
        match &self.service {
            ServiceTime::Deterministic(cost) => cost.query_time(samples),
            ServiceTime::Exponential(mean) => {
                scaled(mean.query_time(samples), rng.exponential(SECOND as f64) * SECOND as f64)
            }
            ServiceTime::LogNormal { mean, sigma } => {
                // exp(sigma z - sigma^2 / 2) has mean 1.
                let factor = (sigma * rng.normal() - sigma * sigma / 2.0).exp();
                scaled(mean.query_time(samples), factor)
            }
            ServiceTime::Drawn(times) => times[below(times.len() as u64, rng) as usize],
            ServiceTime::Listed(times) => times[(self.queries % times.len() as u64) as usize],
        }
    }

    fn outcome(&mut self) -> (JobOutcome, Nanos) {
        let mut outcome = JobOutcome::Plain;
        let mut decoding = 0;
        if let Some(tokens) = self.tokens {
            let span = u64::from(tokens.most - tokens.fewest) + 1;
            let more = below(span, &mut self.service_rng);
            let count = u64::from(tokens.fewest) + more;
            decoding = tokens.per_token.saturating_mul(count - 1);
            outcome = JobOutcome::Tokens { first_at: 0, count: count as i64 };
        }
        let Faults { failed, unanswered } = self.faults;
        if failed > 0.0 || unanswered > 0.0 {
            let draw = self.fault_rng.canonical();
            if draw < unanswered {
                outcome = JobOutcome::Unanswered;
            } else if draw < unanswered + failed {
                outcome = JobOutcome::Failed;
            }
        }
        (outcome, decoding)
    }
}

fn scaled(mean: Nanos, factor: f64) -> Nanos {
    (mean as f64 * factor).round() as Nanos
}

fn below(n: u64, rng: &mut Mt19937) -> u64 {
    (rng.canonical() * n as f64) as u64
}

impl SimulatedSystem for ServiceModel {
    fn name(&self) -> &str {
        "model"
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if std::mem::take(&mut self.flushed) {
            self.servers.reset();
            self.queries = 0;
        }
        let samples = query.indices.len();
        let service = self.service_time(samples);
        let (mut outcome, decoding) = self.outcome();
        let number = self.queries;
        self.queries += 1;
        let free_at = match &mut self.servers {
            Servers::One { free_at, .. } => *free_at,
            Servers::Many { free_at, .. } => free_at.pop().expect("one entry per server").0,
        };
        let first_token = free_at.max(now).saturating_add(service);
        let end = first_token.saturating_add(decoding);
        if let JobOutcome::Tokens { first_at, .. } = &mut outcome {
            *first_at = first_token;
        }
        let job = Job { end, number, first: query.first, samples, outcome };
        match &mut self.servers {
            Servers::One { free_at, ends } => {
                *free_at = end;
                ends.push_back(job);
            }
            Servers::Many { free_at, ends } => {
                free_at.push(Reverse(end));
                ends.push(Reverse(job));
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match &self.servers {
            Servers::One { ends, .. } => ends.front().map(|job| job.end),
            Servers::Many { ends, .. } => ends.peek().map(|job| job.0.end),
        }
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while self.next_event().is_some_and(|end| end <= now) {
            let job = match &mut self.servers {
                Servers::One { ends, .. } => ends.pop_front(),
                Servers::Many { ends, .. } => ends.pop().map(|job| job.0),
            };
            complete(&job.expect("the next event is a job's end"), completions);
        }
    }

    fn flush(&mut self, _now: Nanos) {
        self.flushed = true;
    }
}

fn complete(job: &Job, completions: &mut Vec<SimulatedCompletion>) {
    let (first_token_at, outcome) = match job.outcome {
        JobOutcome::Plain => (None, Outcome::Ok { tokens: 0 }),
        JobOutcome::Tokens { first_at, count } => (Some(first_at), Outcome::Ok { tokens: count }),
        JobOutcome::Failed => (None, Outcome::Failed(Failure::Internal)),
        JobOutcome::Unanswered => return,
    };
    completions.extend((0..job.samples as u64).map(|i| SimulatedCompletion {
        id: ResponseId(job.first.0 + i),
        first_token_at,
        outcome,
    }));
}
