//! The work of a search: its runs are played, and its state is kept after each.

mod observed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, WallTime};
use dyno_loadgen::run::{RunLog, TestLog};
use dyno_loadgen::search::{Block, Limit, Observation, Probe, Purpose, Rules, Search, Step};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Origin, Repetition, Setting, TestMode};
use dyno_results::run_directory::{free_folder, make_way};
use dyno_results::search::{
    Confirmed, Definition, Disturbed, Load, Phase, Point, State, Unfinished,
};
use dyno_results::{summary, units};

use self::observed::is_of_client;
use super::asked::{self, Ask, First};
use super::disturbed::{self, Disturbance, Patience};
use super::line;
use crate::watch::Watch;

use crate::effect::{self, Facts, Strictness};
use crate::environment;
use crate::failure::Failure;
use crate::measure::PlayedTest;
use crate::options::{CommandLine, Options};
use crate::run::Prepared;
use crate::test::Test;
use crate::watch::{Control, Interrupt};

/// A search that is prepared or on.
pub struct Job {
    prepared: Prepared,
    /// What is raised.
    pub load: Load,
    /// All of them.
    pub limits: Vec<Limit>,
    search: Search,
    /// What is kept of it.
    pub state: State,
    /// Whether the first load is known; if not, 1 stands for it.
    pub is_from_known: bool,
    /// Since it is on.
    clock: Clock,
    /// When the last run was over.
    over_at: Nanos,
    patience: Patience,
    directory: PathBuf,
}

/// Reads what is asked for, and loads the system for the one scenario and mode of it.
///
/// # Errors
/// What makes no sense, and what is missing.
pub fn prepare(
    command_line: &CommandLine,
    ask: &Ask,
    watch: &Arc<dyn Watch>,
) -> Result<(Prepared, Load), Failure> {
    let narrow = |options: &mut Options| {
        let load = asked::narrow(options, ask)?;
        effect::check(&Facts::new(options, None), Strictness::Flags)?;
        Ok(load)
    };
    Prepared::narrowed(command_line, watch, narrow)
}

/// Named in settings that it makes.
const ORIGIN: Origin = Origin::Code("dyno search");

impl Job {
    /// Without a first load, a short probe of the system finds one, unless `control`
    /// is `None`; then 1 stands for it. `None` if the probe was interrupted.
    ///
    /// # Errors
    /// What makes no sense, what is missing, a system that does not answer.
    pub fn new(
        (mut prepared, load): (Prepared, Load),
        ask: &Ask,
        control: Option<Control<'_>>,
    ) -> Result<Option<Self>, Failure> {
        let mut limits = asked::read_limits(&prepared, ask, load)?;
        let Some(first) = asked::first_load(&prepared, ask, load, control)? else {
            return Ok(None);
        };
        let (from, is_from_known) = match first {
            First::At(from) => (from, true),
            First::LeftToProbe => (1.0, false),
        };
        let mut on_top = load.bounds(&limits);
        on_top.push(load.setting(from));
        on_top.extend(asked::repetition(&prepared, load));
        let base = prepared.performance_test(load.scenario(), &on_top, &ORIGIN)?;
        let plan = &base.tenants[0].plan;
        limits.extend(asked::lag_limit(&prepared, &limits, load, plan));
        let mut departing = load.bounds(&limits);
        departing.push(load.setting(from));
        prepared.options.depart(load.scenario(), &departing, &ORIGIN);
        let rules = asked::rules(&prepared, ask, load, (from, &limits), plan);
        let definition = asked::definition(&prepared, load, (&rules, &limits), &base);
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
        }))
    }

    /// What is searched.
    pub fn rules(&self) -> &Rules {
        self.search.rules()
    }

    /// How long a confirmation takes at least at a load, ns.
    pub fn confirmation_at(&self, load: f64) -> Nanos {
        self.search.confirmation_at(load)
    }

    /// Whether it is played in virtual time.
    pub fn is_virtual(&self) -> bool {
        self.prepared.system.is_simulated()
    }

    /// Where its state is kept.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directory of a new search.
    ///
    /// # Errors
    /// If it is there already, or cannot be made.
    pub fn create(&mut self) -> Result<(), Failure> {
        let name = format!("search-{}", self.prepared.system.short_name());
        let out = self.prepared.options.run.out.clone();
        self.directory = free_folder(out.as_deref(), &name).map_err(|error| {
            Failure::from(error)
                .hint("go on with the search in a folder that has one: --resume DIR")
        })?;
        self.keep()
    }

    /// Goes on with the search of a directory.
    ///
    /// # Errors
    /// If it is another search, naming the difference.
    pub fn resume(&mut self, before: State, directory: &Path) -> Result<(), Failure> {
        // How long and how exact may change; it is the same search.
        let mut definition = self.state.definition.clone();
        definition.tolerance = before.definition.tolerance;
        definition.max_time_ns = before.definition.max_time_ns;
        definition.confirmations = before.definition.confirmations;
        if let Some(difference) = before.definition.difference(&definition) {
            let problem = format!("{} holds another search: {difference}", directory.display());
            return Err(Failure::usage(problem)
                .hint("give --resume alone to go on with it, or --out to begin anew"));
        }
        for point in &before.points {
            let mut told = point.observation().map_err(|problem| {
                Failure::set_up(format!(
                    "{}: {problem}",
                    directory.join(dyno_results::search::FILE).display()
                ))
            })?;
            if told.blocks.len() != self.limits.len() {
                let problem = format!("point {} has other limits", point.number);
                return Err(Failure::set_up(problem));
            }
            let mut limits = self.limits.iter();
            let is_kept = |limit: Option<&Limit>| limit.is_some_and(|l| !is_of_client(l));
            told.blocks.retain(|_| is_kept(limits.next()));
            self.search.observe(told);
        }
        before.unfinished.iter().for_each(|run| self.search.lose(run.took_ns));
        before.disturbed.iter().for_each(|run| self.search.lose(run.took_ns));
        let State { definition, rules, remarks, .. } = self.state.clone();
        self.state = State { definition, rules, remarks, ..before };
        self.directory = directory.to_path_buf();
        Ok(())
    }

    /// Plays all runs. Returns how it ended.
    ///
    /// # Errors
    /// A system that cannot be started, a state that cannot be written.
    pub fn play(&mut self, control: Control<'_>, is_quiet: bool) -> Result<Phase, Failure> {
        self.state.state = Phase::Running;
        (self.clock, self.over_at) = (Clock::start(), 0);
        loop {
            let probe = match self.search.next() {
                Step::Run(probe) => probe,
                Step::Done(outcome) => {
                    return self.end(outcome.end.into());
                }
            };
            let is_asked = || control.interrupt.is_some_and(Interrupt::is_asked);
            let left = self.search.left();
            let made = match probe.purpose {
                // It came when the last run was over, which is kept.
                _ if is_asked() => Made::Ended { took: 0 },
                Purpose::Confirm { .. } => self.confirm(&probe, control)?,
                Purpose::Bracket | Purpose::Refine => self.short(&probe, control)?,
            };
            control.watch.clear();
            let said = match made {
                Made::Told(told) if told.disturbance.is_none() => {
                    self.patience.renew();
                    self.tell(*told)?
                }
                Made::Told(told) => match self.disturbed(&probe, *told)? {
                    Some(said) => said,
                    None => return self.end(Phase::ClientLimited),
                },
                Made::Silent { missing } => return Err(self.silent(&probe, missing)),
                Made::Failing(failing) => return Err(self.failing(&probe, &failing)),
                Made::Ended { took } if took < left && is_asked() => {
                    return self.end(Phase::Interrupted);
                }
                Made::Ended { took } => self.lose(&probe, took.max(left))?,
            };
            if !is_quiet {
                control.watch.say(&said);
            }
        }
    }

    fn end(&mut self, phase: Phase) -> Result<Phase, Failure> {
        self.state.state = phase;
        if phase == Phase::ClientLimited {
            // It would be a limit of the client.
            (self.state.peak, self.state.confirmed) = (None, None);
        }
        self.keep()?;
        Ok(phase)
    }

    /// Keeps that a run was disturbed, and returns what is said; `None` if it was repeated often
    /// enough. A system that misses its limits without the client's lag, too, is told to miss
    /// them.
    fn disturbed(&mut self, probe: &Probe, mut told: Told) -> Result<Option<String>, Failure> {
        let Some(Disturbance { cause, reason, is_lag_alone }) = told.disturbance.take() else {
            return self.tell(told).map(Some);
        };
        let repeat = self.patience.repeat();
        let alone = Observation {
            blocks: std::mem::take(&mut told.without_lag),
            overloaded: false,
            passed: false,
            ..told.observation
        };
        if repeat.is_none() && is_lag_alone && !self.search.keeps_all(&alone) {
            self.patience.renew();
            self.count_alone(&mut told.point, &alone);
            told.observation = alone;
            told.reasons.push(format!("    the client was late, too: {reason}"));
            return self.tell(told).map(Some);
        }
        let took = told.observation.took;
        self.over_at += took;
        self.search.lose(took);
        let (purpose, load) = (probe.purpose.into(), probe.load);
        let text = reason.clone();
        let run = Disturbed { purpose, load, took_ns: took, cause, reason: text };
        self.state.disturbed.push(run);
        self.keep()?;
        Ok(repeat.map(|repeat| {
            let (at, most) = (self.load.show(load), self.patience.most);
            format!("    the run at {at} does not count: {reason}; repeat {repeat} of {most}")
        }))
    }

    /// What helps where the client is the limit.
    pub fn advice(&self) -> &'static str {
        disturbed::advice(self.prepared.system.remote().is_some())
    }

    /// Keeps what a run says before anybody hears of it; returns what is said.
    fn tell(&mut self, told: Told) -> Result<String, Failure> {
        let Told { observation, point, reasons, .. } = told;
        self.over_at += observation.took;
        self.search.observe(observation);
        self.state.peak = self.search.peak().map(|peak| self.peak(peak));
        if let (true, Some(folder)) = (point.passed, &point.folder) {
            self.state.confirmed = Some(Confirmed { load: point.load, folder: folder.clone() });
        }
        let mut lines = reasons;
        lines.push(line::line(&point, self.load, self.state.peak.as_ref()));
        self.state.points.push(point);
        self.keep()?;
        Ok(lines.join("\n"))
    }

    /// Keeps that a run was ended when the time was over: it says nothing.
    fn lose(&mut self, probe: &Probe, took: Nanos) -> Result<String, Failure> {
        // In virtual time it could have been ended when that was.
        let took = if self.is_virtual() { self.search.left() } else { took };
        self.over_at += took;
        self.search.lose(took);
        let (purpose, load) = (probe.purpose.into(), probe.load);
        self.state.unfinished.push(Unfinished { purpose, load, took_ns: took });
        self.keep()?;
        Ok(format!("    the time is over: the run at {} does not count", self.load.show(load)))
    }

    fn keep(&self) -> Result<(), Failure> {
        self.state.write(&self.directory).map_err(|error| {
            Failure::set_up(format!("cannot write to {}: {error}", self.directory.display()))
        })
    }

    fn silent(&mut self, probe: &Probe, missing: u64) -> Failure {
        self.state.state = Phase::Aborted;
        // The failure that is told counts for more than this one.
        let _ = self.keep();
        Failure::aborted(format!(
            "the system stopped answering at {}: {missing} samples were outstanding, and nothing \
             came within the deadline",
            self.load.show(probe.load)
        ))
        .hint(format!(
            "check the system, then go on: dyno search --resume {}",
            self.directory.display()
        ))
    }

    fn failing(&mut self, probe: &Probe, failing: &summary::Failing) -> Failure {
        self.state.state = Phase::Aborted;
        // The failure that is told counts for more than this one.
        let _ = self.keep();
        let load = self.load.show(probe.load);
        Failure::aborted(format!("at {load} {}", failing.sentence())).hint(format!(
            "check the system and what is sent to it, then go on: dyno search --resume {}",
            self.directory.display()
        ))
    }

    /// A run that does not count.
    fn short(&mut self, probe: &Probe, control: Control<'_>) -> Result<Made, Failure> {
        let test = self.short_test(probe)?;
        self.prepared.system.repeat(probe.number + 1);
        let title = format!("{} at {}", probe.number + 1, self.load.show(probe.load));
        let control = Control { most: Some(self.left()), ..control };
        let played = self.prepared.play_and_judge(&test, control, &title);
        self.prepared.system.repeat(0);
        let (PlayedTest { mut logs, failing, .. }, judged) = played?;
        let log = logs.swap_remove(0);
        let run = log.runs().last().ok_or_else(|| Failure::set_up("a run left no record"))?;
        let took = self.took(&log);
        let is_failing = failing.is_some();
        if let Some(failing) = failing.filter(|_| !self.has_answers()) {
            return Ok(Made::Failing(failing));
        }
        if let Some(made) = self.without_result(&log, took).filter(|_| !is_failing) {
            return Ok(made);
        }
        let is_early = is_failing
            || matches!(
                run.ended,
                EndReason::TooManyOutstanding { .. } | EndReason::MaxDuration { .. }
            );
        let mut observation = self.observe(probe, &[run], took);
        observation.overloaded = is_early && self.load == Load::Qps;
        observation.passed = !is_failing && self.search.keeps_all(&observation);
        let mut told = self.told(probe, observation, (&[run], run), None);
        if !is_failing {
            told.disturb(&judged);
        }
        Ok(Made::Told(Box::new(told)))
    }

    /// Whether the system answered at another load. Then it is this load that makes it fail.
    fn has_answers(&self) -> bool {
        self.state.points.iter().any(|point| point.throughput.is_some_and(|rate| rate > 0.0))
    }

    /// How long the runs of a test took in all: in real time all that passed since
    /// the last one was over.
    fn took(&self, log: &TestLog) -> Nanos {
        let from = log.runs().next().map_or(0, |run| run.started_at);
        let until = log.runs().last().map_or(0, |run| run.finished_at);
        match self.is_virtual() {
            true => until - from,
            false => self.clock.now().saturating_sub(self.over_at),
        }
    }

    /// How long a run may take that begins now.
    fn left(&self) -> Nanos {
        let passed = match self.is_virtual() {
            true => 0,
            false => self.clock.now().saturating_sub(self.over_at),
        };
        self.search.left().saturating_sub(passed)
    }

    /// Whether a run has none.
    fn without_result(&self, log: &TestLog, took: Nanos) -> Option<Made> {
        match log.runs().last()?.ended {
            EndReason::Deadline { missing } => Some(Made::Silent { missing }),
            _ if !log.complete || took > self.search.left() => Some(Made::Ended { took }),
            _ => None,
        }
    }

    fn short_test(&self, probe: &Probe) -> Result<Test, Failure> {
        let ms = probe.duration.div_ceil(MILLISECOND);
        let scenario = self.load.scenario();
        let said = self.prepared.options.settings(scenario, TestMode::PerformanceOnly, None).values;
        let seeded = |seed: u64| seed.wrapping_add(probe.number + 1).to_string();
        // A rate says how many queries come; whole loads only how many at once.
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
            // A client that is blocked falls behind its schedule without an end.
            on_top.push(("max_duration_ms", (2 * ms).to_string()));
            let most = self.search.most_outstanding(probe);
            on_top.push(("server_max_async_queries", most.to_string()));
        }
        self.prepared.performance_test(scenario, &on_top, &ORIGIN)
    }

    /// The run that counts: an ordinary run with its own directory.
    fn confirm(&mut self, probe: &Probe, control: Control<'_>) -> Result<Made, Failure> {
        let mut on_top = self.load.bounds(&self.limits);
        on_top.push(self.load.setting(probe.load));
        self.prepared.options.depart(self.load.scenario(), &on_top, &ORIGIN);
        on_top.extend(asked::repetition(&self.prepared, self.load));
        let test = self.prepared.performance_test(self.load.scenario(), &on_top, &ORIGIN)?;
        let tests = [test];
        let (folder, path) = self.confirm_folder()?;
        let directory = self.prepared.directory(&tests, Some(&path))?;
        let mut made = None;
        let mut see = |log: &TestLog| {
            let Some(run) = log.result() else { return };
            let took = self.took(log);
            made = Some(self.without_result(log, took).unwrap_or_else(|| {
                let runs: Vec<&RunLog> = log.runs().collect();
                let mut observation = self.observe(probe, &runs, took);
                let mut limits = self.rules().limits.iter().zip(&observation.blocks);
                observation.passed = limits.all(|(limit, blocks)| limit.is_kept(blocks));
                Made::Told(Box::new(self.told(
                    probe,
                    observation,
                    (&runs, run),
                    Some(folder.as_str()),
                )))
            }));
        };
        let control = Control { most: Some(self.left()), ..control };
        let measured = self.prepared.measure_and_see(&tests, control, directory, &mut see)?;
        if let Some(failing) = measured.failing() {
            return Ok(Made::Failing(failing.clone()));
        }
        let mut made = made.ok_or_else(|| Failure::set_up("a run left no record"))?;
        if let Made::Told(told) = &mut made {
            told.observation.passed &= measured.summary.is_valid();
            told.point.passed = told.observation.passed;
            let reasons = measured.summary.tests.iter().flat_map(|test| &test.reasons);
            let first_line =
                |reason: &String| reason.lines().next().unwrap_or_default().to_string();
            told.reasons = reasons.map(|reason| format!("   {}", first_line(reason))).collect();
            told.disturb(&measured.summary.tests);
        }
        Ok(made)
    }

    /// `confirm`, or `confirm-2` and so on for further tries. What an interrupted
    /// try left is replaced.
    fn confirm_folder(&self) -> Result<(String, PathBuf), Failure> {
        let tried = self.state.points.iter().filter(|point| point.folder.is_some()).count();
        let folder = match tried {
            0 => "confirm".to_string(),
            _ => format!("confirm-{}", tried + 1),
        };
        let path = self.directory.join(&folder);
        make_way(&path)?;
        Ok((folder, path))
    }
}

/// What came of a run.
enum Made {
    Told(Box<Told>),
    /// The system stopped answering.
    Silent {
        missing: u64,
    },
    /// The system failed most answers, and answered at no other load.
    Failing(summary::Failing),
    /// It was ended, by Ctrl-C or because the time was over.
    Ended {
        took: Nanos,
    },
}

/// What a run said.
struct Told {
    observation: Observation,
    point: Point,
    /// Of a run that counts: why it does not.
    reasons: Vec<String>,
    /// The counts of the system's limits without the client's lag.
    without_lag: Vec<Vec<Block>>,
    /// Why it says nothing about the system.
    disturbance: Option<Disturbance>,
}

impl Told {
    /// Takes in what the verdicts of a run's tests say about a disturbance.
    fn disturb(&mut self, tests: &[summary::Test]) {
        let Some(by_test) = tests.iter().find_map(Disturbance::by_test) else { return };
        self.disturbance = Some(match self.disturbance.take() {
            Some(by_lag) => by_lag.and(&by_test),
            None => by_test,
        });
    }
}

fn begin(prepared: &Prepared, definition: Definition) -> State {
    State {
        schema: dyno_results::search::SCHEMA.into(),
        schema_version: dyno_results::search::SCHEMA_VERSION,
        state: Phase::Running,
        official: false,
        disclaimer: summary::DISCLAIMER.into(),
        started_at: match prepared.system.is_simulated() {
            true => String::new(),
            false => units::utc(WallTime::now()),
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
