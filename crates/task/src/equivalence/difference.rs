//! How far one weight is from another of the same shape.

use super::grain::{Decoded, Grain};

/// What became of the reference's numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Numbers that are 0, where the reference's is not and rounding does not explain it.
    pub pruned: u64,
    /// At the end of the range, where the reference's lies beyond it.
    pub clipped: u64,
    /// Between half a step and one step away: rounded to the other neighbour.
    pub other_neighbour: u64,
    /// Farther away than any rounding, and not pruned.
    pub changed: u64,
    /// The largest distance, in half steps.
    pub half_steps: f64,
    /// Root mean square of the distances, by that of the reference.
    pub relative: f64,
    /// Cosine of the angle between the two as vectors; 1 for the same direction.
    pub cosine: f64,
    /// Whether all numbers are equal.
    pub is_exact: bool,
}

impl Difference {
    /// Whether rounding to the type of the model explains all of it.
    pub fn is_rounding(&self) -> bool {
        self.pruned == 0 && self.changed == 0
    }
}

/// Slices that are shorter tell no factor.
const LEAST_SLICE: usize = 8;

/// Slack for the calculations of whoever rounded, as a share of half a step.
const SLACK: f32 = 0.01;

/// Compares a weight with the reference's numbers, in the same arrangement.
pub fn difference(reference: &[f32], by: &Grain, own: &Decoded) -> Difference {
    let mut found = Difference {
        pruned: 0,
        clipped: 0,
        other_neighbour: 0,
        changed: 0,
        half_steps: 0.0,
        relative: 0.0,
        cosine: 1.0,
        is_exact: true,
    };
    let (mut squares, mut of_own, mut product, mut distance) = (0.0, 0.0, 0.0, 0.0);
    for (index, (&theirs, &value)) in reference.iter().zip(&own.values).enumerate() {
        let (wide, narrow) = (f64::from(theirs), f64::from(value));
        squares += wide * wide;
        of_own += narrow * narrow;
        product += wide * narrow;
        distance += (wide - narrow) * (wide - narrow);
        if theirs.to_bits() == value.to_bits() {
            continue;
        }
        found.is_exact &= theirs == value;
        let half = own.grain.half_step(index, theirs).max(by_itself(by, index, theirs));
        let half = half * (1.0 + SLACK) + theirs.abs() * f32::EPSILON;
        let away = (theirs - value).abs();
        if away <= half || away.is_nan() && theirs.is_nan() && value.is_nan() {
            found.half_steps = found.half_steps.max(f64::from(away / half).min(1.0));
            continue;
        }
        if own.grain.is_clipped(index, value, theirs) {
            found.clipped += 1;
            continue;
        }
        found.half_steps = found.half_steps.max(f64::from(away / half));
        if value == 0.0 && (away > 2.0 * half || matches!(own.grain, Grain::F32)) {
            found.pruned += 1;
        } else if away <= 2.0 * half {
            found.other_neighbour += 1;
        } else {
            found.changed += 1;
        }
    }
    if squares > 0.0 {
        found.relative = (distance / squares).sqrt();
        found.cosine = if of_own > 0.0 { product / (squares * of_own).sqrt() } else { 0.0 };
    } else if of_own > 0.0 {
        (found.relative, found.cosine) = (f64::INFINITY, 0.0);
    }
    found
}

/// What a calculation left open in the reference's own numbers.
fn by_itself(grain: &Grain, index: usize, value: f32) -> f32 {
    match grain {
        Grain::Computed => grain.half_step(index, value),
        _ => 0.0,
    }
}

/// The dimension along which each slice is the reference's times a factor of its own,
/// if there is one.
pub fn scaled_along(reference: &[f32], own: &Decoded) -> Option<usize> {
    (0..own.shape.len()).find(|&axis| is_scaled(reference, own, axis))
}

fn is_scaled(reference: &[f32], own: &Decoded, axis: usize) -> bool {
    let len = own.shape[axis];
    let inner: usize = own.shape[axis + 1..].iter().product();
    let slice = |index: usize| index / inner % len;
    if len == 0 || own.values.len() / len < LEAST_SLICE {
        return false;
    }
    let mut sums = vec![(0.0_f64, 0.0_f64); len];
    for (index, (&theirs, &value)) in reference.iter().zip(&own.values).enumerate() {
        let (product, square) = &mut sums[slice(index)];
        *product += f64::from(theirs) * f64::from(value);
        *square += f64::from(theirs) * f64::from(theirs);
    }
    let factors: Vec<f64> = sums.iter().map(|(p, s)| if *s > 0.0 { p / s } else { 0.0 }).collect();
    // One factor for all is a choice of units; none at all is no weight.
    if factors.iter().any(|factor| *factor <= 0.0) {
        return false;
    }
    let mut pairs = reference.iter().zip(&own.values).enumerate();
    pairs.all(|(index, (&theirs, &value))| {
        let expected = (f64::from(theirs) * factors[slice(index)]) as f32;
        let bound = own.grain.half_step(index, expected) * 1.1 + expected.abs() * 1e-5;
        (expected - value).abs() <= bound || own.grain.is_clipped(index, value, expected)
    })
}

/// Whether both hold the same numbers, in whatever order. Only numbers of 32 bits are
/// told apart well enough: two weights of one distribution, each sorted and rounded,
/// are alike.
pub fn is_reordered(reference: &[f32], own: &Decoded) -> bool {
    if !matches!(own.grain, Grain::F32) {
        return false;
    }
    let sorted = |values: &[f32]| {
        let mut values = values.to_vec();
        values.sort_unstable_by(f32::total_cmp);
        values
    };
    let (theirs, values) = (sorted(reference), sorted(&own.values));
    // Among a few distinct numbers, order says nothing.
    let distinct = 1 + theirs.windows(2).filter(|pair| pair[0] != pair[1]).count();
    distinct * 2 > theirs.len() && theirs == values
}
