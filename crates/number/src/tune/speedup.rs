//! Whether an answer is faster than FLOAT(32): latencies vary, and that of the answer is the
//! smallest of many. Both are therefore measured again, in turn.

use dyno_loadgen::compare::probability::binomial_at_least;

use super::TuneOutcome;
use super::step::{Phase, Step};
use super::trial::{Evaluation, Stop, Trial};
use crate::assignment::Assignment;
use crate::confirm::LEVEL;

/// Latencies of FLOAT(32) divided by those of the answer, measured in turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speedup {
    /// Median of the rounds.
    pub median: f64,
    /// Interval that has the median with at least 95 % confidence.
    pub interval: [f64; 2],
    /// Number of rounds.
    pub rounds: usize,
}

impl Speedup {
    /// Returns the median and its interval of order statistics, which needs no distribution. `None`
    /// if there are too few rounds, or a ratio is no positive number.
    ///
    /// ```
    /// use dyno_number::tune::Speedup;
    /// let found = Speedup::from_ratios(vec![1.3, 1.2, 1.25, 1.4, 1.1, 1.35]).unwrap();
    /// assert_eq!((found.interval, found.is_faster()), ([1.1, 1.4], true));
    /// assert!(Speedup::from_ratios(vec![1.3; 5]).is_none());
    /// ```
    pub fn from_ratios(mut ratios: Vec<f64>) -> Option<Self> {
        if !ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0) {
            return None;
        }
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len();
        // Probability that fewer than `rank` rounds are below the median.
        let tail = |rank: usize| 1.0 - binomial_at_least(rank as u64, count as u64, 0.5);
        let rank = (1..=count / 2).take_while(|rank| 2.0 * tail(*rank) <= LEVEL).last()?;
        let median = f64::midpoint(ratios[(count - 1) / 2], ratios[count / 2]);
        let interval = [ratios[rank - 1], ratios[count - rank]];
        Some(Self { median, interval, rounds: count })
    }

    /// Returns whether the answer is faster, with at least 95 % confidence.
    pub fn is_faster(self) -> bool {
        self.interval[0] > 1.0
    }

    /// Returns the finding in words.
    pub fn sentence(self) -> String {
        let Self { median, interval: [low, high], rounds } = self;
        let verdict = if self.is_faster() {
            "the answer is faster than FLOAT 32"
        } else if high < 1.0 {
            "the answer is slower than FLOAT 32"
        } else {
            "the answer is not proven to be faster than FLOAT 32"
        };
        format!(
            "{verdict}: measured {rounds} times in turn, FLOAT 32 takes {median:.3} times as long \
             ({low:.3} to {high:.3} with 95 % confidence)"
        )
    }
}

impl TuneOutcome {
    /// Measures the answer and FLOAT(32) again, in turn, and keeps the result. `evaluate` gets
    /// trials with the number [`Trial::AGAIN`] and returns their latencies.
    ///
    /// # Errors
    /// A trial failed, was interrupted, or has no latency.
    pub fn compare_latency(
        &mut self,
        base: &Assignment,
        rounds: usize,
        evaluate: &mut dyn FnMut(&Trial) -> Result<Evaluation, Stop>,
    ) -> Result<(), Stop> {
        let Some(answer) = self.answer.as_ref().filter(|answer| answer.assignment != *base) else {
            return Ok(());
        };
        let subset = answer.subset;
        let mut latency = |assignment: &Assignment| {
            let assignment = assignment.clone();
            let trial = Trial { number: Trial::AGAIN, subset, assignment, decides: None };
            let missing = || Stop::Failed("a repeated trial has no latency".into());
            evaluate(&trial)?.latency_ns.ok_or_else(missing)
        };
        let mut ratios = Vec::new();
        for round in 0..rounds {
            // Each of them is first in half of the rounds.
            let ratio = if round % 2 == 0 {
                let first = latency(base)?;
                first / latency(&answer.assignment)?
            } else {
                let first = latency(&answer.assignment)?;
                latency(base)? / first
            };
            ratios.push(ratio);
        }
        self.speedup = Speedup::from_ratios(ratios);
        let decision = self
            .speedup
            .map_or_else(|| "the latencies cannot be compared".to_owned(), Speedup::sentence);
        let question = "is the answer faster than FLOAT 32?".to_owned();
        let (phase, candidates) = (Phase::Confirmation, Vec::new());
        self.steps.push(Step { phase, subset, question, candidates, decision });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_has_the_ranks_of_the_sign_test() {
        let ratios = |count: usize| (1..=count).map(|at| at as f64).collect::<Vec<_>>();
        let found = Speedup::from_ratios(ratios(6)).unwrap();
        assert_eq!((found.median, found.interval), (3.5, [1.0, 6.0]));
        // From tables of the sign test: ranks 2 of 11, and 6 of 20.
        assert_eq!(Speedup::from_ratios(ratios(11)).unwrap().interval, [2.0, 10.0]);
        assert_eq!(Speedup::from_ratios(ratios(20)).unwrap().interval, [6.0, 15.0]);
        assert!(Speedup::from_ratios(vec![1.0, f64::NAN, 1.0, 1.0, 1.0, 1.0]).is_none());
    }

    #[test]
    fn an_answer_that_is_no_faster_is_none() {
        let noisy = vec![0.9, 1.1, 1.05, 0.95, 1.2, 1.15, 0.97, 1.01, 1.02, 0.99, 1.0];
        let found = Speedup::from_ratios(noisy).unwrap();
        assert!(!found.is_faster() && found.sentence().starts_with("the answer is not proven"));
        let slow = Speedup::from_ratios(vec![0.8; 6]).unwrap();
        assert!(!slow.is_faster() && slow.sentence().starts_with("the answer is slower"));
        assert!(!Speedup::from_ratios(vec![1.0; 6]).unwrap().is_faster(), "equal");
    }
}
