//! Ristretto's search (Gysel and others, 2016): finds the smallest width of FIXED for each kind of
//! object while all others stay FLOAT, then combines them. Ranges follow from the largest
//! magnitudes alone.

use crate::assignment::Assignment;
use crate::format::{Format, Kind};
use crate::network::LayerKind;
use crate::platform::Role;
use crate::tune::{Move, Stop, Subset, Trials, TuneAnswer};

/// Kinds of objects that share a width.
const KINDS: [(&str, Role, Option<LayerKind>); 3] = [
    ("weights of convolutions", Role::Weight, Some(LayerKind::Convolution)),
    ("weights of fully connected layers", Role::Weight, Some(LayerKind::FullyConnected)),
    ("activations", Role::Activation, None),
];

/// Runs the search with the widths that `is_usable` accepts.
pub(super) fn search(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    is_usable: fn(u32) -> bool,
) -> Result<TuneAnswer, Stop> {
    let base = trials.begin(subset)?;
    // For each kind: its slots, its formats from the widest, and the chosen one; `None` keeps
    // FLOAT.
    let mut chosen: Vec<(Vec<usize>, Vec<Format>, Option<usize>)> = Vec::new();
    for (name, role, kind) in KINDS {
        let slots = trials.space.slots.iter().enumerate();
        let is_of = |layer: usize| kind.is_none_or(|k| trials.network().layers[layer].kind == k);
        let slots_of_kind = slots.filter(|(_, s)| s.role == role && is_of(s.layer));
        let with_values = slots_of_kind.filter(|(_, slot)| trials.network().size(**slot) > 0);
        let slots_of_kind: Vec<usize> = with_values.map(|(at, _)| at).collect();
        if slots_of_kind.is_empty() {
            continue;
        }
        let mut formats: Vec<Format> = trials.space.shared(&slots_of_kind);
        formats.retain(|f| f.kind() == Kind::Fixed && is_usable(f.bits()));
        let mut last = None;
        for (at, format) in formats.iter().enumerate() {
            let assignment = with_format(trials, &base.assignment, &slots_of_kind, *format);
            let question = format!("{name} alone: how few bits will do?");
            let change = format!("{name} {}", crate::tune::kind_and_bits(*format));
            if trials.attempt(subset, &question, Move { change, assignment })?.is_none() {
                break;
            }
            last = Some(at);
        }
        chosen.push((slots_of_kind, formats, last));
    }
    loop {
        let mut assignment = base.assignment.clone();
        for (slots, formats, at) in &chosen {
            if let Some(at) = at {
                assignment = with_format(trials, &assignment, slots, formats[*at]);
            }
        }
        let question = "and all of them together?";
        let change = format!("all {assignment}");
        if let Some(answer) = trials.attempt(subset, question, Move { change, assignment })? {
            return Ok(answer);
        }
        // Ristretto retrains the network here. Without training, all kinds get the next wider
        // format.
        for (_, _, at) in &mut chosen {
            *at = at.and_then(|at| at.checked_sub(1));
        }
    }
}

fn with_format(
    trials: &Trials<'_, '_>,
    from: &Assignment,
    slots: &[usize],
    format: Format,
) -> Assignment {
    let mut formats = from.formats().to_vec();
    for &at in slots {
        formats[at] = trials.space.fitted(at, format);
    }
    from.with_formats(formats)
}
