//! Intervals of one run: percentiles, rates and accuracies.

use dyno_loadgen::compare::single_run::{percentile, rate, wilson};

use super::law::{Bursts, Law, UNIT_NS, normal_quantile};
use super::{Case, Claim, Trial};
use crate::rng::Stream;

/// Probability that an interval may miss the truth.
const RISK: f64 = 0.05;

/// Queries of a run, unless a case states another number.
const QUERIES: usize = 2_000;

/// Returns the cases.
pub fn cases() -> Vec<Case> {
    let mut all = percentiles();
    all.extend(rates());
    all.extend(accuracies());
    all
}

fn percentiles() -> Vec<Case> {
    use Claim::{Fails, Holds, Nearly};
    let laws = [
        (Law::Exponential, [Holds; 3]),
        (Law::Pareto, [Holds; 3]),
        (Law::Lognormal(1.5), [Holds; 3]),
        (Law::Steps, [Holds; 3]),
        (Law::Autoregressive(0.9), [Holds; 3]),
        (Law::Autoregressive(0.99), [Nearly, Nearly, Fails]),
        (Law::Bursts, [Fails; 3]),
        (Law::Queue(0.8), [Nearly, Fails, Fails]),
        (Law::Queue(0.9), [Fails; 3]),
        (Law::Degrading, [Holds; 3]),
    ];
    let mut all = Vec::new();
    for (law, claims) in laws {
        for (p, claim) in [0.5, 0.9, 0.99].into_iter().zip(claims) {
            all.push(percentile_case(law, p, QUERIES, claim));
        }
    }
    // The claims of longer runs: the correlation is short against the run.
    for law in [Law::Autoregressive(0.99), Law::Bursts, Law::Queue(0.8)] {
        all.push(percentile_case(law, 0.99, 20_000, Nearly));
    }
    all.push(percentile_case(Law::Pareto, 0.999, 20_000, Holds));
    all
}

/// Returns the case of percentile `p` of a run.
pub fn percentile_case(law: Law, p: f64, queries: usize, claim: Claim) -> Case {
    let statement = format!("p{} of {queries} queries", p * 100.0);
    let truth = law.percentile(p);
    Case::new((statement, law.name()), 1.0 - RISK, claim, move |random| {
        let times = law.draw(queries, random);
        let Ok(factors) = percentile(&times, p, RISK) else { return Trial::None };
        let value = at(times, p);
        Trial::new(value * factors.low, value * factors.high, truth)
    })
}

/// Returns a percentile as the logs define it: without interpolation.
fn at(mut times: Vec<u64>, p: f64) -> f64 {
    times.sort_unstable();
    times[((times.len() as f64 * p) as usize).min(times.len() - 1)] as f64
}

fn rates() -> Vec<Case> {
    use Claim::{Fails, Holds, Nearly};
    let laws = [
        (Law::Exponential, Holds),
        (Law::Lognormal(1.5), Nearly),
        (Law::Pareto, Fails),
        (Law::Autoregressive(0.9), Nearly),
        (Law::Autoregressive(0.99), Fails),
        (Law::Bursts, Fails),
        (Law::Degrading, Holds),
    ];
    let case = |(law, claim): (Law, Claim)| {
        let truth = UNIT_NS / law.mean();
        let statement = format!("rate of {QUERIES} queries");
        let data = format!("times between answers: {}", law.name());
        Case::new((statement, data), 1.0 - RISK, claim, move |random| {
            let mut now = 0;
            let gaps = law.draw(QUERIES, random);
            let completed: Vec<u64> = gaps
                .iter()
                .map(|gap| {
                    now += gap;
                    now
                })
                .collect();
            let Ok(factors) = rate(&completed, RISK) else { return Trial::None };
            let found = (QUERIES - 1) as f64 * UNIT_NS / (now - completed[0]) as f64;
            Trial::new(found * factors.low, found * factors.high, truth)
        })
    };
    laws.into_iter().map(case).collect()
}

/// Draws which queries fail: this share of them, `row` in a row in the mean.
pub(super) fn failures(queries: usize, share: f64, row: f64, random: &mut Stream) -> Vec<bool> {
    if row == 1.0 {
        return (0..queries).map(|_| random.chance(share)).collect();
    }
    let mut bursts = Bursts::new(share, row, random);
    (0..queries).map(|_| bursts.next(random)).collect()
}

/// Accuracies of the tuner.
fn accuracies() -> Vec<Case> {
    use Claim::{Fails, Holds, Nearly};
    let mut all = Vec::new();
    for (samples, truth, row, claim) in [
        (1_000_u32, 0.9, 1.0, Holds),
        (100, 0.97, 1.0, Holds),
        (1_000, 0.999, 1.0, Nearly),
        (1_000, 0.9, 5.0, Fails),
    ] {
        let data = match row {
            1.0 => format!("{} % right, independent", 100.0 * truth),
            row => format!("{} % right, errors {row} in a row", 100.0 * truth),
        };
        let statement = format!("accuracy of {samples} samples");
        all.push(Case::new((statement, data), 1.0 - RISK, claim, move |random| {
            let wrong = failures(samples as usize, 1.0 - truth, row, random);
            let right = wrong.iter().filter(|&&wrong| !wrong).count() as f64;
            let z = normal_quantile(1.0 - RISK / 2.0);
            let (low, high) = wilson(right / f64::from(samples), f64::from(samples), z);
            Trial::new(low, high, truth)
        }));
    }
    all
}
