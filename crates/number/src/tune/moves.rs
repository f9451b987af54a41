//! Neighbours of an assignment: a bit or a bias more or less, another type.

use crate::assignment::Assignment;
use crate::format::{Format, Kind, Special};
use crate::network::{Group, Network, Slot};

/// An assignment next to another one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Move {
    /// What changes, for people.
    pub change: String,
    pub assignment: Assignment,
}

/// What may be chosen: the network's slots and groups, and what formats there are.
#[derive(Debug)]
pub(crate) struct Space<'a> {
    pub network: &'a Network,
    pub slots: Vec<Slot>,
    pub groups: Vec<Group>,
    // of each slot, widest first; FLOAT, FIXED and EXP of at least the fewest bits
    formats: Vec<Vec<Format>>,
}

impl<'a> Space<'a> {
    /// `least` is the fewest bits of FIXED (SPEC A16).
    pub fn new(network: &'a Network, least: u32) -> Self {
        let slots = network.slots();
        let mut space = Self {
            formats: slots.iter().map(|slot| usable(network, *slot, least)).collect(),
            groups: network.groups(),
            slots,
            network,
        };
        // A width that one of them lacks is none for all.
        for group in &space.groups {
            let shared = space.shared(&group.slots);
            for &at in &group.slots {
                space.formats[at].retain(|format| shared.iter().any(|one| is_alike(*one, *format)));
            }
        }
        space
    }

    /// Those of a slot, widest first: of one type and width without a sign where its values have none.
    pub fn formats(&self, at: usize) -> &[Format] {
        &self.formats[at]
    }

    /// Types and widths that all these slots have, in the formats of the first.
    pub fn shared(&self, slots: &[usize]) -> Vec<Format> {
        let Some((first, others)) = slots.split_first() else { return Vec::new() };
        let has = |at: &usize, one: Format| self.formats[*at].iter().any(|f| is_alike(*f, one));
        let is_shared = |one: &&Format| others.iter().all(|at| has(at, **one));
        self.formats[*first].iter().filter(is_shared).copied().collect()
    }

    /// A type and width of another slot as this one has it, with the bias of its values.
    pub fn fitted(&self, at: usize, like: Format) -> Format {
        let own = &self.formats[at];
        let found =
            own.iter().find(|format| is_alike(**format, like)).filter(|_| !own.contains(&like));
        self.network.profiled(self.slots[at], found.copied().unwrap_or(like))
    }

    /// Widths that any object can have below 32, widest first.
    pub fn widths(&self, kind: Option<Kind>) -> Vec<u32> {
        let all = self.formats.iter().flatten();
        let wanted = all.filter(|format| kind.is_none_or(|kind| format.kind() == kind));
        let mut widths: Vec<u32> =
            wanted.map(|format| format.bits()).filter(|bits| *bits < 32).collect();
        widths.sort_unstable_by_key(|bits| std::cmp::Reverse(*bits));
        widths.dedup();
        widths
    }

    /// Of one width for all, where there is one: the narrowest format of these kinds that has so many bits,
    /// of several the one whose kind comes first. FLOAT(32) where there is none.
    pub fn uniform(&self, bits: u32, kinds: &[Kind]) -> Assignment {
        let of = |(at, slot): (usize, &Slot)| {
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
        let formats = self.slots.iter().enumerate().map(of).collect();
        self.network.base().with(formats)
    }

    /// More of the bias of a slot, or less; none for FLOAT, and none where no value has it.
    pub fn bias(&self, from: &Assignment, at: usize, by: i32) -> Option<Move> {
        let (slot, old) = (self.slots[at], from.formats()[at]);
        let bias = old.bias() + by;
        let has_values = self.network.size(slot) > 0;
        if old.kind() == Kind::Float || !has_values || self.bias_is_too_far(slot, old, bias) {
            return None;
        }
        let new = old.with_bias(bias).ok()?;
        let mut formats = from.formats().to_vec();
        formats[at] = new;
        let change = format!("{} {old} -> {new}", self.network.object(slot));
        Some(Move { change, assignment: from.with(formats) })
    }

    /// Slots that decide nothing would drift for ever.
    fn bias_is_too_far(&self, slot: Slot, format: Format, bias: i32) -> bool {
        (bias - self.network.profiled(slot, format).bias()).abs() > BIAS_REACH
    }

    /// The next narrower format of a group, if it has one.
    pub fn narrower(&self, from: &Assignment, group: usize) -> Option<Move> {
        self.of_group(from, group, Self::narrower_format)
    }

    /// The next wider format of a group.
    pub fn wider(&self, from: &Assignment, group: usize) -> Option<Move> {
        self.of_group(from, group, Self::wider_format)
    }

    /// FIXED of a bit more for a group of EXP, whose steps a bit more makes no finer. None where that is
    /// what it would be widened to anyway.
    pub fn finer(&self, from: &Assignment, group: usize) -> Option<Move> {
        let found = self.of_group(from, group, |space, at, old| {
            let wider = space.of_kind(at, Kind::Fixed).filter(|new| new.bits() > old.bits());
            let new = if old.kind() == Kind::Exp { wider.last()? } else { return None };
            Some(space.network.profiled(space.slots[at], new))
        })?;
        let known = self.wider(from, group);
        known.is_none_or(|known| known.assignment != found.assignment).then_some(found)
    }

    /// FIXED for EXP and the other way, of the same width, for each group.
    pub fn retyped(&self, from: &Assignment) -> Vec<Move> {
        let other = |space: &Self, at: usize, format: Format| {
            let wanted = match format.kind() {
                Kind::Fixed => Kind::Exp,
                Kind::Exp => Kind::Fixed,
                Kind::Float | Kind::Binary => return None,
            };
            let found = space.of_kind(at, wanted).find(|new| new.bits() == format.bits())?;
            Some(space.network.profiled(space.slots[at], found))
        };
        (0..self.groups.len()).filter_map(|group| self.of_group(from, group, other)).collect()
    }

    /// EXP(2) is FIXED(2) of another bias (±2^(1 - B) and 0 are ±2^-(B' + 1) and 0 with B' = B - 2), and is
    /// called so where there is FIXED(2): that has wider ones with finer steps, and EXP has none.
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
        found.assignment = found.assignment.with(formats);
        found
    }

    /// Whether EXP(2) of a slot may be called FIXED(2).
    pub fn has_twins(&self, at: usize) -> bool {
        self.of_kind(at, Kind::Fixed).any(|fixed| fixed.has_sign() && fixed.bits() == 2)
    }

    fn of_group(
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
        let shown = |formats: &[Format]| match group.slots.as_slice() {
            [only] => formats[*only].to_string(),
            several => kind_and_bits(formats[several[0]]),
        };
        let (old, new) = (shown(from.formats()), shown(&formats));
        let change = format!("{} {old} -> {new}", group.name);
        Some(Move { change, assignment: from.with(formats) })
    }

    fn of_kind(&self, at: usize, kind: Kind) -> impl Iterator<Item = Format> {
        self.formats(at).iter().copied().filter(move |format| format.kind() == kind)
    }

    /// The range stays where it is (SPEC A20): FIXED keeps its bias, EXP its largest number.
    fn narrower_format(&self, at: usize, old: Format) -> Option<Format> {
        let kind = old.kind();
        if let Some(new) = self.of_kind(at, kind).find(|new| new.bits() < old.bits()) {
            return resized(old, new);
        }
        if kind != Kind::Float {
            return None;
        }
        let fixed = self.of_kind(at, Kind::Fixed).find(|new| new.bits() < old.bits())?;
        Some(self.network.profiled(self.slots[at], fixed))
    }

    fn wider_format(&self, at: usize, old: Format) -> Option<Format> {
        let all: Vec<Format> = self.of_kind(at, old.kind()).collect();
        if let Some(new) = all.iter().rev().find(|new| new.bits() > old.bits()) {
            return resized(old, *new);
        }
        let fixed = || self.of_kind(at, Kind::Fixed).filter(|new| new.bits() > old.bits()).last();
        if old.kind() == Kind::Exp
            && let Some(new) = fixed()
        {
            return Some(self.network.profiled(self.slots[at], new));
        }
        let float = || self.of_kind(at, Kind::Float).filter(|new| new.bits() > old.bits()).last();
        match old.kind() {
            Kind::Float => None,
            _ => float().or((old.bits() < 32).then_some(Format::F32)),
        }
    }
}

/// What a slot may have: values of both signs need a sign, and those of one sign are better off without; a sign
/// alone tells no more than itself. `least` bits of FIXED are a sign and what is left, so that without a sign one
/// bit less holds as many magnitudes.
fn usable(network: &Network, slot: Slot, least: u32) -> Vec<Format> {
    let all = || network.platform.of(slot.role).iter().copied();
    let can = |format: Format| {
        let is_number = format.kind() != Kind::Binary && format.special() != Special::Powers;
        let is_wide = format.kind() != Kind::Fixed || format.fraction_bits() + 1 >= least;
        is_number && is_wide && (format.has_sign() || !network.has_negative(slot))
    };
    // Of one type and width, that without a sign has all magnitudes of the other, and as many more.
    let is_less = |format: Format| {
        let mut others = all().filter(|other| can(*other) && !other.has_sign());
        format.has_sign()
            && format.kind() != Kind::Float
            && others.any(|other| is_alike(other, format))
    };
    all().filter(|format| can(*format) && !is_less(*format)).collect()
}

/// Of one type and width.
fn is_alike(a: Format, b: Format) -> bool {
    (a.kind(), a.bits()) == (b.kind(), b.bits())
}

/// Zero, and one power of two with a sign.
pub(crate) fn is_exp_2(format: Format) -> bool {
    format.kind() == Kind::Exp && format.bits() == 2 && format.has_sign()
}

/// How far a bias goes from what the largest magnitude asks for.
const BIAS_REACH: i32 = 8;

/// Type and width without the bias: `I3`.
pub(crate) fn kind_and_bits(format: Format) -> String {
    let text = format.to_string();
    text.split('(').next().unwrap_or(&text).to_owned()
}

/// The format `new` with a bias that keeps the range of `old`, which is of the same kind.
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
    use crate::network::Layerwise;
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

    /// SPEC A13: one width and type for all activations, biases of their own.
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

    /// A slot without negative values has finer steps for its bits; a group has the widths that all of it have.
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
        // One bit without a sign has the magnitudes of two with one (SPEC A16).
        let of = |format: Format| [0, 1].map(|code| format.decode(code));
        let one = space.fitted(2, Format::fixed(2, 0).unwrap().with_bias(0).unwrap());
        assert_eq!(one.to_string(), "U2(0)");
        assert_eq!(of("U1(0)".parse().unwrap()), of("I2(0)".parse().unwrap()));
        // Nothing changes where a platform has none, or where nobody said what the least is.
        network.platform = Platform::named("paper").unwrap();
        assert_eq!(texts(&Space::new(&network, 2), 3), "I3(0)-I3(2) / I3(0)-I3(-3)");
    }

    #[test]
    fn a_bit_more_of_exp_may_be_one_of_fixed() {
        let network = lenet();
        let space = Space::new(&network, 2);
        let from = space.uniform(3, &[Kind::Exp]);
        let of = |from: &Assignment, group| {
            let moves = [space.wider(from, group), space.finer(from, group)];
            moves.into_iter().flatten().map(|found| found.change).collect::<Vec<_>>()
        };
        assert_eq!(of(&from, 0), ["conv1.weight E3(3) -> E4(7)", "conv1.weight E3(3) -> I4(0)"]);
        assert_eq!(of(&from, 2), ["activations E3 -> E4", "activations E3 -> I4"]);
        assert_eq!(of(&space.uniform(3, &[Kind::Fixed]), 0), ["conv1.weight I3(0) -> I4(0)"]);
        let widest = of(&space.uniform(9, &[Kind::Exp]), 0);
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
        network.layerwise = Layerwise::Both;
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
        paper.layerwise = Layerwise::Both;
        let space = Space::new(&paper, 2);
        assert_eq!(space.wider_format(slot, Format::exp(9).unwrap()).unwrap().bits(), 10);
    }
}
