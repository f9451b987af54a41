//! Confirms that a loss of accuracy is within a margin, by samples that both FLOAT(32) and a
//! configuration answered.
//!
//! Samples are paired: most are answered alike, and only those that differ carry information about
//! the loss. The statement is "at most this share of the metric is lost", with a probability of at
//! most `level` to be wrong. It holds for samples that did not influence the choice of the
//! configuration.
//!
//! ```
//! use dyno_number::confirm::{PairedCounts, PairedSamples};
//! // Of 1,000 samples 980 are right in both, 2 only in FLOAT(32) and 1 only in the configuration.
//! let paired = PairedSamples::Right(PairedCounts { both: 980, broken: 2, fixed: 1, neither: 17 });
//! assert!(paired.confirms(0.01, 0.05));
//! assert!(!paired.confirms(0.002, 0.05));
//! let proven = paired.smallest_margin(0.05);
//! assert!(proven > 0.002 && proven < 0.01);
//! ```

#[cfg(test)]
mod tests;

use dyno_loadgen::compare::probability::{binomial_at, binomial_at_least, student, student_above};

use crate::metric::{Direction, Metric};

/// Default probability of a wrong confirmation: 95 % confidence.
pub const LEVEL: f64 = 0.05;

/// Fewest samples with scores: with fewer, the mean of scores is not approximately normal.
const LEAST_SCORES: usize = 30;

/// Most samples that differ for which the exact test is computed. With more, the score test has its
/// level.
const MOST_EXACT: u64 = 200;

/// Part of the level that is spent on the range of the nuisance parameter (Berger and Boos, 1994).
const NUISANCE_SHARE: f64 = 0.02;

/// Points of the nuisance parameter at which the exact test is computed.
const NUISANCE_POINTS: u32 = 48;

/// Results of samples, one each, as an evaluator returns them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SampleOutcomes {
    /// A digit for each sample: 1 if its answer is right, else 0.
    Right(#[serde(deserialize_with = "digits")] String),
    /// A number for each sample, whose mean is the metric.
    Scores(Vec<f64>),
}

/// Reads the digits of samples. A damaged journal, or a program, may have others.
fn digits<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let digits = <String as serde::Deserialize>::deserialize(deserializer)?;
    if digits.bytes().all(|digit| matches!(digit, b'0' | b'1')) {
        Ok(digits)
    } else {
        Err(serde::de::Error::custom("expected a digit 0 or 1 for each sample"))
    }
}

impl SampleOutcomes {
    /// Returns outcomes of answers that are right or wrong.
    pub fn from_right(right: impl IntoIterator<Item = bool>) -> Self {
        Self::Right(right.into_iter().map(|right| if right { '1' } else { '0' }).collect())
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        match self {
            Self::Right(digits) => digits.len(),
            Self::Scores(scores) => scores.len(),
        }
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the scores of a part of the samples; right answers have the score 1.
    fn scores(&self, part: std::ops::Range<usize>) -> Vec<f64> {
        match self {
            Self::Right(digits) => {
                digits.as_bytes()[part].iter().map(|digit| f64::from(digit - b'0')).collect()
            }
            Self::Scores(scores) => scores[part].to_vec(),
        }
    }

    /// Returns the least and the largest result of a sample, or 0 if that is beyond.
    pub fn extremes(&self) -> [f64; 2] {
        extremes(&self.scores(0..self.len()))
    }

    /// Returns the outcomes of a configuration that fails on all of these samples.
    #[must_use]
    pub fn worst(&self, direction: Direction) -> Self {
        let [least, most] = self.extremes();
        match (self, direction) {
            (Self::Right(digits), Direction::Higher) => Self::Right("0".repeat(digits.len())),
            (Self::Right(digits), Direction::Lower) => Self::Right("1".repeat(digits.len())),
            (Self::Scores(scores), Direction::Higher) => Self::Scores(vec![least; scores.len()]),
            (Self::Scores(scores), Direction::Lower) => Self::Scores(vec![most; scores.len()]),
        }
    }

    /// Returns the mean over all samples.
    pub fn mean(&self) -> f64 {
        let sum = match self {
            Self::Right(digits) => digits.bytes().filter(|digit| *digit == b'1').count() as f64,
            Self::Scores(scores) => scores.iter().sum(),
        };
        sum / self.len().max(1) as f64
    }
}

/// Numbers of samples by their answers in FLOAT(32) and in a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairedCounts {
    /// Right in both.
    pub both: u64,
    /// Right in FLOAT(32) only.
    pub broken: u64,
    /// Right in the configuration only.
    pub fixed: u64,
    /// Wrong in both.
    pub neither: u64,
}

/// Results of the same samples in FLOAT(32) and in a configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum PairedSamples {
    /// Answers that are right or wrong.
    Right(PairedCounts),
    /// A number for each sample.
    Scores {
        /// In FLOAT(32).
        base: Vec<f64>,
        /// In the configuration.
        tuned: Vec<f64>,
        /// Whether more is better.
        direction: Direction,
        /// The least and the largest score that any configuration has on these samples. They limit
        /// what a sample that was not seen may lose.
        extremes: [f64; 2],
    },
}

impl PairedSamples {
    /// Pairs the outcomes of a part of the samples.
    ///
    /// # Errors
    /// The outcomes are of different samples, or are no finite numbers.
    pub fn new(
        base: &SampleOutcomes,
        tuned: &SampleOutcomes,
        part: std::ops::Range<usize>,
        metric: &Metric,
    ) -> Result<Self, String> {
        let count = base.len();
        if tuned.len() != count || part.end > count {
            let (found, end) = (tuned.len(), part.end);
            return Err(format!(
                "expected results of {} samples, found {count} in FLOAT 32 and {found} in the \
                 configuration",
                end.max(count)
            ));
        }
        match (base, tuned) {
            // A margin of an error rate is a part of the errors, not of the right answers.
            (SampleOutcomes::Right(base), SampleOutcomes::Right(tuned))
                if metric.direction == Direction::Higher =>
            {
                let mut counts = PairedCounts::default();
                for (base, tuned) in
                    base.as_bytes()[part.clone()].iter().zip(&tuned.as_bytes()[part])
                {
                    let count = match (base, tuned) {
                        (b'1', b'1') => &mut counts.both,
                        (b'1', _) => &mut counts.broken,
                        (_, b'1') => &mut counts.fixed,
                        _ => &mut counts.neither,
                    };
                    *count += 1;
                }
                Ok(Self::Right(counts))
            }
            // Scores may all be 0 or 1 in FLOAT(32), and have other values in a configuration.
            _ => {
                let [base, tuned] = [base, tuned].map(|outcomes| outcomes.scores(part.clone()));
                match base.iter().chain(&tuned).find(|score| !score.is_finite()) {
                    Some(score) => Err(format!("expected finite scores of samples, found {score}")),
                    None => Ok(Self::from_scores(base, tuned, metric.direction)),
                }
            }
        }
    }

    fn from_scores(base: Vec<f64>, tuned: Vec<f64>, direction: Direction) -> Self {
        let extremes = wider(extremes(&base), extremes(&tuned));
        Self::Scores { base, tuned, direction, extremes }
    }

    /// Returns the same samples, on which other configurations have scores in this range: a sample
    /// that was not seen may lose as much as the worst one of any configuration.
    #[must_use]
    pub(crate) fn with_extremes(self, range: [f64; 2]) -> Self {
        match self {
            Self::Scores { base, tuned, direction, extremes } => {
                Self::Scores { base, tuned, direction, extremes: wider(extremes, range) }
            }
            right @ Self::Right(_) => right,
        }
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        match self {
            Self::Right(PairedCounts { both, broken, fixed, neither }) => {
                both + broken + fixed + neither
            }
            Self::Scores { base, .. } => base.len() as u64,
        }
    }

    /// Returns the share of the metric that these samples lose: negative if the configuration is
    /// better, infinite if FLOAT(32) has nothing to lose.
    pub fn loss(&self) -> f64 {
        let (lost, base) = match self {
            Self::Right(counts) => {
                (counts.broken as f64 - counts.fixed as f64, (counts.both + counts.broken) as f64)
            }
            Self::Scores { base, tuned, direction, .. } => {
                let [base, tuned]: [f64; 2] = [base.iter().sum(), tuned.iter().sum()];
                match direction {
                    Direction::Higher => (base - tuned, base),
                    Direction::Lower => (tuned - base, base),
                }
            }
        };
        if lost == 0.0 { 0.0 } else { lost / base.max(0.0) }
    }

    /// Returns whether the loss is at most `margin`, with a probability of at most `level` that
    /// samples with a larger loss lead to this answer.
    pub fn confirms(&self, margin: f64, level: f64) -> bool {
        match self {
            // No number of samples proves that nothing is lost.
            Self::Right(counts) => margin > 0.0 && counts.prove(Side::Within, margin, level),
            Self::Scores { base, tuned, direction, extremes } => {
                score_bounds([base, tuned], *direction, *extremes, margin, level)[0] >= 0.0
            }
        }
    }

    /// Returns whether the loss is more than `margin`, with a probability of at most `level` that
    /// samples with a smaller loss lead to this answer.
    pub fn exceeds(&self, margin: f64, level: f64) -> bool {
        match self {
            Self::Right(counts) => counts.prove(Side::Beyond, margin, level),
            Self::Scores { base, tuned, direction, extremes } => {
                score_bounds([base, tuned], *direction, *extremes, margin, level)[1] < 0.0
            }
        }
    }

    /// Returns the smallest margin that these samples confirm; infinite if there is none below 10.
    pub fn smallest_margin(&self, level: f64) -> f64 {
        let most = match self {
            Self::Scores { direction: Direction::Lower, .. } => 10.0,
            _ => 1.0 - 1e-9,
        };
        if !self.confirms(most, level) {
            return f64::INFINITY;
        }
        let (mut fails, mut holds) = (0.0, most);
        for _ in 0..STEPS {
            let middle = f64::midpoint(fails, holds);
            if self.confirms(middle, level) { holds = middle } else { fails = middle }
        }
        holds
    }

    /// Returns how many samples with the same shares of answers confirm the margin. `None` if no number of
    /// them does: the loss is not below the margin.
    pub fn needed(&self, margin: f64, level: f64) -> Option<u64> {
        if self.loss() >= margin {
            return None;
        }
        if let Self::Scores { base, tuned, .. } = self
            && base.iter().chain(tuned).all(|score| *score == 0.0)
        {
            return None; // Repeated samples without any score stay without one.
        }
        let samples = self.samples().max(1);
        let holds = |count: u64| self.scaled(count as f64 / samples as f64).confirms(margin, level);
        let most = match self {
            Self::Right(_) => MOST_SAMPLES,
            Self::Scores { .. } => MOST_SCORES as u64,
        };
        let mut enough = samples;
        while !holds(enough) {
            enough = enough.checked_mul(2).filter(|count| *count < most)?;
        }
        let mut few = if holds(samples) { 0 } else { samples };
        while enough - few > 1 + enough / 200 {
            let middle = few.midpoint(enough);
            if holds(middle) { enough = middle } else { few = middle }
        }
        Some(enough)
    }

    /// Returns the same shares of answers of another number of samples.
    fn scaled(&self, by: f64) -> Self {
        match self {
            Self::Right(PairedCounts { both, broken, fixed, neither }) => {
                let scaled = |count: u64| count as f64 * by;
                Self::Right(PairedCounts {
                    both: scaled(*both).round() as u64,
                    broken: scaled(*broken).ceil() as u64,
                    fixed: scaled(*fixed).floor() as u64,
                    neither: scaled(*neither).round() as u64,
                })
            }
            Self::Scores { base, tuned, direction, extremes } => {
                let count = ((base.len() as f64 * by).round() as usize).min(MOST_SCORES);
                let repeat = |scores: &[f64]| scores.iter().copied().cycle().take(count).collect();
                let (base, tuned) = (repeat(base), repeat(tuned));
                Self::Scores { base, tuned, direction: *direction, extremes: *extremes }
            }
        }
    }
}

/// Steps of a bisection of margins.
const STEPS: u32 = 24;
/// Largest number of samples that is stated as needed, and most scores that are repeated to find it.
const MOST_SAMPLES: u64 = 1 << 40;
const MOST_SCORES: usize = 1 << 24;

/// Returns the fewest samples that can confirm a margin at all: FLOAT(32) is right on each, and no
/// answer changes.
pub(crate) fn fewest_samples(margin: f64, level: f64) -> u64 {
    if margin <= 0.0 {
        return u64::MAX;
    }
    let holds = |both: u64| {
        PairedCounts { both, ..PairedCounts::default() }.prove(Side::Within, margin, level)
    };
    let mut enough = 1;
    while !holds(enough) {
        enough *= 2;
        if enough > MOST_SAMPLES {
            return u64::MAX;
        }
    }
    let mut few = enough / 2;
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        if holds(middle) { enough = middle } else { few = middle }
    }
    enough
}

/// Side of a margin on which a loss is.
#[derive(Clone, Copy)]
enum Side {
    /// The loss is below the margin.
    Within,
    /// The loss is above the margin.
    Beyond,
}

impl PairedCounts {
    /// Returns whether the loss is certainly on this side of the margin. Samples that are wrong in
    /// both are no evidence. Among the others, the loss is beyond the margin if the share of broken
    /// ones is at least `margin + (1 - margin) * fixed`.
    fn prove(self, side: Side, margin: f64, level: f64) -> bool {
        let Self { broken, fixed, .. } = self;
        let count = self.both + broken + fixed;
        if count == 0 {
            return false;
        }
        let test = MarginTest { count, margin };
        let found = test.statistic(broken, fixed);
        let distance = match side {
            Side::Within => found,
            Side::Beyond => -found,
        };
        if distance.is_nan() || distance <= 0.0 {
            return false;
        }
        if broken + fixed > MOST_EXACT {
            return student_above(distance, f64::INFINITY) <= level;
        }
        let nuisance = level * NUISANCE_SHARE;
        let most = upper_share(fixed, count, nuisance).min(test.most_fixed());
        let lines = test.region(found, broken, fixed);
        let is_rare = |at: u32| {
            let share = most * f64::from(at) / f64::from(NUISANCE_POINTS);
            let inside = test.probability(&lines, share);
            let probability = match side {
                Side::Within => inside,
                Side::Beyond => 1.0 - inside,
            };
            probability <= level - nuisance
        };
        (0..=NUISANCE_POINTS).all(is_rare)
    }
}

/// Test of a margin among samples that FLOAT(32) or the configuration answers rightly.
#[derive(Clone, Copy)]
struct MarginTest {
    count: u64,
    margin: f64,
}

impl MarginTest {
    /// Share of fixed samples at which all samples differ.
    fn most_fixed(self) -> f64 {
        (1.0 - self.margin) / (2.0 - self.margin)
    }

    /// Returns by how many standard deviations the loss is below the margin. The deviation is that
    /// of the most likely shares with exactly this margin, as in Tango's test (1998).
    fn statistic(self, broken: u64, fixed: u64) -> f64 {
        let [n, b, f] = [self.count, broken, fixed].map(|count| count as f64);
        let (m, a, c) = (self.margin, 1.0 - self.margin, 2.0 - self.margin);
        let rest = n - b - f;
        let linear = b * a * a + f * (a * a - m * c) - rest * c * m;
        let quadratic = n * a * c;
        let root = (linear * linear + 4.0 * quadratic * f * m * a).max(0.0).sqrt();
        let share = ((linear + root) / (2.0 * quadratic)).clamp(0.0, self.most_fixed());
        let variance = (m + a * share + a * a * share - m * m) / n;
        (m - (b - a * f) / n) / variance.max(f64::MIN_POSITIVE).sqrt()
    }

    /// Returns for each number of broken samples the fewest fixed ones with a statistic of at least
    /// `found`. A statistic that equals a negative `found` is not in the region: it is as far beyond
    /// the margin as the one that was found.
    fn region(self, found: f64, broken: u64, fixed: u64) -> Vec<u64> {
        let found = found * (1.0 - 1e-12);
        let mut lines = Vec::new();
        let mut least = 0;
        // Beyond these numbers of broken samples, probabilities are negligible.
        let last = (4 * (broken + fixed) + 60 + (self.count as f64 * self.margin * 4.0) as u64)
            .min(self.count);
        for broken in 0..=last {
            while least <= self.count - broken && self.statistic(broken, least) < found {
                least += 1;
            }
            lines.push(least);
        }
        lines
    }

    /// Returns the probability of a region if this share of the samples is fixed and the loss is
    /// exactly the margin.
    fn probability(self, lines: &[u64], share: f64) -> f64 {
        let lost = self.margin + (1.0 - self.margin) * share;
        let others = (share / (1.0 - lost)).clamp(0.0, 1.0);
        let mut sum = 0.0;
        for (broken, least) in lines.iter().enumerate() {
            let broken = broken as u64;
            let at = binomial_at(broken, self.count, lost);
            if at > 1e-14 {
                sum += at * binomial_at_least(*least, self.count - broken, others);
            }
        }
        sum
    }
}

/// Returns the share above which `count` samples have at most `found` with a probability of at most
/// `level` (Clopper and Pearson).
fn upper_share(found: u64, count: u64, level: f64) -> f64 {
    let (mut low, mut high) = (found as f64 / count as f64, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        let at_most = 1.0 - binomial_at_least(found + 1, count, middle);
        if at_most > level { low = middle } else { high = middle }
    }
    high
}

/// Returns the least and the largest of these scores, or 0 if that is beyond.
fn extremes(scores: &[f64]) -> [f64; 2] {
    scores.iter().fold([0.0_f64, 0.0], |[least, most], score| [least.min(*score), most.max(*score)])
}

/// Returns the range that contains both.
fn wider(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0].min(b[0]), a[1].max(b[1])]
}

/// Returns bounds on the mean of what each sample adds to the kept part of the metric: a lower
/// and an upper one, each at this level. Each sample has its difference from the limit. The worst
/// difference that the extremes allow, or the best one, is added as often as a share of samples
/// may be unseen at this level, so that samples without any difference prove no more than their
/// number.
fn score_bounds(
    [base, tuned]: [&[f64]; 2],
    direction: Direction,
    [least, most]: [f64; 2],
    margin: f64,
    level: f64,
) -> [f64; 2] {
    if base.len() < LEAST_SCORES {
        return [f64::NEG_INFINITY, f64::INFINITY];
    }
    let count = base.len() as f64;
    let (limit, sign) = match direction {
        Direction::Higher => (1.0 - margin, 1.0),
        Direction::Lower => (1.0 + margin, -1.0),
    };
    let difference = |(base, tuned): (&f64, &f64)| sign * (tuned - limit * base);
    let differences: Vec<f64> = base.iter().zip(tuned).map(difference).collect();
    // A score such as a cosine may fall below 0.
    let limits = extremes(base).map(|score| limit * score);
    let [fall, rise] = [limits[1] - least, most - limits[0]];
    let [worst, best] = match direction {
        Direction::Higher => [fall, rise],
        Direction::Lower => [rise, fall],
    };
    let mean = differences.iter().sum::<f64>() / count;
    let squares: f64 = differences.iter().map(|one| (one - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    let chance = student(level, count - 1.0) * deviation / count.sqrt();
    // Without any error, the size of an unseen one is unknown.
    let reach = |extreme: f64| match extreme {
        extreme if extreme > 0.0 => -level.ln() * extreme / count + chance,
        _ => f64::INFINITY,
    };
    [mean - reach(worst), mean + reach(best)]
}

/// Levels of tests of ever smaller configurations, from the widest one: the fallback procedure of
/// Wiens (2003). Half of the level belongs to the first test, and the others share the rest. A test
/// that confirms hands its level on to the next one. The probability that any confirmation is wrong
/// is at most the level, whichever configurations lose more than the margin.
///
/// ```
/// use dyno_number::confirm::Fallback;
/// let mut levels = Fallback::new(0.05, 3);
/// assert_eq!(levels.next_level(true), 0.025);
/// assert!((levels.next_level(true) - 0.0375).abs() < 1e-12);
/// assert_eq!(levels.next_level(false), 0.0125);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fallback {
    level: f64,
    count: usize,
    looks: usize,
    last: f64,
}

/// The part of the level that belongs to the first test.
pub(crate) const FIRST_SHARE: f64 = 0.5;

impl Fallback {
    /// Returns the levels of `count` tests.
    pub fn new(level: f64, count: usize) -> Self {
        Self { level, count, looks: 0, last: 0.0 }
    }

    /// Returns the level of the next test; `is_confirmed` is whether the last one confirmed.
    #[must_use]
    pub fn next_level(&mut self, is_confirmed: bool) -> f64 {
        let carried = if is_confirmed { self.last } else { 0.0 };
        self.last = carried + self.own_level(self.looks);
        self.looks += 1;
        self.last
    }

    /// Returns the level of a test without those that others hand on. These levels add up to the whole
    /// one, so that statements at them hold together.
    pub fn own_level(&self, index: usize) -> f64 {
        match (index, self.count) {
            (0, 1) => self.level,
            (0, _) => FIRST_SHARE * self.level,
            (_, count) => (1.0 - FIRST_SHARE) * self.level / (count - 1) as f64,
        }
    }
}
