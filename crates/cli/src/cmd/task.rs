//! `dyno task`: what benchmarks are made of; today, how their answers are scored.

mod methods;
mod score;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};

/// Flags of `dyno task`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Task {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Score the answers of an accuracy run against what is right
    Score(score::Score),
    /// List the ways to score, with what each needs
    Methods(methods::Methods),
}

impl Task {
    /// Does what was asked for.
    ///
    /// # Errors
    /// What keeps it from being done.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Score(score) => score.execute(),
            Command::Methods(methods) => methods.execute(),
        }
    }
}
