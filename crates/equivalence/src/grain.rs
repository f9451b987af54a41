//! Grain: the resolution of a weight's numbers, and so the largest rounding error.

use super::small::SmallFloat;

/// Scales and zero points of codes.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    pub scales: Vec<f32>,
    /// Zero points; none if all are 0, one if it applies to all.
    pub zeros: Vec<f32>,
    pub layout: Layout,
    /// Least and greatest code.
    pub range: (i64, i64),
    /// Type of codes that are floating-point numbers; they are counted in units of the least.
    pub small: Option<SmallFloat>,
}

/// Assignment of scales to elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    Whole,
    /// One scale per slice along a dimension of this length.
    Axis {
        len: usize,
        inner: usize,
    },
    /// One scale per block of this size along a dimension.
    Blocks {
        len: usize,
        inner: usize,
        size: usize,
    },
}

impl Layout {
    /// Returns the index of the scale of an element.
    pub fn scale_index(self, index: usize) -> usize {
        match self {
            Self::Whole => 0,
            Self::Axis { len, inner } => index / inner % len,
            Self::Blocks { len, inner, size } => {
                let outer = index / (inner * len);
                let at = index / inner % len;
                (outer * len.div_ceil(size) + at / size) * inner + index % inner
            }
        }
    }

    /// Number of scales for `elements` elements.
    pub fn groups(self, elements: usize) -> usize {
        if elements == 0 { 0 } else { self.scale_index(elements - 1).max(self.most()) + 1 }
    }

    fn most(self) -> usize {
        if let Self::Axis { len, .. } = self { len - 1 } else { 0 }
    }
}

impl Affine {
    /// Whether there are enough scales and zero points for `elements` elements.
    pub fn fits(&self, elements: usize) -> bool {
        let groups = self.layout.groups(elements);
        let zeros = self.zeros.len();
        self.scales.len() >= groups && (zeros <= 1 || zeros >= groups)
    }

    /// Distance of a code from the zero point.
    pub fn offset(&self, index: usize, code: i64) -> f64 {
        let zero = match &self.zeros[..] {
            [] => 0.0,
            [one] => *one,
            several => several[self.layout.scale_index(index)],
        };
        code as f64 - f64::from(zero)
    }

    pub fn scale(&self, index: usize) -> f32 {
        self.scales[self.layout.scale_index(index)]
    }

    pub fn value(&self, index: usize, code: i64) -> f32 {
        self.offset(index, code) as f32 * self.scale(index)
    }

    /// Largest error of rounding to the nearest code.
    pub fn half_step(&self, index: usize, value: f32) -> f32 {
        let scale = self.scale(index).abs();
        let half = self.small.map_or(0.5, |small| small.half_step_in_units(value / scale));
        half * scale
    }

    /// Code of a number, as `QuantizeLinear` computes it.
    pub fn code(&self, index: usize, value: f32) -> i64 {
        if let Some(small) = self.small {
            return small.nearest(value / self.scale(index));
        }
        let zero = -self.offset(index, 0) as i64;
        let steps = (value / self.scale(index)).round_ties_even();
        let (least, greatest) = self.range;
        (steps as i64).saturating_add(zero).clamp(least, greatest)
    }
}

/// Set of numbers that a weight without codes can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// Numbers of 32 bits.
    F32,
    /// Numbers of 32 bits, after a computation that others may round differently.
    Computed,
    /// Numbers of 16 bits.
    F16,
    /// Numbers with the upper half of 32 bits.
    Bf16,
    /// Numbers of a byte or less.
    Small(SmallFloat),
}

/// Relative tolerance of computations that differ only in the order of their steps.
const CALCULATION: f32 = 1e-5;

impl Grain {
    /// Half the distance between the neighbors of `value`: the largest error of rounding to
    /// nearest.
    pub fn half_step(self, value: f32) -> f32 {
        // 2 to the power of the exponent, divided by 2.
        let half_power = |digits: i32, least: i32| {
            let exponent = (value.to_bits() >> 23 & 0xff).cast_signed() - 127;
            2_f32.powi((exponent - digits).max(least) - 1)
        };
        match self {
            Self::F32 => half_power(23, -126),
            Self::Computed => CALCULATION * value.abs() + f32::EPSILON,
            Self::F16 => half_power(10, -24),
            Self::Bf16 => half_power(7, -126),
            Self::Small(small) => small.half_step_in_units(value / small.unit()) * small.unit(),
        }
    }

    /// Greatest number, if larger ones are clipped to it.
    pub fn greatest(self) -> f32 {
        match self {
            Self::F32 | Self::Computed => f32::INFINITY,
            Self::F16 => 65_504.0,
            Self::Bf16 => 3.38e38,
            Self::Small(small) => small.greatest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_belong_to_slices_and_blocks() {
        // [2, 4, 3], the middle dimension in blocks of 3, of which the last is short.
        let blocks = Layout::Blocks { len: 4, inner: 3, size: 3 };
        let of: Vec<usize> = (0..24).map(|index| blocks.scale_index(index)).collect();
        let expected = [0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8, 6, 7, 8, 9, 10, 11];
        assert_eq!(of, expected);
        assert_eq!(blocks.groups(24), 12);
        let slices = Layout::Axis { len: 2, inner: 3 };
        assert_eq!((0..12).map(|index| slices.scale_index(index)).max(), Some(1));
        assert_eq!(
            (slices.groups(12), Layout::Whole.groups(5), Layout::Whole.groups(0)),
            (2, 1, 0)
        );
    }

    #[test]
    fn half_steps_bound_what_rounding_changes() {
        for value in [1.0, 0.1, -3.7, 1e-5, 6e-8, 1e-9, 1234.5_f32] {
            let rounded = half::f16::from_f32(value).to_f32();
            assert!((rounded - value).abs() <= Grain::F16.half_step(value), "{value}");
            let rounded = half::bf16::from_f32(value).to_f32();
            assert!((rounded - value).abs() <= Grain::Bf16.half_step(value), "{value}");
        }
        assert!(Grain::F16.half_step(1.0) < 0.0005 && Grain::Bf16.half_step(1.0) < 0.004);
    }

    #[test]
    fn codes_are_those_of_quantize_linear() {
        let scales = vec![0.5];
        let zeros = vec![3.0];
        let affine = Affine { scales, zeros, layout: Layout::Whole, range: (0, 15), small: None };
        let codes = [-9.0, -0.75, 0.25, 0.3, 100.0].map(|value| affine.code(0, value));
        assert_eq!(codes, [0, 1, 3, 4, 15]);
        assert_eq!(affine.value(0, 1), -1.0);
    }
}
