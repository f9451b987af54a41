//! How far rounding to codes reaches: a scale that is far coarser than the numbers it
//! stands for does not round them to 0, it discards them.

use std::collections::HashMap;

use super::alignment::Sides;
use super::numbers::Codes;

/// What the codes of one weight explain.
pub struct Reach<'a> {
    codes: &'a Codes<'a>,
    /// For each scale, the step that may make a number 0.
    steps: Vec<f32>,
    /// The least and the greatest code in use.
    used: (i64, i64),
    /// Numbers up to this are 0 beside the others.
    negligible: f32,
}

/// A power of two as a scale is up to twice the one that fits, a range with zero in it is up
/// to twice the numbers', and so both.
const COARSER: f32 = 4.0;

/// The step of the coarsest type that rules take for quantisation, of 7 codes on either
/// side of 0, with a power of two as its scale; for numbers up to 1.
const COARSEST: f32 = 2.0 / 7.0;

/// Quantisers choose no smaller scale, so that none is 0.
const LEAST_SCALE: f32 = 2.0 * f32::EPSILON;

/// Slack for the calculations of whoever rounded.
const SLACK: f32 = 1.01;

/// Groups up to which scales are looked up for others of the same value.
const MOST_GROUPS: usize = 1 << 16;

impl<'a> Reach<'a> {
    /// Of the codes that stand for a weight of the reference.
    pub fn of(sides: &Sides<'_>, codes: &'a Codes<'a>, factor: impl Fn(usize) -> f32) -> Self {
        let affine = &codes.affine;
        let mut greatest = vec![0_f32; affine.layout.groups(sides.own.len())];
        let (mut furthest, mut used) = (1_f64, (i64::MAX, i64::MIN));
        for (index, place) in sides.alignment.places() {
            let code = codes.code(index);
            furthest = furthest.max(affine.offset(index, code).abs());
            used = (used.0.min(code), used.1.max(code));
            if let Some(place) = place {
                let theirs = (sides.theirs.value(place) * factor(index)).abs();
                let of_group = &mut greatest[affine.layout.of(index)];
                *of_group = of_group.max(theirs);
            }
        }
        let of_all = greatest.iter().fold(0_f32, |most, one| most.max(*one));
        let negligible = of_all * f32::EPSILON;
        // One scale that is written down several times is one.
        if greatest.len() <= MOST_GROUPS {
            let mut same: HashMap<u32, f32> = HashMap::new();
            for (most, scale) in greatest.iter().zip(&affine.scales) {
                let known = same.entry(scale.to_bits()).or_default();
                *known = known.max(*most);
            }
            for (most, scale) in greatest.iter_mut().zip(&affine.scales) {
                *most = same[&scale.to_bits()];
            }
        }
        // The codes themselves tell how finely this type can be used.
        let share = (COARSER / furthest as f32).min(COARSEST) * SLACK;
        // A bias takes the scale of what it is added to.
        let is_given = affine.range.1 > i64::from(u16::MAX)
            && sides.theirs.shape.iter().filter(|&&len| len > 1).count() <= 1;
        let step = |(most, scale): (&f32, &f32)| {
            let own = scale.abs();
            let is_free = is_given || own <= LEAST_SCALE || *most <= negligible;
            if is_free { own } else { own.min(most * share) }
        };
        let steps = greatest.iter().zip(&affine.scales).map(step).collect();
        Self { codes, steps, used, negligible }
    }

    /// Whether the scale is no reason for a number of the reference to be 0.
    pub fn is_discarded(&self, index: usize, theirs: f32) -> bool {
        let group = self.codes.affine.layout.of(index);
        let step = self.steps[group];
        step < self.codes.affine.scales[group].abs()
            && theirs.abs() > (step / 2.0).max(self.negligible)
    }

    /// Whether the number at `index` has the least or the greatest code that is in use,
    /// and the reference's lies beyond it.
    pub fn is_clipped(&self, index: usize, found: f32, theirs: f32) -> bool {
        let is_beyond = theirs.abs() > found.abs() && (theirs > 0.0) == (found > 0.0);
        let (code, (least, greatest)) = (self.codes.code(index), self.used);
        found != 0.0 && is_beyond && (code == least || code == greatest)
    }
}
