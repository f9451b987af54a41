//! Runs the models that DeepCPU serves and prints their answers and the time per layer: `served
//! [PRECISION] [WORKERS]` with `f32`, `bf16` or `int8`. `dyno rnn served` has more options.

use dyno_rnn::machine::Machine;
use dyno_rnn::network::{NetworkEngine, Setup};
use dyno_rnn::served::ServedModel;
use dyno_rnn::tuner::Effort;
use dyno_rnn::{Isa, Precision, Team};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let precision = match words.first().map(String::as_str) {
        Some("f32") => Precision::F32,
        Some("int8") => Precision::Int8,
        _ => Precision::Bf16,
    };
    let workers = words.get(1).map_or(Ok(2), |count| count.parse())?;
    let (isa, mut team) = (Isa::best(), Team::with_workers(workers));
    let mut setup = Setup::new(precision, isa, Machine::detect(isa));
    // Plans of the recurrent layers are timed.
    setup.effort = Effort::default();
    for model in ServedModel::ALL {
        let sizes = model.paper();
        let (network, outputs) = model.network(&sizes)?;
        let mut engine = NetworkEngine::new(&network, &setup, &mut team)?;
        let words = model.words(&sizes, 1);
        let times = engine.times(&mut team, &model.feeds(&words), 51)?;
        println!("{} in {precision:?} on {workers} workers with {isa}", model.name());
        for (name, time) in &times.nodes {
            println!("{:>9.4} ms  {name}", time.as_secs_f64() * 1e3);
        }
        println!("{:>9.4} ms  in all", times.all.as_secs_f64() * 1e3);
        for output in outputs {
            let found = engine.tensor(output).iter().enumerate();
            let (at, most) =
                found.max_by(|a, b| a.1.total_cmp(b.1)).ok_or("the answer is empty")?;
            println!("           the greatest answer is {most:.4}, at {at}");
        }
    }
    Ok(())
}
