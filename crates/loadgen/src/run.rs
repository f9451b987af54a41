//! A whole test: the runs of its mode in order, and all that the logs tell of it.

use crate::clock::{Nanos, WallTime};
use crate::plan::Plan;
use crate::qsl::SampleIndex;
use crate::record::Record;
use crate::session::Ended;
use crate::settings::Settings;

/// How grave a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// For the reader.
    Info,
    /// Counted as a warning in the logs.
    Warning,
    /// Counted as an error in the logs.
    Error,
}

/// A line of text in the detail log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// When, in ns since the origin of the log.
    pub at: Nanos,
    /// Key of the detail log, such as `generic_message` or `error_runtime`.
    pub key: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// The text.
    pub text: String,
}

/// A span of time, in ns since the origin of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Begin.
    pub begin: Nanos,
    /// End.
    pub end: Nanos,
}

/// One run of a session: one loaded set issued once.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLog {
    /// Whether this was an accuracy run.
    pub accuracy: bool,
    /// The plan it ran under (a search for the peak changes its rate).
    pub plan: Plan,
    /// Samples loaded, in load order.
    pub loaded: Vec<SampleIndex>,
    /// Queries generated.
    pub generated_queries: u64,
    /// Samples in each.
    pub generated_samples_per_query: u64,
    /// Length of the generated trace, ns.
    pub generated_duration: Nanos,
    /// Why it stopped issuing.
    pub ended: Ended,
    /// What happened; times are ns since `started_at`.
    pub record: Record,
    /// When the samples were loaded, the queries generated, and the samples unloaded.
    pub load: Span,
    /// When the queries were generated.
    pub generate: Span,
    /// Start of the run, ns since the origin of the log.
    pub started_at: Nanos,
    /// Wall-clock time of the start, for the power markers.
    pub started_wall: WallTime,
    /// When the last sample was complete and the run was over, ns since the
    /// origin of the log.
    pub finished_at: Nanos,
    /// When the samples were unloaded.
    pub unload: Span,
}

/// What the detail log tells, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message.
    Message(Message),
    /// A run.
    Run(Box<RunLog>),
    /// The result of a performance run: the run `runs_back` runs before this event
    /// (0 is the last one; a search for the peak reports its best).
    Result {
        /// Which run.
        runs_back: usize,
        /// When the result was computed, ns since the origin of the log.
        at: Nanos,
    },
}

/// Everything that one tenant's test leaves behind: the input of every log writer.
#[derive(Debug, Clone, PartialEq)]
pub struct TestLog {
    /// Name of the system under test.
    pub sut_name: String,
    /// How long asking for that name took.
    pub sut_name_duration: Nanos,
    /// Name of the sample library.
    pub qsl_name: String,
    /// Samples that the library reports in all.
    pub qsl_total: u64,
    /// Performance samples that the library reports.
    pub qsl_performance: u64,
    /// Wall-clock time of the log's origin.
    pub origin_wall: WallTime,
    /// What was asked for, after audit overrides.
    pub requested: Settings,
    /// What that means.
    pub plan: Plan,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Ended by an abort or a deadline: the logs are readable but not a result.
    pub complete: bool,
}
