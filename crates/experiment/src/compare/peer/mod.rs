//! Runs another load generator against the same server, in alternation with Dyno: a b b a a b ...
//!
//! Both send the same requests: the bodies of Dyno's samples, in Dyno's order. Times of arrival are
//! those of each tool; with a fixed concurrency they follow from the answers.

mod aiperf;
mod process;
mod reasons;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::compare::{Metric, Series};
use dyno_loadgen::plan::{Load, Plan};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::settings::{Arrivals, Scenario};
use dyno_loadgen::trace::{Trace, loadable_sets};
use dyno_results::run_directory::make_way;
use dyno_results::units;

pub use reasons::{PeerAccount, Reason, ReasonKind};

use super::interleave;
use super::layout::{Layout, NAMES, PAIRS_FEWEST, Place};
use crate::End;
use crate::effect::Strictness;
use crate::failure::Failure;
use crate::options::{CommandLine, Options};
use crate::run::{PreparedRun, variables};
use crate::system::net::Replay;
use crate::test::PlannedTest;
use crate::watch::{Control, Watch};

use aiperf::Aiperf;

/// Another load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// aiperf, from PyPI.
    Aiperf,
}

impl Peer {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::Aiperf];

    /// Returns its name, which is that of its program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aiperf => "aiperf",
        }
    }

    /// Returns the peer with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }
}

/// Metrics that are compared by default, the headline first. Means need few requests, and reasons
/// explain their differences.
pub const METRICS: [Metric; 10] = [
    Metric::Mean(Series::FirstToken),
    Metric::Percentile(Series::FirstToken, 0.5),
    Metric::Percentile(Series::FirstToken, 0.99),
    Metric::Mean(Series::TimePerOutputToken),
    Metric::Percentile(Series::TimePerOutputToken, 0.5),
    Metric::Percentile(Series::TimePerOutputToken, 0.99),
    Metric::Mean(Series::Latency),
    Metric::Percentile(Series::Latency, 0.5),
    Metric::Percentile(Series::Latency, 0.99),
    Metric::Throughput,
];

/// Requests of a run if neither a number nor a length is given.
const REQUESTS: u64 = 200;

/// Default number of pairs.
pub const PAIRS: usize = 3;

/// Default of `--seed`.
const FIRST_SEED: u64 = 1;

/// Runs of Dyno and of another load generator to play.
#[derive(Debug)]
pub struct PeerSchedule<'a> {
    /// The other load generator.
    pub peer: Peer,
    /// Options of Dyno's runs.
    pub line: CommandLine,
    /// Runs of each side (at least 2).
    pub pairs: usize,
    /// Time limit, ns: no pair starts that would end later.
    pub most: Nanos,
    /// Observer of the runs.
    pub watch: &'a Arc<dyn Watch>,
}

/// The load of a run, which both tools produce.
struct Shape {
    requests: u64,
    warm_up: u64,
    arrivals: Arrivals,
    rate: f64,
}

impl PeerSchedule<'_> {
    fn prepare(&self, pair: usize) -> Result<PreparedRun, Failure> {
        let mut line = self.line.clone();
        line.give("mode", "performance");
        let seed = match line.given("seed") {
            None => FIRST_SEED,
            Some(seed) => seed.parse().map_err(|_| {
                Failure::usage(format!("flag --seed: expected a number, found `{seed}`"))
            })?,
        };
        line.give("seed", &seed.wrapping_add(pair as u64).to_string());
        let options = Options::read(&line, variables())?;
        if options.run.num_prompts.is_none() {
            if let Some(length) = options.run.duration {
                let length = units::duration(length.cast_signed());
                let problem =
                    format!("--duration {length}: with --with, both tools send the same requests");
                return Err(
                    Failure::usage(problem).hint("give their number instead: --num-prompts N")
                );
            }
            line.give("num-prompts", &REQUESTS.to_string());
        }
        PreparedRun::checked(&line, Strictness::Flags, Some(self.watch))
    }

    /// Returns a description of the runs.
    ///
    /// # Errors
    /// A system or load that the peer cannot produce, or a peer that is not installed.
    pub fn plan(&self) -> Result<String, Failure> {
        let prepared = self.prepare(0)?;
        let (test, replay) = self.checked(&prepared)?;
        let shape = shape(&prepared, &test)?;
        let peer = Aiperf::find()?;
        let layout = self.layout(&prepared);
        let order = (0..self.pairs).flat_map(|pair| layout.places(pair));
        let order: Vec<&str> = order.map(|place| NAMES[place.side]).collect();
        Ok(format!(
            "a  dyno: {}, {} requests, {}\nb  {}\n{} pairs, in the order {}; no pair starts that would \
             end after {}\n",
            prepared.system.spec,
            units::count(shape.requests),
            shape.words(&replay),
            peer.words(&aiperf::arguments(&replay, &shape, Path::new("b-1"))),
            self.pairs,
            order.join(" "),
            units::duration(self.most.cast_signed()),
        ))
    }

    fn layout(&self, prepared: &PreparedRun) -> Layout {
        let configs = [prepared.system.spec.clone(), self.peer.name().to_owned()];
        let seed = prepared.options.run.seed.unwrap_or(FIRST_SEED);
        let (peer, pairs) = (Some(self.peer.name().into()), Some(self.pairs));
        Layout { peer, pairs, ..Layout::new(configs, 1, seed, false) }
    }

    /// Returns the test of a run, and its requests.
    fn checked<'a>(&self, prepared: &'a PreparedRun) -> Result<(PlannedTest, Replay<'a>), Failure> {
        let name = self.peer.name();
        let refused = |problem: String| {
            Failure::usage(format!("--with {name}: {problem}")).hint(format!(
                "remove that option, or compare results that {name} wrote: dyno compare RUN FOLDER"
            ))
        };
        let Some(remote) = prepared.system.remote() else {
            let problem = format!("--with {name}: `{}` is not a server", prepared.system.spec);
            return Err(
                Failure::usage(problem).hint("use dyno compare --with aiperf http://HOST:PORT")
            );
        };
        let replay = remote.replay().map_err(refused)?;
        if aiperf::endpoint(&replay).is_none() {
            return Err(refused(format!("{} is not a path of completions or chats", replay.path)));
        }
        let mut tests = prepared.tests()?;
        match (tests.len(), prepared.options.run.remote_workers.is_some()) {
            (1, false) if tests[0].tenants.len() == 1 => Ok((tests.remove(0), replay)),
            (_, true) => Err(refused("--remote-workers measure from other machines".into())),
            _ => Err(refused("the run has several tests or tenants".into())),
        }
    }

    /// Plays all runs. Returns how that ended, and the number of pairs.
    ///
    /// # Errors
    /// A run that cannot be played, or failed.
    pub fn play(&self, directory: &Path, control: Control<'_>) -> Result<(End, usize), Failure> {
        let clock = Clock::start();
        let peer = Aiperf::find()?;
        let first = self.prepare(0)?;
        let layout = self.layout(&first);
        drop(first);
        let _lock = Layout::claim(directory)?;
        layout.write(directory)?;
        let mut longest = 0;
        for pair in 0..self.pairs {
            let begin = clock.now();
            if begin.saturating_add(longest) > self.most {
                return self.stop_after(pair, longest);
            }
            for place in layout.places(pair) {
                let target = layout.folder(directory, place);
                let number = NAMES.len() * pair + place.side + 1;
                self.watch.step(&format!("run {number}: {}", target.display()));
                let left = self.most.saturating_sub(clock.now());
                let end = match place {
                    Place { side: 0, .. } => {
                        interleave::play_one(&self.prepare(pair)?, &target, control)?
                    }
                    place => self.play_peer(&peer, place.pair, &target, control, left)?,
                };
                if end != End::Valid {
                    return Ok((end, pair));
                }
            }
            longest = longest.max(clock.now() - begin);
        }
        Ok((End::Valid, self.pairs))
    }

    fn play_peer(
        &self,
        peer: &Aiperf,
        pair: usize,
        target: &Path,
        control: Control<'_>,
        left: Nanos,
    ) -> Result<End, Failure> {
        let prepared = self.prepare(pair)?;
        let (test, replay) = self.checked(&prepared)?;
        let shape = shape(&prepared, &test)?;
        let total = prepared.system.library.total_sample_count();
        let samples = samples(&test.tenants[0].plan, total, shape.requests);
        make_way(target)?;
        peer.run(&replay, &shape, &samples, target, control, left)
    }

    fn stop_after(&self, pairs: usize, longest: Nanos) -> Result<(End, usize), Failure> {
        if pairs < PAIRS_FEWEST {
            let [most, pair] = [self.most, longest].map(|time| units::duration(time.cast_signed()));
            let problem = format!("{most} are too short for two pairs; one takes {pair}");
            return Err(Failure::usage(problem).hint("raise --max-time, or reduce --num-prompts"));
        }
        self.watch.say(&format!("warning: out of time after {pairs} of {} pairs", self.pairs));
        Ok((End::Valid, pairs))
    }
}

/// Returns the load of a test.
///
/// # Errors
/// A load that is not a number of requests at a rate or with a fixed concurrency.
fn shape(prepared: &PreparedRun, test: &PlannedTest) -> Result<Shape, Failure> {
    let plan = &test.tenants[0].plan;
    let refused = |what: String| {
        Failure::usage(format!("--with aiperf: {what}")).hint(
            "use --max-concurrency N, or --request-rate R with Poisson, gamma or constant arrivals",
        )
    };
    let Load::Server(server) = &plan.load else {
        return Err(refused(format!("{} is no load of servers", test.scenario.name())));
    };
    debug_assert_eq!(test.scenario, Scenario::Server);
    match server.arrivals {
        Arrivals::Burst(_) | Arrivals::Replay(_) => {
            return Err(refused("bursts and recorded times are arrivals of Dyno alone".into()));
        }
        Arrivals::Poisson | Arrivals::Constant | Arrivals::Gamma(_) | Arrivals::Concurrency(_) => {}
    }
    if plan.ramp > 0 || plan.samples_per_query != 1 {
        return Err(refused("a ramp, or several samples per query".into()));
    }
    Ok(Shape {
        requests: prepared.options.run.num_prompts.map_or(REQUESTS, |n| n.get() as u64),
        warm_up: prepared.options.run.warm_up.unwrap_or(0) as u64,
        arrivals: server.arrivals.clone(),
        rate: plan.target_qps,
    })
}

impl Shape {
    /// Returns the load in words.
    fn words(&self, replay: &Replay<'_>) -> String {
        let cap = replay.limit.map_or(String::new(), |most| format!(", at most {most} in flight"));
        match self.arrivals {
            Arrivals::Concurrency(in_flight) => format!("{in_flight} in flight"),
            _ => format!("{}/s{cap}", units::rate(self.rate)),
        }
    }
}

/// Returns the samples of the first requests of a run, in order.
fn samples(plan: &Plan, total: usize, requests: u64) -> Vec<SampleIndex> {
    let sets = loadable_sets(plan, false, total);
    let mut trace = Trace::new(plan, &sets[0], false);
    let (mut samples, mut of_query) = (Vec::new(), Vec::new());
    while (samples.len() as u64) < requests && trace.next_query(&mut of_query).is_some() {
        samples.append(&mut of_query);
    }
    samples
}

/// Returns the program `name`: in the active environment of Python, or in `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let active = [std::env::var_os("VIRTUAL_ENV"), std::env::var_os("CONDA_PREFIX")];
    let active = active.into_iter().flatten().map(|folder| Path::new(&folder).join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = active.chain(std::env::split_paths(&path)).collect();
    folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}
