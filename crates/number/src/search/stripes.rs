//! Stripes' profiler (Judd and others, 2016): weights in FIXED(16); the activations of each layer have a width
//! of their own, as few bits before the point as will do, and then as few behind it.

use crate::format::Kind;
use crate::platform::Role;
use crate::tune::{Answer, Move, Stop, Subset, Trials, shown};

pub(super) fn search(trials: &mut Trials<'_, '_>, subset: Subset) -> Result<Answer, Stop> {
    let base = trials.begin(subset)?;
    let assignment = trials.space.uniform(16, &[Kind::Fixed]);
    let change = format!("all {assignment}");
    let question = "is FIXED 16 enough to begin with?";
    let Some(mut current) = trials.attempt(subset, question, Move { change, assignment })? else {
        return Ok(base);
    };
    // Bits before the point: the bias up, and a bit less, so that steps stay as fine.
    while let Some(better) = round(trials, subset, &current, 1)? {
        current = better;
    }
    // Bits behind it: a bit less of the same range.
    while let Some(better) = round(trials, subset, &current, 0)? {
        current = better;
    }
    Ok(current)
}

/// Takes the layer that keeps the highest accuracy with a bit less; `shift` more of its bias.
fn round(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    current: &Answer,
    shift: i32,
) -> Result<Option<Answer>, Stop> {
    let mut moves = Vec::new();
    for (at, slot) in trials.space.slots.iter().enumerate() {
        let old = current.assignment.formats()[at];
        let formats = trials.space.formats(at).iter();
        let mut fixed = formats.filter(|f| f.kind() == Kind::Fixed);
        let Some(next) = fixed.find(|f| f.bits() < old.bits()) else { continue };
        // Only a bit more of the bias for a bit less keeps the steps.
        let is_fit = shift == 0 || old.bits() - next.bits() == 1;
        let Some(new) = next.with_bias(old.bias() + shift).ok().filter(|_| is_fit) else {
            continue;
        };
        if slot.role == Role::Activation {
            let mut formats = current.assignment.formats().to_vec();
            formats[at] = new;
            let change = format!("{} {old} -> {new}", trials.network().object(*slot));
            moves.push(Move { change, assignment: current.assignment.with(formats) });
        }
    }
    if moves.is_empty() {
        return Ok(None);
    }
    let threshold = trials.threshold(subset);
    let mut candidates = trials.candidates(subset, moves, Some(threshold))?;
    let passing = (0..candidates.len()).filter(|at| candidates[*at].accuracy >= threshold);
    let best =
        passing.reduce(
            |best, at| {
                if candidates[at].accuracy > candidates[best].accuracy { at } else { best }
            },
        );
    for candidate in &mut candidates {
        candidate.why = format!("accuracy {}: another one is higher", shown(candidate.accuracy));
    }
    let taken =
        best.map(|at| (at, format!("accuracy {} is the highest", shown(candidates[at].accuracy))));
    let question = match shift {
        0 => "which layer can do with a bit less behind the point?",
        _ => "which layer can do with a bit less before the point?",
    };
    Ok(trials.decide(subset, question, candidates, taken))
}
