//! Compares this processor's instruction sets on one thread: LSTM layers in every precision.
//!
//! `cargo bench -p dyno-rnn --bench isas [-- PART... isa=NAME,NAME steps=N seconds=N]` prints a JSON
//! line per layer with the least milliseconds of a call for each instruction set, and the ratio of
//! the second to the first. Instruction sets take turns, call by call, so that other processes slow
//! all of them alike. A layer runs with the chunk that is fastest for each instruction set. A part
//! selects the lines whose names contain it.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_rnn::plan::PackedWeights;
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights};
use serde_json::json;

/// Steps whose products with the input run at once.
const CHUNKS: [usize; 3] = [1, 8, 32];

/// Rows of a batch.
const BATCHES: [usize; 10] = [1, 2, 3, 4, 6, 8, 10, 16, 20, 32];

/// A layer, and how long to measure it.
struct Subject {
    precision: Precision,
    units: usize,
    batch: usize,
    steps: usize,
    budget: Duration,
}

/// Numbers between -0.5 and 0.5 that do not repeat soon.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at.wrapping_mul(2_654_435_761) % 1009) as f32 / 1008.0 - 0.5).collect()
}

fn layer(units: usize) -> Layer {
    let scaled = |count: usize| {
        let scale = 2.0 / (units as f32).sqrt();
        numbers(count).into_iter().map(|x| x * scale).collect::<Vec<f32>>()
    };
    let weights = Weights {
        input: scaled(4 * units * units),
        state: scaled(4 * units * units),
        input_bias: scaled(4 * units),
        state_bias: scaled(4 * units),
    };
    Layer::new(Cell::Lstm, units, units, Directions::Forward, vec![weights])
        .expect("weights of this size")
}

impl Subject {
    /// Returns the least milliseconds of a call for each instruction set.
    fn measure(&self, isas: &[Isa]) -> Vec<f64> {
        let layer = layer(self.units);
        let packed = [PackedWeights::new(&layer, 0, self.precision)];
        let (precision, tanh) = (self.precision, Tanh::Fitted76);
        let base = Choice { precision, tanh, chunk: 1, sides: 1, rows: 1, units: 1 };
        let mut sequences = Vec::new();
        for (at, isa) in isas.iter().enumerate() {
            for chunk in CHUNKS.into_iter().filter(|chunk| *chunk <= self.steps) {
                let choice = Choice { chunk, ..base };
                let sequence = Sequence::from_packed(&layer, &packed, self.batch, &choice, *isa);
                sequences.push((at, sequence.expect("a plan of one worker")));
            }
        }
        let input = numbers(self.steps * self.batch * self.units);
        let mut output = vec![0.0; input.len()];
        let mut team = Team::with_workers(1);
        let mut least = vec![f64::INFINITY; isas.len()];
        let (end, mut rounds) = (Instant::now() + self.budget, 0);
        while rounds < 3 || Instant::now() < end {
            for (at, sequence) in &mut sequences {
                let start = Instant::now();
                sequence.run(&mut team, &input, &mut output).expect("sizes that fit");
                least[*at] = least[*at].min(start.elapsed().as_secs_f64() * 1e3);
            }
            rounds += 1;
        }
        least
    }
}

/// Returns the values of the last argument `NAME=VALUES`.
fn values<'a>(words: &'a [String], name: &str) -> Option<Vec<&'a str>> {
    let found = words.iter().rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found.map(|values| values.split(',').collect())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = words.iter().any(|word| word == "--bench");
    let parts: Vec<&String> = words.iter().filter(|w| !w.contains(['=', '-'])).collect();
    let isas = match values(&words, "isa") {
        Some(names) => names.into_iter().map(|name| Isa::named(name).expect("a name")).collect(),
        None => Isa::all().into_iter().filter(|isa| *isa != Isa::scalar()).collect::<Vec<_>>(),
    };
    let number = |name: &str, otherwise: f64| {
        let found = values(&words, name).map(|found| found[0].parse().expect("a number"));
        found.unwrap_or(if is_bench { otherwise } else { 0.0 })
    };
    let (steps, seconds) = (number("steps", 100.0).max(2.0) as usize, number("seconds", 5.0));
    let sizes: &[usize] = if is_bench { &[64, 128, 256, 1024] } else { &[32] };
    for precision in [Precision::Bf16, Precision::Int8, Precision::F32] {
        for (units, batch) in sizes.iter().flat_map(|units| BATCHES.map(|batch| (*units, batch))) {
            let name = format!("rnn.isas.{precision:?}.lstm.{units}x{units}x{batch}x{steps}");
            let name = name.to_lowercase();
            if !parts.is_empty() && !parts.iter().any(|part| name.contains(*part)) {
                continue;
            }
            let budget = Duration::from_secs_f64(seconds);
            let found = Subject { precision, units, batch, steps, budget }.measure(&isas);
            let ms = isas.iter().zip(&found).map(|(isa, ms)| (isa.name().to_owned(), json!(ms)));
            let ms: serde_json::Map<_, _> = ms.collect();
            let ratio = found.get(1).map(|second| second / found[0]);
            println!("{}", json!({"name": name, "unit": "ms", "ms": ms, "ratio": ratio}));
        }
    }
}
