//! Times the models that DeepCPU serves for `bench/rnn`, which measures other libraries in turn with
//! it.
//!
//! It reads commands from stdin and answers each with a JSON line on stdout:
//! - `open MODEL PRECISION WORKERS FOLDER` creates an engine, writes its answer to the words of seed 1
//!   to `y` (raw `f32`, all outputs concatenated), and reports how its layers run;
//! - `time SECONDS` reports the median of a call in milliseconds and its number of allocations.
//!
//! Without `serve` it does both once for small models.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::alloc::System;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use dyno_rnn::calibrate::calibrate;
use dyno_rnn::machine::Machine;
use dyno_rnn::network::{NetworkEngine, Node, Setup};
use dyno_rnn::served::{ServedModel, Sizes};
use dyno_rnn::tuner::Effort;
use dyno_rnn::{Isa, Precision, Team};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Maximum calls of a measurement.
const MOST: usize = 100_000;

/// An open model.
struct OpenModel {
    model: ServedModel,
    engine: NetworkEngine,
    team: Team,
    words: Vec<Vec<u32>>,
    answer: Vec<f32>,
    plans: String,
}

impl OpenModel {
    fn new(model: ServedModel, sizes: &Sizes, precision: Precision, workers: usize) -> Self {
        let (isa, mut team) = (Isa::best(), Team::with_workers(workers));
        let machine = calibrate(&Machine::detect(isa), isa, &mut team).expect("sizes that fit");
        let mut setup = Setup::new(precision, isa, machine);
        setup.effort = Effort::default();
        let (network, outputs) = model.network(sizes).expect("no size is 0");
        let mut engine = NetworkEngine::new(&network, &setup, &mut team).expect("plans that hold");
        let words = model.words(sizes, 1);
        engine.run(&mut team, &model.feeds(&words)).expect("words of the vocabulary");
        let answer = outputs.iter().flat_map(|tensor| engine.tensor(*tensor).to_vec()).collect();
        let recurrent = network.nodes().filter(|(_, node)| matches!(node, Node::Recurrent { .. }));
        let plan = |(name, _): (&str, &Node)| {
            let (choices, stacked) = engine.schedule(network.named(name)?)?;
            let parts = choices.iter().map(|choice| {
                format!("{}/{}/{}/{}", choice.chunk, choice.sides, choice.rows, choice.units)
            });
            Some(format!("{name}: {stacked:?} {}", parts.collect::<Vec<_>>().join(" ")))
        };
        let plans = recurrent.filter_map(plan).collect::<Vec<_>>().join("; ");
        Self { model, engine, team, words, answer, plans }
    }

    /// Measures the median of a call in milliseconds, and its allocations.
    fn time(&mut self, budget: Duration) -> Value {
        let feeds = self.model.feeds(&self.words);
        let mut times = Vec::with_capacity(MOST);
        let allocated = Region::new(ALLOCATED);
        let end = Instant::now() + budget;
        while times.len() < 3 || (Instant::now() < end && times.len() < MOST) {
            let start = Instant::now();
            self.engine.run(&mut self.team, &feeds).expect("words of the vocabulary");
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let allocations = allocated.change().allocations.div_ceil(times.len());
        times.sort_by(f64::total_cmp);
        json!({"ms": times[times.len() / 2], "calls": times.len(), "allocations": allocations})
    }
}

fn open(words: &[&str]) -> OpenModel {
    let [name, precision, workers, folder] = words else {
        panic!("open MODEL PRECISION WORKERS FOLDER")
    };
    let model = ServedModel::ALL.into_iter().find(|model| model.name() == *name).expect("a model");
    let precision = match *precision {
        "bf16" => Precision::Bf16,
        "int8" => Precision::Int8,
        _ => Precision::F32,
    };
    let open = OpenModel::new(model, &model.paper(), precision, workers.parse().expect("a number"));
    let bytes: Vec<u8> = open.answer.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(Path::new(folder).join("y"), bytes).expect("the folder is there");
    open
}

fn main() {
    if !std::env::args().any(|word| word == "serve") {
        for model in ServedModel::ALL {
            let sizes = Sizes { vocabulary: 50, embedding: 6, units: 10, ..model.paper() };
            let mut open = OpenModel::new(model, &sizes, Precision::Bf16, 2);
            assert!(open.answer.iter().all(|x| (-1.0..=1.0).contains(x)), "{:?}", open.answer);
            println!("{}: {} {}", model.name(), open.time(Duration::from_millis(1)), open.plans);
        }
        return;
    }
    let mut opened = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("whoever asks writes text");
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["open", words @ ..] => {
                println!("{}", json!({"choice": opened.insert(open(words)).plans}));
            }
            ["time", seconds] => {
                let budget = Duration::from_secs_f64(seconds.parse().expect("a number"));
                println!("{}", opened.as_mut().expect("open comes first").time(budget));
            }
            other => panic!("{other:?} is no question"),
        }
        std::io::stdout().flush().expect("whoever asks reads");
    }
}
