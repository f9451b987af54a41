//! The peak: the lowest of the loads at which the limits are reached.

use super::fit::Fit;
use super::{Block, Rules, Unit};
use crate::clock::{Nanos, SECOND};

/// Estimate of the peak, with its uncertainty.
#[derive(Debug, Clone)]
pub struct Peak {
    /// Best estimate; for whole loads the highest that passes.
    pub load: f64,
    /// Median of the posterior.
    pub middle: f64,
    /// Lower end of the interval that holds the peak with a probability of 95 %.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// Probability that each limit is the binding one.
    pub binds: Vec<f64>,
    /// Relative half width of the interval of 95 % of the posterior.
    pub(super) spread: f64,
    /// Part of the interval on either side that is not part of the posterior, as a logarithm.
    margin: f64,
    fits: Vec<Fit>,
}

impl PartialEq for Peak {
    fn eq(&self, other: &Self) -> bool {
        (self.load, self.low, self.high) == (other.load, other.low, other.high)
            && self.binds == other.binds
    }
}

/// Part of the posterior outside the interval. The interval covers the peak in about 95 % of the
/// trials of `examples/search_trials`, less often than this value implies, because a search ends
/// when its interval happens to be narrow.
const OUTSIDE: f64 = 0.02;
/// Half width of that interval, in standard deviations.
const DEVIATIONS: f64 = 2.33;
/// Probability that a full run passes, as a normal quantile: 80 %.
const PASSES: f64 = 0.84;
/// Confidence of early stopping, as a normal quantile: 99 %.
const EARLY_STOPPING: f64 = 2.33;
/// Maximum distance of the first full run below the peak, in tolerances.
const MOST_BELOW: f64 = 2.0;
/// Number of points at which the binding limit is evaluated.
const POINTS: usize = 64;

impl Peak {
    pub(super) fn from_fits(fits: Vec<Fit>, unit: Unit) -> Self {
        let mut peak = Self {
            load: 0.0,
            middle: 0.0,
            low: 0.0,
            high: 0.0,
            binds: Vec::new(),
            spread: 0.0,
            margin: 0.0,
            fits,
        };
        let whole = |load: f64| match unit {
            Unit::Rate => load,
            Unit::Whole => load.floor(),
        };
        peak.middle = peak.quantile(0.5);
        peak.load = whole(peak.middle);
        (peak.low, peak.high) = (peak.quantile(OUTSIDE / 2.0), peak.quantile(1.0 - OUTSIDE / 2.0));
        peak.spread = peak.half_width();
        peak.binds = peak.weigh();
        peak
    }

    /// Takes the neighbors of a step as the interval if they show the peak to within the tolerance: the
    /// load that passed, which is then the estimate, and the one that failed.
    pub(super) fn narrow(&mut self, [passed, failed]: [f64; 2], rules: &Rules) {
        let is_next = rules.unit == Unit::Whole && failed - passed <= 1.0;
        if is_next || (failed / passed).ln() <= rules.tolerance {
            (self.load, self.low) = (passed, passed);
            self.high = if is_next { passed } else { failed };
        }
    }

    /// Widens the interval on either side by what even long runs cannot tell, as a logarithm of the load.
    pub(super) fn widen(&mut self, margin: f64) {
        self.margin = margin;
        (self.low, self.high) = (self.low * (-margin).exp(), self.high * margin.exp());
    }

    /// Returns the limit that most likely binds.
    pub fn binding(&self) -> usize {
        let most = (0..self.binds.len()).max_by(|&a, &b| self.binds[a].total_cmp(&self.binds[b]));
        most.unwrap_or(0)
    }

    /// Returns the relative half width of the interval that is compared with the tolerance.
    pub(super) fn half_width(&self) -> f64 {
        ((self.high / self.low).ln() / 2.0 - self.margin) * (1.96 / DEVIATIONS)
    }

    /// Returns whether the interval of the posterior is wider than this, as a logarithm.
    pub(super) fn is_wider_than(&self, width: f64) -> bool {
        2.0 * self.spread * DEVIATIONS / 1.96 > width
    }

    /// Returns the load below which the peak lies with this probability.
    pub fn quantile(&self, probability: f64) -> f64 {
        let ends = |fit: &Fit| (fit.quantile(0.0), fit.quantile(1.0));
        let mut low = self.fits.iter().map(|f| ends(f).0).fold(f64::INFINITY, f64::min);
        let mut high = self.fits.iter().map(|f| ends(f).1).fold(f64::INFINITY, f64::min);
        for _ in 0..60 {
            let middle = low + (high - low) / 2.0;
            let kept: f64 = self.fits.iter().map(|fit| fit.kept(middle)).product();
            *(if 1.0 - kept < probability { &mut low } else { &mut high }) = middle;
        }
        (low + (high - low) / 2.0).exp()
    }

    /// Returns the number of queries that count as one for this limit.
    pub(super) fn dispersion(&self, limit: usize) -> f64 {
        self.fits[limit].dispersion
    }

    /// Returns the load of refining run `number` (>= 1). The loads fill the posterior evenly.
    pub(super) fn placed(&self, number: u64) -> f64 {
        self.quantile(0.05 + 0.9 * van_der_corput(number))
    }

    /// Returns the share of the posterior in which each limit is reached first.
    fn weigh(&self) -> Vec<f64> {
        let points: Vec<f64> =
            (0..=POINTS).map(|at| self.quantile(at as f64 / POINTS as f64).ln()).collect();
        let hazard_sum = |fit: &Fit| -> f64 {
            let hazard = |pair: &[f64]| {
                let (before, after) = (fit.kept(pair[0]), fit.kept(pair[1]));
                if before <= 0.0 { 0.0 } else { 1.0 - after / before }
            };
            points.windows(2).map(hazard).sum()
        };
        let hazards: Vec<f64> = self.fits.iter().map(hazard_sum).collect();
        let total: f64 = hazards.iter().sum();
        hazards.iter().map(|hazard| hazard / total.max(1e-300)).collect()
    }

    /// Returns by how much of the logarithm of the load a full run missed this limit, including the
    /// margin of early stopping.
    pub(super) fn missed_by(&self, limit: usize, all: Block, allowed: f64) -> f64 {
        let share = all.over as f64 / all.queries.max(1) as f64;
        let binomial = ((1.0 - allowed) / (all.queries.max(1) as f64 * allowed)).sqrt();
        ((share / allowed).max(1e-9).ln() + EARLY_STOPPING * binomial) / self.fits[limit].slope
    }

    /// Returns the number of queries with which a full run should pass at the load that is as far below the
    /// peak as [`Peak::load_that_passes`] goes. It is large if the share over the limit hardly depends on the
    /// load, as with failures that any load has.
    pub(super) fn queries_that_pass(&self, rules: &Rules) -> f64 {
        let binding = self.binding();
        let (fit, allowed) = (&self.fits[binding], rules.limits[binding].allowed);
        let scatter = PASSES * fit.dispersion.sqrt() + EARLY_STOPPING;
        let events = (scatter / (MOST_BELOW * rules.tolerance * fit.slope)).powi(2);
        events * (1.0 - allowed) / allowed
    }

    /// Returns a load slightly below the peak at which a full run of this length should pass. The
    /// margin covers the random error of such a run, the uncertainty of the peak, and early
    /// stopping.
    pub(super) fn load_that_passes(&self, full: Nanos, rules: &Rules) -> f64 {
        let binding = self.binding();
        let (fit, allowed) = (&self.fits[binding], rules.limits[binding].allowed);
        let queries = match rules.unit {
            Unit::Rate => self.load * full as f64 / SECOND as f64,
            Unit::Whole => return self.load,
        };
        // Standard deviation of the logarithm of the share over the bound.
        let binomial = ((1.0 - allowed) / (queries * allowed)).sqrt();
        let chance = binomial * fit.dispersion.sqrt() / fit.slope;
        let unknown = (self.high / self.low).ln() / (2.0 * DEVIATIONS);
        let margin = PASSES * chance.hypot(unknown) + EARLY_STOPPING * binomial / fit.slope;
        self.load * (-margin.min(MOST_BELOW * rules.tolerance)).exp()
    }
}

/// Returns element `number` of the sequence 1/2, 1/4, 3/4, 1/8, 5/8, ...
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
