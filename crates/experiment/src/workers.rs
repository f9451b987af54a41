//! The coordinator of workers that share the load of a run, and their reports. A worker is
//! implemented in the module `member`; the protocol is [`dyno_net::worker`].

mod report;

use std::net::ToSocketAddrs as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::share::{self, Share};
use dyno_net::worker::coordinator::{
    Coordinator, GatherError, ListenSettings, SILENCE, WorkerListener,
};
use dyno_net::worker::wire::Pair;
use dyno_results::units;

use crate::environment;
use crate::failure::Failure;
use crate::options::{Requirement, RunOptions, ShapeOption};
use crate::test::PlannedTest;
use crate::watch::{Control, Interrupt};
pub use report::{WorkerReport, WorkerReports};

/// Environment variable with the shared secret of a coordinator and its workers.
pub const TOKEN: &str = "DYNO_WORKER_TOKEN";

/// Default address, which other machines cannot reach.
pub const ADDRESS: &str = "127.0.0.1:7700";

/// Returns the token of this process; empty without one.
pub fn token() -> String {
    std::env::var(TOKEN).unwrap_or_default()
}

/// Returns a line for a command whose runs each wait for the workers; `None` without workers. `each` is such
/// a run, in words.
pub fn stay_line(run: &RunOptions, each: &str) -> Option<String> {
    let workers = u64::try_from(run.remote_workers?.get()).unwrap_or(u64::MAX);
    let workers = units::counted(workers, "worker", "workers");
    Some(format!("each {each} waits for {workers}; without --stay, dyno worker joins only one\n"))
}

/// The workers of a run, which must join when the first test begins.
pub struct RemoteWorkers {
    listen: ListenSettings,
    /// Options of the system that they measure.
    options: Vec<Pair>,
    /// Maximum number of requests in flight of all workers together.
    limit: Option<u64>,
    gathered: OnceLock<Coordinator>,
}

impl RemoteWorkers {
    /// Returns the workers of the options; `None` if there are none.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub(crate) fn from_options(run: &RunOptions) -> Result<Option<Self>, Failure> {
        let Some(workers) = run.remote_workers else {
            return match &run.listen {
                Some(_) => Err(Failure::usage("--listen is for runs with workers")
                    .hint("state how many workers join with --remote-workers N")),
                None => Ok(None),
            };
        };
        let address = run.listen.clone().unwrap_or_else(|| ADDRESS.into());
        let token = token();
        if token.is_empty() && !is_loopback(&address) {
            return Err(Failure::usage(format!(
                "any machine that reaches {address} could join and receive a part of the load"
            ))
            .hint(format!("set {TOKEN} to the same secret here and for each worker")));
        }
        let workers = u32::try_from(workers.get()).unwrap_or(u32::MAX);
        let last = Share { index: workers - 1, clients: workers };
        let of_spec = divided(run.system.as_deref().unwrap_or_default(), last).map(|_| ());
        let of_run = divided_limit(run.max_concurrency, last).map(|_| ());
        if let Err(problem) = of_spec.and(of_run) {
            return Err(Failure::usage(problem).hint("raise it, or use fewer workers"));
        }
        let listen = ListenSettings {
            address,
            workers,
            token,
            machine: environment::boot_id(),
            release: env!("CARGO_PKG_VERSION").into(),
            silence: SILENCE,
        };
        let spec = run.system.as_deref().unwrap_or_default();
        let of_spec =
            spec.split(',').find_map(|option| option.strip_prefix(IN_FLIGHT)?.parse().ok());
        let limit = of_spec.or(run.max_concurrency.map(|most| most.get().into()));
        Ok(Some(Self { listen, options: options(run), limit, gathered: OnceLock::new() }))
    }

    /// Sets whether workers end a run when most of its answers fail.
    pub fn fail_fast(&mut self, is_on: bool) {
        let value = if is_on { "on" } else { "off" };
        self.options.push(Pair { name: "fail-fast".into(), value: value.into() });
    }

    /// Rejects tests that workers cannot share.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self, tests: &[PlannedTest], is_simulated: bool) -> Result<(), Failure> {
        if is_simulated {
            return Err(Failure::usage("a simulated system runs in virtual time in one process")
                .hint("remove --remote-workers"));
        }
        let plans = || tests.iter().flat_map(|test| &test.tenants).map(|tenant| &tenant.plan);
        let workers = self.listen.workers;
        let whys = plans().filter_map(|plan| share::divisible(plan, workers).err());
        let mut problems: Vec<String> = whys.map(|why| why.to_string()).collect();
        let uneven = self.limit.filter(|limit| limit % u64::from(workers) != 0);
        if let Some(limit) = uneven.filter(|_| plans().any(|plan| plan.in_flight().is_none())) {
            problems.push(format!(
                "at most {limit} requests in flight cannot be divided equally among {workers} workers, \
                 which issue equal parts of the queries; use a multiple of {workers}"
            ));
        }
        problems.dedup();
        if problems.is_empty() {
            return Ok(());
        }
        Err(Failure::usages(problems).hint(
            "several workers share Server (--scenario server) and Offline (--scenario offline); \
             --remote-workers 1 runs every scenario",
        ))
    }

    /// Returns the coordinator after all workers have joined and have set up the system. `None` if
    /// the wait was interrupted.
    ///
    /// # Errors
    /// The address cannot be used, or a worker cannot set up the system.
    pub fn coordinator(
        &self,
        library: &dyn SampleLibrary,
        control: Control<'_>,
    ) -> Result<Option<&Coordinator>, Failure> {
        if let Some(coordinator) = self.gathered.get() {
            return Ok(Some(coordinator));
        }
        let listening = WorkerListener::begin(self.listen.clone()).map_err(Failure::set_up)?;
        let (address, workers) = (listening.address(), self.listen.workers);
        control.watch.clear();
        control.watch.say(&format!(
            "waiting for {workers} worker{} at {address}: dyno worker --join HOST:{}",
            units::plural_ending(workers.into()),
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
        let own = (
            library.name().to_string(),
            library.total_sample_count() as u64,
            library.performance_sample_count() as u64,
        );
        for (number, ready) in (1..).zip(ready) {
            let theirs = (ready.library, ready.total, ready.performance);
            if theirs != own {
                return Err(Failure::set_up(format!(
                    "the data set of worker {number} is `{}` with {} samples, {} of them in \
                     memory at once, but that of the coordinator is `{}` with {} and {}",
                    theirs.0, theirs.1, theirs.2, own.0, own.1, own.2
                ))
                .hint("use the same files on all machines"));
            }
        }
        Ok(Some(self.gathered.get_or_init(|| coordinator)))
    }

    /// Returns the workers' reports on the last run; `None` before the first run.
    pub fn reported(&self) -> Option<WorkerReports> {
        Some(WorkerReports::new(self.gathered.get()?.shares()))
    }

    /// Returns whether a worker is lost, so that no further test can be played.
    pub fn has_lost_worker(&self) -> bool {
        self.gathered.get().is_some_and(|coordinator| coordinator.lost().is_some())
    }

    /// Returns remarks on runs that workers played.
    pub fn remarks(&self) -> Vec<String> {
        let Some(coordinator) = self.gathered.get() else { return Vec::new() };
        let precision = coordinator.precision();
        let shown = |ns: u64| units::duration(ns.cast_signed());
        let mut remarks = vec![format!(
            "{} workers shared the load. Each latency uses one clock; times of different workers \
             are comparable within {}.",
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

/// An option of a system, with a function that returns its values in a form that parses again.
pub(crate) type SentOption = (&'static str, fn(&RunOptions) -> Vec<String>);

/// The options that a coordinator sends. A worker accepts no others.
pub(crate) const SENT: [SentOption; 18] = [
    ("system", |run| run.system.iter().cloned().collect()),
    ("model", |run| run.model.iter().map(|path| shown(path)).collect()),
    ("data", |run| {
        let one = |(input, file): &(Option<String>, PathBuf)| match input {
            Some(input) => format!("{input}={}", file.display()),
            None => shown(file),
        };
        run.data.iter().map(one).collect()
    }),
    ("shape", |run| run.shapes.iter().map(ShapeOption::written).collect()),
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
    // Each worker takes its part: see `divided_limit`.
    ("max-concurrency", |run| texts(run.max_concurrency)),
    // A worker finds delays of its client at the percentiles of these limits, too.
    ("require", |run| run.requirements.iter().map(Requirement::written).collect()),
    // The value is set later: see `RemoteWorkers::fail_fast`.
    ("fail-fast", |_| Vec::new()),
];

fn texts(value: Option<impl ToString>) -> Vec<String> {
    value.into_iter().map(|value| value.to_string()).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the options of a system in a form that parses again.
fn options(run: &RunOptions) -> Vec<Pair> {
    let pairs = SENT.iter().flat_map(|(name, values)| {
        values(run).into_iter().map(|value| Pair { name: (*name).into(), value })
    });
    pairs.collect()
}

/// Option of a system with the maximum number of requests in flight.
const IN_FLIGHT: &str = "max-concurrency=";

/// Returns the specification of a system for one of several workers. Requests in flight are
/// divided, so that all workers together have as many as a single client.
///
/// # Errors
/// More workers than requests, as a sentence.
pub(crate) fn divided(spec: &str, share: Share) -> Result<String, String> {
    let part = |option: &str| {
        let all = option.strip_prefix(IN_FLIGHT).and_then(|number| number.parse().ok());
        match all.map(|all| (all, share.part(all))) {
            None => Ok(option.to_owned()),
            Some((all, 0)) => {
                Err(format!("{IN_FLIGHT}{all} cannot be divided among {} workers", share.clients))
            }
            Some((_, part)) => Ok(format!("{IN_FLIGHT}{part}")),
        }
    };
    let parts: Result<Vec<String>, String> = spec.split(',').map(part).collect();
    parts.map(|parts| parts.join(","))
}

/// Returns the part of `--max-concurrency` of one of several workers; `None` without a limit.
///
/// # Errors
/// As [`divided`].
pub(crate) fn divided_limit(
    all: Option<NonZero<u32>>,
    share: Share,
) -> Result<Option<NonZero<u32>>, String> {
    let Some(all) = all else { return Ok(None) };
    let part = u32::try_from(share.part(u64::from(all.get()))).ok().and_then(NonZero::new);
    part.map(Some).ok_or_else(|| {
        format!("--max-concurrency {all} cannot be divided among {} workers", share.clients)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_flight_are_divided_and_sum_to_those_of_one_client() {
        let spec = "openai:http://h/v1,max-concurrency=7,model=m";
        let part = |index| divided(spec, Share { index, clients: 3 }).unwrap();
        let expected = |n: u32| format!("openai:http://h/v1,max-concurrency={n},model=m");
        assert_eq!([part(0), part(1), part(2)], [3, 2, 2].map(expected));
        let problem = divided("raw:http://h,max-concurrency=2", Share { index: 2, clients: 3 });
        assert!(problem.unwrap_err().contains("among 3 workers"));
        assert_eq!(divided("digits", Share { index: 1, clients: 2 }).as_deref(), Ok("digits"));

        let limit = |all, index| divided_limit(NonZero::new(all), Share { index, clients: 3 });
        assert_eq!(
            [0, 1, 2].map(|index| limit(7, index).unwrap()),
            [3, 2, 2].map(NonZero::<u32>::new)
        );
        assert_eq!(limit(0, 1), Ok(None), "without a limit");
        assert!(limit(2, 2).unwrap_err().contains("--max-concurrency 2 cannot be divided"));
    }
}
