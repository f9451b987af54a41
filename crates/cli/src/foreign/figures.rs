//! What two results say, by the same names.

use std::collections::BTreeMap;

/// Figures by name; the unit is in the name: `latency_p99_ns`,
/// `first_token_mean_ns`, `completed_per_s`, `tokens_per_s`, `error_rate`.
pub type Figures = BTreeMap<String, f64>;
