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
    /// List every task, with its tier and the state of its data
    List(cards::List),
    /// Print the card of a task: problem, model, data, steps, quality, what it needs
    Show(cards::Show),
    /// Run a task: accuracy against its target, then performance
    Run(Box<run::RunTask>),
    /// Score the answers of an accuracy run against what is right
    Score(score::Score),
    /// Compare a model's weights with the reference's, and say of which division it is
    Equivalence(equivalence::CompareWeights),
    /// Print what a model costs: parameters, operations and bytes, layer by layer
    Layers(layers::Layers),
    /// List the ways to score, with what each needs
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
