//! The commands: one file each, with its flags and its implementation.

mod audit;
mod check;
mod compare;
mod completions;
mod export;
mod fetch;
mod info;
mod init;
pub mod keys;
mod launch;
mod man;
pub mod npu;
mod package;
mod probe;
mod report;
mod rnn;
mod run;
mod search;
pub mod selftest;
mod serve;
mod sweep;
mod task;
mod tune;
mod worker;

#[cfg(test)]
pub use info::METRICS;
pub use info::VARIABLES;
#[cfg(test)]
#[cfg(test)]
pub use info::rules::json as rules;
#[cfg(test)]
pub use info::rules::words;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use dyno_experiment::Failure;

use crate::exit::Exit;

/// A dynamometer for inference engines: puts one under load and says what it
/// delivers, and whether the figure counts.
#[derive(Debug, Parser)]
#[command(name = "dyno", version, arg_required_else_help = true)]
pub struct Dyno {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure a system; without flags, the built-in one, in half a minute
    Run(run::RunCommand),
    /// Ask a system once, and tell everything about it
    Probe(Box<probe::ProbeCommand>),
    /// Find the highest load that keeps several limits at once
    Search(Box<search::Search>),
    /// Measure many variants as one job that can be resumed
    Sweep(Box<sweep::SweepCommand>),
    /// Tell whether one run is better or worse than another, or play both in turn
    Compare(compare::Compare),
    /// Play an audit of the rules, or judge one by its logs
    Audit(Box<audit::Audit>),
    /// Write the page of a run again, one page of several, or the tables of a submission
    Report(report::Report),
    /// Write a run in the formats of others: CSV, JSONL, parquet, Prometheus, JUnit
    Export(export::Export),
    /// Tell about the tasks of benchmarks, and score the answers to them
    Task(task::Task),
    /// Get models and data of packages, for tasks that need them
    Fetch(fetch::Fetch),
    /// Look into the engine of recurrent networks: its plans, and what this machine gives it
    Rnn(rnn::Rnn),
    /// Find the smallest number format of each layer that keeps the accuracy
    Tune(tune::Tune),
    /// Look into a model of accelerators that fetch and compute at once
    Npu(Box<npu::Npu>),
    /// Make a submission tree of run directories
    Package(Box<package::Package>),
    /// Say which results of a submission count, and what is wrong with the others
    Check(Box<check::Check>),
    /// Write a commented dyno.toml
    Init(init::Init),
    /// Tell about settings, systems, models, metrics and exit codes
    Info(info::Info),
    /// Put a system behind the protocols of servers: Open Inference Protocol, OpenAI
    Serve(Box<serve::Serve>),
    /// Place workers, points of a sweep or trials: on this machine, Ray, Slurm or Kubernetes
    Launch(Box<launch::Launch>),
    /// Play a share of the runs of a dyno on another machine
    Worker(worker::Worker),
    /// Say what this machine can measure
    Selftest(selftest::Selftest),
    /// Print what a shell needs to complete commands and flags
    Completions(completions::Completions),
    /// Print or write the manual pages
    Man(man::Man),
}

impl Dyno {
    /// Runs the command.
    ///
    /// # Errors
    /// The failure of the command.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Run(run) => run.execute(),
            Command::Probe(probe) => probe.execute(),
            Command::Search(search) => search.execute(),
            Command::Sweep(sweep) => sweep.execute(),
            Command::Compare(compare) => compare.execute(),
            Command::Audit(audit) => audit.execute(),
            Command::Report(report) => report.execute(),
            Command::Export(export) => export.execute(),
            Command::Task(task) => task.execute(),
            Command::Fetch(fetch) => fetch.execute(),
            Command::Rnn(rnn) => rnn.execute(),
            Command::Tune(tune) => tune.execute(),
            Command::Npu(npu) => npu.execute(),
            Command::Package(package) => package.execute(),
            Command::Check(check) => check.execute(),
            Command::Init(init) => init.execute(),
            Command::Info(info) => info.execute(),
            Command::Serve(serve) => serve.execute(),
            Command::Launch(launch) => launch.execute(),
            Command::Worker(worker) => worker.execute(),
            Command::Selftest(selftest) => selftest.execute(),
            Command::Completions(completions) => completions.execute(),
            Command::Man(man) => man.execute(),
        }
    }
}

/// Prints help on stdout or a usage error on stderr, and returns the exit code.
pub fn usage(error: &clap::Error) -> Exit {
    // A closed pipe is not an error.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Valid,
        _ => Exit::Usage,
    }
}
