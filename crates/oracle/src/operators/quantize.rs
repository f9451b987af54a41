//! Conversions between floats and integers with scales and zero points.

use super::{Operator, operator};
use crate::call::{Call, size_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, position};

pub(super) const OPERATORS: &[Operator] = &[
    operator("QuantizeLinear", 10, 3, QUANTIZE, quantize_linear),
    operator("DequantizeLinear", 10, 3, &["axis", "block_size"], dequantize_linear),
    operator("DynamicQuantizeLinear", 11, 1, &[], |call| {
        let input = call.input(0)?;
        check_codes(input)?;
        let (codes, scale, zero) = dynamic_codes(input.as_floats()?);
        Ok(vec![
            Tensor::of_integers(Element::UInt8, input.shape(), codes)?,
            Tensor::of_floats(Element::Float32, &[], vec![scale])?,
            Tensor::of_integers(Element::UInt8, &[], vec![zero])?,
        ])
    }),
];

const QUANTIZE: &[&str] = &["axis", "block_size", "output_dtype", "saturate"];

/// Returns a scale or zero point for each element of `shape`: from one number, from one for each index
/// of the axis, or since opset 21 from one for each block on the axis.
fn spread(call: &Call<'_>, parameter: &Tensor, shape: &[usize]) -> Result<Tensor, Fault> {
    let block = size_of(call.integer("block_size", 0)?)?;
    if block == 0 && parameter.count() == 1 && parameter.rank() <= 1 {
        return parameter.reshaped(&[])?.broadcast(shape);
    }
    if block == 0 && call.opset < 13 {
        return fault(format!("a scale of shape {:?} before opset 13", parameter.shape()));
    }
    let axis = call.axis(1, shape.len())?;
    if block == 0 {
        if parameter.shape() != [shape[axis]] {
            return fault(format!("a scale of shape {:?} for {shape:?}", parameter.shape()));
        }
        let mut wanted = vec![1; shape.len()];
        wanted[axis] = shape[axis];
        return parameter.reshaped(&wanted)?.broadcast(shape);
    }
    let mut wanted = shape.to_vec();
    wanted[axis] = shape[axis].div_ceil(block);
    if parameter.shape() != wanted {
        return fault(format!("a scale of shape {:?} for blocks of {shape:?}", parameter.shape()));
    }
    parameter.rearranged(shape, |index| {
        let mut own = index.to_vec();
        own[axis] /= block;
        position(&own, &wanted)
    })
}

/// Returns the code of a number: the quotient is rounded to the type of the scale, then to an integer,
/// ties to even, and limited to the range of the codes.
fn code(value: f64, scale: f64, zero: i64, precision: Element, codes: Element) -> i64 {
    let (low, high) = codes.limits();
    let quotient = precision.round(precision.round(value) / scale);
    (quotient.round_ties_even() + zero as f64).clamp(low as f64, high as f64) as i64
}

/// Checks that every number has a code.
fn check_codes(input: &Tensor) -> Result<(), Fault> {
    if input.to_floats().iter().any(|value| value.is_nan()) {
        return fault("the standard does not define the code of NaN");
    }
    Ok(())
}

fn quantize_linear(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, scale) = (call.input(0)?, call.input(1)?);
    let zero = call.optional(2);
    let stated = match call.integer("output_dtype", 0)? {
        0 => None,
        number => match Element::from_code(number) {
            Some(element) => Some(element),
            None => return fault(format!("codes of type {number} are not supported")),
        },
    };
    let codes = zero.map(Tensor::element).or(stated).unwrap_or(Element::UInt8);
    if stated.is_some_and(|stated| stated != codes) {
        return fault("output_dtype is not the type of the zero point");
    }
    if codes.is_float() || codes == Element::Bool || codes.bits() > 16 {
        return fault(format!("codes of type {codes} are not supported"));
    }
    let scales = spread(call, scale, input.shape())?;
    let zeros = match zero {
        Some(zero) => spread(call, zero, input.shape())?.as_integers()?.to_vec(),
        None => vec![0; input.count()],
    };
    check_codes(input)?;
    let values = input.to_floats();
    let precision = scale.element();
    let codes_of = values.iter().zip(scales.as_floats()?).zip(&zeros);
    let values =
        codes_of.map(|((value, scale), zero)| code(*value, *scale, *zero, precision, codes));
    Ok(vec![Tensor::of_integers(codes, input.shape(), values.collect())?])
}

fn dequantize_linear(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, scale) = (call.input(0)?, call.input(1)?);
    let scales = spread(call, scale, input.shape())?;
    let zeros = match call.optional(2) {
        Some(zero) if zero.element() != input.element() => {
            return fault("codes and zero point are of different types");
        }
        Some(zero) => spread(call, zero, input.shape())?.as_integers()?.to_vec(),
        None => vec![0; input.count()],
    };
    let codes = input.as_integers()?.iter().zip(&zeros);
    let values = codes.zip(scales.as_floats()?);
    let values = values.map(|((code, zero), scale)| (code - zero) as f64 * scale).collect();
    Ok(vec![Tensor::of_floats(scale.element(), input.shape(), values)?])
}

/// Returns codes of 8 bits for a range that the numbers and 0 span, their scale and their zero point.
/// All steps are rounded to binary32, as the standard defines them by operators of this type.
pub(super) fn dynamic_codes(values: &[f64]) -> (Vec<i64>, f64, i64) {
    let round = |value: f64| Element::Float32.round(value);
    let low = round(values.iter().copied().fold(0.0, f64::min));
    let high = round(values.iter().copied().fold(0.0, f64::max));
    // Without a range the standard would divide by 0; engines take the scale 1.
    let scale = if high > low { round(round(high - low) / 255.0) } else { 1.0 };
    let zero = round(-low / scale).clamp(0.0, 255.0).round_ties_even() as i64;
    let codes =
        values.iter().map(|value| code(*value, scale, zero, Element::Float32, Element::UInt8));
    (codes.collect(), scale, zero)
}

/// Returns the numbers that dynamic codes stand for.
pub(super) fn through_dynamic_codes(values: &[f64]) -> Vec<f64> {
    let (codes, scale, zero) = dynamic_codes(values);
    codes.iter().map(|code| (code - zero) as f64 * scale).collect()
}

/// Returns the numbers that the weights of a quantized layer stand for: `[directions, inputs, outputs]`
/// codes with scales of `[directions]` or `[directions, outputs]`.
pub(super) fn dequantized_weights(
    codes: &Tensor,
    scale: &Tensor,
    zero: &Tensor,
) -> Result<Tensor, Fault> {
    let [directions, _, outputs] = *codes.shape() else { return fault("expected 3 dimensions") };
    let spread = |parameter: &Tensor| {
        let shape: [usize; 3] = match *parameter.shape() {
            [own] if own == directions => [directions, 1, 1],
            [own, columns] if own == directions && columns == outputs => [directions, 1, outputs],
            _ => return fault(format!("a scale of shape {:?}", parameter.shape())),
        };
        parameter.reshaped(&shape)?.broadcast(codes.shape())
    };
    if zero.element() != codes.element() {
        return fault("weights and zero points are of different types");
    }
    let (scales, zeros) = (spread(scale)?, spread(zero)?);
    let pairs = codes.as_integers()?.iter().zip(zeros.as_integers()?);
    let values = pairs.zip(scales.as_floats()?);
    let values = values.map(|((code, zero), scale)| (code - zero) as f64 * scale).collect();
    Tensor::of_floats(scale.element(), codes.shape(), values)
}
