//! Numbers of eight bits, as weights with scales and casts store them.

use dyno_tensors::Element;

use crate::tensor::{Tensor, Values};

/// Returns the numbers of a tensor in FP8, or `None` for other types.
///
/// Source: "FP8 Formats for Deep Learning" (Micikevicius et al., 2022), and the ONNX standard for the
/// types whose name ends with FNUZ.
pub(super) fn numbers(tensor: &Tensor) -> Option<Vec<f64>> {
    let (exponent_bits, bias, is_fnuz) = match tensor.element {
        Element::F8E4M3 => (4, 7, false),
        Element::F8E4M3Fnuz => (4, 8, true),
        Element::F8E5M2 => (5, 15, false),
        Element::F8E5M2Fnuz => (5, 16, true),
        _ => return None,
    };
    let Values::Bytes(bytes) = &tensor.values else { return None };
    let number = |byte: &u8| number(*byte, exponent_bits, bias, is_fnuz);
    Some(bytes.iter().map(number).collect())
}

fn number(byte: u8, exponent_bits: u32, bias: i32, is_fnuz: bool) -> f64 {
    let fraction_bits = 7 - exponent_bits;
    let exponent = i32::from(byte >> fraction_bits) & ((1 << exponent_bits) - 1);
    let fraction = i32::from(byte) & ((1 << fraction_bits) - 1);
    let is_top = exponent == (1 << exponent_bits) - 1;
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    if is_fnuz && byte == 0x80 {
        return f64::NAN;
    }
    // E5M2 has the special numbers of IEEE 754, E4M3 a NaN alone.
    if !is_fnuz && is_top && exponent_bits == 5 {
        return if fraction == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    if !is_fnuz && is_top && fraction == 7 {
        return f64::NAN;
    }
    let (whole, power) = if exponent == 0 { (0, 1) } else { (1 << fraction_bits, exponent) };
    sign * f64::from(whole + fraction) * 2.0_f64.powi(power - bias - fraction_bits as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of the paper: largest, least normal and least number, and special ones.
    #[test]
    fn numbers_are_those_of_the_paper() {
        let value = |byte, exponent_bits, bias| number(byte, exponent_bits, bias, false);
        let e4m3 = [0x7e, 0x08, 0x01, 0x38, 0xc1].map(|byte| value(byte, 4, 7));
        assert_eq!(e4m3, [448.0, 0.015_625, 0.001_953_125, 1.0, -2.25]);
        assert!(value(0x7f, 4, 7).is_nan() && value(0xff, 4, 7).is_nan());
        let e5m2 = [0x7b, 0x04, 0x01, 0x7c, 0xfc].map(|byte| value(byte, 5, 15));
        let least = 2.0_f64.powi(-16);
        assert_eq!(e5m2, [57_344.0, 4.0 * least, least, f64::INFINITY, f64::NEG_INFINITY]);
        assert!(value(0x7d, 5, 15).is_nan());
        assert_eq!([number(0x7f, 4, 8, true), number(0x7f, 5, 16, true)], [240.0, 57_344.0]);
        assert!(number(0x80, 4, 8, true).is_nan());
    }
}
