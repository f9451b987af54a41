//! How the types of ONNX express number formats.

use dyno_onnx::Element;

use crate::format::{Format, Kind, Special};

/// How a file expresses the numbers of a format, each exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Expression {
    /// As numbers of float32.
    Float,
    /// As integers times a scale.
    Integers(Integers),
    /// As numbers of another type of floating-point numbers, by `Cast`.
    Cast(Element),
}

/// Integers from `least` to `most`, times a scale that is a power of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Integers {
    pub element: Element,
    pub scale: f32,
    pub least: i32,
    pub most: i32,
}

/// Types of integers with their limits, narrowest first.
const INTEGERS: [(Element, i32, i32); 6] = [
    (Element::I4, -8, 7),
    (Element::U4, 0, 15),
    (Element::I8, -128, 127),
    (Element::U8, 0, 255),
    (Element::I16, -32_768, 32_767),
    (Element::U16, 0, 65_535),
];

/// Formats that are types of ONNX.
const CASTS: [(Format, Element); 6] = [
    (Format::F16, Element::F16),
    (Format::BF16, Element::BF16),
    (Format::FP8_E4M3FN, Element::F8E4M3),
    (Format::FP8_E5M2, Element::F8E5M2),
    (Format::FP8_E4M3FNUZ, Element::F8E4M3Fnuz),
    (Format::FP8_E5M2FNUZ, Element::F8E5M2Fnuz),
];

/// Returns the format of a type of ONNX with its own rounding; `None` for float32 and integers.
pub(in super::super) fn format_of(element: Element) -> Option<Format> {
    CASTS.into_iter().find(|(_, known)| *known == element).map(|(format, _)| format)
}

impl Expression {
    /// Returns how constants in a format are stored; `None` if no type has all its numbers. Types
    /// have at least `least_bits` bits.
    ///
    /// Numbers with an exponent are integers too, if the least of them is the unit: those of E4(3)
    /// are 0, and 1 to 64 times 2^-2.
    pub fn of_weights(format: Format, least_bits: usize) -> Option<Self> {
        Self::of_types(format).or_else(|| Integers::new(format, least_bits).map(Self::Integers))
    }

    /// Returns how values are rounded to a format while a model runs; `None` if no operator of
    /// ONNX does so.
    ///
    /// `QuantizeLinear` rounds to steps of equal size, ties to even, as Dyno does.
    pub fn of_activations(format: Format) -> Option<Self> {
        let is_even = format.kind() == Kind::Fixed;
        let integers = || Integers::new(format, 8).filter(|_| is_even).map(Self::Integers);
        Self::of_types(format).or_else(integers)
    }

    fn of_types(format: Format) -> Option<Self> {
        let cast = CASTS.into_iter().find(|(known, _)| *known == format);
        (format == Format::F32)
            .then_some(Self::Float)
            .or(cast.map(|(_, element)| Self::Cast(element)))
    }

    /// Returns the name of the type in the file.
    pub fn element(self) -> Element {
        match self {
            Self::Float => Element::F32,
            Self::Integers(integers) => integers.element,
            Self::Cast(element) => element,
        }
    }
}

impl Integers {
    fn new(format: Format, least_bits: usize) -> Option<Self> {
        // A NaN or an infinity would need a code.
        if matches!(format.special(), Special::Powers) || format.has_infinity() {
            return None;
        }
        let unit = unit(format);
        let most = format.max_value() / unit;
        let lowest = match (format.has_sign(), format.special()) {
            (false, _) => 0.0,
            (true, Special::Complement) => -most - 1.0,
            (true, _) => -most,
        };
        // Numbers without a sign are stored in types without one.
        let fits = |(_, least, end): &(Element, i32, i32)| {
            format.has_sign() == (*least < 0)
                && lowest >= f64::from(*least)
                && most <= f64::from(*end)
        };
        let wide = INTEGERS.iter().filter(|(element, ..)| element.bits() >= least_bits);
        let (element, ..) = wide.into_iter().find(|integers| fits(integers))?;
        let scale = unit as f32;
        // Engines may treat subnormal numbers as 0.
        scale.is_normal().then_some(Self {
            element: *element,
            scale,
            least: lowest as i32,
            most: most as i32,
        })
    }

    /// Returns whether the type has no other integers than the format.
    pub fn are_all(&self) -> bool {
        INTEGERS.contains(&(self.element, self.least, self.most))
    }

    /// Returns the bytes of numbers that are in the format.
    pub fn bytes(&self, numbers: &[f32]) -> Vec<u8> {
        let integers = numbers.iter().map(|x| (f64::from(*x) / f64::from(self.scale)) as i32);
        match self.element.bits() {
            4 => {
                let codes: Vec<u32> = integers.map(|n| n as u32 & 15).collect();
                crate::pack::pack(&codes, 4)
            }
            8 => integers.map(|n| n as u8).collect(),
            _ => integers.flat_map(|n| (n as u16).to_le_bytes()).collect(),
        }
    }
}

/// Returns the number of which all numbers of a format are multiples.
fn unit(format: Format) -> f64 {
    let exponent = i32::from(format.kind() == Kind::Float || format.kind() == Kind::Exp);
    2_f64.powi(exponent - format.bias() - format.fraction_bits() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(name: &str) -> Option<Expression> {
        Expression::of_weights(name.parse().unwrap(), 4)
    }

    /// Every code of a format is an integer of its type, times the scale.
    #[test]
    fn integers_are_all_numbers_of_a_format() {
        let names = ["I1(0)", "I4(2)", "I8(-3)", "I16(1)", "U1(0)", "U4(-1)", "U8(3)", "U16(0)"];
        let more = ["E2(1)", "E4(3)", "E5(-2)", "int8", "int4", "uint8", "fp4-e2m1", "mxint8"];
        for name in names.iter().chain(&more).chain(&["F4(1)", "F5(1)", "F6(3)", "F7(3)"]) {
            let format: Format = name.parse().unwrap();
            let Some(Expression::Integers(integers)) = weights(name) else {
                panic!("{name} are no integers")
            };
            let mut ends = [0_i32; 2];
            for code in 0..1_u32 << format.bits() {
                let steps = format.decode(code) / f64::from(integers.scale);
                assert_eq!(steps.fract(), 0.0, "{name}, code {code}");
                ends = [ends[0].min(steps as i32), ends[1].max(steps as i32)];
            }
            assert_eq!(ends, [integers.least, integers.most], "{name}");
        }
    }

    #[test]
    fn types_are_as_narrow_as_possible() {
        let element = |name: &str| weights(name).map(Expression::element);
        assert_eq!(element("I4(0)"), Some(Element::I4));
        assert_eq!(element("U4(0)"), Some(Element::U4));
        assert_eq!(element("I5(0)"), Some(Element::I8));
        assert_eq!(element("E4(3)"), Some(Element::I8));
        assert_eq!(element("U9(0)"), Some(Element::U16));
        assert_eq!(element("U16(0)"), Some(Element::U16));
        assert_eq!(element("F16"), Some(Element::F16));
        assert_eq!(element("E8(63)"), None);
        assert_eq!(element("I17(0)"), None);
        // 2^-131 is subnormal.
        assert_eq!(element("I4(128)"), None);
        let bytes = Expression::of_weights("I4(0)".parse().unwrap(), 8).unwrap();
        assert_eq!(bytes.element(), Element::I8);
    }

    #[test]
    fn activations_need_steps_of_equal_size() {
        let element =
            |name: &str| Expression::of_activations(name.parse().unwrap()).map(Expression::element);
        assert_eq!(element("I3(0)"), Some(Element::I8));
        assert_eq!(element("U3(0)"), Some(Element::U8));
        assert_eq!(element("fp8-e5m2"), Some(Element::F8E5M2));
        for name in ["E4(3)", "I1(0)", "fp4-e2m1", "F8(7)", "I17(0)"] {
            assert_eq!(element(name), None, "{name}");
        }
    }
}
