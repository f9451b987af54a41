//! `dyno`: one command per file in [`cmd`], results on stdout, talk on stderr.
#![forbid(unsafe_code)]
// They panic where nobody reads: `output` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod audit;
mod cache;
mod check;
mod cmd;
mod compare;
mod division;
mod effect;
mod environment;
mod exit;
mod gather;
mod interrupt;
mod live;
mod measure;
mod observe;
mod options;
mod outcome;
mod output;
mod pages;
mod probe;
mod progress;
#[cfg(test)]
mod reference;
mod render;
mod requirement;
mod run;
mod schema;
mod search;
mod study;
mod sweep;
mod system;
mod terminal;
mod throughput;
mod tui;
mod tune;
mod workers;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = match options::arguments::expand(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(failure) => return failure.report(),
    };
    let command = match cmd::Dyno::try_parse_from(arguments) {
        Ok(command) => command,
        Err(error) => return cmd::usage(&error).into(),
    };
    if let Err(error) = interrupt::begin() {
        return exit::Failure::set_up(error).report();
    }
    match command.execute() {
        Ok(exit) => {
            if exit == exit::Exit::Interrupted {
                output::say("interrupted");
            }
            exit.into()
        }
        Err(failure) => failure.report(),
    }
}
