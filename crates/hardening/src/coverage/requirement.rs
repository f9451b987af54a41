//! Requirements of one run: a bound at the limit of what the truth keeps.
//!
//! A bound just below the true figure is violated by the truth, and one just above it is kept. A
//! finding on such a bound is wrong more often than on any bound that is further away.

use dyno_loadgen::compare::bound::{Finding, judge_events, judge_times};

use super::law::Law;
use super::single_run::failures;
use super::{Case, Claim, Trial};
use crate::rng::Stream;

/// Probability that a finding may be wrong.
const RISK: f64 = 0.05;

/// Returns the cases.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut all = times();
    all.extend(shares());
    all
}

fn times() -> Vec<Case> {
    use Claim::{Fails, Holds, Nearly};
    // The claims are those of a violated bound and of a kept one.
    let rows = [
        (Law::Exponential, 0.99, 1_000, [Holds; 2]),
        (Law::Exponential, 0.99, 20_000, [Holds; 2]),
        (Law::Exponential, 0.9, 300, [Holds; 2]),
        (Law::Pareto, 0.99, 1_000, [Holds; 2]),
        (Law::Pareto, 0.99, 3_000, [Holds; 2]),
        (Law::Lognormal(1.5), 0.99, 3_000, [Holds; 2]),
        (Law::Autoregressive(0.9), 0.99, 1_000, [Holds; 2]),
        (Law::Autoregressive(0.99), 0.99, 1_000, [Holds; 2]),
        (Law::Autoregressive(0.99), 0.99, 20_000, [Nearly; 2]),
        (Law::Bursts, 0.99, 3_000, [Fails, Holds]),
        (Law::Bursts, 0.99, 20_000, [Nearly, Holds]),
        (Law::Queue(0.5), 0.99, 3_000, [Nearly, Holds]),
        (Law::Queue(0.8), 0.99, 1_000, [Holds; 2]),
        (Law::Queue(0.8), 0.99, 3_000, [Nearly, Holds]),
        (Law::Queue(0.9), 0.9, 300, [Holds, Nearly]),
        (Law::Queue(0.9), 0.99, 1_000, [Holds; 2]),
        (Law::Queue(0.9), 0.99, 3_000, [Holds; 2]),
        (Law::Queue(0.9), 0.99, 20_000, [Nearly; 2]),
        (Law::Queue(0.98), 0.99, 300, [Holds, Nearly]),
        (Law::Queue(0.98), 0.99, 3_000, [Holds; 2]),
    ];
    let cases = rows.into_iter().flat_map(|(law, p, queries, claims)| {
        let bound = law.percentile(p) as u64;
        let name = format!("p{} after {queries} queries", p * 100.0);
        let data = format!("{}, percentile at the bound", law.name());
        both(&name, &data, claims, move |random| {
            judge_times(&law.draw(queries, random), 1.0 - p, bound, RISK).finding
        })
    });
    cases.collect()
}

fn shares() -> Vec<Case> {
    use Claim::{Fails, Holds, Nearly};
    let rows = [
        (60, 0.1, 1.0, [Holds; 2]),
        (2_000, 0.001, 1.0, [Holds; 2]),
        (2_000, 0.02, 1.0, [Holds; 2]),
        (2_000, 0.02, 20.0, [Fails, Nearly]),
        (20_000, 0.02, 20.0, [Nearly; 2]),
        (20_000, 0.02, 200.0, [Fails, Nearly]),
    ];
    let cases = rows.into_iter().flat_map(|(queries, share, row, claims)| {
        let name = format!("share of failures after {queries} queries");
        let percent = 100.0 * share;
        let data = match row {
            1.0 => format!("{percent} % fail, independent, share at the bound"),
            row => format!("{percent} % fail, {row} in a row, share at the bound"),
        };
        both(&name, &data, claims, move |random| {
            judge_events(&failures(queries, share, row, random), share, RISK).finding
        })
    });
    cases.collect()
}

/// Returns the cases of a bound that the truth violates, and of one that it keeps.
fn both(
    name: &str,
    data: &str,
    [violated, kept]: [Claim; 2],
    find: impl Fn(&mut Stream) -> Finding + Sync + Copy + 'static,
) -> [Case; 2] {
    let case = |truth: &str, claim: Claim, wrong: Finding| {
        let statement = format!("requirement: {truth}, {name}");
        Case::new((statement, data), 1.0 - RISK, claim, move |random| {
            Trial::from_statement(find(random) != wrong)
        })
    };
    [
        case("violated and not called met", violated, Finding::Met),
        case("kept and not called missed", kept, Finding::Missed),
    ]
}
