//! `series.json`: data of the plots of a run. Counts are exact, however long the run is; percentiles
//! rest on at most a million queries, evenly spaced.

mod gather;
mod histogram;
mod server;
mod timeline;
mod token_times;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use histogram::{Counts, Histogram};
pub use server::ServerReadings;
pub use timeline::{Block, Timeline};
pub use token_times::TokenTimes;

use crate::summary::{ReadError, read_json};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Name of the schema.
pub const SCHEMA: &str = "dyno.series";

/// File name.
pub const FILE: &str = "series.json";

/// The plots of a run. Times are ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// `dyno.series`
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// 1
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// one entry per test with a performance result, in the order of the summary
    pub tests: Vec<Test>,
    /// simulated NPUs: the beginning of the run, in the order of the summary's `accelerators`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// servers: readings of their metrics pages, one entry per page and test
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerReadings>,
}

/// The plots of one tenant's test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Test {
    /// as in the summary
    pub folder: String,
    /// of queries (Offline: of samples) that were answered
    pub latency: Distribution,
    /// lag of the client; empty if queries are due when they are issued
    pub client_lag: Distribution,
    /// empty unless tokens are measured
    pub first_token: Distribution,
    /// empty unless tokens are measured
    pub time_per_output_token: Distribution,
    /// the run in equal parts, in order
    pub slices: Vec<Slice>,
    /// batch sizes of the system: `[size, count]`; empty if it does not report them
    pub batch_sizes: Vec<(u64, u64)>,
}

/// Distribution of a list of times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// all times, in logarithmic buckets
    pub histogram: Histogram,
    /// `[q, time]`: the time that a share q does not exceed, with more points towards the tail
    pub spectrum: Vec<(f64, u64)>,
}

/// One part of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// since the start of the run
    pub begin_ns: u64,
    /// length of the part
    pub width_ns: u64,
    /// queries that were due in it (Offline: samples done in it)
    pub due: u64,
    /// samples that were answered in it, whenever they were due
    pub completed_samples: u64,
    /// samples that failed in it
    pub failed_samples: u64,
    /// output tokens in it; those of an answer are spread evenly from its first to its last token
    pub tokens: i64,
    /// samples outstanding at its end
    pub in_flight: u64,
    /// of the queries that were due in it: p50, p90, p99 and the largest; null if none was answered
    pub latency_ns: Option<[u64; 4]>,
    /// of the client, of the queries that were due in it: p99; null where it does not apply
    pub client_lag_p99_ns: Option<u64>,
}

impl Run {
    /// Returns the plots of tests, without timelines and servers.
    pub fn new(tests: Vec<Test>) -> Self {
        Self {
            schema: SCHEMA.into(),
            schema_version: SCHEMA_VERSION,
            tests,
            timelines: Vec::new(),
            servers: Vec::new(),
        }
    }

    /// Reads the series of a run directory.
    ///
    /// # Errors
    /// If the file is missing, damaged or of another version.
    pub fn read(directory: &Path) -> Result<Self, ReadError> {
        read_json(&directory.join(FILE), SCHEMA, SCHEMA_VERSION)
    }
}
