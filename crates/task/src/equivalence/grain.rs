//! How finely a weight's numbers are told, and so by how much they may differ from what
//! they stand for.

/// Numbers of a weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub shape: Vec<usize>,
    /// Row by row.
    pub values: Vec<f32>,
    pub grain: Grain,
}

/// What numbers a weight can have.
#[derive(Debug, Clone, PartialEq)]
pub enum Grain {
    /// Those of 32 bits.
    F32,
    /// Those of 32 bits, after a calculation that others may round elsewhere.
    Computed,
    /// Those of 16 bits.
    F16,
    /// The upper half of 32 bits.
    Bf16,
    /// Multiples of a scale, as the codes say.
    Affine { affine: Affine, codes: Vec<i64> },
}

/// What codes stand for.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    pub scales: Vec<f32>,
    /// None are all 0.
    pub zeros: Vec<i64>,
    pub layout: Layout,
    /// The least and the greatest code.
    pub range: (i64, i64),
}

/// Which scale belongs to an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    Whole,
    /// One for each slice along a dimension of this length.
    Axis {
        len: usize,
        inner: usize,
    },
    /// One for each block of this size along a dimension.
    Blocks {
        len: usize,
        inner: usize,
        size: usize,
    },
}

impl Layout {
    fn of(self, index: usize) -> usize {
        match self {
            Self::Whole => 0,
            Self::Axis { len, inner } => index / inner % len,
            Self::Blocks { len, inner, size } => {
                let (outer, at) = (index / (inner * len), index / inner % len);
                (outer * len.div_ceil(size) + at / size) * inner + index % inner
            }
        }
    }
}

impl Affine {
    /// The numbers of codes; `None` if scales or zero points are missing.
    pub fn decode(self, shape: Vec<usize>, codes: &[i64]) -> Option<Decoded> {
        let mut values = Vec::with_capacity(codes.len());
        if codes.len() != shape.iter().product::<usize>() {
            return None;
        }
        for (index, &code) in codes.iter().enumerate() {
            let at = self.layout.of(index);
            let scale = self.scales.get(at)?;
            values.push(code.checked_sub(self.zero(at)?)? as f32 * scale);
        }
        Some(Decoded { shape, values, grain: Grain::Affine { affine: self, codes: codes.into() } })
    }

    fn zero(&self, at: usize) -> Option<i64> {
        match &self.zeros[..] {
            [] => Some(0),
            [one] => Some(*one),
            several => several.get(at).copied(),
        }
    }
}

/// Calculations that are the same but for the order of their steps agree to this share.
const CALCULATION: f32 = 1e-5;

impl Grain {
    /// Half the distance of the numbers next to `value`, for the element at `index`:
    /// what rounding to the nearest one may change at most.
    pub fn half_step(&self, index: usize, value: f32) -> f32 {
        // 2 to the power of the exponent, times this.
        let of = |digits: i32, least: i32| {
            let exponent = (value.to_bits() >> 23 & 0xff).cast_signed() - 127;
            2_f32.powi((exponent - digits).max(least) - 1)
        };
        match self {
            Self::F32 => of(23, -126),
            Self::Computed => CALCULATION * value.abs() + f32::EPSILON,
            Self::F16 => of(10, -24),
            Self::Bf16 => of(7, -126),
            Self::Affine { affine, .. } => affine.scales[affine.layout.of(index)].abs() / 2.0,
        }
    }

    /// Whether the number at `index` is the least or the greatest that there is, and
    /// `value` lies beyond it.
    pub fn is_clipped(&self, index: usize, found: f32, value: f32) -> bool {
        let is_beyond = value.abs() > found.abs() && (value > 0.0) == (found >= 0.0);
        match self {
            Self::F32 | Self::Computed => false,
            Self::F16 => is_beyond && found.abs() >= 65_504.0,
            Self::Bf16 => is_beyond && found.abs() >= 3.38e38,
            Self::Affine { affine, codes } => {
                let (least, greatest) = affine.range;
                let middle = i64::midpoint(least, greatest + 1);
                let half = (greatest - least + 1) / 4;
                let code = codes[index];
                // Also of the half range that quantisers leave room by, and of symmetric
                // ones, which have one code less.
                let low = [least, least + 1, middle - half, middle - half + 1];
                let high = [greatest, middle + half, middle + half - 1];
                let sign = affine.scales[affine.layout.of(index)].signum();
                let is_low = low.contains(&code) && (value - found) * sign < 0.0;
                let is_high = high.contains(&code) && (value - found) * sign > 0.0;
                is_low || is_high
            }
        }
    }
}

impl Decoded {
    /// Elements that are not 0.
    pub fn non_zero(&self) -> u64 {
        self.values.iter().filter(|value| **value != 0.0).count() as u64
    }

    /// The same with dimension `axes[i]` as dimension i.
    pub fn arranged(&self, axes: &[usize]) -> Vec<f32> {
        if axes.iter().enumerate().all(|(at, axis)| at == *axis) {
            return self.values.clone();
        }
        let mut strides = vec![1; self.shape.len()];
        for at in (0..self.shape.len().saturating_sub(1)).rev() {
            strides[at] = strides[at + 1] * self.shape[at + 1];
        }
        let shape: Vec<usize> = axes.iter().map(|&axis| self.shape[axis]).collect();
        let strides: Vec<usize> = axes.iter().map(|&axis| strides[axis]).collect();
        let (mut at, mut from) = (vec![0; shape.len()], 0);
        let mut values = Vec::with_capacity(self.values.len());
        for _ in 0..self.values.len() {
            values.push(self.values[from]);
            for axis in (0..shape.len()).rev() {
                at[axis] += 1;
                from += strides[axis];
                if at[axis] < shape[axis] {
                    break;
                }
                from -= strides[axis] * shape[axis];
                at[axis] = 0;
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_belong_to_slices_and_blocks() {
        // [2, 4, 3], the middle dimension in blocks of 3, of which the last is short.
        let blocks = Layout::Blocks { len: 4, inner: 3, size: 3 };
        let of: Vec<usize> = (0..24).map(|index| blocks.of(index)).collect();
        let expected = [0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8, 6, 7, 8, 9, 10, 11];
        assert_eq!(of, expected);
        let slices = Layout::Axis { len: 2, inner: 3 };
        assert_eq!((0..12).map(|index| slices.of(index)).max(), Some(1));
    }

    #[test]
    fn half_steps_bound_what_rounding_changes() {
        for value in [1.0, 0.1, -3.7, 1e-5, 6e-8, 1e-9, 1234.5_f32] {
            let rounded = half::f16::from_f32(value).to_f32();
            assert!((rounded - value).abs() <= Grain::F16.half_step(0, value), "{value}");
            let rounded = half::bf16::from_f32(value).to_f32();
            assert!((rounded - value).abs() <= Grain::Bf16.half_step(0, value), "{value}");
        }
        assert!(Grain::F16.half_step(0, 1.0) < 0.0005 && Grain::Bf16.half_step(0, 1.0) < 0.004);
    }

    #[test]
    fn dimensions_change_places() {
        let decoded = Decoded {
            shape: vec![2, 3],
            values: vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
            grain: Grain::F32,
        };
        assert_eq!(decoded.arranged(&[1, 0]), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(decoded.arranged(&[0, 1]), decoded.values);
    }
}
