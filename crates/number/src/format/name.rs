//! Names of formats, and the text that they print as and parse from.

use std::fmt;
use std::str::FromStr;

use super::{Format, FormatError, Kind, Special, default_bias};

/// Named formats. A format prints as the first name that equals it.
const NAMED: &[(&str, Format)] = &[
    ("F32", Format::F32),
    ("F16", Format::F16),
    ("bf16", Format::BF16),
    ("tf32", Format::TF32),
    ("fp11", Format::FP11),
    ("fp8-e4m3fn", Format::FP8_E4M3FN),
    ("fp8-e5m2", Format::FP8_E5M2),
    ("fp8-e4m3fnuz", Format::FP8_E4M3FNUZ),
    ("fp8-e5m2fnuz", Format::FP8_E5M2FNUZ),
    ("fp8-e4m3b11fnuz", Format::constant(1, 4, 3, 11, Special::NanForMinusZero)),
    ("fp8-e4m3", Format::constant(1, 4, 3, 7, Special::Ieee)),
    ("fp8-e3m4", Format::constant(1, 3, 4, 3, Special::Ieee)),
    ("fp6-e3m2", Format::FP6_E3M2),
    ("fp6-e2m3", Format::FP6_E2M3),
    ("fp4-e2m1", Format::FP4_E2M1),
    ("e8m0", Format::E8M0),
    ("int8", Format::INT8),
    ("uint8", Format::UINT8),
    ("int4", Format::INT4),
    ("uint4", Format::UINT4),
    ("int2", Format::constant(1, 0, 1, -1, Special::Complement)),
    ("uint2", Format::constant(0, 0, 2, -2, Special::Finite)),
    ("int16", Format::constant(1, 0, 15, -15, Special::Complement)),
    ("uint16", Format::constant(0, 0, 16, -16, Special::Finite)),
    ("mxint8", Format::MXINT8),
];

/// Suffixes of a tuple that name its special codes.
const SUFFIXES: [(&str, Special); 7] = [
    ("", Special::Finite),
    ("sz", Special::SignedZero),
    ("ieee", Special::Ieee),
    ("fn", Special::Nan),
    ("fnuz", Special::NanForMinusZero),
    ("fnu", Special::Powers),
    ("int", Special::Complement),
];

/// Returns an example of a name for error messages.
pub(super) fn example() -> &'static str {
    "fp8-e4m3fn"
}

impl Format {
    /// Iterates over all named formats.
    pub fn named() -> impl Iterator<Item = (&'static str, Format)> {
        NAMED.iter().copied()
    }

    /// Returns the name, if the format has one.
    pub fn name(self) -> Option<&'static str> {
        NAMED.iter().find(|(_, format)| *format == self).map(|(name, _)| *name)
    }
}

impl fmt::Display for Format {
    /// Writes the name; without a name, the family with bits and bias (`I3(-2)`, `U3(-2)` without a
    /// sign, `E4(3)`, `F8(7)`, `BIN(0)`); otherwise the tuple, such as `<1,4,2,7>fn`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return f.pad(name);
        }
        let bits = self.bits();
        let bias = self.bias();
        let text = match self.kind() {
            Kind::Binary => format!("BIN({bias})"),
            Kind::Fixed if self.is_family(Kind::Fixed) => format!("I{bits}({bias})"),
            Kind::Fixed if self.is_unsigned_fixed() => format!("U{bits}({bias})"),
            Kind::Exp if self.is_family(Kind::Exp) => format!("E{bits}({bias})"),
            Kind::Float if Self::float(bits).and_then(|like| like.with_bias(bias)) == Ok(*self) => {
                format!("F{bits}({bias})")
            }
            _ => {
                let suffix = SUFFIXES.iter().find(|(_, special)| *special == self.special());
                let (s, e, n) = (self.sign_bits, self.exponent_bits, self.fraction_bits);
                format!("<{s},{e},{n},{bias}>{}", suffix.map_or("", |(suffix, _)| suffix))
            }
        };
        f.pad(&text)
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Format {
    type Err = FormatError;

    /// Parses everything that `Display` prints, in either case. A family without a bias gets its
    /// default bias.
    fn from_str(text: &str) -> Result<Self, FormatError> {
        if let Some((_, format)) = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return Ok(*format);
        }
        let unknown = || FormatError::Name(text.to_owned());
        if let Some(rest) = text.strip_prefix('<') {
            return tuple(rest).ok_or_else(unknown)?;
        }
        family(text).ok_or_else(unknown)?
    }
}

/// Reads the part after `<` of `<1,4,3,7>fn`; `None` if the text is not a tuple.
fn tuple(rest: &str) -> Option<Result<Format, FormatError>> {
    let (numbers, suffix) = rest.split_once('>')?;
    let mut numbers = numbers.split(',');
    let has_sign = match numbers.next()?.trim() {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    let exponent = numbers.next()?.trim().parse().ok()?;
    let fraction = numbers.next()?.trim().parse().ok()?;
    let bias = numbers.next()?.trim().parse().ok()?;
    let (_, special) = SUFFIXES.iter().find(|(name, _)| name.eq_ignore_ascii_case(suffix))?;
    let is_whole = numbers.next().is_none();
    is_whole.then(|| Format::new(has_sign, exponent, fraction, bias, *special))
}

/// Reads `I3(-2)` or `I3`; `None` if the text is not a family.
fn family(text: &str) -> Option<Result<Format, FormatError>> {
    let (head, bias) = match text.split_once('(') {
        Some((head, rest)) => (head, Some(rest.strip_suffix(')')?.parse::<i32>().ok()?)),
        None => (text, None),
    };
    if head.eq_ignore_ascii_case("BIN") {
        return Some(Format::binary(bias.unwrap_or(0)));
    }
    let letter = head.get(..1)?.to_ascii_uppercase();
    let digits = head.get(1..)?;
    // `parse` would also accept a plus sign.
    let bits: u32 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    Some(match (letter.as_str(), bias) {
        ("I", bias) => Format::fixed(bits, bias.unwrap_or(0)),
        ("U", bias) => Format::new(false, 0, bits, bias.unwrap_or(0), Special::Finite),
        ("E", None) => Format::exp(bits),
        ("E", Some(bias)) => Format::exp_with(bits, bias),
        ("F", None) => Format::float(bits),
        ("F", Some(bias)) => Format::float(bits).and_then(|format| format.with_bias(bias)),
        _ => return None,
    })
}

impl Format {
    /// Returns the format as in a Number configuration file, after the name of the object: `FIXED
    /// 15 -3`, `EXP 8 63`, `FLOAT 16 15`, `FLOAT 16 127 8` if the exponent has an unusual width,
    /// `UFIXED 8 -8` for FIXED without a sign. Formats outside the thesis' families are written as
    /// they print.
    pub fn words(self) -> String {
        let bits = self.bits();
        let bias = self.bias();
        let exponent = self.exponent_bits();
        match self.kind() {
            Kind::Fixed if self.is_unsigned_fixed() => format!("UFIXED {bits} {bias}"),
            kind if !self.is_family(kind) => self.to_string(),
            Kind::Binary => format!("BIN 1 {bias}"),
            Kind::Fixed => format!("FIXED {bits} {bias}"),
            Kind::Exp => format!("EXP {bits} {bias}"),
            Kind::Float => {
                let usual = Self::float(bits).is_ok_and(|like| like.exponent_bits() == exponent);
                let exponent = if usual { String::new() } else { format!(" {exponent}") };
                format!("FLOAT {bits} {bias}{exponent}")
            }
        }
    }

    /// Returns whether the format is a FIXED without a sign.
    fn is_unsigned_fixed(self) -> bool {
        !self.has_sign() && self.kind() == Kind::Fixed && self.special() == Special::Finite
    }

    /// Reads what [`Format::words`] returns. If the bias is missing, the default of the type
    /// applies (SPEC A12).
    ///
    /// # Errors
    /// The type is unknown, a number is malformed, or there is no such format.
    pub fn from_words(words: &[&str]) -> Result<Self, FormatError> {
        let unknown = || FormatError::Name(words.join(" "));
        let [family, rest @ ..] = words else { return Err(unknown()) };
        if rest.is_empty() {
            return family.parse();
        }
        let rest: Vec<i32> = rest
            .iter()
            .map(|word| word.parse().map_err(|_| unknown()))
            .collect::<Result<_, _>>()?;
        let bits = u32::try_from(rest[0]).map_err(|_| unknown())?;
        match (family.to_ascii_uppercase().as_str(), &rest[1..]) {
            ("FLOAT", []) => Self::float(bits),
            ("FLOAT", [bias]) => Self::float(bits)?.with_bias(*bias),
            ("FLOAT", [bias, exponent]) => {
                let exponent = u32::try_from(*exponent).map_err(|_| unknown())?;
                Self::float_with(bits, exponent, *bias)
            }
            ("FIXED", []) => Self::fixed(bits, 0),
            ("FIXED", [bias]) => Self::fixed(bits, *bias),
            ("UFIXED", [] | [_]) if bits > Self::MAX_FRACTION_BITS => {
                let most = Self::MAX_FRACTION_BITS;
                Err(FormatError::Bits { family: "UFIXED", least: 1, most, found: bits })
            }
            ("UFIXED", []) => Self::new(false, 0, bits, 0, Special::Finite),
            ("UFIXED", [bias]) => Self::new(false, 0, bits, *bias, Special::Finite),
            ("EXP", []) => Self::exp(bits),
            ("EXP", [bias]) => Self::exp_with(bits, *bias),
            ("BIN", bias @ ([] | [_])) if bits == 1 => {
                Self::binary(bias.first().copied().unwrap_or(default_bias(0)))
            }
            _ => Err(unknown()),
        }
    }
}
