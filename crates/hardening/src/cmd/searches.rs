//! `dyno-hardening searches`.

use clap::Args;
use dyno_hardening::searches::{Search, SearchEnd, check, limits, peak};

use super::simulate::print_findings;
use super::{Cases, print_figure, timed};

/// Flags of `searches`.
#[derive(Debug, Args)]
pub struct Searches {
    #[command(flatten)]
    cases: Cases,
}

impl Searches {
    /// Plays the searches; returns whether none contradicts the documents.
    pub fn execute(&self) -> bool {
        if let Some(index) = self.cases.only {
            print_search(self.cases.seed, index);
        }
        let numbers = self.cases.numbers(10_000);
        let searches = numbers.end - numbers.start;
        let (mut failing, mut found, mut refused) = (0_u64, 0_u64, 0_u64);
        let (seconds, ()) = timed(|| {
            for index in numbers {
                let (ended, findings) = check(self.cases.seed, index);
                found += u64::from(ended == SearchEnd::Found);
                refused += u64::from(ended == SearchEnd::Refused);
                if !findings.is_empty() {
                    failing += 1;
                    println!("dyno-hardening searches --seed {} --only {index}", self.cases.seed);
                    print_findings(&findings);
                }
            }
        });
        if self.cases.json {
            print_figure("hardening.searches", searches as f64, "searches");
            print_figure("hardening.searches_with_findings", failing as f64, "searches");
        } else {
            println!(
                "{searches} searches ({found} found a peak), {refused} settings rejected, {failing} \
                 with findings, {seconds:.1} s"
            );
        }
        failing == 0
    }
}

fn print_search(seed: u64, index: u64) {
    match Search::draw(seed, index) {
        Search::Peak(settings) => {
            println!("{settings:#?}");
            if let Some((runs, report)) = peak::play(&settings) {
                let rates: Vec<f64> = runs.iter().map(|run| run.rate).collect();
                println!("{rates:?}\n{report:#?}");
            }
        }
        Search::Limit(case, mut draw) => {
            let (runs, report) = limits::play(&case, &mut draw);
            println!("{case:#?}");
            runs.iter().for_each(|run| println!("{run:?}"));
            println!("{report:#?}");
        }
    }
}
