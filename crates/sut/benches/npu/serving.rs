//! Pairs of networks behind the instrument, in the scenario Server (Figures V.5 and V.6).

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dyno_loadgen::clock::{Clock, SECOND, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::plan::{Library, Plan as TestPlan};
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::run::{Keep, Tenant as TestTenant, TestLog, run as play_test};
use dyno_loadgen::settings::{Scenario, Settings, TestMode, TestSettings};
use dyno_loadgen::verdict::{Verdict, judge};
use dyno_npu::bounds::load;
use dyno_npu::deploy::{Deployment, Plan, Tenant};
use dyno_npu::hardware::Npu as Hardware;
use dyno_npu::profile::Options;
use dyno_npu::schedule::Named;
use dyno_npu::serve::Batching;
use dyno_sut::npu::Npu;

use super::streams::{SEQ, network};
use super::{Asked, figure};

/// Limits of chapter V, ns: vision and language.
const LIMITS: [u64; 2] = [15_000_000, 130_000_000];
const COMPUTE: [&str; 3] = ["IC", "MN", "RN"];
const MEMORY: [&str; 3] = ["BB", "BL", "XL"];
/// Queries of the second network for each of the first.
const RATIOS: [f64; 7] = [64.0, 16.0, 4.0, 1.0, 0.25, 0.0625, 0.015625];
const SCHEDULERS: [&str; 4] = ["double-buffer", "layerweaver", "layerweaver+", "balanced"];
/// Queries of the rarer network in a test: enough for early stopping at the 99th percentile.
const RARE: f64 = 1_000.0;
/// Steps of a search by halves; the range is a factor of 64, so that the last step is 3 %.
const STEPS: u32 = 7;

/// Samples in name only.
struct Names;

impl SampleLibrary for Names {
    fn name(&self) -> &str {
        "names"
    }
    fn total_sample_count(&self) -> usize {
        64
    }
    fn performance_sample_count(&self) -> usize {
        64
    }
    fn load(&self, _: &[SampleIndex]) {}
    fn unload(&self, _: &[SampleIndex]) {}
}

/// Two networks on the NPU of chapter V, under a scheduler.
struct Served {
    deployment: Deployment,
    batching: Batching,
}

impl Served {
    fn new(names: [&str; 2], scheduler: &str, mapping: &str, active: usize) -> Self {
        let tenant =
            |(name, limit): (&str, u64)| Tenant { network: network(name), limit: limit * 1_000 };
        let plan = Plan {
            npu: Hardware::preset("chapter-v").unwrap(),
            mapping: mapping.parse().unwrap(),
            options: Options { batch: 4, ..Options::default() },
            tenants: names.into_iter().zip(LIMITS).map(tenant).collect(),
            scheduler: Named::find(scheduler).unwrap(),
        };
        let batching = Batching { window: 1_000_000_000, active, wake: 500_000_000 };
        Self { deployment: Deployment::new(&plan).unwrap(), batching }
    }

    /// A test of both networks at these rates, for so many seconds: the log of each.
    fn test(&self, rates: [f64; 2], seconds: f64) -> Vec<TestLog> {
        let mut system = Npu::new(self.deployment.clone(), self.batching);
        let tenant = |(at, rate): (usize, f64)| {
            let settings = TestSettings {
                scenario: Scenario::Server,
                mode: TestMode::PerformanceOnly,
                server_target_qps: rate,
                server_target_latency_ns: LIMITS[at],
                min_duration_ms: (seconds * 1e3) as u64,
                min_query_count: 1,
                schedule_rng_seed: 11 + at as u64,
                ..TestSettings::default()
            };
            let plan =
                TestPlan::resolve(&settings, Library { total: 64, performance: 64 }).unwrap();
            TestTenant {
                settings: Settings::from(settings),
                plan,
                library: &Names,
                messages: Vec::new(),
            }
        };
        let tenants: Vec<_> = rates.into_iter().enumerate().map(tenant).collect();
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        play_test(&mut driver, &tenants, Keep::Every, &mut |_| {})
    }

    /// Whether the verdict on both is that they are served.
    fn holds(&self, rates: [f64; 2]) -> bool {
        let seconds = RARE / rates[0].min(rates[1]);
        self.test(rates, seconds).iter().all(|log| {
            let run = log.runs().next().unwrap();
            judge(&Metrics::of(&run.record, &run.plan), &run.plan, run.ended).verdict
                == Verdict::Valid
        })
    }

    /// The highest rate of both together that is held, queries/s; 0 if none is in a range of 64.
    fn peak(&self, ratio: f64) -> f64 {
        let split = |rate: f64| [rate / (1.0 + ratio), rate * ratio / (1.0 + ratio)];
        // No scheduler can do more than keep the busier resource busy with full batches.
        let passes = self.deployment.largest();
        let batches = split(1.0).map(|rate| rate / 4.0);
        let [compute, memory] = load(&passes, &batches);
        let (mut low, mut high) = (0.0, 1.0 / compute.max(memory));
        let least = high / 64.0;
        for _ in 0..STEPS {
            let middle = if low == 0.0 { (least * high).sqrt() } else { f64::sqrt(low * high) };
            if self.holds(split(middle)) { low = middle } else { high = middle }
        }
        low
    }
}

/// Prints the figures.
pub fn run(asked: &Asked) {
    ten_minutes(asked);
    violations(asked);
    grid(asked);
}

/// Ten minutes of 1,000 queries a second, from the start of the test to its logs.
fn ten_minutes(asked: &Asked) {
    let name = "npu.ten_minute_server_seconds";
    if !asked.wants(name) {
        return;
    }
    let served = Served::new(["RN", "BB"], "balanced", "kcp+1:128", 16);
    let seconds = if asked.quick { 10.0 } else { 600.0 };
    let clock = Clock::start();
    let queries: usize = served
        .test([800.0, 200.0], seconds)
        .iter()
        .map(|log| log.runs().next().unwrap().record.completed_at.len())
        .sum();
    let took = clock.now() as f64 / SECOND as f64;
    let unit = format!(
        "s for {seconds} s of RN at 800 and BB at 200 queries/s, {queries} queries, one thread"
    );
    figure(name, took, None, None, &unit, "");
}

/// RN at 800 and BB at 200 queries a second.
fn violations(asked: &Asked) {
    let name = "npu.rn800_bb200_violation_percent";
    if !asked.wants(name) {
        return;
    }
    let seconds = if asked.quick { 5.0 } else { 120.0 };
    let late = |scheduler: &str, mapping: &str| {
        let served = Served::new(["RN", "BB"], scheduler, mapping, 16);
        let share = |log: &TestLog| {
            let run = log.runs().next().unwrap();
            let metrics = Metrics::of(&run.record, &run.plan);
            100.0 * metrics.over.latency as f64 / metrics.issued_samples() as f64
        };
        served.test([800.0, 200.0], seconds).iter().map(share).fold(0.0, f64::max)
    };
    let mapping = "kcp+1:128";
    let others =
        SCHEDULERS[..3].iter().map(|name| format!(", \"{name}\": {:.3}", late(name, mapping)));
    let mut more: String = others.collect();
    more += &format!(", \"balanced_kcp+1:64\": {:.3}", late("balanced", "kcp+1:64"));
    let ours = late("balanced", mapping);
    let unit = format!(
        "percent of queries over their limit, of the network with more; {mapping}, {SEQ} tokens, batches to 4"
    );
    figure(name, ours, None, None, &unit, &more);
}

/// A point of the grid: two networks, and how many queries of the second come for each of the first.
#[derive(Clone, Copy)]
struct Point {
    names: [&'static str; 2],
    ratio: f64,
}

/// Rates that are held in all points, by all schedulers, on all cores.
fn grid(asked: &Asked) {
    let [seconds, won] = ["npu.grid_seconds", "npu.grid_points_won"];
    if !asked.wants(seconds) && !asked.wants(won) {
        return;
    }
    let ratios: &[f64] = if asked.quick { &RATIOS[3..4] } else { &RATIOS };
    let pairs = COMPUTE.iter().flat_map(|a| MEMORY.iter().map(move |b| [*a, *b]));
    let pairs = pairs.take(if asked.quick { 1 } else { usize::MAX });
    let points: Vec<Point> =
        pairs.flat_map(|names| ratios.iter().map(move |&ratio| Point { names, ratio })).collect();
    let clock = Clock::start();
    let next = AtomicUsize::new(0);
    let held = Mutex::new(vec![[0.0; SCHEDULERS.len()]; points.len()]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(at / SCHEDULERS.len()) else { return };
                    let scheduler = at % SCHEDULERS.len();
                    let served = Served::new(point.names, SCHEDULERS[scheduler], "kcp+1", 4);
                    let peak = served.peak(point.ratio);
                    held.lock().unwrap()[at / SCHEDULERS.len()][scheduler] = peak;
                }
            });
        }
    });
    let took = clock.now() as f64 / SECOND as f64;
    let held = held.into_inner().unwrap();
    for (point, rates) in points.iter().zip(&held) {
        eprintln!("{}+{} 1:{} {rates:.0?}", point.names[0], point.names[1], point.ratio);
    }
    if asked.wants(seconds) {
        let unit = format!(
            "s for peaks of {} points and {} schedulers, all cores",
            points.len(),
            SCHEDULERS.len()
        );
        figure(seconds, took, None, None, &unit, "");
    }
    if asked.wants(won) {
        // A step of the search is 3 %: equal.
        let best = |rates: &[f64; 4]| rates.iter().copied().fold(0.0, f64::max);
        let wins = held.iter().filter(|rates| rates[3] >= 0.97 * best(rates)).count();
        let over = |at: usize| {
            let both = held.iter().filter(|rates| rates[at] > 0.0 && rates[3] > 0.0);
            let logs: Vec<f64> = both.map(|rates| (rates[3] / rates[at]).ln()).collect();
            (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
        };
        let more = format!(
            ", \"over_double_buffer\": {:.3}, \"over_layerweaver\": {:.3}, \"over_layerweaver_plus\": {:.3}",
            over(0),
            over(1),
            over(2)
        );
        let share = wins as f64 / points.len() as f64;
        figure(
            won,
            share,
            None,
            None,
            "share of points in which no other scheduler holds a higher rate",
            &more,
        );
    }
}
