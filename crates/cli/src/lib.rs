//! The commands of `dyno`, one per file in [`cmd`]. Results go to stdout, messages to stderr.
//!
//! They are a library, because Cargo compiles a library while its dependencies are still compiled, but
//! not a program.
#![forbid(unsafe_code)]
// `println!` and `eprintln!` panic on a closed pipe; use `output` instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod check;
mod cmd;
mod exit;
mod interrupt;
mod live;
mod output;
mod pages;
mod progress;
#[cfg(test)]
mod reference;
mod render;
mod schema;
mod terminal;
mod tui;
mod tune_line;

use std::process::ExitCode;

use dyno_experiment::Failure;

/// Executes the command line of this process, and returns its exit code.
pub fn execute() -> ExitCode {
    let arguments = match dyno_experiment::options::arguments::expand(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(failure) => return exit::report(&failure),
    };
    let command = match cmd::Dyno::read(arguments) {
        Ok(command) => command,
        Err(error) => {
            return cmd::usage(&error).map_or_else(|failure| exit::report(&failure), Into::into);
        }
    };
    if let Err(error) = interrupt::begin() {
        return exit::report(&Failure::set_up(error));
    }
    dyno_experiment::set_last_action(|| {
        tui::restore();
        dyno_experiment::end_programs();
    });
    let executed = command.execute();
    // A plug-in that still runs must not turn the exit code of this program into an error.
    dyno_experiment::permit_exit();
    // A thread that waits for such a program keeps it from being dropped.
    dyno_experiment::end_programs();
    match executed {
        Ok(exit) => {
            if exit == exit::Exit::Interrupted {
                interrupt::announce();
            }
            exit.into()
        }
        Err(failure) => {
            let exit = exit::Exit::from(failure.kind());
            if exit == exit::Exit::Interrupted && interrupt::is_ended_by_parent() {
                return exit.into();
            }
            exit::report(&failure)
        }
    }
}
