//! Detects programs that do not read the formats of a trial: every answer is that of FLOAT(32).

use std::collections::HashMap;

use super::{Point, TuneOutcome, confirm};

/// Fewest configurations on one set of samples from which equal metrics are no chance.
const FEWEST: usize = 5;
/// The smallest configuration is smaller than the largest by at least this factor. FLOAT(32) may well
/// have the metric of 16 bits, but hardly that of all formats of 8 bits and fewer.
const SHRINKS: f64 = 4.0;
/// How often the range of six evaluations of FLOAT(32) is no effect of formats. The range is about 2.5
/// standard deviations, so hundreds of results without an effect stay within it in most jobs. A search
/// also evaluates formats that are too narrow, which lose far more.
const NOISE_FACTOR: f64 = 3.0;

impl TuneOutcome {
    /// Returns the range of the evaluations of FLOAT(32); 0 if they are equal.
    fn base_difference(&self) -> f64 {
        self.noise.map_or(0.0, |[one, other]| (one - other).abs())
    }

    /// Returns the number of evaluations if each has the metric of FLOAT(32) although the formats shrink
    /// from 32 bits to few; `None` otherwise. The metrics are equal, or differ by little more than those
    /// of FLOAT(32) do.
    pub fn evaluations_without_effect(&self) -> Option<usize> {
        let allowed = NOISE_FACTOR * self.base_difference();
        let mut sizes: HashMap<usize, Vec<f64>> = HashMap::new();
        for Point { subset, bits, accuracy, .. } in &self.points {
            let base = self.baselines[*subset as usize]?;
            // Without noise bit-equal: even robust networks change a little.
            if (accuracy - base.accuracy).abs() > allowed {
                return None;
            }
            sizes.entry(*subset as usize).or_default().push(*bits);
        }
        let shrinks = |sizes: &Vec<f64>| {
            let most = sizes.iter().fold(0.0_f64, |most, bits| most.max(*bits));
            let least = sizes.iter().fold(f64::INFINITY, |least, bits| least.min(*bits));
            sizes.len() >= FEWEST && SHRINKS * least <= most
        };
        sizes.values().any(shrinks).then_some(self.points.len())
    }

    /// Makes the verdict UNDECIDED because formats had no effect. `reader` is what should have read
    /// them, such as `the program`.
    pub fn doubt_reader(&mut self, reader: &str, margin: f64) {
        let Some(count) = self.evaluations_without_effect() else { return };
        let equal = if self.base_difference() > 0.0 {
            "differ from FLOAT 32 by no more than it may differ from itself"
        } else {
            "have exactly the result of FLOAT 32"
        };
        let problem = format!(
            "all {count} evaluations {equal}, from 32 bits to few; {reader} does not seem to read \
             {{config}}, the file with the formats"
        );
        self.confirmation = Some(match self.confirmation.take() {
            Some(earlier) => earlier.without_statement(&problem),
            None => confirm::undecided(margin, 0, None, &problem),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::network::tests::lenet;
    use crate::tune::{
        Confirmation, Evaluation, Journal, MarginVerdict, Settings, Stop, Trial, TuneOutcome,
        too_few, tune,
    };

    fn outcome(accuracy: impl Fn(&Trial) -> f64, most: Option<u64>) -> TuneOutcome {
        let mut evaluate = |trials: &[Trial]| -> Vec<Result<Evaluation, Stop>> {
            trials.iter().map(|trial| Ok(Evaluation::from_accuracy(accuracy(trial)))).collect()
        };
        let settings = Settings { max_evaluations: most, ..Settings::default() };
        tune(&lenet(), &settings, Journal::disabled(), &mut evaluate, &mut |_| ())
    }

    #[test]
    fn a_program_that_reads_no_formats_proves_nothing() {
        let mut found = outcome(|_| 0.98, None);
        let count = found.evaluations_without_effect().expect("all are equal");
        assert!(count >= 5 && count == found.points.len());
        found.doubt_reader("the program", 0.01);
        let confirmation = found.confirmation.expect("a verdict");
        assert_eq!(confirmation.verdict, MarginVerdict::Undecided);
        assert!(confirmation.problem.contains("does not seem to read {config}"));
    }

    /// Results that vary by chance hide formats that have no effect, but not formats that have one.
    #[test]
    fn noise_is_no_effect_of_formats() {
        let noisy = |trial: &Trial| 0.98 + 0.002 * (trial.number % 3) as f64;
        let mut found = outcome(noisy, None);
        assert!(found.base_difference() > 0.0);
        assert!(found.evaluations_without_effect().is_some());
        found.doubt_reader("the program", 0.01);
        let problem = found.confirmation.expect("a verdict").problem;
        assert!(problem.contains("than it may differ from itself, from 32"), "{problem}");
        let read = |trial: &Trial| {
            let is_least = trial.assignment.formats().iter().any(|format| format.bits() < 4);
            0.98 + 0.002 * (trial.number % 3) as f64 - if is_least { 0.1 } else { 0.0 }
        };
        assert_eq!(outcome(read, None).evaluations_without_effect(), None);
    }

    /// Returns a sample of nearly the standard normal distribution.
    fn normal(seed: u64) -> f64 {
        let mut state = seed;
        let mut uniform = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }

    /// The range of two evaluations of FLOAT(32) is too small in about half of all jobs.
    #[test]
    fn noise_is_recognized_in_most_jobs() {
        let is_recognized = |job: &u64| {
            let noisy = |trial: &Trial| 0.98 + 0.002 * normal(1_000_003 * job + trial.number);
            outcome(noisy, None).evaluations_without_effect().is_some()
        };
        let jobs = 60;
        let recognized = (1..=jobs).filter(is_recognized).count() as u64;
        assert!(10 * recognized >= 8 * jobs, "{recognized} of {jobs}");
    }

    /// Equal answers prove a margin only if the formats had an effect.
    #[test]
    fn what_a_confirmation_proved_is_dropped_with_its_verdict() {
        let mut found = outcome(|_| 0.98, None);
        let few = too_few(0.01, 400);
        assert!(few.proven_margin.is_finite());
        found.confirmation = Some(Confirmation { verdict: MarginVerdict::Valid, ..few });
        found.doubt_reader("the program", 0.01);
        let confirmation = found.confirmation.expect("a verdict");
        assert_eq!(confirmation.verdict, MarginVerdict::Undecided);
        assert!(confirmation.proven_margin.is_infinite(), "{confirmation:?}");
        assert_eq!((confirmation.needed, confirmation.held_out), (None, 400));
    }

    #[test]
    fn a_result_that_changes_once_or_few_results_are_no_reason_to_doubt() {
        let least = |trial: &Trial| {
            let is_least = trial.assignment.formats().iter().any(|format| format.bits() < 3);
            if is_least { 0.979_999_9 } else { 0.98 }
        };
        let mut changing = outcome(least, None);
        assert_eq!(changing.evaluations_without_effect(), None);
        changing.doubt_reader("the program", 0.01);
        assert_eq!(changing.confirmation, None);
        assert_eq!(outcome(|_| 0.98, Some(2)).evaluations_without_effect(), None);
    }
}
