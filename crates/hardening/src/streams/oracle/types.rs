//! What was observed of the requests of one tenant, and what Dyno reported of them.
//!
//! Observed times are ns since the start of the run. Reported times count from the end of the ramp.

use crate::oracle::Scenario;

/// How a request ended, by the simulated server and client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Answered as requested.
    Answered {
        /// When the last output came.
        at_ns: u64,
    },
    /// Not answered as requested.
    Failed {
        /// Reason, as `failed` of the summary names it.
        reason: &'static str,
        /// When the client knew it.
        at_ns: u64,
    },
    /// Given up by the client on purpose.
    Cancelled {
        /// When.
        at_ns: u64,
    },
    /// Never answered.
    Lost,
}

/// A request with one sample.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it was issued.
    pub issued_ns: u64,
    /// Position of its sample in the library.
    pub sample: u32,
    /// When each part with output came; empty if the answer is not streamed.
    pub outputs: Vec<u64>,
    /// Output tokens.
    pub tokens: i64,
    /// How it ended.
    pub ending: Ending,
}

/// How often and when requests are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// At random; not judged.
    Random,
    /// One each so many ns, from 0 on.
    Constant(f64),
    /// At these times.
    Recorded(Vec<u64>),
    /// So many at a time.
    InFlight(u64),
}

/// Conversations whose turns are the requests.
#[derive(Clone, Debug)]
pub struct Conversations {
    /// Per conversation: its first sample, and the think time before each of its turns, ns.
    pub chains: Vec<(u32, Vec<u64>)>,
    /// Time between the requests of a user, ns; 0 if turns follow answers.
    pub every_ns: u64,
    /// Whether each conversation is played once.
    pub is_once: bool,
}

/// Limits of goodput, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time to first token.
    pub ttft: Option<u64>,
    /// Time per output token.
    pub tpot: Option<u64>,
    /// End to end.
    pub e2el: Option<u64>,
}

/// A bound of a test that is lifted, ns (SUMMARY: null if the bound is not judged).
pub const NO_BOUND: u64 = 1 << 60;

/// Settings of a tenant.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How queries are issued.
    pub scenario: Scenario,
    /// When requests are sent in Server.
    pub arrivals: Arrivals,
    /// Percentile at which times are judged.
    pub percentile: f64,
    /// Server without tokens: bound of the latency.
    pub latency_bound_ns: u64,
    /// Bounds of the time to first token and of the time per output token, if tokens are measured.
    pub token_bounds: Option<(u64, u64)>,
    /// Minimum number of queries.
    pub min_queries: u64,
    /// Minimum number of samples.
    pub min_samples: u64,
    /// Minimum duration.
    pub min_duration_ns: u64,
    /// The conversations.
    pub conversations: Option<Conversations>,
    /// Length of the ramp before the measured part.
    pub ramp_ns: u64,
    /// Limits of `--goodput`.
    pub limits: Limits,
}

/// Distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Number of values.
    pub count: u64,
    /// Smallest.
    pub min: i64,
    /// Mean, truncated.
    pub mean: i64,
    /// At 0.5, 0.9, 0.95, 0.97, 0.99, 0.999, and the target percentile.
    pub percentiles: [i64; 7],
    /// Largest.
    pub max: i64,
}

/// Goodput under limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goodput {
    /// Samples within every limit.
    pub samples: u64,
    /// Share of the issued samples.
    pub share: Option<f64>,
    /// Answered samples without the limited times.
    pub unmeasured: u64,
    /// Samples within every limit, per second.
    pub samples_per_s: Option<f64>,
    /// Their output tokens per second.
    pub tokens_per_s: Option<f64>,
}

/// Figures of the turns with one number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Issued.
    pub issued: u64,
    /// Answered.
    pub answered: u64,
    /// Latency of answered turns.
    pub latency: Option<Times>,
    /// Time to first token of answered turns.
    pub first_token: Option<Times>,
}

/// Figures of conversations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sessions {
    /// Begun.
    pub started: u64,
    /// With an answer to each turn.
    pub completed: u64,
    /// Ended by a failed turn.
    pub aborted: u64,
    /// Ended by a cancelled turn.
    pub cancelled: u64,
    /// Cut off by the end of the run.
    pub cut_off: u64,
    /// Turns after failed ones.
    pub turns_not_sent: u64,
    /// Due while all sessions were in progress.
    pub held: u64,
    /// From the due time of the first turn to the last answer, of completed ones.
    pub duration: Option<Times>,
    /// Mean turns of completed ones.
    pub turns: Option<f64>,
    /// By number of the turn.
    pub by_turn: Vec<Turn>,
}

/// What Dyno reported of a tenant.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The verdict is VALID.
    pub is_valid: bool,
    /// Samples of the record, in the order of their issue.
    pub indices: Vec<u32>,
    /// Queries issued.
    pub query_count: u64,
    /// Samples answered.
    pub sample_count: u64,
    /// Failed samples by reason.
    pub failed: Vec<(&'static str, u64)>,
    /// Samples never answered.
    pub missing: u64,
    /// Requests of the ramp, those of them that were lost, and cancelled requests after it.
    pub excluded: (u64, u64, u64),
    /// Length of the run.
    pub lasted_ns: u64,
    /// Server: time over which answers count in rates.
    pub counted_over_ns: Option<u64>,
    /// Latency.
    pub latency: Times,
    /// Time to first token.
    pub first_token: Option<Times>,
    /// Time per output token.
    pub per_token: Option<Times>,
    /// Output tokens of answered samples.
    pub token_count: Option<i64>,
    /// Samples over the bounds of latency, time to first token, and time per output token.
    pub over: [Option<u64>; 3],
    /// Rates and token rates by the key of the summary; rates that are not finite are left out.
    pub rates: Vec<(&'static str, f64)>,
    /// Goodput under the limits.
    pub goodput: Option<Goodput>,
    /// Inter-token latency: number of values, and its percentiles in percent.
    pub inter_token: Option<(u64, Vec<(f64, f64)>)>,
    /// Figures of conversations.
    pub sessions: Option<Sessions>,
    /// Counts of the limits in a search, of which failed requests are one: in each of the
    /// [`STRETCHES`] of the minimum duration, the queries, and those over the limit.
    pub stretches: Vec<(&'static str, Vec<(u64, u64)>)>,
}

/// Equal stretches of a run of a search.
pub const STRETCHES: usize = 40;
