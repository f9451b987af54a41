//! Requirements of a run: the grammar of `--require`.

use dyno_loadgen::search::{Limit, Quantity};
use dyno_loadgen::settings::Scenario;
use dyno_results::search::limits;

use super::keys;

/// A bound that performance tests must keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// Scenario that it is limited to; `None` is all.
    pub scenario: Option<Scenario>,
    /// The limit in the grammar of `dyno search --limit`.
    text: String,
}

impl Requirement {
    /// Parses `p99<=5ms` or `server:p99<=5ms`.
    ///
    /// # Errors
    /// The expected grammar.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scenario, limit) = match text.split_once(':') {
            Some((name, limit)) => (Some(keys::scenario(name.trim())?), limit.trim()),
            None => (None, text.trim()),
        };
        limits::parse_requested(limit, 0.99)?;
        Ok(Self { scenario, text: limit.into() })
    }

    /// Returns the limit in a test that is judged at `percentile`, which applies if the limit has
    /// no percentile.
    pub fn limit(&self, percentile: f64) -> Limit {
        limits::parse(&self.text, percentile).expect("it was read when it was given")
    }

    /// Returns whether it applies to this scenario.
    pub fn is_for(&self, scenario: Scenario) -> bool {
        self.scenario.is_none_or(|only| only == scenario)
    }

    /// Returns whether it limits the share of failed requests.
    pub fn is_on_errors(&self) -> bool {
        self.limit(0.99).quantity == Quantity::Errors
    }

    /// Returns whether it limits the time per output token.
    pub fn is_on_tpot(&self) -> bool {
        self.limit(0.99).quantity == Quantity::TimePerOutputToken
    }

    /// Returns the text that parses to this requirement.
    pub fn written(&self) -> String {
        match self.scenario {
            Some(scenario) => format!("{scenario}:{}", self.text),
            None => self.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_read_as_limits_do_with_a_scenario_before_them() {
        let read = |text: &str| Requirement::parse(text).map(|of| of.written());
        assert_eq!(read("p99<=5ms"), Ok("p99<=5ms".into()));
        assert_eq!(read("server: ttft.p90 <= 5ms"), Ok("Server:ttft.p90 <= 5ms".into()));
        assert!(read("sever:p99<=5ms").unwrap_err().contains("nearest is Server"));
        assert!(read("p99>=5ms").unwrap_err().contains("upper"));
        assert!(read("errors<=0.001").unwrap_err().contains("write 0.1% if it is a fraction"));
        let own = Requirement::parse("latency<=5ms").unwrap();
        assert_eq!(limits::show(&own.limit(0.9)), "latency p90 <= 5.00 ms");
    }
}
