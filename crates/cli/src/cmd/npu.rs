//! `dyno npu`: a model of accelerators that fetch weights while they compute.

pub(super) mod arguments;
mod cores;
mod explain;
mod layers;
mod run;
mod simulation;
mod sweep;

use clap::{Args, Subcommand};
use dyno_experiment::Failure;

use crate::exit::Exit;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Npu {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show compute and fetch times of layers and their bottlenecks
    Layers(layers::Layers),
    /// Simulate networks that share an NPU: throughput, slowdowns and idle times
    Run(run::Run),
    /// Simulate shared NPUs over a grid of settings, with heat maps of utilization
    Sweep(sweep::Sweep),
    /// Explain decisions of a scheduler and the idle time that each candidate would cause
    Explain(explain::Explain),
    /// Measure the gain of two networks interleaved on the cores of this machine
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
