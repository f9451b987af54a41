//! Intervals of a comparison: of each metric, of all metrics together, and at every look.

use dyno_loadgen::compare::{LookPolicy, Metric, Options, Pairing, Row, Run, Series, compare};

use super::law::{Bursts, Law};
use super::{Case, Claim, Trial};
use crate::rng::Stream;

/// Probability that an interval may miss the truth.
const RISK: f64 = 0.05;

/// Queries of a run.
const QUERIES: usize = 2_000;

/// The candidate is slower by this factor.
const SLOWER: f64 = 1.1;

/// Deviation of the logarithm of the latencies between runs.
const BETWEEN_RUNS: f64 = 0.03;

/// Returns the cases.
pub fn cases() -> Vec<Case> {
    use Claim::{Holds, Nearly};
    let mut all = Vec::new();
    let p = |p| Metric::Percentile(Series::Latency, p);
    let mean = Metric::Mean(Series::Latency);
    for (law, metric, claim) in [
        (Law::Exponential, p(0.5), Holds),
        (Law::Exponential, p(0.99), Holds),
        (Law::Exponential, mean, Holds),
        (Law::Exponential, Metric::Throughput, Holds),
        (Law::Pareto, p(0.99), Holds),
        (Law::Pareto, mean, Holds),
        (Law::Autoregressive(0.99), p(0.99), Holds),
        (Law::Autoregressive(0.99), mean, Nearly),
        (Law::Bursts, p(0.99), Holds),
        (Law::Bursts, mean, Nearly),
        (Law::Queue(0.8), p(0.99), Holds),
        (Law::Queue(0.8), mean, Nearly),
    ] {
        let data = format!("one run each: {}", law.name());
        let options = options(metric, &[], Pairing::None);
        all.push(Case::new((statement(metric), data), 1.0 - RISK, claim, move |random| {
            let [a, b] = [1.0, SLOWER].map(|factor| vec![play(law, factor, random)]);
            trial(&compare(&a, &b, &options).rows, 1)
        }));
    }
    for (law, claim) in [(Law::Exponential, Holds), (Law::Pareto, Holds), (Law::Queue(0.8), Holds)]
    {
        let further = [p(0.5), p(0.9), mean, Metric::Throughput];
        let options = options(p(0.99), &further, Pairing::None);
        let data = format!("one run each: {}", law.name());
        let statement = "comparison: all five metrics at once";
        all.push(Case::new((statement, data), 1.0 - RISK, claim, move |random| {
            let [a, b] = [1.0, SLOWER].map(|factor| vec![play(law, factor, random)]);
            trial(&compare(&a, &b, &options).rows, 5)
        }));
    }
    all.extend(failures());
    for (law, pairing, claim) in [
        (Law::Lognormal(0.5), Pairing::None, Holds),
        (Law::Lognormal(0.5), Pairing::InOrder, Holds),
        (Law::Pareto, Pairing::None, Holds),
        (Law::Queue(0.8), Pairing::None, Holds),
    ] {
        all.push(runs_case(law, pairing, claim));
    }
    all.push(anytime_case(Law::Lognormal(0.5), Holds));
    all.push(anytime_case(Law::Pareto, Holds));
    all
}

fn statement(metric: Metric) -> String {
    let name = match metric {
        Metric::Percentile(_, p) => format!("p{}", p * 100.0),
        Metric::Mean(_) => "mean".into(),
        Metric::Throughput => "throughput".into(),
        Metric::Failures => "failures".into(),
    };
    format!("comparison: {name}")
}

fn options(headline: Metric, further: &[Metric], pairing: Pairing) -> Options {
    Options { risk: RISK, ..Options::new(headline, further.to_vec(), pairing) }
}

/// A closed loop: each query is issued when the one before is answered.
fn play(law: Law, factor: f64, random: &mut Stream) -> Run {
    let scaled = |time: u64| (time as f64 * factor).round() as u64;
    let latency: Vec<u64> = law.draw(QUERIES, random).into_iter().map(scaled).collect();
    let mut now = 0;
    let ends = latency.iter().map(|time| {
        now += time;
        now
    });
    Run {
        completed: ends.collect(),
        failed: vec![false; QUERIES],
        latency,
        stride: 1.0,
        ..Run::default()
    }
}

/// Compares all rows with the true changes.
fn trial(rows: &[Row], expected: usize) -> Trial {
    if rows.len() < expected {
        return Trial::None;
    }
    let each = rows.iter().map(|row| {
        let truth = match row.metric {
            Metric::Throughput => 1.0 / SLOWER - 1.0,
            Metric::Failures => 0.0,
            _ => SLOWER - 1.0,
        };
        Trial::new(row.change.low, row.change.high, truth)
    });
    each.into_iter().find(|trial| *trial != Trial::Covers).unwrap_or(Trial::Covers)
}

fn failures() -> Vec<Case> {
    let rows = [(0.02, 1.0), (0.001, 1.0), (0.02, 20.0)];
    let case = |(share, row): (f64, f64)| {
        let data = match row {
            1.0 => format!("one run each: {} % fail, independent", 100.0 * share),
            row => format!("one run each: {} % fail, {row} in a row", 100.0 * share),
        };
        let options = options(Metric::Failures, &[], Pairing::None);
        Case::new((statement(Metric::Failures), data), 1.0 - RISK, Claim::Holds, move |random| {
            let mut side = || {
                let mut bursts = Bursts::new(share, row, random);
                let failed = (0..QUERIES).map(|_| match row {
                    1.0 => random.chance(share),
                    _ => bursts.next(random),
                });
                vec![Run { failed: failed.collect(), stride: 1.0, ..Run::default() }]
            };
            let (a, b) = (side(), side());
            trial(&compare(&a, &b, &options).rows, 1)
        })
    };
    rows.into_iter().map(case).collect()
}

/// Five runs on each side, whose speeds differ from run to run.
fn runs_case(law: Law, pairing: Pairing, claim: Claim) -> Case {
    const RUNS: usize = 5;
    let p99 = Metric::Percentile(Series::Latency, 0.99);
    let options = options(p99, &[], pairing);
    let (name, data) = match pairing {
        Pairing::None => ("five runs each", law.name()),
        Pairing::InOrder => ("five pairs of runs", law.name()),
    };
    let data = format!("{name}: {data}");
    Case::new((statement(p99), data), 1.0 - RISK, claim, move |random| {
        let [a, b] = [1.0, SLOWER].map(|factor| {
            (0..RUNS).map(|_| play(law, factor * speed(random), random)).collect::<Vec<_>>()
        });
        trial(&compare(&a, &b, &options).rows, 1)
    })
}

fn speed(random: &mut Stream) -> f64 {
    (BETWEEN_RUNS * random.normal()).exp()
}

/// Pairs of runs are added, and the comparison is repeated after each: every interval must contain
/// the truth.
fn anytime_case(law: Law, claim: Claim) -> Case {
    const PAIRS: usize = 20;
    let median = Metric::Percentile(Series::Latency, 0.5);
    let options = Options { looks: LookPolicy::Any, ..options(median, &[], Pairing::InOrder) };
    let data = format!("up to {PAIRS} pairs of runs: {}", law.name());
    let statement = "comparison: p50 at every look";
    Case::new((statement, data), 1.0 - RISK, claim, move |random| {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            a.push(short(play(law, speed(random), random)));
            b.push(short(play(law, SLOWER * speed(random), random)));
            if a.len() < 2 {
                continue;
            }
            let found = trial(&compare(&a, &b, &options).rows, 1);
            if matches!(found, Trial::TooLow | Trial::TooHigh) {
                return found;
            }
        }
        Trial::Covers
    })
}

/// Returns a run with fewer queries: the looks sort all of them again.
fn short(mut run: Run) -> Run {
    run.latency.truncate(QUERIES / 10);
    run
}
