//! `dyno`: one command per file in [`cmd`], results on stdout, talk on stderr.
#![forbid(unsafe_code)]

mod cmd;
mod environment;
mod exit;
mod interrupt;
mod measure;
mod options;
mod outcome;
mod probe;
mod progress;
#[expect(
    dead_code,
    unused_imports,
    reason = "`dyno compare` and `dyno export` read what a run writes"
)]
mod records;
#[cfg(test)]
mod reference;
mod render;
mod report;
mod run;
mod run_directory;
mod schema;
#[expect(dead_code, reason = "`dyno report` reads what a run writes")]
mod series;
#[expect(dead_code, reason = "`dyno report` reads what a run writes")]
mod summary;
mod sweep;
mod system;
mod throughput;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = match options::arguments::expand(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(failure) => return failure.report(),
    };
    let command = match cmd::Dyno::try_parse_from(arguments) {
        Ok(command) => command,
        Err(error) => return cmd::usage(&error),
    };
    match command.execute() {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}
