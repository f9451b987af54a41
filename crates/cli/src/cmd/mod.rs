//! The commands: one file each, with its flags and its implementation.

mod audit;
mod check;
mod compare;
mod completions;
mod examples;
mod export;
mod fetch;
mod flag_errors;
mod foreign;
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

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use dyno_experiment::Failure;

use crate::exit::Exit;
use crate::output;

/// Drive a model or server with controlled load, and report the latency and throughput it sustains
#[derive(Debug, Parser)]
#[command(name = "dyno", version, arg_required_else_help = true)]
pub struct Dyno {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure a model or server; without arguments, a built-in model, in half a minute
    Run(run::RunCommand),
    /// Probe a system with a few requests and show what it is
    Probe(Box<probe::ProbeCommand>),
    /// Find the highest load that keeps given limits
    Search(Box<search::Search>),
    /// Measure many configurations as one job that can be resumed
    Sweep(Box<sweep::SweepCommand>),
    /// Compare two runs, or two configurations measured in turn
    Compare(compare::Compare),
    /// Generate the HTML report of runs, or the tables of a submission
    Report(report::Report),
    /// Convert a run to CSV, JSONL, Parquet, Prometheus or JUnit
    Export(export::Export),
    /// List and run benchmark tasks, and score their answers
    Task(task::Task),
    /// Download the models and data of tasks
    Fetch(fetch::Fetch),
    /// Run an MLPerf audit, or judge one by its logs
    Audit(Box<audit::Audit>),
    /// Generate a submission tree from runs
    Package(Box<package::Package>),
    /// Validate a submission tree and explain rejected results
    Check(Box<check::Check>),
    /// Inspect RNN execution plans and hardware limits
    Rnn(rnn::Rnn),
    /// Find the smallest number formats of a model that keep its accuracy
    Tune(tune::Tune),
    /// Simulate multi-tenant accelerators and their schedulers
    Npu(Box<npu::Npu>),
    /// Serve a model over HTTP and gRPC
    Serve(Box<serve::Serve>),
    /// Run a share of the load of a run that another machine coordinates
    Worker(worker::Worker),
    /// Start workers, sweep points or trials: here, on Ray, Slurm or Kubernetes
    Launch(Box<launch::Launch>),
    /// Generate a dyno.toml
    Init(init::Init),
    /// List settings, systems, models, metrics and exit codes
    Info(info::Info),
    /// Test what this machine can measure
    Selftest(selftest::Selftest),
    /// Generate shell completions
    Completions(completions::Completions),
    /// Generate manual pages
    Man(man::Man),
}

/// Groups of the commands in `dyno --help`.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Measure", &["run", "probe", "search", "sweep"]),
    ("Compare and report", &["compare", "report", "export"]),
    ("MLPerf and benchmark tasks", &["task", "fetch", "audit", "package", "check"]),
    ("Engines and tuners", &["rnn", "tune", "npu"]),
    ("Serve and distribute", &["serve", "worker", "launch"]),
    ("Tools", &["init", "info", "selftest", "completions", "man"]),
];

/// Returns the names of the commands.
pub fn command_names() -> Vec<&'static str> {
    let groups = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    groups.chain(["help"]).collect()
}

/// First commands, in `dyno --help`.
const START: &str = "\
Start with:
  dyno run                          the built-in model
  dyno run model.onnx               an ONNX model
  dyno run http://localhost:8000    a server

dyno COMMAND --help shows flags and examples.";

/// Returns the command line of `dyno`, with its commands in groups and with examples.
pub fn command_line() -> clap::Command {
    let dyno = examples::with_examples(Dyno::command());
    let mut groups = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(groups, "{group}:");
        for name in names {
            let about = dyno.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {name:<12} {about}");
        }
        groups.push('\n');
    }
    dyno.after_help(START).help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

impl Dyno {
    /// Reads a command line, the first argument of which is the program.
    ///
    /// # Errors
    /// A wrong command line, or a request for help or the version.
    pub fn read(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let is_short = arguments.iter().any(|argument| argument == "-h");
        let dyno = if is_short { examples::without_notes(command_line()) } else { command_line() };
        let dyno = examples::with_joined_notes(dyno);
        let command = arguments.get(1).map(|name| name.to_string_lossy().into_owned());
        let mut matches = dyno
            .try_get_matches_from(arguments)
            .map_err(|error| foreign::with_advice(error, &command.unwrap_or_default()))
            .map_err(flag_errors::with_expectation)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command_line()))
    }

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
///
/// # Errors
/// Help cannot be written, as for [`output::print`].
pub fn usage(error: &clap::Error) -> Result<Exit, Failure> {
    let printed = error.print().and_then(|()| io::stdout().flush());
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            printed.or_else(|error| output::of_stdout(&error))?;
            Ok(Exit::Valid)
        }
        // Errors of messages on stderr are ignored.
        _ => Ok(Exit::Usage),
    }
}
