//! Does the tuner find the best plan, and does the closed form rank plans as clocks do? For each cell of
//! DeepCPU's Table 1, the tuner's choice against a sweep of all choices, one JSON line each.
//!
//! `ratio` is the time of the tuner's choice in the sweep over the sweep's best; `top3` whether the
//! sweep's best (or one within 3 % of it) is among the first three by prediction. `SECONDS` is the
//! time of one sweep.

use std::time::{Duration, Instant};

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_rnn::calibrate::calibrate;
use dyno_rnn::explain::explain;
use dyno_rnn::machine::Machine;
use dyno_rnn::tuner::{Effort, Forced, Goal, Ranked, rank, tune};
use dyno_rnn::{Cell, Choice, Directions, Layer, Weights};

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

fn measured(ranked: &Ranked) -> f64 {
    ranked.measured_ns.unwrap_or(f64::INFINITY)
}

#[expect(clippy::disallowed_methods, reason = "no query is measured: the tuner is")]
fn main() {
    // `cargo bench` says so; `cargo test --benches` does not, and gets one small cell.
    let all = std::env::args().any(|argument| argument == "--bench");
    let seconds = std::env::var("SECONDS").ok().and_then(|text| text.parse().ok());
    let sweep = Duration::from_secs_f64(seconds.unwrap_or(if all { 2.0 } else { 0.02 }));
    let isa = Isa::best();
    let described = Machine::detect(isa);
    let mut team = Team::of(described.cores);
    let machine = calibrate(&described, isa, &mut team).expect("programs that run");
    eprintln!("{machine}\n{:?} {:?} {:?}", machine.bandwidths, machine.meetings, machine.cells);
    let (mut worst, mut found, mut count) = (1.0_f64, 0, 0);
    for cell in [Cell::Lstm, Cell::Gru] {
        for (inputs, units, batch, steps) in &ROWS[..if all { ROWS.len() } else { 1 }] {
            let layer = layer(cell, *inputs, *units);
            let forced = Forced::default();
            let (batch, steps, threads) = (*batch, *steps, machine.cores);
            let goal = Goal { layer: &layer, batch, steps, base: BASE, forced, threads };
            let packed = goal.pack();
            let start = Instant::now();
            let tuned =
                tune(&goal, &packed, &machine, isa, &mut team, Effort::default()).expect("plans");
            let took = start.elapsed().as_secs_f64();
            let every = Effort { choices: usize::MAX, time: sweep };
            let swept = tune(&goal, &packed, &machine, isa, &mut team, every).expect("plans");
            let chosen = swept.iter().find(|ranked| ranked.choice == tuned[0].choice);
            let ratio = chosen.map_or(f64::NAN, measured) / measured(&swept[0]);
            let near = |choice: &Choice| {
                let in_sweep = swept.iter().find(|ranked| ranked.choice == *choice);
                in_sweep.is_some_and(|ranked| measured(ranked) <= 1.03 * measured(&swept[0]))
            };
            let top3 = rank(&goal, &machine).iter().take(3).any(|ranked| near(&ranked.choice));
            // The sweep's time was up before the tuner's choice had its turn: nothing is known.
            let known = ratio.is_finite();
            worst = if known { worst.max(ratio) } else { worst };
            (found, count) = (found + usize::from(top3), count + 1);
            let ratio = if known { format!("{ratio:.3}") } else { "null".to_owned() };
            let Choice { chunk, rows, units: by_units, .. } = tuned[0].choice;
            println!(
                "{{\"name\":\"rnn.tuner.{}.{inputs}x{units}x{batch}x{steps}\",\"ratio\":{ratio},\"top3\":{top3},\"chunk\":{chunk},\"rows\":{rows},\"units\":{by_units},\"predicted_ms\":{:.4},\"measured_ms\":{:.4},\"tuned_s\":{took:.3}}}",
                if cell == Cell::Lstm { "lstm" } else { "gru" },
                tuned[0].predicted.ns() / 1e6,
                measured(&tuned[0]) / 1e6,
            );
            if !all {
                print!("{}", explain(&goal, &tuned, &machine).expect("a ranking"));
            }
        }
    }
    println!(
        "{{\"name\":\"rnn.tuner_against_sweep\",\"value\":{worst:.3},\"top3\":{found},\"cells\":{count}}}"
    );
    assert!(count > 0 && worst >= 1.0, "a choice of the tuner is among all choices");
}
