//! A whole test: the runs of its mode in order, and the log of what happened.
//!
//! [`run`] is the entry point; the example of the [crate](crate) calls it.

mod peak;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::clock::{Nanos, WallTime};
use crate::drive::{Driver, Job, JobTenant, Process, RunOutcome, ThreadReport};
use crate::message::{Message, Severity};
use crate::peak::End;
use crate::plan::Plan;
use crate::qsl::{SampleIndex, SampleLibrary};
use crate::record::Record;
use crate::session::EndReason;
use crate::settings::{Repetition, Settings, TestMode};
use crate::share::Share;
use crate::trace::{LoadedSet, loadable_sets};

/// Span of time, in ns since the origin of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Begin.
    pub begin: Nanos,
    /// End.
    pub end: Nanos,
}

/// Log of one run: one loaded set, issued once.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLog {
    /// Whether this was an accuracy run.
    pub accuracy: bool,
    /// Plan of the run (a search for the peak changes its rate).
    pub plan: Plan,
    /// Samples loaded for this run, in load order. Empty if they were loaded before (see
    /// [`Event::Loaded`]).
    pub loaded: Vec<SampleIndex>,
    /// Queries generated.
    pub generated_queries: u64,
    /// Samples in each query.
    pub generated_samples_per_query: u64,
    /// Length of the generated trace, ns.
    pub generated_duration: Nanos,
    /// Why issuing stopped.
    pub ended: EndReason,
    /// Errors of the issuing threads, as the log states them.
    pub threads: ThreadReport,
    /// Measurements; times are ns since `started_at`. If the record was
    /// [dropped](RunLog::dropped), only the misuse counts are left.
    pub record: Record,
    /// Last times of a run whose record was dropped, because it cannot be the result any more;
    /// `None` if the record is complete.
    pub dropped: Option<LastEvents>,
    /// When the samples were loaded.
    pub load: Span,
    /// When the queries were generated.
    pub generate: Span,
    /// Start of the run, ns since the origin of the log.
    pub started_at: Nanos,
    /// Wall-clock time of the start, for power markers.
    pub started_wall: WallTime,
    /// End of the run: when its last sample was complete, ns since the origin of the log.
    pub finished_at: Nanos,
    /// When the samples were unloaded.
    pub unload: Span,
}

/// Last issue and last completion of a run, ns since its start; 0 if there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastEvents {
    /// When the last query was issued.
    pub last_issue: Nanos,
    /// When the last sample was complete.
    pub last_completion: Nanos,
}

impl RunLog {
    /// Returns when the last query was issued and the last sample was complete.
    pub fn last(&self) -> LastEvents {
        self.dropped.unwrap_or_else(|| LastEvents {
            last_issue: self.record.issued_at.last().copied().unwrap_or(0),
            last_completion: self.record.completed_at.iter().max().copied().unwrap_or(0),
        })
    }

    /// Frees the memory of the record.
    fn drop_record(&mut self) {
        self.dropped = Some(self.last());
        self.record = Record { misuse: self.record.misuse, ..Record::default() };
    }
}

/// Entry of the detail log.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message.
    Message(Message),
    /// Samples were loaded for several runs.
    Loaded {
        /// When they were loaded.
        span: Span,
        /// Loaded samples, in load order.
        samples: Vec<SampleIndex>,
    },
    /// A run.
    Run(Box<RunLog>),
    /// Result of a performance run: the run that lies `runs_back` runs before this event (0 is the
    /// last run; a search for the peak reports its best run).
    Result {
        /// Number of runs between this event and its run.
        runs_back: usize,
        /// When the result was computed, ns since the origin of the log.
        at: Nanos,
    },
}

/// Log of one tenant's test: the input of every log writer.
#[derive(Debug, Clone, PartialEq)]
pub struct TestLog {
    /// Name of the system under test.
    pub sut_name: String,
    /// How long the call for that name took.
    pub sut_name_duration: Nanos,
    /// Name of the sample library.
    pub qsl_name: String,
    /// Total samples that the library reports.
    pub qsl_total: u64,
    /// Performance samples that the library reports.
    pub qsl_performance: u64,
    /// Wall-clock time of the log's origin.
    pub origin_wall: WallTime,
    /// Process and thread that wrote the log.
    pub process: Process,
    /// Requested settings, after audit overrides.
    pub requested: Settings,
    /// Plan resolved from the settings.
    pub plan: Plan,
    /// Events in order.
    pub events: Vec<Event>,
    /// Whether the test ran to its end. After an abort or a deadline the logs are readable but are
    /// not a result.
    pub complete: bool,
    /// Summary of a search or repetition; `None` for a test of one run.
    pub search: Option<SearchSummary>,
}

/// Summary of a search for the peak or of a repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSummary {
    /// How it ended; `None` if the test ended before.
    pub end: Option<End>,
    /// Complete runs of the repetition at its last load, by number among the performance runs. Each
    /// is VALID, except the last one of a repetition that failed.
    pub repeated: Range<usize>,
}

impl TestLog {
    /// Returns the runs, in order.
    pub fn runs(&self) -> impl Iterator<Item = &RunLog> {
        self.events.iter().filter_map(|event| match event {
            Event::Run(run) => Some(&**run),
            _ => None,
        })
    }

    /// Returns the run of the [`Event::Result`] at position `at` of the events.
    pub fn run_of_result(&self, at: usize) -> Option<&RunLog> {
        let Event::Result { runs_back, .. } = self.events.get(at)? else { return None };
        let runs = self.events[..at].iter().rev().filter_map(|event| match event {
            Event::Run(run) => Some(&**run),
            _ => None,
        });
        runs.into_iter().nth(*runs_back)
    }

    /// Returns the log of each [run](SearchSummary::repeated) of a repetition as a separate test,
    /// in order.
    pub fn repeated(&self) -> impl Iterator<Item = Self> {
        let repeated = self.search.as_ref().map_or(0..0, |search| search.repeated.clone());
        let performance = self.runs().filter(|run| !run.accuracy);
        performance.skip(repeated.start).take(repeated.len()).map(|run| self.single(run))
    }

    /// Returns the log of one run as a separate test. Samples that were loaded for several runs
    /// count as loaded for this one.
    fn single(&self, run: &RunLog) -> Self {
        // Messages on the settings and the purpose of the run.
        let is_notice =
            |event: &&Event| matches!(event, Event::Message(m) if m.key != "generic_message");
        let mut events: Vec<Event> = self.events.iter().take_while(is_notice).cloned().collect();
        let is_this =
            |event: &Event| matches!(event, Event::Run(other) if std::ptr::eq(&**other, run));
        let at = self.events.iter().position(is_this).unwrap_or(0);
        let mut own = run.clone();
        let before = self.events[..at].iter().rev().find_map(|event| match event {
            Event::Loaded { span, samples } => Some((*span, samples)),
            _ => None,
        });
        if let Some((span, samples)) = before.filter(|_| run.loaded.is_empty()) {
            (own.load, own.loaded) = (span, samples.clone());
        }
        let end = own.unload.end.max(own.finished_at);
        events.push(Event::Message(Message {
            at: own.load.begin,
            key: "generic_message",
            severity: Severity::Info,
            text: "Starting performance mode".into(),
        }));
        events.extend(at.checked_sub(1).map(|before| self.events[before].clone()));
        events.push(Event::Run(Box::new(own)));
        events.push(Event::Result { runs_back: 0, at: end });
        let mut requested = self.requested.clone();
        requested.values.repetition = Repetition::Once;
        let mode = TestMode::PerformanceOnly;
        Self {
            sut_name: self.sut_name.clone(),
            qsl_name: self.qsl_name.clone(),
            requested,
            plan: Plan { repetition: Repetition::Once, mode, ..run.plan.clone() },
            events,
            complete: true,
            search: None,
            ..*self
        }
    }

    /// Returns the run whose result is the result of the test, if it has one.
    pub fn result(&self) -> Option<&RunLog> {
        let at = self.events.iter().rposition(|e| matches!(e, Event::Result { .. }))?;
        self.run_of_result(at)
    }

    /// Returns the run of [`TestLog::result`].
    fn result_mut(&mut self) -> Option<&mut RunLog> {
        let at = self.events.iter().rposition(|e| matches!(e, Event::Result { .. }))?;
        let Event::Result { runs_back, .. } = self.events[at] else { return None };
        let runs = self.events[..at].iter_mut().rev().filter_map(|event| match event {
            Event::Run(run) => Some(&mut **run),
            _ => None,
        });
        runs.into_iter().nth(runs_back)
    }
}

/// One tenant of a test.
pub struct Tenant<'a> {
    /// Settings, for the logs.
    pub settings: Settings,
    /// Plan resolved from the settings.
    pub plan: Plan,
    /// Data set.
    pub library: &'a dyn SampleLibrary,
    /// Messages on its settings for the log, such as the overrides of an audit. They are logged at
    /// the start of the test.
    pub messages: Vec<Message>,
}

impl fmt::Debug for Tenant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("library", &self.library.name()).finish_non_exhaustive()
    }
}

/// Maximum number of tenants of a test.
pub const MOST_TENANTS: usize = 256;

/// Retention policy: which records stay in memory until the logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordRetention {
    /// The records of all runs: a trace log shows each sample of each run.
    Every,
    /// Records that can be the result; those of search or repetition runs at other loads are
    /// dropped. Records with logged responses are kept.
    Results,
}

/// Runs a whole test and returns the log of each tenant.
///
/// All tenants have the mode of the first one. `watch` is called before each run, for progress
/// displays.
///
/// # Panics
/// If there are no tenants or more than [`MOST_TENANTS`].
pub fn run(
    driver: &mut dyn Driver,
    tenants: &[Tenant<'_>],
    keep: RecordRetention,
    watch: &mut dyn FnMut(RunStart<'_>),
) -> Vec<TestLog> {
    assert!((1..=MOST_TENANTS).contains(&tenants.len()), "a test has 1 to 256 tenants");
    let mut test = Test::new(driver, tenants, keep, watch);
    match tenants[0].plan.mode {
        TestMode::AccuracyOnly => test.accuracy(),
        TestMode::PerformanceOnly => test.performance(),
        TestMode::SubmissionRun => {
            test.accuracy();
            if !test.is_over() {
                test.performance();
            }
        }
        TestMode::FindPeakPerformance => test.find_peak(),
    }
    let complete = !test.is_over() || test.has_lost_worker();
    // An abort from here on is too late: the test is complete.
    if !complete {
        test.mark_late_abort();
    }
    for log in &mut test.logs {
        log.complete = complete;
    }
    test.logs
}

/// Start of a run, for progress displays and for logs that are written during the test.
#[derive(Debug, Clone, Copy)]
pub struct RunStart<'a> {
    /// "accuracy", "performance", or the purpose of a run of a search.
    pub purpose: &'a str,
    /// The plan of the first tenant.
    pub plan: &'a Plan,
    /// Number of the run, from 1.
    pub run: u32,
    /// Logs of all tenants so far.
    pub logs: &'a [TestLog],
}

struct Test<'a, 'd> {
    driver: &'d mut dyn Driver,
    tenants: &'a [Tenant<'a>],
    keep: RecordRetention,
    watch: &'d mut dyn FnMut(RunStart<'_>),
    logs: Vec<TestLog>,
    origin: Nanos,
    runs: u32,
    /// Per tenant: samples and queries generated so far in this test.
    generated: Vec<(u64, u64)>,
}

/// How the samples of a run are loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loading {
    /// The run loads them before and unloads them after.
    Own,
    /// They are loaded already.
    Done,
}

impl<'a, 'd> Test<'a, 'd> {
    fn new(
        driver: &'d mut dyn Driver,
        tenants: &'a [Tenant<'a>],
        keep: RecordRetention,
        watch: &'d mut dyn FnMut(RunStart<'_>),
    ) -> Self {
        let (origin, origin_wall) = (driver.now(), driver.wall_now());
        let sut_name = driver.system_name();
        let sut_name_duration = driver.now() - origin;
        let log = |tenant: &Tenant<'_>| TestLog {
            sut_name: sut_name.clone(),
            sut_name_duration,
            qsl_name: tenant.library.name().to_string(),
            qsl_total: tenant.library.total_sample_count() as u64,
            qsl_performance: tenant.library.performance_sample_count() as u64,
            origin_wall,
            process: driver.process(),
            requested: tenant.settings.clone(),
            plan: tenant.plan.clone(),
            events: tenant.messages.iter().cloned().map(Event::Message).collect(),
            complete: false,
            search: None,
        };
        Self {
            logs: tenants.iter().map(log).collect(),
            generated: vec![(0, 0); tenants.len()],
            driver,
            tenants,
            keep,
            watch,
            origin,
            runs: 0,
        }
    }

    /// Returns whether the test ends here because of an abort, a silent system or a lost worker.
    fn is_over(&self) -> bool {
        let is_cut = |log: &TestLog| {
            log.runs().last().is_some_and(|run| {
                matches!(run.ended, EndReason::Deadline { .. } | EndReason::Aborted)
            })
        };
        self.driver.aborted() || self.logs.iter().any(is_cut) || self.has_lost_worker()
    }

    /// Returns whether a worker was lost. The last run then has a verdict, and no further run
    /// follows.
    fn has_lost_worker(&self) -> bool {
        let is_lost = |run: &RunLog| matches!(run.ended, EndReason::Lost { .. });
        self.logs.iter().any(|log| log.runs().last().is_some_and(is_lost))
    }

    /// Marks the runs with the results as aborted if the test was aborted after their end, such as
    /// by a library that fails to unload its samples: an aborted test has no valid result.
    fn mark_late_abort(&mut self) {
        if !self.driver.aborted() {
            return;
        }
        for run in self.logs.iter_mut().filter_map(TestLog::result_mut) {
            if !matches!(run.ended, EndReason::Deadline { .. }) {
                run.ended = EndReason::Aborted;
            }
        }
    }

    fn now(&self) -> Nanos {
        self.driver.now() - self.origin
    }

    fn log_message(&mut self, key: &'static str, severity: Severity, text: &str) {
        let at = self.now();
        for log in &mut self.logs {
            let text = text.to_string();
            log.events.push(Event::Message(Message { at, key, severity, text }));
        }
    }

    fn note(&mut self, text: &str) {
        self.log_message("generic_message", Severity::Info, text);
    }

    /// Returns the sets of each tenant per round. The tenant with the most sets determines the
    /// number of rounds.
    fn sets(&self, plans: &[Arc<Plan>], accuracy: bool) -> Vec<Vec<LoadedSet>> {
        let sets_of = |(tenant, plan): (&Tenant<'_>, &Arc<Plan>)| {
            loadable_sets(plan, accuracy, tenant.library.total_sample_count())
        };
        let mut sets: Vec<_> =
            self.tenants.iter().zip(plans).map(|both| sets_of(both).into_iter()).collect();
        let rounds = sets.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        let nothing = || LoadedSet { samples: Vec::new(), end: 0 };
        (0..rounds)
            .map(|_| sets.iter_mut().map(|s| s.next().unwrap_or_else(nothing)).collect())
            .collect()
    }

    fn plans(&self) -> Vec<Arc<Plan>> {
        self.tenants.iter().map(|t| Arc::new(t.plan.clone())).collect()
    }

    fn accuracy(&mut self) {
        self.note("Starting accuracy mode");
        let plans = self.plans();
        for sets in self.sets(&plans, true) {
            self.one_run("accuracy", &plans, &sets, true, Loading::Own);
            if self.is_over() {
                return;
            }
        }
    }

    fn performance(&mut self) {
        self.note("Starting performance mode");
        let plans = self.plans();
        if plans[0].repetition != Repetition::Once {
            self.search();
            return;
        }
        let sets = self.sets(&plans, false).swap_remove(0);
        self.one_run("performance", &plans, &sets, false, Loading::Own);
        self.result(0);
    }

    fn result(&mut self, runs_back: usize) {
        let at = self.now();
        for log in &mut self.logs {
            log.events.push(Event::Result { runs_back, at });
        }
    }

    fn load(&mut self, sets: &[LoadedSet]) -> Span {
        let begin = self.now();
        for (tenant, set) in self.tenants.iter().zip(sets) {
            if !set.samples.is_empty() {
                tenant.library.load(&set.samples);
            }
        }
        Span { begin, end: self.now() }
    }

    fn unload(&mut self, sets: &[LoadedSet]) -> Span {
        let begin = self.now();
        for (tenant, set) in self.tenants.iter().zip(sets) {
            if !set.samples.is_empty() {
                tenant.library.unload(&set.samples);
            }
        }
        Span { begin, end: self.now() }
    }

    /// Plays one run and appends it to the logs.
    fn one_run(
        &mut self,
        purpose: &str,
        plans: &[Arc<Plan>],
        sets: &[LoadedSet],
        accuracy: bool,
        loading: Loading,
    ) {
        self.runs += 1;
        let run = self.runs;
        (self.watch)(RunStart { purpose, plan: &plans[0], run, logs: &self.logs });
        let own = loading == Loading::Own;
        let load = if own { self.load(sets) } else { Span::default() };
        let tenants = plans.iter().zip(sets).zip(&self.generated);
        let tenants = tenants.map(|((plan, set), (samples, _))| JobTenant {
            plan: plan.clone(),
            set,
            samples_before: *samples,
        });
        let epoch = self.driver.epoch(self.runs);
        let job = Job { tenants: tenants.collect(), accuracy, share: Share::WHOLE, epoch };
        let played = self.driver.play(&job);
        if let Some(text) = &played.error {
            self.log_message("error_runtime", Severity::Error, text);
        }
        let unload = if own { self.unload(sets) } else { Span::default() };
        self.append(played, plans, sets, accuracy, own.then_some((load, unload)));
    }

    fn append(
        &mut self,
        played: RunOutcome,
        plans: &[Arc<Plan>],
        sets: &[LoadedSet],
        accuracy: bool,
        loaded: Option<(Span, Span)>,
    ) {
        let origin = self.origin;
        let since = |at: Nanos| at.saturating_sub(origin);
        for (tenant, mut part) in played.tenants.into_iter().enumerate() {
            if sets[tenant].samples.is_empty() {
                // Other tenants have more sets; this tenant had no work.
                continue;
            }
            let (samples, queries) = &mut self.generated[tenant];
            part.record.exclude(plans[tenant].ramp);
            let ramp = part.record.ramp();
            part.record.count_token_misuse(plans[tenant].scenario());
            part.record.first_sample = *samples;
            part.record.first_query = *queries;
            let generated = part.generated;
            // A run that continued past its trace has issued more.
            let in_run = generated.queries.max(part.record.query_count() as u64);
            *samples += in_run * generated.samples_per_query;
            *queries += in_run;
            let (load, unload) = loaded.unwrap_or_default();
            self.logs[tenant].events.push(Event::Run(Box::new(RunLog {
                accuracy,
                plan: (*plans[tenant]).clone(),
                loaded: if loaded.is_some() { sets[tenant].samples.clone() } else { Vec::new() },
                generated_queries: generated.queries,
                generated_samples_per_query: generated.samples_per_query,
                generated_duration: generated.duration,
                ended: part.ended,
                threads: played.threads.clone(),
                record: part.record,
                dropped: None,
                load,
                generate: Span { begin: since(played.generated.0), end: since(played.generated.1) },
                started_at: since(played.started_at).saturating_add(ramp),
                started_wall: WallTime { unix_ns: played.started_wall.unix_ns + ramp },
                finished_at: since(played.finished_at),
                unload,
            })));
        }
    }
}
