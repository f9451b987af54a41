//! `dyno-hardening driver`.

use clap::Args;
use dyno_hardening::real::{Case, Fault, check, play};

use super::simulate::print_findings;
use super::{Cases, print_figure, timed};

/// Flags of `driver`.
#[derive(Debug, Args)]
pub struct Driver {
    #[command(flatten)]
    cases: Cases,
}

impl Driver {
    /// Plays the runs; returns whether each is recorded as it happened.
    pub fn execute(&self) -> bool {
        let (mut runs, mut refused, mut failing) = (0_u64, 0_u64, 0_u64);
        let mut injected = [0; Fault::ALL.len()];
        let numbers = self.cases.numbers(10_000);
        let (seconds, ()) = timed(|| {
            for index in numbers {
                let case = Case::draw(self.cases.seed, index);
                let Some(played) = play(&case) else {
                    refused += 1;
                    continue;
                };
                runs += 1;
                injected.iter_mut().zip(played.injected).for_each(|(sum, count)| *sum += count);
                let findings = check(&case, &played);
                if !findings.is_empty() {
                    failing += 1;
                    println!("dyno-hardening driver --seed {} --only {index}", self.cases.seed);
                    print_findings(&findings);
                }
                if self.cases.only.is_some() {
                    println!("{case:#?}\nended: {:?}", played.run.ended);
                }
            }
        });
        if self.cases.json {
            print_figure("hardening.driver_runs", runs as f64, "runs");
            print_figure("hardening.driver_runs_with_findings", failing as f64, "runs");
        } else {
            for (fault, count) in Fault::ALL.iter().zip(injected) {
                println!("{:16} {count:>10}", fault.name());
            }
            let rate = runs as f64 / seconds;
            println!(
                "{runs} runs, {refused} settings rejected, {failing} runs with findings, {seconds:.1} s, {rate:.0} runs/s"
            );
        }
        failing == 0
    }
}
