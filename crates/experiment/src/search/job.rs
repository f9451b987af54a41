//! Execution of a search: plays its runs and writes its state after each.

mod broken;
mod full;
mod observed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, WallTime};
use dyno_loadgen::record::Record;
use dyno_loadgen::run::TestLog;
use dyno_loadgen::search::{
    Block, Limit, Observation, Probe, Purpose, Quantity, Rules, Search, Step,
};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Origin, Repetition, Setting, TestMode};
use dyno_results::search::{
    ConfirmedLoad, Definition, DisturbedRun, Load, Phase, Point, State, UnfinishedRun,
};
use dyno_results::summary::{self, Cause};
use dyno_results::units;

use self::observed::is_of_client;
use super::disturbed::{self, Disturbance, Patience};
use super::line;
use super::request::{self, FirstLoad, SearchRequest};
use crate::watch::Watch;

use crate::effect::{self, Facts, Strictness};
use crate::environment;
use crate::failure::Failure;
use crate::lock::FolderLock;
use crate::measure::PlayedTest;
use crate::options::{CommandLine, Options};
use crate::run::PreparedRun;
use crate::system::net::Remote;
use crate::test::PlannedTest;
use crate::watch::{Control, Interrupt};

/// A search that is prepared or running.
pub struct Job {
    prepared: PreparedRun,
    /// Load that is raised.
    pub load: Load,
    /// All limits, of the system and of the client.
    pub limits: Vec<Limit>,
    search: Search,
    /// State that is written after each run.
    pub state: State,
    /// Whether the first load is known; otherwise it is 1.
    pub is_from_known: bool,
    /// Time since the start.
    clock: Clock,
    /// End of the last run, ns.
    over_at: Nanos,
    patience: Patience,
    directory: PathBuf,
    /// Why the last state is not in the directory.
    not_written: Option<Failure>,
    /// Why the first full run that is not in the directory is not there. The state before it stays there.
    not_stored: Option<Failure>,
    /// Lock of the directory of a new search.
    lock: Option<FolderLock>,
}

/// Reads the options, and loads the system for the scenario and mode of the search.
///
/// # Errors
/// Invalid options, or missing files and services.
pub fn prepare(
    command_line: &CommandLine,
    ask: &SearchRequest,
    watch: &Arc<dyn Watch>,
) -> Result<(PreparedRun, Load), Failure> {
    let narrow = |options: &mut Options| {
        let load = request::narrow(options, ask)?;
        effect::check(&Facts::new(options, None), Strictness::Flags)?;
        Ok(load)
    };
    PreparedRun::narrowed(command_line, watch, narrow)
}

/// Origin of the settings of a search.
const ORIGIN: Origin = Origin::Code("dyno search");

impl Job {
    /// Prepares a search. Without a first load, a short probe of the system finds one, unless
    /// `control` is `None`; then it is 1. Returns `None` if the probe was interrupted.
    ///
    /// # Errors
    /// Invalid settings, missing files and services, or a system that does not answer.
    pub fn new(
        (mut prepared, load): (PreparedRun, Load),
        ask: &SearchRequest,
        control: Option<Control<'_>>,
    ) -> Result<Option<Self>, Failure> {
        let mut limits = request::read_limits(&prepared, ask, load)?;
        // Without a limit on errors, a full run is judged as `dyno run` would judge it.
        if limits.iter().any(|limit| limit.quantity == Quantity::Errors) {
            prepared.options.limit_failures();
        }
        let Some(first) = request::first_load(&prepared, ask, load, control)? else {
            return Ok(None);
        };
        let (from, is_from_known) = match first {
            FirstLoad::At(from) => (from, true),
            FirstLoad::LeftToProbe => (1.0, false),
        };
        let mut on_top = load.bounds(&limits);
        on_top.push(load.setting(from));
        on_top.extend(request::repetition(&prepared, load));
        on_top.extend(request::least_queries(&prepared, load, &limits));
        let base = prepared.performance_test(load.scenario(), &on_top, &ORIGIN)?;
        let plan = &base.tenants[0].plan;
        limits.extend(request::lag_limit(&prepared, &limits, load, plan));
        let mut departing = load.bounds(&limits);
        departing.push(load.setting(from));
        prepared.options.depart(load.scenario(), &departing, &ORIGIN);
        let rules = request::rules(&prepared, ask, load, from, &limits, plan);
        let definition = request::definition(&prepared, load, &rules, &limits, &base);
        let state = begin(&prepared, definition);
        let search = Search::new(rules);
        let (clock, over_at, directory) = (Clock::start(), 0, PathBuf::new());
        Ok(Some(Self {
            prepared,
            load,
            limits,
            search,
            state,
            is_from_known,
            clock,
            over_at,
            patience: Patience::new(ask.repeats),
            directory,
            not_written: None,
            not_stored: None,
            lock: None,
        }))
    }

    /// Returns the rules of the search.
    pub fn rules(&self) -> &Rules {
        self.search.rules()
    }

    /// Returns the minimum duration of a confirmation at a load, ns.
    pub fn confirmation_at(&self, load: f64) -> Nanos {
        self.search.confirmation_at(load)
    }

    /// Returns the minimum duration of a run near the peak, ns, if the peak is at this load.
    pub fn refining_at(&self, load: f64) -> Nanos {
        self.search.refining_at(load)[0]
    }

    /// Returns whether runs are in virtual time.
    pub fn is_virtual(&self) -> bool {
        self.prepared.system.is_simulated()
    }

    /// Returns the directory of the search.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns a warning if the directory of a new search was moved or removed.
    pub fn moved_warning(&self) -> Option<String> {
        self.lock.as_ref()?.moved_warning(&self.directory)
    }

    /// Creates the directory of a new search.
    ///
    /// # Errors
    /// It already exists, or cannot be created.
    pub fn create(&mut self) -> Result<(), Failure> {
        let name = format!("search-{}", self.prepared.system.short_name());
        let out = self.prepared.options.run.out.as_deref();
        let (directory, lock) = FolderLock::new_folder(out, &name, "search")?;
        (self.directory, self.lock) = (directory, Some(lock));
        self.write()
    }

    /// Resumes the search of a directory, which the caller has locked.
    ///
    /// # Errors
    /// The search is a different one; the error names the difference.
    pub fn resume(&mut self, before: State, directory: &Path) -> Result<(), Failure> {
        // Time limit and tolerance of a search may change.
        let mut definition = self.state.definition.clone();
        definition.tolerance = before.definition.tolerance;
        definition.max_time_ns = before.definition.max_time_ns;
        definition.confirmations = before.definition.confirmations;
        if let Some(difference) = before.definition.difference(&definition) {
            let problem = format!("{} has a different search: {difference}", directory.display());
            return Err(Failure::usage(problem)
                .hint("pass only --resume to continue it, or --out to start a new search"));
        }
        for point in &before.points {
            let mut observation = point.observation().map_err(|problem| {
                Failure::set_up(format!(
                    "{}: {problem}",
                    directory.join(dyno_results::search::FILE).display()
                ))
            })?;
            if observation.blocks.len() != self.limits.len() {
                let problem = format!("point {} has different limits", point.number);
                return Err(Failure::set_up(problem));
            }
            let mut limits = self.limits.iter();
            let is_kept = |limit: Option<&Limit>| limit.is_some_and(|l| !is_of_client(l));
            observation.blocks.retain(|_| is_kept(limits.next()));
            self.search.observe(observation);
        }
        before.unfinished.iter().for_each(|run| self.search.lose(run.took_ns));
        before.disturbed.iter().for_each(|run| self.search.lose(run.took_ns));
        let State { definition, rules, remarks, .. } = self.state.clone();
        self.state = State { definition, rules, remarks, ..before };
        self.directory = directory.to_path_buf();
        Ok(())
    }

    /// Plays all runs. Returns how the search ended.
    ///
    /// # Errors
    /// The system cannot be started. A state that cannot be written is no error here, see
    /// [`Job::not_written`].
    pub fn play(&mut self, control: Control<'_>, is_quiet: bool) -> Result<Phase, Failure> {
        self.state.state = Phase::Running;
        (self.clock, self.over_at) = (Clock::start(), 0);
        loop {
            let probe = match self.search.next() {
                Step::Run(probe) => probe,
                Step::Done(outcome) => {
                    self.check_end(outcome.end)?;
                    if outcome.peak.is_none() {
                        self.state.peak = None;
                    }
                    return self.end(outcome.end.into());
                }
            };
            let is_asked = || control.interrupt.is_some_and(Interrupt::is_asked);
            let left = self.search.left();
            let made = match probe.purpose {
                // The interrupt came after the end of the last run, whose result is kept.
                _ if is_asked() => Attempt::Ended { took: 0 },
                Purpose::Confirm { .. } => self.confirm(&probe, control)?,
                Purpose::Bracket | Purpose::Refine => self.short(&probe, control)?,
            };
            control.watch.clear();
            let said = match made {
                Attempt::Report(report) if report.disturbance.is_none() => {
                    self.patience.renew();
                    self.tell(*report)?
                }
                Attempt::Report(report) => match self.disturbed(&probe, *report)? {
                    Some(said) => said,
                    None => return self.end(Phase::ClientLimited),
                },
                Attempt::Silent { missing } => return Err(self.silent(&probe, missing)),
                Attempt::Failing(failing) => return Err(self.failing(&probe, &failing)),
                Attempt::Ended { took } if took < left && is_asked() => {
                    return self.end(Phase::Interrupted);
                }
                Attempt::Ended { took } => self.lose(&probe, took.max(left))?,
            };
            if !is_quiet {
                control.watch.step(&said);
            }
        }
    }

    fn end(&mut self, phase: Phase) -> Result<Phase, Failure> {
        self.state.state = phase;
        if matches!(phase, Phase::ClientLimited | Phase::Unclear) {
            // The peak would be a limit of the client, or what chance made of short runs.
            (self.state.peak, self.state.confirmed) = (None, None);
        }
        self.keep();
        Ok(phase)
    }

    /// Records a disturbed run. Returns a line for the user; `None` if its repeats are exhausted.
    /// If the system misses its limits even without the client's lag, the run counts as missed.
    fn disturbed(
        &mut self,
        probe: &Probe,
        mut report: RunReport,
    ) -> Result<Option<String>, Failure> {
        let Some(Disturbance { reason, is_lag_alone }) = report.disturbance.take() else {
            return self.tell(report).map(Some);
        };
        let repeat = self.patience.repeat();
        let alone = Observation {
            blocks: std::mem::take(&mut report.without_lag),
            overloaded: false,
            passed: false,
            ..report.observation
        };
        if repeat.is_none() && is_lag_alone && !self.search.keeps_all(&alone) {
            self.patience.renew();
            self.count_alone(&mut report.point, &alone);
            report.observation = alone;
            report.reasons.push(format!("    the client was also late: {reason}"));
            return self.tell(report).map(Some);
        }
        let took = report.observation.took;
        self.over_at += took;
        self.search.lose(took);
        let (purpose, load) = (probe.purpose.into(), probe.load);
        let text = reason.clone();
        let run = DisturbedRun { purpose, load, took_ns: took, cause: Cause::Client, reason: text };
        self.state.disturbed.push(run);
        self.keep();
        Ok(repeat.map(|repeat| {
            let (at, most) = (self.load.show(load), self.patience.most);
            format!("    the run at {at} does not count: {reason}; repeat {repeat} of {most}")
        }))
    }

    /// Returns advice for searches that the client limits.
    pub fn advice(&self) -> &'static str {
        disturbed::advice(self.prepared.system.remote().is_some())
    }

    /// Records the result of a run before it is shown. Returns the line to show.
    fn tell(&mut self, report: RunReport) -> Result<String, Failure> {
        self.check_measured(&report)?;
        let RunReport { observation, point, reasons, .. } = report;
        self.over_at += observation.took;
        self.search.observe(observation);
        self.state.peak = self.search.peak().map(|peak| self.peak(peak));
        if let (true, Some(folder)) = (point.passed, &point.folder) {
            self.state.confirmed = Some(ConfirmedLoad { load: point.load, folder: folder.clone() });
        }
        let mut lines = reasons;
        lines.push(line::line(&point, self.load, self.state.peak.as_ref()));
        self.state.points.push(point);
        self.keep();
        Ok(lines.join("\n"))
    }

    /// Records a run that the time limit ended, which has no result. Returns a line for the user.
    fn lose(&mut self, probe: &Probe, took: Nanos) -> Result<String, Failure> {
        // In virtual time the run could have ended exactly at the limit.
        let took = if self.is_virtual() { self.search.left() } else { took };
        self.over_at += took;
        self.search.lose(took);
        let (purpose, load) = (probe.purpose.into(), probe.load);
        self.state.unfinished.push(UnfinishedRun { purpose, load, took_ns: took });
        self.keep();
        Ok(format!("    out of time: the run at {} does not count", self.load.show(load)))
    }

    /// Writes the state. If that fails, the search goes on in memory, and the next call tries again.
    fn keep(&mut self) {
        if self.not_stored.is_none() {
            self.not_written = self.write().err();
        }
    }

    fn write(&self) -> Result<(), Failure> {
        self.state.write(&self.directory).map_err(|error| {
            let is_moved = self.moved_warning().is_some();
            let next = if is_moved || self.directory.join(dyno_results::search::FILE).is_file() {
                format!("continue: dyno search --resume {}", self.directory.display())
            } else {
                "search again".to_owned()
            };
            Failure::unwritable_folder(&self.directory, &error, &next)
        })
    }

    /// Returns why the last state, or a full run, is not in the directory.
    pub fn not_written(&mut self) -> Option<Failure> {
        self.not_stored.take().or(self.not_written.take())
    }

    fn silent(&mut self, probe: &Probe, missing: u64) -> Failure {
        self.state.state = Phase::Aborted;
        self.keep();
        Failure::aborted(format!(
            "the system stopped answering at {}: {} outstanding, and no answer arrived within the \
             deadline",
            self.load.show(probe.load),
            units::counted(missing, "sample was", "samples were")
        ))
        .hint(format!(
            "check the system, then continue: dyno search --resume {}",
            self.directory.display()
        ))
    }

    fn failing(&mut self, probe: &Probe, failing: &summary::Failing) -> Failure {
        self.state.state = Phase::Aborted;
        self.keep();
        let load = self.load.show(probe.load);
        Failure::aborted(format!("at {load} {}", failing.sentence())).hint(format!(
            "check the system and its requests, then continue: dyno search --resume {}",
            self.directory.display()
        ))
    }

    /// Plays a short run, which does not confirm the peak.
    fn short(&mut self, probe: &Probe, control: Control<'_>) -> Result<Attempt, Failure> {
        let test = self.short_test(probe)?;
        self.prepared.system.repeat(probe.number + 1);
        let title = format!("{} at {}", probe.number + 1, self.load.show(probe.load));
        let control = Control { most: Some(self.left()), ..control };
        let before = self.prepared.system.remote().map(Remote::seen);
        let played = self.prepared.play_and_judge(&test, control, &title);
        self.prepared.system.repeat(0);
        let (PlayedTest { mut logs, failing, saturated, .. }, judged) = played?;
        let log = logs.swap_remove(0);
        let run = log.runs().last().ok_or_else(|| Failure::set_up("a run left no record"))?;
        let took = self.took(&log);
        let is_failing = failing.is_some();
        let is_too_high = || self.is_too_high(probe.load, &run.record, before.as_ref());
        if let Some(failing) = failing.filter(|_| !is_too_high()) {
            self.forget_misses();
            return Ok(Attempt::Failing(failing));
        }
        if let Some(failing) = self.lost(before.as_ref(), failures(&run.record)) {
            return Ok(Attempt::Failing(failing));
        }
        let is_ended = is_failing || saturated.is_some();
        if let Some(made) = self.without_result(&log, took).filter(|_| !is_ended) {
            return Ok(made);
        }
        let is_early = is_ended
            || matches!(
                run.ended,
                EndReason::TooManyOutstanding { .. } | EndReason::MaxDuration { .. }
            );
        let mut observation = self.observe(probe, &[run], took);
        observation.overloaded = is_early && self.load == Load::Qps;
        // A short run may keep a wide limit while queries pile up, which a longer run misses.
        let keeps_limits = !is_ended && test.has_one_rate() && self.search.keeps_all(&observation);
        let growth = if keeps_limits { self.growth(probe, &run.record) } else { None };
        observation.overloaded |= growth.is_some();
        observation.passed = !is_ended && self.search.keeps_all(&observation);
        let mut report = self.report(probe, observation, (&[run], run), None);
        report.reasons.extend(growth.map(|growth| format!("    {growth}")));
        if !is_failing {
            report.disturb(&judged);
        }
        Ok(Attempt::Report(Box::new(report)))
    }

    /// Returns how long the runs of a test took in all, ns; in real time the time since the end of
    /// the previous run.
    fn took(&self, log: &TestLog) -> Nanos {
        let from = log.runs().next().map_or(0, |run| run.started_at);
        let until = log.runs().last().map_or(0, |run| run.finished_at);
        if self.is_virtual() { until - from } else { self.clock.now().saturating_sub(self.over_at) }
    }

    /// Returns how long a run may take that begins now, ns.
    fn left(&self) -> Nanos {
        let passed =
            if self.is_virtual() { 0 } else { self.clock.now().saturating_sub(self.over_at) };
        self.search.left().saturating_sub(passed)
    }

    /// Returns the outcome of a run without a result; `None` if it has one.
    fn without_result(&self, log: &TestLog, took: Nanos) -> Option<Attempt> {
        match log.runs().last()?.ended {
            EndReason::Deadline { missing } => Some(Attempt::Silent { missing }),
            _ if !log.complete || took > self.search.left() => Some(Attempt::Ended { took }),
            _ => None,
        }
    }

    fn short_test(&self, probe: &Probe) -> Result<PlannedTest, Failure> {
        let ms = probe.duration.div_ceil(MILLISECOND);
        let scenario = self.load.scenario();
        let said = self.prepared.options.settings(scenario, TestMode::PerformanceOnly, None).values;
        let seeded = |seed: u64| seed.wrapping_add(probe.number + 1).to_string();
        // A rate determines the number of queries; other loads only determine how many are in
        // flight.
        let most_queries = match self.load {
            Load::Qps => 0,
            Load::Concurrency => self.rules().most_queries,
            Load::Samples => (self.rules().most_queries / probe.load as u64).max(1),
        };
        let mut on_top = self.load.bounds(&self.limits);
        on_top.extend([
            self.load.setting(probe.load),
            ("min_duration_ms", ms.to_string()),
            ("min_query_count", "1".into()),
            ("max_query_count", most_queries.to_string()),
            ("early_stopping", "after-run".into()),
            ("repetition", Repetition::Once.show()),
            ("sample_index_rng_seed", seeded(said.sample_index_rng_seed)),
            ("schedule_rng_seed", seeded(said.schedule_rng_seed)),
        ]);
        if self.load == Load::Qps {
            // A blocked client falls behind its schedule indefinitely.
            on_top.push(("max_duration_ms", (2 * ms).to_string()));
            let most = self.search.most_outstanding(probe);
            on_top.push(("server_max_async_queries", most.to_string()));
        }
        let test = self.prepared.performance_test(scenario, &on_top, &ORIGIN)?;
        Ok(PlannedTest { reads_metrics: false, ..test })
    }
}

/// Returns how many samples of a run failed, and how many were answered, failed ones included.
fn failures(record: &Record) -> (u64, u64) {
    (record.failed.len() as u64, (record.completed_at.len() - record.missing()) as u64)
}

/// Outcome of a run.
enum Attempt {
    Report(Box<RunReport>),
    /// The system stopped answering.
    Silent {
        missing: u64,
    },
    /// The system failed most answers at a load that is not too high, or can no longer be reached.
    Failing(summary::Failing),
    /// The run was ended by Ctrl-C or by the time limit.
    Ended {
        took: Nanos,
    },
}

/// Result of a run.
struct RunReport {
    observation: Observation,
    point: Point,
    /// Why a confirmation is not valid, or a short run is overloaded.
    reasons: Vec<String>,
    /// Counts of the system's limits without the client's lag.
    without_lag: Vec<Vec<Block>>,
    /// Why the run shows nothing about the system.
    disturbance: Option<Disturbance>,
}

impl RunReport {
    /// Adds a disturbance that the verdicts of a run's tests name.
    fn disturb(&mut self, tests: &[summary::Test]) {
        let Some(by_test) = tests.iter().find_map(Disturbance::by_test) else { return };
        self.disturbance = Some(match self.disturbance.take() {
            Some(by_lag) => by_lag.and(&by_test),
            None => by_test,
        });
    }
}

fn begin(prepared: &PreparedRun, definition: Definition) -> State {
    State {
        schema: dyno_results::search::SCHEMA.into(),
        schema_version: dyno_results::search::SCHEMA_VERSION,
        state: Phase::Running,
        official: false,
        disclaimer: summary::DISCLAIMER.into(),
        started_at: if prepared.system.is_simulated() {
            String::new()
        } else {
            units::utc(WallTime::now())
        },
        command: crate::run::command(),
        dyno_version: environment::describe().dyno_version,
        definition,
        rules: prepared.rules(),
        remarks: prepared
            .options
            .rules_remarks()
            .into_iter()
            .chain(prepared.probe_remark())
            .collect(),
        peak: None,
        confirmed: None,
        points: Vec::new(),
        unfinished: Vec::new(),
        disturbed: Vec::new(),
    }
}
