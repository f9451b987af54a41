//! `dyno task`: shows the tasks of benchmarks, and scores answers.

mod cards;
mod equivalence;
mod layers;
mod methods;
mod run;
mod score;

use clap::{Args, Subcommand};
use dyno_experiment::Failure;

use crate::exit::Exit;

/// Flags of `dyno task`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Task {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all tasks with their tier and the state of their data
    List(cards::List),
    /// Show the card of a task: problem, model, data, steps, quality, requirements
    Show(cards::Show),
    /// Run a task: accuracy against its target, then performance
    Run(Box<run::RunTask>),
    /// Score the answers of an accuracy run
    Score(score::Score),
    /// Compare the weights of a model with the reference, and report its division
    Equivalence(equivalence::CompareWeights),
    /// Show parameters, operations and bytes of a model, layer by layer
    Layers(layers::Layers),
    /// List scoring methods and the files that they need
    Methods(methods::Methods),
}

impl Task {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// The failure of the subcommand.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::List(list) => list.execute(),
            Command::Show(show) => show.execute(),
            Command::Run(run) => run.execute(),
            Command::Score(score) => score.execute(),
            Command::Equivalence(compare) => compare.execute(),
            Command::Layers(layers) => layers.execute(),
            Command::Methods(methods) => methods.execute(),
        }
    }
}
