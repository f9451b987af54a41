//! Measures an engine of your own: `cargo run -p dyno-experiment --example custom_engine`.

use std::sync::Arc;

use dyno_experiment::options::{CommandLine, Options};
use dyno_experiment::run::PreparedRun;
use dyno_experiment::system::{Numbers, System};
use dyno_experiment::{Control, Failure, quiet};
use dyno_loadgen::sut::QuerySample;
use dyno_results::summary::Headline;
use dyno_sut::engine::{Answers, Engine};

/// Adds numbers up: more of them for a sample with a larger number.
struct Sums;

impl Engine for Sums {
    fn name(&self) -> &str {
        "sums"
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        for sample in samples {
            let sum: u64 = (0..1_000 * sample.index).sum();
            answers.push(sample.id, &sum.to_le_bytes());
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut line = CommandLine::default();
    for (key, value) in
        [("scenario", "server"), ("mode", "performance"), ("qps", "500"), ("duration", "2s")]
    {
        line.give(key, value);
    }
    let options = Options::read(&line, std::iter::empty())?;
    let samples = Arc::new(Numbers { count: 64 });
    let system = System::from_engine(Arc::new(Sums), samples, None, &options.run)?;
    let prepared = PreparedRun::from_system(options, system);
    let tests = prepared.tests()?;
    let directory = prepared.directory(&tests, None)?;
    let watch = quiet();
    let control = Control { watch: &watch, interrupt: None, most: None };
    let measured = prepared.measure(&tests, control, directory)?;
    for test in &measured.summary.tests {
        let result = test.result.as_ref().map(Headline::text).unwrap_or_default();
        println!("{}: {result}, {}", test.title(), test.verdict);
    }
    println!("{}", measured.directory.path.display());
    Ok(())
}
