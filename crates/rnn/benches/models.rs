//! Times the models that DeepCPU serves for `bench/rnn`, which measures peers in turn with it.
//!
//! Told by lines on stdin, answers each by one on stdout: `open MODEL PRECISION WORKERS FOLDER` makes an
//! engine, leaves what it answers to the words of seed 1 in `y` (raw `f32`, all outputs behind one another) and
//! says how its layers are run; `time SECONDS` answers with the median of a call in milliseconds and
//! how many there were. Without `serve` it does both once, for small models.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use dyno_rnn::calibrate::calibrate;
use dyno_rnn::machine::Machine;
use dyno_rnn::network::{Engine, Node, Setup};
use dyno_rnn::served::{Model, Sizes};
use dyno_rnn::tuner::Effort;
use dyno_rnn::{Isa, Precision, Team};

/// What is open.
struct Open {
    model: Model,
    engine: Engine,
    team: Team,
    words: Vec<Vec<u32>>,
    answer: Vec<f32>,
    plans: String,
}

impl Open {
    fn new(model: Model, sizes: &Sizes, precision: Precision, workers: usize) -> Self {
        let (isa, mut team) = (Isa::best(), Team::of(workers));
        let machine = calibrate(&Machine::detect(isa), isa, &mut team).expect("sizes that fit");
        let mut setup = Setup::new(precision, isa, machine);
        setup.effort = Effort::default();
        let (network, outputs) = model.network(sizes).expect("no size is 0");
        let mut engine = Engine::new(&network, &setup, &mut team).expect("plans that hold");
        let words = model.words(sizes, 1);
        engine.run(&mut team, &model.feeds(&words)).expect("words of the vocabulary");
        let answer = outputs.iter().flat_map(|of| engine.tensor(*of).to_vec()).collect();
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

    /// Median of a call in milliseconds, and calls.
    fn time(&mut self, budget: Duration) -> (f64, usize) {
        let feeds = self.model.feeds(&self.words);
        let mut times = Vec::new();
        let end = Instant::now() + budget;
        while times.len() < 3 || (Instant::now() < end && times.len() < 100_000) {
            let start = Instant::now();
            self.engine.run(&mut self.team, &feeds).expect("words of the vocabulary");
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times.len())
    }
}

fn open(words: &[&str]) -> Open {
    let [name, precision, workers, folder] = words else {
        panic!("open MODEL PRECISION WORKERS FOLDER")
    };
    let model = Model::ALL.into_iter().find(|model| model.name() == *name).expect("a model");
    let precision = match *precision {
        "bf16" => Precision::Bf16,
        "int8" => Precision::Int8,
        _ => Precision::F32,
    };
    let open = Open::new(model, &model.paper(), precision, workers.parse().expect("a number"));
    let bytes: Vec<u8> = open.answer.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(Path::new(folder).join("y"), bytes).expect("the folder is there");
    open
}

fn main() {
    if !std::env::args().any(|word| word == "serve") {
        for model in Model::ALL {
            let sizes = Sizes { vocabulary: 50, embedding: 6, units: 10, ..model.paper() };
            let mut open = Open::new(model, &sizes, Precision::Bf16, 2);
            assert!(open.answer.iter().all(|x| (-1.0..=1.0).contains(x)), "{:?}", open.answer);
            let (median, calls) = open.time(Duration::from_millis(1));
            println!("{}: {median} ms, {calls} calls; {}", model.name(), open.plans);
        }
        return;
    }
    let mut opened = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("whoever asks writes text");
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["open", words @ ..] => println!("{}", opened.insert(open(words)).plans),
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
