//! What counts as right.

use std::fmt;
use std::str::FromStr;

/// When an answer counts as that of FLOAT(32), where there are no labels.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Agreement {
    /// The largest number stands in the same place, the first where some are equal.
    Top,
    /// The cosine of the two answers is at least this.
    Cosine(f64),
    /// All numbers are the same.
    Equal,
    /// All numbers up to the first of this value are the same: what stands behind an end of text is none.
    EqualUntil(i64),
}

impl Agreement {
    /// Whether two answers agree.
    #[must_use]
    pub fn holds(self, found: &[f32], base: &[f32]) -> bool {
        match self {
            Self::Top => {
                found.len() == base.len() && super::super::top(found) == super::super::top(base)
            }
            Self::Cosine(least) => cosine(found, base) >= least,
            Self::Equal => found == base,
            Self::EqualUntil(end) => {
                let end = |of: &[f32]| of.iter().position(|x| *x == end as f32).unwrap_or(of.len());
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
    match size > 0.0 {
        true => dot(a, b) / size.sqrt(),
        // Zeros alone agree with zeros alone.
        false => f64::from(u8::from(a == b)),
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
        let of = |text: &str| text.parse::<Agreement>().expect(text);
        assert!(of("top").holds(&[1.0, 3.0, 3.0], &[0.0, 9.0, 8.0]));
        assert!(!of("top").holds(&[1.0, 3.0, 4.0], &[0.0, 9.0, 8.0]));
        assert!(of("cosine 0.99").holds(&[1.0, 1.0], &[3.0, 3.1]));
        assert!(!of("cosine 0.99").holds(&[1.0, 1.0], &[3.0, 1.0]));
        assert!(of("cosine 1").holds(&[0.0], &[0.0]), "zeros");
        assert!(of("equal until 3").holds(&[5.0, 3.0, 7.0], &[5.0, 3.0, 8.0]));
        assert!(!of("equal until 3").holds(&[5.0, 4.0, 3.0], &[5.0, 3.0, 3.0]), "a longer text");
        assert!(!of("equal").holds(&[5.0, 3.0, 7.0], &[5.0, 3.0, 8.0]));
        for text in ["top", "cosine 0.995", "equal", "equal until -1"] {
            assert_eq!(of(text).to_string(), text);
        }
        for text in ["", "cosine", "cosine 2", "equal until x", "most"] {
            assert!(text.parse::<Agreement>().is_err(), "{text}");
        }
    }
}
