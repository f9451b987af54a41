//! Settings of a test: each with its unit, its default and the origin of its value.
//!
//! One table, [`FIELDS`], is the source of the struct, of the flags and configuration keys of the
//! command line, and of `dyno info settings`. [`crate::plan`] resolves what the settings mean for
//! the chosen scenario.
//!
//! ```
//! use dyno_loadgen::settings::{Origin, Settings};
//!
//! let mut settings = Settings::default();
//! let origin = Origin::Flag("--set".into());
//! settings.set("server_target_qps", "250", origin.clone()).unwrap();
//! assert_eq!(settings.values.server_target_qps, 250.0);
//! assert_eq!(settings.origin("server_target_qps"), Some(&origin));
//!
//! let error = settings.set("server_target_latency", "1", origin).unwrap_err();
//! assert!(error.to_string().contains("the nearest key is `server_target_latency_ns`"));
//! ```

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Nanos;

mod names;
mod repetition;

pub use names::{intended, known_keys, known_names, nearest, similar};
pub use repetition::Repetition;

/// How queries reach the system under test, and what the result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scenario {
    /// One query of one sample at a time; the next is issued when the last is
    /// complete. Result: a percentile of latency.
    SingleStream,
    /// One query of N contiguous samples at a time; the next is issued when all
    /// samples of the last are complete. Result: a percentile of query latency.
    MultiStream,
    /// Queries of one sample arrive at random (Poisson), whether or not earlier
    /// ones are complete. Latency counts from the scheduled arrival. Result:
    /// completed samples per second, valid while a percentile of latency stays
    /// within a bound.
    Server,
    /// One query with all samples, issued at the start. Result: samples per
    /// second.
    Offline,
}

/// Mode of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TestMode {
    /// An accuracy run followed by a performance run.
    SubmissionRun,
    /// Every sample of the library once (MultiStream may pad); responses are logged.
    AccuracyOnly,
    /// Latency or throughput on the loaded performance set.
    PerformanceOnly,
    /// Search for the highest Server rate that meets the latency bound.
    FindPeakPerformance,
}

/// Arrival process of Server queries. The rules allow only [`Arrivals::Poisson`]; a result under
/// another process is labeled as such.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Arrivals {
    /// Exponential gaps: the Server scenario of the rules.
    #[default]
    Poisson,
    /// One query every `1 / target_qps`.
    Constant,
    /// Gamma-distributed gaps with this [shape](crate::rng::GAMMA_SHAPES); 1 is Poisson, below 1 is
    /// burstier, above 1 is smoother. The mean rate stays `target_qps`.
    Gamma(f64),
    /// Groups of this many queries (>= 1) arrive at one instant. The instants are Poisson, and the
    /// mean rate stays `target_qps`.
    Burst(u32),
    /// This many queries (>= 1) in flight: closed loop, latency from issue.
    Concurrency(u32),
    /// The recorded arrival times, in ns from the start, ascending.
    Replay(Arc<[Nanos]>),
}

/// Releases of the reference whose query trace is reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceRules {
    /// LoadGen 6.0.6 and later: the performance set is a permutation of the
    /// first `performance_sample_count` samples.
    #[default]
    Current,
    /// Rounds up to v5.1: the performance set is drawn from the whole library.
    UpTo5_1,
}

/// When the early-stopping criterion is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EarlyStopping {
    /// Once, after the run, as in the reference.
    #[default]
    AfterRun,
    /// During the run, as in the appendix of the rules: after the minimum duration further queries
    /// are issued until the criterion is met or the maximum duration is over. Repeated looks
    /// inflate the false-pass rate.
    Extend,
    /// Never, as in the rounds before the rule existed (v0.5 and v0.7).
    Never,
}

macro_rules! named {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every value, in the reference's order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the spelling in settings and logs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
        impl Setting for $type {
            const KIND: &'static str = concat!($($name, " "),+);
            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(format!("expected one of: {}", Self::KIND.trim_end())),
                }
            }
            fn show(&self) -> String { self.name().to_string() }
        }
    };
}

/// Type of a setting: how its values are parsed and printed.
pub trait Setting: Sized {
    /// Accepted values, for help texts.
    const KIND: &'static str;
    /// Parses a value.
    ///
    /// # Errors
    /// A sentence fragment that begins with "expected".
    fn parse(text: &str) -> Result<Self, String>;
    /// Returns the value in the spelling that [`Setting::parse`] accepts.
    fn show(&self) -> String;
}

named!(Scenario {
    SingleStream = "SingleStream",
    MultiStream = "MultiStream",
    Server = "Server",
    Offline = "Offline",
});
named!(TestMode {
    SubmissionRun = "SubmissionRun",
    AccuracyOnly = "AccuracyOnly",
    PerformanceOnly = "PerformanceOnly",
    FindPeakPerformance = "FindPeakPerformance",
});
named!(TraceRules { Current = "current", UpTo5_1 = "up-to-5.1" });
named!(EarlyStopping { AfterRun = "after-run", Extend = "extend", Never = "never" });

macro_rules! number_setting {
    ($type:ty, $kind:literal) => {
        impl Setting for $type {
            const KIND: &'static str = $kind;
            fn parse(text: &str) -> Result<Self, String> {
                text.replace('_', "").parse().map_err(|_| format!("expected {}", Self::KIND))
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    };
}
number_setting!(u64, "a whole number");
number_setting!(i32, "a whole number, possibly negative");
number_setting!(bool, "true or false");

impl Setting for f64 {
    const KIND: &'static str = "a number";
    fn parse(text: &str) -> Result<Self, String> {
        let read = text.replace('_', "").parse::<Self>();
        let value = read.map_err(|_| format!("expected {}", Self::KIND))?;
        // Infinity has a name. Digits that are infinite are a number that is too large.
        if value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
            return Err("expected a number from -1.7e308 to 1.7e308".into());
        }
        Ok(value)
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for Arrivals {
    const KIND: &'static str =
        "poisson, constant, gamma:SHAPE, burst:SIZE, concurrency:IN_FLIGHT or replay:NS,NS,...";

    fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("expected {}", Self::KIND);
        let (name, argument) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "poisson" if argument.is_empty() => Ok(Self::Poisson),
            "constant" if argument.is_empty() => Ok(Self::Constant),
            "gamma" => argument.parse().map(Self::Gamma).map_err(|_| expected()),
            "burst" => argument.parse().map(Self::Burst).map_err(|_| expected()),
            "concurrency" => argument.parse().map(Self::Concurrency).map_err(|_| expected()),
            "replay" => {
                let times: Result<Vec<Nanos>, _> =
                    argument.split(',').map(|t| t.trim().parse()).collect();
                times.map(|t| Self::Replay(t.into())).map_err(|_| expected())
            }
            _ => Err(expected()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Poisson => "poisson".into(),
            Self::Constant => "constant".into(),
            Self::Gamma(shape) => format!("gamma:{shape}"),
            Self::Burst(size) => format!("burst:{size}"),
            Self::Concurrency(in_flight) => format!("concurrency:{in_flight}"),
            Self::Replay(times) => {
                let times: Vec<String> = times.iter().map(ToString::to_string).collect();
                format!("replay:{}", times.join(","))
            }
        }
    }
}

/// One row of [`FIELDS`].
#[derive(Clone, Copy)]
pub struct Field {
    /// Name of the field in C++ and Rust, and the key in `dyno.toml` and in flags.
    pub name: &'static str,
    /// Accepted values.
    pub kind: &'static str,
    /// Unit; "" without one.
    pub unit: &'static str,
    /// Help text of one sentence.
    pub help: &'static str,
    /// Returns the value as text.
    pub get: fn(&TestSettings) -> String,
    /// Parses and sets the value.
    pub set: fn(&mut TestSettings, &str) -> Result<(), String>,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! settings {
    ($($name:ident : $type:ty = $default:expr, $unit:literal, $help:literal;)+) => {
        /// Values of all settings: the fields of the reference under its names, then Dyno's own
        /// (whose defaults are the behavior of the reference).
        #[derive(Debug, Clone, PartialEq)]
        pub struct TestSettings {
            $(#[doc = $help] #[doc = concat!("\n\nUnit: ", $unit, ".")] pub $name: $type,)+
        }
        impl Default for TestSettings {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }
        /// Every setting, in the order of [`TestSettings`].
        pub const FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            kind: <$type as Setting>::KIND,
            unit: $unit,
            help: $help,
            get: |s| Setting::show(&s.$name),
            set: |s, text| { s.$name = Setting::parse(text)?; Ok(()) },
        },)+];
    };
}

settings! {
    scenario: Scenario = Scenario::SingleStream, "", "How queries are issued and what the result is.";
    mode: TestMode = TestMode::PerformanceOnly, "", "Performance, accuracy, both, or the search for the peak.";
    single_stream_expected_latency_ns: f64 = 1e6, "ns", "SingleStream: expected latency; sets how many queries are generated.";
    single_stream_target_latency_percentile: f64 = 0.90, "fraction", "SingleStream: the percentile that is the result.";
    multi_stream_expected_latency_ns: f64 = 8e6, "ns", "MultiStream: expected query latency; sets how many queries are generated.";
    multi_stream_target_latency_percentile: f64 = 0.99, "fraction", "MultiStream: the percentile that is the result.";
    multi_stream_samples_per_query: u64 = 8, "samples", "MultiStream: samples in a query.";
    server_target_qps: f64 = 1.0, "queries/s", "Server: mean arrival rate.";
    server_target_latency_ns: u64 = 100_000_000, "ns", "Server: the latency bound.";
    server_target_latency_percentile: f64 = 0.99, "fraction", "Server: the share of queries that must meet the bound.";
    server_coalesce_queries: bool = false, "", "Server: pass all due queries to the system in one \
                                                call.";
    server_find_peak_qps_decimals_of_precision: i32 = 1, "decimals", "FindPeakPerformance: decimals of the rate found.";
    server_find_peak_qps_boundary_step_size: f64 = 1.0, "factor", "FindPeakPerformance: each bracketing step multiplies the rate by 1 + this.";
    server_max_async_queries: u64 = 0, "queries", "Server: end the run if more queries than this \
                                                   are outstanding; 0 is no limit.";
    server_num_issue_query_threads: u64 = 0, "threads", "Server: registered threads that issue; 0 is the calling thread.";
    offline_expected_qps: f64 = 1.0, "samples/s", "Offline: expected throughput; sets the size of the query.";
    sample_concatenate_permutation: bool = false, "", "Issue each sample of the set equally often (equal-issue mode).";
    min_duration_ms: u64 = 10_000, "ms", "Minimum duration of the run.";
    max_duration_ms: u64 = 0, "ms", "Maximum duration of the run, which then ends early; 0 is no \
                                     limit.";
    min_query_count: u64 = 100, "queries", "Minimum number of queries.";
    max_query_count: u64 = 0, "queries", "Maximum number of queries, after which the run ends \
                                          early; 0 is no limit.";
    qsl_rng_seed: u64 = 0, "", "Seed of the order in which samples are loaded.";
    sample_index_rng_seed: u64 = 0, "", "Seed of the choice of samples for queries.";
    schedule_rng_seed: u64 = 0, "", "Seed of the arrival times.";
    accuracy_log_rng_seed: u64 = 0, "", "Seed of the choice of responses that a performance run logs.";
    accuracy_log_probability: f64 = 0.0, "fraction", "Share of responses that a performance run logs.";
    accuracy_log_sampling_target: u64 = 0, "samples", "Expected number of responses that a performance run logs; overrides the share.";
    test05: bool = false, "", "Audit TEST05: performance run with the alternative seeds.";
    test05_qsl_rng_seed: u64 = 0, "", "TEST05: replaces qsl_rng_seed.";
    test05_sample_index_rng_seed: u64 = 0, "", "TEST05: replaces sample_index_rng_seed.";
    test05_schedule_rng_seed: u64 = 0, "", "TEST05: replaces schedule_rng_seed.";
    print_timestamps: bool = false, "", "Print the beginning and the end of the performance run on \
                                         stdout.";
    performance_issue_unique: bool = false, "", "Audit: issue each sample once, in a shuffled \
                                                 order; with recorded arrival times, in the order \
                                                 of the library.";
    performance_issue_same: bool = false, "", "Audit: issue the same sample every time.";
    performance_issue_same_index: u64 = 0, "position", "Audit: the sample to issue, as a position \
                                                        in the loaded set.";
    performance_sample_count_override: u64 = 0, "samples", "Size of the performance set; 0 is what the library reports.";
    accuracy_sample_count_override: u64 = 0, "samples", "Samples of an accuracy run; 0 is the whole library.";
    use_token_latencies: bool = false, "", "Judge time to first token and time per output token instead of latency.";
    server_ttft_latency: u64 = 100_000_000, "ns", "Bound of the time to first token.";
    server_tpot_latency: u64 = 100_000_000, "ns", "Bound of the time per output token.";
    infer_token_latencies: bool = false, "", "Report tokens/s as samples/s times the scaling factor.";
    token_latency_scaling_factor: u64 = 0, "tokens/sample", "The factor for inferred tokens.";

    server_arrivals: Arrivals = Arrivals::Poisson, "", "Server: the arrival process.";
    early_stopping: EarlyStopping = EarlyStopping::AfterRun, "", "Judge once after the run, extend the run until the criterion is met, or never judge (rounds v0.5 and v0.7).";
    early_stopping_confidence: f64 = 0.99, "fraction", "Confidence of the early-stopping criterion.";
    early_stopping_tolerance: f64 = 0.0, "fraction", "Tolerance of the early-stopping criterion.";
    trace_rules: TraceRules = TraceRules::Current, "", "Releases of the reference that the query \
                                                        trace equals.";
    continue_trace: bool = false, "", "Continue to generate queries if the expected latency was \
                                       too high, instead of ending early.";
    response_deadline_ms: u64 = 0, "ms", "End the run if queries are outstanding and none \
                                          completes for this long; 0 waits forever.";
    max_client_lag_ns: u64 = 0, "ns", "The run is INVALID if the client itself issued later than \
                                       this at the target percentile; 0 disables the check.";
    multi_stream_target_qps: f64 = 0.0, "queries/s", "MultiStream of rounds v0.5 and v0.7: queries \
                                                      per second, each at a fixed time; an \
                                                      interval is skipped while the previous query \
                                                      is not complete; 0 issues a query when the \
                                                      previous one is complete.";
    repetition: Repetition = Repetition::Once, "", "Performance runs: one, several of which all must be VALID and the lowest counts (v0.5: minimum:5), or several VALID ones in a row at a load that each failure lowers (v0.7: confirm:5).";
}

/// Origin of a value, shown in reports and in error messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Default value.
    #[default]
    Default,
    /// Built-in table of a model (LoadGen's `mlperf.conf`).
    BuiltIn {
        /// Matching row, such as `resnet50.*.performance_sample_count_override`.
        key: String,
    },
    /// Rule book, with the name of the rule: such as `round v5.1, resnet`.
    Rules(String),
    /// Configuration file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
    /// Environment variable.
    Environment(String),
    /// Command-line flag.
    Flag(String),
    /// Code that calls the library, or a profile built into the command line.
    Code(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::BuiltIn { key } => write!(f, "built-in table, {key}"),
            Self::Rules(name) => f.write_str(name),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Code(name) => f.write_str(name),
        }
    }
}

/// Settings with the origin of each value.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Values. Writing a field here does not update its origin; prefer [`Settings::set`].
    pub values: TestSettings,
    origins: Vec<Origin>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { values: TestSettings::default(), origins: vec![Origin::Default; FIELDS.len()] }
    }
}

impl From<TestSettings> for Settings {
    fn from(values: TestSettings) -> Self {
        Self { values, origins: vec![Origin::Code("caller"); FIELDS.len()] }
    }
}

/// A changed field, displayed as `audit.config:3: mode PerformanceOnly -> AccuracyOnly`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Name of the field.
    pub key: &'static str,
    /// Previous value.
    pub from: String,
    /// New value.
    pub to: String,
    /// Origin of the change.
    pub origin: Origin,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {} -> {}", self.origin, self.key, self.from, self.to)
    }
}

/// Error of [`Settings::set`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// No field has this name.
    UnknownKey {
        /// The given name.
        key: String,
        /// Field with the nearest name.
        nearest: &'static str,
    },
    /// The value cannot be parsed.
    BadValue {
        /// Name of the field.
        key: &'static str,
        /// The given value.
        value: String,
        /// "expected ...".
        expected: String,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { key, nearest } => {
                write!(f, "unknown key `{key}`; the nearest key is `{nearest}`")
            }
            Self::BadValue { key, value, expected } => {
                write!(f, "`{key}`: cannot read `{value}`, {expected}")
            }
        }
    }
}

impl std::error::Error for SetError {}

impl Settings {
    /// Sets one field from text.
    ///
    /// # Errors
    /// [`SetError`] names the key and what was expected; nothing is changed.
    pub fn set(&mut self, key: &str, text: &str, origin: Origin) -> Result<(), SetError> {
        let Some(at) = FIELDS.iter().position(|f| f.name == key) else {
            return Err(SetError::UnknownKey { key: key.into(), nearest: nearest_field(key) });
        };
        let field = &FIELDS[at];
        (field.set)(&mut self.values, text).map_err(|expected| SetError::BadValue {
            key: field.name,
            value: text.into(),
            expected,
        })?;
        self.origins[at] = origin;
        Ok(())
    }

    /// Records the origin of a field that was written through [`Settings::values`], for code that
    /// has the value as a number already.
    ///
    /// # Panics
    /// If there is no such field.
    pub fn record(&mut self, key: &str, origin: Origin) {
        let at = FIELDS.iter().position(|f| f.name == key).expect("the key is a field of FIELDS");
        self.origins[at] = origin;
    }

    /// Returns the fields whose values differ from an earlier state of these settings, in the order
    /// of [`FIELDS`].
    pub fn changes_since(&self, earlier: &Self) -> Vec<Change> {
        earlier
            .rows()
            .zip(self.rows())
            .filter(|((_, from, _), (_, to, _))| from != to)
            .map(|((field, from, _), (_, to, origin))| Change {
                key: field.name,
                from,
                to,
                origin: origin.clone(),
            })
            .collect()
    }

    /// Returns each field with its value as text and its origin.
    pub fn rows(&self) -> impl Iterator<Item = (&'static Field, String, &Origin)> {
        FIELDS.iter().zip(&self.origins).map(|(f, o)| (f, (f.get)(&self.values), o))
    }

    /// Returns the origin of a field's value.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        FIELDS.iter().position(|f| f.name == key).map(|at| &self.origins[at])
    }
}

/// Returns the field that `key` probably means, or else the one with the nearest name by edit distance.
pub fn nearest_field(key: &str) -> &'static str {
    let names = FIELDS.iter().map(|f| f.name);
    intended(key, names.clone()).or_else(|| nearest(key, names)).unwrap_or("scenario")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_reads_back() {
        for field in FIELDS {
            let mut settings = TestSettings::default();
            let text = (field.get)(&settings);
            (field.set)(&mut settings, &text).unwrap();
            assert_eq!(settings, TestSettings::default(), "{}", field.name);
        }
    }

    #[test]
    fn a_number_that_overflows_is_not_infinity() {
        let cases = [
            ("1e400", None),
            ("-1e400", None),
            ("1e308", Some(1e308)),
            ("inf", Some(f64::INFINITY)),
            ("-infinity", Some(f64::NEG_INFINITY)),
        ];
        for (text, value) in cases {
            assert_eq!(<f64 as Setting>::parse(text).ok(), value, "{text}");
        }
    }

    #[test]
    fn a_misspelt_key_names_the_nearest_one() {
        let error = Settings::default()
            .set("server_target_qsp", "5", Origin::Flag("--set".into()))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown key `server_target_qsp`; the nearest key is `server_target_qps`"
        );
    }
}
