//! `dyno-hardening workers`.

use clap::Args;
use dyno_hardening::oracle::Finding;
use dyno_hardening::spread::spread;
use dyno_hardening::workers::{Case, Trouble, check};

use super::simulate::print_findings;
use super::{Cases, print_figure, timed};

/// Failing runs, by number.
type Failing = Vec<(u64, Trouble, Vec<Finding>)>;

/// Flags of `workers`.
#[derive(Debug, Args)]
pub struct Workers {
    #[command(flatten)]
    cases: Cases,
    /// Runs at a time; they mostly wait
    #[arg(long, default_value_t = 8)]
    at_once: usize,
}

impl Workers {
    /// Plays the runs; returns whether none contradicts what the documentation promises.
    pub fn execute(&self) -> bool {
        let numbers = self.cases.numbers(1_000);
        let runs = numbers.end - numbers.start;
        let add = |failing: &mut Failing, index| {
            let case = Case::draw(self.cases.seed, index);
            let findings = check(&case);
            if !findings.is_empty() {
                failing.push((index, case.trouble, findings));
            }
        };
        let (seconds, mut failing) = timed(|| {
            spread(numbers, self.at_once, add, |one: Failing, other: Failing| [one, other].concat())
        });
        failing.sort_by_key(|failure| failure.0);
        for (index, trouble, findings) in &failing {
            let seed = self.cases.seed;
            println!("dyno-hardening workers --seed {seed} --only {index} ({})", trouble.name());
            print_findings(findings);
        }
        if self.cases.json {
            print_figure("hardening.worker_runs", runs as f64, "runs");
            print_figure("hardening.worker_runs_with_findings", failing.len() as f64, "runs");
        } else {
            println!("{runs} runs with workers, {} with findings, {seconds:.1} s", failing.len());
        }
        failing.is_empty()
    }
}
