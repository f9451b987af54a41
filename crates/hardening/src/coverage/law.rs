//! Sequences of times whose percentiles and means are known in closed form.
//!
//! Nothing here uses code of Dyno: the truth of a measurement must not come from what is measured.

use crate::rng::Stream;

/// Law of a sequence of times. The unit of time is [`UNIT_NS`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// Independent, memoryless, mean 1.
    Exponential,
    /// Independent, Pareto with exponent 1.5 and mean 1: infinite variance.
    Pareto,
    /// Independent, log-normal with median 1 and this standard deviation of the logarithm.
    Lognormal(f64),
    /// Independent, whole numbers: exponential times of mean 3, rounded up, so that values tie.
    Steps,
    /// Log-normal with deviation 0.5, whose logarithm is autoregressive of order 1 with this
    /// correlation between neighbors.
    Autoregressive(f64),
    /// Exponential with mean 1, and with mean 8 in bursts: 5 % of all values, 50 in a row in the
    /// mean.
    Bursts,
    /// Time in a queue with one server and exponential service of mean 1, at this load.
    Queue(f64),
    /// Time in a queue with one server and log-normal service of mean 1: the deviation of the logarithm,
    /// and the load. Its percentiles are those of [`heavy_percentile`].
    HeavyQueue(f64, f64),
    /// Exponential with a mean that grows from 1 to 3 during the run. The truth is that of the run
    /// as a whole.
    Degrading,
}

/// Length of the unit of time, ns.
pub const UNIT_NS: f64 = 1e6;

const SLOW_SHARE: f64 = 0.05;
const SLOW_MEAN: f64 = 8.0;
const SLOW_ROW: f64 = 50.0;
const PARETO: f64 = 1.5;
const GROWTH: f64 = 2.0;
const STEP_MEAN: f64 = 3.0;
const DEVIATION: f64 = 0.5;

impl Law {
    /// Returns the name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Exponential => "independent, exponential".into(),
            Self::Pareto => "independent, Pareto 1.5".into(),
            Self::Lognormal(deviation) => format!("independent, lognormal {deviation}"),
            Self::Steps => "independent, in whole steps".into(),
            Self::Autoregressive(correlation) => format!("AR(1) {correlation}, lognormal 0.5"),
            Self::Bursts => "bursts of 50".into(),
            Self::Queue(load) => format!("queue at load {load}"),
            Self::HeavyQueue(deviation, load) => {
                format!("queue at load {load}, lognormal service {deviation}")
            }
            Self::Degrading => "degrading, mean 1 to 3".into(),
        }
    }

    /// Returns a sequence of `count` times in ns. It begins in the steady state.
    #[must_use]
    pub fn draw(self, count: usize, random: &mut Stream) -> Vec<u64> {
        let ns = |time: f64| (time * UNIT_NS).round() as u64;
        match self {
            Self::Exponential => (0..count).map(|_| ns(random.exponential())).collect(),
            Self::Pareto => {
                (0..count).map(|_| ns(random.unit().powf(-1.0 / PARETO) / 3.0)).collect()
            }
            Self::Lognormal(deviation) => {
                (0..count).map(|_| ns((deviation * random.normal()).exp())).collect()
            }
            Self::Steps => {
                (0..count).map(|_| ns((STEP_MEAN * random.exponential()).ceil())).collect()
            }
            Self::Autoregressive(correlation) => {
                let fresh = (1.0 - correlation * correlation).sqrt();
                let mut level = random.normal();
                let mut next = || {
                    level = correlation * level + fresh * random.normal();
                    ns((DEVIATION * level).exp())
                };
                (0..count).map(|_| next()).collect()
            }
            Self::Bursts => {
                let mut slow = Bursts::new(SLOW_SHARE, SLOW_ROW, random);
                let mut next = || {
                    let mean = if slow.next(random) { SLOW_MEAN } else { 1.0 };
                    ns(mean * random.exponential())
                };
                (0..count).map(|_| next()).collect()
            }
            Self::Queue(load) => queue(load, count, random).map(ns).collect(),
            Self::HeavyQueue(deviation, load) => {
                heavy_queue(deviation, load, count, random).map(ns).collect()
            }
            Self::Degrading => {
                let mean = |at: usize| 1.0 + GROWTH * (at as f64 + 0.5) / count as f64;
                (0..count).map(|at| ns(mean(at) * random.exponential())).collect()
            }
        }
    }

    /// Returns the probability that a time is above `time`; `None` for laws whose percentile is
    /// known directly.
    fn above(self, time: f64) -> Option<f64> {
        match self {
            Self::Bursts => {
                Some((1.0 - SLOW_SHARE) * (-time).exp() + SLOW_SHARE * (-time / SLOW_MEAN).exp())
            }
            Self::Degrading => {
                // The mean over the run, by Simpson's rule.
                let parts = 200;
                let term = |at: u32| {
                    let weight = match at {
                        0 => 1.0,
                        at if at == parts => 1.0,
                        at if at % 2 == 1 => 4.0,
                        _ => 2.0,
                    };
                    weight * (-time / (1.0 + GROWTH * f64::from(at) / f64::from(parts))).exp()
                };
                Some((0..=parts).map(term).sum::<f64>() / 3.0 / f64::from(parts))
            }
            _ => None,
        }
    }

    /// Returns percentile `p`, in ns: one of those of [`normal_quantile`].
    pub fn percentile(self, p: f64) -> f64 {
        let beyond = 1.0 - p;
        let exponential = -beyond.ln();
        UNIT_NS
            * match self {
                Self::Exponential => exponential,
                Self::Pareto => beyond.powf(-1.0 / PARETO) / 3.0,
                Self::Lognormal(deviation) => (deviation * normal_quantile(p)).exp(),
                Self::Steps => (STEP_MEAN * exponential).ceil(),
                Self::Autoregressive(_) => (DEVIATION * normal_quantile(p)).exp(),
                // The time in the system is exponential with mean 1 / (1 - load).
                Self::Queue(load) => exponential / (1.0 - load),
                Self::HeavyQueue(deviation, load) => heavy_percentile(deviation, load, p),
                Self::Bursts | Self::Degrading => {
                    let (mut low, mut high) = (0.0, 1_000.0);
                    for _ in 0..100 {
                        let middle = 0.5 * (low + high);
                        let is_below = self.above(middle).is_some_and(|above| above > beyond);
                        *(if is_below { &mut low } else { &mut high }) = middle;
                    }
                    0.5 * (low + high)
                }
            }
    }

    /// Returns the mean, in ns.
    pub fn mean(self) -> f64 {
        UNIT_NS
            * match self {
                Self::Exponential | Self::Pareto => 1.0,
                Self::Lognormal(deviation) => (0.5 * deviation * deviation).exp(),
                // 1 / (1 - q) of a geometric distribution.
                Self::Steps => 1.0 / (1.0 - (-1.0 / STEP_MEAN).exp()),
                Self::Autoregressive(_) => (0.5 * DEVIATION * DEVIATION).exp(),
                Self::Bursts => 1.0 - SLOW_SHARE + SLOW_SHARE * SLOW_MEAN,
                Self::Queue(load) => 1.0 / (1.0 - load),
                // The second moment of the service is exp(variance).
                Self::HeavyQueue(deviation, load) => {
                    1.0 + 0.5 * load / (1.0 - load) * (deviation * deviation).exp()
                }
                Self::Degrading => 1.0 + 0.5 * GROWTH,
            }
    }
}

/// Returns the times in a queue with one server, by Lindley's recursion. The first wait is drawn
/// from the steady state: none with probability `1 - load`, else exponential.
fn queue(load: f64, count: usize, random: &mut Stream) -> impl Iterator<Item = f64> {
    let is_free = random.unit() >= load;
    let mut wait = if is_free { 0.0 } else { random.exponential() / (1.0 - load) };
    (0..count).map(move |_| {
        let time = wait + random.exponential();
        wait = (time - random.exponential() / load).max(0.0);
        time
    })
}

/// Returns the times in a queue with one server and log-normal service, by Lindley's recursion. The first
/// wait is drawn from the steady state: a geometric number of residual services, each of which is a
/// uniform part of a service that is drawn with a probability in proportion to its length.
fn heavy_queue(
    deviation: f64,
    load: f64,
    count: usize,
    random: &mut Stream,
) -> impl Iterator<Item = f64> {
    let half = 0.5 * deviation * deviation;
    let mut wait = 0.0;
    while random.chance(load) {
        wait += (half + deviation * random.normal()).exp() * random.unit();
    }
    (0..count).map(move |_| {
        let time = wait + (deviation * random.normal() - half).exp();
        wait = (time - random.exponential() / load).max(0.0);
        time
    })
}

/// Returns the percentile of the time in a queue with log-normal service, in mean services. The table is
/// computed by the formula of Pollaczek and Khinchine on a grid of 0.002 or less that rounds down and up;
/// both results agree to 0.01.
///
/// # Panics
/// At another queue or probability.
fn heavy_percentile(deviation: f64, load: f64, p: f64) -> f64 {
    const TABLE: [(f64, f64, f64, f64); 6] = [
        (2.0, 0.3, 0.9, 15.842),
        (2.0, 0.3, 0.99, 212.542),
        (2.0, 0.5, 0.5, 1.131),
        (1.5, 0.5, 0.5, 1.192),
        (1.5, 0.5, 0.9, 13.985),
        (1.5, 0.5, 0.99, 66.231),
    ];
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    let is_row =
        |row: &&(f64, f64, f64, f64)| near(row.0, deviation) && near(row.1, load) && near(row.2, p);
    let found = TABLE.iter().find(is_row);
    found.unwrap_or_else(|| panic!("p{p} of this queue is not in the table")).3
}

/// Events that come in rows of geometric length.
#[derive(Debug)]
pub struct Bursts {
    is_on: bool,
    begins: f64,
    ends: f64,
}

impl Bursts {
    /// Returns bursts that hold this share of all trials, `row` (>= 1) in a row in the mean, in the
    /// steady state.
    #[must_use]
    pub fn new(share: f64, row: f64, random: &mut Stream) -> Self {
        let ends = 1.0 / row;
        Self { is_on: random.chance(share), begins: ends * share / (1.0 - share), ends }
    }

    /// Returns whether the next trial is inside of a burst.
    pub fn next(&mut self, random: &mut Stream) -> bool {
        let now = self.is_on;
        self.is_on ^= random.chance(if now { self.ends } else { self.begins });
        now
    }
}

/// Returns the standard normal quantile at the probabilities that the cases use (from tables).
///
/// # Panics
/// At another probability.
pub fn normal_quantile(p: f64) -> f64 {
    const TABLE: [(f64, f64); 5] = [
        (0.5, 0.0),
        (0.9, 1.281_551_565_544_600_4),
        (0.975, 1.959_963_984_540_054),
        (0.99, 2.326_347_874_040_840_8),
        (0.999, 3.090_232_306_167_813_5),
    ];
    let found = TABLE.iter().find(|row| (row.0 - p).abs() < 1e-12);
    found.unwrap_or_else(|| panic!("the normal quantile at {p} is not in the table")).1
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAWS: [Law; 9] = [
        Law::Exponential,
        Law::Pareto,
        Law::Lognormal(0.5),
        Law::Lognormal(1.5),
        Law::Steps,
        Law::Autoregressive(0.9),
        Law::Bursts,
        Law::Queue(0.8),
        Law::Degrading,
    ];

    #[test]
    fn long_sequences_have_the_stated_percentiles_and_means() {
        const COUNT: usize = 2_000_000;
        for law in LAWS {
            let times = law.draw(COUNT, &mut Stream::new(1, 2, 3));
            for p in [0.5, 0.9, 0.99] {
                let truth = law.percentile(p);
                let count = |is_counted: &dyn Fn(f64) -> bool| {
                    let counted = times.iter().filter(|&&time| is_counted(time as f64)).count();
                    counted as f64 / COUNT as f64
                };
                let (below, up_to) = (count(&|t| t < truth - 1.0), count(&|t| t <= truth + 1.0));
                assert!(below < p + 0.004 && up_to > p - 0.004, "{law:?} p{p}: {below} {up_to}");
            }
            let mean = times.iter().map(|&time| time as f64).sum::<f64>() / COUNT as f64;
            // Pareto has no variance: its mean converges slowly.
            let tolerance = if law == Law::Pareto { 0.1 } else { 0.02 };
            assert!((mean / law.mean() - 1.0).abs() < tolerance, "{law:?}: {mean}");
        }
    }

    #[test]
    fn times_of_heavy_queues_have_the_percentiles_of_the_table() {
        const COUNT: usize = 4_000_000;
        for (deviation, load, p, tolerance) in
            [(1.5, 0.5, 0.5, 0.01), (1.5, 0.5, 0.9, 0.005), (1.5, 0.5, 0.99, 0.002)]
        {
            let law = Law::HeavyQueue(deviation, load);
            let truth = law.percentile(p);
            let times = law.draw(COUNT, &mut Stream::new(7, 8, 9));
            let below = times.iter().filter(|&&time| (time as f64) < truth).count() as f64;
            assert!((below / COUNT as f64 - p).abs() < tolerance, "{law:?} p{p}: {below}");
        }
    }

    #[test]
    fn bursts_have_the_stated_share_and_length() {
        let mut random = Stream::new(4, 5, 6);
        let mut bursts = Bursts::new(0.02, 20.0, &mut random);
        let events: Vec<bool> = (0..2_000_000).map(|_| bursts.next(&mut random)).collect();
        let share = events.iter().filter(|&&event| event).count() as f64 / events.len() as f64;
        let begins = events.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!((share - 0.02).abs() < 0.002, "{share}");
        assert!((share * events.len() as f64 / begins - 20.0).abs() < 1.5, "{begins}");
    }
}
