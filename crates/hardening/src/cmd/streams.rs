//! `dyno-hardening streams`.

use clap::Args;
use dyno_hardening::streams::answer::Form;
use dyno_hardening::streams::case::Case;
use dyno_hardening::streams::check_many;
use dyno_hardening::streams::play::{play, report};

use super::simulate::print_findings;
use super::{Cases, print_figure, timed};

/// Flags of `streams`.
#[derive(Debug, Args)]
pub struct Streams {
    #[command(flatten)]
    cases: Cases,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

impl Streams {
    /// Plays the runs; returns whether none contradicts the documents.
    pub fn execute(&self) -> bool {
        let seed = self.cases.seed;
        if let Some(index) = self.cases.only {
            print_case(&Case::draw(seed, index));
        }
        let numbers = self.cases.numbers(10_000);
        let (seconds, tally) = timed(|| check_many(seed, numbers, self.threads));
        let failing = tally.failures.len();
        for (index, findings) in &tally.failures {
            println!("dyno-hardening streams --seed {seed} --only {index}");
            print_findings(findings);
        }
        if self.cases.json {
            print_figure("hardening.streamed_runs", tally.runs as f64, "runs");
            print_figure("hardening.streamed_runs_with_findings", failing as f64, "runs");
        } else {
            for (form, count) in Form::ALL.iter().zip(tally.injected) {
                println!("{:12} {count:>10}", form.name());
            }
            println!(
                "{} runs with {} tenants ({} with conversations, {} VALID), {} settings rejected, \
                 {failing} runs with findings, {seconds:.1} s",
                tally.runs, tally.tenants, tally.conversations, tally.valid, tally.refused
            );
        }
        failing == 0
    }
}

fn print_case(case: &Case) {
    println!("{case:#?}");
    let Some(run) = play(case) else { return };
    for tenant in 0..case.tenants.len() {
        let requests = &run.observed[tenant].requests;
        if requests.len() <= 20 {
            println!("{requests:#?}");
        }
        println!("{:#?}", report(&run, tenant));
    }
}
