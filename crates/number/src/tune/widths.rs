//! Accuracy as a function of width: every width of FIXED, EXP and FLOAT, for all objects together
//! and for each object alone while all others stay FLOAT(32) (the thesis' figures of chapter II).

use crate::assignment::Assignment;
use crate::format::{Format, Kind};
use crate::network::{Network, Slot};

/// A configuration on a curve of accuracy against width.
#[derive(Clone, Debug, PartialEq)]
pub struct WidthTrial {
    /// The slot that is not FLOAT(32); `None` if all slots have the format.
    pub slot: Option<Slot>,
    /// FIXED, EXP or FLOAT.
    pub kind: Kind,
    /// Width, 1 to 16.
    pub bits: u32,
    /// Formats with the biases that fit the largest magnitudes.
    pub assignment: Assignment,
}

/// Width at which the curves end.
const WIDEST: u32 = 16;

/// Returns all configurations of a network's curves, ordered by object (all objects together
/// first), type and width.
pub fn width_trials(network: &Network) -> Vec<WidthTrial> {
    let slots = network.slots();
    let objects = std::iter::once(None).chain(slots.iter().copied().map(Some));
    let mut found = Vec::new();
    for slot in objects {
        for (kind, bits, format) in formats() {
            let mut formats = network.base().formats().to_vec();
            for (at, other) in slots.iter().enumerate() {
                if slot.is_none_or(|slot| slot == *other) {
                    formats[at] = network.profiled(*other, format);
                }
            }
            let assignment = network.base().with_formats(formats);
            found.push(WidthTrial { slot, kind, bits, assignment });
        }
    }
    found
}

/// Iterates over the widths of each type: FIXED from 1, EXP from 2 to 9, FLOAT from 4.
fn formats() -> impl Iterator<Item = (Kind, u32, Format)> {
    let format = |kind: Kind, bits: u32| match kind {
        Kind::Fixed => Format::fixed(bits, 0),
        Kind::Exp => Format::exp(bits),
        Kind::Float | Kind::Binary => Format::float(bits),
    };
    let kinds = [Kind::Fixed, Kind::Exp, Kind::Float].into_iter();
    kinds.flat_map(move |kind| {
        (1..=WIDEST).filter_map(move |bits| Some((kind, bits, format(kind, bits).ok()?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::lenet;

    #[test]
    fn one_object_changes_at_a_time_and_all_of_them_once() {
        let network = lenet();
        let all = width_trials(&network);
        // 16 widths of FIXED, 8 of EXP and 13 of FLOAT, for all objects together and for each of
        // four.
        assert_eq!(all.len(), 37 * 5);
        for width in &all {
            let formats = width.assignment.formats().iter();
            let changed = formats.filter(|format| **format != Format::F32).count();
            assert_eq!(changed, if width.slot.is_none() { 4 } else { 1 });
        }
        let third = all.iter().find(|width| {
            width.slot == Some(network.slots()[3]) && (width.kind, width.bits) == (Kind::Fixed, 3)
        });
        let format = third.expect("FIXED 3 of the last").assignment.formats()[3];
        assert_eq!(format.to_string(), "I3(-3)", "with the bias of its values");
    }
}
