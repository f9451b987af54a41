//! `dyno-studies`: compares figures of papers with Dyno's. Tables go to stdout, progress to stderr.
#![forbid(unsafe_code)]

mod npu;
mod rnn;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Compare figures of papers with ours
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
struct Studies {
    #[command(subcommand)]
    study: Study,
}

#[derive(Debug, Subcommand)]
enum Study {
    /// Reproduce figures of the Layerweaver thesis, beside its values
    Npu(npu::Study),
    /// Measure what each technique of DeepCPU is worth on this machine
    Rnn(rnn::Study),
}

fn main() -> ExitCode {
    let result = match Studies::parse().study {
        Study::Npu(study) => study.execute(),
        Study::Rnn(study) => study.execute(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.problems().iter().for_each(|problem| eprintln!("error: {problem}"));
            failure.hints().iter().for_each(|hint| eprintln!("hint: {hint}"));
            ExitCode::from(2)
        }
    }
}
