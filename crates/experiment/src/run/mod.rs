//! Runs: from a command line to results. All commands that measure use this module.

mod checked;
mod effective;
mod judged;
mod longer;
mod measured;
mod remarks;
mod seen;
mod tests;

pub use effective::effective_toml;
pub use measured::MeasuredRun;
pub use remarks::command;

use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;

use dyno_loadgen::clock::{Clock, WallTime};
use dyno_loadgen::log::{Report, expected_bytes, expected_samples, reports, reports_by};
use dyno_loadgen::metrics::Definitions;
use dyno_loadgen::run::TestLog;
use dyno_loadgen::settings::{Origin, Scenario, TestMode};
use dyno_results::records::{Keep, Records};
use dyno_results::run_directory::RunDirectory;
use dyno_results::summary::{self, State, Verdict};
use dyno_results::{series, units, write};

use crate::effect::{self, Facts, Strictness};
use crate::failure::Failure;
use crate::gather::server::ServerFindings;
use crate::measure::PlayedTest;
use crate::options::{CommandLine, Options, Profile};
use crate::outcome::{Context, Outcome, TenantTest, compare_accuracies, log_folder};
use crate::system::System;
use crate::system::net::Remote;
use crate::test::{PlannedTest, TestTenant};
use crate::watch::{Control, Interrupt, TestResult, Watch};
use crate::workers::RemoteWorkers;
use crate::{division, environment, throughput};
use judged::{BacklogCheck, Ending};
use longer::SizedTest;
pub use seen::observer;
use seen::{accelerator, reported, seen_by_client};

/// A loaded system with the options of its run.
///
/// ```
/// use dyno_experiment::options::CommandLine;
/// use dyno_experiment::quiet;
/// use dyno_experiment::run::PreparedRun;
///
/// let mut line = CommandLine::default();
/// line.give("system", "model:fixed=1ms");
/// line.give("mode", "performance");
/// let prepared = PreparedRun::new(&line, &quiet())?;
/// assert!(prepared.tests()?[0].title().ends_with("performance"));
/// # Ok::<(), dyno_experiment::Failure>(())
/// ```
pub struct PreparedRun {
    /// Options of the run.
    pub options: Options,
    /// System under test.
    pub system: System,
    /// Traffic of the probe, if one was made.
    probe: OnceLock<summary::Probe>,
}

/// Requests and answers of a run, as JSON lines.
const TEXTS: &str = "texts.jsonl";

/// Function that receives each log before it is dropped.
pub type LogObserver<'a> = &'a mut dyn FnMut(&TestLog);

impl PreparedRun {
    /// Reads every layer of configuration, reports warnings, and loads the system.
    ///
    /// # Errors
    /// Invalid options, or missing files and services.
    pub fn new(command_line: &CommandLine, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        Ok(Self::narrowed(command_line, watch, |_| Ok(()))?.0)
    }

    /// Prepares a run after `narrow` changed the options, so that the system loads only what they
    /// need: preparing data for accuracy may take minutes.
    ///
    /// # Errors
    /// As [`PreparedRun::new`], and errors of `narrow`.
    pub fn narrowed<T>(
        command_line: &CommandLine,
        watch: &Arc<dyn Watch>,
        narrow: impl FnOnce(&mut Options) -> Result<T, Failure>,
    ) -> Result<(Self, T), Failure> {
        let mut options = Options::read(command_line, variables())?;
        let found = narrow(&mut options)?;
        let prepared = Self::load(options, Strictness::Run, watch)?;
        prepared.warn(watch);
        Ok((prepared, found))
    }

    /// Prepares a run without reporting warnings.
    ///
    /// # Errors
    /// As [`PreparedRun::new`].
    pub fn silently(command_line: &CommandLine, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        Self::load(Options::read(command_line, variables())?, Strictness::Run, watch)
    }

    fn warn(&self, watch: &Arc<dyn Watch>) {
        for warning in &self.options.warnings {
            watch.say(&format!("warning: {warning}"));
        }
    }

    fn load(
        options: Options,
        strictness: Strictness,
        watch: &Arc<dyn Watch>,
    ) -> Result<Self, Failure> {
        division::check(&options.run)?;
        checked::servers_of_tenants(&options)?;
        effect::check_system(&Facts::new(&options, None), strictness)?;
        let system = load_system(&options, watch)?;
        effect::check_system(&Facts::new(&options, Some(&system)), strictness)?;
        Ok(Self::from_system(options, system))
    }

    /// Returns a run of a loaded system.
    pub fn from_system(options: Options, system: System) -> Self {
        Self { options, system, probe: OnceLock::new() }
    }

    /// Returns the run with a newly loaded system. The old system is dropped first, because two may
    /// not fit into memory. A simulated system starts anew in each run anyway.
    ///
    /// # Errors
    /// As [`PreparedRun::new`].
    pub(crate) fn renewed(self, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        if self.system.is_simulated() {
            return Ok(self);
        }
        let Self { options, system, probe } = self;
        drop(system);
        Ok(Self { system: load_system(&options, watch)?, options, probe })
    }

    /// Returns all tests, in order. Rates that a probe would determine have placeholders.
    ///
    /// # Errors
    /// All invalid settings of all tests.
    pub fn tests(&self) -> Result<Vec<PlannedTest>, Failure> {
        tests::tests(&self.options, &self.system, None)
    }

    /// Returns whether a short probe determines a rate that is not given.
    pub fn is_probed(&self) -> bool {
        tests::needs_probe(&self.options, &self.system)
    }

    /// Returns all tests, in order. A short probe determines rates that are not given. `None` if
    /// the probe was interrupted.
    ///
    /// # Errors
    /// As [`PreparedRun::tests`], or the system does not answer the probe.
    pub fn probed_tests(&self, control: Control<'_>) -> Result<Option<Vec<PlannedTest>>, Failure> {
        // Errors that do not depend on the probe are reported before it.
        self.tests()?;
        let probe = if self.is_probed() {
            throughput::samples_per_second(&self.system, &self.options, control)?
        } else {
            None
        };
        let probed = probe.as_ref().map(|probe| probe.samples_per_s);
        if let (Some(probe), false) = (probe, self.system.is_simulated()) {
            // Only the traffic of the run's first probe is kept.
            let _ = self.probe.set(probe);
        }
        if control.interrupt.is_some_and(Interrupt::is_asked) {
            return Ok(None);
        }
        tests::tests(&self.options, &self.system, probed).map(Some)
    }

    /// Returns one performance test, with these settings above all layers. `origin` is their
    /// origin.
    ///
    /// # Errors
    /// All invalid settings.
    ///
    /// # Panics
    /// A setting does not exist, or a value is invalid.
    pub(crate) fn performance_test(
        &self,
        scenario: Scenario,
        on_top: &[(&str, String)],
        origin: &Origin,
    ) -> Result<PlannedTest, Failure> {
        tests::performance(&self.options, &self.system, scenario, on_top, origin)
    }

    /// Creates the directory of a run of these tests: `out`, or a new one below `runs`.
    ///
    /// # Errors
    /// It cannot be written, or the disk has no space for the logs.
    pub fn directory(
        &self,
        tests: &[PlannedTest],
        out: Option<&Path>,
    ) -> Result<RunDirectory, Failure> {
        let trace_log = self.options.run.trace_log;
        let keep = self.options.run.records;
        let of = |tenant: &TestTenant| {
            let records = Records::expected_bytes(expected_samples(&tenant.plan), keep);
            // No override is larger than the library: such settings are refused.
            expected_bytes(&tenant.plan, u64::MAX, trace_log).saturating_add(records)
        };
        let log_bytes: Vec<u64> = tests.iter().flat_map(|test| &test.tenants).map(of).collect();
        Ok(RunDirectory::create(out, &self.name(), &log_bytes, trace_log)?)
    }

    fn name(&self) -> String {
        self.options.run.name.clone().unwrap_or_else(|| self.system.short_name().to_string())
    }

    /// Plays the tests and writes the results to the directory. Results that cannot be written are
    /// still returned, see [`MeasuredRun::stored`].
    ///
    /// # Errors
    /// The system cannot be started.
    pub fn measure(
        &self,
        tests: &[PlannedTest],
        control: Control<'_>,
        directory: RunDirectory,
    ) -> Result<MeasuredRun, Failure> {
        self.measure_and_see(tests, control, directory, &mut |_| {})
    }

    /// Plays the tests like [`PreparedRun::measure`]; `see` receives each log before it is dropped.
    ///
    /// # Errors
    /// As [`PreparedRun::measure`].
    pub(crate) fn measure_and_see(
        &self,
        tests: &[PlannedTest],
        control: Control<'_>,
        mut directory: RunDirectory,
        see: LogObserver<'_>,
    ) -> Result<MeasuredRun, Failure> {
        let (begun, clock) = (WallTime::now(), Clock::start());
        warn(control.watch, &directory.take_warnings());
        let mut run = self.begin(begun);
        control.watch.plan(&format!("{}, profile {}", run.system, run.profile), tests);
        let mut plots = series::Run::new(Vec::new());
        let mut texts = String::new();
        for (number, test) in (1..).zip(tests) {
            let title = format!("{number}/{} {}", tests.len(), test.title());
            let before = run.tests.len();
            let mut kept = OutcomeSink { directory: &mut directory, see: &mut *see };
            let played = play(self, test, control, &title, &mut kept)
                .map_err(|failure| name_remains(failure, &directory))?;
            texts += &self.add(test, played, &mut run, &mut plots);
            control.watch.result(result(&run.tests[before..]));
            // A signal after the end of a test ends the run if further tests follow.
            if number < tests.len() && control.interrupt.is_some_and(Interrupt::is_asked) {
                run.state = State::Interrupted;
            }
            if run.state != State::Complete || has_lost_worker(&self.system) {
                break;
            }
        }
        run.remarks.extend(self.system.remote_workers.iter().flat_map(RemoteWorkers::remarks));
        if !self.system.is_simulated() {
            // The wall clock may be set during the run.
            run.duration_ns = clock.now();
            let unix_ns = begun.unix_ns.saturating_add(run.duration_ns);
            run.finished_at = units::utc(WallTime { unix_ns });
        }
        compare_accuracies(&mut run.tests);
        run.settle();
        run.division = Some(division::statement(&run, &self.options, &self.system));
        Ok(self.finish(run, &plots, texts, directory, control.watch))
    }

    /// Adds the results of a test to those of the run, and returns the texts of its requests and
    /// answers.
    fn add(
        &self,
        test: &PlannedTest,
        played: TestOutcome,
        run: &mut summary::Run,
        plots: &mut series::Run,
    ) -> String {
        let (before, mut texts) = (run.tests.len(), String::new());
        run.remarks.extend(remarks::of_observers(&self.system, test, &played.observers));
        run.observers.extend(played.observers);
        if let Some(client) = played.client {
            run.remarks.push(client.remark());
            run.clients.push(client);
        }
        if let Some(found) = played.servers {
            run.servers.extend(found.servers);
            run.energy.extend(found.energy);
            plots.servers.extend(found.series);
        }
        for outcome in played.outcomes {
            texts += &outcome.texts;
            if outcome.summary.state != State::Complete && run.state == State::Complete {
                run.state = outcome.summary.state;
            }
            run.tests.push(outcome.summary);
            plots.tests.extend(outcome.series);
        }
        if let Some((accelerator, timeline)) = accelerator(&self.system, &run.tests[before..]) {
            run.remarks.push(accelerator.remark());
            run.accelerators.push(accelerator);
            plots.timelines.push(timeline);
        }
        texts
    }

    /// Plays a test without writing results. Returns its logs and the verdicts of its tenants.
    /// Verdicts exist in real time only, where the client and the machine may disturb the test.
    ///
    /// # Errors
    /// The system cannot be started.
    pub fn play_and_judge(
        &self,
        test: &PlannedTest,
        control: Control<'_>,
        title: &str,
    ) -> Result<(PlayedTest, Vec<summary::Test>), Failure> {
        let system = &self.system;
        throughput::warm_up(system, &self.options, test, control)?;
        let (clock, before) = (Clock::start(), system.remote().map(Remote::seen));
        let played = test.play(system, control, title)?;
        if system.is_simulated() {
            return Ok((played, Vec::new()));
        }
        let took = clock.now();
        let troubles = seen::troubles(system, before.as_ref());
        let failure = system.own_trouble();
        let failure = failure.as_deref();
        let has_round = self.options.rules.is_some();
        let percentiles = &self.options.run.percentiles();
        let stages = self.options.run.stages.as_ref();
        let context = Context { troubles: &troubles, failure, has_round, percentiles, stages };
        let of = |(log, tenant): (&TestLog, &TestTenant)| {
            let tenant = tenant.name.as_deref();
            let tenant_test = TenantTest { log, test, tenant, system };
            Outcome::from_test(tenant_test, &reports(log), Keep::Nothing, context)
        };
        let logs = &played.logs;
        let mut outcomes: Vec<Outcome> = logs.iter().zip(&test.tenants).map(of).collect();
        if let Some(before) = &before {
            seen_by_client(system, before, took, logs, &mut outcomes, context);
        }
        seen::observers(system, played.observation.clone(), logs, &mut outcomes);
        Ok((played, outcomes.into_iter().map(|outcome| outcome.summary).collect()))
    }

    /// Returns the round and benchmark of the run.
    pub fn rules(&self) -> Option<summary::Rules> {
        self.options.rules.as_ref().map(|rules| summary::Rules {
            round: rules.round.version.to_string(),
            benchmark: rules.benchmark.name.clone(),
            interactive: rules.is_interactive,
        })
    }

    /// Returns a remark on the traffic of the probe, if the system is a server.
    pub(crate) fn probe_remark(&self) -> Option<String> {
        let probe = self.probe.get().filter(|_| self.system.remote().is_some());
        probe.map(summary::Probe::remark)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = remarks::of_run(&self.options, &self.system);
        remarks.extend(self.probe_remark());
        remarks
    }

    fn begin(&self, begun: WallTime) -> summary::Run {
        let system = &self.system;
        summary::Run {
            schema: summary::SCHEMA.into(),
            schema_version: summary::SCHEMA_VERSION,
            state: State::Complete,
            verdict: String::new(),
            official: false,
            disclaimer: summary::DISCLAIMER.into(),
            name: self.name(),
            system: system.spec.clone(),
            time: if system.is_simulated() { "virtual" } else { "real" }.into(),
            profile: self.options.profile().name().into(),
            definitions: Definitions::Native.name().into(),
            rules: self.rules(),
            started_at: if system.is_simulated() { String::new() } else { units::utc(begun) },
            finished_at: String::new(),
            duration_ns: 0,
            command: command(),
            remarks: self.remarks(),
            probe: self.probe.get().cloned(),
            division: None,
            tests: Vec::new(),
            accelerators: Vec::new(),
            clients: Vec::new(),
            observers: Vec::new(),
            servers: Vec::new(),
            energy: Vec::new(),
            environment: environment::describe(),
        }
    }

    fn finish(
        &self,
        summary: summary::Run,
        series: &series::Run,
        texts: String,
        directory: RunDirectory,
        watch: &Arc<dyn Watch>,
    ) -> MeasuredRun {
        let mut files = Vec::new();
        if self.options.run.keeps_texts {
            files.push((TEXTS, texts));
        }
        files.extend([
            (series::FILE, compact(series)),
            (dyno_report::FILE, dyno_report::html(&summary, series, self.options.run.records)),
            (dyno_results::effective::FILE, effective_toml(&summary, &self.options)),
            (summary::FILE, write::pretty(&summary)),
        ]);
        let directory = directory.finish(&files);
        warn(watch, &directory.warnings);
        MeasuredRun { summary, directory }
    }
}

/// Names the folder that has the results of tests before an error.
fn name_remains(failure: Failure, directory: &RunDirectory) -> Failure {
    match directory.remains() {
        Some(path) => {
            let path = path.display();
            failure.hint(format!("dyno report {path} shows the results of the tests before"))
        }
        None => failure,
    }
}

fn warn(watch: &Arc<dyn Watch>, warnings: &[String]) {
    for warning in warnings {
        watch.say(&format!("warning: {warning}"));
    }
}

/// Loads the system that the options name.
fn load_system(options: &Options, watch: &Arc<dyn Watch>) -> Result<System, Failure> {
    let mut system = System::load(&options.run, watch)?;
    if let Some(workers) = &mut system.remote_workers {
        // A search also tries loads at which a system may fail.
        let tries_loads = options.modes().contains(&TestMode::FindPeakPerformance);
        workers.fail_fast(options.fails_fast() && !tries_loads);
    }
    Ok(system)
}

/// Returns whether a worker is lost, so that no further test can be played.
fn has_lost_worker(system: &System) -> bool {
    system.remote_workers.as_ref().is_some_and(RemoteWorkers::has_lost_worker)
}

/// Returns the environment variables with values in UTF-8; others cannot set a setting.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn compact(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("keys are texts") + "\n"
}

/// Destination of a test's results.
struct OutcomeSink<'a> {
    directory: &'a mut RunDirectory,
    see: &'a mut dyn FnMut(&TestLog),
}

/// Results of a test.
struct TestOutcome {
    /// One entry per tenant.
    outcomes: Vec<Outcome>,
    /// Client of a server.
    client: Option<summary::Client>,
    /// Observers, in real time only.
    observers: Vec<summary::Observer>,
    /// What servers showed of themselves.
    servers: Option<ServerFindings>,
}

/// Plays one test and writes its logs and raw records.
fn play(
    prepared: &PreparedRun,
    test: &PlannedTest,
    control: Control<'_>,
    title: &str,
    kept: &mut OutcomeSink<'_>,
) -> Result<TestOutcome, Failure> {
    let (system, options) = (&prepared.system, &prepared.options.run);
    let warmed_up = throughput::warm_up(system, &prepared.options, test, control)?;
    // Discards batch sizes of a probe or of the previous test.
    let _ = system.batch_sizes.take();
    let (clock, before) = (Clock::start(), system.remote().map(Remote::seen));
    control.writes(false);
    let SizedTest { test, played, mut notes } = longer::play(prepared, test, control, title)?;
    notes.extend(warmed_up.filter(|failed| *failed > 0).map(|failed| {
        let failed = units::counted(failed, "warm-up request", "warm-up requests");
        format!("{failed} before the test failed.")
    }));
    notes.extend(remarks::of_load(&prepared.options, &test));
    let PlayedTest { logs, failing, saturated, observation, servers } = played;
    control.writes(true);
    let took = clock.now();
    let batch_sizes = system.batch_sizes.take();
    let troubles = seen::troubles(system, before.as_ref());
    let failure = system.own_trouble();
    let failure = failure.as_deref();
    let percentiles = &options.percentiles();
    let (has_round, stages) = (prepared.options.rules.is_some(), options.stages.as_ref());
    let context = Context { troubles: &troubles, failure, has_round, percentiles, stages };
    let backlog = BacklogCheck::of_test(prepared, &test);
    let ending = Ending {
        failing: failing.as_ref(),
        saturated: saturated.as_ref(),
        backlog,
        troubles: &troubles,
        failures: prepared.options.failures(test.scenario),
    };
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut unwritten = Vec::new();
    for (log, tenant) in logs.iter().zip(&test.tenants) {
        (kept.see)(log);
        let judged = reports(log);
        let native = native_reports(log, &prepared.options);
        let shown = if native.is_empty() { &judged } else { &native };
        let name = tenant.name.as_deref();
        let tenant_test = TenantTest { log, test: &test, tenant: name, system };
        let mut outcome = Outcome::from_test(tenant_test, shown, options.records, context);
        if let Some(series) = &mut outcome.series {
            series.batch_sizes.clone_from(&batch_sizes);
        }
        ending.judge(&mut outcome.summary, log, &test, options);
        outcome.summary.notes.extend(notes.iter().cloned());
        let folder = log_folder(&test, name);
        if !kept.store(control.watch, &folder, log, &judged, &outcome) {
            unwritten.push((outcomes.len(), folder));
        }
        outcomes.push(outcome);
    }
    summary::settle_tenants(outcomes.iter_mut().map(|outcome| &mut outcome.summary));
    let client = before
        .as_ref()
        .and_then(|before| seen_by_client(system, before, took, &logs, &mut outcomes, context));
    let began = observation.as_ref().map_or(0, |observation| observation.began);
    let observers = seen::observers(system, observation, &logs, &mut outcomes);
    outcomes.iter_mut().for_each(|outcome| outcome.summary.doubt_saturation());
    let servers = seen::servers(system, servers.as_ref(), began, &mut outcomes);
    if let Some(reported) = reported(system) {
        outcomes.iter_mut().for_each(|outcome| reported.judge(&mut outcome.summary));
    }
    if let Some(note) = judged::observed_run(&test, observers.len()) {
        outcomes.iter_mut().for_each(|outcome| outcome.summary.notes.push(note.clone()));
    }
    kept.hold(unwritten, logs, &mut outcomes);
    Ok(TestOutcome { outcomes, client, observers, servers })
}

/// Returns the reports of a test by the native definitions; empty if the figures are those of the
/// logs, as in runs with the scenarios of `LoadGen` and without tokens.
fn native_reports<'a>(log: &'a TestLog, options: &Options) -> Vec<Report<'a>> {
    let is_own = log.plan.measures_tokens() || log.plan.in_flight().is_some();
    if !is_own && options.profile() != Profile::Llm {
        return Vec::new();
    }
    // By either definition, an answer without a time per output token meets every bound on it.
    // By the native definition it would not count for early stopping, and a run of short answers
    // would never have enough queries.
    reports_by(log, Definitions::Native, Definitions::Reference)
}

/// Returns the result of a test in a few words: the headline of its first tenant, and the worst
/// verdict of all tenants.
fn result(tenants: &[summary::Test]) -> TestResult {
    let worst = tenants.iter().map(summary::Test::judged).fold(Verdict::Valid, Verdict::worse);
    let first = tenants.first();
    let headline = first.and_then(|test| test.result.as_ref()).map(summary::Headline::text);
    let accuracy = || first.and_then(|test| test.accuracy.as_ref()?.text());
    TestResult { text: headline.or_else(accuracy).unwrap_or_default(), verdict: worst }
}
