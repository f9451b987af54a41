//! Sensitivity and knapsack, as HAWQ, AutoQuantize and others search: what each group loses with each width
//! while all others stay FLOAT(32), and then the smallest whole whose losses, added up, fit a budget. Losses do
//! not add up in truth, so the budget is bisected under the evaluator.

use crate::assignment::Assignment;
use crate::format::{Format, Kind};
use crate::tune::{Answer, Move, Stop, Subset, Trials, shown};

/// A format of a group: what it costs and what it loses.
struct Choice {
    formats: Vec<(usize, Format)>,
    objective: f64,
    loss: f64,
}

pub(super) fn search(trials: &mut Trials<'_, '_>, subset: Subset) -> Result<Answer, Stop> {
    let base = trials.begin(subset)?;
    let threshold = trials.threshold(subset);
    let mut choices = Vec::new();
    for group in 0..trials.space.groups.len() {
        choices.push(of_group(trials, subset, &base, group)?);
    }
    let path = path(&choices);
    // The best answer lies before the first failure on the path, if more loss is worse.
    let (mut passed, mut failed) = (0, path.len());
    let mut answer = base.clone();
    while failed - passed > 1 {
        let middle = passed.midpoint(failed);
        let assignment = along(&base.assignment, &choices, &path[middle]);
        let question = "the smallest whole of so much loss: is it good enough?";
        let change = format!("all {assignment}");
        match trials.attempt(subset, question, Move { change, assignment })? {
            Some(found) => {
                passed = middle;
                if found.objective < answer.objective {
                    answer = found;
                }
            }
            None => failed = middle,
        }
    }
    debug_assert!(answer.accuracy >= threshold, "FLOAT(32) passes");
    Ok(answer)
}

/// All widths of FIXED below the whole, and FLOAT, from wide to narrow, each alone.
fn of_group(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    base: &Answer,
    group: usize,
) -> Result<Vec<Choice>, Stop> {
    let group = trials.space.groups[group].clone();
    let all = trials.space.formats(group.slots[0]).to_vec();
    let mut choices = vec![Choice { formats: Vec::new(), objective: base.objective, loss: 0.0 }];
    let threshold = trials.threshold(subset);
    // Beyond 16 bits nothing is lost that anybody would see.
    let usable =
        all.iter().filter(|f| f.bits() <= 16 && matches!(f.kind(), Kind::Fixed | Kind::Float));
    for format in usable {
        let of = |at: &usize| (*at, trials.space.fitted(*at, *format));
        let formats: Vec<(usize, Format)> = group.slots.iter().map(of).collect();
        let mut whole = base.assignment.formats().to_vec();
        formats.iter().for_each(|(at, format)| whole[*at] = *format);
        let assignment = base.assignment.with(whole);
        let change = format!("{} {}", group.name, crate::tune::kind_and_bits(*format));
        let question = format!("{} alone: what does each width lose?", group.name);
        let moves = vec![Move { change, assignment }];
        let candidates = trials.candidates(subset, moves, Some(threshold))?;
        let (objective, accuracy) = (candidates[0].objective, candidates[0].accuracy);
        let is_enough = accuracy < threshold;
        let loss = (base.accuracy - accuracy).max(0.0);
        let taken = (!is_enough).then(|| (0, format!("loses {}", shown(loss))));
        trials.decide(subset, &question, candidates, taken);
        if is_enough {
            break;
        }
        choices.push(Choice { formats, objective, loss });
    }
    Ok(choices)
}

/// From FLOAT(32) for all to the narrowest for each, by the step that saves most for what it loses: places
/// in the choices of each group.
fn path(choices: &[Vec<Choice>]) -> Vec<Vec<usize>> {
    let mut at = vec![0; choices.len()];
    let mut path = vec![at.clone()];
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for (group, of_group) in choices.iter().enumerate() {
            let now = &of_group[at[group]];
            for (to, choice) in of_group.iter().enumerate().skip(at[group] + 1) {
                let saved = now.objective - choice.objective;
                let ratio = saved / (choice.loss - now.loss).max(1e-9);
                if saved > 0.0 && best.is_none_or(|(best, _, _)| ratio > best) {
                    best = Some((ratio, group, to));
                }
            }
        }
        let Some((_, group, to)) = best else { return path };
        at[group] = to;
        path.push(at.clone());
    }
}

fn along(base: &Assignment, choices: &[Vec<Choice>], at: &[usize]) -> Assignment {
    let mut formats = base.formats().to_vec();
    for (of_group, at) in choices.iter().zip(at) {
        of_group[*at].formats.iter().for_each(|(slot, format)| formats[*slot] = *format);
    }
    base.with(formats)
}
