//! Workers that share the load of a run: their coordinator, and what a worker measures. Their
//! protocol is [`dyno_net::worker`].

mod consent;
mod report;

use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dyno_loadgen::clock::Clock;
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::{Job, Played, PlayedTenant};
use dyno_loadgen::plan::Library;
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::Scenario;
use dyno_loadgen::share::{self, Share};
use dyno_net::client::Seen;
use dyno_net::worker::coordinator::{Coordinator, GatherError, Listen, Listening, SILENCE};
use dyno_net::worker::member::{Gate, Instrument, Rig};
use dyno_net::worker::wire::Pair;
use dyno_results::units;

use crate::failure::Failure;
use crate::measure::Test;
use crate::observe::Heart;
use crate::options::{RunOptions, ShapeOf, find_key};
use crate::system::System;
use crate::system::net::Remote;
use crate::watch::Watch;
use crate::watch::{Control, Interrupt};
use crate::{environment, run};
pub use consent::{Consent, GRAMMAR, Grant};
pub use report::{Report, Reported};

/// The variable with the secret of a coordinator and its workers.
pub const TOKEN: &str = "DYNO_WORKER_TOKEN";

/// Systems in virtual time.
const SIMULATED: [&str; 3] = ["model", "npu", "cheat"];

/// The default address, where no other machine can join.
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
        let workers = u32::try_from(workers.get()).unwrap_or(u32::MAX);
        let last = Share { index: workers - 1, of: workers };
        if let Err(problem) = divided(run.system.as_deref().unwrap_or_default(), last) {
            return Err(Failure::usage(problem).hint("raise it, or use fewer workers"));
        }
        let listen = Listen {
            address,
            workers,
            token,
            machine: environment::boot_id(),
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
        control: Control<'_>,
    ) -> Result<Option<&Coordinator>, Failure> {
        if let Some(coordinator) = self.gathered.get() {
            return Ok(Some(coordinator));
        }
        let listening = Listening::begin(self.listen.clone()).map_err(Failure::set_up)?;
        let (address, workers) = (listening.address(), self.listen.workers);
        control.watch.clear();
        control.watch.say(&format!(
            "waiting for {workers} worker{} at {address}: dyno worker --join HOST:{}",
            if workers == 1 { "" } else { "s" },
            address.port()
        ));
        let goes_on = || !control.interrupt.is_some_and(Interrupt::is_asked);
        let mut say = |line: &str| control.watch.say(line);
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

    /// What the workers reported of the last run; `None` before the first one.
    pub fn reported(&self) -> Option<Reported> {
        Some(Reported::new(self.gathered.get()?.shares()))
    }

    /// Whether a worker is gone, so that no further test can be played.
    pub fn has_lost_worker(&self) -> bool {
        self.gathered.get().is_some_and(|coordinator| coordinator.lost().is_some())
    }

    /// What readers must know of runs that workers played.
    pub fn remarks(&self) -> Vec<String> {
        let Some(coordinator) = self.gathered.get() else { return Vec::new() };
        let precision = coordinator.precision();
        let shown = |ns: u64| units::duration(ns.cast_signed());
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

/// An option that makes up a system, with its values in the spelling that reads back.
type Sent = (&'static str, fn(&RunOptions) -> Vec<String>);

/// The options that a coordinator sends. A worker takes no others.
const SENT: [Sent; 16] = [
    ("system", |run| run.system.iter().cloned().collect()),
    ("model", |run| run.model.iter().map(|path| shown(path)).collect()),
    ("data", |run| {
        let one = |(input, file): &(Option<String>, PathBuf)| match input {
            Some(input) => format!("{input}={}", file.display()),
            None => shown(file),
        };
        run.data.iter().map(one).collect()
    }),
    ("shape", |run| run.shapes.iter().map(ShapeOf::written).collect()),
    ("labels", |run| run.labels.iter().map(|path| shown(path)).collect()),
    ("with", |run| {
        run.with.iter().map(|(name, file)| format!("{name}={}", file.display())).collect()
    }),
    ("ort-lib", |run| run.ort_lib.iter().map(|path| shown(path)).collect()),
    ("samples", |run| texts(run.samples.or(run.samples_of_round))),
    ("seed", |run| texts(run.seed)),
    ("workers", |run| texts(run.workers)),
    ("threads", |run| texts(run.threads)),
    ("cores", |run| texts(run.cores.as_ref())),
    ("warm-up", |run| texts(run.warm_up)),
    ("batch", |run| texts(run.batch.as_ref())),
    ("batch-wait", |run| texts(run.batch_wait.map(|ns| format!("{ns}ns")))),
    // Added when it is known: see `RemoteWorkers::fail_fast`.
    ("fail-fast", |_| Vec::new()),
];

fn texts(value: Option<impl ToString>) -> Vec<String> {
    value.into_iter().map(|value| value.to_string()).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The options that make up a system, in the spelling that reads back.
fn options(run: &RunOptions) -> Vec<Pair> {
    let pairs = SENT.iter().flat_map(|(name, values)| {
        values(run).into_iter().map(|value| Pair { name: (*name).into(), value })
    });
    pairs.collect()
}

/// The option of a system that says how many requests may be in flight.
const IN_FLIGHT: &str = "max-concurrency=";

/// The specification of a system for one of several workers: requests in flight are divided, so
/// that all workers together have as many as one client would.
///
/// # Errors
/// More workers than requests, as a sentence.
fn divided(spec: &str, share: Share) -> Result<String, String> {
    let part = |option: &str| {
        let all = option.strip_prefix(IN_FLIGHT).and_then(|number| number.parse().ok());
        match all.map(|all| (all, share.part(all))) {
            None => Ok(option.to_owned()),
            Some((all, 0)) => {
                Err(format!("{IN_FLIGHT}{all} cannot be divided among {} workers", share.of))
            }
            Some((_, part)) => Ok(format!("{IN_FLIGHT}{part}")),
        }
    };
    let parts: Result<Vec<String>, String> = spec.split(',').map(part).collect();
    parts.map(|parts| parts.join(","))
}

/// The system of a worker, once the coordinator has named it.
pub struct WorkerRig {
    watch: Arc<dyn Watch>,
    consent: Consent,
    share: Share,
    system: Option<System>,
    fails_fast: bool,
    /// When the test began, and what the client had seen by then.
    begun: Mutex<Option<(Clock, Seen)>>,
    /// Beats while a test is on.
    heart: Mutex<Option<Heart>>,
}

impl WorkerRig {
    /// A worker without a system. It sets up what the consent covers.
    pub fn new(consent: Consent, share: Share, watch: Arc<dyn Watch>) -> Self {
        Self {
            watch,
            consent,
            share,
            system: None,
            fails_fast: false,
            begun: Mutex::default(),
            heart: Mutex::default(),
        }
    }

    fn system(&self) -> &System {
        self.system.as_ref().expect("a system is set up before anything is asked of it")
    }
}

impl Rig for WorkerRig {
    fn set_up(&mut self, options: &[Pair]) -> Result<(), String> {
        self.system = None;
        let mut run = RunOptions::default();
        for Pair { name, value } in options {
            let key = find_key(name).ok().filter(|_| SENT.iter().any(|(sent, _)| sent == name));
            let key = key.ok_or_else(|| format!("a worker takes no option `{name}`"))?;
            (key.set)(&mut run, value, Path::new(""))
                .map_err(|expected| format!("{name}: {expected}"))?;
        }
        let name = run.system.as_deref().and_then(|spec| spec.split(':').next());
        if name.is_some_and(|name| SIMULATED.contains(&name)) {
            return Err("a simulated system is not played by workers".into());
        }
        self.consent.check(&run)?;
        run.system = run.system.map(|spec| divided(&spec, self.share)).transpose()?;
        let system =
            System::load(&run, &self.watch).map_err(|failure| failure.problems().join("; "))?;
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
        let seen = system.remote().map(Remote::seen).unwrap_or_default();
        *lock(&self.begun) = Some((Clock::start(), seen));
        let heart = Heart::begin();
        let driver = RealTime::new(started).announce(heart.announce());
        *lock(&self.heart) = Some(heart);
        let (clock, monitor) = (driver.clock(), driver.monitor());
        monitor.fail_fast(self.fails_fast);
        Ok(Instrument { driver: Box::new(driver.start(gate.by(clock))), monitor: Some(monitor) })
    }

    fn report(&self, job: &Job<'_>, played: &Played) -> Vec<u8> {
        let begun = lock(&self.begun);
        let observer = lock(&self.heart).take().map(|heart| {
            let targets = job.tenants.iter().map(|tenant| tenant.plan.load.percentile());
            let records = played.tenants.iter().map(|part| &part.record);
            let tenants: Vec<_> = records.zip(targets).collect();
            run::observer(self.system(), heart.end(), &tenants)
        });
        let (Some(remote), Some((clock, before))) =
            (self.system.as_ref().and_then(System::remote), &*begun)
        else {
            return Report { observer, ..Report::default() }.bytes();
        };
        let lateness = |(tenant, part): (u8, &PlayedTenant)| remote.lateness(tenant, &part.record);
        let ledger = |(tenant, part): (u8, &PlayedTenant)| {
            remote.ledger(tenant, part.record.completed_at.len())
        };
        let report = Report {
            seen: Some(remote.seen().since(before)),
            threads: remote.threads,
            took: clock.now(),
            lateness: (0..).zip(&played.tenants).map(lateness).collect(),
            ledger: (0..).zip(&played.tenants).map(ledger).collect(),
            observer,
        };
        report.bytes()
    }
}

/// What it guards is consistent wherever a thread may have panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_flight_are_divided_and_sum_to_those_of_one_client() {
        let spec = "openai:http://h/v1,max-concurrency=7,model=m";
        let part = |index| divided(spec, Share { index, of: 3 }).unwrap();
        let expected = |n: u32| format!("openai:http://h/v1,max-concurrency={n},model=m");
        assert_eq!([part(0), part(1), part(2)], [3, 2, 2].map(expected));
        let problem = divided("raw:http://h,max-concurrency=2", Share { index: 2, of: 3 });
        assert!(problem.unwrap_err().contains("among 3 workers"));
        assert_eq!(divided("digits", Share { index: 1, of: 2 }).as_deref(), Ok("digits"));
    }
}
