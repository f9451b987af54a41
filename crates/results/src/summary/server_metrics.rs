//! Metrics that servers exposed of themselves during a test.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Metrics page of a server (`/metrics`) during a test. It includes other clients of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerMetrics {
    /// of the test
    pub scenario: String,
    /// of the test: `accuracy`, `performance` or `peak`
    pub mode: String,
    /// URL of the page; `all` for several pages together: sums, and means of shares and sizes
    pub page: String,
    /// the kind of server, such as `vLLM`; empty if nothing was read
    pub servers: Vec<String>,
    /// time between two readings
    pub interval_ns: u64,
    /// readings during the run
    pub readings: u64,
    /// readings that failed
    pub failed_readings: u64,
    /// lines that could not be read
    pub malformed_lines: u64,
    /// why nothing was read, or why the first failed reading failed; null without a failure
    pub absent: Option<String>,
    /// values during the run by quantity: `running`, `waiting` (requests), `kv_cache_use`,
    /// `prefix_hit_ratio` (shares), `batch_size`, `watts`
    pub gauges: BTreeMap<String, Gauge>,
    /// growth from before the run until after it by quantity: `prompt_tokens`, `generated_tokens`,
    /// `prefix_queries`, `prefix_hits`, `batches`, `batch_size_sum`, `joules`
    pub counters: BTreeMap<String, f64>,
}

/// Values of a quantity during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gauge {
    /// over the readings
    pub mean: f64,
    /// maximum of the readings; values between two readings are unknown
    pub max: f64,
    /// of the last reading during the run
    pub last: f64,
}

/// Name of the entry for several pages together.
pub const ALL: &str = "all";

impl ServerMetrics {
    /// Returns the values in a line, such as `waiting mean 3.2 max 9, running mean 7.9 max 8`.
    pub fn text(&self) -> String {
        let gauge = |(name, label): &(&str, &str)| {
            let Gauge { mean, max, .. } = self.gauges.get(*name)?;
            Some(format!("{label} mean {} max {}", value(name, *mean), value(name, *max)))
        };
        let mut parts: Vec<String> = GAUGES.iter().filter_map(gauge).collect();
        let counted = [("prompt_tokens", "input tokens"), ("generated_tokens", "output tokens")];
        parts.extend(counted.iter().filter_map(|(name, label)| {
            let grown = self.counters.get(*name)?;
            Some(format!("{} {label}", crate::units::count(grown.round() as u64)))
        }));
        parts.join(", ")
    }
}

/// Quantities that are shown, with their labels.
pub const GAUGES: [(&str, &str); 5] = [
    ("running", "running"),
    ("waiting", "waiting"),
    ("batch_size", "batch"),
    ("kv_cache_use", "KV cache"),
    ("prefix_hit_ratio", "prefix hits"),
];

/// Formats a value of a quantity: shares in percent.
pub fn value(quantity: &str, value: f64) -> String {
    match quantity {
        "kv_cache_use" | "prefix_hit_ratio" => format!("{:.1} %", 100.0 * value),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}
