//! Elements as JSON: numbers, truth values and strings, in one flat array or nested as the shape, to
//! little-endian bytes and back.

use std::fmt;

use dyno_tensors::{nearest_bf16, nearest_f16};
use half::{bf16, f16};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use super::{Datatype, Tensor};

/// Appends the elements as the inside of a flat JSON array.
///
/// JSON has no number that is not finite: such an element is `null`. Bytes that are no UTF-8
/// lose what is not.
pub(super) fn write(tensor: &Tensor, out: &mut Vec<u8>) {
    macro_rules! each {
        ($type:ty, $show:expr) => {
            join(
                out,
                tensor.data.chunks_exact(size_of::<$type>()).map(|bytes| {
                    let value =
                        <$type>::from_le_bytes(bytes.try_into().expect("chunks are of this size"));
                    let show: fn($type) -> _ = $show;
                    show(value)
                }),
            )
        };
    }
    match tensor.datatype {
        Datatype::Bool => each!(u8, |byte| byte != 0),
        Datatype::Uint8 => each!(u8, |x| x),
        Datatype::Uint16 => each!(u16, |x| x),
        Datatype::Uint32 => each!(u32, |x| x),
        Datatype::Uint64 => each!(u64, |x| x),
        Datatype::Int8 => each!(i8, |x| x),
        Datatype::Int16 => each!(i16, |x| x),
        Datatype::Int32 => each!(i32, |x| x),
        Datatype::Int64 => each!(i64, |x| x),
        Datatype::Fp16 => each!(f16, f16::to_f32),
        Datatype::Bf16 => each!(bf16, bf16::to_f32),
        Datatype::Fp32 => each!(f32, |x| x),
        Datatype::Fp64 => each!(f64, |x| x),
        Datatype::Bytes => {
            join(out, tensor.strings().flatten().map(|bytes| String::from_utf8_lossy(bytes)));
        }
    }
}

/// Appends values with commas between them.
fn join<T: serde::Serialize>(out: &mut Vec<u8>, values: impl Iterator<Item = T>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, &value).expect("memory takes all that is written");
    }
}

/// Reads an array, flat or nested as the shape, to little-endian bytes. Does not check the number of
/// elements of a flat array.
///
/// # Errors
/// An element that the type cannot represent, or nested arrays that differ from the shape.
pub(super) fn read(
    datatype: Datatype,
    shape: &[usize],
    json: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let seed = Flat { datatype, shape, depth: 0, form: &mut None, out: &mut out };
    seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(out)
}

/// Arrangement of the elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// All elements are in one array.
    Flat,
    /// Each dimension of the shape has its own level of arrays.
    Nested,
}

/// Appends one element, or those of an array.
struct Flat<'a> {
    datatype: Datatype,
    shape: &'a [usize],
    /// Number of arrays around the value.
    depth: usize,
    /// Arrangement of the values before this one.
    form: &'a mut Option<Arrangement>,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Flat<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Flat<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of elements of type {}", self.datatype)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut all: A) -> Result<(), A::Error> {
        if self.depth > 0 {
            self.check_array::<A::Error>()?;
        }
        let mut count = 0;
        loop {
            let item = Flat {
                datatype: self.datatype,
                shape: self.shape,
                depth: self.depth + 1,
                form: &mut *self.form,
                out: &mut *self.out,
            };
            if all.next_element_seed(item)?.is_none() {
                break;
            }
            count += 1;
        }
        match self.shape.get(self.depth) {
            Some(&expected) if *self.form == Some(Arrangement::Nested) && count != expected => {
                Err(A::Error::custom(format!(
                    "an array at level {} has {count} items; expected {expected} for shape {:?}",
                    self.depth + 1,
                    self.shape
                )))
            }
            _ => Ok(()),
        }
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        self.check_element::<E>()?;
        match self.datatype {
            Datatype::Bool => self.out.push(value.into()),
            _ => return Err(E::invalid_type(serde::de::Unexpected::Bool(value), &self)),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        self.check_element::<E>()?;
        let stays_finite = match self.datatype {
            Datatype::Fp16 => nearest_f16(value).is_finite(),
            Datatype::Bf16 => nearest_bf16(value).is_finite(),
            Datatype::Fp32 => (value as f32).is_finite(),
            _ => true,
        };
        if value.is_finite() && !stays_finite {
            return Err(E::custom(format!("{value:e} is too large for {}", self.datatype)));
        }
        match self.datatype {
            Datatype::Fp16 => self.out.extend(nearest_f16(value).to_le_bytes()),
            Datatype::Bf16 => self.out.extend(nearest_bf16(value).to_le_bytes()),
            Datatype::Fp32 => self.out.extend((value as f32).to_le_bytes()),
            Datatype::Fp64 => self.out.extend(value.to_le_bytes()),
            // Some writers of JSON write all numbers with a point.
            _ if value.fract() == 0.0 && value.abs() < 2_f64.powi(53) => {
                return self.integer(value as i128);
            }
            _ => return Err(E::invalid_type(serde::de::Unexpected::Float(value), &self)),
        }
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.datatype {
            Datatype::Fp16 | Datatype::Bf16 | Datatype::Fp32 | Datatype::Fp64 => {
                self.visit_f64(f64::NAN)
            }
            _ => Err(E::invalid_type(serde::de::Unexpected::Unit, &self)),
        }
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<(), E> {
        self.check_element::<E>()?;
        match (self.datatype, u32::try_from(value.len())) {
            (Datatype::Bytes, Ok(length)) => {
                self.out.extend(length.to_le_bytes());
                self.out.extend(value.as_bytes());
                Ok(())
            }
            _ => match (self.datatype, value) {
                // As JSON writes numbers that it does not have.
                (
                    Datatype::Fp16 | Datatype::Bf16 | Datatype::Fp32 | Datatype::Fp64,
                    "NaN" | "Infinity" | "-Infinity",
                ) => self.visit_f64(value.parse().unwrap_or(f64::NAN)),
                _ => Err(E::invalid_type(serde::de::Unexpected::Str(value), &self)),
            },
        }
    }
}

/// Returns JSON with the numbers that are not finite, which some servers write bare, as strings; `None`
/// without any.
pub(crate) fn with_quoted_numbers(json: &[u8]) -> Option<Vec<u8>> {
    const BARE: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let (mut out, mut rest) = (Vec::with_capacity(json.len() + 64), json);
    let (mut is_string, mut is_escaped, mut has_any) = (false, false, false);
    while let Some((&byte, after)) = rest.split_first() {
        let bare = BARE.iter().find(|bare| !is_string && rest.starts_with(bare));
        if let Some(bare) = bare {
            out.extend([b"\"", *bare, b"\""].concat());
            rest = &rest[bare.len()..];
            has_any = true;
            continue;
        }
        is_string ^= byte == b'"' && !is_escaped;
        is_escaped = is_string && byte == b'\\' && !is_escaped;
        out.push(byte);
        rest = after;
    }
    has_any.then_some(out)
}

impl Flat<'_> {
    /// Checks that the shape has a level for an array within an array.
    fn check_array<E: Error>(&mut self) -> Result<(), E> {
        if *self.form == Some(Arrangement::Flat) || self.depth >= self.shape.len() {
            return Err(self.wrong_level("an array"));
        }
        *self.form = Some(Arrangement::Nested);
        Ok(())
    }

    /// Checks that the arrays around an element are one flat array, or as many as the shape has
    /// dimensions.
    fn check_element<E: Error>(&mut self) -> Result<(), E> {
        let is_nested = *self.form == Some(Arrangement::Nested);
        if is_nested && self.depth == self.shape.len() {
            return Ok(());
        }
        if is_nested || self.depth > 1 || (self.depth == 0 && !self.shape.is_empty()) {
            return Err(self.wrong_level("an element"));
        }
        *self.form = Some(Arrangement::Flat);
        Ok(())
    }

    fn wrong_level<E: Error>(&self, what: &str) -> E {
        E::custom(format!(
            "{what} within {} arrays; expected one flat array, or arrays nested as the shape {:?}",
            self.depth, self.shape
        ))
    }

    fn integer<E: Error>(mut self, value: i128) -> Result<(), E> {
        self.check_element::<E>()?;
        macro_rules! push {
            ($type:ty) => {
                match <$type>::try_from(value) {
                    Ok(value) => self.out.extend(value.to_le_bytes()),
                    Err(_) => {
                        let range = (<$type>::MIN, <$type>::MAX);
                        let datatype = self.datatype;
                        return Err(E::custom(format!(
                            "{value} is not a {datatype}; expected {} to {}",
                            range.0, range.1
                        )));
                    }
                }
            };
        }
        match self.datatype {
            Datatype::Bool => match value {
                0 | 1 => self.out.push(u8::from(value == 1)),
                _ => return Err(E::custom(format!("{value} is not a BOOL; expected 0 or 1"))),
            },
            Datatype::Uint8 => push!(u8),
            Datatype::Uint16 => push!(u16),
            Datatype::Uint32 => push!(u32),
            Datatype::Uint64 => push!(u64),
            Datatype::Int8 => push!(i8),
            Datatype::Int16 => push!(i16),
            Datatype::Int32 => push!(i32),
            Datatype::Int64 => push!(i64),
            Datatype::Fp16 | Datatype::Bf16 | Datatype::Fp32 | Datatype::Fp64 => {
                return self.visit_f64(value as f64);
            }
            Datatype::Bytes => {
                return Err(E::custom(format!(
                    "{value} is a number, expected a \
                 string"
                )));
            }
        }
        Ok(())
    }
}
