//! Requirements on a run, and their findings.

use serde::{Deserialize, Serialize};

use crate::units;

/// A bound that a performance test must keep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Requirement {
    /// such as `latency p99 <= 5.00 ms`
    pub requirement: String,
    /// such as `latency.p99` or `errors`
    pub metric: String,
    /// upper limit, in the unit
    pub bound: f64,
    /// `ns`, or `share` from 0 to 1
    pub unit: String,
    /// measured value over the answered queries; null if they are too few
    pub value: Option<f64>,
    /// lower confidence limit; null if the run is too short for limits
    pub low: Option<f64>,
    /// upper confidence limit; null if the run does not limit the value
    pub high: Option<f64>,
    /// confidence of each limit
    pub confidence: f64,
    /// `met`: the upper limit is at or below the bound; `missed`: the lower limit is above it;
    /// `undecided`: neither
    pub finding: RequirementFinding,
    /// answers without the bounded time, because they were not streamed; the figures cover the
    /// others, and the bound cannot be met
    #[serde(default)]
    pub unmeasured: u64,
    /// approximate number of further queries that would decide an undecided requirement; null if
    /// unknown
    pub more_queries: Option<u64>,
    /// the requirement would be met if the figures of neighboring queries were independent, and the run
    /// shows that they are not
    #[serde(default)]
    pub is_correlated: bool,
    /// the requirement is met and no query is over the bound, or no query failed: such queries are
    /// assumed to be as independent as the others
    #[serde(default)]
    pub assumes_independence: bool,
}

/// Position of the confidence limits relative to the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RequirementFinding {
    /// The upper limit is at or below the bound.
    Met,
    /// The lower limit is above the bound.
    Missed,
    /// The run proves neither.
    #[default]
    Undecided,
}

impl RequirementFinding {
    /// Returns the finding in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Undecided => "undecided",
        }
    }
}

impl Requirement {
    /// Returns the percentile of a bound on this quantity, such as 0.999 for `latency` and the metric
    /// `latency.p99.9`; `None` for another metric.
    pub fn percentile(&self, quantity: &str) -> Option<f64> {
        let percent = self.metric.strip_prefix(quantity)?.strip_prefix(".p")?;
        // 99.9 / 100 is not 0.999.
        percent.parse::<f64>().ok().map(|percent| (percent * 1e7).round() / 1e9)
    }

    /// Returns the measured value, such as `4.21 ms (4.10 ms to 4.30 ms, each with 95 % confidence)`.
    pub fn measured_text(&self) -> String {
        let of = |value: f64| match &self.unit[..] {
            "share" => format!("{:.3} %", value * 100.0),
            _ => units::duration(value as i64),
        };
        let exact = |value: f64| {
            // Rounded, it would look equal to a bound that it differs from.
            let is_blurred =
                self.unit == "ns" && value != self.bound && of(value) == of(self.bound);
            let ns = |value: f64| units::count(value as u64);
            if is_blurred {
                format!("{} ns against {} ns", ns(value), ns(self.bound))
            } else {
                of(value)
            }
        };
        let (value, low) = match (self.value, self.low) {
            (Some(value), Some(low)) => (value, low),
            (Some(value), None) => {
                return format!("{}, but too few answers for an interval", exact(value));
            }
            (None, _) => return "not measured".into(),
        };
        let (value, low, confidence) = (exact(value), of(low), self.confidence * 100.0);
        match self.high.map(of) {
            Some(high) => {
                format!("{value} ({low} to {high}, each with {confidence:.0} % confidence)")
            }
            None => format!(
                "{value} (at least {low} with {confidence:.0} % confidence; no upper limit yet)"
            ),
        }
    }

    /// Returns a line such as `latency p99 <= 5.00 ms: met, 4.21 ms (...)`.
    pub fn line(&self) -> String {
        let others = match self.unmeasured {
            0 => String::new(),
            answers => {
                format!("; {} no such time", units::counted(answers, "answer has", "answers have"))
            }
        };
        let assumption = match &self.unit[..] {
            _ if !self.assumes_independence => "",
            "share" => "; none failed, so failures are assumed to be independent",
            _ => {
                "; none is over the bound, so such times are assumed to be as independent as others"
            }
        };
        let (finding, measured) = (self.finding.word(), self.measured_text());
        format!("{}: {finding}, {measured}{others}{assumption}", self.requirement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_states_what_its_finding_assumes() {
        let line = |unit: &str, assumes_independence| {
            let (unit, value) = (unit.to_owned(), Some(0.0));
            Requirement { unit, value, assumes_independence, ..Requirement::default() }.line()
        };
        assert!(line("share", true).ends_with("failures are assumed to be independent"));
        assert!(line("ns", true).ends_with("assumed to be as independent as others"));
        assert!(
            !line("share", false).contains("assumed") && !line("ns", false).contains("assumed")
        );
    }

    #[test]
    fn an_open_interval_has_only_a_lower_limit() {
        let shown = |high| {
            let (unit, value, low) = ("ns".to_owned(), Some(2e8), Some(149e6));
            let confidence = 0.95;
            let found =
                Requirement { unit, value, low, high, confidence, ..Requirement::default() };
            found.measured_text()
        };
        let open = "200 ms (at least 149 ms with 95 % confidence; no upper limit yet)";
        assert_eq!(shown(None), open);
        let closed = "200 ms (149 ms to 300 ms, each with 95 % confidence)";
        assert_eq!(shown(Some(3e8)), closed);
    }

    #[test]
    fn a_value_that_rounds_to_its_bound_is_shown_exactly() {
        let shown = |bound: f64| {
            let unit = "ns".to_owned();
            Requirement { unit, bound, value: Some(2e6), ..Requirement::default() }.measured_text()
        };
        assert!(shown(1_999_999.0).starts_with("2,000,000 ns against 1,999,999 ns"));
        assert!(shown(2e6).starts_with("2.00 ms,") && shown(1e6).starts_with("2.00 ms,"));
    }
}
