//! Distributions of lengths, in tokens.

use std::fmt;
use std::str::FromStr;

use dyno_loadgen::rng::Mt19937;

/// Lengths of prompts or answers (>= 1 token).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lengths {
    /// Constant length.
    Fixed(u64),
    /// Uniform from the first to the second, inclusive.
    Uniform(u64, u64),
    /// Normal with this mean and standard deviation, clamped to at least 1.
    Normal(f64, f64),
    /// Lognormal with this median; the second is the standard deviation of the logarithm.
    LogNormal(f64, f64),
}

impl Lengths {
    /// Syntax, for help texts.
    pub const KIND: &'static str = "N, N-M, normal:MEAN:DEVIATION or lognormal:MEDIAN:SIGMA";

    /// Returns a length that no drawn one is below.
    pub fn least(&self) -> u64 {
        match *self {
            Self::Fixed(length) | Self::Uniform(length, _) => length,
            Self::Normal(..) | Self::LogNormal(..) => 1,
        }
    }

    /// Draws one length.
    pub fn draw(&self, rng: &mut Mt19937) -> u64 {
        let real = match *self {
            Self::Fixed(length) => return length,
            Self::Uniform(least, most) => {
                let span = (most - least + 1) as f64;
                return least + ((rng.canonical() * span) as u64).min(most - least);
            }
            Self::Normal(mean, deviation) => mean + deviation * normal(rng),
            Self::LogNormal(median, sigma) => median * (sigma * normal(rng)).exp(),
        };
        // The upper bound exceeds any context and is exact in f64.
        real.round().clamp(1.0, 1e9) as u64
    }
}

/// Lengths of a prompt and of its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthPair {
    /// Lengths of the prompt.
    pub input: Lengths,
    /// Limits of the answer, if there are any.
    pub output: Option<Lengths>,
    /// Share among other pairs, relative to theirs (> 0).
    pub weight: f64,
}

/// Pairs of lengths, of which each prompt draws one by its weight.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthMix(Vec<LengthPair>);

impl LengthMix {
    /// Syntax, for help texts.
    pub const KIND: &'static str = "INPUT/OUTPUT*WEIGHT,...";

    /// Creates a mix of one pair.
    pub fn of_one(input: Lengths, output: Option<Lengths>) -> Self {
        Self(vec![LengthPair { input, output, weight: 1.0 }])
    }

    /// Returns a length of prompts that no drawn one is below.
    pub fn least_input(&self) -> u64 {
        self.0.iter().map(|pair| pair.input.least()).min().unwrap_or(1)
    }

    /// Returns whether a pair has no limit of the answer.
    pub fn lacks_output(&self) -> bool {
        self.0.iter().any(|pair| pair.output.is_none())
    }

    /// Draws a pair. One alone needs no random number.
    fn pair(&self, rng: &mut Mt19937) -> &LengthPair {
        let [pairs @ .., last] = self.0.as_slice() else { unreachable!("there is a pair") };
        if pairs.is_empty() {
            return last;
        }
        let total: f64 = self.0.iter().map(|pair| pair.weight).sum();
        let mut left = rng.canonical() * total;
        let is_it = |pair: &&LengthPair| {
            left -= pair.weight;
            left < 0.0
        };
        pairs.iter().find(is_it).unwrap_or(last)
    }

    /// Draws the length of a prompt, and the limit of its answer.
    pub fn draw(&self, rng: &mut Mt19937) -> (u64, Option<u64>) {
        let LengthPair { input, output, .. } = *self.pair(rng);
        (input.draw(rng), output.map(|output| output.draw(rng)))
    }
}

impl FromStr for LengthMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = |part: &str| format!("expected {}, found `{part}`", Self::KIND);
        let pair = |part: &str| {
            let (lengths, weight) = part.split_once('*').unwrap_or((part, "1"));
            let weight = weight.parse().ok().filter(|w: &f64| w.is_finite() && *w > 0.0);
            let (input, output) = match lengths.split_once('/') {
                None => (lengths.parse()?, None),
                Some((input, output)) => (input.parse()?, Some(output.parse()?)),
            };
            Ok(LengthPair { input, output, weight: weight.ok_or_else(|| expected(part))? })
        };
        text.split(',').map(pair).collect::<Result<_, _>>().map(Self)
    }
}

/// Draws a standard normal number by the Box-Muller method; the second of the pair is dropped.
fn normal(rng: &mut Mt19937) -> f64 {
    // 1 - x is never 0, whose logarithm is undefined.
    let radius = (-2.0 * (1.0 - rng.canonical()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.canonical()).cos()
}

/// Largest standard deviation of the logarithm: a draw of four deviations is 3 million medians then.
const MOST_SIGMA: f64 = 4.0;

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected {}, found `{text}`", Self::KIND);
        let real = |text: &str| text.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
        let pair = |text: &str| {
            let (first, second) = text.split_once(':')?;
            Some((real(first).filter(|first| *first > 0.0)?, real(second)?))
        };
        if let Some(text) = text.strip_prefix("normal:") {
            return pair(text).map(|(mean, sd)| Self::Normal(mean, sd)).ok_or_else(expected);
        }
        if let Some(text) = text.strip_prefix("lognormal:") {
            let of =
                |(median, sigma)| (sigma <= MOST_SIGMA).then_some(Self::LogNormal(median, sigma));
            return pair(text)
                .and_then(of)
                .ok_or_else(|| format!("{}, with a sigma of at most {MOST_SIGMA}", expected()));
        }
        let number = |text: &str| text.parse::<u64>().ok().filter(|n| (1..=1 << 30).contains(n));
        match text.split_once('-') {
            None => number(text).map(Self::Fixed).ok_or_else(expected),
            Some((least, most)) => match (number(least), number(most)) {
                (Some(least), Some(most)) if least <= most => Ok(Self::Uniform(least, most)),
                _ => Err(expected()),
            },
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(length) => write!(f, "{length}"),
            Self::Uniform(least, most) => write!(f, "{least}-{most}"),
            Self::Normal(mean, deviation) => write!(f, "normal:{mean}:{deviation}"),
            Self::LogNormal(median, sigma) => write!(f, "lognormal:{median}:{sigma}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(lengths: &str) -> f64 {
        let (lengths, mut rng) = (lengths.parse::<Lengths>().unwrap(), Mt19937::new(7));
        (0..20_000).map(|_| lengths.draw(&mut rng) as f64).sum::<f64>() / 20_000.0
    }

    #[test]
    fn draws_have_the_mean_of_their_distribution() {
        assert_eq!(mean("128"), 128.0);
        assert!((mean("100-200") - 150.0).abs() < 1.0);
        assert!((mean("normal:500:50") - 500.0).abs() < 2.0);
        // exp(sigma^2 / 2) = 1.1331 times the median.
        assert!((mean("lognormal:1000:0.5") - 1133.1).abs() < 20.0);
    }

    #[test]
    fn pairs_are_drawn_by_their_weights() {
        let mix: LengthMix = "512/128*0.7,2048/64*0.3".parse().unwrap();
        let mut rng = Mt19937::new(7);
        let all: Vec<_> = (0..20_000).map(|_| mix.draw(&mut rng)).collect();
        let long = all.iter().filter(|pair| **pair == (2048, Some(64))).count();
        assert!((5_700..6_300).contains(&long), "{long}");
        assert_eq!(all.iter().filter(|pair| **pair == (512, Some(128))).count(), 20_000 - long);
        let ranges: LengthMix = "10-20/normal:5:1,7".parse().unwrap();
        assert!((0..99).any(|_| ranges.draw(&mut rng) == (7, None)));
        for odd in ["", "5/", "5/6*0", "5*x", "5/6*0.5,"] {
            assert!(odd.parse::<LengthMix>().is_err(), "{odd}");
        }
    }

    #[test]
    fn what_is_printed_is_read_and_what_is_wrong_is_told() {
        for text in ["7", "3-9", "normal:5.5:1", "lognormal:300:0.25"] {
            assert_eq!(text.parse::<Lengths>().unwrap().to_string(), text);
        }
        for text in ["0", "", "9-3", "normal:5", "normal:-1:1", "lognormal:inf:1", "x"] {
            assert!(text.parse::<Lengths>().unwrap_err().starts_with("expected"), "{text}");
        }
    }
}
