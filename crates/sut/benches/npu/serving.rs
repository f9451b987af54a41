//! Pairs of networks on a simulated NPU in the Server scenario (Figures V.5 and V.6).

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dyno_loadgen::clock::{Clock, SECOND};
use dyno_npu::hardware::Npu;
use dyno_npu::lowering::LoweringOptions;
use dyno_npu::schedule::NamedScheduler;
use dyno_npu::serve::BatchingPolicy;
use dyno_npu::setting::Setting;
use dyno_sut::npu::service::{NpuService, PeakSearch};

use super::streams::SEQ;
use super::{Arguments, figure};

/// Latency limits of chapter V in ns: vision and language.
const LIMITS: [u64; 2] = [15_000_000, 130_000_000];
const COMPUTE: [&str; 3] = ["IC", "MN", "RN"];
const MEMORY: [&str; 3] = ["BB", "BL", "XL"];
/// Ratio of the second network's queries to the first network's queries.
const RATIOS: [f64; 7] = [64.0, 16.0, 4.0, 1.0, 0.25, 0.0625, 0.015625];
const SCHEDULERS: [&str; 4] = ["double-buffer", "layerweaver", "layerweaver+", "balanced"];
/// Queries of the network with the lower rate in a test: enough for early stopping at the 99th
/// percentile.
const RARE: f64 = 1_000.0;
/// Steps of the bisection. The range is a factor of 64, so that the last step is 0.8 %.
const STEPS: u32 = 9;

/// Returns two networks on the NPU of chapter V with a scheduler.
fn served(names: [&str; 2], scheduler: &str, mapping: &str, active: usize) -> NpuService {
    let setting = Setting {
        npu: Npu::preset("chapter-v").unwrap(),
        mapping: mapping.parse().unwrap(),
        seq: SEQ,
        options: LoweringOptions { batch: 4, ..LoweringOptions::default() },
    };
    let limits = LIMITS.map(|limit| limit * 1_000);
    let networks = [(names[0], limits[0]), (names[1], limits[1])];
    let deployment = setting.deploy(&networks, NamedScheduler::find(scheduler).unwrap()).unwrap();
    let batching = BatchingPolicy { window: 1_000_000_000, active, wake: 500_000_000 };
    NpuService { deployment, batching }
}

/// Prints the figures.
pub fn run(arguments: &Arguments) {
    ten_minutes(arguments);
    violations(arguments);
    grid(arguments);
}

/// Runs ten minutes of 1,000 queries a second, from the start of the test to its logs.
fn ten_minutes(arguments: &Arguments) {
    let name = "npu.ten_minute_server_seconds";
    if !arguments.wants(name) {
        return;
    }
    let served = served(["RN", "BB"], "balanced", "kcp+1:128", 16);
    let seconds = if arguments.quick { 10.0 } else { 600.0 };
    let clock = Clock::start();
    let queries: usize = served
        .test(&[800.0, 200.0], seconds)
        .unwrap()
        .iter()
        .map(|log| log.runs().next().unwrap().record.completed_at.len())
        .sum();
    let took = clock.now() as f64 / SECOND as f64;
    let unit = format!(
        "s for {seconds} s of RN at 800 and BB at 200 queries/s, {queries} queries, one thread"
    );
    figure(name, took, None, None, &unit, "");
}

/// Runs RN at 800 and BB at 200 queries a second.
fn violations(arguments: &Arguments) {
    let name = "npu.rn800_bb200_violation_percent";
    if !arguments.wants(name) {
        return;
    }
    let seconds = if arguments.quick { 5.0 } else { 120.0 };
    let late = |scheduler: &str, mapping: &str| {
        let served = served(["RN", "BB"], scheduler, mapping, 16);
        let late = served.late_shares(&[800.0, 200.0], seconds).unwrap();
        100.0 * late.into_iter().fold(0.0, f64::max)
    };
    let mapping = "kcp+1:128";
    let others =
        SCHEDULERS[..3].iter().map(|name| format!(", \"{name}\": {:.3}", late(name, mapping)));
    let mut more: String = others.collect();
    more += &format!(", \"balanced_kcp+1:64\": {:.3}", late("balanced", "kcp+1:64"));
    let ours = late("balanced", mapping);
    let unit = format!(
        "percent of queries over their limit, of the network with more; {mapping}, {SEQ} tokens, \
         batches to 4"
    );
    figure(name, ours, None, None, &unit, &more);
}

/// Point of the grid: two networks, and the ratio of the second network's queries to the first
/// network's.
#[derive(Clone, Copy)]
struct Point {
    names: [&'static str; 2],
    ratio: f64,
}

/// Measures the sustained rates of all schedulers at all points, on all cores.
fn grid(arguments: &Arguments) {
    let [seconds, won] = ["npu.grid_seconds", "npu.grid_points_won"];
    if !arguments.wants(seconds) && !arguments.wants(won) {
        return;
    }
    let ratios: &[f64] = if arguments.quick { &RATIOS[3..4] } else { &RATIOS };
    let pairs = COMPUTE.iter().flat_map(|a| MEMORY.iter().map(move |b| [*a, *b]));
    let pairs = pairs.take(if arguments.quick { 1 } else { usize::MAX });
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
                    let served = served(point.names, SCHEDULERS[scheduler], "kcp+1", 4);
                    let search = PeakSearch { queries: RARE, steps: STEPS };
                    let peak = served.peak_rate(&[1.0, point.ratio], search).unwrap();
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
    if arguments.wants(seconds) {
        let unit = format!(
            "s for peaks of {} points and {} schedulers, all cores",
            points.len(),
            SCHEDULERS.len()
        );
        figure(seconds, took, None, None, &unit, "");
    }
    if arguments.wants(won) {
        // Rates within one step of the search (0.8 %) count as equal.
        let best = |rates: &[f64; 4]| rates.iter().copied().fold(0.0, f64::max);
        let wins = held.iter().filter(|rates| rates[3] >= 0.99 * best(rates)).count();
        let over = |at: usize| {
            let both = held.iter().filter(|rates| rates[at] > 0.0 && rates[3] > 0.0);
            let logs: Vec<f64> = both.map(|rates| (rates[3] / rates[at]).ln()).collect();
            (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
        };
        let more = format!(
            ", \"over_double_buffer\": {:.3}, \"over_layerweaver\": {:.3}, \
             \"over_layerweaver_plus\": {:.3}",
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
