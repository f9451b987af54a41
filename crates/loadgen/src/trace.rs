//! The query trace: which samples are loaded, which query holds which samples, and when each query
//! is due. It is bit-identical to the reference for equal seeds.
//!
//! A [`Trace`] draws one query after the other. Its memory does not grow with their number.
//!
//! ```
//! use dyno_loadgen::plan::{Library, Plan};
//! use dyno_loadgen::settings::TestSettings;
//! use dyno_loadgen::trace::{Trace, loadable_sets};
//!
//! let plan =
//!     Plan::resolve(&TestSettings::default(), Library { total: 8, performance: 4 }).unwrap();
//! let sets = loadable_sets(&plan, false, 8);
//! assert_eq!(sets[0].samples.len(), 4);
//! let mut trace = Trace::new(&plan, &sets[0], false);
//! let mut indices = Vec::new();
//! let due = trace.next_query(&mut indices);
//! assert_eq!((due, indices.len()), (Some(0), 1));
//! ```

mod selection;

use crate::clock::{Nanos, SECOND};
use crate::plan::{Load, Plan, SampleChoice};
use crate::qsl::SampleIndex;
use crate::rng::Mt19937;
use crate::settings::{Arrivals, Scenario, TraceRules};

pub use selection::LogSelection;
pub(crate) use selection::ResponseFilter;

/// Set of samples that is loaded at once, in load order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedSet {
    /// Loaded samples. MultiStream pads the set with its own beginning, so that a query of
    /// contiguous samples may start anywhere.
    pub samples: Vec<SampleIndex>,
    /// Number of samples without the padding.
    pub end: usize,
}

/// Returns the sets of a run: one for a performance run; as many as needed for all samples of an
/// accuracy run.
///
/// `total` is the number of samples in the library.
pub fn loadable_sets(plan: &Plan, accuracy: bool, total: usize) -> Vec<LoadedSet> {
    let wanted = if accuracy { plan.accuracy_sample_count } else { plan.performance_sample_count };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(total);
    let shuffled = match plan.trace_rules {
        TraceRules::Current => wanted,
        TraceRules::UpTo5_1 => total,
    };
    let shuffled = SampleIndex::try_from(shuffled).expect("the plan bounds the library");
    let mut order: Vec<SampleIndex> = (0..shuffled).collect();
    Mt19937::new(plan.seeds.qsl).shuffle(&mut order);
    order.truncate(wanted);

    let in_memory = usize::try_from(plan.performance_sample_count).unwrap_or(usize::MAX).max(1);
    let padding = match plan.load {
        Load::MultiStream { .. } => plan.samples_per_query as usize - 1,
        _ => 0,
    };
    let sets = order.chunks(in_memory).map(|chunk| {
        let mut samples = chunk.to_vec();
        samples.reserve_exact(padding);
        // Copies from the growing set, so that a set shorter than the padding repeats.
        for i in 0..padding {
            samples.push(samples[i]);
        }
        LoadedSet { end: chunk.len(), samples }
    });
    if accuracy { sets.collect() } else { sets.take(1).collect() }
}

/// Size of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceSize {
    /// Number of queries.
    pub queries: u64,
    /// Samples in each query.
    pub samples_per_query: u64,
    /// When the query after the last one would be due.
    pub duration: Nanos,
}

/// Draws the queries of one run over one loaded set.
#[derive(Debug, Clone)]
pub struct Trace {
    set: LoadedSet,
    chooser: Chooser,
    sample_rng: Mt19937,
    gaps: Gaps,
    samples_per_query: usize,
    /// Minimum number of queries; grows by whole permutations in equal-issue mode.
    min_queries: u64,
    duration: Nanos,
    whole_permutations: bool,
    generated: u64,
    last_at: Nanos,
    next_at: Nanos,
}

/// How the samples of the next query are chosen from the loaded set.
#[derive(Debug, Clone)]
enum Chooser {
    /// The samples at these positions, one after the other.
    Permutation { positions: Vec<u32>, next: usize },
    /// The samples at this position; an Offline query repeats the one sample there.
    Same { at: usize, repeated: bool },
    /// Equal-issue mode: permutation after permutation of the whole set.
    EqualIssue(EqualIssue),
    /// A random position before `end`, with replacement.
    Random { end: u32 },
    /// The whole set, repeated up to the size of the single query.
    Whole { shuffled: bool },
}

impl Trace {
    /// Returns the trace of a run of `plan` over `set`.
    pub fn new(plan: &Plan, set: &LoadedSet, accuracy: bool) -> Self {
        let scenario = plan.scenario();
        let offline = scenario == Scenario::Offline;
        let set_len = set.samples.len() as u64;
        let unique = plan.choice == SampleChoice::Unique;

        let mut samples_per_query = plan.samples_per_query;
        if accuracy && offline {
            samples_per_query = set.end as u64;
        }
        let (mut duration, mut min_queries) = match scenario {
            Scenario::Server => (plan.target_duration, plan.min_query_count),
            _ => (plan.target_duration.saturating_mul(2), plan.min_query_count),
        };
        if accuracy || unique {
            duration = 0;
            min_queries = set_len / samples_per_query.max(1);
        }

        // The permutations are drawn in this order whether or not they are used, as in the
        // reference.
        let mut sample_rng = Mt19937::new(plan.seeds.sample_index);
        let stride = if scenario == Scenario::MultiStream { samples_per_query as usize } else { 1 };
        let permutation = |rng: &mut Mt19937| {
            let end = u32::try_from(set.end).expect("the plan bounds the library");
            let mut positions: Vec<u32> = (0..end).step_by(stride).collect();
            rng.shuffle(&mut positions);
            positions
        };
        let accuracy_order = accuracy.then(|| permutation(&mut sample_rng));
        let unique_order = as_recorded(permutation(&mut sample_rng), plan, set);
        let equal_issue = EqualIssue::draw(&mut sample_rng, set.samples.len(), min_queries);

        let chooser = match (plan.choice, accuracy_order) {
            (SampleChoice::Same(at), _) => {
                // The last set of an accuracy run may be shorter than the others; the reference
                // reads past it.
                let at = usize::try_from(at).ok().filter(|&at| at < set.end).unwrap_or(0);
                Chooser::Same { at, repeated: offline }
            }
            _ if offline => Chooser::Whole { shuffled: plan.concatenate_permutation },
            (SampleChoice::Unique, _) => Chooser::Permutation { positions: unique_order, next: 0 },
            _ if plan.concatenate_permutation && scenario != Scenario::MultiStream => {
                Chooser::EqualIssue(equal_issue)
            }
            (SampleChoice::Random, Some(positions)) => Chooser::Permutation { positions, next: 0 },
            (SampleChoice::Random, None) => Chooser::Random { end: set.end as u32 },
        };

        if plan.concatenate_permutation && !accuracy && set_len > 0 {
            if offline {
                samples_per_query = samples_per_query.next_multiple_of(set_len);
            } else {
                min_queries = min_queries.next_multiple_of(set_len);
            }
        }
        Self {
            set: set.clone(),
            chooser,
            sample_rng,
            gaps: Gaps::new(plan),
            samples_per_query: usize::try_from(samples_per_query).expect("the plan bounds queries"),
            min_queries,
            duration,
            whole_permutations: plan.concatenate_permutation && !offline,
            generated: 0,
            last_at: 0,
            next_at: 0,
        }
    }

    /// Draws the next query: appends its samples to `indices` and returns when it is due; `None` at
    /// the end of the trace.
    #[inline]
    pub fn next_query(&mut self, indices: &mut Vec<SampleIndex>) -> Option<Nanos> {
        if self.last_at >= self.duration && self.generated >= self.min_queries {
            return None;
        }
        self.beyond(indices)
    }

    /// Draws a query even past the end of the trace. Returns `None` if none is left: every sample
    /// was issued, or the recorded times are over.
    #[inline]
    pub fn beyond(&mut self, indices: &mut Vec<SampleIndex>) -> Option<Nanos> {
        let at = self.gaps.due(self.generated, self.next_at)?;
        self.choose(indices)?;
        self.generated += 1;
        self.last_at = at;
        self.next_at = self.gaps.after(at, self.generated);
        if self.whole_permutations
            && self.generated >= self.min_queries
            && self.last_at < self.duration
        {
            self.min_queries += self.set.samples.len() as u64;
        }
        Some(at)
    }

    /// Returns the size of the trace drawn so far.
    pub fn generated(&self) -> TraceSize {
        TraceSize {
            queries: self.generated,
            samples_per_query: self.samples_per_query as u64,
            duration: self.next_at,
        }
    }

    /// Returns the samples in each query.
    pub fn samples_per_query(&self) -> usize {
        self.samples_per_query
    }

    /// Returns an upper estimate of the number of queries, for reserving memory.
    pub fn expected_queries(&self, target_qps: f64) -> u64 {
        let by_duration = target_qps * (self.duration as f64 / SECOND as f64);
        self.min_queries.max((by_duration + 6.0 * by_duration.sqrt()) as u64 + 1)
    }

    /// Returns `queries` random samples of the loaded set, which are no part of the trace.
    pub fn other_samples(&self, seed: u64, queries: usize) -> Vec<SampleIndex> {
        let mut rng = Mt19937::new(seed);
        let end = u32::try_from(self.set.end).expect("the plan bounds the library");
        (0..queries).map(|_| self.set.samples[rng.bounded(end) as usize]).collect()
    }

    #[inline]
    fn choose(&mut self, indices: &mut Vec<SampleIndex>) -> Option<()> {
        let set = &self.set.samples;
        let start = match &mut self.chooser {
            Chooser::Random { end } => self.sample_rng.bounded(*end) as usize,
            Chooser::EqualIssue(order) => order.next(),
            Chooser::Permutation { positions, next } => {
                *next += 1;
                *positions.get(*next - 1)? as usize
            }
            Chooser::Same { at, repeated: true } => {
                indices.extend(std::iter::repeat_n(set[*at], self.samples_per_query));
                return Some(());
            }
            Chooser::Same { at, repeated: false } => *at,
            Chooser::Whole { shuffled } => {
                let mut left = self.samples_per_query;
                while left > 0 {
                    let take = left.min(set.len());
                    let from = indices.len();
                    indices.extend_from_slice(&set[..take]);
                    if *shuffled {
                        self.sample_rng.shuffle(&mut indices[from..]);
                    }
                    left -= take;
                }
                return Some(());
            }
        };
        if self.samples_per_query == 1 {
            indices.push(set[start]);
        } else {
            indices.extend_from_slice(&set[start..start + self.samples_per_query]);
        }
        Some(())
    }
}

/// Returns the shuffled positions unchanged, except for recorded arrival times: there the positions
/// are in the order of the library, because query k of a recording is its k-th sample.
fn as_recorded(mut positions: Vec<u32>, plan: &Plan, set: &LoadedSet) -> Vec<u32> {
    if let Load::Server(server) = &plan.load
        && let Arrivals::Replay(_) = server.arrivals
    {
        positions.sort_unstable_by_key(|&at| set.samples[at as usize]);
    }
    positions
}

/// Permutation after permutation of the positions `0..n`: a cyclic list of permutations, each a
/// shuffle of the one before.
///
/// The list is as long as the trace. It is drawn twice instead of stored: once to advance the
/// generator that the other choices use, and once query by query.
#[derive(Debug, Clone)]
struct EqualIssue {
    at_start: Mt19937,
    rng: Mt19937,
    positions: Vec<u32>,
    next: usize,
    permutation: u64,
    permutations: u64,
}

impl EqualIssue {
    fn draw(rng: &mut Mt19937, n: usize, min_queries: u64) -> Self {
        let at_start = rng.clone();
        let permutations = min_queries.div_ceil((n as u64).max(1));
        let mut positions: Vec<u32> = (0..n as u32).collect();
        for _ in 0..permutations {
            rng.shuffle(&mut positions);
        }
        Self {
            rng: at_start.clone(),
            at_start,
            next: n,
            positions,
            permutation: 0,
            // At least 1: the reference divides by zero if the list is empty.
            permutations: permutations.max(1),
        }
    }

    fn next(&mut self) -> usize {
        if self.next == self.positions.len() {
            if self.permutation.is_multiple_of(self.permutations) {
                self.rng = self.at_start.clone();
                for (at, position) in self.positions.iter_mut().enumerate() {
                    *position = at as u32;
                }
            }
            self.rng.shuffle(&mut self.positions);
            self.permutation += 1;
            self.next = 0;
        }
        self.next += 1;
        self.positions[self.next - 1] as usize
    }
}

/// Gaps between queries.
#[derive(Debug, Clone)]
enum Gaps {
    /// Closed loops and the single query of Offline: an estimate for the log.
    Period(Nanos),
    Exponential {
        rng: Mt19937,
        rate: f64,
    },
    Constant {
        rate: f64,
    },
    Gamma {
        rng: Mt19937,
        rate: f64,
        shape: f64,
    },
    Burst {
        rng: Mt19937,
        rate: f64,
        size: u64,
    },
    Recorded(std::sync::Arc<[Nanos]>),
}

impl Gaps {
    fn new(plan: &Plan) -> Self {
        let rate = plan.target_qps;
        let period = Self::Period((SECOND as f64 * (1.0 / rate)) as Nanos);
        let rng = || Mt19937::new(plan.seeds.schedule);
        match &plan.load {
            Load::SingleStream { .. } | Load::MultiStream { .. } | Load::Offline => period,
            Load::Server(server) => match &server.arrivals {
                Arrivals::Poisson => Self::Exponential { rng: rng(), rate },
                Arrivals::Constant => Self::Constant { rate },
                Arrivals::Gamma(shape) => Self::Gamma { rng: rng(), rate, shape: *shape },
                Arrivals::Burst(size) => {
                    let size = u64::from(*size).max(1);
                    Self::Burst { rng: rng(), rate: rate / size as f64, size }
                }
                Arrivals::Concurrency(_) => period,
                Arrivals::Replay(times) => Self::Recorded(times.clone()),
            },
        }
    }

    /// Returns when query `sequence` is due, if it exists.
    #[inline]
    fn due(&self, sequence: u64, next_at: Nanos) -> Option<Nanos> {
        match self {
            Self::Recorded(times) => times.get(sequence as usize).copied(),
            _ => Some(next_at),
        }
    }

    /// Returns when the query after one at `at` is due; `sequence` is its number.
    #[inline]
    fn after(&mut self, at: Nanos, sequence: u64) -> Nanos {
        // Truncation of seconds to whole nanoseconds, as the reference does.
        let nanos = |seconds: f64| (seconds * SECOND as f64) as Nanos;
        let gap = match self {
            Self::Period(period) => *period,
            Self::Burst { size, .. } if !sequence.is_multiple_of(*size) => 0,
            Self::Exponential { rng, rate } | Self::Burst { rng, rate, .. } => {
                nanos(rng.exponential(*rate))
            }
            Self::Constant { rate } => return nanos(sequence as f64 / *rate),
            Self::Gamma { rng, rate, shape } => nanos(rng.gamma_of_mean_one(*shape) / *rate),
            Self::Recorded(times) => {
                return times.get(sequence as usize).copied().unwrap_or(at);
            }
        };
        at.saturating_add(gap)
    }
}
