//! Difference between two weights.

use super::alignment::Sides;
use super::grain::Grain;
use super::reach::Reach;

/// Difference between the numbers of the model and the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Numbers of the model.
    pub elements: u64,
    /// Nonzero numbers of the model and of the reference.
    pub non_zero: (u64, u64),
    /// Numbers that are 0 although the reference's are not and rounding does not explain it.
    pub pruned: u64,
    /// Numbers at the end of the range whose reference lies beyond it.
    pub clipped: u64,
    /// Numbers between half a step and one step away: rounded to the other neighbor.
    pub other_neighbour: u64,
    /// Numbers farther away than any rounding, and not pruned.
    pub changed: u64,
    /// Largest distance in half steps.
    pub half_steps: f64,
    /// Root mean square of the distances, divided by that of the reference.
    pub relative: f64,
    /// Cosine of the angle between the two weights as vectors; 1 for the same direction.
    pub cosine: f64,
    /// Whether all numbers are equal.
    pub is_exact: bool,
}

impl Difference {
    /// Whether rounding to the type of the model explains the whole difference.
    pub fn is_rounding(&self) -> bool {
        let is_cut = self.clipped > FEW.max(self.elements / MOST_CLIPPED);
        self.pruned == 0 && self.changed == 0 && !is_cut
    }
}

/// Calibration that clips affects the ends of a range, at most this fraction.
const MOST_CLIPPED: u64 = 8;

/// Numbers that may be clipped in the smallest weight.
const FEW: u64 = 4;

/// Minimum length of slices from which a factor is estimated.
const LEAST_SLICE: usize = 8;

/// Minimum ratio of the factors of slices that a graph undoes.
const LEAST_FACTOR: f32 = 1e-6;

/// Tolerance for the computations of quantizers, as a fraction of half a step.
const SLACK: f32 = 0.01;

/// Factors of the reference's slices along a dimension of the model.
struct Factors {
    factors: Vec<f32>,
    inner: usize,
}

impl Factors {
    fn at(&self, index: usize) -> f32 {
        self.factors[index / self.inner % self.factors.len()]
    }
}

/// Compares a weight with the reference's numbers.
pub fn difference(sides: &Sides<'_>) -> Difference {
    compare_scaled(sides, None)
}

fn compare_scaled(sides: &Sides<'_>, factors: Option<&Factors>) -> Difference {
    let mut found = Difference {
        elements: sides.alignment.len() as u64,
        non_zero: (0, 0),
        pruned: 0,
        clipped: 0,
        other_neighbour: 0,
        changed: 0,
        half_steps: 0.0,
        relative: 0.0,
        cosine: 1.0,
        is_exact: true,
    };
    let factor = |index: usize| factors.map_or(1.0, |factors| factors.at(index));
    let reach = sides.own.as_codes().map(|codes| Reach::from_codes(sides, codes, factor));
    // Uncertainty of the reference's own numbers.
    let by_itself = |theirs: f32| match factors {
        Some(_) => Grain::Computed.half_step(theirs),
        None => sides.theirs.slack(sides.own, theirs),
    };
    let mut squares = 0.0;
    let mut of_own = 0.0;
    let mut product = 0.0;
    let mut distance = 0.0;
    for (index, theirs, value) in sides.pairs() {
        let theirs = theirs * factor(index);
        let wide = f64::from(theirs);
        let narrow = f64::from(value);
        squares += wide * wide;
        of_own += narrow * narrow;
        product += wide * narrow;
        distance += (wide - narrow) * (wide - narrow);
        found.non_zero.0 += u64::from(value != 0.0);
        found.non_zero.1 += u64::from(theirs != 0.0);
        if theirs.to_bits() == value.to_bits() {
            continue;
        }
        found.is_exact &= theirs == value;
        let half = sides.own.half_step(index, theirs);
        let half = half.max(by_itself(theirs));
        let half = half * (1.0 + SLACK) + theirs.abs() * f32::EPSILON;
        found.count(sides, reach.as_ref(), index, theirs, value, half);
    }
    if squares > 0.0 {
        found.relative = (distance / squares).sqrt();
        found.cosine = if of_own > 0.0 { product / (squares * of_own).sqrt() } else { 0.0 };
    } else if of_own > 0.0 {
        (found.relative, found.cosine) = (f64::INFINITY, 0.0);
    }
    found
}

impl Difference {
    fn count(
        &mut self,
        sides: &Sides<'_>,
        reach: Option<&Reach<'_>>,
        index: usize,
        theirs: f32,
        value: f32,
        half: f32,
    ) {
        let away = (theirs - value).abs();
        if value == 0.0 && reach.is_some_and(|reach| reach.is_discarded(index, theirs)) {
            self.pruned += 1;
            return;
        }
        if away <= half || theirs.is_nan() && value.is_nan() {
            self.half_steps = self.half_steps.max(f64::from(away / half).min(1.0));
            return;
        }
        let is_clipped = match (reach, sides.own.grain()) {
            (Some(reach), _) => reach.is_clipped(index, value, theirs),
            (None, Some(grain)) => {
                theirs.abs() > value.abs()
                    && (theirs > 0.0) == (value > 0.0)
                    && value.abs() >= grain.greatest()
            }
            (None, None) => false,
        };
        if is_clipped {
            self.clipped += 1;
            return;
        }
        self.half_steps = self.half_steps.max(f64::from(away / half));
        let is_exact_type = sides.own.grain() == Some(Grain::F32);
        if value == 0.0 && (away > 2.0 * half || is_exact_type) {
            self.pruned += 1;
        } else if away <= 2.0 * half {
            self.other_neighbour += 1;
        } else {
            self.changed += 1;
        }
    }
}

/// Returns the dimension along which each slice is the reference's times a factor, if there is one.
pub fn scaled_along(sides: &Sides<'_>) -> Option<usize> {
    (0..sides.own.shape.len()).find(|&axis| is_scaled(sides, axis))
}

fn is_scaled(sides: &Sides<'_>, axis: usize) -> bool {
    let shape = &sides.own.shape;
    let len = shape[axis];
    let inner = shape[axis + 1..].iter().product::<usize>();
    if len == 0 || sides.own.len() / len < LEAST_SLICE {
        return false;
    }
    let mut sums = vec![(0.0_f64, 0.0_f64); len];
    for (index, theirs, value) in sides.pairs() {
        let (product, square) = &mut sums[index / inner % len];
        *product += f64::from(theirs) * f64::from(value);
        *square += f64::from(theirs) * f64::from(theirs);
    }
    let factor = |(product, square): &(f64, f64)| {
        if *square > 0.0 { (product / square) as f32 } else { 0.0 }
    };
    let factors: Vec<f32> = sums.iter().map(factor).collect();
    // A slice that is tiny compared with the others is discarded.
    let most = factors.iter().fold(0_f32, |most, factor| most.max(*factor));
    // A common factor is a choice of units; factors of 0 mean that the weight is gone.
    factors.iter().all(|factor| *factor > most * LEAST_FACTOR)
        && compare_scaled(sides, Some(&Factors { factors, inner })).is_rounding()
}

/// Whether both have the same numbers in any order. Only `f32` numbers are distinctive enough: two
/// weights of one distribution look alike after sorting and rounding.
pub fn is_reordered(sides: &Sides<'_>) -> bool {
    if sides.own.grain() != Some(Grain::F32) || sides.alignment.is_padded() {
        return false;
    }
    // Sums that do not depend on the order; sorting would need both weights in memory.
    let mut sums = ([0_u64; 2], [0_u64; 2]);
    for (_, theirs, value) in sides.pairs() {
        for (sum, value) in [(&mut sums.0, theirs), (&mut sums.1, value)] {
            let (first, second) = mixed(value);
            *sum = [sum[0].wrapping_add(first), sum[1].wrapping_add(second)];
        }
    }
    if sums.0 != sums.1 {
        return false;
    }
    let mut values: Vec<f32> = sides.pairs().map(|(.., value)| value).collect();
    values.sort_unstable_by(f32::total_cmp);
    // With few distinct numbers, the order carries no information.
    let distinct = 1 + values.windows(2).filter(|pair| pair[0] != pair[1]).count();
    distinct * 2 > values.len()
}

/// Returns two hashes of a number (the finalizer of SplitMix64).
fn mixed(value: f32) -> (u64, u64) {
    let mix = |seed: u64| {
        // Both zeros have the same hash.
        let bits = u64::from((value + 0.0).to_bits());
        let mixed = (bits ^ seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    (mix(0x9e37_79b9_7f4a_7c15), mix(0x3c6e_f372_fe94_f82a))
}
