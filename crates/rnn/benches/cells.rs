//! Times layers for `bench/rnn`, which measures peers in turn with it.
//!
//! Told by lines on stdin, answers each by one on stdout: `open CELL INPUTS UNITS BATCH STEPS PRECISION
//! WORKERS FOLDER` takes weights and input from the folder (`w`, `u`, `b`, `c`, `x`: raw `f32`, gates as
//! in `dyno_rnn::Cell`), times all choices, leaves the output of the best in `y` and answers with it;
//! `time SECONDS` answers with the median of a call in milliseconds and how many there were.
//! Without `serve` it does both once, for a small layer.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights};

/// What is open.
struct Open {
    sequence: Sequence,
    team: Team,
    choice: Choice,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Open {
    fn new(layer: &Layer, batch: usize, choice: Choice, input: &[f32]) -> Self {
        let sequence =
            Sequence::new(layer, batch, &choice, Isa::best()).expect("a plan that holds");
        let steps = input.len() / (batch * layer.inputs());
        Self {
            sequence,
            team: Team::of(choice.workers()),
            choice,
            input: input.to_vec(),
            output: vec![0.0; steps * batch * layer.outputs()],
        }
    }

    /// Median of a call in milliseconds, and calls.
    fn time(&mut self, budget: Duration) -> (f64, usize) {
        let mut times = Vec::new();
        let end = Instant::now() + budget;
        while times.len() < 3 || (Instant::now() < end && times.len() < 100_000) {
            let start = Instant::now();
            self.sequence
                .run(&mut self.team, &self.input, &mut self.output)
                .expect("sizes that fit");
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times.len())
    }
}

fn choices(precision: Precision, batch: usize, steps: usize, workers: usize) -> Vec<Choice> {
    let tanh = match precision {
        Precision::F32 => Tanh::Fitted98,
        Precision::Bf16 => Tanh::Fitted76,
        Precision::Int8 => Tanh::Fitted56,
    };
    let mut all = Vec::new();
    for chunk in [1, 4, 16, 64] {
        for rows in 1..=workers.min(batch) {
            for units in 1..=workers / rows {
                if chunk == 1 || chunk < 4 * steps {
                    all.push(Choice { precision, tanh, chunk, sides: 1, rows, units });
                }
            }
        }
    }
    all
}

/// The fastest of all choices.
fn best(layer: &Layer, batch: usize, input: &[f32], all: &[Choice]) -> Open {
    let steps = input.len() / (batch * layer.inputs());
    let timed = all.iter().map(|choice| {
        let mut open = Open::new(layer, batch, *choice, input);
        open.time(Duration::from_millis(10));
        let (median, _) = open.time(Duration::from_millis(if steps > 1 { 60 } else { 20 }));
        (median, open)
    });
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are choices").1
}

fn numbers(folder: &Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(folder.join(name)).expect("a file of the one who asks");
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

fn open(words: &[&str]) -> Open {
    let [cell, inputs, units, batch, _steps, precision, workers, folder] = words else {
        panic!("open CELL INPUTS UNITS BATCH STEPS PRECISION WORKERS FOLDER")
    };
    let whole = |word: &str| word.parse::<usize>().expect("a whole number");
    let cell = if *cell == "lstm" { Cell::Lstm } else { Cell::Gru };
    let precision = match *precision {
        "bf16" => Precision::Bf16,
        "int8" => Precision::Int8,
        _ => Precision::F32,
    };
    let folder = Path::new(folder);
    let weights = Weights {
        input: numbers(folder, "w"),
        state: numbers(folder, "u"),
        input_bias: numbers(folder, "b"),
        state_bias: numbers(folder, "c"),
    };
    let layer = Layer::new(cell, whole(inputs), whole(units), Directions::Forward, vec![weights]);
    let (layer, input) = (layer.expect("weights of this size"), numbers(folder, "x"));
    let batch = whole(batch);
    let all = choices(precision, batch, input.len() / (batch * layer.inputs()), whole(workers));
    let mut open = best(&layer, batch, &input, &all);
    open.time(Duration::ZERO);
    let bytes: Vec<u8> = open.output.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(folder.join("y"), bytes).expect("the folder is there");
    open
}

fn main() {
    let folder = std::env::temp_dir().join(format!("dyno-cells-{}", std::process::id()));
    if !std::env::args().any(|word| word == "serve") {
        std::fs::create_dir_all(&folder).expect("temporary files");
        for (name, count) in [("w", 12), ("u", 16 * 3), ("b", 12), ("c", 12), ("x", 6)] {
            let bytes: Vec<u8> =
                (0..count).flat_map(|at| (at as f32 / 40.0).to_le_bytes()).collect();
            std::fs::write(folder.join(name), bytes).expect("temporary files");
        }
        let name = folder.display().to_string();
        let words = ["gru", "1", "4", "2", "3", "f32", "2", name.as_str()];
        let mut open = open(&words);
        assert!(open.output.iter().all(|x| (-1.0..=1.0).contains(x)), "{:?}", open.output);
        let (median, calls) = open.time(Duration::from_millis(1));
        println!("{:?}: {median} ms, {calls} calls", open.choice);
        std::fs::remove_dir_all(&folder).expect("temporary files");
        return;
    }
    let mut opened = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("whoever asks writes text");
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["open", words @ ..] => println!("{:?}", opened.insert(open(words)).choice),
            ["time", seconds] => {
                let budget = Duration::from_secs_f64(seconds.parse().expect("a number"));
                let (median, calls) = opened.as_mut().expect("open comes first").time(budget);
                println!("{median} {calls}");
            }
            other => panic!("{other:?} is no question"),
        }
        std::io::stdout().flush().expect("whoever asks reads");
    }
}
