//! Runs the models that DeepCPU serves and says where their time goes: `served [MODEL] [PRECISION] [WORKERS]`
//! with `text_similarity`, `reader` or `bidaf`, and `f32`, `bf16` or `int8`.

#![expect(clippy::disallowed_methods, reason = "an example that tells times")]

use std::time::{Duration, Instant};

use dyno_rnn::machine::Machine;
use dyno_rnn::network::{Engine, Setup};
use dyno_rnn::served::Model;
use dyno_rnn::tuner::Effort;
use dyno_rnn::{Isa, Precision, Team};

/// Calls of which the median counts.
const CALLS: usize = 51;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| words.get(at).map(String::as_str);
    let workers = word(2).map_or(Ok(2), str::parse)?;
    let precision = match word(1) {
        Some("f32") => Precision::F32,
        Some("int8") => Precision::Int8,
        _ => Precision::Bf16,
    };
    for model in Model::ALL {
        if word(0).is_none_or(|name| name == model.name()) {
            tell(model, precision, workers)?;
        }
    }
    Ok(())
}

fn tell(
    model: Model,
    precision: Precision,
    workers: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let (isa, mut team) = (Isa::best(), Team::of(workers));
    let mut setup = Setup::new(precision, isa, Machine::detect(isa));
    setup.effort = Effort::default();
    let sizes = model.paper();
    let (network, _) = model.network(&sizes)?;
    let mut engine = Engine::new(&network, &setup, &mut team)?;
    let words = model.words(&sizes, 1);
    let feeds = model.feeds(&words);
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); network.nodes().len() + 1];
    for _ in 0..CALLS {
        let start = Instant::now();
        let (mut since, mut node) = (start, 0);
        engine.run_each(&mut team, &feeds, &mut |_| {
            let now = Instant::now();
            times[node].push(now - since);
            (since, node) = (now, node + 1);
        })?;
        times[node].push(start.elapsed());
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e3
    };
    println!("{} in {precision:?} on {workers} workers, {isa}", model.name());
    for (index, (name, _)) in network.nodes().enumerate() {
        let plans = network.named(name).and_then(|tensor| engine.schedule(tensor));
        let plans = plans.map(|(choices, stacked)| format!("{stacked:?} {choices:?}"));
        println!("{:>9.4} ms  {name} {}", median(&mut times[index]), plans.unwrap_or_default());
    }
    println!("{:>9.4} ms  in all", times.last_mut().map_or(0.0, median));
    Ok(())
}
