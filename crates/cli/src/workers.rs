//! Workers that share the load of a run: who coordinates them, and what a worker
//! measures. How they talk is [`dyno_net::worker`].

use std::net::ToSocketAddrs as _;
use std::sync::OnceLock;

use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::plan::Library;
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::Scenario;
use dyno_loadgen::share;
use dyno_net::client::Seen;
use dyno_net::worker::coordinator::{Coordinator, GatherError, Listen, Listening, SILENCE};
use dyno_net::worker::member::{Gate, Instrument, Rig};
use dyno_net::worker::wire::Pair;

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::measure::{Test, Watch};
use crate::options::{RunOptions, find_key};
use crate::system::System;
use crate::{output, render};

/// What keeps strangers out: the same on the coordinator and its workers.
pub const TOKEN: &str = "DYNO_WORKER_TOKEN";

/// Where nobody says. Nobody on another machine can join there.
pub const ADDRESS: &str = "127.0.0.1:7700";

/// The token of this process; empty if there is none.
pub fn token() -> String {
    std::env::var(TOKEN).unwrap_or_default()
}

/// The workers of a run, which are waited for when the first test begins.
pub struct RemoteWorkers {
    listen: Listen,
    /// What they measure.
    options: Vec<Pair>,
    gathered: OnceLock<Coordinator>,
}

impl RemoteWorkers {
    /// What the options say; `None` if they name no workers.
    ///
    /// # Errors
    /// Options that make no sense together.
    pub fn of(run: &RunOptions) -> Result<Option<Self>, Failure> {
        let Some(workers) = run.remote_workers else {
            return match &run.listen {
                Some(_) => Err(Failure::usage("--listen is for runs with workers")
                    .hint("say how many are to join: --remote-workers N")),
                None => Ok(None),
            };
        };
        let address = run.listen.clone().unwrap_or_else(|| ADDRESS.into());
        let token = token();
        if token.is_empty() && !is_loopback(&address) {
            return Err(Failure::usage(format!(
                "whoever reaches {address} could join and be given a part of the load"
            ))
            .hint(format!("set {TOKEN} to the same secret here and for each worker")));
        }
        let listen = Listen {
            address,
            workers: u32::try_from(workers.get()).unwrap_or(u32::MAX),
            token,
            release: env!("CARGO_PKG_VERSION").into(),
            silence: SILENCE,
        };
        Ok(Some(Self { listen, options: options(run), gathered: OnceLock::new() }))
    }

    /// Whether workers end a run when most of its answers fail.
    pub fn fail_fast(&mut self, is_on: bool) {
        let value = if is_on { "on" } else { "off" };
        self.options.push(Pair { name: "fail-fast".into(), value: value.into() });
    }

    /// Refuses tests that workers cannot share.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn check(&self, tests: &[Test], is_simulated: bool) -> Result<(), Failure> {
        if is_simulated {
            return Err(Failure::usage(
                "a simulated system is played in virtual time by one process",
            )
            .hint("leave out --remote-workers"));
        }
        let plans = tests.iter().flat_map(|test| &test.tenants).map(|tenant| &tenant.plan);
        let whys = plans.filter_map(|plan| share::divisible(plan, self.listen.workers).err());
        let mut problems: Vec<String> = whys.map(|why| why.to_string()).collect();
        problems.dedup();
        if problems.is_empty() {
            return Ok(());
        }
        Err(Failure::usages(problems).hint(
            "several workers share Server (--scenario server) and Offline (--scenario offline); \
             one worker plays everything: --remote-workers 1",
        ))
    }

    /// The coordinator, once all workers have joined and have set up the system.
    /// `None` if the wait was interrupted.
    ///
    /// # Errors
    /// If nobody can join here, or a worker lacks what it takes.
    pub fn coordinator(
        &self,
        system: &System,
        watch: Watch<'_>,
    ) -> Result<Option<&Coordinator>, Failure> {
        if let Some(coordinator) = self.gathered.get() {
            return Ok(Some(coordinator));
        }
        let listening = Listening::begin(self.listen.clone()).map_err(Failure::set_up)?;
        let (address, workers) = (listening.address(), self.listen.workers);
        watch.progress.clear();
        output::say(format_args!(
            "waiting for {workers} worker{} at {address}: dyno worker --join HOST:{}",
            if workers == 1 { "" } else { "s" },
            address.port()
        ));
        let goes_on = || !watch.interrupt.is_some_and(Interrupt::is_asked);
        let mut say = |line: &str| output::say(line);
        let coordinator = match listening.gather(&goes_on, &mut say) {
            Ok(coordinator) => coordinator,
            Err(GatherError::Ended { .. }) => return Ok(None),
            Err(error) => return Err(Failure::set_up(error)),
        };
        let ready = match coordinator.set_up(&self.options, &goes_on) {
            Err(_) if !goes_on() => return Ok(None),
            ready => ready.map_err(Failure::set_up)?,
        };
        let Library { total, performance } = system.library_size();
        let own = (system.library.name().to_string(), total, performance);
        for (number, ready) in (1..).zip(ready) {
            let theirs = (ready.library, ready.total, ready.performance);
            if theirs != own {
                return Err(Failure::set_up(format!(
                    "the data set of worker {number} is `{}` with {} samples, {} of them in \
                     memory at once, and that of the coordinator `{}` with {} and {}",
                    theirs.0, theirs.1, theirs.2, own.0, own.1, own.2
                ))
                .hint("name the same files on all machines"));
            }
        }
        Ok(Some(self.gathered.get_or_init(|| coordinator)))
    }

    /// Whether a worker is gone, so that no further test can be played.
    pub fn has_lost_worker(&self) -> bool {
        self.gathered.get().is_some_and(|coordinator| coordinator.lost().is_some())
    }

    /// What readers must know of runs that workers played.
    pub fn remarks(&self) -> Vec<String> {
        let Some(coordinator) = self.gathered.get() else { return Vec::new() };
        let precision = coordinator.precision();
        let shown = |ns: u64| render::duration(ns.cast_signed());
        let mut remarks = vec![format!(
            "{} workers shared the load. Latencies are of one clock each; times of different \
             workers are comparable within {}.",
            coordinator.workers(),
            shown(precision.error)
        )];
        if precision.late > 0 {
            remarks.push(format!("A worker began up to {} late.", shown(precision.late)));
        }
        remarks.extend(coordinator.lost().map(|lost| {
            let why = lost.to_string();
            format!("{}{}.", why[..1].to_uppercase(), &why[1..])
        }));
        remarks
    }
}

fn is_loopback(address: &str) -> bool {
    let addresses = address.to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    addresses.iter().all(|address| address.ip().is_loopback())
}

/// The options that make up a system, in the spelling that reads back.
fn options(run: &RunOptions) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        pairs.extend(value.map(|value| Pair { name: name.into(), value }));
    };
    let path = |path: &std::path::PathBuf| path.display().to_string();
    add("system", run.system.clone());
    add("model", run.model.as_ref().map(path));
    for (input, file) in &run.data {
        let of = input.as_ref().map(|input| format!("{input}=")).unwrap_or_default();
        add("data", Some(format!("{of}{}", path(file))));
    }
    for shape in &run.shapes {
        add("shape", Some(shape.written()));
    }
    add("labels", run.labels.as_ref().map(path));
    for (name, file) in &run.with {
        add("with", Some(format!("{name}={}", path(file))));
    }
    add("ort-lib", run.ort_lib.as_ref().map(path));
    add("samples", run.samples.or(run.samples_of_round).map(|n| n.to_string()));
    add("seed", run.seed.map(|n| n.to_string()));
    add("workers", run.workers.map(|n| n.to_string()));
    add("threads", run.threads.map(|n| n.to_string()));
    add("cores", run.cores.as_ref().map(ToString::to_string));
    add("warm-up", run.warm_up.map(|n| n.to_string()));
    add("batch", run.batch.as_ref().map(ToString::to_string));
    add("batch-wait", run.batch_wait.map(|ns| format!("{ns}ns")));
    pairs
}

/// The system of a worker, once the coordinator has said which.
#[derive(Default)]
pub struct WorkerRig {
    system: Option<System>,
    fails_fast: bool,
}

impl WorkerRig {
    fn system(&self) -> &System {
        self.system.as_ref().expect("a system is set up before anything is asked of it")
    }
}

impl Rig for WorkerRig {
    fn set_up(&mut self, options: &[Pair]) -> Result<(), String> {
        self.system = None;
        let mut run = RunOptions::default();
        for Pair { name, value } in options {
            let key = find_key(name)
                .map_err(|near| format!("there is no option {name} here; the nearest is {near}"))?;
            (key.set)(&mut run, value, std::path::Path::new(""))
                .map_err(|expected| format!("{name}: {expected}"))?;
        }
        let system = System::load(&run).map_err(|failure| failure.problems().join("; "))?;
        if system.is_simulated() {
            return Err("a simulated system is not played by workers".into());
        }
        (self.system, self.fails_fast) = (Some(system), run.fails_fast.unwrap_or(false));
        Ok(())
    }

    fn system_name(&self) -> String {
        self.system.as_ref().map_or("", System::engine_name).into()
    }

    fn words_of_failure(&self) -> Option<String> {
        self.system().words_of_failure(Some(&Seen::default()))
    }

    fn library(&self) -> &dyn SampleLibrary {
        &*self.system().library
    }

    fn begin(&self, scenario: Scenario, gate: &Gate) -> Result<Instrument<'_>, String> {
        let Some(system) = &self.system else { return Err("no system is set up".into()) };
        let started = system
            .real_time(scenario, &|| true)
            .map_err(|failure| failure.problems().join("; "))?;
        let driver = RealTime::new(started);
        let (clock, monitor) = (driver.clock(), driver.monitor());
        monitor.fail_fast(self.fails_fast);
        Ok(Instrument { driver: Box::new(driver.start(gate.by(clock))), monitor: Some(monitor) })
    }
}
