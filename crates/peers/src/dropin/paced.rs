//! Lateness of Server queries: the clock of the system under test against the schedule computed from
//! the seed.

use anyhow::Result;

use super::Bench;
use super::sides::{Program, Sides};
use crate::figure::{Better, Figure};

/// A rate is sustained if the 99th percentile of lateness is below this, in ns.
const SUSTAINED_LATENESS_NS: f64 = 100_000.0;

/// Duration of a test of one rate, in seconds.
const TEST_S: f64 = 0.5;

/// Attempts per rate, because a pause of the machine can spoil one.
const ATTEMPTS: usize = 3;

/// Rates in the order in which they are tried, in queries/s.
const RATES: &[f64] = &[0.5e6, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 8e6];

const SUSTAINED: Figure = Figure {
    name: "dropin.cpp.server_held_qps",
    unit: "queries/s with p99 lateness below 100 us",
    better: Better::Higher,
};

const LATE: [Figure; 2] =
    [late("dropin.cpp.server_late_p50_ns"), late("dropin.cpp.server_late_p99_ns")];

const fn late(name: &'static str) -> Figure<'static> {
    Figure { name, unit: "ns, worst of 1k, 10k and 100k queries/s", better: Better::Lower }
}

pub fn is_wanted(bench: &Bench) -> bool {
    bench.wants(SUSTAINED.name) || LATE.iter().any(|figure| bench.wants(figure.name))
}

/// Prints the wanted figures.
pub fn figures(bench: &Bench, sides: &Sides) -> Result<()> {
    sides.figures(bench, &[SUSTAINED], |program| Ok(vec![highest_sustained(bench, program)?]))?;
    sides.figures(bench, &LATE, |program| {
        let mut worst = vec![0.0_f64; 2];
        for (qps, queries) in [(1e3, 2_000), (1e4, 10_000), (1e5, 100_000)] {
            for (worst, late) in worst.iter_mut().zip(lateness_ns(bench, program, qps, queries)?) {
                *worst = worst.max(late);
            }
        }
        Ok(worst)
    })
}

fn highest_sustained(bench: &Bench, program: &Program) -> Result<f64> {
    let mut highest = 0.0;
    for &qps in RATES {
        if !sustains(bench, program, qps)? {
            break;
        }
        highest = qps;
    }
    Ok(highest)
}

fn sustains(bench: &Bench, program: &Program, qps: f64) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        let [_, p99] = lateness_ns(bench, program, qps, (qps * TEST_S) as u64)?;
        if p99 < SUSTAINED_LATENESS_NS {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the median and the 99th percentile.
fn lateness_ns(bench: &Bench, program: &Program, qps: f64, queries: u64) -> Result<[f64; 2]> {
    let queries = bench.queries(queries);
    let words = format!("scenario=server system=stamped qps={qps} queries={queries}");
    let measurement = program.run_test(&words)?;
    Ok([measurement.get("late_p50_ns"), measurement.get("late_p99_ns")])
}
