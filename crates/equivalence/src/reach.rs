//! Reach of rounding to codes: a scale far coarser than its numbers does not round them to 0 but
//! discards them.

use std::collections::HashMap;

use super::alignment::Sides;
use super::numbers::Codes;

/// Differences that the codes of one weight explain.
pub struct Reach<'a> {
    codes: &'a Codes<'a>,
    /// For each scale, the step that may turn a number into 0.
    steps: Vec<f32>,
    /// Least and greatest code in use.
    used: (i64, i64),
    /// Numbers up to this are negligible compared with the others.
    negligible: f32,
}

/// A power of two as scale is up to twice the best scale, and a range that includes zero is up to
/// twice that of the numbers; hence up to four times coarser.
const COARSER: f32 = 4.0;

/// Step of the coarsest type that the rules accept for quantization, with 7 codes on each side of 0
/// and a power of two as scale, for numbers up to 1.
const COARSEST: f32 = 2.0 / 7.0;

/// Minimum scale that quantizers choose, so that no scale is 0.
const LEAST_SCALE: f32 = 2.0 * f32::EPSILON;

/// Tolerance for the computations of quantizers.
const SLACK: f32 = 1.01;

/// Maximum groups for which scales of equal value are merged.
const MOST_GROUPS: usize = 1 << 16;

impl<'a> Reach<'a> {
    /// Computes the reach of codes for a weight of the reference.
    pub fn from_codes(
        sides: &Sides<'_>,
        codes: &'a Codes<'a>,
        factor: impl Fn(usize) -> f32,
    ) -> Self {
        let affine = &codes.affine;
        let mut greatest = vec![0_f32; affine.layout.groups(sides.own.len())];
        let mut furthest = 1_f64;
        let mut used = (i64::MAX, i64::MIN);
        for (index, place) in sides.alignment.places() {
            let code = codes.code(index);
            furthest = furthest.max(affine.offset(index, code).abs());
            used = (used.0.min(code), used.1.max(code));
            if let Some(place) = place {
                let theirs = (sides.theirs.value(place) * factor(index)).abs();
                let of_group = &mut greatest[affine.layout.scale_index(index)];
                *of_group = of_group.max(theirs);
            }
        }
        let of_all = greatest.iter().fold(0_f32, |most, one| most.max(*one));
        let negligible = of_all * f32::EPSILON;
        // Scales of equal value count as one.
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
        // The codes show how finely the type can be used.
        let share = (COARSER / furthest as f32).min(COARSEST) * SLACK;
        // A bias has the scale of the sum that it is added to.
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

    /// Whether the scale does not explain that a number of the reference became 0.
    pub fn is_discarded(&self, index: usize, theirs: f32) -> bool {
        let group = self.codes.affine.layout.scale_index(index);
        let step = self.steps[group];
        step < self.codes.affine.scales[group].abs()
            && theirs.abs() > (step / 2.0).max(self.negligible)
    }

    /// Whether the number at `index` has the least or the greatest code in use, and the reference's
    /// lies beyond it.
    pub fn is_clipped(&self, index: usize, found: f32, theirs: f32) -> bool {
        let is_beyond = theirs.abs() > found.abs() && (theirs > 0.0) == (found > 0.0);
        let (code, (least, greatest)) = (self.codes.code(index), self.used);
        found != 0.0 && is_beyond && (code == least || code == greatest)
    }
}
