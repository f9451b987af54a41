//! The commands, one file each.

pub mod coverage;
pub mod driver;
pub mod files;
pub mod framing;
pub mod kills;
pub mod searches;
pub mod simulate;
pub mod soak;
pub mod streams;
pub mod workers;

use std::ops::Range;

use clap::Args;

/// Flags of commands that draw cases from a seed.
#[derive(Debug, Args)]
pub struct Cases {
    /// Number of cases [default: 10000; files, kills: 2000; workers: 1000]
    #[arg(long)]
    runs: Option<u64>,
    /// Seed of all cases
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Play only the case with this number
    #[arg(long)]
    pub only: Option<u64>,
    /// Print JSON lines of figures instead of tables
    #[arg(long)]
    pub json: bool,
}

impl Cases {
    /// Returns the numbers of the cases; `default` of them unless flags select others.
    pub fn numbers(&self, default: u64) -> Range<u64> {
        self.only.map_or(0..self.runs.unwrap_or(default), |only| only..only + 1)
    }
}

/// Prints a figure as a JSON line in the form of the scripts below `bench`. There is no peer.
pub fn print_figure(name: &str, ours: f64, unit: &str) {
    println!(
        r#"{{"name": "{name}", "ours": {ours}, "peer": null, "ratio": null, "unit": "{unit}"}}"#
    );
}

/// Returns the seconds that `work` takes, and its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let clock = dyno_loadgen::clock::Clock::start();
    let result = work();
    (clock.now() as f64 / 1e9, result)
}
