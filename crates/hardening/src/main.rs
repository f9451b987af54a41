//! `dyno-hardening`: plays many runs with faults and judges each. Tables go to stdout, progress to
//! stderr.
#![forbid(unsafe_code)]

mod cmd;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Simulate faults and judge what Dyno makes of them
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
struct Hardening {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play random runs in virtual time and judge each by the oracle
    Simulate(cmd::simulate::Simulate),
    /// Play random runs of text servers in virtual time: token streams, tenants and conversations
    Streams(cmd::streams::Streams),
    /// Search for peaks that are known
    Searches(cmd::searches::Searches),
    /// Play random runs through the driver in real time, with threads
    Driver(cmd::driver::Driver),
    /// Measure how often intervals and verdicts are right, on data whose truth is known
    Coverage(cmd::coverage::Coverage),
    /// Parse random answers, cut at any byte
    Framing(cmd::framing::Framing),
    /// Store random runs in directories that fail
    Files(cmd::files::Files),
    #[command(hide = true)]
    FilesChild(cmd::files::FilesChild),
    /// Stop commands at random moments, and finish them
    Kills(cmd::kills::Kills),
    /// Play long runs in one process, and measure lost records and the growth of memory
    Soak(cmd::soak::Soak),
    /// Play random runs with workers that lag, lie or die
    Workers(cmd::workers::Workers),
}

fn main() -> ExitCode {
    let is_clean = match Hardening::parse().command {
        Command::Simulate(simulate) => simulate.execute(),
        Command::Streams(streams) => streams.execute(),
        Command::Searches(searches) => searches.execute(),
        Command::Driver(driver) => driver.execute(),
        Command::Coverage(coverage) => coverage.execute(),
        Command::Framing(framing) => framing.execute(),
        Command::Files(files) => files.execute(),
        Command::FilesChild(child) => child.execute(),
        Command::Kills(kills) => kills.execute(),
        Command::Soak(soak) => soak.execute(),
        Command::Workers(workers) => workers.execute(),
    };
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
