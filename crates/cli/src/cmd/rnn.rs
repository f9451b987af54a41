//! `dyno rnn`: inspects execution plans of recurrent networks and hardware limits.

mod explain;
mod hwbench;
mod served;

use clap::{Args, Subcommand, ValueEnum};
use dyno_experiment::Failure;
use dyno_rnn::{Choice, Precision};

use crate::exit::Exit;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Rnn {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show how layers are executed, why, and the predicted and measured time
    Explain(explain::Explain),
    /// Measure arithmetic, bandwidth and synchronization of this machine
    Hwbench(hwbench::Hwbench),
    /// Time the models of the DeepCPU paper, node by node
    Served(served::TimeServed),
}

/// How numbers of products are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProductFormat {
    F32,
    Bf16,
    Int8,
}

impl ProductFormat {
    /// Returns this precision with a tanh as accurate as it needs; a plan chooses the other fields.
    fn base(self) -> Choice {
        Choice::one_worker(match self {
            Self::F32 => Precision::F32,
            Self::Bf16 => Precision::Bf16,
            Self::Int8 => Precision::Int8,
        })
    }
}

impl Rnn {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// The failure of the subcommand.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Explain(explain) => explain.execute(),
            Command::Hwbench(hwbench) => hwbench.execute(),
            Command::Served(served) => served.execute(),
        }
    }
}
