//! Times calls of one layer for `bench/rnn neighbour`, which keeps every core busy meanwhile.
//!
//! `time MODEL THREADS STEPS SECONDS` prints a JSON line with the number of calls and the quantiles
//! of their latencies in milliseconds. Without `time` it makes a few calls of a small layer.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use dyno_rnn::engine::{Engine, EngineOptions};
use dyno_rnn::model::Model;
use serde_json::{Value, json};

fn time(model: &str, threads: usize, steps: usize, budget: Duration) -> Value {
    let model = Model::open(model).expect("a model");
    let input: Vec<f32> =
        (0..steps * model.inputs()).map(|at| (at % 17) as f32 / 17.0 - 0.5).collect();
    let mut output = vec![0.0; steps * model.outputs()];
    let options = EngineOptions { threads, steps, ..EngineOptions::default() };
    let mut engine = Engine::new(model, &options).expect("a plan");
    let mut times = Vec::new();
    let end = Instant::now() + budget;
    while times.len() < 3 || Instant::now() < end {
        let start = Instant::now();
        engine.run(&input, &[steps], None, &mut output).expect("sizes that fit");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let quantile = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(quantile);
    let isa = options.isa.name();
    json!({"isa": isa, "calls": times.len(), "p50": p50, "p90": p90, "p99": p99})
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let whole = |word: &str| word.parse().expect("a whole number");
    let found = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["time", model, threads, steps, seconds] => {
            let budget = seconds.parse().expect("a number of seconds");
            time(model, whole(threads), whole(steps), Duration::from_secs_f64(budget))
        }
        _ => time("lstm:8x16", 2, 10, Duration::ZERO),
    };
    println!("{found}");
}
