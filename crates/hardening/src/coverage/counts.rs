//! Counts of intervals that contain the truth, with the uncertainty of these counts.

/// What one trial found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// The interval contains the truth.
    Covers,
    /// The whole interval is below the truth.
    TooLow,
    /// The whole interval is above the truth.
    TooHigh,
    /// Dyno publishes no interval, because there is too little data.
    None,
}

impl Trial {
    /// Returns what an interval is for a truth. Limits that equal the truth up to rounding contain
    /// it.
    pub fn new(low: f64, high: f64, truth: f64) -> Self {
        let rounding = 1e-9 * truth.abs();
        if high < truth - rounding {
            Self::TooLow
        } else if low > truth + rounding {
            Self::TooHigh
        } else {
            Self::Covers
        }
    }

    /// Returns the trial of a statement that is true or false, such as a verdict.
    pub fn from_statement(is_right: bool) -> Self {
        if is_right { Self::Covers } else { Self::TooLow }
    }
}

/// Counts over many trials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Intervals that contain the truth.
    pub covers: u64,
    /// Intervals below the truth.
    pub too_low: u64,
    /// Intervals above the truth.
    pub too_high: u64,
    /// Trials without an interval.
    pub none: u64,
}

impl Counts {
    /// Counts a trial.
    pub fn add(&mut self, trial: Trial) {
        *match trial {
            Trial::Covers => &mut self.covers,
            Trial::TooLow => &mut self.too_low,
            Trial::TooHigh => &mut self.too_high,
            Trial::None => &mut self.none,
        } += 1;
    }

    /// Returns the counts of both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            covers: self.covers + other.covers,
            too_low: self.too_low + other.too_low,
            too_high: self.too_high + other.too_high,
            none: self.none + other.none,
        }
    }

    /// Returns the number of published intervals.
    pub fn published(&self) -> u64 {
        self.covers + self.too_low + self.too_high
    }

    /// Returns the number of trials.
    pub fn trials(&self) -> u64 {
        self.published() + self.none
    }

    /// Returns the share of published intervals that contain the truth; 1 if there are none.
    pub fn coverage(&self) -> f64 {
        match self.published() {
            0 => 1.0,
            published => self.covers as f64 / published as f64,
        }
    }

    /// Returns the binomial limits of the coverage, `deviations` standard deviations away.
    ///
    /// Source: Wilson, "Probable inference, the law of succession, and statistical inference",
    /// 1927.
    pub fn limits(&self, deviations: f64) -> (f64, f64) {
        let trials = self.published().max(1) as f64;
        let (share, square) = (self.coverage(), deviations * deviations);
        let center = (share + square / (2.0 * trials)) / (1.0 + square / trials);
        let spread = share * (1.0 - share) / trials + square / (4.0 * trials * trials);
        let reach = deviations * spread.sqrt() / (1.0 + square / trials);
        ((center - reach).max(0.0), (center + reach).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_a_binomial_share() {
        // From R: `prop.test(81, 263, correct = FALSE)$conf.int`.
        let observed = Counts { covers: 81, too_low: 100, too_high: 82, none: 7 };
        let (low, high) = observed.limits(1.959_964);
        assert!((low - 0.255_289).abs() < 1e-5 && (high - 0.366_208).abs() < 1e-5, "{low} {high}");
        assert_eq!((observed.trials(), observed.published()), (270, 263));
    }

    #[test]
    fn an_interval_is_judged_by_the_side_of_the_truth() {
        assert_eq!(Trial::new(1.0, 2.0, 1.5), Trial::Covers);
        assert_eq!(Trial::new(1.0, 2.0, 2.5), Trial::TooLow);
        assert_eq!(Trial::new(1.0, 2.0, 0.5), Trial::TooHigh);
        assert_eq!(Trial::new(1.0, f64::INFINITY, 7.0), Trial::Covers);
        assert_eq!(Trial::new(7.0 * (1.0 + 1e-15), 8.0, 7.0), Trial::Covers);
    }
}
