//! `dyno-hardening framing`.

use clap::Args;
use dyno_hardening::framing::{Fault, check};

use super::simulate::print_findings;
use super::{Cases, print_figure, timed};

/// Flags of `framing`.
#[derive(Debug, Args)]
pub struct Framing {
    #[command(flatten)]
    cases: Cases,
}

impl Framing {
    /// Parses the connections; returns whether each is parsed as the standards demand.
    pub fn execute(&self) -> bool {
        let numbers = self.cases.numbers(10_000);
        let runs = numbers.end - numbers.start;
        let (mut injected, mut failing) = ([0; Fault::ALL.len()], 0_u64);
        let (seconds, ()) = timed(|| {
            for index in numbers {
                let findings = check(self.cases.seed, index, &mut injected);
                if !findings.is_empty() {
                    failing += 1;
                    println!("dyno-hardening framing --seed {} --only {index}", self.cases.seed);
                    print_findings(&findings);
                }
            }
        });
        if self.cases.json {
            print_figure("hardening.framed_connections", runs as f64, "connections");
            print_figure(
                "hardening.framed_connections_with_findings",
                failing as f64,
                "connections",
            );
        } else {
            for (fault, count) in Fault::ALL.iter().zip(injected) {
                println!("{:16} {count:>10}", fault.name());
            }
            let rate = runs as f64 / seconds;
            println!(
                "{runs} connections, {failing} with findings, {seconds:.1} s, {rate:.0} connections/s"
            );
        }
        failing == 0
    }
}
