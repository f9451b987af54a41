//! `dyno rnn`: the engine of recurrent networks, looked at from outside.

mod explain;
mod hwbench;
mod served;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};

/// What about them.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Rnn {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say how layers are run, why so, and what that costs
    Explain(explain::Explain),
    /// Measure what this machine multiplies, reads and waits for
    Hwbench(hwbench::Hwbench),
    /// Time the models that DeepCPU serves, node by node
    Served(served::Served),
}

impl Rnn {
    /// Does what was asked for.
    ///
    /// # Errors
    /// What keeps it from being done.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Explain(explain) => explain.execute(),
            Command::Hwbench(hwbench) => hwbench.execute(),
            Command::Served(served) => served.execute(),
        }
    }
}
