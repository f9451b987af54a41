//! A run: what a command line stands for, and what becomes of it. All commands
//! that measure go this way.

mod checked;
mod effective;
mod longer;
mod remarks;
mod seen;
mod tests;

pub use effective::effective_toml;

use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;

use dyno_loadgen::clock::{Clock, WallTime};
use dyno_loadgen::log::{Report, expected_bytes, reports, reports_by};
use dyno_loadgen::metrics::Definitions;
use dyno_loadgen::run::TestLog;
use dyno_loadgen::settings::{Origin, Scenario, TestMode};
use dyno_results::records::Keep;
use dyno_results::run_directory::{FinishedDirectory, RunDirectory};
use dyno_results::summary::{self, State, Verdict};
use dyno_results::{series, units, write};

use crate::effect::{self, Facts};
use crate::failure::Failure;
use crate::measure::PlayedTest;
use crate::options::{CommandLine, Options, Requirement};
use crate::outcome::{Context, Outcome, log_folder};
use crate::system::System;
use crate::system::net::Remote;
use crate::test::{Test, TestTenant};
use crate::watch::Watch;
use crate::watch::{Control, Interrupt, TestResult};
use crate::workers::RemoteWorkers;
use crate::{End, division, environment, requirement, throughput};
use longer::SizedTest;
pub use seen::observer;
use seen::{accelerator, reported, seen_by_client};

/// A system that is ready to be measured, and what is to be measured of it.
pub struct Prepared {
    /// What was said.
    pub options: Options,
    /// What is measured.
    pub system: System,
    /// What a probe sent, once there was one.
    probe: OnceLock<summary::Probe>,
}

/// Is shown each log before it is dropped.
pub type See<'a> = &'a mut dyn FnMut(&TestLog);

/// What a run left.
pub struct Measured {
    /// Its summary.
    pub summary: summary::Run,
    /// Where everything is.
    pub directory: FinishedDirectory,
}

impl Prepared {
    /// Reads every layer of configuration, warns of what is odd in them, and
    /// loads the system.
    ///
    /// # Errors
    /// What makes no sense, and what is missing.
    pub fn new(command_line: &CommandLine, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        Ok(Self::narrowed(command_line, watch, |_| Ok(()))?.0)
    }

    /// As [`Prepared::new`] of what `narrow` leaves of the options: a system loads what they ask for,
    /// and the answers that accuracy is measured by may take minutes.
    ///
    /// # Errors
    /// The same, and those of `narrow`.
    pub fn narrowed<T>(
        command_line: &CommandLine,
        watch: &Arc<dyn Watch>,
        narrow: impl FnOnce(&mut Options) -> Result<T, Failure>,
    ) -> Result<(Self, T), Failure> {
        let mut options = Options::read(command_line, variables())?;
        let found = narrow(&mut options)?;
        let prepared = Self::load(options, watch)?;
        prepared.warn(watch);
        Ok((prepared, found))
    }

    /// As [`Prepared::new`], without a word about what is odd.
    ///
    /// # Errors
    /// The same.
    pub fn silently(command_line: &CommandLine, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        Self::load(Options::read(command_line, variables())?, watch)
    }

    fn warn(&self, watch: &Arc<dyn Watch>) {
        for warning in &self.options.warnings {
            watch.say(&format!("warning: {warning}"));
        }
    }

    fn load(options: Options, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        division::check(&options.run)?;
        servers_of_tenants(&options)?;
        effect::check_system(&Facts::new(&options, None))?;
        let system = load_system(&options, watch)?;
        effect::check_system(&Facts::new(&options, Some(&system)))?;
        Ok(Self::of(options, system))
    }

    /// A system, and what is to be measured of it.
    pub fn of(options: Options, system: System) -> Self {
        Self { options, system, probe: OnceLock::new() }
    }

    /// The same with the system as new, never with both at once: one may fill the memory.
    /// A simulated one is as new in each run.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn renewed(self, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        if self.system.is_simulated() {
            return Ok(self);
        }
        let Self { options, system, probe } = self;
        drop(system);
        Ok(Self { system: load_system(&options, watch)?, options, probe })
    }

    /// All tests, in order; what nobody gave and a probe would decide has a
    /// place holder.
    ///
    /// # Errors
    /// Every setting that makes no sense, in any of them.
    pub fn tests(&self) -> Result<Vec<Test>, Failure> {
        tests::tests(&self.options, &self.system, None)
    }

    /// Whether a short probe decides a rate that nobody gave.
    pub fn is_probed(&self) -> bool {
        tests::needs_probe(&self.options, &self.system)
    }

    /// All tests, in order, with rates that a short probe decides where nobody
    /// gave them; `None` if the probe was interrupted.
    ///
    /// # Errors
    /// As [`Prepared::tests`], and if the system does not answer the probe.
    pub fn probed_tests(&self, control: Control<'_>) -> Result<Option<Vec<Test>>, Failure> {
        // Everything that does not depend on the probe is refused before it.
        self.tests()?;
        let probe = match self.is_probed() {
            true => throughput::samples_per_second(&self.system, &self.options, control)?,
            false => None,
        };
        let probed = probe.as_ref().map(|probe| probe.samples_per_s);
        if let (Some(probe), false) = (probe, self.system.is_simulated()) {
            // A later probe of the same run finds what the first one found.
            let _ = self.probe.set(probe);
        }
        if control.interrupt.is_some_and(Interrupt::is_asked) {
            return Ok(None);
        }
        tests::tests(&self.options, &self.system, probed).map(Some)
    }

    /// One performance test, with these settings on top of all that was said, and
    /// who says them.
    ///
    /// # Errors
    /// Every setting that makes no sense.
    ///
    /// # Panics
    /// If a setting does not exist or a value does not read.
    pub fn performance_test(
        &self,
        scenario: Scenario,
        on_top: &[(&str, String)],
        origin: &Origin,
    ) -> Result<Test, Failure> {
        tests::performance(&self.options, &self.system, scenario, (on_top, origin))
    }

    /// The directory of a run of these tests: `out`, or a new one below `runs`.
    ///
    /// # Errors
    /// If it cannot be written, or the disk has no room for the logs.
    pub fn directory(&self, tests: &[Test], out: Option<&Path>) -> Result<RunDirectory, Failure> {
        let trace_log = self.options.run.trace_log;
        let of = |tenant: &TestTenant| expected_bytes(&tenant.plan, trace_log);
        let log_bytes = tests.iter().flat_map(|test| &test.tenants).map(of).sum();
        Ok(RunDirectory::create(out, &self.name(), log_bytes, trace_log)?)
    }

    fn name(&self) -> String {
        let given = self.options.run.name.clone();
        given.unwrap_or_else(|| self.system.short_name().to_string())
    }

    /// Plays the tests and fills the directory.
    ///
    /// # Errors
    /// A system that cannot be started, results that can be written nowhere.
    pub fn measure(
        &self,
        tests: &[Test],
        control: Control<'_>,
        directory: RunDirectory,
    ) -> Result<Measured, Failure> {
        self.measure_and_see(tests, control, directory, &mut |_| {})
    }

    /// As [`Prepared::measure`]; `see` is shown each log before it is dropped.
    ///
    /// # Errors
    /// Likewise.
    pub fn measure_and_see(
        &self,
        tests: &[Test],
        control: Control<'_>,
        mut directory: RunDirectory,
        see: See<'_>,
    ) -> Result<Measured, Failure> {
        let begun = WallTime::now();
        let mut run = self.begin(begun);
        control.watch.plan(&format!("{}, profile {}", run.system, run.profile), tests);
        let mut plots = series::Run::new(Vec::new());
        for (number, test) in (1..).zip(tests) {
            let title = format!("{number}/{} {}", tests.len(), test.title());
            let before = run.tests.len();
            let keep = self.options.run.records;
            let limits = self.options.run.goodput;
            let has_round = self.options.rules.is_some();
            let requirements = &self.options.run.requirements;
            let mut kept = Kept {
                directory: &mut directory,
                keep,
                limits,
                has_round,
                requirements,
                see: &mut *see,
            };
            let played = play(self, test, control, &title, &mut kept)?;
            run.remarks.extend(played.observers.iter().filter_map(summary::Observer::remark));
            run.observers.extend(played.observers);
            if let Some(client) = played.client {
                run.remarks.push(client.remark());
                run.clients.push(client);
            }
            for outcome in played.outcomes {
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
            control.watch.result(result(&run.tests[before..]));
            // A signal that came when the test was over ends a run that is not.
            if number < tests.len() && control.interrupt.is_some_and(Interrupt::is_asked) {
                run.state = State::Interrupted;
            }
            if run.state != State::Complete || has_lost_worker(&self.system) {
                break;
            }
        }
        run.remarks.extend(self.system.remote_workers.iter().flat_map(RemoteWorkers::remarks));
        if !self.system.is_simulated() {
            let now = WallTime::now();
            run.finished_at = units::utc(now);
            run.duration_ns = now.unix_ns.saturating_sub(begun.unix_ns);
        }
        run.settle();
        run.division = Some(division::statement(&run, &self.options, &self.system));
        self.finish(run, &plots, directory, control.watch)
    }

    /// Plays a test of which nothing is kept. Returns its logs and the verdicts of its tenants, which
    /// only real time has: there the client and the machine may disturb it.
    ///
    /// # Errors
    /// A system that cannot be started.
    pub fn play_and_judge(
        &self,
        test: &Test,
        control: Control<'_>,
        title: &str,
    ) -> Result<(PlayedTest, Vec<summary::Test>), Failure> {
        let system = &self.system;
        let (clock, before) = (Clock::start(), system.remote().map(Remote::seen));
        let played = test.play(system, control, title)?;
        if system.is_simulated() {
            return Ok((played, Vec::new()));
        }
        let took = clock.now();
        let troubles = seen::troubles(system, before.as_ref());
        let has_round = self.options.rules.is_some();
        let context = Context { troubles: &troubles, has_round };
        let of = |(log, tenant): (&TestLog, &TestTenant)| {
            let kept = (tenant.name.as_deref(), Keep::Nothing);
            Outcome::of(log, &reports(log), test, system, kept, context)
        };
        let logs = &played.logs;
        let mut outcomes: Vec<Outcome> = logs.iter().zip(&test.tenants).map(of).collect();
        if let Some(before) = &before {
            seen_by_client(system, (before, took), logs, &mut outcomes);
        }
        seen::observers(system, played.observation.clone(), logs, &mut outcomes);
        Ok((played, outcomes.into_iter().map(|outcome| outcome.summary).collect()))
    }

    /// What of the rules is measured for.
    pub fn rules(&self) -> Option<summary::Rules> {
        self.options.rules.as_ref().map(|rules| summary::Rules {
            round: rules.round.version.to_string(),
            benchmark: rules.benchmark.name.clone(),
            interactive: rules.is_interactive,
        })
    }

    /// What a probe sent, if the system is a server.
    pub fn probe_remark(&self) -> Option<String> {
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
            started_at: match system.is_simulated() {
                true => String::new(),
                false => units::utc(begun),
            },
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
            environment: environment::describe(),
        }
    }

    fn finish(
        &self,
        summary: summary::Run,
        series: &series::Run,
        directory: RunDirectory,
        watch: &Arc<dyn Watch>,
    ) -> Result<Measured, Failure> {
        let directory = directory.finish(&[
            (summary::FILE, write::pretty(&summary)),
            (series::FILE, compact(series)),
            ("report.html", dyno_report::html(&summary, series, self.options.run.records)),
            (dyno_results::effective::FILE, effective_toml(&summary, &self.options)),
        ])?;
        warn(watch, &directory.warnings);
        Ok(Measured { summary, directory })
    }
}

fn warn(watch: &Arc<dyn Watch>, warnings: &[String]) {
    for warning in warnings {
        watch.say(&format!("warning: {warning}"));
    }
}

/// The system that the options name.
fn load_system(options: &Options, watch: &Arc<dyn Watch>) -> Result<System, Failure> {
    let mut system = System::load(&options.run, watch)?;
    if let Some(workers) = &mut system.remote_workers {
        // A search tries loads at which a system may fail.
        let tries_loads = options.modes().contains(&TestMode::FindPeakPerformance);
        workers.fail_fast(options.fails_fast() && !tries_loads);
    }
    Ok(system)
}

/// Whether a worker is gone, so that no further test can be played.
fn has_lost_worker(system: &System) -> bool {
    system.remote_workers.as_ref().is_some_and(RemoteWorkers::has_lost_worker)
}

/// The environment. Values that are no text name no setting.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The arguments that make the run again; where its results went is no part of it.
pub fn command() -> Vec<String> {
    let mut kept = Vec::new();
    // What is no text, such as the odd name of a file, is told as well as may be.
    let mut arguments = std::env::args_os().skip(1).map(|of| of.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        if argument == "--out" {
            arguments.next();
        } else if !argument.starts_with("--out=") {
            kept.push(argument);
        }
    }
    kept
}

fn compact(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("keys are texts") + "\n"
}

impl Measured {
    /// The failures that ended it before its time.
    pub fn failing(&self) -> Option<&summary::Failing> {
        self.summary.tests.iter().find_map(|test| test.failing.as_ref())
    }

    /// How a command that only made this run ends.
    pub fn end(&self) -> End {
        match self.summary.state {
            State::Interrupted => End::Interrupted,
            State::Aborted => End::Aborted,
            State::Complete if self.summary.is_valid() => End::Valid,
            State::Complete => End::Invalid,
        }
    }
}

/// Where what is kept of a test goes.
struct Kept<'a> {
    directory: &'a mut RunDirectory,
    keep: Keep,
    limits: Option<summary::Limits>,
    has_round: bool,
    requirements: &'a [Requirement],
    see: &'a mut dyn FnMut(&TestLog),
}

/// What came of a test.
struct Played {
    /// One entry a tenant.
    outcomes: Vec<Outcome>,
    /// Of a server.
    client: Option<summary::Client>,
    /// In real time.
    observers: Vec<summary::Observer>,
}

/// What only a performance test of one process has: a server for each tenant.
fn servers_of_tenants(options: &Options) -> Result<(), Failure> {
    let Some(at) = options.run.tenant_systems.iter().position(Option::is_some) else {
        return Ok(());
    };
    let name = &options.tenants[at].name;
    if options.modes().iter().any(|mode| *mode != TestMode::PerformanceOnly) {
        let problem =
            format!("tenant {name} has a system of its own, whose answers are not scored");
        return Err(Failure::usage(problem).hint("add --mode performance"));
    }
    if options.run.remote_workers.is_some() {
        let problem =
            format!("tenant {name} has a system of its own, and workers share one system");
        return Err(Failure::usage(problem).hint("leave out --remote-workers"));
    }
    Ok(())
}

/// Plays one test and writes its logs and raw records.
fn play(
    prepared: &Prepared,
    test: &Test,
    control: Control<'_>,
    title: &str,
    kept: &mut Kept<'_>,
) -> Result<Played, Failure> {
    let system = &prepared.system;
    // A probe, or the test before, is none of this one's business.
    let _ = system.batch_sizes.take();
    let (clock, before) = (Clock::start(), system.remote().map(Remote::seen));
    control.writes(false);
    let SizedTest { test, played, notes } = longer::play(prepared, test, control, title)?;
    let PlayedTest { logs, failing, observation } = played;
    control.writes(true);
    let took = clock.now();
    let batch_sizes = system.batch_sizes.take();
    let troubles = seen::troubles(system, before.as_ref());
    let context = Context { troubles: &troubles, has_round: kept.has_round };
    let mut outcomes = Vec::new();
    for (log, tenant) in logs.iter().zip(&test.tenants) {
        (kept.see)(log);
        let judged = reports(log);
        let native = native_reports(log);
        let shown = if native.is_empty() { &judged } else { &native };
        let name = tenant.name.as_deref();
        let mut outcome = Outcome::of(log, shown, &test, system, (name, kept.keep), context);
        if let Some(series) = &mut outcome.series {
            series.batch_sizes.clone_from(&batch_sizes);
        }
        if let (Some(limits), Some(metrics)) = (kept.limits, &mut outcome.summary.metrics)
            && let Some(run) = log.runs().last()
        {
            add_goodput(metrics, limits.goodput(&run.record, metrics.lasted_ns));
        }
        if let Some(failing) = &failing {
            outcome.summary.end_failing(failing);
        }
        outcome.summary.notes.extend(notes.iter().cloned());
        if let (TestMode::PerformanceOnly, Some(run)) = (test.mode, log.runs().last()) {
            let own = |of: &&Requirement| of.is_for(test.scenario);
            let own: Vec<&Requirement> = kept.requirements.iter().filter(own).collect();
            requirement::judge(&mut outcome.summary, &own, &run.record);
        }
        let folder = log_folder(&test, name);
        kept.directory.write_test(&folder, log, &judged, outcome.records.as_ref())?;
        warn(control.watch, &kept.directory.take_warnings());
        // As a submission keeps them, which has a folder for each.
        for (number, run) in (1..).zip(log.repeated()) {
            let folder = format!("{folder}/run_{number}");
            kept.directory.write_test(&folder, &run, &reports(&run), None)?;
            warn(control.watch, &kept.directory.take_warnings());
        }
        outcomes.push(outcome);
    }
    summary::settle_tenants(outcomes.iter_mut().map(|outcome| &mut outcome.summary));
    let client = before
        .as_ref()
        .and_then(|before| seen_by_client(system, (before, took), &logs, &mut outcomes));
    let observers = seen::observers(system, observation, &logs, &mut outcomes);
    if let Some(reported) = reported(system) {
        outcomes.iter_mut().for_each(|outcome| reported.judge(&mut outcome.summary));
    }
    Ok(Played { outcomes, client, observers })
}

/// Returns the reports of a test by the native definitions; none where they do not differ from the
/// reference's, which is in tokens alone.
fn native_reports(log: &TestLog) -> Vec<Report<'_>> {
    match log.plan.measures_tokens() {
        // An answer without a time per output token meets every bound on it by either definition.
        // By the native one it would not count for early stopping: a run of short answers would
        // never have enough queries.
        true => reports_by(log, Definitions::Native, Definitions::Reference),
        false => Vec::new(),
    }
}

/// Adds the goodput within the limits that were named. A run has one goodput: it replaces that
/// within the bounds.
fn add_goodput(metrics: &mut summary::Metrics, goodput: summary::metrics::Goodput) {
    if metrics.rates.goodput_samples_per_s.is_some() {
        metrics.rates.goodput_samples_per_s = goodput.samples_per_s;
    }
    metrics.goodput = Some(goodput);
}

/// What came of a test, in a few words: of its first tenant, and whether that of
/// all counts.
fn result(tenants: &[summary::Test]) -> TestResult {
    let worst = tenants.iter().map(summary::Test::judged).fold(Verdict::Valid, Verdict::worse);
    let first = tenants.first();
    let headline = first.and_then(|test| test.result.as_ref()).map(summary::Headline::text);
    let accuracy = || first.and_then(|test| test.accuracy.as_ref()?.text());
    TestResult { text: headline.or_else(accuracy).unwrap_or_default(), verdict: worst }
}
