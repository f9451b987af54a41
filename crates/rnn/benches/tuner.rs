//! Compares the tuner's choice with a sweep of all choices, and the cost model's ranking with
//! measurements, for each cell of DeepCPU's Table 1; one JSON line each.
//!
//! `ratio` is the time of the tuner's choice in the sweep divided by that of the sweep's best;
//! `agrees` whether the sweep's best (or a choice within 3 % of it) is among the first three by
//! prediction; `by_cores` the speedup of the best plan over the best plan of one worker. Summaries
//! follow. `SECONDS` is the time of one sweep.

use std::time::{Duration, Instant};

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_rnn::calibrate::calibrate;
use dyno_rnn::explain::explain;
use dyno_rnn::load::LoadMeter;
use dyno_rnn::machine::Machine;
use dyno_rnn::tuner::{Constraints, Effort, Goal, RankedChoice, rank, tune};
use dyno_rnn::{Cell, Choice, Directions, Layer, Weights};
use serde_json::json;

const ROWS: [(usize, usize, usize, usize); 15] = [
    (64, 64, 1, 100),
    (256, 64, 1, 100),
    (1024, 64, 1, 100),
    (64, 256, 1, 100),
    (64, 1024, 1, 100),
    (1024, 1024, 1, 100),
    (256, 256, 1, 1),
    (256, 256, 1, 10),
    (256, 256, 1, 100),
    (64, 64, 10, 100),
    (64, 64, 20, 100),
    (256, 256, 10, 100),
    (256, 256, 20, 100),
    (1024, 1024, 10, 100),
    (1024, 1024, 20, 100),
];

const BASE: Choice = Choice {
    precision: Precision::F32,
    tanh: Tanh::Fitted98,
    chunk: 1,
    sides: 1,
    rows: 1,
    units: 1,
};

fn layer(cell: Cell, inputs: usize, units: usize) -> Layer {
    let mut state = 1_u32;
    let mut numbers = |count: usize| -> Vec<f32> {
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) / (units as f32).sqrt()
        };
        (0..count).map(next).collect()
    };
    let outputs = cell.gates() * units;
    let weights = Weights {
        input: numbers(outputs * inputs),
        state: numbers(outputs * units),
        input_bias: numbers(outputs),
        state_bias: numbers(outputs),
    };
    Layer::new(cell, inputs, units, Directions::Forward, vec![weights])
        .expect("weights of this size")
}

fn measured(ranked: &RankedChoice) -> f64 {
    ranked.measured_ns.unwrap_or(f64::INFINITY)
}

/// Result for one cell.
struct TunerResult {
    /// Time of the tuner's choice divided by that of the sweep's best, if the sweep timed it.
    ratio: Option<f64>,
    /// Whether one of the first three by prediction is within 3 % of the sweep's best.
    agrees: bool,
    /// Seconds of tuning.
    took: f64,
    /// Speedup over the best plan of one worker, if the weights are large enough.
    by_cores: Option<f64>,
}

/// Choices within this factor of the best count as equal: measurements are no more precise.
const ALIKE: f64 = 1.03;
/// Bytes of the state's weights from which on a second core must help.
const LARGE: usize = 512 << 10;

/// Setup for all cells.
struct Bench {
    isa: Isa,
    machine: Machine,
    team: Team,
    sweep: Duration,
    explains: bool,
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "no query is measured: the tuner is")]
    fn cell(&mut self, cell: Cell, row: (usize, usize, usize, usize)) -> TunerResult {
        let (inputs, units, batch, steps) = row;
        let Self { isa, machine, team, sweep, explains } = self;
        let layer = layer(cell, inputs, units);
        let (forced, threads) = (Constraints::default(), machine.cores);
        let goal = Goal { layer: &layer, batch, steps, base: BASE, forced, threads };
        let packed = goal.pack();
        let start = Instant::now();
        let tuned = tune(&goal, &packed, machine, *isa, team, Effort::default()).expect("plans");
        let took = start.elapsed().as_secs_f64();
        let every = Effort { choices: usize::MAX, time: *sweep };
        let swept = tune(&goal, &packed, machine, *isa, team, every).expect("plans");
        let best = measured(&swept[0]);
        let time_of =
            |choice: &Choice| swept.iter().find(|ranked| ranked.choice == *choice).map(measured);
        // If the sweep did not time the tuner's choice, there is no ratio.
        let ratio = time_of(&tuned[0].choice).map(|ns| ns / best).filter(|ratio| ratio.is_finite());
        let first = rank(&goal, machine);
        let agrees = first
            .iter()
            .take(3)
            .any(|ranked| time_of(&ranked.choice).is_some_and(|ns| ns <= ALIKE * best));
        let alone = swept.iter().filter(|ranked| ranked.choice.workers() == 1).map(measured);
        let alone = alone.min_by(f64::total_cmp).filter(|ns| ns.is_finite());
        let is_large = 4 * cell.gates() * units * units >= LARGE && threads > 1;
        let by_cores = alone.filter(|_| is_large).map(|ns| ns / best);
        let choice = |ranked: &RankedChoice| {
            let Choice { chunk, rows, units, .. } = ranked.choice;
            let [predicted, measured] =
                [ranked.predicted.ns(), measured(ranked)].map(|ns| ns / 1e6);
            json!({"chunk": chunk, "rows": rows, "units": units, "predicted_ms": predicted, "measured_ms": measured})
        };
        let kind = if cell == Cell::Lstm { "lstm" } else { "gru" };
        println!(
            "{}",
            json!({
                "name": format!("rnn.tuner.{kind}.{inputs}x{units}x{batch}x{steps}"),
                "ratio": ratio, "agrees": agrees, "tuned_s": took, "by_cores": by_cores,
                "tuned": choice(&tuned[0]), "swept": choice(&swept[0]),
                "first": choice(&RankedChoice { measured_ns: time_of(&first[0].choice), ..first[0] }),
            })
        );
        if *explains {
            eprint!("{}", explain(&goal, &tuned, machine).expect("a ranking"));
        }
        TunerResult { ratio, agrees, took, by_cores }
    }
}

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` does not and runs one small cell.
    let all = std::env::args().any(|argument| argument == "--bench");
    let seconds = std::env::var("SECONDS").ok().and_then(|text| text.parse().ok());
    let sweep = Duration::from_secs_f64(seconds.unwrap_or(if all { 2.0 } else { 0.02 }));
    let isa = Isa::best();
    let described = Machine::detect(isa);
    let mut team = Team::with_workers(described.cores);
    let load = LoadMeter::start();
    let machine = calibrate(&described, isa, &mut team).expect("programs that run");
    eprintln!("{machine}\n{:?} {:?} {:?}", machine.bandwidths, machine.barriers, machine.cells);
    let mut bench = Bench { isa, machine, team, sweep, explains: !all };
    let mut found = Vec::new();
    for cell in [Cell::Lstm, Cell::Gru] {
        for row in &ROWS[..if all { ROWS.len() } else { 1 }] {
            found.push(bench.cell(cell, *row));
        }
    }
    load.warning().inspect(|warning| eprintln!("{warning}"));
    let ratios: Vec<f64> = found.iter().filter_map(|result| result.ratio).collect();
    let worst = ratios.iter().copied().fold(1.0, f64::max);
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let slowest = found.iter().map(|result| result.took).fold(0.0, f64::max);
    let agree =
        100.0 * found.iter().filter(|result| result.agrees).count() as f64 / found.len() as f64;
    let by_cores = found.iter().filter_map(|result| result.by_cores).min_by(f64::total_cmp);
    let cells = found.len();
    for (name, ours, goal, unit) in [
        ("rnn.tuner_against_sweep", Some(worst), 1.05, "x of the sweep's best, worst cell"),
        ("rnn.tuner_s", Some(slowest), 0.3, "s, slowest cell"),
        ("rnn.ranking_percent", Some(agree), 90.0, "% of cells whose best is predicted"),
        ("rnn.two_cores", by_cores, 1.7, "x one core, worst cell of large weights"),
    ] {
        let geomean = (name == "rnn.tuner_against_sweep").then_some(mean);
        println!(
            "{}",
            json!({"name": name, "ours": ours, "peer": null, "ratio": null, "unit": unit, "goal": goal, "geomean": geomean, "cells": cells})
        );
    }
    assert!(cells > 0 && worst >= 1.0, "a choice of the tuner is among all choices");
}
