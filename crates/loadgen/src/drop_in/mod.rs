//! The reference's process-wide interface, for the languages it is bound to: `StartTest`,
//! `QuerySamplesComplete`, `FirstTokenComplete`, `AbortTest`, `RegisterIssueQueryThread` and
//! `FromConfig`.
//!
//! A process has one [`LoadGen`] and runs one test at a time. Cases in which the reference would
//! crash are a [`StartError`] or an error in the detail log. Source: SPEC sections 1, 4 and 8.
//!
//! ```
//! use dyno_loadgen::drop_in::{LoadGen, NoRunError, NoTestError};
//! use dyno_loadgen::sut::{Response, ResponseId};
//!
//! static LOADGEN: LoadGen = LoadGen::new();
//!
//! assert_eq!(LOADGEN.abort(), Err(NoTestError));
//! let late = Response::empty(ResponseId(1));
//! assert_eq!(LOADGEN.complete(&[late]), Err(NoRunError { samples: 1 }));
//! ```

mod config;
mod current;
mod timestamps;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::Conf;
use crate::drive::Driver;
use crate::drive::real::{IssueThreads, Monitor, RealTime};
use crate::log::{LogError, LogFiles, LogSettings, expected_bytes};
use crate::message::{Message, Severity};
use crate::plan::{
    Library, Plan, ReferenceBehavior, SettingsErrors, SettingsProblem, apply_test05,
};
use crate::qsl::SampleLibrary;
use crate::run::{Event, RecordRetention, RunStart, Tenant, TestLog, run};
use crate::settings::{Scenario, Settings, TestSettings};
use crate::sut::{AsResponse, SystemUnderTest};

use config::{bad_lines, invalid_modes};
use current::CurrentRun;
use timestamps::Timestamps;

/// Load generator of a process.
pub struct LoadGen {
    current: CurrentRun,
    is_running: AtomicBool,
    /// Monitor of the running test.
    monitor: Mutex<Option<Monitor>>,
    /// Issue threads of the running test, or of the next one.
    issue_threads: Mutex<Option<Arc<IssueThreads>>>,
    /// Number of `FromConfig` calls with a user's file.
    user_configs: AtomicU64,
    /// Messages for the log of the next test.
    pending: Mutex<Vec<Message>>,
    /// Samples completed outside of a run.
    late_samples: AtomicU64,
}

impl fmt::Debug for LoadGen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadGen").field("is_running", &self.is_running).finish_non_exhaustive()
    }
}

impl Default for LoadGen {
    fn default() -> Self {
        Self::new()
    }
}

/// Error of [`LoadGen::start_test`]: the test was not run, or its logs were not written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StartError {
    /// Another test is running in this process.
    AlreadyRunning,
    /// Even the reference cannot run the settings. The detail log has the problems, too.
    Settings(SettingsErrors),
    /// The logs cannot be opened or written.
    Log {
        /// Error of the log files.
        error: LogError,
        /// Folder with the logs of the finished test instead, if they could be written there.
        rescued: Option<PathBuf>,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning => f.write_str(
                "StartTest was called while another test is running in this process; wait until \
                 it has returned",
            ),
            Self::Settings(problems) => write!(f, "the test was not run: {problems}"),
            Self::Log { error, rescued: None } => write!(f, "{error}"),
            Self::Log { error, rescued: Some(folder) } => {
                write!(f, "{error}; all of them are in `{}` instead", folder.display())
            }
        }
    }
}

impl std::error::Error for StartError {}

/// Error: samples were completed outside of a run, before or after the test. They are ignored, and
/// reported in the detail log of the next test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRunError {
    /// Number of samples.
    pub samples: usize,
}

impl fmt::Display for NoRunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.samples;
        write!(
            f,
            "samples that were completed while no test is running: {n}; complete each sample \
             once, before the test ends"
        )
    }
}

impl std::error::Error for NoRunError {}

/// Error: no test is running that could be aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTestError;

impl fmt::Display for NoTestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no test is running, there is nothing to abort")
    }
}

impl std::error::Error for NoTestError {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LoadGen {
    /// Returns a load generator without a running test.
    pub const fn new() -> Self {
        Self {
            current: CurrentRun::new(),
            is_running: AtomicBool::new(false),
            monitor: Mutex::new(None),
            issue_threads: Mutex::new(None),
            user_configs: AtomicU64::new(0),
            pending: Mutex::new(Vec::new()),
            late_samples: AtomicU64::new(0),
        }
    }

    /// Runs a test in real time, writes its logs, and returns. The file of an audit, if it exists,
    /// overrides settings.
    ///
    /// After an [abort](LoadGen::abort) the logs are written, too, and report the abort.
    ///
    /// # Errors
    /// [`StartError`]; its message states what to do.
    pub fn start_test(
        &'static self,
        system: Arc<dyn SystemUnderTest>,
        library: &dyn SampleLibrary,
        settings: &TestSettings,
        logs: &LogSettings,
        audit_config: &Path,
    ) -> Result<(), StartError> {
        let running = RunningTest::begin(self)?;
        let mut messages = self.take_pending();
        let mut settings = Settings::from(settings.clone());
        apply_audit(&mut settings, audit_config, &mut messages);
        if settings.values.test05 {
            apply_test05(&mut settings);
            messages.push(warning("Test05 flag detected Overriding random seeds"));
        }
        let timestamps = Timestamps::new(settings.values.print_timestamps);
        // Before the library is called, which may take long: the test can be aborted from here on.
        let requested_threads = settings.values.server_num_issue_query_threads;
        let mut driver = running.driver(system, &timestamps).requested_threads(requested_threads);
        let reported = Library {
            total: library.total_sample_count() as u64,
            performance: library.performance_sample_count() as u64,
        };
        let (plan, problems) = Plan::resolve_as_reference(&settings.values, reported);
        // The run itself reports a search without a peak.
        let told_here = problems.iter().filter(|problem| !is_reported_by_run(problem));
        messages.extend(told_here.flat_map(SettingsProblem::messages));
        let stops = |p: &SettingsProblem| p.stops() && !is_reported_by_run(p);
        let stopping: Vec<_> = problems.into_iter().filter(stops).collect();

        // A closed loop issues as much as the system answers. Its expected latency is often far off
        // and must not cause an error.
        let is_known = matches!(plan.scenario(), Scenario::Server | Scenario::Offline);
        let known = is_known && stopping.is_empty();
        let expected =
            if known { expected_bytes(&plan, reported.total, logs.enable_trace) } else { 0 };
        let failed = |error| StartError::Log { error, rescued: None };
        let mut files = LogFiles::open(logs, None, expected).map_err(failed)?;
        let tenant = Tenant { settings, plan, library, messages };
        if !stopping.is_empty() {
            // The logs of this test state why it did not run.
            files.write(&log_without_runs(tenant, &driver)).map_err(failed)?;
            return Err(StartError::Settings(SettingsErrors(stopping)));
        }
        let keep =
            if logs.enable_trace { RecordRetention::Every } else { RecordRetention::Results };
        let mut watch = |begins: RunStart<'_>| {
            if begins.run == 1 {
                files.write_head(&begins.logs[0]);
            }
            timestamps.expect(begins);
        };
        let log = run(&mut driver, &[tenant], keep, &mut watch).swap_remove(0);
        write_or_rescue(&mut files, &log, logs)
    }

    /// Ends the running test as soon as its issuing thread notices: at once while it issues, within
    /// 0.1 s while it waits. May be called from any thread.
    ///
    /// # Errors
    /// [`NoTestError`] if no test is running.
    pub fn abort(&self) -> Result<(), NoTestError> {
        lock(&self.monitor).as_ref().map(Monitor::abort).ok_or(NoTestError)
    }

    /// Registers the calling thread to issue Server queries of the running test, or of the next
    /// one, and returns when that test is over.
    pub fn register_issue_thread(&self) {
        self.issue_threads().serve();
    }

    /// Releases the threads that are registered for the next test:
    /// [`LoadGen::register_issue_thread`] returns. Those of a running test finish its queries first.
    pub fn release_issue_threads(&self) {
        let pool = lock(&self.issue_threads).take();
        if let Some(pool) = pool {
            pool.close();
        }
    }

    /// Completes samples; the time is read once, on entry. May be called from any thread.
    ///
    /// # Errors
    /// [`NoRunError`] if no run is in progress.
    #[inline]
    pub fn complete<R: AsResponse>(&self, responses: &[R]) -> Result<(), NoRunError> {
        self.complete_in_run(responses).ok_or_else(|| self.report_late(responses.len()))
    }

    /// Completes samples; `None` if no run is in progress, which is not reported.
    #[inline]
    pub fn complete_in_run<R: AsResponse>(&self, responses: &[R]) -> Option<()> {
        self.current.with(|run| run.complete(responses))
    }

    /// Completes samples and calls `fetch` for each logged response, after its time was stamped and
    /// before its payload is read.
    ///
    /// # Errors
    /// [`NoRunError`] if no run is in progress.
    pub fn complete_fetching<R: AsResponse>(
        &self,
        responses: &mut [R],
        fetch: &mut dyn FnMut(&mut R),
    ) -> Result<(), NoRunError> {
        let samples = responses.len();
        let done = self.complete_fetching_in_run(responses, fetch);
        done.ok_or_else(|| self.report_late(samples))
    }

    /// As [`LoadGen::complete_fetching`]; `None` if no run is in progress, which is not reported.
    pub fn complete_fetching_in_run<R: AsResponse>(
        &self,
        responses: &mut [R],
        fetch: &mut dyn FnMut(&mut R),
    ) -> Option<()> {
        self.current.with(|run| run.complete_fetching(responses, fetch))
    }

    /// Reports the first tokens of samples. May be called from any thread.
    ///
    /// # Errors
    /// [`NoRunError`] if no run is in progress.
    pub fn first_token<R: AsResponse>(&self, responses: &[R]) -> Result<(), NoRunError> {
        self.first_token_in_run(responses).ok_or_else(|| self.report_late(responses.len()))
    }

    /// Reports first tokens; `None` if no run is in progress, which is not reported.
    pub fn first_token_in_run<R: AsResponse>(&self, responses: &[R]) -> Option<()> {
        self.current.with(|run| run.first_token(responses))
    }

    /// Counts samples that were completed while no run is in progress, for the log of the next test.
    #[cold]
    pub fn report_late(&self, samples: usize) -> NoRunError {
        let no_run = NoRunError { samples };
        if samples > 0 && self.late_samples.fetch_add(samples as u64, Ordering::Relaxed) == 0 {
            // `eprintln!` would panic on a closed stderr.
            let _ = writeln!(std::io::stderr(), "dyno: {no_run}");
        }
        no_run
    }

    fn issue_threads(&self) -> Arc<IssueThreads> {
        lock(&self.issue_threads).get_or_insert_with(IssueThreads::new).clone()
    }

    fn take_pending(&self) -> Vec<Message> {
        let mut messages = std::mem::take(&mut *lock(&self.pending));
        let late = self.late_samples.swap(0, Ordering::Relaxed);
        if late > 0 {
            let text = format!("Samples that were completed while no test was running: {late}.");
            messages.push(error("error_runtime", text));
        }
        messages
    }
}

/// The running test. Dropping it restores the state of the load generator for the next test.
struct RunningTest {
    loadgen: &'static LoadGen,
    issue_threads: Arc<IssueThreads>,
}

impl RunningTest {
    fn begin(loadgen: &'static LoadGen) -> Result<Self, StartError> {
        if loadgen.is_running.swap(true, Ordering::Acquire) {
            return Err(StartError::AlreadyRunning);
        }
        Ok(Self { loadgen, issue_threads: loadgen.issue_threads() })
    }

    fn driver(&self, system: Arc<dyn SystemUnderTest>, timestamps: &Timestamps) -> RealTime {
        let loadgen = self.loadgen;
        let timestamps = timestamps.clone();
        let announce = move |run: Option<&_>| {
            match run {
                Some(responder) => loadgen.current.publish(responder),
                None => loadgen.current.withdraw(),
            }
            timestamps.mark(run.is_some());
        };
        let driver = RealTime::new(system)
            .issue_threads(self.issue_threads.clone())
            .announce(Arc::new(announce));
        *lock(&loadgen.monitor) = Some(driver.monitor());
        driver
    }
}

impl Drop for RunningTest {
    fn drop(&mut self) {
        self.loadgen.current.withdraw();
        *lock(&self.loadgen.monitor) = None;
        // Threads that register from now on wait for the next test.
        *lock(&self.loadgen.issue_threads) = None;
        self.issue_threads.close();
        self.loadgen.is_running.store(false, Ordering::Release);
    }
}

fn error(key: &'static str, text: String) -> Message {
    Message { at: 0, key, severity: Severity::Error, text }
}

fn warning(text: impl Into<String>) -> Message {
    let key = "warning_generic_message";
    Message { at: 0, key, severity: Severity::Warning, text: text.into() }
}

fn is_reported_by_run(problem: &SettingsProblem) -> bool {
    matches!(problem.in_reference, ReferenceBehavior::Stops { key: config::INVALID_CONFIG })
}

fn apply_audit(settings: &mut Settings, path: &Path, messages: &mut Vec<Message>) {
    if !path.exists() {
        return;
    }
    // The reference writes this text for any file name.
    messages.push(warning(
        "Found Audit Config file (audit.config). Overriding TestSettings from audit.config file.",
    ));
    match Conf::load(path) {
        Ok(conf) => messages.extend(invalid_modes(&conf.apply_audit(settings))),
        Err(problem) => messages.extend(bad_lines(&problem)),
    }
}

/// Returns the log of a test that did not run.
fn log_without_runs(tenant: Tenant<'_>, driver: &RealTime) -> TestLog {
    TestLog {
        sut_name: driver.system_name(),
        sut_name_duration: 0,
        qsl_name: tenant.library.name().to_string(),
        qsl_total: tenant.library.total_sample_count() as u64,
        qsl_performance: tenant.library.performance_sample_count() as u64,
        origin_wall: driver.wall_now(),
        process: driver.process(),
        requested: tenant.settings,
        plan: tenant.plan,
        events: tenant.messages.into_iter().map(Event::Message).collect(),
        complete: false,
        search: None,
    }
}

/// Writes the logs; after an error, writes them to the system's temporary folder instead.
fn write_or_rescue(
    files: &mut LogFiles,
    log: &TestLog,
    settings: &LogSettings,
) -> Result<(), StartError> {
    let Err(error) = files.write(log) else { return Ok(()) };
    let folder = std::env::temp_dir().join(format!("dyno-rescued-{}", std::process::id()));
    let elsewhere = LogSettings { outdir: folder.clone(), ..settings.clone() };
    let rescued = std::fs::create_dir_all(&folder).is_ok()
        && LogFiles::open(&elsewhere, None, 0).is_ok_and(|mut files| files.write(log).is_ok());
    Err(StartError::Log { error, rescued: rescued.then_some(folder) })
}
