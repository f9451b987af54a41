//! The JSON document of `dyno selftest --json`.

use dyno_results::summary::Environment;
use serde::Serialize;

/// Version of the schema; raised if a key changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 1;

/// Name of the schema.
pub const SCHEMA: &str = "dyno.selftest";

/// Measuring limits of this machine, and verification of this build.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    /// `dyno.selftest`
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// 1
    #[cfg_attr(test, schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// the traces equal the reference's, and the sources, if given, equal those of the build
    pub sound: bool,
    /// one reading of the clock
    pub clock_read_ns: f64,
    /// smallest difference between two readings
    pub clock_granularity_ns: u64,
    /// overhead of a query, from issue to issue, with a system that answers immediately
    pub single_stream_overhead_ns: f64,
    /// queries/s at which the lateness was measured
    pub lateness_qps: f64,
    /// median delay of issue
    pub lateness_p50_ns: i64,
    /// 0.99
    pub lateness_p99_ns: i64,
    /// largest
    pub lateness_max_ns: i64,
    /// that the process may use
    pub cores: usize,
    /// load average of the last minute; null if unknown
    pub load_average: Option<f64>,
    /// enough cores for a spinning thread
    pub spinning_advisable: bool,
    /// one entry per case
    pub traces: Vec<Trace>,
    /// fingerprint of the given sources; null without sources
    pub source_fingerprint: Option<String>,
    /// source files that differ from the build; null without sources
    pub source_differing: Option<Vec<String>>,
    /// machine and build
    pub environment: Environment,
}

/// A trace that is drawn and compared with that of the reference.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trace {
    /// its name
    pub case: &'static str,
    /// whether it is the same
    pub equals_reference: bool,
}
