//! Ristretto's search (Gysel and others, 2016): the smallest width of FIXED for each kind of object while all
//! others stay FLOAT, then all of them together. Ranges come from the largest magnitudes alone.

use crate::assignment::Assignment;
use crate::format::{Format, Kind};
use crate::network::LayerKind;
use crate::platform::Role;
use crate::tune::{Answer, Move, Stop, Subset, Trials, shown};

/// What shares a width.
const KINDS: [(&str, Role, Option<LayerKind>); 3] = [
    ("weights of convolutions", Role::Weight, Some(LayerKind::Convolution)),
    ("weights of fully connected layers", Role::Weight, Some(LayerKind::FullyConnected)),
    ("activations", Role::Activation, None),
];

/// Of the widths that `is_usable` says.
pub(super) fn search(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    is_usable: fn(u32) -> bool,
) -> Result<Answer, Stop> {
    let base = trials.begin(subset)?;
    // The widest first; a kind that keeps none stays as it is.
    let mut chosen: Vec<(Vec<usize>, Vec<Format>, Option<usize>)> = Vec::new();
    for (name, role, kind) in KINDS {
        let slots = trials.space.slots.iter().enumerate();
        let is_of = |layer: usize| kind.is_none_or(|k| trials.network().layers[layer].kind == k);
        let of_kind: Vec<usize> =
            slots.filter(|(_, s)| s.role == role && is_of(s.layer)).map(|(at, _)| at).collect();
        if of_kind.is_empty() {
            continue;
        }
        let mut formats: Vec<Format> = trials.space.shared(&of_kind);
        formats.retain(|f| f.kind() == Kind::Fixed && is_usable(f.bits()));
        let mut last = None;
        for (at, format) in formats.iter().enumerate() {
            let assignment = with(trials, &base.assignment, &of_kind, *format);
            let question = format!("{name} alone: how few bits will do?");
            let change = format!("{name} {}", crate::tune::kind_and_bits(*format));
            if trials.attempt(subset, &question, Move { change, assignment })?.is_none() {
                break;
            }
            last = Some(at);
        }
        chosen.push((of_kind, formats, last));
    }
    loop {
        let mut assignment = base.assignment.clone();
        for (slots, formats, at) in &chosen {
            if let Some(at) = at {
                assignment = with(trials, &assignment, slots, formats[*at]);
            }
        }
        let question = "and all of them together?";
        let change = format!("all {assignment}");
        if let Some(answer) = trials.attempt(subset, question, Move { change, assignment })? {
            return Ok(answer);
        }
        // Ristretto trains the network further here; nothing is trained here, so all get the next width.
        for (_, _, at) in &mut chosen {
            *at = at.and_then(|at| at.checked_sub(1));
        }
    }
}

fn with(trials: &Trials<'_, '_>, from: &Assignment, slots: &[usize], format: Format) -> Assignment {
    let mut formats = from.formats().to_vec();
    for &at in slots {
        formats[at] = trials.space.fitted(at, format);
    }
    from.with(formats)
}

impl Trials<'_, '_> {
    /// One candidate that is taken if it passes.
    pub(super) fn attempt(
        &mut self,
        subset: Subset,
        question: &str,
        what: Move,
    ) -> Result<Option<Answer>, Stop> {
        let threshold = self.threshold(subset);
        let candidates = self.candidates(subset, vec![what], Some(threshold))?;
        let accuracy = candidates[0].accuracy;
        let taken = (accuracy >= threshold)
            .then(|| (0, format!("accuracy {} is at least {}", shown(accuracy), shown(threshold))));
        Ok(self.decide(subset, question, candidates, taken))
    }
}
