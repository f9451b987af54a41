//! Agreement of an answer with that in FLOAT(32).

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use super::super::{is_top, top};

/// When an answer agrees with that in FLOAT(32), for models without labels.
///
/// ```
/// use dyno_number::evaluate::graph::Agreement;
/// let agreement: Agreement = "cosine 0.99".parse()?;
/// assert!(agreement.holds(&[1.0, 1.0], &[3.0, 3.1]));
/// assert!(!agreement.holds(&[1.0, 1.0], &[3.0, 1.0]));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Agreement {
    /// The largest number has the same index; among equal numbers the first one counts. NaN agrees
    /// with nothing.
    Top,
    /// The cosine of the two answers is at least this.
    Cosine(f64),
    /// Each number differs by at most this, such as the value of a regression.
    Within(f64),
    /// All numbers are equal.
    Equal,
    /// All numbers before the first occurrence of this value are equal, such as the tokens before
    /// the end of a text.
    EqualUntil(i64),
}

impl Agreement {
    /// Returns whether two answers agree.
    pub fn holds(self, found: &[f32], base: &[f32]) -> bool {
        match self {
            Self::Top => found.len() == base.len() && is_top(found, top(base)),
            Self::Cosine(least) => cosine(found, base) >= least,
            Self::Within(most) => {
                let is_near =
                    |(a, b): (&f32, &f32)| a == b || (f64::from(*a) - f64::from(*b)).abs() <= most;
                found.len() == base.len() && found.iter().zip(base).all(is_near)
            }
            Self::Equal => found == base,
            Self::EqualUntil(end) => prefix(end, found) == prefix(end, base),
        }
    }

    /// Returns the fewest numbers of an answer about which the agreement states anything: the largest of
    /// one number is always the first, and its cosine knows only its sign.
    pub(super) fn fewest_numbers(self) -> usize {
        match self {
            Self::Top | Self::Cosine(_) => 2,
            Self::Within(_) | Self::Equal | Self::EqualUntil(_) => 0,
        }
    }

    /// Returns the share of these answers that agree with a single answer to all samples: the most
    /// frequent one, for cosines their mean direction, or for differences the numbers near most others.
    /// `None` without answers.
    pub(super) fn constant_share(self, answers: &[Vec<f32>]) -> Option<f64> {
        let count = answers.len();
        let most = match self {
            Self::Top => most_frequent(answers.iter().map(|answer| top(answer))),
            Self::Equal => most_frequent(answers.iter().map(|answer| bits(answer))),
            Self::EqualUntil(end) => {
                most_frequent(answers.iter().map(|answer| bits(prefix(end, answer))))
            }
            Self::Cosine(_) => {
                let mean = mean_direction(answers);
                answers.iter().filter(|answer| self.holds(&mean, answer)).count()
            }
            Self::Within(most) => {
                let middle = middle(answers, most);
                let is_near = |answer: &&Vec<f32>| {
                    let mut pairs = answer.iter().zip(&middle);
                    answer.len() == middle.len()
                        && pairs.all(|(x, middle)| (f64::from(*x) - middle).abs() <= most)
                };
                answers.iter().filter(is_near).count()
            }
        };
        (count > 0).then(|| most as f64 / count as f64)
    }
}

/// Returns the numbers before the first occurrence of `end`.
fn prefix(end: i64, all: &[f32]) -> &[f32] {
    &all[..all.iter().position(|x| *x == end as f32).unwrap_or(all.len())]
}

/// Returns numbers as keys. Both zeros are equal.
fn bits(all: &[f32]) -> Vec<u32> {
    all.iter().map(|x| (x + 0.0).to_bits()).collect()
}

/// Returns how often the most frequent of some keys occurs.
fn most_frequent<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> usize {
    let mut counts: HashMap<K, usize> = HashMap::new();
    keys.for_each(|key| *counts.entry(key).or_default() += 1);
    counts.into_values().max().unwrap_or(0)
}

/// Returns for each position of the answers the middle of the most numbers that differ by at most twice
/// `most`.
fn middle(answers: &[Vec<f32>], most: f64) -> Vec<f64> {
    let at_position = |at: usize| {
        let all = answers.iter().filter_map(|answer| answer.get(at)).map(|x| f64::from(*x));
        let mut all: Vec<f64> = all.filter(|x| x.is_finite()).collect();
        all.sort_by(f64::total_cmp);
        let (mut start, mut longest, mut middle) = (0, 0, 0.0);
        for (end, last) in all.iter().enumerate() {
            while last - all[start] > 2.0 * most {
                start += 1;
            }
            if end + 1 - start > longest {
                longest = end + 1 - start;
                middle = f64::midpoint(all[start], *last);
            }
        }
        middle
    };
    let longest = answers.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).map(at_position).collect()
}

/// Returns the mean of answers of length 1.
fn mean_direction(answers: &[Vec<f32>]) -> Vec<f32> {
    let longest = answers.iter().map(Vec::len).max().unwrap_or(0);
    let mut sum = vec![0.0_f64; longest];
    for answer in answers {
        let size = answer.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if size > 0.0 {
            sum.iter_mut().zip(answer).for_each(|(sum, x)| *sum += f64::from(*x) / size);
        }
    }
    sum.into_iter().map(|x| (x / answers.len() as f64) as f32).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
    };
    let size = dot(a, a) * dot(b, b);
    if size > 0.0 {
        dot(a, b) / size.sqrt()
    } else {
        // An answer of zeros agrees only with zeros.
        f64::from(u8::from(a == b))
    }
}

impl FromStr for Agreement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || {
            format!("expected top, cosine 0.99, within 0.1, equal or equal until 3, found {text:?}")
        };
        match words[..] {
            ["top"] => Ok(Self::Top),
            ["equal"] => Ok(Self::Equal),
            ["equal", "until", end] => end.parse().map(Self::EqualUntil).map_err(|_| wrong()),
            ["cosine", least] => {
                let least = least.parse().ok().filter(|least| (-1.0..=1.0).contains(least));
                least.map(Self::Cosine).ok_or_else(wrong)
            }
            ["within", most] => {
                let most = most.parse().ok().filter(|most: &f64| *most > 0.0 && most.is_finite());
                most.map(Self::Within).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => write!(f, "top"),
            Self::Cosine(least) => write!(f, "cosine {least}"),
            Self::Within(most) => write!(f, "within {most}"),
            Self::Equal => write!(f, "equal"),
            Self::EqualUntil(end) => write!(f, "equal until {end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Embeddings of texts often have a large part in common, which any constant has as well.
    #[test]
    fn the_share_of_a_single_answer_is_known() {
        let share = |text: &str, answers: &[Vec<f32>]| {
            text.parse::<Agreement>().expect(text).constant_share(answers)
        };
        let answers =
            [[9.0, 1.0], [9.0, -1.0], [8.0, 0.0], [0.0, 5.0]].map(|answer| answer.to_vec());
        assert_eq!(share("top", &answers), Some(0.75));
        assert_eq!(share("cosine 0.9", &answers), Some(0.75));
        assert_eq!(share("cosine 0.99999", &answers), Some(0.0));
        assert_eq!(share("equal", &answers), Some(0.25));
        // Three of the first numbers are near 8.5, and three of the second ones near 0.
        assert_eq!(share("within 1", &answers), Some(0.75));
        assert_eq!(share("within 0.9", &answers), Some(0.5));
        // Half of the numbers are near 0 at each position, but only one answer is at both.
        let corners =
            [[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]].map(|answer| answer.to_vec());
        assert_eq!(share("within 1", &corners), Some(0.25));
        let unknown = [[f32::NAN], [f32::NAN], [1.0]].map(|answer| answer.to_vec());
        assert_eq!(share("within 1", &unknown), Some(1.0 / 3.0));
        let single = [[1.0], [1.5], [2.0], [4.0]].map(|answer| answer.to_vec());
        assert_eq!(share("within 0.5", &single), Some(0.75));
        assert_eq!(share("equal until 9", &answers), Some(0.5));
        assert_eq!(share("top", &[]), None);
        let numbers = |text: &str| text.parse::<Agreement>().expect(text).fewest_numbers();
        assert_eq!(["top", "cosine 0.9", "equal"].map(numbers), [2, 2, 0]);
    }

    #[test]
    fn answers_agree() {
        let agreement = |text: &str| text.parse::<Agreement>().expect(text);
        assert!(agreement("top").holds(&[1.0, 3.0, 3.0], &[0.0, 9.0, 8.0]));
        assert!(!agreement("top").holds(&[1.0, 3.0, 4.0], &[0.0, 9.0, 8.0]));
        assert!(agreement("cosine 0.99").holds(&[1.0, 1.0], &[3.0, 3.1]));
        assert!(!agreement("cosine 0.99").holds(&[1.0, 1.0], &[3.0, 1.0]));
        assert!(agreement("cosine 1").holds(&[0.0], &[0.0]), "zeros");
        assert!(agreement("within 0.5").holds(&[1.5, f32::INFINITY], &[1.0, f32::INFINITY]));
        assert!(!agreement("within 0.4").holds(&[1.5, 2.0], &[1.0, 2.0]));
        assert!(
            !agreement("within 9").holds(&[f32::NAN], &[1.0])
                && !agreement("within 9").holds(&[], &[1.0])
        );
        assert!(agreement("equal until 3").holds(&[5.0, 3.0, 7.0], &[5.0, 3.0, 8.0]));
        assert!(
            !agreement("equal until 3").holds(&[5.0, 4.0, 3.0], &[5.0, 3.0, 3.0]),
            "a longer text"
        );
        assert!(!agreement("equal").holds(&[5.0, 3.0, 7.0], &[5.0, 3.0, 8.0]));
        for text in ["top", "cosine 0.995", "within 0.25", "equal", "equal until -1"] {
            assert_eq!(agreement(text).to_string(), text);
        }
        for text in [
            "",
            "cosine",
            "cosine 2",
            "within",
            "within 0",
            "within -1",
            "within nan",
            "within 1e400",
            "equal until x",
            "most",
        ] {
            assert!(text.parse::<Agreement>().is_err(), "{text}");
        }
    }
}
