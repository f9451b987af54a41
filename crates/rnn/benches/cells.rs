//! Times layers for `bench/rnn`, which measures other libraries in turn with it.
//!
//! It reads commands from stdin and answers each with a JSON line on stdout:
//! - `open CELL INPUTS UNITS BATCH STEPS PRECISION FOLDER` reads weights and input from the folder
//!   (`w`, `u`, `b`, `c`, `x`: raw `f32`, gates as in `dyno_rnn::Cell`), tunes a plan, writes
//!   the output to `y`, and reports the choice, the tuning time and the roofline;
//! - `time SECONDS` reports the median of a call in milliseconds and its number of allocations.
//!
//! Without `serve` it does both once for a small layer. With `isa` it only prints the name of the
//! instruction set.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::alloc::System;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use dyno_kernels::{Isa, Precision, Team};
use dyno_rnn::calibrate::calibrate;
use dyno_rnn::cost::{LayerShape, roofline};
use dyno_rnn::load::LoadMeter;
use dyno_rnn::machine::Machine;
use dyno_rnn::tuner::{Constraints, Effort, Goal, tune};
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Setup for all layers.
struct Bench {
    isa: Isa,
    machine: Machine,
    team: Team,
}

/// An open layer.
struct OpenLayer {
    sequence: Sequence,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Bench {
    fn new() -> Self {
        let isa = Isa::best();
        let described = Machine::detect(isa);
        let mut team = Team::with_workers(described.cores);
        let load = LoadMeter::start();
        let machine = calibrate(&described, isa, &mut team).expect("programs that run");
        load.warning().inspect(|warning| eprintln!("{warning}"));
        Self { isa, machine, team }
    }

    /// Measures the median of a call in milliseconds, and its allocations.
    fn time(&mut self, open: &mut OpenLayer, budget: Duration) -> Value {
        let mut times = Vec::with_capacity(MOST);
        let allocated = Region::new(ALLOCATED);
        let end = Instant::now() + budget;
        while times.len() < 3 || (Instant::now() < end && times.len() < MOST) {
            let start = Instant::now();
            open.sequence
                .run(&mut self.team, &open.input, &mut open.output)
                .expect("sizes that fit");
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let stats = allocated.change();
        let allocations = (stats.allocations + stats.reallocations) as f64 / times.len() as f64;
        times.sort_by(f64::total_cmp);
        json!({"ms": times[times.len() / 2], "calls": times.len(), "allocations": allocations})
    }

    fn open(&mut self, words: &[&str]) -> (OpenLayer, Value) {
        let [cell, inputs, units, batch, steps, precision, folder] = words else {
            panic!("open CELL INPUTS UNITS BATCH STEPS PRECISION FOLDER")
        };
        let whole = |word: &str| word.parse::<usize>().expect("a whole number");
        let (cell, folder) =
            (if *cell == "lstm" { Cell::Lstm } else { Cell::Gru }, Path::new(folder));
        let weights = Weights {
            input: numbers(folder, "w"),
            state: numbers(folder, "u"),
            input_bias: numbers(folder, "b"),
            state_bias: numbers(folder, "c"),
        };
        let (inputs, units, directions) = (whole(inputs), whole(units), Directions::Forward);
        let layer = Layer::new(cell, inputs, units, directions, vec![weights])
            .expect("weights of this size");
        let Self { isa, machine, team } = self;
        let (batch, steps, threads) = (whole(batch), whole(steps), machine.cores);
        let (base, forced) = (base(precision), Constraints::default());
        let goal = Goal { layer: &layer, batch, steps, base, forced, threads };
        let packed = goal.pack();
        let start = Instant::now();
        let ranking =
            tune(&goal, &packed, machine, *isa, team, Effort::default()).expect("a plan that runs");
        let tuned = start.elapsed().as_secs_f64();
        let choice = ranking[0].choice;
        let sequence = Sequence::from_packed(&layer, &packed, batch, &choice, *isa)
            .expect("a plan that holds");
        let output = vec![0.0; steps * batch * layer.outputs()];
        let mut open = OpenLayer { sequence, input: numbers(folder, "x"), output };
        self.time(&mut open, Duration::ZERO);
        let bytes: Vec<u8> = open.output.iter().flat_map(|x| x.to_le_bytes()).collect();
        std::fs::write(folder.join("y"), bytes).expect("the folder is there");
        let Choice { chunk, rows, units, .. } = choice;
        let shape = LayerShape::from_layer(&layer, batch, steps);
        let least = roofline(&shape, base.precision, &self.machine, threads);
        let told = json!({
            "choice": {"chunk": chunk, "rows": rows, "units": units},
            "tuned_s": tuned,
            "predicted_ms": ranking[0].predicted.ns() / 1e6,
            "roofline_ms": least / 1e6,
        });
        (open, told)
    }
}

/// Maximum calls of a measurement; more do not improve the median.
const MOST: usize = 100_000;

/// Returns the precision with this name, and activations of matching accuracy.
fn base(precision: &str) -> Choice {
    Choice::one_worker(match precision {
        "fp32" => Precision::F32,
        "bf16" => Precision::Bf16,
        "int8" => Precision::Int8,
        other => panic!("{other} is no precision"),
    })
}

fn numbers(folder: &Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(folder.join(name)).expect("a file of the one who asks");
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

/// Opens and times a small layer.
fn once() {
    let folder = std::env::temp_dir().join(format!("dyno-cells-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary files");
    for (name, count) in [("w", 12), ("u", 16 * 3), ("b", 12), ("c", 12), ("x", 6)] {
        let bytes: Vec<u8> = (0..count).flat_map(|at| (at as f32 / 40.0).to_le_bytes()).collect();
        std::fs::write(folder.join(name), bytes).expect("temporary files");
    }
    let name = folder.display().to_string();
    let mut bench = Bench::new();
    let (mut open, told) = bench.open(&["gru", "1", "4", "2", "3", "fp32", name.as_str()]);
    assert!(open.output.iter().all(|x| (-1.0..=1.0).contains(x)), "{:?}", open.output);
    let timed = bench.time(&mut open, Duration::from_millis(1));
    assert_eq!(timed["allocations"], 0.0);
    println!("{told}\n{timed}");
    std::fs::remove_dir_all(&folder).expect("temporary files");
}

fn main() {
    if std::env::args().any(|word| word == "isa") {
        return println!("{}", json!({"isa": Isa::best().name()}));
    }
    if !std::env::args().any(|word| word == "serve") {
        return once();
    }
    let (mut bench, mut opened) = (Bench::new(), None);
    eprintln!("{}", bench.machine);
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("whoever asks writes text");
        let told = match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["open", words @ ..] => {
                let (open, told) = bench.open(words);
                opened = Some(open);
                told
            }
            ["time", seconds] => {
                let budget = Duration::from_secs_f64(seconds.parse().expect("a number"));
                bench.time(opened.as_mut().expect("open comes first"), budget)
            }
            other => panic!("{other:?} is no question"),
        };
        println!("{told}");
        std::io::stdout().flush().expect("whoever asks reads");
    }
}
