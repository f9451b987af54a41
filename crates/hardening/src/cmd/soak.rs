//! `dyno-hardening soak`.

use clap::Args;
use dyno_hardening::soak::{self, Soak as Load, growth_percent};

use super::print_figure;

/// Flags of `soak`.
#[derive(Debug, Args)]
pub struct Soak {
    /// Runs, one after another in this process
    #[arg(long, default_value_t = 6)]
    runs: u64,
    /// Length of a run in seconds
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Queries per second
    #[arg(long, default_value_t = 50_000.0)]
    rate: f64,
    /// Print JSON lines of figures instead of a table
    #[arg(long)]
    json: bool,
}

/// Largest growth of resident memory after the first run, in percent.
const MOST_GROWTH: f64 = 1.0;

impl Soak {
    /// Plays the runs; returns whether no record is lost and memory does not grow.
    pub fn execute(&self) -> bool {
        let load = Load { rate: self.rate, duration: self.seconds * 1_000_000_000 };
        if !self.json {
            println!("run     queries   lost  client lag p99 (us)  resident (MiB)");
        }
        let mut played = Vec::new();
        for number in 1..=self.runs {
            let run = soak::play(&load, number);
            if !self.json {
                println!(
                    "{number:3} {:11} {:6} {:20.1} {:15.1}",
                    run.received,
                    run.lost(),
                    run.lag_p99 as f64 / 1e3,
                    run.resident.unwrap_or(0) as f64 / f64::from(1 << 20)
                );
            }
            played.push(run);
        }
        let lost = played.iter().map(soak::SoakedRun::lost).sum::<u64>();
        let growth = growth_percent(&played);
        if self.json {
            let minutes = (self.runs * self.seconds) as f64 / 60.0;
            print_figure("hardening.soak_minutes", minutes, "minutes");
            print_figure("hardening.soak_records_lost", lost as f64, "records");
            growth.inspect(|growth| print_figure("hardening.soak_growth_percent", *growth, "%"));
        } else if let Some(growth) = growth {
            println!(
                "{lost} records lost, resident memory grew by {growth:.2} % after the first run"
            );
        }
        lost == 0 && growth.is_none_or(|growth| growth <= MOST_GROWTH)
    }
}
