//! Values of a metrics page over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Readings of the metrics page of a server during a test, in columns of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerReadings {
    /// of the test
    pub scenario: String,
    /// of the test: `accuracy`, `performance` or `peak`
    pub mode: String,
    /// URL of the page, as in the summary
    pub page: String,
    /// middle between request and answer of each reading, since the start of the run; negative before it
    pub at_ns: Vec<i64>,
    /// time from the request to the whole answer
    pub took_ns: Vec<u64>,
    /// values by quantity, as the page had them: counters count from the start of the server; null
    /// where a reading has none
    pub values: BTreeMap<String, Vec<Option<f64>>>,
}
