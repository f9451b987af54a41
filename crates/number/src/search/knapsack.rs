//! Sensitivity analysis and knapsack, as in HAWQ and AutoQuantize. It measures what each group
//! loses with each width while all others stay FLOAT(32), then chooses the smallest combination
//! whose total loss fits a budget. Losses are not additive in reality, so the budget is bisected
//! with the evaluator.

use crate::assignment::Assignment;
use crate::format::{Format, Kind};
use crate::tune::{Move, Stop, Subset, Trials, TuneAnswer, format_accuracy};

/// A format of a group with its objective and loss.
struct Choice {
    formats: Vec<(usize, Format)>,
    objective: f64,
    loss: f64,
}

pub(super) fn search(trials: &mut Trials<'_, '_>, subset: Subset) -> Result<TuneAnswer, Stop> {
    let base = trials.begin(subset)?;
    let threshold = trials.threshold(subset);
    let mut choices = Vec::new();
    for group in 0..trials.space.groups.len() {
        choices.push(group_choices(trials, subset, &base, group)?);
    }
    let path = path(&choices);
    // The best answer lies before the first failure on the path, assuming that more loss is worse.
    let (mut passed, mut failed) = (0, path.len());
    let mut answer = base.clone();
    while failed - passed > 1 {
        let middle = passed.midpoint(failed);
        let assignment = along(&base.assignment, &choices, &path[middle]);
        let question = "does the smallest configuration with this expected loss pass?";
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

/// Measures all widths of FIXED and FLOAT below 32 bits of a group alone, from wide to narrow.
fn group_choices(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    base: &TuneAnswer,
    group: usize,
) -> Result<Vec<Choice>, Stop> {
    let group = trials.space.groups[group].clone();
    let all = trials.space.formats(group.slots[0]).to_vec();
    let mut choices = vec![Choice { formats: Vec::new(), objective: base.objective, loss: 0.0 }];
    let threshold = trials.threshold(subset);
    // Beyond 16 bits no measurable accuracy is lost.
    let usable =
        all.iter().filter(|f| f.bits() <= 16 && matches!(f.kind(), Kind::Fixed | Kind::Float));
    for format in usable {
        let fitted = |at: &usize| (*at, trials.space.fitted(*at, *format));
        let formats: Vec<(usize, Format)> = group.slots.iter().map(fitted).collect();
        let mut whole = base.assignment.formats().to_vec();
        formats.iter().for_each(|(at, format)| whole[*at] = *format);
        let assignment = base.assignment.with_formats(whole);
        let change = format!("{} {}", group.name, crate::tune::kind_and_bits(*format));
        let question = format!("{} alone: what does each width lose?", group.name);
        let moves = vec![Move { change, assignment }];
        let candidates = trials.candidates(subset, moves, Some(threshold))?;
        let objective = candidates[0].objective;
        let accuracy = candidates[0].accuracy;
        let is_enough = accuracy < threshold;
        let loss = (base.accuracy - accuracy).max(0.0);
        let accepted = (!is_enough).then(|| (0, format!("loses {}", format_accuracy(loss))));
        trials.decide(subset, &question, candidates, accepted);
        if is_enough {
            break;
        }
        choices.push(Choice { formats, objective, loss });
    }
    Ok(choices)
}

/// Returns the path from FLOAT(32) for all groups to their narrowest formats. Each step saves most
/// for what it loses. An entry has the index of each group's choice.
fn path(choices: &[Vec<Choice>]) -> Vec<Vec<usize>> {
    let mut at = vec![0; choices.len()];
    let mut path = vec![at.clone()];
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for (group, choices_of_group) in choices.iter().enumerate() {
            let now = &choices_of_group[at[group]];
            for (to, choice) in choices_of_group.iter().enumerate().skip(at[group] + 1) {
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
    for (choices_of_group, at) in choices.iter().zip(at) {
        choices_of_group[*at].formats.iter().for_each(|(slot, format)| formats[*slot] = *format);
    }
    base.with_formats(formats)
}
