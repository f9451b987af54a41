//! `dyno-hardening simulate`.

use clap::Args;
use dyno_hardening::oracle::Finding;
use dyno_hardening::simulate::case::{Case, Fault, Simplification};
use dyno_hardening::simulate::law::Law;
use dyno_hardening::simulate::play::{Client, play, report};
use dyno_hardening::simulate::shrink::{replay_command, shrink};
use dyno_hardening::simulate::{CaseResult, Tally, check, check_many};

use super::{print_figure, timed};

/// Flags of `simulate`.
#[derive(Debug, Args)]
pub struct Simulate {
    /// Number of runs
    #[arg(long, default_value_t = 10_000)]
    runs: u64,
    /// Seed of all runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Print JSON lines of figures instead of tables
    #[arg(long)]
    json: bool,
    /// Play only the run with this number, and show its details
    #[arg(long)]
    only: Option<u64>,
    /// With --only: upper limit of the number of queries
    #[arg(long, requires = "only")]
    queries: Option<u64>,
    /// With --only: the only faults left, separated by commas, or `none`
    #[arg(long, requires = "only")]
    faults: Option<String>,
    /// With --only: the law of the service times
    #[arg(long, requires = "only", value_parser = Law::named)]
    law: Option<Law>,
}

impl Simulate {
    /// Plays the runs; returns whether no run contradicts the oracle.
    pub fn execute(&self) -> bool {
        match self.only {
            Some(index) => self.play_one(index),
            None => self.play_many(),
        }
    }

    fn simplification(&self) -> Result<Simplification, String> {
        let names = |text: &String| -> Result<Vec<Fault>, String> {
            text.split(',').filter(|name| *name != "none").map(Fault::named).collect()
        };
        let faults = self.faults.as_ref().map(names).transpose()?;
        Ok(Simplification { queries: self.queries, faults, law: self.law })
    }

    fn play_one(&self, index: u64) -> bool {
        let simple = match self.simplification() {
            Ok(simple) => simple,
            Err(problem) => {
                eprintln!("error: --faults: {problem}");
                return false;
            }
        };
        let case = Case::draw(self.seed, index, &simple);
        println!("{case:#?}");
        for client in [Client::Prompt, Client::Late] {
            let Some(played) = play(&case, client) else { continue };
            println!("{client:?} client:");
            if played.observed.queries.len() <= 20 {
                println!("{:#?}", played.observed);
            }
            println!("{:#?}\nended: {:?}", report(&played.run), played.run.ended);
        }
        match check(&case) {
            CaseResult::Refused => println!("Dyno rejects these settings"),
            CaseResult::Judged { findings, .. } => {
                print_findings(&findings);
                return findings.is_empty();
            }
        }
        true
    }

    fn play_many(&self) -> bool {
        let progress = |at: u64| {
            if at.is_multiple_of(16_384) && at > 0 {
                eprintln!("{at} of {} runs", self.runs);
            }
        };
        let (seconds, tally) = timed(|| check_many(self.seed, self.runs, self.threads, &progress));
        if self.json {
            print_figure("hardening.simulated_runs", tally.runs as f64, "runs");
            print_figure("hardening.simulated_runs_with_findings", tally.failed as f64, "runs");
            for (kind, fault) in Fault::ALL.iter().enumerate() {
                let name = format!("hardening.faults_by_kind.{}", fault.name());
                print_figure(&name, tally.injected[kind] as f64, "faults");
            }
        } else {
            print_tally(&tally, seconds);
        }
        for (index, findings) in &tally.failures {
            let simple = shrink(self.seed, *index, &Simplification::default());
            println!("{}", replay_command(self.seed, *index, &simple));
            print_findings(findings);
        }
        tally.failed == 0
    }
}

/// Prints one line per finding.
pub fn print_findings(findings: &[Finding]) {
    let shortened = |text: &str| text.chars().take(300).collect::<String>();
    for Finding { field, expected, reported, rule } in findings {
        let (expected, reported) = (shortened(expected), shortened(reported));
        println!("  {field}: expected {expected}, reported {reported} ({rule})");
    }
}

fn print_tally(tally: &Tally, seconds: f64) {
    println!("{:14} {:>12} {:>10}", "fault", "injected", "runs");
    for (kind, fault) in Fault::ALL.iter().enumerate() {
        let (injected, runs) = (tally.injected[kind], tally.runs_with[kind]);
        println!("{:14} {injected:>12} {runs:>10}", fault.name());
    }
    println!(
        "{} runs ({} VALID), {} settings rejected, {} runs with findings, {seconds:.1} s, {:.0} runs/s",
        tally.runs,
        tally.valid,
        tally.refused,
        tally.failed,
        tally.runs as f64 / seconds
    );
}
