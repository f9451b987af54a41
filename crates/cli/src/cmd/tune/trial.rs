//! `dyno tune trial`: evaluates one trial as a job of its own.

use clap::Args;
use dyno_experiment::tune::{CalibrationSplit, Engine, Evaluator, HeldOut};
use dyno_experiment::{Failure, LIFELINE};
use dyno_number::tune::{Evaluation, Stop, Trial as Wanted};
use serde_json::{Value, json};

use super::NetworkArgs;
use super::run::{part, share};
use crate::interrupt;

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Trial {
    #[command(flatten)]
    described: NetworkArgs,
    /// Give a trial whose program fails the accuracy 0; its note states the reason
    #[arg(long)]
    keep_going: bool,
    /// Closed mode: share of the calibration set that the first pass uses
    #[arg(long, value_name = "SHARE", value_parser = part, requires = "seed")]
    small_share: Option<f64>,
    /// Closed mode: seed of the split of the calibration set
    #[arg(long, value_name = "N", requires = "small_share")]
    seed: Option<u64>,
    /// Held-out samples: their share of all samples
    #[arg(long, value_name = "SHARE", value_parser = part, requires = "margin")]
    held_out: Option<f64>,
    /// Held-out samples: the margin to confirm
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "held_out")]
    margin: Option<f64>,
}

const AFTER_HELP: &str = "\
The trial is a document with the schema dyno.trial: a number, a set (small, full or confirmation) and the
format of each object. The evaluator is that of dyno tune run: a program, the built-in engine, or a
system. The result has the schema dyno.trial.result.
Example:
  echo '{\"schema\": \"dyno.trial\", \"schema_version\": 1, \"number\": 1, \"set\": \"full\",
         \"formats\": {\"conv1.weight\": \"FIXED 8 0\"}}' | dyno tune trial lenet.toml";

impl Trial {
    /// Evaluates the trial.
    ///
    /// # Errors
    /// An invalid descriptor or trial, or a program that fails.
    pub fn execute(self) -> Result<Exit, Failure> {
        let network = self.described.network(None)?;
        let text = read_trial_text().map_err(|error| {
            Failure::usage(format!("cannot read the trial from stdin: {error}"))
        })?;
        let document = serde_json::from_str(&text)
            .map_err(|error| Failure::usage(format!("the trial on stdin is no JSON: {error}")))?;
        let trial = Wanted::from_json(&document).map_err(Failure::usage)?;
        let interrupt = interrupt::listen()
            .map_err(|error| Failure::set_up(format!("cannot listen to Ctrl-C: {error}")))?;
        let split = self.small_share.zip(self.seed);
        let split = split.map(|(small_share, seed)| CalibrationSplit { small_share, seed });
        let held_out = self.held_out.zip(self.margin);
        let held_out = held_out.map(|(share, margin)| HeldOut { share, margin });
        let home = self.described.folder()?;
        let mut evaluator = Evaluator::open(&network, &home, self.keep_going, split, held_out)?;
        if let Some(engine) = evaluator.engine() {
            let objects = trial.assignment.iter().map(|(object, _)| object);
            check_objects(objects, engine, "the trial")?;
        }
        match evaluator.evaluate(&trial, &interrupt) {
            Ok(evaluation) => print(&trial, &evaluation),
            Err(Stop::Failed(why)) => Err(Failure::aborted(why)),
            Err(Stop::Interrupted | Stop::Limit) => Ok(Exit::Interrupted),
        }
    }
}

/// Reads stdin; only a line if the end of stdin stops this process.
fn read_trial_text() -> std::io::Result<String> {
    if std::env::var_os(LIFELINE).is_none() {
        return std::io::read_to_string(std::io::stdin());
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line)
}

/// Rejects formats of objects that the model lacks. External programs check this themselves. `place` is
/// the document with the formats.
pub fn check_objects<'a>(
    objects: impl Iterator<Item = &'a str>,
    engine: &Engine,
    place: &str,
) -> Result<(), Failure> {
    let unknown = objects.filter(|object| !engine.has_object(object));
    let problems: Vec<String> =
        unknown.map(|object| format!("{place}: {}", engine.absence_of(object))).collect();
    if problems.is_empty() { Ok(()) } else { Err(Failure::usages(problems)) }
}

fn print(trial: &Wanted, evaluation: &Evaluation) -> Result<Exit, Failure> {
    let result = json!({
        "schema": RESULT,
        "schema_version": 1,
        "number": trial.number,
        "set": trial.subset,
        "result": evaluation,
    });
    output::print(result.to_string() + "\n").map(|()| Exit::Valid)
}

const RESULT: &str = "dyno.trial.result";

/// Returns the result of a trial from the output of its job; `None` if the output lacks it.
pub fn read_result(number: u64, printed: &str) -> Option<Evaluation> {
    let document: Value = serde_json::from_str(printed).ok()?;
    let is_it = document["schema"] == RESULT && document["number"] == number;
    is_it.then(|| serde_json::from_value(document["result"].clone()).ok())?
}
