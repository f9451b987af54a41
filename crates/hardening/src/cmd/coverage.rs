//! `dyno-hardening coverage`.

use clap::Args;
use dyno_hardening::coverage::{Case, Claim, Counts, SHOWN, cases, measure};

use super::{print_figure, timed};

/// Flags of `coverage`.
#[derive(Debug, Args)]
pub struct Coverage {
    /// Trials of each case [default: 10000]
    #[arg(long, conflicts_with = "quick")]
    trials: Option<u64>,
    /// Run 200 trials of each case
    #[arg(long)]
    quick: bool,
    /// Seed of all trials
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Measure only the cases whose names contain this text
    #[arg(long, default_value = "")]
    only: String,
    /// Print JSON lines of figures instead of a table
    #[arg(long)]
    json: bool,
}

const QUICK: u64 = 200;
const DEFAULT: u64 = 10_000;

impl Coverage {
    /// Measures all cases; returns whether none contradicts what is claimed of it.
    pub fn execute(&self) -> bool {
        let trials = if self.quick { QUICK } else { self.trials.unwrap_or(DEFAULT) };
        if !self.json {
            println!(
                "| Statement | Data | Published | Counts | Binomial 95 % | Below, above | \
                      None | Claim |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
            );
        }
        let (mut measured, mut contradicted) = (0_u32, 0_u32);
        let all = cases();
        let selected = all.iter().filter(|case| format!("{case:?}").contains(&self.only));
        for case in selected {
            let (seconds, observed) = timed(|| measure(case, self.seed, trials, self.threads));
            eprintln!("{case:?}: {seconds:.1} s");
            let is_contradicted = case.is_contradicted(&observed);
            measured += 1;
            contradicted += u32::from(is_contradicted);
            if !self.json {
                println!("{}", row(case, &observed, is_contradicted));
            }
        }
        if self.json {
            print_figure("hardening.coverage_cases", measured.into(), "cases");
            print_figure("hardening.coverage_contradicted", contradicted.into(), "cases");
        } else {
            println!(
                "\n{measured} cases of {trials} trials, {contradicted} contradict their claim"
            );
        }
        contradicted == 0
    }
}

/// Returns the row of a table.
fn row(case: &Case, observed: &Counts, is_contradicted: bool) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let (low, high) = observed.limits(SHOWN);
    let of_all = |count: u64| percent(count as f64 / observed.published().max(1) as f64);
    let claim = match case.claim {
        Claim::Holds => "holds",
        Claim::Nearly => "nearly",
        Claim::Fails => "**fails**",
    };
    format!(
        "| {} | {} | {} | {} | {} to {} | {}, {} | {} | {claim}{} |",
        case.statement,
        case.data,
        percent(case.nominal),
        percent(observed.coverage()),
        percent(low),
        percent(high),
        of_all(observed.too_low),
        of_all(observed.too_high),
        observed.none,
        if is_contradicted { ", contradicted" } else { "" }
    )
}
