//! `dyno npu`: a model of accelerators that fetch weights while they compute.

mod arguments;
mod cores;
mod explain;
mod layers;
mod run;
mod simulation;
mod sweep;

use clap::{Args, Subcommand};
use dyno_experiment::Failure;

use crate::exit::Exit;

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
    /// Let networks share NPUs over a grid of settings, with heat maps of what is busy
    Sweep(sweep::Sweep),
    /// Say what a scheduler decides next, and what each candidate would let stand still
    Explain(explain::Explain),
    /// Interleave two networks on the cores of this machine: predicted and measured gain
    Cores(cores::Cores),
}

impl Npu {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// The failure of the subcommand.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Layers(layers) => layers.execute(),
            Command::Run(run) => run.execute(),
            Command::Sweep(sweep) => sweep.execute(),
            Command::Explain(explain) => explain.execute(),
            Command::Cores(cores) => cores.execute(),
        }
    }
}
