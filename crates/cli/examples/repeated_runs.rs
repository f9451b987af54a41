//! Results of a search for the number of streams if runs pass by chance: alone, and confirmed by
//! several runs, as the rules of v0.7 require.
//!
//! `cargo run --release -p dyno --example repeated_runs`

use std::fmt::Write as _;

use dyno_loadgen::peak::{Answer, End, PeakSearch, PeakStep};
use dyno_loadgen::plan::PeakSettings;
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::search::Unit;
use dyno_loadgen::settings::Repetition;

/// Tests behind each line.
const TESTS: u32 = 20_000;
/// Probability that a run passes from 18 streams on; below, it always passes, and above, it never
/// does.
const CHANCES: [f64; 7] = [1.0, 0.995, 0.95, 0.75, 0.40, 0.10, 0.01];
const FIRST: usize = 18;

/// Returns the probability that a run of this many streams passes.
pub fn chance(streams: usize) -> f64 {
    match streams.checked_sub(FIRST) {
        None => 1.0,
        Some(at) => CHANCES.get(at).copied().unwrap_or(0.0),
    }
}

/// Results of many tests by one rule.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// From 18 streams on: the share of tests that found this many.
    pub shares: [f64; CHANCES.len()],
    /// Runs that a test made, on average.
    pub runs: f64,
    /// Probability that one more run of the streams found passes.
    pub passes_again: f64,
}

/// Runs many tests, each with the search that it begins with.
pub fn play(search: &PeakSearch, seed: u64) -> SearchOutcome {
    let mut random = Mt19937::new(seed);
    let mut found = SearchOutcome { shares: [0.0; CHANCES.len()], runs: 0.0, passes_again: 0.0 };
    let one = 1.0 / f64::from(TESTS);
    for _ in 0..TESTS {
        let mut search = search.clone();
        let streams = loop {
            match search.next() {
                PeakStep::Run { load, .. } => {
                    found.runs += one;
                    let passes = random.canonical() < chance(load as usize);
                    search.answer(if passes { Answer::Passed } else { Answer::TooMuch });
                }
                PeakStep::Over(End::Found { load } | End::Failed { load, .. }) => {
                    break load as usize;
                }
            }
        };
        found.passes_again += one * chance(streams);
        if let Some(share) = streams.checked_sub(FIRST).and_then(|at| found.shares.get_mut(at)) {
            *share += one;
        }
    }
    found
}

/// A rule's name and the search that it begins with.
pub fn rules() -> [(&'static str, PeakSearch); 4] {
    let settings = PeakSettings { unit: Unit::Whole, decimals: 0, step_size: 1.0 };
    let confirm = |runs| Repetition::Confirm { runs, decrement: Some(1.0) };
    [
        ("search alone", PeakSearch::new(1.0, settings, Repetition::Once)),
        ("search, confirm:2", PeakSearch::new(1.0, settings, confirm(2))),
        ("search, confirm:5", PeakSearch::new(1.0, settings, confirm(5))),
        ("24, then confirm:5", PeakSearch::confirming(24.0, confirm(5))),
    ]
}

/// The table of the book.
pub fn text() -> String {
    let mut text = String::from("streams           ");
    for streams in FIRST..FIRST + CHANCES.len() {
        let _ = write!(text, "{streams:6}  ");
    }
    text.push_str("  runs  passes again\na run passes      ");
    for chance in CHANCES {
        let _ = write!(text, "{:6.1} %", 100.0 * chance);
    }
    text.push('\n');
    for (name, search) in rules() {
        let found = play(&search, 1);
        let _ = write!(text, "{name:18}");
        for share in found.shares {
            let _ = write!(text, "{:6.1} %", 100.0 * share);
        }
        let _ = writeln!(text, "{:6.1}{:12.1} %", found.runs, 100.0 * found.passes_again);
    }
    text
}

fn main() {
    // A pipe that is closed early is not an error.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text().as_bytes());
}
