//! Pairs of streams that never run dry (Figure IV.10), and the speed of their scheduling.

use dyno_loadgen::clock::{Clock, SECOND};
use dyno_npu::hardware::Npu;
use dyno_npu::lowering::{Granularity, LoweringOptions};
use dyno_npu::profile::Picos;
use dyno_npu::schedule::{NamedScheduler, SCHEDULERS, SchedulerSpec};
use dyno_npu::setting::{Setting, StreamRun, pairs};

use super::{Arguments, figure};

/// The documented setting: that of SPEC section 3.1 where the thesis does not specify one.
pub const SEQ: u64 = 16;
const MAPPING: &str = "kcpx+1:128";
/// Maximum computation time of a tile.
const TILE: Picos = 100_000_000;

fn setting(npu: &str, batch: u64, granularity: Granularity) -> Setting {
    Setting {
        npu: Npu::preset(npu).unwrap(),
        mapping: MAPPING.parse().unwrap(),
        seq: SEQ,
        options: LoweringOptions { batch, granularity, ..LoweringOptions::default() },
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Prints the figures.
pub fn run(arguments: &Arguments) {
    speed(arguments);
    readings(arguments);
    let settings = [
        ("npu.stp_gain.memory_b1_percent", "memory-centric", 1),
        ("npu.stp_gain.compute_b16_percent", "compute-centric", 16),
    ];
    let wanted = ["npu.ours_over_layerweaver_percent", "npu.ours_max_slowdown_ratio"];
    if !settings.iter().map(|setting| setting.0).chain(wanted).any(|name| arguments.wants(name)) {
        return;
    }
    let passes = if arguments.quick { 20 } else { 300 };
    let tiles = Granularity::Tile { bytes: u64::MAX, time: TILE };
    let (mut over, mut over_same, mut slower) = (Vec::new(), Vec::new(), Vec::new());
    for (name, npu, batch) in settings {
        let play = |scheduler: &str, granularity| -> Vec<StreamRun> {
            let setting = setting(npu, batch, granularity);
            let scheduler = NamedScheduler::find(scheduler).unwrap();
            let pairs = pairs().into_iter();
            pairs.map(|pair| setting.simulate(&pair, scheduler, passes).unwrap()).collect()
        };
        let theirs = play("layerweaver", Granularity::Layer);
        let [ours, same, tiled] =
            [("balanced", tiles), ("balanced", Granularity::Layer), ("layerweaver", tiles)]
                .map(|(scheduler, granularity)| play(scheduler, granularity));
        let gain = |played: &[StreamRun]| 100.0 * (mean(played.iter().map(StreamRun::stp)) - 1.0);
        let bound = mean(theirs.iter().map(|played| played.bound(false)));
        let widest = theirs.iter().map(StreamRun::gap).fold(0.0, f64::max);
        let more = format!(
            ", \"ours_with_tiles\": {:.2}, \"ours_same_blocks\": {:.2}, \
             \"layerweaver_with_tiles\": {:.2}, \"bound\": {:.2}, \
             \"gap_percent\": {{\"mean\": {:.2}, \"widest\": {:.2}}}",
            gain(&ours),
            gain(&same),
            gain(&tiled),
            100.0 * (bound - 1.0),
            100.0 * mean(theirs.iter().map(StreamRun::gap)),
            100.0 * widest,
        );
        if arguments.wants(name) {
            let unit = format!(
                "percent of STP over one network at a time, mean of 16 pairs, Layerweaver; \
                 {MAPPING}, {SEQ} tokens, batch {batch}"
            );
            figure(name, gain(&theirs), None, None, &unit, &more);
        }
        for ((theirs, ours), same) in theirs.iter().zip(&ours).zip(&same) {
            over.push(ours.stp() / theirs.stp());
            over_same.push(same.stp() / theirs.stp());
            slower.push(ours.slowdown() / theirs.slowdown());
        }
    }
    let geomean = |values: &[f64]| mean(values.iter().map(|value| value.ln())).exp();
    let percent = |values: &[f64]| 100.0 * (geomean(values) - 1.0);
    if arguments.wants(wanted[0]) {
        let more = format!(", \"same_blocks\": {:.3}", percent(&over_same));
        let unit = "percent of STP over Layerweaver, geometric mean of 32 pairs; ours splits \
                    layers of more than 100 us";
        figure(wanted[0], percent(&over), None, Some(geomean(&over)), unit, &more);
    }
    if arguments.wants(wanted[1]) {
        let unit = "largest slowdown, ours over Layerweaver's, geometric mean of 32 pairs";
        figure(wanted[1], geomean(&slower), Some(1.0), Some(1.0 / geomean(&slower)), unit, "");
    }
}

/// Prints the number of readings of the papers, and the range of Layerweaver's gain over its readings with one option
/// changed.
fn readings(arguments: &Arguments) {
    let name = "npu.readings";
    if !arguments.wants(name) {
        return;
    }
    let passes = if arguments.quick { 5 } else { 300 };
    let setting = setting("memory-centric", 1, Granularity::Layer);
    // Options that remove a rule are ablations and no readings.
    let is_reading = |spec: &SchedulerSpec| {
        ["memory-idle", "starvation", "potential"].iter().all(|key| !spec.reads(key, "off"))
    };
    let all = |named| {
        std::iter::once(SchedulerSpec::from(named))
            .chain(SchedulerSpec::alternatives(named))
            .filter(is_reading)
            .collect::<Vec<_>>()
    };
    let gain = |spec: &SchedulerSpec| {
        let stp = |pair: [&str; 2]| setting.simulate(&pair, *spec, passes).unwrap().stp();
        100.0 * (mean(pairs().into_iter().map(stp)) - 1.0)
    };
    let gains: Vec<f64> =
        all(NamedScheduler::find("layerweaver").unwrap()).iter().map(gain).collect();
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let count: usize = SCHEDULERS.iter().map(|named| all(named).len()).sum();
    let more = format!(
        ", \"layerweaver_gain_percent\": {{\"default\": {:.2}, \"least\": {least:.2}, \"most\": {most:.2}}}",
        gains[0]
    );
    let unit = "named readings that differ in one option, of all schedulers; gain in STP of Layerweaver's on the \
                memory-centric NPU, mean of 16 pairs";
    figure(name, count as f64, None, None, unit, &more);
}

/// Returns the number of blocks scheduled per microsecond for two networks, the best of several
/// rounds.
fn speed(arguments: &Arguments) {
    let name = "npu.blocks_per_us";
    if !arguments.wants(name) {
        return;
    }
    let setting = setting("memory-centric", 1, Granularity::Layer);
    let (rounds, passes) = if arguments.quick { (1, 200) } else { (9, 5_000) };
    let rate = |scheduler: &str| {
        let networks = [("RN", Picos::MAX), ("BB", Picos::MAX)];
        let deployed = setting.deploy(&networks, NamedScheduler::find(scheduler).unwrap()).unwrap();
        let once = || {
            let mut scheduler = deployed.scheduler();
            let clock = Clock::start();
            let played = StreamRun::new(&deployed, scheduler.as_mut(), passes);
            let seconds = clock.now() as f64 / SECOND as f64;
            played.streams.blocks as f64 / seconds / 1e6
        };
        (0..rounds).map(|_| once()).fold(0.0, f64::max)
    };
    let [theirs, ours, plus] = ["layerweaver", "balanced", "round-robin"].map(rate);
    let more = format!(", \"balanced\": {ours:.2}, \"round_robin\": {plus:.2}");
    figure(
        name,
        theirs,
        None,
        None,
        "blocks/us scheduled and timed for RN and BB by Layerweaver, one thread",
        &more,
    );
}
