//! Moves from an assignment to its neighbors: a bit or a bias more or less, or another type.

use crate::assignment::Assignment;
use crate::format::{Format, Kind, Special};
use crate::network::{Group, Network, Slot};

/// A move to a neighbor of an assignment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Move {
    /// What changes, for display.
    pub change: String,
    pub assignment: Assignment,
}

/// The search space: the network's slots and groups, and the formats of each slot.
#[derive(Debug)]
pub(crate) struct Space<'a> {
    pub network: &'a Network,
    pub slots: Vec<Slot>,
    pub groups: Vec<Group>,
    // Formats of each slot, widest first: FLOAT, FIXED with at least the fewest bits, and EXP.
    formats: Vec<Vec<Format>>,
}

impl<'a> Space<'a> {
    /// Creates the search space of a network; `least` is the fewest bits of FIXED (SPEC A16).
    pub fn new(network: &'a Network, least: u32) -> Self {
        let slots = network.slots();
        let mut space = Self {
            formats: slots.iter().map(|slot| usable(network, *slot, least)).collect(),
            groups: network.groups(),
            slots,
            network,
        };
        // A width is usable for a group only if all its slots have it.
        for group in &space.groups {
            let shared = space.shared(&group.slots);
            for &at in &group.slots {
                space.formats[at].retain(|format| shared.iter().any(|one| is_alike(*one, *format)));
            }
        }
        space
    }

    /// Returns the formats of a slot, widest first. A slot without negative values has unsigned
    /// formats where the platform has them.
    pub fn formats(&self, at: usize) -> &[Format] {
        &self.formats[at]
    }

    /// Returns the types and widths that all these slots have, as formats of the first slot.
    pub fn shared(&self, slots: &[usize]) -> Vec<Format> {
        let Some((first, others)) = slots.split_first() else { return Vec::new() };
        let has = |at: &usize, one: Format| self.formats[*at].iter().any(|f| is_alike(*f, one));
        let is_shared = |one: &&Format| others.iter().all(|at| has(at, **one));
        self.formats[*first].iter().filter(is_shared).copied().collect()
    }

    /// Returns the slot's format with the type and width of `like`, with the bias that fits the
    /// slot's values.
    pub fn fitted(&self, at: usize, like: Format) -> Format {
        let own = &self.formats[at];
        let found =
            own.iter().find(|format| is_alike(**format, like)).filter(|_| !own.contains(&like));
        self.network.profiled(self.slots[at], found.copied().unwrap_or(like))
    }

    /// Returns the widths below 32 of all slots, widest first.
    pub fn widths(&self, kind: Option<Kind>) -> Vec<u32> {
        let all = self.formats.iter().flatten();
        let wanted = all.filter(|format| kind.is_none_or(|kind| format.kind() == kind));
        let mut widths: Vec<u32> =
            wanted.map(|format| format.bits()).filter(|bits| *bits < 32).collect();
        widths.sort_unstable_by_key(|bits| std::cmp::Reverse(*bits));
        widths.dedup();
        widths
    }

    /// Assigns one width to all slots: the narrowest format of these kinds with at least `bits`
    /// bits. Among formats of one width, the kind that comes first in `kinds` wins. Slots without
    /// such a format get FLOAT(32).
    pub fn uniform(&self, bits: u32, kinds: &[Kind]) -> Assignment {
        let format = |(at, slot): (usize, &Slot)| {
            let candidates = self
                .formats(at)
                .iter()
                .copied()
                .filter(|format| format.bits() >= bits && kinds.contains(&format.kind()));
            let rank = |format: &Format| {
                let kind = kinds.iter().position(|kind| *kind == format.kind());
                (format.bits(), kind)
            };
            let found = candidates.min_by_key(rank).unwrap_or(Format::F32);
            self.network.profiled(*slot, found)
        };
        let formats = self.slots.iter().enumerate().map(format).collect();
        self.network.base().with_formats(formats)
    }

    /// Changes the bias of a slot by `by`. Returns `None` for FLOAT, for slots without values, and
    /// beyond the limits of the bias.
    pub fn bias(&self, from: &Assignment, at: usize, by: i32) -> Option<Move> {
        let slot = self.slots[at];
        let old = from.formats()[at];
        let bias = old.bias() + by;
        let has_values = self.network.size(slot) > 0;
        if old.kind() == Kind::Float || !has_values || self.bias_is_too_far(slot, old, bias) {
            return None;
        }
        let new = old.with_bias(bias).ok()?;
        let mut formats = from.formats().to_vec();
        formats[at] = new;
        let change = format!("{} {old} -> {new}", self.network.object(slot));
        Some(Move { change, assignment: from.with_formats(formats) })
    }

    /// Returns whether a bias is too far from the profiled one. Without a limit, biases that do not
    /// affect the accuracy would drift endlessly.
    fn bias_is_too_far(&self, slot: Slot, format: Format, bias: i32) -> bool {
        (bias - self.network.profiled(slot, format).bias()).abs() > BIAS_REACH
    }

    /// Returns the move of a group to its next narrower format.
    pub fn narrower(&self, from: &Assignment, group: usize) -> Option<Move> {
        self.move_group(from, group, Self::narrower_format)
    }

    /// Returns the move of a group to its next wider format.
    pub fn wider(&self, from: &Assignment, group: usize) -> Option<Move> {
        self.move_group(from, group, Self::wider_format)
    }

    /// Returns the move of an EXP group to the next wider FIXED: a bit more of EXP would not make
    /// its steps finer. `None` if [`Space::wider`] leads to the same assignment.
    pub fn finer(&self, from: &Assignment, group: usize) -> Option<Move> {
        let found = self.move_group(from, group, |space, at, old| {
            let wider =
                space.formats_of_kind(at, Kind::Fixed).filter(|new| new.bits() > old.bits());
            let new = if old.kind() == Kind::Exp { wider.last()? } else { return None };
            Some(space.network.profiled(space.slots[at], new))
        })?;
        let known = self.wider(from, group);
        known.is_none_or(|known| known.assignment != found.assignment).then_some(found)
    }

    /// Returns the moves between FIXED and EXP of equal width, for each group.
    pub fn retyped(&self, from: &Assignment) -> Vec<Move> {
        let other = |space: &Self, at: usize, format: Format| {
            let wanted = match format.kind() {
                Kind::Fixed => Kind::Exp,
                Kind::Exp => Kind::Fixed,
                Kind::Float | Kind::Binary => return None,
            };
            let found =
                space.formats_of_kind(at, wanted).find(|new| new.bits() == format.bits())?;
            Some(space.network.profiled(space.slots[at], found))
        };
        (0..self.groups.len()).filter_map(|group| self.move_group(from, group, other)).collect()
    }

    /// Replaces EXP(2) by the FIXED(2) with the same values where FIXED(2) exists: ±2^(1 - B) and 0
    /// are ±2^-(B' + 1) and 0 with B' = B - 2. A wider FIXED has finer steps, a wider EXP does not.
    pub fn without_exp_2(&self, mut found: Move) -> Move {
        let mut formats = found.assignment.formats().to_vec();
        for (at, format) in formats.iter_mut().enumerate() {
            if self.has_twins(at)
                && is_exp_2(*format)
                && let Ok(fixed) = Format::fixed(2, format.bias() - 2)
            {
                *format = fixed;
            }
        }
        found.assignment = found.assignment.with_formats(formats);
        found
    }

    /// Returns whether EXP(2) of a slot can be replaced by FIXED(2).
    pub fn has_twins(&self, at: usize) -> bool {
        self.formats_of_kind(at, Kind::Fixed).any(|fixed| fixed.has_sign() && fixed.bits() == 2)
    }

    fn move_group(
        &self,
        from: &Assignment,
        group: usize,
        next: impl Fn(&Self, usize, Format) -> Option<Format>,
    ) -> Option<Move> {
        let group: &Group = &self.groups[group];
        let mut formats = from.formats().to_vec();
        for &at in &group.slots {
            formats[at] = next(self, at, formats[at])?;
        }
        let text = |formats: &[Format]| match group.slots.as_slice() {
            [only] => formats[*only].to_string(),
            several => kind_and_bits(formats[several[0]]),
        };
        let (old, new) = (text(from.formats()), text(&formats));
        let change = format!("{} {old} -> {new}", group.name);
        Some(Move { change, assignment: from.with_formats(formats) })
    }

    fn formats_of_kind(&self, at: usize, kind: Kind) -> impl Iterator<Item = Format> {
        self.formats(at).iter().copied().filter(move |format| format.kind() == kind)
    }

    /// Returns the next narrower format with the same range (SPEC A20): FIXED keeps its bias, EXP
    /// its largest number.
    fn narrower_format(&self, at: usize, old: Format) -> Option<Format> {
        let kind = old.kind();
        if let Some(new) = self.formats_of_kind(at, kind).find(|new| new.bits() < old.bits()) {
            return resized(old, new);
        }
        if kind != Kind::Float {
            return None;
        }
        let fixed = self.formats_of_kind(at, Kind::Fixed).find(|new| new.bits() < old.bits())?;
        Some(self.network.profiled(self.slots[at], fixed))
    }

    fn wider_format(&self, at: usize, old: Format) -> Option<Format> {
        let all: Vec<Format> = self.formats_of_kind(at, old.kind()).collect();
        if let Some(new) = all.iter().rev().find(|new| new.bits() > old.bits()) {
            return resized(old, *new);
        }
        let fixed =
            || self.formats_of_kind(at, Kind::Fixed).filter(|new| new.bits() > old.bits()).last();
        if old.kind() == Kind::Exp
            && let Some(new) = fixed()
        {
            return Some(self.network.profiled(self.slots[at], new));
        }
        let float =
            || self.formats_of_kind(at, Kind::Float).filter(|new| new.bits() > old.bits()).last();
        match old.kind() {
            Kind::Float => None,
            _ => float().or((old.bits() < 32).then_some(Format::F32)),
        }
    }
}

/// Returns the formats that a slot may have. Values of both signs need a sign; slots without
/// negative values use the unsigned format of a type and width where there is one. BIN is left out.
/// `least` bits of FIXED include the sign: an unsigned FIXED has the same magnitudes with one bit
/// less. A slot without values has no format to choose.
fn usable(network: &Network, slot: Slot, least: u32) -> Vec<Format> {
    if network.size(slot) == 0 {
        return Vec::new();
    }
    let all = || network.platform.formats(slot.role).iter().copied();
    let can = |format: Format| {
        let is_number = format.kind() != Kind::Binary && format.special() != Special::Powers;
        let is_wide = format.kind() != Kind::Fixed || format.fraction_bits() + 1 >= least;
        is_number && is_wide && (format.has_sign() || !network.has_negative(slot))
    };
    // The unsigned format of this type and width has all magnitudes of the signed one, and as many
    // more.
    let is_less = |format: Format| {
        let mut others = all().filter(|other| can(*other) && !other.has_sign());
        format.has_sign()
            && format.kind() != Kind::Float
            && others.any(|other| is_alike(other, format))
    };
    all().filter(|format| can(*format) && !is_less(*format)).collect()
}

/// Returns whether two formats have the same type and width.
fn is_alike(a: Format, b: Format) -> bool {
    (a.kind(), a.bits()) == (b.kind(), b.bits())
}

/// Returns whether a format is EXP(2), whose values are zero and one power of two with both signs.
pub(crate) fn is_exp_2(format: Format) -> bool {
    format.kind() == Kind::Exp && format.bits() == 2 && format.has_sign()
}

/// Maximum distance of a bias from the one that fits the largest magnitude.
const BIAS_REACH: i32 = 8;

/// Returns type and width without the bias, such as `I3`.
pub(crate) fn kind_and_bits(format: Format) -> String {
    let text = format.to_string();
    text.split('(').next().unwrap_or(&text).to_owned()
}

/// Returns the format `new` with the bias that keeps the range of `old`. Both are of the same kind.
fn resized(old: Format, new: Format) -> Option<Format> {
    match old.kind() {
        Kind::Float => Some(new),
        Kind::Fixed | Kind::Binary => new.with_bias(old.bias()).ok(),
        Kind::Exp => {
            let (from, to) = (old.exponent_bits(), new.exponent_bits());
            new.with_bias(old.bias() + (1 << to) - (1 << from)).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::LayerwiseScope;
    use crate::network::tests::lenet;
    use crate::platform::Platform;

    fn narrower(space: &Space<'_>, from: &Assignment) -> Vec<Move> {
        (0..space.groups.len()).filter_map(|group| space.narrower(from, group)).collect()
    }

    fn biases(space: &Space<'_>, from: &Assignment) -> Vec<Move> {
        (0..space.slots.len()).filter_map(|slot| space.bias(from, slot, 1)).collect()
    }

    fn changes(moves: &[Move]) -> Vec<&str> {
        moves.iter().map(|found| found.change.as_str()).collect()
    }

    /// SPEC A13: all activations share type and width; biases differ.
    #[test]
    fn a13_activations_share_width_and_not_bias() {
        let network = lenet();
        let space = Space::new(&network, 2);
        let from = space.uniform(3, &[Kind::Fixed]);
        let expected =
            ["conv1.weight I3(0) -> I2(0)", "conv2.weight I3(2) -> I2(2)", "activations I3 -> I2"];
        assert_eq!(changes(&narrower(&space, &from)), expected);
        let expected = [
            "conv1.weight I3(0) -> I3(1)",
            "conv2.weight I3(2) -> I3(3)",
            "conv1.input I3(0) -> I3(1)",
            "conv2.input I3(-3) -> I3(-2)",
        ];
        assert_eq!(changes(&biases(&space, &from)), expected);
        let types =
            ["conv1.weight I3(0) -> E3(3)", "conv2.weight I3(2) -> E3(5)", "activations I3 -> E3"];
        assert_eq!(changes(&space.retyped(&from)), types);
    }

    /// A slot without negative values has finer steps with the same bits. A group has only the
    /// widths that all its slots have.
    #[test]
    fn what_needs_no_sign_has_none() {
        let mut network = lenet();
        network.platform = Platform::named("paper-unsigned").unwrap();
        network.layers[0].activation_min = Some(0.0);
        let texts = |space: &Space<'_>, bits| space.uniform(bits, &[Kind::Fixed]).to_string();
        let space = Space::new(&network, 2);
        assert_eq!(texts(&space, 3), "I3(0)-I3(2) / U3(0)-I3(-3)");
        assert_eq!(texts(&space, 1), "I2(0)-I2(2) / U2(0)-I2(-3)", "one width for both");
        let from = space.uniform(3, &[Kind::Fixed]);
        assert_eq!(changes(&narrower(&space, &from))[2], "activations U3 -> U2");
        let types = space.retyped(&from);
        assert_eq!(types[2].assignment.to_string(), "I3(0)-I3(2) / E3(3)-E3(0)");
        network.layers[1].activation_min = Some(0.0);
        let space = Space::new(&network, 2);
        assert_eq!(texts(&space, 1), "I2(0)-I2(2) / U1(0)-U1(-3)", "0 and 1/2 of the range");
        // One bit without a sign has the magnitudes of two bits with a sign (SPEC A16).
        let values = |format: Format| [0, 1].map(|code| format.decode(code));
        let one = space.fitted(2, Format::fixed(2, 0).unwrap().with_bias(0).unwrap());
        assert_eq!(one.to_string(), "U2(0)");
        assert_eq!(values("U1(0)".parse().unwrap()), values("I2(0)".parse().unwrap()));
        // Nothing changes if the platform has no unsigned formats, or if the least activation is
        // unknown.
        network.platform = Platform::named("paper").unwrap();
        assert_eq!(texts(&Space::new(&network, 2), 3), "I3(0)-I3(2) / I3(0)-I3(-3)");
    }

    #[test]
    fn a_bit_more_of_exp_may_be_one_of_fixed() {
        let network = lenet();
        let space = Space::new(&network, 2);
        let from = space.uniform(3, &[Kind::Exp]);
        let wider = |from: &Assignment, group| {
            let moves = [space.wider(from, group), space.finer(from, group)];
            moves.into_iter().flatten().map(|found| found.change).collect::<Vec<_>>()
        };
        assert_eq!(wider(&from, 0), ["conv1.weight E3(3) -> E4(7)", "conv1.weight E3(3) -> I4(0)"]);
        assert_eq!(wider(&from, 2), ["activations E3 -> E4", "activations E3 -> I4"]);
        assert_eq!(wider(&space.uniform(3, &[Kind::Fixed]), 0), ["conv1.weight I3(0) -> I4(0)"]);
        let widest = wider(&space.uniform(9, &[Kind::Exp]), 0);
        assert_eq!(widest.len(), 1, "there is no EXP(10), and FIXED once: {widest:?}");
    }

    #[test]
    fn what_has_no_values_has_no_bias_to_move() {
        let mut network = lenet();
        network.layers[1].activation_size = 0;
        let space = Space::new(&network, 2);
        let found = biases(&space, &space.uniform(3, &[Kind::Fixed]));
        assert_eq!(found.len(), 3, "{:?}", changes(&found));
    }

    #[test]
    fn a16_fixed_has_two_bits_at_least() {
        let network = lenet();
        let from = |space: &Space<'_>| space.uniform(2, &[Kind::Fixed]);
        let space = Space::new(&network, 2);
        assert_eq!(changes(&narrower(&space, &from(&space))), [""; 0]);
        assert_eq!(*space.widths(Some(Kind::Fixed)).last().unwrap(), 2);
    }

    /// SPEC A20: the range of FIXED is 2^-B, the largest number of EXP 2^(2^(N-1) - 1 - B).
    #[test]
    fn a20_a_change_of_width_keeps_the_range() {
        let network = lenet();
        let space = Space::new(&network, 2);
        let slot = 0;
        let reach = |format: Format| (1 << format.exponent_bits()) - 1 - format.bias();
        let mut format = Format::exp_with(9, 250).unwrap();
        let largest = reach(format);
        while let Some(narrower) = space.narrower_format(slot, format) {
            assert_eq!((narrower.bits(), reach(narrower)), (format.bits() - 1, largest));
            assert_eq!(space.wider_format(slot, narrower), Some(format), "and back");
            format = narrower;
        }
        assert_eq!(format.bits(), 2);
        let fixed = Format::fixed(5, -3).unwrap();
        assert_eq!(space.narrower_format(slot, fixed), Format::fixed(4, -3).ok());
    }

    #[test]
    fn where_a_type_ends_another_one_goes_on() {
        let mut network = lenet();
        network.layerwise = LayerwiseScope::Both;
        network.platform = Platform::named("mlperf-v0.7").unwrap();
        let space = Space::new(&network, 2);
        let slot = 0;
        let narrower = |format| space.narrower_format(slot, format).map(|f| f.to_string());
        assert_eq!(narrower(Format::F32).unwrap(), "F16");
        assert_eq!(narrower(Format::BF16).unwrap(), "fp11");
        assert_eq!(narrower(Format::FP11).unwrap(), "I8(0)", "with the bias of its values");
        assert_eq!(narrower(Format::fixed(8, 5).unwrap()).unwrap(), "I4(5)");
        assert_eq!(narrower(Format::fixed(4, 5).unwrap()), None);
        let widest = Format::fixed(16, 0).unwrap();
        assert_eq!(space.wider_format(slot, widest), Some(Format::F32));
        assert_eq!(space.wider_format(slot, Format::F32), None);
        let mut paper = lenet();
        paper.layerwise = LayerwiseScope::Both;
        let space = Space::new(&paper, 2);
        assert_eq!(space.wider_format(slot, Format::exp(9).unwrap()).unwrap().bits(), 10);
    }
}
