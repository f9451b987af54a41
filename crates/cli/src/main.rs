//! `dyno`: its commands are in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    dyno_cli::execute()
}
