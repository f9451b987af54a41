//! What one run says of itself: limits of its own figures. They hold for runs
//! like this one; how much runs vary among themselves is not in them.

use super::within::{TooFew, mean, percentiles};
use crate::clock::Nanos;

/// Factors of a figure: with confidence `1 - risk` the true one lies between the
/// two multiples of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// In (0, 1].
    pub low: f64,
    /// At least 1; infinite if the run says nothing of how high it may be.
    pub high: f64,
}

/// Of percentile `p` of these latencies, which stand in the order of the run.
///
/// # Errors
/// If there are too few.
pub fn percentile(latencies: &[Nanos], p: f64, risk: f64) -> Result<Factors, TooFew> {
    let [of, _] = percentiles([latencies, latencies], p, risk)?;
    Ok(Factors { low: (-of.below).exp(), high: of.above.exp() })
}

/// Of the rate of these completions, ns since the start, in ascending order: from
/// the mean of the times between them.
///
/// # Errors
/// If there are too few.
pub fn rate(completed: &[Nanos], risk: f64) -> Result<Factors, TooFew> {
    let between: Vec<Nanos> =
        completed.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    let of = mean(&between, risk)?;
    // Longer times are a lower rate.
    Ok(Factors { low: (-of.above).exp(), high: of.below.exp() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Mt19937;

    const RISK: f64 = 0.05;
    const TRIALS: u32 = 400;
    /// Of 400 trials at 95 %, fewer than this are a chance of one in a thousand.
    const COVERED_FEWEST: u32 = 365;

    /// Exponential times with a mean of 1 ms; each is the one before with this
    /// probability, so that neighbours resemble each other.
    fn times(seed: u64, count: usize, sticky: f64) -> Vec<Nanos> {
        let mut rng = Mt19937::new(seed);
        let mut last = 0;
        let unit = |rng: &mut Mt19937| (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0;
        let mut next = || {
            if last == 0 || unit(&mut rng) >= sticky {
                last = (-unit(&mut rng).ln() * 1e6).round() as Nanos + 1;
            }
            last
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn limits_cover_the_truth_as_often_as_they_say() {
        for sticky in [0.0, 0.8] {
            let (mut percentiles, mut rates) = (0, 0);
            for seed in 0..TRIALS {
                let times = times(seed.into(), 4_000, sticky);
                let mut sorted = times.clone();
                sorted.sort_unstable();
                let found = sorted[3_600] as f64;
                let limits = percentile(&times, 0.9, RISK).unwrap();
                // p90 of an exponential is ln 10 means.
                let truth = 1e6 * 10_f64.ln();
                percentiles +=
                    u32::from((found * limits.low..=found * limits.high).contains(&truth));
                let completed: Vec<Nanos> = times
                    .iter()
                    .scan(0, |now, gap| {
                        *now += gap;
                        Some(*now)
                    })
                    .collect();
                let limits = rate(&completed, RISK).unwrap();
                let found = 3_999e9 / (completed[3_999] - completed[0]) as f64;
                rates += u32::from((found * limits.low..=found * limits.high).contains(&1_000.0));
            }
            assert!(percentiles >= COVERED_FEWEST, "sticky {sticky}: {percentiles} percentiles");
            assert!(rates >= COVERED_FEWEST, "sticky {sticky}: {rates} rates");
        }
    }

    #[test]
    fn a_short_run_says_nothing() {
        assert!(percentile(&[1; 99], 0.9, RISK).is_err());
        assert!(rate(&[], RISK).is_err());
    }
}
