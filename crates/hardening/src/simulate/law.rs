//! Laws of service times.

use crate::rng::Stream;

dyno_loadgen::named_enum! {
    /// Law of service times.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Law {
        /// All equal.
        Constant = "constant",
        /// Memoryless.
        Exponential = "exponential",
        /// Pareto with an exponent between 1.1 and 2.6, so that the variance is often infinite.
        HeavyTail = "heavy-tail",
        /// Mostly short, now and then forty times as long.
        Bimodal = "bimodal",
        /// Log-normal with autocorrelation: slow samples follow slow samples.
        Autocorrelated = "autocorrelated",
        /// Constant, with a pause of the whole system now and then.
        Stalls = "stalls",
    }
}

impl Law {
    /// Returns the law with this name.
    ///
    /// # Errors
    /// The names that exist.
    pub fn named(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|law| law.name() == name);
        found.ok_or_else(|| format!("expected one of {}, found `{name}`", known()))
    }
}

/// Parameters of the service times of a run.
#[derive(Debug, Clone, Copy)]
pub struct ServiceTimes {
    /// The law.
    pub law: Law,
    /// About the mean, ns.
    pub mean_ns: f64,
    /// Parameter of the law, in (0, 1).
    pub shape: f64,
}

/// Source of service times.
#[derive(Debug)]
pub struct Source {
    times: ServiceTimes,
    draw: Stream,
    /// State of the autocorrelated law.
    level: f64,
}

impl Source {
    /// Returns a source that draws from this stream.
    pub fn new(times: ServiceTimes, draw: Stream) -> Self {
        Self { times, draw, level: 0.0 }
    }

    /// Returns the next service time, ns (>= 1).
    pub fn next_ns(&mut self) -> u64 {
        let ServiceTimes { law, mean_ns, shape } = self.times;
        let factor = match law {
            Law::Constant => 1.0,
            Law::Exponential => -self.draw.unit().ln(),
            Law::HeavyTail => {
                (self.draw.unit().powf(-1.0 / (1.1 + 1.5 * shape)) * 0.3).min(10_000.0)
            }
            Law::Bimodal => {
                if self.draw.chance(0.02 + 0.1 * shape) {
                    20.0
                } else {
                    0.5
                }
            }
            Law::Autocorrelated => {
                let memory = 0.8 + 0.199 * shape;
                self.level =
                    memory * self.level + (1.0 - memory * memory).sqrt() * self.draw.normal();
                self.level.exp() * 0.6
            }
            Law::Stalls => {
                if self.draw.chance(0.01) {
                    100.0 * shape
                } else {
                    1.0
                }
            }
        };
        ((mean_ns * factor) as u64).max(1)
    }
}
