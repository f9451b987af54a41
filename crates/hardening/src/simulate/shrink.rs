//! Shrinks a failing case: fewer queries, fewer faults, a simpler law.

use super::case::{Case, Fault, Simplification};
use super::law::Law;
use super::{CaseResult, check};

/// Returns the simplest found variant of a failing case that fails, too.
pub fn shrink(seed: u64, index: u64, from: &Simplification) -> Simplification {
    let fails = |simple: &Simplification| {
        let result = check(&Case::draw(seed, index, simple));
        matches!(result, CaseResult::Judged { findings, .. } if !findings.is_empty())
    };
    let case = Case::draw(seed, index, from);
    let mut simple = from.clone();
    let mut attempt = |candidate: Simplification| {
        if fails(&candidate) {
            simple = candidate;
        }
        simple.clone()
    };
    let mut faults: Vec<Fault> = case.faults.iter().map(|(fault, _)| *fault).collect();
    let mut best = from.clone();
    for fault in faults.clone() {
        let fewer: Vec<_> = faults.iter().copied().filter(|kind| *kind != fault).collect();
        best = attempt(Simplification { faults: Some(fewer), ..best.clone() });
        faults = best.faults.clone().unwrap_or(faults);
    }
    best = attempt(Simplification { law: Some(Law::Constant), ..best.clone() });
    for queries in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987] {
        let found = attempt(Simplification { queries: Some(queries), ..best.clone() });
        if found != best {
            return found;
        }
    }
    best
}

/// Returns the command that replays a case.
pub fn replay_command(seed: u64, index: u64, simple: &Simplification) -> String {
    format!("dyno-hardening simulate --seed {seed} --only {index}{simple}")
}
