//! `dyno npu`: a model of accelerators that fetch weights and compute at once.

mod given;
mod layers;
mod run;
mod timeline;

pub use given::{Changes, Hardware};

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};

/// What about it.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Npu {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say how long layers compute and are fetched, and which they wait for
    Layers(layers::Layers),
    /// Let networks share an NPU: throughput, slowdowns and idle times
    Run(run::Run),
}

impl Npu {
    /// Does what was asked for.
    ///
    /// # Errors
    /// What keeps it from being done.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Layers(layers) => layers.execute(),
            Command::Run(run) => run.execute(),
        }
    }
}
