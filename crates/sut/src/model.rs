//! A queue with servers, in virtual time: what queueing theory knows the
//! answers of.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::num::NonZero;

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

/// Time that a query of `n` samples takes: `base + n * per_sample`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Per query, ns.
    pub base: Nanos,
    /// Per sample, ns.
    pub per_sample: Nanos,
}

impl Cost {
    fn of(self, samples: usize) -> Nanos {
        self.base.saturating_add(self.per_sample.saturating_mul(samples as u64))
    }
}

/// How long a server works on a query.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceTime {
    /// Always the cost.
    Deterministic(Cost),
    /// Exponentially distributed with the cost as mean.
    Exponential(Cost),
    /// Lognormal with the cost as mean.
    LogNormal {
        /// Mean.
        mean: Cost,
        /// Standard deviation of the logarithm (>= 0).
        sigma: f64,
    },
    /// One of these measured times (at least one, ns), drawn at random with
    /// replacement; whatever the query's size.
    Drawn(Vec<Nanos>),
    /// Query `i` takes the `i`-th of these times (at least one, ns), beginning
    /// again at the end; whatever the query's size.
    Listed(Vec<Nanos>),
}

/// Output tokens of a system that generates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Each query has a count drawn uniformly from `fewest..=most`, the same
    /// for all of its samples.
    pub fewest: u32,
    /// At least `fewest`.
    pub most: u32,
    /// Time per output token after the first, ns.
    pub per_token: Nanos,
}

/// Queries that go wrong, at random and independently.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// Share of queries whose samples all fail, at the time when they would be
    /// complete, in [0, 1].
    pub failed: f64,
    /// Share of queries that are never answered, though they occupy a server
    /// for their time, in [0, 1].
    pub unanswered: f64,
}

/// What a [`ServiceModel`] is built from.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Servers that share one queue, first come first served. A query is
    /// served whole by one of them, and its samples are complete together.
    pub servers: NonZero<usize>,
    /// How long they work. With tokens, this is the time to the first one.
    pub service: ServiceTime,
    /// Output tokens, if it has any.
    pub tokens: Option<Tokens>,
    /// What goes wrong.
    pub faults: Faults,
    /// Same seed, same times.
    pub seed: u64,
}

impl Model {
    /// One server without tokens or faults, seed 0.
    #[must_use]
    pub fn single(service: ServiceTime) -> Self {
        let servers = NonZero::<usize>::MIN;
        Self { servers, service, tokens: None, faults: Faults::default(), seed: 0 }
    }
}

/// What is wrong with a [`Model`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ModelError {
    /// A list of service times is empty.
    NoTimes,
    /// The standard deviation of the logarithm is negative or not finite.
    Sigma(f64),
    /// Shares of failed and of unanswered queries are not in [0, 1], or exceed 1
    /// together.
    Faults(Faults),
    /// The range of token counts is empty or starts below 1.
    Tokens(Tokens),
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimes => f.write_str("a list of service times needs at least one"),
            Self::Sigma(sigma) => write!(f, "sigma is {sigma}; it must be 0 or more"),
            Self::Faults(Faults { failed, unanswered }) => write!(
                f,
                "{failed} of the queries fail and {unanswered} are never answered; both shares \
                 must lie in 0..=1, and so must their sum"
            ),
            Self::Tokens(Tokens { fewest, most, .. }) => {
                write!(f, "tokens are {fewest} to {most}; the range must start at 1 or more")
            }
        }
    }
}

impl std::error::Error for ModelError {}

impl Model {
    fn check(&self) -> Result<(), ModelError> {
        match &self.service {
            ServiceTime::Drawn(times) | ServiceTime::Listed(times) if times.is_empty() => {
                return Err(ModelError::NoTimes);
            }
            ServiceTime::LogNormal { sigma, .. } if !(sigma.is_finite() && *sigma >= 0.0) => {
                return Err(ModelError::Sigma(*sigma));
            }
            _ => {}
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

/// Servers behind one queue, first come first served.
///
/// The first query after a flush begins a new run: the servers are idle and time
/// starts again, while the random numbers go on.
///
/// When a query arrives, the time at which each server becomes free is known,
/// so a query gets its server and its end at once; what remains are the ends,
/// in order. With one server they are in order by themselves.
#[derive(Debug)]
pub struct ServiceModel {
    service: ServiceTime,
    tokens: Option<Tokens>,
    faults: Faults,
    /// Service times; apart from the faults, so that these do not change them.
    service_rng: Mt19937,
    fault_rng: Mt19937,
    queries: u64,
    servers: Servers,
    /// The run is over; time starts again with the next query.
    flushed: bool,
}

#[derive(Debug)]
enum Servers {
    One { free_at: Nanos, ends: VecDeque<Job> },
    Many { free_at: BinaryHeap<Reverse<Nanos>>, ends: BinaryHeap<Reverse<Job>> },
}

/// A query in service or in the queue. The order is the order of ends, then of
/// arrival, since the number is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    end: Nanos,
    number: u64,
    first: ResponseId,
    samples: usize,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
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

    /// Idle at time 0, whatever was left over.
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
    /// An idle system.
    ///
    /// # Errors
    /// [`ModelError`] if the model contradicts itself.
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
            ServiceTime::Deterministic(cost) => cost.of(samples),
            ServiceTime::Exponential(mean) => {
                scaled(mean.of(samples), rng.exponential(SECOND as f64) * SECOND as f64)
            }
            ServiceTime::LogNormal { mean, sigma } => {
                // exp(sigma z - sigma^2 / 2) has mean 1.
                let factor = (sigma * rng.normal() - sigma * sigma / 2.0).exp();
                scaled(mean.of(samples), factor)
            }
            ServiceTime::Drawn(times) => times[below(times.len() as u64, rng) as usize],
            ServiceTime::Listed(times) => times[(self.queries % times.len() as u64) as usize],
        }
    }

    fn fate(&mut self) -> (Fate, Nanos) {
        let mut fate = Fate::Plain;
        let mut decoding = 0;
        if let Some(tokens) = self.tokens {
            let span = u64::from(tokens.most - tokens.fewest) + 1;
            let more = below(span, &mut self.service_rng);
            let count = u64::from(tokens.fewest) + more;
            decoding = tokens.per_token.saturating_mul(count - 1);
            fate = Fate::Tokens { first_at: 0, count: count as i64 };
        }
        let Faults { failed, unanswered } = self.faults;
        if failed > 0.0 || unanswered > 0.0 {
            let draw = self.fault_rng.canonical();
            if draw < unanswered {
                fate = Fate::Unanswered;
            } else if draw < unanswered + failed {
                fate = Fate::Failed;
            }
        }
        (fate, decoding)
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
        let (mut fate, decoding) = self.fate();
        let number = self.queries;
        self.queries += 1;
        let free_at = match &mut self.servers {
            Servers::One { free_at, .. } => *free_at,
            Servers::Many { free_at, .. } => free_at.pop().expect("one entry per server").0,
        };
        let first_token = free_at.max(now).saturating_add(service);
        let end = first_token.saturating_add(decoding);
        if let Fate::Tokens { first_at, .. } = &mut fate {
            *first_at = first_token;
        }
        let job = Job { end, number, first: query.first, samples, fate };
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
    let (first_token_at, outcome) = match job.fate {
        Fate::Plain => (None, Outcome::Ok { tokens: 0 }),
        Fate::Tokens { first_at, count } => (Some(first_at), Outcome::Ok { tokens: count }),
        Fate::Failed => (None, Outcome::Failed(Failure::Internal)),
        Fate::Unanswered => return,
    };
    completions.extend((0..job.samples as u64).map(|i| SimulatedCompletion {
        id: ResponseId(job.first.0 + i),
        first_token_at,
        outcome,
    }));
}
