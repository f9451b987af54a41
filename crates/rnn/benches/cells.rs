//! Milliseconds of the cells of DeepCPU's Table 1, on one worker and on two.

use std::time::Instant;

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights};

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

fn main() {
    let chunk: usize = std::env::var("CHUNK").ok().and_then(|c| c.parse().ok()).unwrap_or(16);
    for cell in [Cell::Lstm, Cell::Gru] {
        for (inputs, units, batch, steps) in ROWS {
            let outputs = cell.gates() * units;
            let mut state = 1_u32;
            let mut numbers = |count: usize| -> Vec<f32> {
                (0..count)
                    .map(|_| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) / (units as f32).sqrt()
                    })
                    .collect()
            };
            let weights = Weights {
                input: numbers(outputs * inputs),
                state: numbers(outputs * units),
                input_bias: numbers(outputs),
                state_bias: numbers(outputs),
            };
            let layer =
                Layer::new(cell, inputs, units, Directions::Forward, vec![weights]).expect("fits");
            let input = numbers(steps * batch * inputs);
            let mut output = vec![0.0; steps * batch * units];
            let flops = 2.0 * (outputs * (inputs + units) * batch * steps) as f64;
            print!("{cell:?} {inputs},{units},{batch},{steps}");
            for (rows, by_units) in [(1, 1), (1, 2), (2, 1)] {
                if rows > batch {
                    continue;
                }
                let choice = Choice {
                    precision: Precision::F32,
                    tanh: Tanh::Fitted98,
                    chunk: chunk.min(steps),
                    sides: 1,
                    rows,
                    units: by_units,
                };
                let mut team = Team::of(choice.workers());
                let mut sequence =
                    Sequence::new(&layer, batch, &choice, Isa::best()).expect("a plan");
                let mut times = Vec::new();
                let end = Instant::now() + std::time::Duration::from_millis(300);
                while times.len() < 5 || (Instant::now() < end && times.len() < 2000) {
                    let start = Instant::now();
                    sequence.run(&mut team, &input, &mut output).expect("fits");
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                }
                times.sort_by(f64::total_cmp);
                let median = times[times.len() / 2];
                print!("  {rows}x{by_units}: {median:.4} ms {:.0} GF/s", flops / median / 1e6);
            }
            println!();
        }
    }
}
