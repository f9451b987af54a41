//! The search for the highest load that keeps several limits at once. It is pure: it returns which
//! load to run and for how long, and takes the observations of the run.
//!
//! Doubling brackets the peak with short runs. Further short runs, each with its own arrivals, are
//! placed where the peak may lie. All runs together estimate the peak and its uncertainty
//! ([`fit`]). When the estimate is certain enough, a full run at a load that should pass confirms
//! it. If that run fails, it counts like the others, and a lower load is tried. A [`step`] is known as
//! soon as its neighbors are.
//!
//! Short runs are biased towards low latencies, because they begin with an empty queue. Their
//! beginning is therefore ignored, and runs become longer as the search becomes more certain, so
//! that the remaining bias stays below the random error. A wide limit needs longer runs ([`length`]), and
//! passes only with a backlog that returns to its earlier level.
//!
//! ```
//! use dyno_loadgen::clock::{MILLISECOND, SECOND};
//! use dyno_loadgen::search::{Limit, Purpose, Quantity, Rules, Search, Step, Unit};
//!
//! let limit =
//!     Limit { quantity: Quantity::Latency, allowed: 0.01, bound: 100 * MILLISECOND };
//! let search = Search::new(Rules {
//!     limits: vec![limit],
//!     from: 10.0,
//!     to: None,
//!     unit: Unit::Rate,
//!     tolerance: 0.02,
//!     short: SECOND,
//!     full: 60 * SECOND,
//!     full_queries: 1_000,
//!     certain_queries: 0,
//!     full_runs: 1,
//!     most_queries: 1_000_000,
//!     max_time: 3_600 * SECOND,
//!     confirmations: 3,
//! });
//! let Step::Run(probe) = search.next() else { panic!("the search begins with a run") };
//! assert_eq!((probe.load, probe.purpose), (10.0, Purpose::Bracket));
//! ```

mod evidence;
mod fit;
mod length;
mod limit;
mod peak;
mod rules;
mod step;

pub use limit::{BLOCKS, Block, Limit, Quantity};
pub use peak::Peak;
pub use rules::{Rules, Unit};

use crate::clock::{Nanos, SECOND};

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Search for a load that fails.
    Bracket,
    /// Make the estimate of the peak more certain.
    Refine,
    /// Full run that confirms the peak.
    Confirm {
        /// Number of the attempt, from 1.
        attempt: u32,
    },
}

/// A run that the search requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Number of the probe, from 0. Each probe needs different arrivals.
    pub number: u64,
    /// Load.
    pub load: f64,
    /// How long queries are issued, ns.
    pub duration: Nanos,
    /// Purpose.
    pub purpose: Purpose,
}

/// Next step of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run this probe and answer with [`Search::observe`].
    Run(Probe),
    /// The search is over.
    Done(Outcome),
}

/// Observations of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Probe that was run.
    pub probe: Probe,
    /// Total time of the run, ns.
    pub took: Nanos,
    /// Whether queries piled up: it was ended early, or more and more were outstanding until its end.
    /// It then exceeds every latency limit.
    pub overloaded: bool,
    /// Whether a confirming run is valid and keeps every limit.
    pub passed: bool,
    /// Counts of each stretch, per limit.
    pub blocks: Vec<Vec<Block>>,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A full run at [`Outcome::confirmed`] is valid and keeps every limit.
    Confirmed,
    /// The peak is known to within the tolerance; no confirmation was requested.
    Estimated,
    /// No full run passed.
    Unconfirmed,
    /// The time limit was reached first.
    OutOfTime,
    /// The result of a run hardly depends on its load, or [`MOST_REFINEMENTS`] runs do not show how.
    Unclear,
    /// No load passes, down to the lowest load tried.
    NothingPasses,
    /// Every load passes, up to the highest load tried.
    NothingFails,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Estimate of the peak, if it was bracketed.
    pub peak: Option<Peak>,
    /// Load at which a full run passed.
    pub confirmed: Option<f64>,
}

/// State of a search.
#[derive(Debug, Clone)]
pub struct Search {
    rules: Rules,
    observations: Vec<Observation>,
    /// Estimate of the peak, once it is bracketed.
    peak: Option<Peak>,
    /// Time of runs without observations, ns.
    lost: Nanos,
}

/// Maximum number of doublings or halvings.
const MOST_BRACKETS: usize = 40;
/// Minimum number of refining runs before the interval of the peak is trusted.
const LEAST_REFINEMENTS: usize = 16;
/// Minimum spread of refining runs to each side of the peak, in tolerances.
const LEAST_SPREAD: f64 = 2.0;
/// Uncertainty of the peak, in tolerances, up to which it is confirmed if no time is left to refine
/// it.
const NEARLY: f64 = 3.0;
/// Uncertainty of the peak, in tolerances, up to which a confirmation remains valid: the confirming
/// run itself moves the estimate a little.
const SETTLED: f64 = 1.5;
/// Maximum queries in flight, or samples in a query: more of them only measure the memory.
const MOST_WHOLE: f64 = 1_048_576.0;
/// Number of refining runs after which the search gives up if the interval of the peak is still
/// wider than [`WIDE`] (a logarithm: a factor of 4).
const MOST_WIDE: usize = 40;
const WIDE: f64 = 1.4;
/// Number of refining runs after which the search gives up if they do not show that the loads on one side of
/// the peak keep all limits, or that those on the other miss one, although enough of them are far from it.
const MOST_UNSHOWN: usize = 120;
/// Number of refining runs after which a whole load is known well enough if it is one of two neighbors. At a
/// load where just the allowed share is over a limit, no number of them decides, but full runs do.
const MOST_OF_NEIGHBORS: usize = 40;
/// Maximum number of refining runs.
pub const MOST_REFINEMENTS: usize = 200;
/// Divisor for the length of a refining run: the total length of all refining runs so far, divided
/// by this.
const GROWTH: u64 = 8;
/// Maximum length of a refining run, in lengths of the first runs.
const LONGEST: u64 = 15;
/// A run is ended when this many times the allowed number of queries over the bound are waiting.
const FAR_OVER: f64 = 10.0;
/// Minimum number of outstanding queries at which a run is ended.
const FEWEST_OUTSTANDING: f64 = 100.0;
/// Distance of a refining run below the lowest load of those that bracketed the peak, as a factor.
const FARTHEST: f64 = 8.0;
/// Divisor for the ignored beginning of a run: its length divided by this.
const BEGINNING: u64 = 5;

impl Search {
    /// Returns a search without observations.
    ///
    /// # Panics
    /// If there is no limit, or the first load is not above 0.
    pub fn new(rules: Rules) -> Self {
        assert!(!rules.limits.is_empty(), "a search needs a limit");
        assert!(rules.from > 0.0, "a load is above 0");
        Self { rules, observations: Vec::new(), peak: None, lost: 0 }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns all observations, in order.
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// Returns the estimate of the peak, once it is bracketed.
    pub fn peak(&self) -> Option<&Peak> {
        self.peak.as_ref()
    }

    /// Returns the time of all runs so far, ns.
    pub fn spent(&self) -> Nanos {
        let observation = self.observations.iter().map(|observation| observation.took);
        observation.fold(self.lost, Nanos::saturating_add)
    }

    /// Returns the remaining time, ns. A run that takes longer must be ended and reported to
    /// [`Search::lose`].
    pub fn left(&self) -> Nanos {
        self.rules.max_time.saturating_sub(self.spent())
    }

    /// Records a run without observations that took this long, ns.
    pub fn lose(&mut self, took: Nanos) {
        self.lost = self.lost.saturating_add(took);
    }

    /// Returns whether a run kept this limit, by its own counts.
    pub fn is_kept(&self, observation: &Observation, limit: usize) -> bool {
        self.rules.limits[limit].is_kept(&self.counted(observation, limit))
    }

    /// Returns whether a run kept every limit, by its own counts.
    pub fn keeps_all(&self, observation: &Observation) -> bool {
        (0..self.rules.limits.len()).all(|limit| self.is_kept(observation, limit))
    }

    /// Records the observation of the run that [`Search::next`] requested.
    pub fn observe(&mut self, observation: Observation) {
        self.observations.push(observation);
        let is_bracketed = self.peak.is_some() || self.is_bracketed();
        self.peak = is_bracketed.then(|| self.estimate());
    }

    /// Returns the next step without changing the state.
    #[must_use]
    pub fn next(&self) -> Step {
        let Some(peak) = &self.peak else { return self.bracket() };
        let attempts = self.attempts();
        let is_certain = self.is_certain(peak);
        // A search that continues with a smaller tolerance must first become more certain.
        let last = self.observations.last().filter(|observation| observation.is_confirmed());
        let confirmed = last.map(|observation| observation.probe.load);
        if confirmed.is_some() && (is_certain || self.is_within(SETTLED, peak)) {
            return self.done(End::Confirmed, confirmed);
        }
        let is_unshown = || self.unshown_side(peak).is_some_and(|side| self.is_checked(side, peak));
        let is_wide = (self.refinements() >= MOST_WIDE && peak.is_wider_than(WIDE))
            || (self.refinements() >= MOST_UNSHOWN && is_unshown());
        if is_wide || (!is_certain && self.fails_at_any_load()) {
            return self.done(End::Unclear, None);
        }
        if !is_certain && self.refinements() < MOST_REFINEMENTS {
            let probe = self.refinement(peak);
            if self.fits(probe.duration, peak) {
                return Step::Run(probe);
            }
        }
        // Out of time or runs: a full run is still useful if the peak is nearly known, or if both sides are.
        let is_last = self.refinements() >= MOST_REFINEMENTS;
        let has_full_runs = self.rules.confirmations > 0;
        let is_shown = is_last && has_full_runs && self.unshown_side(peak).is_none();
        if !is_certain && !is_shown && !self.is_within(NEARLY, peak) {
            return self.done(if is_last { End::Unclear } else { End::OutOfTime }, None);
        }
        if confirmed.is_some() {
            return self.done(End::Confirmed, confirmed);
        }
        match self.rules.confirmations {
            0 if is_certain => self.done(End::Estimated, None),
            0 => self.done(End::OutOfTime, None),
            most if attempts >= most => self.done(End::Unconfirmed, None),
            _ => self.confirmation(peak, attempts + 1),
        }
    }

    fn done(&self, end: End, confirmed: Option<f64>) -> Step {
        let is_unshown = |peak: &Peak| self.unshown_side(peak) == Some(evidence::Side::Below);
        let peak = self.peak.clone().filter(|peak| end != End::OutOfTime || !is_unshown(peak));
        Step::Done(Outcome { end, peak, confirmed })
    }

    fn probe(&self, load: f64, duration: Nanos, purpose: Purpose) -> Probe {
        let enough = match (self.rules.unit, purpose) {
            (_, Purpose::Confirm { .. }) | (Unit::Whole, _) => f64::INFINITY,
            (Unit::Rate, _) => self.rules.most_queries as f64 / load * SECOND as f64,
        };
        let duration = if enough < duration as f64 { enough as Nanos } else { duration };
        Probe { number: self.observations.len() as u64, load, duration, purpose }
    }

    /// The highest load that passed and the lowest one that failed.
    fn bounds(&self) -> (Option<f64>, Option<f64>) {
        let loads = |result: evidence::Result| {
            let tried = self.observations.iter().map(|run| run.probe.load);
            tried.filter(move |&load| self.result_at(load) == result)
        };
        let passed = loads(evidence::Result::Passed).reduce(f64::max);
        (passed, loads(evidence::Result::Failed).reduce(f64::min))
    }

    fn is_bracketed(&self) -> bool {
        matches!(self.bounds(), (Some(_), Some(_)))
    }

    fn bracket(&self) -> Step {
        let last = self.observations.last().map(|run| run.probe.load);
        let open = last.filter(|&load| self.result_at(load) == evidence::Result::Open);
        let (load, duration) = match self.bounds() {
            _ if open.is_some() => {
                let longer = self.rules.short.saturating_mul(evidence::LONG_ENOUGH - 1);
                (open.unwrap_or(self.rules.from), longer)
            }
            (None, None) => (self.rules.from, self.rules.short),
            (Some(passed), _) => match self.rules.to {
                Some(to) if passed < to => (to, self.rules.short),
                Some(_) => return self.done(End::NothingFails, None),
                _ => (passed * 2.0, self.rules.short),
            },
            (None, Some(failed)) => {
                let load = failed / 2.0;
                let needed = self.length_that_can_pass(failed, load);
                if needed > self.longest() as f64 {
                    return self.done(End::NothingPasses, None);
                }
                (load, self.rules.short.max(needed as Nanos))
            }
        };
        let load = match self.rules.unit {
            Unit::Rate => load,
            Unit::Whole => load.round(),
        };
        let tried = self.observations.iter().any(|observation| observation.probe.load == load);
        if (load < 1.0 || (tried && open.is_none())) && self.rules.unit == Unit::Whole {
            return self.done(End::NothingPasses, None);
        }
        if self.observations.len() >= MOST_BRACKETS {
            let passes = self.bounds().0.is_some();
            return self.done(if passes { End::NothingFails } else { End::NothingPasses }, None);
        }
        if self.rules.unit == Unit::Whole && load > MOST_WHOLE {
            return self.done(End::NothingFails, None);
        }
        if self.takes(duration) > self.left() {
            return self.done(End::OutOfTime, None);
        }
        Step::Run(self.probe(load, duration, Purpose::Bracket))
    }

    /// Returns the maximum length of a short run, ns.
    fn longest(&self) -> Nanos {
        self.rules.short.saturating_mul(LONGEST)
    }

    fn refining(&self) -> impl Iterator<Item = &Observation> {
        self.observations.iter().filter(|run| run.probe.purpose == Purpose::Refine)
    }

    fn refinements(&self) -> usize {
        self.refining().count()
    }

    /// Returns whether the peak is known to within the tolerance.
    fn is_certain(&self, peak: &Peak) -> bool {
        let narrow = match self.rules.unit {
            Unit::Rate => false,
            Unit::Whole => match peak.high.floor() - peak.low.floor() {
                ..0.5 => true,
                ..1.5 => self.refinements() >= MOST_OF_NEIGHBORS,
                _ => false,
            },
        };
        let narrow = narrow || self.is_within(1.0, peak);
        self.refinements() >= LEAST_REFINEMENTS && narrow
    }

    fn is_within(&self, tolerances: f64, peak: &Peak) -> bool {
        peak.half_width() <= tolerances * self.rules.tolerance
    }

    /// Returns the total time of a run of this length, ns: it includes the time to answer the last
    /// queries, as observed in runs that kept every limit.
    fn takes(&self, duration: Nanos) -> Nanos {
        let longer = |observation: &Observation| {
            observation.took.saturating_sub(self.lasts(&observation.probe))
        };
        let kept = self.observations.iter().filter(|observation| self.keeps_all(observation));
        duration.saturating_add(kept.map(longer).max().unwrap_or(0))
    }

    /// Returns how long queries are issued, ns, in all runs of a probe.
    fn lasts(&self, probe: &Probe) -> Nanos {
        match probe.purpose {
            Purpose::Confirm { .. } => {
                probe.duration.saturating_mul(u64::from(self.rules.full_runs))
            }
            Purpose::Bracket | Purpose::Refine => probe.duration,
        }
    }

    /// Returns the next refining run. Its load comes from a sequence that fills the posterior
    /// evenly.
    fn refinement(&self, peak: &Peak) -> Probe {
        let placed = peak.placed(self.refinements() as u64 + 1);
        // Not too close to the peak: otherwise the slope stays unknown, and an early error is not
        // detected.
        let wider = (LEAST_SPREAD * self.rules.tolerance / peak.spread).max(1.0);
        let load = peak.middle * (placed / peak.middle).powf(wider);
        let load = self.check(peak).unwrap_or(load).max(self.lowest() / FARTHEST);
        let load = self.rules.to.map_or(load, |to| load.min(to));
        let load = match self.rules.unit {
            Unit::Rate => load,
            Unit::Whole => load.round().max(1.0),
        };
        let lengths = self.refining().map(|run| run.probe.duration);
        let so_far = lengths.fold(0, |sum: Nanos, d| sum.saturating_add(d));
        let [least, most] = self.refining_at(load);
        let duration = (so_far / GROWTH).clamp(least, most);
        self.probe(load, duration, Purpose::Refine)
    }

    /// Returns the minimum time of a confirmation at this load, ns.
    pub fn confirmation_at(&self, load: f64) -> Nanos {
        self.full_at(load).saturating_mul(u64::from(self.rules.full_runs))
    }

    /// Returns the number of outstanding queries at which a run at a rate is certain to fail,
    /// because more queries have waited longer than a bound than may be over it; 0 if there is no
    /// such number. A confirming run is not ended early.
    pub fn most_outstanding(&self, probe: &Probe) -> u64 {
        if self.rules.unit == Unit::Whole || matches!(probe.purpose, Purpose::Confirm { .. }) {
            return 0;
        }
        // More than the random excess over the mean arrivals within the bound.
        const MORE: f64 = 1.5;
        let most = |limit: &Limit| {
            let seconds = |ns: Nanos| ns as f64 / SECOND as f64;
            let over = limit.allowed * seconds(probe.duration);
            probe.load * (MORE * seconds(limit.bound) + FAR_OVER * over) + FEWEST_OUTSTANDING
        };
        let bounded = self.rules.limits.iter().filter(|l| l.quantity.waits());
        bounded.map(most).reduce(f64::min).map_or(0, |most| most as u64)
    }

    /// Returns whether there is time for a run of this length and for a confirmation.
    fn fits(&self, duration: Nanos, peak: &Peak) -> bool {
        let confirming = match self.rules.confirmations {
            0 => 0,
            _ => self.confirmation_at(peak.load),
        };
        let both = match confirming {
            0 => self.takes(duration),
            _ => self.takes(duration).saturating_add(self.takes(confirming)),
        };
        both <= self.left()
    }

    /// Returns the number of failed confirmations.
    fn attempts(&self) -> u32 {
        self.observations.iter().filter(|observation| observation.is_failed_attempt()).count()
            as u32
    }

    fn confirmation(&self, peak: &Peak, attempt: u32) -> Step {
        let full = self.full_after(attempt - 1, peak, peak.load);
        let mut load = peak.load_that_passes(full, &self.rules);
        let is_vague = self.rules.unit == Unit::Rate && !self.is_within(NEARLY, peak);
        if self.is_wide_at(peak.load) || is_vague {
            // Near the capacity, or if the peak is hardly known, a run above it may pass by chance.
            load = load.min(peak.low * (-length::RESOLUTION * self.rules.tolerance).exp());
        }
        let before =
            self.observations.iter().rev().find(|observation| observation.is_failed_attempt());
        if let Some(before) = before {
            let lower = match self.rules.unit {
                Unit::Rate => before.probe.load * (-self.missed_by(before, peak)).exp(),
                Unit::Whole => before.probe.load - 1.0,
            };
            load = load.min(lower);
        }
        if self.rules.unit == Unit::Whole {
            // A full run decides, too, between 1 and none.
            load = load.floor().max(if before.is_none() { 1.0 } else { 0.0 });
            if load < 1.0 {
                return self.done(End::Unconfirmed, None);
            }
        }
        let duration = self.full_after(attempt - 1, peak, load);
        let all = duration.saturating_mul(u64::from(self.rules.full_runs));
        if self.takes(all) > self.left() {
            return self.done(End::OutOfTime, None);
        }
        Step::Run(self.probe(load, duration, Purpose::Confirm { attempt }))
    }

    /// Returns how far below a failed full run the next one is, as a logarithm: by how much it
    /// missed its limits, and a little more.
    fn missed_by(&self, failed: &Observation, peak: &Peak) -> f64 {
        let tolerance = self.rules.tolerance;
        let missed = |(at, limit): (usize, &Limit)| {
            peak.missed_by(at, Block::sum(&failed.blocks[at]), limit.allowed)
        };
        let most = self.rules.limits.iter().enumerate().map(missed).fold(0.0, f64::max);
        most.clamp(0.0, 2.0 * tolerance) + tolerance / 4.0
    }

    /// Returns the stretches of a run that count for a limit.
    pub fn counted(&self, observation: &Observation, limit: usize) -> Vec<Block> {
        let blocks = &observation.blocks[limit];
        if observation.overloaded && self.shows_overload(limit) {
            let queries = blocks.iter().map(|b| b.queries).sum::<u64>().max(1);
            return vec![Block { queries, over: queries }];
        }
        let duration = observation.probe.duration.max(1);
        let left_out = (duration / BEGINNING).min(self.rules.short);
        let first = (left_out as u128 * blocks.len() as u128).div_ceil(u128::from(duration));
        blocks[usize::try_from(first).unwrap_or(0).min(blocks.len())..].to_vec()
    }

    /// Returns whether an overloaded run exceeds this limit: one on a quantity that grows while queries
    /// pile up, or else the one on tokens, so that no search calls an overload a load that passes.
    fn shows_overload(&self, limit: usize) -> bool {
        let limits = &self.rules.limits;
        match limits[limit].quantity {
            Quantity::TimePerOutputToken => !limits.iter().any(|limit| limit.quantity.waits()),
            quantity => quantity.waits(),
        }
    }

    /// Returns the neighbors of a step, if the runs show one.
    fn step(&self) -> Option<[f64; 2]> {
        let counts = |run: &Observation| {
            let of_limit = |at| self.total(run, at);
            (run.probe.load, (0..self.rules.limits.len()).map(of_limit).collect::<Vec<Block>>())
        };
        step::neighbors(self.observations.iter().map(counts), &self.rules.limits)
    }

    fn estimate(&self) -> Peak {
        let fits = self.rules.limits.iter().enumerate().map(|(at, limit)| {
            let datum = |observation: &Observation| fit::Datum {
                ln_load: observation.probe.load.ln(),
                blocks: self.counted(observation, at),
            };
            let data: Vec<fit::Datum> = self.observations.iter().map(datum).collect();
            fit::Fit::from_runs(&data, limit.allowed)
        });
        let mut peak = Peak::from_fits(fits.collect(), self.rules.unit);
        // Whether a run passes a wide limit near the capacity is a matter of chance, not of a step.
        let is_wide = self.is_wide_at(peak.load);
        if is_wide {
            peak.widen(length::RESOLUTION * self.rules.tolerance);
        } else if let Some(pair) = self.step() {
            peak.narrow(pair, &self.rules);
        }
        if let Some(side) = self.unshown_side(&peak) {
            let loads = self.observations.iter().map(|run| run.probe.load);
            match side {
                evidence::Side::Below => peak.low = loads.fold(peak.low, f64::min),
                evidence::Side::Above => peak.high = loads.fold(peak.high, f64::max),
            }
        }
        peak
    }
}

impl Observation {
    fn is_confirmed(&self) -> bool {
        matches!(self.probe.purpose, Purpose::Confirm { .. }) && self.passed
    }

    fn is_failed_attempt(&self) -> bool {
        matches!(self.probe.purpose, Purpose::Confirm { .. }) && !self.passed
    }
}
