//! What the load generator costs, beside a floor measured in turn in the same
//! run. Prints one JSON line a figure; run it as
//! `bench/loadgen [--quick] [PART OF A NAME ...]`.
#![forbid(unsafe_code)]

mod floor;
mod system;

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dyno_loadgen::clock::{Clock, Nanos, SECOND, WallTime};
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::drive::{Driver, Job, JobTenant, RunOutcome};
use dyno_loadgen::log::{LogFiles, LogSettings};
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::Outcome;
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, Settings, TestSettings};
use dyno_loadgen::share::Share;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_loadgen::trace::loadable_sets;

use floor::Pattern;
use system::{Inline, MeasuredSystem, StampedSystem, System};

const SCHEDULE_SEED: u64 = 3_066_443_479_025_735_752;
const PERCENTILES: [f64; 6] = [0.50, 0.90, 0.95, 0.97, 0.99, 0.999];
const SAMPLES: u64 = 1_024;

/// A queue is held while the 99th percentile of lateness stays below this.
const HELD_LATENESS: Nanos = 100_000;

fn settings(scenario: Scenario, queries: u64, qps: f64) -> TestSettings {
    TestSettings {
        scenario,
        min_duration_ms: 0,
        min_query_count: queries,
        server_target_qps: qps,
        single_stream_expected_latency_ns: 1_000.0,
        schedule_rng_seed: SCHEDULE_SEED,
        sample_index_rng_seed: 1,
        ..TestSettings::default()
    }
}

fn plan(settings: &TestSettings) -> Arc<Plan> {
    let library = Library { total: SAMPLES, performance: SAMPLES };
    Arc::new(Plan::resolve(settings, library).expect("the settings are sound"))
}

/// Plays one run of Dyno against a system.
fn play(settings: &TestSettings, system: Arc<impl System + 'static>) -> RunOutcome {
    let plan = plan(settings);
    let set = loadable_sets(&plan, false, SAMPLES as usize).swap_remove(0);
    let tenant = JobTenant { plan, set: &set, samples_before: 0 };
    let job = Job { tenants: vec![tenant], accuracy: false, share: Share::WHOLE, epoch: 1 };
    let played = RealTime::new(Arc::new(MeasuredSystem(system))).play(&job);
    assert_eq!(played.tenants[0].record.missing(), 0);
    played
}

fn seconds(played: &RunOutcome) -> f64 {
    (played.finished_at - played.started_at) as f64 / 1e9
}

fn inline() -> Arc<Inline> {
    Arc::new(Inline { batch: 1_024, ..Inline::default() })
}

/// Rounds of one measurement, ours and the floor's in turn.
struct Rounds {
    rounds: usize,
    /// Divides the number of queries.
    scale: u64,
    /// Only figures whose name contains one of these; all if empty.
    wanted: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Lower,
    Higher,
}

impl Rounds {
    /// Prints the medians of `ours` and `floor` as one JSON line.
    fn figure(
        &self,
        name: &str,
        unit: &str,
        better: Direction,
        mut ours: impl FnMut() -> f64,
        mut floor: impl FnMut() -> f64,
    ) {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|part| name.contains(part)) {
            return;
        }
        eprintln!("{name} ...");
        let (mut all_ours, mut all_floors) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            all_ours.push(ours());
            all_floors.push(floor());
        }
        let (ours, peer) = (median(all_ours), median(all_floors));
        let ratio = if better == Direction::Lower { peer / ours } else { ours / peer };
        println!(
            "{{\"name\": \"{name}\", \"ours\": {}, \"peer\": {}, \"ratio\": {}, \"unit\": \"{unit}\"}}",
            rounded(ours),
            rounded(peer),
            rounded(ratio)
        );
    }

    fn queries(&self, full: u64) -> u64 {
        (full / self.scale).max(1_000)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Four significant digits, without an exponent.
fn rounded(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_string();
    }
    let digits_after_point = 3 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(-digits_after_point);
    let decimals = usize::try_from(digits_after_point).unwrap_or(0);
    let value = if decimals == 0 { (value / scale).round() * scale } else { value };
    format!("{value:.decimals$}")
}

fn single_stream(rounds: &Rounds) {
    let queries = rounds.queries(2_000_000);
    rounds.figure(
        "loadgen.single_stream_ns",
        "ns/query",
        Direction::Lower,
        || {
            let played = play(&settings(Scenario::SingleStream, queries, 1.0), inline());
            seconds(&played) * 1e9 / queries as f64
        },
        || {
            let measured = floor::play(Pattern::SingleStream, queries as usize, &*inline());
            measured.run_s * 1e9 / queries as f64
        },
    );
}

fn schedule(queries: u64, qps: f64) -> Vec<Nanos> {
    let (mut rng, mut at) = (Mt19937::new(SCHEDULE_SEED), 0);
    (0..queries)
        .map(|_| {
            let due = at;
            at += (rng.exponential(qps) * SECOND as f64) as Nanos;
            due
        })
        .collect()
}

/// Lateness at a quantile, measured by the system's own clock against the
/// schedule computed from the seed.
fn lateness(qps: f64, queries: u64, quantile: f64, ours: bool) -> Nanos {
    let system = Arc::new(StampedSystem::new(queries as usize));
    if ours {
        play(&settings(Scenario::Server, queries, qps), system.clone());
    } else {
        floor::play(Pattern::Server { qps }, queries as usize, &*system);
    }
    let late = system.lateness(&schedule(queries, qps));
    late[(late.len() as f64 * quantile) as usize]
}

/// The highest of these rates at which the lateness stays low.
fn held(rounds: &Rounds, ours: bool) -> f64 {
    let rates = [0.5e6, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 8e6];
    let holds =
        |&&qps: &&f64| lateness(qps, rounds.queries(qps as u64), 0.99, ours) < HELD_LATENESS;
    rates.iter().take_while(holds).last().copied().unwrap_or(0.0)
}

fn server(rounds: &Rounds) {
    let unit = "queries/s with p99 lateness below 100 us";
    let (ours, floor) = (|| held(rounds, true), || held(rounds, false));
    rounds.figure("loadgen.server_held_qps", unit, Direction::Higher, ours, floor);

    let loads = [("1k", 1e3, 2_000), ("10k", 1e4, 10_000), ("100k", 1e5, 100_000)];
    let late = |qps, queries, quantile, ours| {
        lateness(qps, rounds.queries(queries), quantile, ours).max(1) as f64
    };
    for (name, qps, queries) in loads {
        for (label, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            rounds.figure(
                &format!("loadgen.server_lateness_{label}_ns.{name}"),
                "ns",
                Direction::Lower,
                || late(qps, queries, quantile, true),
                || late(qps, queries, quantile, false),
            );
        }
    }
    let worst = |ours| loads.iter().map(|&(_, qps, n)| late(qps, n, 0.5, ours)).fold(0.0, f64::max);
    let unit = "ns, worst of 1k, 10k and 100k queries/s";
    let (ours, floor) = (|| worst(true), || worst(false));
    rounds.figure("loadgen.server_lateness_p50_ns", unit, Direction::Lower, ours, floor);
}

fn offline(rounds: &Rounds) {
    let samples = rounds.queries(10_000_000);
    rounds.figure(
        "loadgen.offline_samples_per_s",
        "samples/s",
        Direction::Higher,
        || samples as f64 / seconds(&play(&settings(Scenario::Offline, samples, 1.0), inline())),
        || samples as f64 / floor::play(Pattern::Offline, samples as usize, &*inline()).run_s,
    );
    let samples = rounds.queries(1_000_000);
    for batch in [1, 64, 1_024] {
        let per_sample = |spent: Nanos| spent as f64 / samples as f64;
        let system = || Arc::new(Inline { batch, ..Inline::default() });
        rounds.figure(
            &format!("loadgen.complete_{batch}_ns"),
            "ns/sample",
            Direction::Lower,
            || {
                let system = system();
                play(&settings(Scenario::Offline, samples, 1.0), system.clone());
                per_sample(system.spent.load(Ordering::Relaxed))
            },
            || {
                let system = system();
                floor::play(Pattern::Offline, samples as usize, &*system);
                per_sample(system.spent.load(Ordering::Relaxed))
            },
        );
    }
}

fn prepare(rounds: &Rounds) {
    let queries = rounds.queries(10_000_000);
    rounds.figure(
        "loadgen.prepare_ns",
        "ns/query",
        Direction::Lower,
        || {
            let played = play(&settings(Scenario::Server, queries, 1e8), inline());
            (played.generated.1 - played.generated.0) as f64 / queries as f64
        },
        || {
            let pattern = Pattern::Server { qps: 1e8 };
            floor::play(pattern, queries as usize, &*inline()).prepare_s * 1e9 / queries as f64
        },
    );
}

/// Peak memory of a run in a process of its own.
fn memory(rounds: &Rounds) {
    let queries = rounds.queries(10_000_000);
    let child = |who: &str| -> f64 {
        let program = std::env::current_exe().expect("the path of this program");
        let output = Command::new(program)
            .args(["--peak-memory-of", who, &queries.to_string()])
            .output()
            .expect("this program runs again");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of bytes")
    };
    for (name, unit, who) in [
        ("loadgen.server_10m_bytes", "bytes, 10 M Server queries issued and recorded", "dyno"),
        ("loadgen.server_10m_judged_bytes", "bytes, the same with its statistics", "dyno-judged"),
    ] {
        rounds.figure(name, unit, Direction::Lower, || child(who), || child("floor"));
    }
    rounds.figure(
        "loadgen.offline_bytes_per_sample",
        "bytes/sample, what the system is handed included",
        Direction::Lower,
        || child("dyno-offline") / queries as f64,
        || child("floor-offline") / queries as f64,
    );
}

fn peak_memory_of(who: &str, queries: u64) {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: f64 = line
            .and_then(|l| l.trim().strip_suffix(" kB"))
            .and_then(|l| l.trim().parse().ok())
            .unwrap_or(0.0);
        kib * 1_024.0
    };
    let before = resident();
    let offline = who.ends_with("-offline");
    if who.starts_with("dyno") {
        let scenario = if offline { Scenario::Offline } else { Scenario::Server };
        let wanted = settings(scenario, queries, 1e8);
        let played = play(&wanted, inline());
        if who == "dyno-judged" {
            let metrics = Metrics::from_record(&played.tenants[0].record, &plan(&wanted));
            assert_eq!(metrics.sample_count, queries);
        }
    } else {
        let pattern = if offline { Pattern::Offline } else { Pattern::Server { qps: 1e8 } };
        floor::play(pattern, queries as usize, &*inline());
    }
    println!("{}", resident() - before);
}

struct Nothing;

impl SampleLibrary for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
    fn total_sample_count(&self) -> usize {
        SAMPLES as usize
    }
}

/// A whole test of 100 queries, four log files included.
fn shortest(rounds: &Rounds) {
    let folder = std::env::temp_dir().join(format!("dyno-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder in the temporary directory");
    let logs = LogSettings { outdir: folder.clone(), ..LogSettings::default() };
    let wanted = settings(Scenario::SingleStream, 100, 1.0);
    rounds.figure(
        "loadgen.shortest_run_ms",
        "ms, test of 100 queries with its logs",
        Direction::Lower,
        || {
            let clock = Clock::start();
            let tenants = [Tenant {
                settings: Settings::from(wanted.clone()),
                plan: (*plan(&wanted)).clone(),
                library: &Nothing,
                messages: Vec::new(),
            }];
            let mut files = LogFiles::open(&logs, None, 1 << 16).expect("log files open");
            let mut driver = RealTime::new(Arc::new(MeasuredSystem(inline())));
            let log =
                run(&mut driver, &tenants, RecordRetention::Every, &mut |_| {}).swap_remove(0);
            files.write(&log).expect("log files are written");
            clock.now() as f64 / 1e6
        },
        || {
            let clock = Clock::start();
            let measured = floor::play(Pattern::SingleStream, 100, &*inline());
            let text = format!("{:?}", measured.percentiles);
            std::fs::write(folder.join("floor.txt"), text).expect("a file is written");
            clock.now() as f64 / 1e6
        },
    );
    let _ = std::fs::remove_dir_all(&folder);
}

/// One server in virtual time.
#[derive(Default)]
struct OneServer {
    free_at: Nanos,
    queue: VecDeque<(Nanos, ResponseId)>,
}

impl SimulatedSystem for OneServer {
    fn name(&self) -> &str {
        "one server"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.free_at = self.free_at.max(now) + 500_000;
        self.queue.push_back((self.free_at, query.first));
    }
    fn next_event(&self) -> Option<Nanos> {
        self.queue.front().map(|q| q.0)
    }
    fn advance(&mut self, _now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        if let Some((_, id)) = self.queue.pop_front() {
            let outcome = Outcome::Ok { tokens: 0 };
            completions.push(SimulatedCompletion { id, first_token_at: None, outcome });
        }
    }
}

/// Simulated queries per second of real time, generation included. The floor is
/// the bare recurrence of the queue over the same schedule.
fn simulation(rounds: &Rounds) {
    let queries = rounds.queries(5_000_000);
    let wanted = settings(Scenario::Server, queries, 1_000.0);
    rounds.figure(
        "loadgen.simulated_queries_per_s",
        "queries/s",
        Direction::Higher,
        || {
            let clock = Clock::start();
            let plan = plan(&wanted);
            let set = loadable_sets(&plan, false, SAMPLES as usize).swap_remove(0);
            let tenant = JobTenant { plan, set: &set, samples_before: 0 };
            let job = Job { tenants: vec![tenant], accuracy: false, share: Share::WHOLE, epoch: 1 };
            let mut system = OneServer::default();
            let played = VirtualTime::new(&mut system, WallTime { unix_ns: 0 }).play(&job);
            assert_eq!(played.tenants[0].record.missing(), 0);
            queries as f64 * 1e9 / clock.now() as f64
        },
        || {
            let clock = Clock::start();
            let (mut indices, mut free_at, mut waits) = (Mt19937::new(1), 0, 0);
            let mut latencies = Vec::with_capacity(queries as usize);
            for due in schedule(queries, 1_000.0) {
                free_at = due.max(free_at) + 500_000;
                waits += u64::from(indices.bounded(SAMPLES as u32));
                latencies.push(free_at - due);
            }
            assert!(waits > 0 && latencies.len() == queries as usize);
            queries as f64 * 1e9 / clock.now() as f64
        },
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|a| a == "--peak-memory-of") {
        let queries = arguments[at + 2].parse().expect("a number of queries");
        return peak_memory_of(&arguments[at + 1], queries);
    }
    let quick = arguments.iter().any(|a| a == "--quick" || a == "--test");
    let wanted = arguments[1..].iter().filter(|a| !a.starts_with("--")).cloned().collect();
    let (rounds, scale) = if quick { (1, 50) } else { (3, 1) };
    let rounds = Rounds { rounds, scale, wanted };
    single_stream(&rounds);
    server(&rounds);
    offline(&rounds);
    prepare(&rounds);
    memory(&rounds);
    shortest(&rounds);
    simulation(&rounds);
}
