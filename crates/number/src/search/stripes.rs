//! Stripes' profiler (Judd and others, 2016): weights in FIXED(16), and a width of its own for the
//! activations of each layer. First the bits before the point are reduced, then those behind it.

use crate::format::Kind;
use crate::platform::Role;
use crate::tune::{Move, Stop, Subset, Trials, TuneAnswer, format_accuracy};

pub(super) fn search(trials: &mut Trials<'_, '_>, subset: Subset) -> Result<TuneAnswer, Stop> {
    let base = trials.begin(subset)?;
    let assignment = trials.space.uniform(16, &[Kind::Fixed]);
    let change = format!("all {assignment}");
    let question = "is FIXED 16 enough to begin with?";
    let Some(mut current) = trials.attempt(subset, question, Move { change, assignment })? else {
        return Ok(base);
    };
    // One bit less before the point: the bias rises, so that steps stay equal.
    while let Some(better) = round(trials, subset, &current, 1)? {
        current = better;
    }
    // One bit less behind the point, with an equal range.
    while let Some(better) = round(trials, subset, &current, 0)? {
        current = better;
    }
    Ok(current)
}

/// Narrows the layer that keeps the highest accuracy by a bit, and adds `shift` to its bias.
fn round(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    current: &TuneAnswer,
    shift: i32,
) -> Result<Option<TuneAnswer>, Stop> {
    let mut moves = Vec::new();
    for (at, slot) in trials.space.slots.iter().enumerate() {
        let old = current.assignment.formats()[at];
        let formats = trials.space.formats(at).iter();
        let mut fixed = formats.filter(|f| f.kind() == Kind::Fixed);
        let Some(next) = fixed.find(|f| f.bits() < old.bits()) else { continue };
        // Steps stay equal only if the bias rises by one for one bit less.
        let is_fit = shift == 0 || old.bits() - next.bits() == 1;
        let Some(new) = next.with_bias(old.bias() + shift).ok().filter(|_| is_fit) else {
            continue;
        };
        if slot.role == Role::Activation {
            let mut formats = current.assignment.formats().to_vec();
            formats[at] = new;
            let change = format!("{} {old} -> {new}", trials.network().object(*slot));
            moves.push(Move { change, assignment: current.assignment.with_formats(formats) });
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
        candidate.why =
            format!("accuracy {}: another one is higher", format_accuracy(candidate.accuracy));
    }
    let accepted = best.map(|at| {
        (at, format!("accuracy {} is the highest", format_accuracy(candidates[at].accuracy)))
    });
    let question = match shift {
        0 => "which layer can lose one bit after the point?",
        _ => "which layer can lose one bit before the point?",
    };
    Ok(trials.decide(subset, question, candidates, accepted))
}
