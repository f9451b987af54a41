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
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Exponential => "independent, exponential".into(),
            Self::Pareto => "independent, Pareto 1.5".into(),
            Self::Lognormal(deviation) => format!("independent, lognormal {deviation}"),
            Self::Steps => "independent, in whole steps".into(),
            Self::Autoregressive(correlation) => format!("AR(1) {correlation}, lognormal 0.5"),
            Self::Bursts => "bursts of 50".into(),
            Self::Queue(load) => format!("queue at load {load}"),
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
    #[must_use]
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
    #[must_use]
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
#[must_use]
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
