//! Accuracy against width: every width of FIXED, EXP and FLOAT, for everything at once and for each object
//! alone while all others stay FLOAT(32) (the thesis' figures of chapter II).

use crate::assignment::Assignment;
use crate::format::{Format, Kind};
use crate::network::{Network, Slot};

/// A configuration of such a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Width {
    /// What is not FLOAT(32): one slot, or all.
    pub slot: Option<Slot>,
    /// FIXED, EXP or FLOAT.
    pub kind: Kind,
    /// From 1 to 16.
    pub bits: u32,
    /// With the biases that the largest magnitudes ask for.
    pub assignment: Assignment,
}

/// The widest one of a curve.
const WIDEST: u32 = 16;

/// All that the curves of a network have, in the order of objects (all of them first), types and widths.
#[must_use]
pub fn widths(network: &Network) -> Vec<Width> {
    let slots = network.slots();
    let objects = std::iter::once(None).chain(slots.iter().copied().map(Some));
    let mut found = Vec::new();
    for slot in objects {
        for (kind, bits, format) in formats() {
            let mut formats = network.base().formats().to_vec();
            for (at, of) in slots.iter().enumerate() {
                if slot.is_none_or(|slot| slot == *of) {
                    formats[at] = network.profiled(*of, format);
                }
            }
            let assignment = network.base().with(formats);
            found.push(Width { slot, kind, bits, assignment });
        }
    }
    found
}

/// Each type has its own widths: FIXED from 1, EXP from 2 to 9, FLOAT from 4.
fn formats() -> impl Iterator<Item = (Kind, u32, Format)> {
    let of = |kind: Kind, bits: u32| match kind {
        Kind::Fixed => Format::fixed(bits, 0),
        Kind::Exp => Format::exp(bits),
        Kind::Float | Kind::Binary => Format::float(bits),
    };
    let kinds = [Kind::Fixed, Kind::Exp, Kind::Float].into_iter();
    kinds.flat_map(move |kind| {
        (1..=WIDEST).filter_map(move |bits| Some((kind, bits, of(kind, bits).ok()?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::lenet;

    #[test]
    fn one_object_changes_at_a_time_and_all_of_them_once() {
        let network = lenet();
        let all = widths(&network);
        // 16 of FIXED, 8 of EXP, 13 of FLOAT; for everything and for four objects.
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
