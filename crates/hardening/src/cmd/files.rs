//! `dyno-hardening files` and its child process.

use std::path::PathBuf;

use clap::Args;
use dyno_hardening::files::{Fault, check, child};

use super::simulate::print_findings;
use super::{Cases, print_figure, timed};

/// Flags of `files`.
#[derive(Debug, Args)]
pub struct Files {
    #[command(flatten)]
    cases: Cases,
}

/// Flags of the child process.
#[derive(Debug, Args)]
pub struct FilesChild {
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    index: u64,
    #[arg(long)]
    fault: String,
    #[arg(long)]
    out: PathBuf,
}

impl FilesChild {
    /// Stores a run and prints the outcome.
    pub fn execute(&self) -> bool {
        println!("{}", child::store(self.seed, self.index, &self.fault, &self.out));
        true
    }
}

impl Files {
    /// Stores the runs; returns whether what is on disk is always what was measured.
    pub fn execute(&self) -> bool {
        let program = match std::env::current_exe() {
            Ok(program) => program,
            Err(error) => {
                eprintln!("error: this program does not know its own path: {error}");
                return false;
            }
        };
        let numbers = self.cases.numbers(2_000);
        let runs = numbers.end - numbers.start;
        let (mut injected, mut failing) = ([0_u64; Fault::ALL.len()], 0_u64);
        let (seconds, ()) = timed(|| {
            for index in numbers {
                let findings = match check(&program, self.cases.seed, index) {
                    Ok((fault, findings)) => {
                        injected[fault as usize] += 1;
                        findings
                    }
                    Err(error) => {
                        println!("run {index}: {error}");
                        failing += 1;
                        continue;
                    }
                };
                if !findings.is_empty() {
                    failing += 1;
                    println!("dyno-hardening files --seed {} --only {index}", self.cases.seed);
                    print_findings(&findings);
                }
            }
        });
        if self.cases.json {
            print_figure("hardening.stored_runs", runs as f64, "runs");
            print_figure("hardening.stored_runs_with_findings", failing as f64, "runs");
        } else {
            for (fault, count) in Fault::ALL.iter().zip(injected) {
                println!("{:16} {count:>10}", fault.name());
            }
            let rate = runs as f64 / seconds;
            println!("{runs} runs, {failing} with findings, {seconds:.1} s, {rate:.0} runs/s");
        }
        failing == 0
    }
}
