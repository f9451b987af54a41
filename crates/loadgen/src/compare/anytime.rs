//! Limits that hold at every look: runs may be added until the result is conclusive, and the
//! probability that any interval misses the true value stays below the risk.
//!
//! The interval contains every mean that a Bayes factor does not reject. Its alternative draws the
//! mean, in standard deviations, from a normal distribution with variance `1 / PRIOR`; the standard
//! deviation is unknown on both sides and has the scale-invariant prior. This factor is a
//! nonnegative martingale with expectation 1 where the mean is true, so that by Ville's inequality
//! it ever exceeds `1 / risk` with a probability of at most `risk`.
//!
//! Sources: Lai, "On confidence sequences", 1976; Wang and Ramdas, "Anytime-valid t-tests and
//! confidence sequences for Gaussian means with unknown variance", 2025; Robbins, "Statistical
//! methods related to the law of the iterated logarithm", 1970, for a known variance.

/// How often a comparison is made while runs are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookPolicy {
    /// Once, after a fixed number of runs.
    One,
    /// After any number of runs.
    Any,
}

/// Weight of the prior, in observations. With small values few observations are enough for large
/// effects. With 0.2, four observations give a first interval, and the interval of twenty is a
/// tenth wider.
const PRIOR: f64 = 0.2;

/// Returns how many standard errors of the mean of `count` observations the limits
/// are away from it; infinite for too few observations. The error is the usual one:
/// the sample's standard deviation by the square root of `count`.
pub fn student(count: f64, risk: f64) -> f64 {
    let all = count + PRIOR;
    // The Bayes factor exceeds 1 / risk where the share of the squares that the
    // mean explains exceeds 1 - rest.
    let rest = (risk * risk * PRIOR / all).powf(1.0 / count);
    let room = rest * all - PRIOR;
    if room > 0.0 { ((count - 1.0) * (1.0 - rest) * all / room).sqrt() } else { f64::INFINITY }
}

/// Returns how many standard errors the limits are away where the variance is
/// known, after `count` observations.
pub fn normal(count: f64, risk: f64) -> f64 {
    let all = count + PRIOR;
    (all / count * (all / (PRIOR * risk * risk)).ln()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Mt19937;

    const RISK: f64 = 0.05;

    /// From scipy 1.17.1: the `t` at which the integral of
    /// `nct.pdf(t, n - 1, d * sqrt(n)) / t.pdf(t, n - 1)` over d ~ N(0, 1 / 0.2) is 20.
    const FROM_SCIPY: [(f64, f64); 6] = [
        (4.0, 6.875_303),
        (5.0, 5.327_092),
        (8.0, 4.245_830),
        (10.0, 4.016_315),
        (20.0, 3.676_657),
        (40.0, 3.578_964),
    ];

    #[test]
    fn limits_agree_with_the_bayes_factor_integrated_numerically() {
        for (count, expected) in FROM_SCIPY {
            let found = student(count, RISK);
            assert!((found - expected).abs() < 1e-5, "{count}: {found}");
        }
        assert_eq!(student(2.0, RISK), f64::INFINITY);
    }

    /// Maximum number of misses: at a true probability of 5 %, more of 2,000 have a probability of
    /// 0.001.
    const MISSES_MOST: u32 = 131;
    const TRIALS: u64 = 2_000;

    #[test]
    fn a_true_mean_is_missed_at_any_of_many_looks_no_more_often_than_stated() {
        let (mut anytime, mut once_each) = (0, 0);
        for seed in 0..TRIALS {
            let mut random = Mt19937::new(seed);
            let (mut sum, mut squares) = (0.0, 0.0);
            let mut missed = [false; 2];
            for count in 1..=60 {
                let value = random.normal();
                sum += value;
                squares += value * value;
                let count = f64::from(count);
                if count < 2.0 {
                    continue;
                }
                let mean = sum / count;
                let error = ((squares - count * mean * mean) / (count - 1.0) / count).sqrt();
                missed[0] |= mean.abs() > student(count, RISK) * error;
                let usual = super::super::probability::student(RISK / 2.0, count - 1.0);
                missed[1] |= mean.abs() > usual * error;
            }
            anytime += u32::from(missed[0]);
            once_each += u32::from(missed[1]);
        }
        assert!(anytime <= MISSES_MOST, "{anytime} of {TRIALS}");
        assert!(once_each > 4 * MISSES_MOST, "the usual limits do not hold: {once_each}");
    }

    #[test]
    fn a_known_variance_needs_less() {
        for count in [4.0, 10.0, 100.0] {
            assert!(normal(count, RISK) < student(count, RISK), "{count}");
            assert!(normal(count, RISK) > 1.96);
        }
    }
}
