//! Repetition of performance runs: how many runs, and which one is the result.

use super::Setting;

/// How often a performance run is repeated before its result counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Repetition {
    /// One run is the result: rules since v1.0.
    #[default]
    Once,
    /// This many runs (>= 1), all of which must be VALID; the lowest is the result. v0.5 requires
    /// five for Server.
    Minimum(u32),
    /// This many consecutive runs (>= 1) at one load must be VALID. An INVALID run lowers the load,
    /// and all runs start over. v0.7 requires five for Server and MultiStream.
    Confirm {
        /// Number of runs.
        runs: u32,
        /// Amount by which the load is lowered: queries/s, or streams. `None` is 1 % of the first
        /// rate to be confirmed, or one stream.
        decrement: Option<f64>,
    },
}

impl Repetition {
    /// Default amount by which a rate is lowered, as a share of the first rate to be confirmed.
    pub const DECREMENT_SHARE: f64 = 0.01;

    /// Returns the number of runs that must be VALID.
    pub fn runs(&self) -> u32 {
        match self {
            Self::Once => 1,
            Self::Minimum(runs) | Self::Confirm { runs, .. } => *runs,
        }
    }
}

impl Setting for Repetition {
    const KIND: &'static str = "once, minimum:RUNS, confirm:RUNS or confirm:RUNS:DECREMENT";

    fn parse(text: &str) -> Result<Self, String> {
        let expected = |_| format!("expected {}", Self::KIND);
        let expect = || format!("expected {}", Self::KIND);
        let (rule, rest) = text.split_once(':').unwrap_or((text, ""));
        match rule {
            "once" if rest.is_empty() => Ok(Self::Once),
            "minimum" => rest.parse().map(Self::Minimum).map_err(expected),
            "confirm" => {
                let (runs, decrement) = match rest.split_once(':') {
                    Some((runs, decrement)) => {
                        (runs, Some(decrement.parse().map_err(|_| expect())?))
                    }
                    None => (rest, None),
                };
                Ok(Self::Confirm { runs: runs.parse().map_err(expected)?, decrement })
            }
            _ => Err(expect()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Once => "once".into(),
            Self::Minimum(runs) => format!("minimum:{runs}"),
            Self::Confirm { runs, decrement: None } => format!("confirm:{runs}"),
            Self::Confirm { runs, decrement: Some(decrement) } => {
                format!("confirm:{runs}:{decrement}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_reads_back() {
        for text in ["once", "minimum:5", "confirm:5", "confirm:5:0.25", "confirm:3:1"] {
            assert_eq!(Repetition::parse(text).unwrap().show(), text);
        }
        for text in ["", "five", "once:2", "minimum", "minimum:-1", "confirm:5:", "confirm:5:x"] {
            let refused = Repetition::parse(text).unwrap_err();
            assert!(refused.starts_with("expected once, minimum:RUNS"), "{text}: {refused}");
        }
    }
}
