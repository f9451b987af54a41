//! Times calls of one model for `bench/rnn models`, which compares them with ONNX Runtime.
//!
//! `time MODEL FOLDER THREADS SECONDS` reads the inputs `input_0.npy` and so on of the folder, writes the
//! outputs `output_0.npy` and so on beside them, and prints a JSON line with the number of calls and the
//! median of their times in milliseconds. Without `time` it makes a few calls of a small model.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::expect_used, reason = "a benchmark stops where it cannot go on")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyno_graph::{Graph, Session, SessionOptions, Value};
use dyno_onnx::{Builder, Element, Model, Weights};
use dyno_tensors::npy::{self, Npy};

fn time(session: &mut Session, inputs: &[Value], budget: Duration) -> (usize, f64, Vec<Value>) {
    let mut outputs = Vec::new();
    let mut times = Vec::new();
    let end = Instant::now() + budget;
    // The first calls plan and start threads.
    for _ in 0..3 {
        outputs = session.run(inputs).expect("inputs that fit");
    }
    while times.len() < 3 || Instant::now() < end {
        let start = Instant::now();
        outputs = session.run(inputs).expect("inputs that fit");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    (times.len(), times[times.len() / 2], outputs)
}

fn inputs(folder: &Path) -> Vec<Value> {
    let file = |number: usize| folder.join(format!("input_{number}.npy"));
    let files = (0..).map(file).take_while(|path| path.is_file());
    let value = |path| {
        let array = Npy::parse(&std::fs::read(path).expect("an input")).expect("an array");
        Value::from_elements(&array.shape, array.elements).expect("a whole array")
    };
    files.map(value).collect()
}

fn measure(path: &str, folder: &Path, threads: usize, budget: Duration) {
    let graph =
        Arc::new(Graph::new(&Model::read(path.as_ref()).expect("a model")).expect("a graph"));
    let options = SessionOptions { threads, ..SessionOptions::default() };
    let mut session = Session::new(graph, &options);
    let (calls, median, outputs) = time(&mut session, &inputs(folder), budget);
    for (number, output) in outputs.iter().enumerate() {
        let numbers = output.elements(output.element()).expect("its own type").to_f64();
        let mut bytes = Vec::new();
        npy::write(&mut bytes, output.dims(), &numbers).expect("memory");
        std::fs::write(folder.join(format!("output_{number}.npy")), bytes).expect("a file");
    }
    println!("{{\"calls\": {calls}, \"ms\": {median}, \"isa\": \"{}\"}}", options.isa.name());
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["time", model, folder, threads, seconds] => {
            let budget = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
            measure(model, folder.as_ref(), threads.parse().expect("a whole number"), budget);
        }
        _ => {
            let mut net = Builder::new("net", Weights::seeded(1));
            let x = net.input("x", Element::F32, &[4.into()]);
            let y = net.node("Tanh", &[&x], &[]).expect("a node");
            net.output("y", &y).expect("an output");
            let graph = Graph::new(&net.finish()).expect("a graph");
            let mut session = Session::new(Arc::new(graph), &SessionOptions::default());
            let input = Value::new(vec![4], vec![0.5_f32; 4]).expect("four numbers");
            println!("{} calls", time(&mut session, &[input], Duration::ZERO).0);
        }
    }
}
