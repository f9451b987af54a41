//! Requirements of one run: a bound at the limit of what the truth keeps.
//!
//! A bound just below the true figure is violated by the truth, and one just above it is kept. A
//! finding on such a bound is wrong more often than on any bound that is further away.
//!
//! A run without an event does not show in which rows events come. Some cases therefore also count only
//! the wrong findings that do not state this assumption.

use dyno_loadgen::compare::bound::{Finding, Judgment, find_times, judge_events};

use super::law::Law;
use super::single_run::failures;
use super::{Case, Claim, Trial};
use crate::rng::Stream;

/// Probability that a finding may be wrong.
const RISK: f64 = 0.05;

/// Returns the cases.
pub fn cases() -> Vec<Case> {
    let mut all = times();
    all.extend(shares());
    all
}

fn times() -> Vec<Case> {
    use Claim::{Fails, Holds, Nearly};
    // The claims are those of a violated bound, of a kept one, and of a violated one without assumptions.
    let rows: [(Law, f64, usize, &'static [Claim]); 28] = [
        (Law::Exponential, 0.99, 1_000, &[Holds; 2]),
        (Law::Exponential, 0.99, 20_000, &[Holds; 2]),
        (Law::Exponential, 0.9, 300, &[Holds; 2]),
        (Law::Pareto, 0.99, 1_000, &[Holds; 2]),
        (Law::Pareto, 0.99, 3_000, &[Holds; 2]),
        (Law::Lognormal(1.5), 0.99, 3_000, &[Holds; 2]),
        (Law::Autoregressive(0.9), 0.99, 1_000, &[Holds; 2]),
        (Law::Autoregressive(0.99), 0.99, 1_000, &[Holds; 2]),
        (Law::Autoregressive(0.99), 0.99, 20_000, &[Nearly; 2]),
        (Law::Bursts, 0.99, 1_000, &[Fails, Holds, Holds]),
        (Law::Bursts, 0.99, 3_000, &[Fails, Holds, Holds]),
        (Law::Bursts, 0.99, 20_000, &[Holds; 2]),
        (Law::Queue(0.5), 0.99, 3_000, &[Nearly, Holds]),
        (Law::Queue(0.8), 0.99, 1_000, &[Holds; 2]),
        (Law::Queue(0.8), 0.99, 3_000, &[Nearly, Holds]),
        (Law::Queue(0.9), 0.9, 300, &[Holds, Nearly]),
        (Law::Queue(0.9), 0.99, 1_000, &[Holds; 2]),
        (Law::Queue(0.9), 0.99, 3_000, &[Holds; 2]),
        (Law::Queue(0.9), 0.99, 20_000, &[Nearly; 2]),
        (Law::Queue(0.98), 0.99, 300, &[Holds, Nearly]),
        (Law::Queue(0.98), 0.99, 3_000, &[Holds; 2]),
        (Law::HeavyQueue(2.0, 0.3), 0.9, 2_000, &[Nearly, Holds]),
        (Law::HeavyQueue(2.0, 0.3), 0.9, 20_000, &[Nearly, Holds]),
        (Law::HeavyQueue(2.0, 0.3), 0.99, 5_000, &[Holds; 2]),
        (Law::HeavyQueue(2.0, 0.3), 0.99, 20_000, &[Fails, Holds, Holds]),
        (Law::HeavyQueue(2.0, 0.5), 0.5, 5_000, &[Holds; 2]),
        (Law::HeavyQueue(1.5, 0.5), 0.99, 5_000, &[Holds; 2]),
        (Law::HeavyQueue(1.5, 0.5), 0.99, 20_000, &[Holds, Nearly]),
    ];
    let cases = rows.into_iter().flat_map(|(law, p, queries, claims)| {
        let bound = law.percentile(p) as u64;
        let name = format!("p{} after {queries} queries", p * 100.0);
        let data = format!("{}, percentile at the bound", law.name());
        of_truths(&name, &data, claims, move |random| {
            find_times(&law.draw(queries, random), 1.0 - p, bound, RISK)
        })
    });
    cases.collect()
}

fn shares() -> Vec<Case> {
    use Claim::{Fails, Holds, Nearly};
    let rows: [(usize, f64, f64, &'static [Claim]); 6] = [
        (60, 0.1, 1.0, &[Holds; 2]),
        (2_000, 0.001, 1.0, &[Holds; 2]),
        (2_000, 0.02, 1.0, &[Holds; 2]),
        (2_000, 0.02, 20.0, &[Fails, Nearly, Holds]),
        (20_000, 0.02, 20.0, &[Holds, Nearly]),
        (20_000, 0.02, 200.0, &[Fails, Nearly, Holds]),
    ];
    let cases = rows.into_iter().flat_map(|(queries, share, row, claims)| {
        let name = format!("share of failures after {queries} queries");
        let percent = 100.0 * share;
        let data = match row {
            1.0 => format!("{percent} % fail, independent, share at the bound"),
            row => format!("{percent} % fail, {row} in a row, share at the bound"),
        };
        of_truths(&name, &data, claims, move |random| {
            judge_events(&failures(queries, share, row, random), share, RISK)
        })
    });
    cases.collect()
}

/// Whether a judgment is wrong, given the truth.
type IsWrong = fn(&Judgment) -> bool;

/// Returns the cases of a bound that the truth violates, of one that it keeps, and of one that it
/// violates without an assumption: as many as there are claims.
fn of_truths(
    name: &str,
    data: &str,
    claims: &'static [Claim],
    find: impl Fn(&mut Stream) -> Judgment + Sync + Copy + 'static,
) -> Vec<Case> {
    let truths: [(&str, IsWrong); 3] = [
        ("violated and not called met", |found| found.finding == Finding::Met),
        ("kept and not called missed", |found| found.finding == Finding::Missed),
        ("violated and not called met without an assumption", |found| {
            found.finding == Finding::Met && !found.assumes_independence
        }),
    ];
    let cases = truths.into_iter().zip(claims).map(|((truth, is_wrong), &claim)| {
        let statement = format!("requirement: {truth}, {name}");
        Case::new((statement, data), 1.0 - RISK, claim, move |random| {
            Trial::from_statement(!is_wrong(&find(random)))
        })
    });
    cases.collect()
}
