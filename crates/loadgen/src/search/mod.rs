//! The search for the highest load that keeps several limits at once. Pure: it
//! says which load to run for how long, and is told what the run was like.
//!
//! Doubling brackets the peak with short runs. Then further short runs, each
//! with its own arrivals, are placed where the peak may lie, and all of them
//! together say where it is and how certain that is ([`fit`]). When it is
//! certain enough, a full run at a load that should pass confirms it; if that
//! fails, it counts like the others, and a lower load is tried.
//!
//! A short run flatters, since it begins with an empty queue: its beginning does
//! not count, and runs become longer as the search becomes more certain, so that
//! what bias is left stays below the error of chance.

mod fit;
mod limit;
mod peak;

pub use limit::{BLOCKS, Block, Limit, Quantity};
pub use peak::Peak;

use crate::clock::{Nanos, SECOND};

/// What is searched, and how long it may take.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// All must be kept; at least one.
    pub limits: Vec<Limit>,
    /// The first load that is run (> 0).
    pub from: f64,
    /// The highest load that is tried.
    pub to: Option<f64>,
    /// What a load is.
    pub unit: Unit,
    /// Relative: the peak is found when it is known to within this.
    pub tolerance: f64,
    /// Length of the first runs, ns.
    pub short: Nanos,
    /// Length of a run that counts, ns.
    pub full: Nanos,
    /// Queries of a run that counts, at least.
    pub full_queries: u64,
    /// Runs of that length that a confirmation makes (>= 1).
    pub full_runs: u32,
    /// Queries of a run that does not count, at most: millions say enough.
    pub most_queries: u64,
    /// Of all runs together, ns: none is begun that would end later.
    pub max_time: Nanos,
    /// Full runs that are tried at most; 0 does not confirm.
    pub confirmations: u32,
}

/// What a load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Queries per second.
    Rate,
    /// A whole number: queries in flight, or samples in a query.
    Whole,
}

/// Why a run is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Looking for a load that fails.
    Bracket,
    /// Making the peak more certain.
    Refine,
    /// The run that counts.
    Confirm {
        /// Which try it is, from 1.
        attempt: u32,
    },
}

/// A run to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// From 0; probes of different numbers need different arrivals.
    pub number: u64,
    /// The load.
    pub load: f64,
    /// For how long queries are issued, ns.
    pub duration: Nanos,
    /// Why.
    pub purpose: Purpose,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run this, and answer with [`Search::tell`].
    Run(Probe),
    /// The search is over.
    Done(Outcome),
}

/// What a run was like.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// What was run.
    pub probe: Probe,
    /// How long it took in all, ns.
    pub took: Nanos,
    /// It was ended early because queries piled up: every limit of latency is
    /// over.
    pub overloaded: bool,
    /// Of a confirming run: whether it counts and keeps every limit.
    pub passed: bool,
    /// For each limit, the stretches of the run.
    pub blocks: Vec<Vec<Block>>,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A full run at [`Outcome::confirmed`] counts and keeps every limit.
    Confirmed,
    /// The peak is known well enough, and nobody asked for a confirmation.
    Estimated,
    /// No full run passed.
    Unconfirmed,
    /// The time was over first; what is known is told.
    OutOfTime,
    /// Whether a run passes hardly depends on its load: something else decides.
    Unclear,
    /// No load passes, down to the lowest one that was tried.
    NothingPasses,
    /// Every load passes, up to the highest one that was tried.
    NothingFails,
}

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Where the peak is, if it was bracketed.
    pub peak: Option<Peak>,
    /// The load at which a full run passed.
    pub confirmed: Option<f64>,
}

/// The search.
#[derive(Debug, Clone)]
pub struct Search {
    rules: Rules,
    observations: Vec<Observation>,
    /// Where the peak is by what was told, once it is bracketed.
    peak: Option<Peak>,
    /// Time of runs of which nothing was told, ns.
    lost: Nanos,
}

/// Doublings or halvings until the search gives up.
const MOST_BRACKETS: usize = 40;
/// Runs near the peak before its interval is believed.
const LEAST_REFINEMENTS: usize = 16;
/// Refining runs are spread at least this many tolerances to each side.
const LEAST_SPREAD: f64 = 2.0;
/// A peak that is known to this many tolerances is confirmed when there is no time
/// to know it better.
const NEARLY: f64 = 3.0;
/// What a full run confirmed stays confirmed while the peak is known to this many
/// tolerances: that run moves the peak a little, too.
const SETTLED: f64 = 1.5;
/// Queries in flight, or samples in a query, at most: more of them say nothing
/// but how much memory there is.
const MOST_WHOLE: f64 = 1_048_576.0;
/// After this many refining runs a peak whose interval is still wider than this
/// (in logarithms: a factor of 4) will not be found.
const MOST_WIDE: usize = 40;
const WIDE: f64 = 1.4;
/// Refining runs, at most, if time does not end them before.
const MOST_REFINEMENTS: usize = 200;
/// Each refining run is about this part of all of them so far.
const GROWTH: u64 = 8;
/// The longest refining run, in lengths of the first ones.
const LONGEST: u64 = 15;
/// A run is ended when this many times the overs that are allowed wait.
const FAR_OVER: f64 = 10.0;
/// However low the load is.
const FEWEST_OUTSTANDING: f64 = 100.0;
/// The beginning of a run that does not count, as a part of it.
const BEGINNING: u64 = 5;

impl Search {
    /// Nothing is known yet.
    ///
    /// # Panics
    /// If there is no limit, or the load to begin with is not above 0.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        assert!(!rules.limits.is_empty(), "a search needs a limit");
        assert!(rules.from > 0.0, "a load is above 0");
        Self { rules, observations: Vec::new(), peak: None, lost: 0 }
    }

    /// What is searched.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What was told, in order.
    #[must_use]
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// Where the peak is by what was told, once it is bracketed.
    #[must_use]
    pub fn peak(&self) -> Option<&Peak> {
        self.peak.as_ref()
    }

    /// Time of all runs so far, ns.
    #[must_use]
    pub fn spent(&self) -> Nanos {
        let told = self.observations.iter().map(|told| told.took);
        told.fold(self.lost, Nanos::saturating_add)
    }

    /// What is left of the time, ns: a run that is not over by then is to be
    /// ended, and [`Search::lose`] to be told of it.
    #[must_use]
    pub fn left(&self) -> Nanos {
        self.rules.max_time.saturating_sub(self.spent())
    }

    /// Tells that a run took this long, ns, and that nothing is known of it.
    pub fn lose(&mut self, took: Nanos) {
        self.lost = self.lost.saturating_add(took);
    }

    /// Whether a run kept this limit, by its own counts.
    #[must_use]
    pub fn is_kept(&self, told: &Observation, limit: usize) -> bool {
        self.rules.limits[limit].is_kept(&self.counted(told, limit))
    }

    /// Whether a run kept every limit, by its own counts.
    #[must_use]
    pub fn keeps_all(&self, told: &Observation) -> bool {
        (0..self.rules.limits.len()).all(|limit| self.is_kept(told, limit))
    }

    /// Tells what the run was like that [`Search::next`] asked for.
    pub fn tell(&mut self, observation: Observation) {
        self.observations.push(observation);
        self.peak = self.is_bracketed().then(|| self.estimate());
    }

    /// What to do next. Changes nothing.
    #[must_use]
    pub fn next(&self) -> Step {
        let Some(peak) = &self.peak else { return self.bracket() };
        let attempts = self.attempts();
        let is_certain = self.is_certain(peak);
        // A search that goes on with a smaller tolerance has to know more first.
        let last = self.observations.last().filter(|told| told.is_confirmed());
        let confirmed = last.map(|told| told.probe.load);
        if confirmed.is_some() && (is_certain || self.is_within(SETTLED, peak)) {
            return self.done(End::Confirmed, confirmed);
        }
        let is_wide = self.refinements() >= MOST_WIDE && (peak.high / peak.low).ln() > WIDE;
        if is_wide {
            return self.done(End::Unclear, None);
        }
        if !is_certain && self.refinements() < MOST_REFINEMENTS {
            let probe = self.refinement(peak);
            if self.fits(probe.duration, peak) {
                return Step::Run(probe);
            }
        }
        // Out of time: a full run still says something where the peak is nearly known.
        if !is_certain && !self.is_within(NEARLY, peak) {
            let is_over = self.refinements() < MOST_REFINEMENTS;
            return self.done(if is_over { End::OutOfTime } else { End::Unclear }, None);
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
        Step::Done(Outcome { end, peak: self.peak.clone(), confirmed })
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
        let loads = |passes: bool| {
            let side = self.observations.iter().filter(move |told| self.keeps_all(told) == passes);
            side.map(|told| told.probe.load)
        };
        (loads(true).reduce(f64::max), loads(false).reduce(f64::min))
    }

    fn is_bracketed(&self) -> bool {
        matches!(self.bounds(), (Some(_), Some(_)))
    }

    fn bracket(&self) -> Step {
        let (load, duration) = match self.bounds() {
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
        let tried = self.observations.iter().any(|told| told.probe.load == load);
        if (load < 1.0 || tried) && self.rules.unit == Unit::Whole {
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

    /// How long a run at a lower load must be, ns, so that it does not pass by
    /// having too few queries: as many as make it sure to miss, if its share over
    /// a bound were that of the load that failed.
    fn length_that_can_pass(&self, failed: f64, load: f64) -> f64 {
        // A run without any over the bound is then a chance of 5 %.
        const EVENTS: f64 = 3.0;
        let told = self.observations.iter().filter(|told| told.probe.load == failed);
        let share = |told: &Observation| {
            let share_over = |limit: usize| {
                let all = Block::sum(&self.counted(told, limit));
                let share = all.over as f64 / all.queries.max(1) as f64;
                if self.is_kept(told, limit) { 0.0 } else { share }
            };
            (0..self.rules.limits.len()).map(share_over).fold(0.0, f64::max)
        };
        let share = told.map(share).fold(0.0, f64::max).max(1e-9);
        match self.rules.unit {
            Unit::Rate => EVENTS / (share * load) * SECOND as f64,
            Unit::Whole => 0.0,
        }
    }

    /// The longest run that does not count, ns.
    fn longest(&self) -> Nanos {
        self.rules.short.saturating_mul(LONGEST)
    }

    fn refinements(&self) -> usize {
        self.observations.iter().filter(|told| told.probe.purpose == Purpose::Refine).count()
    }

    /// Whether the peak is known to within the tolerance.
    fn is_certain(&self, peak: &Peak) -> bool {
        let narrow = match self.rules.unit {
            Unit::Rate => false,
            Unit::Whole => peak.high.floor() == peak.low.floor(),
        };
        let narrow = narrow || self.is_within(1.0, peak);
        self.refinements() >= LEAST_REFINEMENTS && narrow
    }

    fn is_within(&self, tolerances: f64, peak: &Peak) -> bool {
        peak.half_width() <= tolerances * self.rules.tolerance
    }

    /// How long a run of this length takes in all, ns: as much longer as those did
    /// that kept every limit, since a run is over when all is answered.
    fn takes(&self, duration: Nanos) -> Nanos {
        let longer = |told: &Observation| told.took.saturating_sub(self.lasts(&told.probe));
        let kept = self.observations.iter().filter(|told| self.keeps_all(told));
        duration.saturating_add(kept.map(longer).max().unwrap_or(0))
    }

    /// How long its queries are issued for, ns, in all its runs.
    fn lasts(&self, probe: &Probe) -> Nanos {
        match probe.purpose {
            Purpose::Confirm { .. } => {
                probe.duration.saturating_mul(u64::from(self.rules.full_runs))
            }
            Purpose::Bracket | Purpose::Refine => probe.duration,
        }
    }

    /// The next run is placed by a sequence that fills the posterior evenly.
    fn refinement(&self, peak: &Peak) -> Probe {
        let number = self.refinements() as u64;
        let placed = peak.quantile(0.05 + 0.9 * van_der_corput(number + 1));
        // Never so close that the slope is lost, or that an error at the
        // beginning is not found out.
        let wider = (LEAST_SPREAD * self.rules.tolerance / peak.half_width()).max(1.0);
        let load = peak.middle * (placed / peak.middle).powf(wider);
        let load = self.rules.to.map_or(load, |to| load.min(to));
        let load = match self.rules.unit {
            Unit::Rate => load,
            Unit::Whole => load.round().max(1.0),
        };
        let refining = self.observations.iter().filter(|t| t.probe.purpose == Purpose::Refine);
        let so_far =
            refining.map(|told| told.probe.duration).fold(0, |sum: Nanos, d| sum.saturating_add(d));
        let duration = (so_far / GROWTH).clamp(self.rules.short, self.longest());
        self.probe(load, duration, Purpose::Refine)
    }

    /// How long a run at this load must be to count, ns.
    #[must_use]
    pub fn full_at(&self, load: f64) -> Nanos {
        let by_count = match self.rules.unit {
            Unit::Rate => self.rules.full_queries as f64 / load * SECOND as f64,
            Unit::Whole => 0.0,
        };
        self.rules.full.max(by_count as Nanos)
    }

    /// How long a confirmation at this load takes at least, ns.
    #[must_use]
    pub fn confirmation_at(&self, load: f64) -> Nanos {
        self.full_at(load).saturating_mul(u64::from(self.rules.full_runs))
    }

    /// Queries outstanding at which a run of rates fails for certain, because
    /// more of them have waited for longer than a bound than may be over it;
    /// 0 if nothing of that kind is known. A confirming run is not ended early.
    #[must_use]
    pub fn most_outstanding(&self, probe: &Probe) -> u64 {
        if self.rules.unit == Unit::Whole || matches!(probe.purpose, Purpose::Confirm { .. }) {
            return 0;
        }
        // Arrivals within the bound, and some more than chance adds to them.
        const MORE: f64 = 1.5;
        let most = |limit: &Limit| {
            let seconds = |ns: Nanos| ns as f64 / SECOND as f64;
            let over = limit.allowed * seconds(probe.duration);
            probe.load * (MORE * seconds(limit.bound) + FAR_OVER * over) + FEWEST_OUTSTANDING
        };
        let bounded = self.rules.limits.iter().filter(|l| l.quantity.waits());
        bounded.map(most).reduce(f64::min).map_or(0, |most| most as u64)
    }

    /// Whether there is time for a run of this length, and for a confirmation.
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

    /// Full runs that did not pass.
    fn attempts(&self) -> u32 {
        self.observations.iter().filter(|told| told.is_failed_attempt()).count() as u32
    }

    fn confirmation(&self, peak: &Peak, attempt: u32) -> Step {
        let mut load = peak.load_that_passes(self.full_at(peak.load), &self.rules);
        let before = self.observations.iter().rev().find(|told| told.is_failed_attempt());
        if let Some(before) = before {
            let lower = match self.rules.unit {
                Unit::Rate => before.probe.load * (-self.missed_by(before, peak)).exp(),
                Unit::Whole => before.probe.load - 1.0,
            };
            load = load.min(lower);
        }
        if self.rules.unit == Unit::Whole {
            load = load.floor();
            if load < 1.0 {
                return self.done(End::Unconfirmed, None);
            }
        }
        if self.takes(self.confirmation_at(load)) > self.left() {
            return self.done(End::OutOfTime, None);
        }
        let duration = self.full_at(load);
        Step::Run(self.probe(load, duration, Purpose::Confirm { attempt }))
    }

    /// How far below a full run that failed the next one is: what it missed its
    /// limits by, since it will have the same arrivals, and a little more.
    fn missed_by(&self, failed: &Observation, peak: &Peak) -> f64 {
        let tolerance = self.rules.tolerance;
        let missed = |(at, limit): (usize, &Limit)| {
            peak.missed_by(at, Block::sum(&failed.blocks[at]), limit.allowed)
        };
        let most = self.rules.limits.iter().enumerate().map(missed).fold(0.0, f64::max);
        most.clamp(0.0, 2.0 * tolerance) + tolerance / 4.0
    }

    /// The stretches of a run that count.
    #[must_use]
    pub fn counted(&self, told: &Observation, limit: usize) -> Vec<Block> {
        let blocks = &told.blocks[limit];
        if told.overloaded && self.rules.limits[limit].quantity.waits() {
            let queries = blocks.iter().map(|b| b.queries).sum::<u64>().max(1);
            return vec![Block { queries, over: queries }];
        }
        let duration = told.probe.duration.max(1);
        let left_out = (duration / BEGINNING).min(self.rules.short);
        let first = (left_out as u128 * blocks.len() as u128).div_ceil(u128::from(duration));
        blocks[usize::try_from(first).unwrap_or(0).min(blocks.len())..].to_vec()
    }

    fn estimate(&self) -> Peak {
        let fits = self.rules.limits.iter().enumerate().map(|(at, limit)| {
            let datum = |told: &Observation| fit::Datum {
                ln_load: told.probe.load.ln(),
                blocks: self.counted(told, at),
            };
            let data: Vec<fit::Datum> = self.observations.iter().map(datum).collect();
            fit::Fit::from_runs(&data, limit.allowed)
        });
        Peak::from_fits(fits.collect(), self.rules.unit)
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

/// The sequence 1/2, 1/4, 3/4, 1/8, 5/8, ...
fn van_der_corput(mut number: u64) -> f64 {
    let (mut value, mut part) = (0.0, 0.5);
    while number > 0 {
        if number & 1 == 1 {
            value += part;
        }
        number >>= 1;
        part /= 2.0;
    }
    value
}
