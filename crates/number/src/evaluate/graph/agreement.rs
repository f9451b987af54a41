//! Agreement of an answer with that in FLOAT(32).

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
    /// All numbers are equal.
    Equal,
    /// All numbers before the first occurrence of this value are equal, such as the tokens before
    /// the end of a text.
    EqualUntil(i64),
}

impl Agreement {
    /// Returns whether two answers agree.
    #[must_use]
    pub fn holds(self, found: &[f32], base: &[f32]) -> bool {
        match self {
            Self::Top => found.len() == base.len() && is_top(found, top(base)),
            Self::Cosine(least) => cosine(found, base) >= least,
            Self::Equal => found == base,
            Self::EqualUntil(end) => {
                let end =
                    |all: &[f32]| all.iter().position(|x| *x == end as f32).unwrap_or(all.len());
                found[..end(found)] == base[..end(base)]
            }
        }
    }
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
        let wrong = || format!("expected top, cosine 0.99, equal or equal until 3, found {text:?}");
        match words[..] {
            ["top"] => Ok(Self::Top),
            ["equal"] => Ok(Self::Equal),
            ["equal", "until", end] => end.parse().map(Self::EqualUntil).map_err(|_| wrong()),
            ["cosine", least] => {
                let least = least.parse().ok().filter(|least| (-1.0..=1.0).contains(least));
                least.map(Self::Cosine).ok_or_else(wrong)
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
            Self::Equal => write!(f, "equal"),
            Self::EqualUntil(end) => write!(f, "equal until {end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_agree() {
        let agreement = |text: &str| text.parse::<Agreement>().expect(text);
        assert!(agreement("top").holds(&[1.0, 3.0, 3.0], &[0.0, 9.0, 8.0]));
        assert!(!agreement("top").holds(&[1.0, 3.0, 4.0], &[0.0, 9.0, 8.0]));
        assert!(agreement("cosine 0.99").holds(&[1.0, 1.0], &[3.0, 3.1]));
        assert!(!agreement("cosine 0.99").holds(&[1.0, 1.0], &[3.0, 1.0]));
        assert!(agreement("cosine 1").holds(&[0.0], &[0.0]), "zeros");
        assert!(agreement("equal until 3").holds(&[5.0, 3.0, 7.0], &[5.0, 3.0, 8.0]));
        assert!(
            !agreement("equal until 3").holds(&[5.0, 4.0, 3.0], &[5.0, 3.0, 3.0]),
            "a longer text"
        );
        assert!(!agreement("equal").holds(&[5.0, 3.0, 7.0], &[5.0, 3.0, 8.0]));
        for text in ["top", "cosine 0.995", "equal", "equal until -1"] {
            assert_eq!(agreement(text).to_string(), text);
        }
        for text in ["", "cosine", "cosine 2", "equal until x", "most"] {
            assert!(text.parse::<Agreement>().is_err(), "{text}");
        }
    }
}
