//! Floating-point types of a byte or less, as ONNX defines them.

use dyno_onnx::Element;

/// A floating-point type of a byte or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallFloat {
    F4E2M1,
    F8E4M3,
    F8E4M3Fnuz,
    F8E5M2,
    F8E5M2Fnuz,
}

impl SmallFloat {
    /// Returns the type of elements; `None` for other types.
    pub fn from_element(element: Element) -> Option<Self> {
        Some(match element {
            Element::F4E2M1 => Self::F4E2M1,
            Element::F8E4M3 => Self::F8E4M3,
            Element::F8E4M3Fnuz => Self::F8E4M3Fnuz,
            Element::F8E5M2 => Self::F8E5M2,
            Element::F8E5M2Fnuz => Self::F8E5M2Fnuz,
            _ => return None,
        })
    }

    /// Bits of the fraction, and exponent bias.
    fn form(self) -> (u32, i32) {
        match self {
            Self::F4E2M1 => (1, 1),
            Self::F8E4M3 => (3, 7),
            Self::F8E4M3Fnuz => (3, 8),
            Self::F8E5M2 => (2, 15),
            Self::F8E5M2Fnuz => (2, 16),
        }
    }

    /// Least positive number, of which all others are multiples.
    pub fn unit(self) -> f32 {
        let (fraction, bias) = self.form();
        2_f32.powi(1 - bias - fraction.cast_signed())
    }

    pub fn greatest(self) -> f32 {
        match self {
            Self::F4E2M1 => 6.0,
            Self::F8E4M3 => 448.0,
            Self::F8E4M3Fnuz => 240.0,
            Self::F8E5M2 | Self::F8E5M2Fnuz => 57_344.0,
        }
    }

    /// Decodes bits as a multiple of the unit. NaN and infinity are farther away than any number.
    pub fn units(self, bits: u8) -> i64 {
        let width = if self == Self::F4E2M1 { 3 } else { 7 };
        let is_negative = bits >> width & 1 == 1;
        let size = bits & ((1 << width) - 1);
        let is_none = match self {
            Self::F4E2M1 => false,
            Self::F8E4M3 => size == 0x7f,
            Self::F8E5M2 => size >= 0x7c,
            Self::F8E4M3Fnuz | Self::F8E5M2Fnuz => bits == 0x80,
        };
        let (fraction, _) = self.form();
        let exponent = size >> fraction;
        let digits = i64::from(size & ((1 << fraction) - 1));
        let units = match exponent {
            _ if is_none => self.most() * 4,
            0 => digits,
            exponent => (digits + (1 << fraction)) << (exponent - 1),
        };
        if is_negative { -units } else { units }
    }

    /// Greatest number as a multiple of the unit.
    fn most(self) -> i64 {
        (self.greatest() / self.unit()) as i64
    }

    /// Value of a multiple of the unit.
    pub fn value(self, units: i64) -> f32 {
        if units.abs() > self.most() { f32::NAN } else { units as f32 * self.unit() }
    }

    /// Half the distance between the neighbors of a number, all in units.
    pub fn half_step_in_units(self, units: f32) -> f32 {
        let (fraction, _) = self.form();
        let exponent = units.abs().max(1.0).log2().floor() as i32 - fraction.cast_signed();
        2_f32.powi(exponent.max(0)) / 2.0
    }

    /// Nearest number in units, ties to even, clamped to the greatest.
    pub fn nearest(self, units: f32) -> i64 {
        let step = 2.0 * self.half_step_in_units(units);
        let nearest = (units / step).round_ties_even() * step;
        (nearest as i64).clamp(-self.most(), self.most())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits with what they stand for in the tables of ONNX.
    const KNOWN: [(SmallFloat, u8, f32); 17] = [
        (SmallFloat::F8E4M3, 0x7e, 448.0),
        (SmallFloat::F8E4M3, 0x08, 0.015_625),
        (SmallFloat::F8E4M3, 0x01, 0.001_953_125),
        (SmallFloat::F8E4M3, 0xb8, -1.0),
        (SmallFloat::F8E4M3Fnuz, 0x7f, 240.0),
        (SmallFloat::F8E4M3Fnuz, 0x08, 0.007_812_5),
        (SmallFloat::F8E4M3Fnuz, 0x01, 0.000_976_562_5),
        (SmallFloat::F8E4M3Fnuz, 0xc0, -1.0),
        (SmallFloat::F8E5M2, 0x7b, 57_344.0),
        (SmallFloat::F8E5M2, 0x01, 0.000_015_258_789),
        (SmallFloat::F8E5M2, 0xbc, -1.0),
        (SmallFloat::F8E5M2Fnuz, 0x7f, 57_344.0),
        (SmallFloat::F8E5M2Fnuz, 0x01, 0.000_007_629_394_5),
        (SmallFloat::F8E5M2Fnuz, 0xc0, -1.0),
        (SmallFloat::F4E2M1, 0x7, 6.0),
        (SmallFloat::F4E2M1, 0x1, 0.5),
        (SmallFloat::F4E2M1, 0xb, -1.5),
    ];

    #[test]
    fn bits_are_numbers_and_numbers_round_to_the_nearest() {
        for (small, bits, value) in KNOWN {
            assert_eq!(small.value(small.units(bits)), value, "{small:?} {bits:#x}");
            assert_eq!(small.nearest(value / small.unit()), small.units(bits));
        }
        for (small, bits) in [
            (SmallFloat::F8E4M3, 0x7f),
            (SmallFloat::F8E4M3, 0xff),
            (SmallFloat::F8E5M2, 0x7c),
            (SmallFloat::F8E5M2, 0xfd),
            (SmallFloat::F8E4M3Fnuz, 0x80),
            (SmallFloat::F8E5M2Fnuz, 0x80),
        ] {
            assert!(small.value(small.units(bits)).is_nan(), "{small:?} {bits:#x}");
        }
        let small = SmallFloat::F8E4M3;
        let nearest = |value: f32| small.value(small.nearest(value / small.unit()));
        // From 16 on every second whole number is there, from 32 on every fourth.
        let rounded = [17.0, 19.1, 33.0, 34.0, 35.0, 1000.0, 0.0009, 0.001].map(nearest);
        assert_eq!(rounded, [16.0, 20.0, 32.0, 32.0, 36.0, 448.0, 0.0, 0.001_953_125]);
    }
}
