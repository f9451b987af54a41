//! Estimates the load at which one limit is reached, from all runs so far.
//!
//! The odds of being over the bound are modeled as a floor, which any load has, and a power of the load:
//! `odds(load) = odds(a) (f + (1 - f) (load / x)^b)`. `x` is the load at which the allowed share `a` is
//! reached. `f` in `[0, 1)` is the part of the allowed odds that failures or the tail of the service take,
//! and `b > 0` is the power. (In a queue the tail falls exponentially with the distance from saturation,
//! which is a power to first order.) The posterior of `x`, `b` and `f` is computed on a grid, from flat
//! priors of the logarithms of `x` and `b`, and from
//! a prior of `f` that excludes a floor of which the runs far below the limit show nothing.
//!
//! Queries near each other in time are over a bound together, so that the counts are not binomial:
//! a number of queries, the dispersion, counts as one. It is estimated from the deviance of the
//! runs from the model, and from the correlation of the stretches within each run. The dispersion
//! is itself uncertain: integrated over its posterior, the likelihood of a sum of deviances `D` of
//! `m` runs is `(n s + D) ^ -((n + m) / 2)`, where `s` is the dispersion within the runs, with a
//! weight of `n` runs.
//!
//! A run whose share is far from the allowed one, or whose load is far from the limit, only determines the
//! side: there the power law need not hold.

use super::evidence::is_clear_miss;
use super::limit::Block;

/// Data of one run for one limit.
#[derive(Debug, Clone)]
pub struct Datum {
    /// Logarithm of the load.
    pub ln_load: f64,
    /// Stretches that count, in order.
    pub blocks: Vec<Block>,
}

/// Posterior of the load at which a limit is reached.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Logarithms of loads, evenly spaced.
    grid: Vec<f64>,
    /// Probability that the limit is reached below the upper edge of each cell.
    cumulated: Vec<f64>,
    /// Power of the load with which the odds grow at the limit.
    pub slope: f64,
    /// Power of the load above the floor.
    power: f64,
    /// Number of queries that count as one.
    pub dispersion: f64,
}

/// Cells of the grid over the load. The range is narrowed until a cell is small enough.
const CELLS: usize = 64;
const ROUNDS: usize = 6;
/// Slopes in equal steps of the logarithm. Lower slopes hardly depend on the load; higher ones are
/// a step at any tolerance.
const SLOPES: usize = 14;
const LEAST_SLOPE: f64 = 2.0;
const GREATEST_SLOPE: f64 = 1_500.0;
/// Parts of the allowed odds that any load may have.
const FLOORS: [f64; 8] = [0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.97];
/// Distance below the limit, as a logarithm of the load, from which runs show how high the floor may be, and
/// the number of queries that count as one there: far from the limit, late queries hardly cluster.
const FAR_BELOW: f64 = 0.2;
const FAR_DISPERSION: f64 = 5.0;
/// Odds that differ from the allowed ones by more than this factor only determine the side.
pub const FAR: f64 = 30.0;
/// This factor for runs at loads that are not near the limit: there the power law expects odds that differ
/// by more than it. The odds of a queue rise ever more steeply, so that the slope of distant runs would make
/// the estimate too certain.
const NEAR: f64 = 12.0;
/// Assumed number of independent events among the queries over the bound, for a run on the
/// boundary, before the dispersion is known.
const EVENTS_A_RUN: f64 = 4.0;
/// Weight of the dispersion within the runs, as a number of runs.
const WITHIN_WEIGHT: f64 = 6.0;
/// Weight of the assumed dispersion, as a number of runs, if no run near the boundary was over the
/// bound. Without this weight, a limit that is far away would never be excluded.
const UNSEEN_WORTH: f64 = 8.0;
/// Maximum lag, in stretches, of the correlation within a run.
const LAGS: usize = 10;
/// Distance of a run below the allowed share that is hardly chance, in standard deviations.
const KEPT: f64 = 2.0;

/// Counts of one run.
#[derive(Debug, Clone, Copy)]
struct Counts {
    ln_load: f64,
    queries: f64,
    share: f64,
}

/// Position of the limit in the last round.
#[derive(Debug, Clone, Copy)]
struct Place {
    center: f64,
    power: f64,
}

/// Prior of the dispersion: its value, and its weight as a number of runs.
#[derive(Debug, Clone, Copy)]
struct Prior {
    value: f64,
    worth: f64,
}

impl Fit {
    /// Fits the data of at least one run.
    pub fn from_runs(data: &[Datum], allowed: f64) -> Self {
        let counts: Vec<Counts> = data.iter().filter_map(Counts::from_datum).collect();
        let whole = prior_range(&counts, allowed);
        let (mut range, mut place) = (whole, None);
        let mut prior = first_prior(&counts, allowed);
        let mut fit = Self::on_grid(&counts, allowed, range, place, prior);
        for round in 1..ROUNDS {
            let (low, middle, high) = (fit.quantile(0.001), fit.quantile(0.5), fit.quantile(0.999));
            let cell = fit.step();
            if round > 3 && cell * 24.0 <= high - low && !fit.leans_on_edge(range, whole) {
                break;
            }
            let found = Place { center: middle, power: fit.power };
            prior = within(data, allowed, found, first_prior(&counts, allowed));
            place = Some(found);
            let margin = 0.5 * (high - low) + cell;
            range = ((low - margin).max(whole.0), (high + margin).min(whole.1));
            fit = Self::on_grid(&counts, allowed, range, place, prior);
        }
        fit
    }

    fn on_grid(
        counts: &[Counts],
        allowed: f64,
        range: (f64, f64),
        place: Option<Place>,
        prior: Prior,
    ) -> Self {
        let step = (range.1 - range.0) / CELLS as f64;
        let grid: Vec<f64> = (0..CELLS).map(|at| range.0 + (at as f64 + 0.5) * step).collect();
        let ratio = (GREATEST_SLOPE / LEAST_SLOPE).powf(1.0 / (SLOPES as f64 - 1.0));
        let slopes: Vec<f64> = (0..SLOPES).map(|at| LEAST_SLOPE * ratio.powi(at as i32)).collect();
        let mut deviances = vec![0.0; CELLS * SLOPES * FLOORS.len()];
        let mut runs = 0.0;
        for run in counts {
            let is_near = place.is_none_or(|place| place.is_near(run.ln_load));
            let far = if is_near { FAR } else { NEAR };
            run.add_deviances(allowed, far, &grid, &slopes, &mut deviances);
            runs += f64::from(u8::from(is_near));
        }
        let least = deviances.iter().copied().fold(f64::INFINITY, f64::min);
        let known = prior.worth * prior.value;
        let power = -(prior.worth + runs) / 2.0;
        let priors = floor_priors(counts, allowed, place);
        let (mut by_cell, mut ln_slope, mut ln_power) = (vec![0.0; CELLS], 0.0, 0.0);
        for (row, cells) in deviances.chunks_exact(CELLS).enumerate() {
            let (slope, floor) = (slopes[row / FLOORS.len()], FLOORS[row % FLOORS.len()]);
            let mut sum = 0.0;
            for (deviance, cell) in cells.iter().zip(&mut by_cell) {
                let likelihood = ((known + deviance) / (known + least)).powf(power);
                let mass = priors[row % FLOORS.len()] * likelihood;
                *cell += mass;
                sum += mass;
            }
            ln_power += sum * slope.ln();
            ln_slope += sum * (slope * (1.0 - floor)).ln();
        }
        let total: f64 = by_cell.iter().sum();
        let mut sum = 0.0;
        let mut add = |mass: &f64| {
            sum += mass / total;
            sum
        };
        let cumulated = by_cell.iter().map(&mut add).collect();
        let dispersion = ((known + least) / (prior.worth + runs)).max(1.0);
        let [slope, power] = [ln_slope, ln_power].map(|sum| (sum / total).exp());
        Self { grid, cumulated, slope, power, dispersion }
    }

    /// Returns whether a narrowed range cuts off much of the posterior.
    fn leans_on_edge(&self, range: (f64, f64), whole: (f64, f64)) -> bool {
        let below = range.0 > whole.0 && self.cumulated[0] > 1e-3;
        let above = range.1 < whole.1 && 1.0 - self.cumulated[self.grid.len() - 2] > 1e-3;
        below || above
    }

    fn step(&self) -> f64 {
        if self.grid.len() > 1 { self.grid[1] - self.grid[0] } else { 1e-9 }
    }

    /// Returns the logarithm of the load below which the limit is reached with this probability.
    pub fn quantile(&self, probability: f64) -> f64 {
        let at = self.cumulated.partition_point(|&c| c < probability).min(self.grid.len() - 1);
        let before = if at == 0 { 0.0 } else { self.cumulated[at - 1] };
        let inside = (probability - before) / (self.cumulated[at] - before).max(1e-300);
        self.grid[at] + (inside.clamp(0.0, 1.0) - 0.5) * self.step()
    }

    /// Returns the probability that the limit is not yet reached at this load.
    pub fn kept(&self, ln_load: f64) -> f64 {
        let step = self.step();
        let position = (ln_load - (self.grid[0] - 0.5 * step)) / step;
        if position <= 0.0 {
            return 1.0;
        }
        let at = position as usize;
        if at >= self.grid.len() {
            return 0.0;
        }
        let before = if at == 0 { 0.0 } else { self.cumulated[at - 1] };
        1.0 - (before + (position - at as f64) * (self.cumulated[at] - before))
    }
}

impl Counts {
    fn from_datum(datum: &Datum) -> Option<Self> {
        let queries: u64 = datum.blocks.iter().map(|block| block.queries).sum();
        let over: u64 = datum.blocks.iter().map(|block| block.over).sum();
        (queries > 0).then(|| Self {
            ln_load: datum.ln_load,
            queries: queries as f64,
            share: over as f64 / queries as f64,
        })
    }

    fn is_clear_miss(&self, allowed: f64) -> bool {
        let over = (self.share * self.queries).round() as u64;
        is_clear_miss(Block { queries: self.queries as u64, over }, allowed)
    }

    /// Returns whether clearly fewer queries are over the limit than it allows.
    fn is_clearly_kept(&self, allowed: f64) -> bool {
        let scatter = (allowed * (1.0 - allowed) * self.queries).sqrt();
        (allowed - self.share) * self.queries > KEPT * scatter
    }

    /// Adds the deviance of the counts for each slope, floor and load: twice the log-likelihood ratio to
    /// their own share.
    fn add_deviances(
        &self,
        allowed: f64,
        far: f64,
        grid: &[f64],
        slopes: &[f64],
        deviances: &mut [f64],
    ) {
        let base = logit(allowed);
        let share = self.share.clamp(logistic(base - far.ln()), logistic(base + far.ln()));
        let (own, odds_allowed) = (entropy(share), base.exp());
        let rows = deviances.chunks_exact_mut(grid.len() * FLOORS.len());
        for (rows, &slope) in rows.zip(slopes) {
            let rise: Vec<f64> = grid.iter().map(|x| (slope * (self.ln_load - x)).exp()).collect();
            for (row, floor) in rows.chunks_exact_mut(grid.len()).zip(FLOORS) {
                for (deviance, rise) in row.iter_mut().zip(&rise) {
                    let odds = odds_allowed * (floor + (1.0 - floor) * rise).clamp(1.0 / far, far);
                    // ln(1 - p) = -ln(1 + odds), ln p = ln odds - ln(1 + odds).
                    let minus = (1.0 + odds).ln() - share * odds.ln();
                    *deviance += 2.0 * self.queries * (minus + own);
                }
            }
        }
    }
}

impl Place {
    fn is_near(self, ln_load: f64) -> bool {
        (self.power * (ln_load - self.center)).abs() <= NEAR.ln()
    }
}

/// Returns the range of loads at which the limit may be reached, as logarithms.
fn prior_range(counts: &[Counts], allowed: f64) -> (f64, f64) {
    // A little more than a doubling.
    const ROOM: f64 = 1.0;
    let loads = |fails: bool| {
        let side = counts.iter().filter(move |run| run.is_clear_miss(allowed) == fails);
        side.map(|run| run.ln_load)
    };
    let passed = loads(false).fold(f64::NEG_INFINITY, f64::max);
    let failed = loads(true).fold(f64::INFINITY, f64::min);
    match (passed.is_finite(), failed.is_finite()) {
        (true, true) => {
            // No run below the highest that failed by chance alone shows that its load passes.
            let kept = counts.iter().filter(|run| run.is_clearly_kept(allowed));
            let known = kept.map(|run| run.ln_load).fold(f64::NEG_INFINITY, f64::max);
            let lowest = loads(false).fold(f64::INFINITY, f64::min);
            (known.max(lowest).min(failed) - ROOM, passed.max(failed) + ROOM)
        }
        (true, false) => (passed - ROOM, passed + 3.0 * ROOM),
        (false, true) => (failed - 3.0 * ROOM, failed + ROOM),
        (false, false) => (0.0, ROOM),
    }
}

/// Returns the weight of each floor: one of which the runs far below the limit show too little is unlikely.
fn floor_priors(counts: &[Counts], allowed: f64, place: Option<Place>) -> [f64; FLOORS.len()] {
    let Some(place) = place else { return [1.0; FLOORS.len()] };
    let far = counts.iter().filter(|run| run.ln_load < place.center - FAR_BELOW);
    let (queries, over) = far.fold((0.0, 0.0), |(queries, over), run| {
        (queries + run.queries, over + run.queries * run.share)
    });
    FLOORS.map(|floor| {
        let expected = floor * allowed * queries;
        if over >= expected {
            return 1.0;
        }
        let term = if over > 0.0 { over * (over / expected).ln() } else { 0.0 };
        (-(expected - over + term) / FAR_DISPERSION).exp()
    })
}

fn first_prior(counts: &[Counts], allowed: f64) -> Prior {
    let mean = counts.iter().map(|run| run.queries).sum::<f64>() / counts.len().max(1) as f64;
    Prior { value: (mean * allowed / EVENTS_A_RUN).max(1.0), worth: 1.0 }
}

/// Returns the prior of the dispersion from the stretches of runs near the boundary.
fn within(data: &[Datum], allowed: f64, place: Place, first: Prior) -> Prior {
    let (mut runs, mut variance, mut sum) = (0.0, 0.0, 0.0);
    for (run, counts) in data.iter().filter_map(|run| Some((run, Counts::from_datum(run)?))) {
        let is_far = counts.share * (1.0 - allowed) > FAR * allowed * (1.0 - counts.share);
        if !place.is_near(run.ln_load) || is_far || counts.share == 0.0 {
            continue;
        }
        let expected = |b: &Block| b.queries as f64 * counts.share;
        let excess: Vec<f64> =
            run.blocks.iter().map(|block| block.over as f64 - expected(block)).collect();
        runs += 1.0;
        variance += counts.queries * counts.share * (1.0 - counts.share);
        sum += long_run(&excess);
    }
    if runs == 0.0 {
        return Prior { worth: UNSEEN_WORTH, ..first };
    }
    let seen = (sum / variance).max(1.0);
    let worth = WITHIN_WEIGHT * (runs / 3.0_f64).min(1.0);
    let value = (worth * seen + first.worth * first.value) / (worth + first.worth);
    Prior { value, worth: worth + first.worth }
}

/// Returns the variance of the sum of a correlated series around its own mean (Bartlett's window).
/// It is corrected for the variance that subtracting the mean removes.
pub fn long_run(series: &[f64]) -> f64 {
    let lags = LAGS.min(series.len() / 3);
    let hidden = (lags + 1) as f64 / series.len().max(1) as f64;
    let product = |lag: usize| -> f64 {
        series.iter().zip(series.iter().skip(lag)).map(|(a, b)| a * b).sum()
    };
    let window = |lag: usize| 1.0 - lag as f64 / (lags + 1) as f64;
    let sum = product(0) + 2.0 * (1..=lags).map(|lag| window(lag) * product(lag)).sum::<f64>();
    sum / (1.0 - hidden)
}

fn logit(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

fn logistic(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// Returns `p ln p + (1 - p) ln(1 - p)`.
fn entropy(p: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
    term(p) + term(1.0 - p)
}
