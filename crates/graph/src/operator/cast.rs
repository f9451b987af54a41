//! Casts between element types.

use dyno_tensors::{Element, nearest_bf16, nearest_f16};
use half::{bf16, f16};

use super::one;
use crate::node::{NodeReader, Operation};
use crate::value::{Data, Number, Value, each_number};

/// Reads a node of `Cast`.
pub(super) fn cast(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    // They concern floats of 8 bits only.
    reader.ignore("saturate");
    reader.ignore("round_mode");
    let code = reader.int("to", 0)?;
    let to = i32::try_from(code).ok().and_then(dyno_onnx::element_of);
    let to = to.filter(|to| dyno_tensors::Elements::TYPES.contains(to));
    let to = to.ok_or_else(|| format!("casts to type {code} are not supported"))?;
    one(move |frame| cast_to(frame.take(0)?, to))
}

/// Converts each element. Fractions are truncated; types of 16 bits round the numbers and stay `f32`.
///
/// # Errors
/// A number that is NaN, or out of range, would become an integer: the standard does not define it.
pub(super) fn cast_to(value: Value, to: Element) -> Result<Value, String> {
    if value.element() == to {
        return Ok(value);
    }
    if let Some(range) = integer_range(to) {
        match value.data() {
            Data::F32(all) => check_range(all.iter().map(|x| f64::from(*x)), range, to)?,
            Data::F64(all) => check_range(all.iter().copied(), range, to)?,
            _ => {}
        }
    }
    if matches!(to, Element::F16 | Element::BF16) {
        return shortened(value, to);
    }
    if let Some(all) = value.as_slice::<bool>() {
        let numbers = Value::new(value.dims(), all.iter().map(|x| u8::from(*x)).collect())?;
        return cast_to(numbers, to);
    }
    let dims = value.dims();
    /// Integers keep their lower bits in a shorter type, as the standard defines.
    macro_rules! converted {
        ($type:ty) => {
            each_number!(&value, all => Value::new(dims, all.iter().map(|x| *x as $type).collect()))
        };
    }
    match to {
        Element::F32 => converted!(f32),
        Element::F64 => converted!(f64),
        Element::I64 => converted!(i64),
        Element::I32 => converted!(i32),
        Element::I8 => converted!(i8),
        Element::U8 => converted!(u8),
        Element::Bool => {
            fn is_set<T: Number>(x: &T) -> bool {
                *x != T::default()
            }
            each_number!(&value, all => Value::new(dims, all.iter().map(is_set).collect()))
        }
        _ => Err(format!("casts to type {to} are not supported")),
    }
}

/// Rounds each number once to a type of 16 bits. The results stay `f32`.
fn shortened(value: Value, to: Element) -> Result<Value, String> {
    let round = |x: f64| match to {
        Element::F16 => nearest_f16(x).to_f32(),
        _ => nearest_bf16(x).to_f32(),
    };
    let dims = value.dims().to_vec();
    let all = match value.data() {
        Data::F64(all) => all.iter().map(|x| round(*x)).collect(),
        Data::I64(all) => all.iter().map(|x| round(odd_whole(*x))).collect(),
        Data::I32(all) => all.iter().map(|x| round(f64::from(*x))).collect(),
        // Shorter integers are exact in `f32`.
        _ => {
            let round = |x: f32| match to {
                Element::F16 => f16::from_f32(x).to_f32(),
                _ => bf16::from_f32(x).to_f32(),
            };
            let mut all = cast_to(value, Element::F32)?.into_vec::<f32>()?;
            all.iter_mut().for_each(|x| *x = round(*x));
            all
        }
    };
    Value::new(dims, all)
}

/// Returns the integer as `f64`. One of more than 53 bits has the last of them set if others are lost, so
/// that it is no tie between shorter numbers.
fn odd_whole(x: i64) -> f64 {
    const LOST: i64 = (1 << 10) - 1;
    if x.unsigned_abs() < 1 << 53 {
        return x as f64;
    }
    ((x & !LOST) | (i64::from(x & LOST != 0) << 10)) as f64
}

/// Returns the least integer of a type, and the first one above its range. `None` for other types.
fn integer_range(element: Element) -> Option<(f64, f64)> {
    let half = match element {
        Element::I64 => i64::MIN as f64,
        Element::I32 => f64::from(i32::MIN),
        Element::I8 => f64::from(i8::MIN),
        Element::U8 => return Some((0.0, 256.0)),
        _ => return None,
    };
    Some((half, -half))
}

/// Checks that an integer type has each number without its fraction.
fn check_range(
    mut all: impl Iterator<Item = f64> + Clone,
    (least, end): (f64, f64),
    to: Element,
) -> Result<(), String> {
    // Fractions are lost, so numbers above the integer below the least one are in range, too. In 64
    // bits, `least - 1.0` is `least`.
    let is_defined = |x: f64| ((x >= least) | (x > least - 1.0)) & (x < end);
    // Without an early end, compilers make vectors of the loop.
    if all.clone().fold(true, |are_defined, x| are_defined & is_defined(x)) {
        return Ok(());
    }
    match all.find(|x| !is_defined(*x)) {
        None => Ok(()),
        Some(x) if x.is_nan() => Err(format!("NaN has no value of type {to}")),
        Some(x) => Err(format!("{x} is out of the range of type {to}")),
    }
}
