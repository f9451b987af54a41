//! Arithmetic of elements, with broadcasting, and conversions between types.

use super::{ANY, Operator, operator};
use crate::call::Call;
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, Values, broadcast_shape};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Add", 7, 2, &[], |call| pairs(call, |a, b| a + b, |a, b| Some(a.wrapping_add(b)))),
    operator("Sub", 7, 2, &[], |call| pairs(call, |a, b| a - b, |a, b| Some(a.wrapping_sub(b)))),
    operator("Mul", 7, 2, &[], |call| pairs(call, |a, b| a * b, |a, b| Some(a.wrapping_mul(b)))),
    operator("Div", 7, 2, &[], |call| pairs(call, |a, b| a / b, divide)),
    operator("Mod", 10, 2, &["fmod"], modulo),
    operator("BitwiseAnd", 18, 2, &[], |call| bitwise(call, |a, b| a & b)),
    operator("BitwiseOr", 18, 2, &[], |call| bitwise(call, |a, b| a | b)),
    operator("BitwiseXor", 18, 2, &[], |call| bitwise(call, |a, b| a ^ b)),
    operator("BitwiseNot", 18, 1, &[], |call| {
        let input = call.input(0)?;
        let values = input.as_integers()?.iter().map(|value| -1 - value).collect();
        Ok(vec![Tensor::of_integers(input.element(), input.shape(), values)?])
    }),
    operator("BitShift", 11, 2, &["direction"], shift),
    operator("Pow", 7, 2, &[], power),
    operator("PRelu", 7, 2, &[], parametric_relu),
    operator("Max", 8, ANY, &[], |call| fold(call, greater, i64::max)),
    operator("Min", 8, ANY, &[], |call| fold(call, |a, b| -greater(-a, -b), i64::min)),
    operator("Sum", 8, ANY, &[], |call| fold(call, |a, b| a + b, i64::wrapping_add)),
    operator("Mean", 8, ANY, &[], mean),
    operator("Abs", 7, 1, &[], |call| each(call, f64::abs, i64::wrapping_abs)),
    operator("Neg", 7, 1, &[], |call| each(call, |x| -x, i64::wrapping_neg)),
    operator("Relu", 7, 1, &[], |call| each(call, |x| greater(x, 0.0), |x| x.max(0))),
    operator("Sign", 9, 1, &[], |call| each(call, sign, i64::signum)),
    operator("Clip", 7, 3, &["min", "max"], clip),
    operator("Cast", 7, 1, &["to", "saturate", "round_mode"], |call| {
        let code = call.integer("to", 0)?;
        let Some(element) = Element::from_code(code) else {
            return fault(format!("elements of type {code} are not supported"));
        };
        converted(call, element)
    }),
    operator("CastLike", 15, 2, &["saturate", "round_mode"], |call| {
        converted(call, call.input(1)?.element())
    }),
];

/// Returns the larger number, or NaN if one of the two is.
pub(super) fn greater(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}

/// Divides toward zero.
fn divide(a: i64, b: i64) -> Option<i64> {
    if b == 0 { None } else { Some(a.wrapping_div(b)) }
}

/// Applies a function to each element.
fn each(
    call: &Call<'_>,
    floats: impl Fn(f64) -> f64,
    integers: impl Fn(i64) -> i64,
) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let output = match input.values() {
        Values::Floats(values) => {
            let values = values.iter().map(|value| floats(*value)).collect();
            Tensor::of_floats(input.element(), input.shape(), values)
        }
        Values::Integers(values) => {
            let values = values.iter().map(|value| integers(*value)).collect();
            Tensor::of_integers(input.element(), input.shape(), values)
        }
    };
    Ok(vec![output?])
}

/// Applies a function to pairs of elements of two tensors of the same type.
fn combine(
    a: &Tensor,
    b: &Tensor,
    floats: impl Fn(f64, f64) -> f64,
    integers: impl Fn(i64, i64) -> Option<i64>,
) -> Result<Tensor, Fault> {
    if a.element() != b.element() {
        return fault(format!("inputs are of types {} and {}", a.element(), b.element()));
    }
    let shape = broadcast_shape(&[a.shape(), b.shape()])?;
    let (a, b) = (a.broadcast(&shape)?, b.broadcast(&shape)?);
    match (a.values(), b.values()) {
        (Values::Floats(x), Values::Floats(y)) => {
            let values = x.iter().zip(y).map(|(x, y)| floats(*x, *y)).collect();
            Tensor::of_floats(a.element(), &shape, values)
        }
        (Values::Integers(x), Values::Integers(y)) => {
            let values: Option<Vec<i64>> = x.iter().zip(y).map(|(x, y)| integers(*x, *y)).collect();
            let Some(values) = values else { return fault("division of an integer by 0") };
            Tensor::of_integers(a.element(), &shape, values)
        }
        _ => fault("inputs are of different types"),
    }
}

fn pairs(
    call: &Call<'_>,
    floats: impl Fn(f64, f64) -> f64,
    integers: impl Fn(i64, i64) -> Option<i64>,
) -> Result<Vec<Tensor>, Fault> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    call.spend_shape(&broadcast_shape(&[a.shape(), b.shape()])?)?;
    Ok(vec![combine(a, b, floats, integers)?])
}

fn fold(
    call: &Call<'_>,
    floats: impl Fn(f64, f64) -> f64,
    integers: impl Fn(i64, i64) -> i64,
) -> Result<Vec<Tensor>, Fault> {
    let mut inputs = call.all_inputs()?.into_iter();
    let Some(first) = inputs.next() else { return fault("expected at least one input") };
    let mut folded = first.clone();
    for input in inputs {
        call.spend_shape(&broadcast_shape(&[folded.shape(), input.shape()])?)?;
        folded = combine(&folded, input, &floats, |a, b| Some(integers(a, b)))?;
    }
    Ok(vec![folded])
}

fn mean(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let sum = fold(call, |a, b| a + b, i64::wrapping_add)?.remove(0);
    let count = call.inputs.len() as f64;
    let values = sum.as_floats()?.iter().map(|value| value / count).collect();
    Ok(vec![Tensor::of_floats(sum.element(), sum.shape(), values)?])
}

fn modulo(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    // Engines round what they divide. The rest jumps at whole quotients.
    let element = call.input(0)?.element();
    let remainder = |own: f64, other: f64| {
        let (a, b) = (element.round(own), element.round(other));
        call.note_jump(element, &[own, other], [a / b, (a / b).round()]);
        a % b
    };
    if call.flag("fmod", false)? {
        // The sign of the dividend.
        return pairs(call, remainder, |a, b| (b != 0).then(|| a.wrapping_rem(b)));
    }
    if call.input(0)?.element().is_float() && call.opset < 28 {
        return fault("floats need fmod=1 before opset 28");
    }
    // The sign of the divisor.
    let floats = |a: f64, b: f64| {
        let rest = remainder(a, b);
        if rest == 0.0 {
            rest.copysign(b)
        } else if (rest < 0.0) != (b < 0.0) {
            rest + b
        } else {
            rest
        }
    };
    let integers = |a: i64, b: i64| {
        let rest = a.wrapping_rem(b);
        if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
    };
    pairs(call, floats, |a, b| (b != 0).then(|| integers(a, b)))
}

fn bitwise(call: &Call<'_>, combine: fn(i64, i64) -> i64) -> Result<Vec<Tensor>, Fault> {
    // Floats have no bits here.
    call.input(0)?.as_integers()?;
    pairs(call, |a, _| a, |a, b| Some(combine(a, b)))
}

/// Moves the bits of integers without a sign. Those beyond the type are lost.
fn shift(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    use Element::{UInt8, UInt16, UInt32, UInt64};
    let element = call.input(0)?.element();
    if !matches!(element, UInt8 | UInt16 | UInt32 | UInt64) {
        return fault(format!("expected integers without a sign, found {element}"));
    }
    let is_left = match call.text("direction", "")?.as_str() {
        "LEFT" => true,
        "RIGHT" => false,
        other => {
            return fault(format!(
                "attribute \"direction\": expected LEFT or RIGHT, found {other}"
            ));
        }
    };
    let shifted = |bits: i64, by: i64| {
        let (bits, by) = (bits.cast_unsigned(), u32::try_from(by).unwrap_or(u32::MAX));
        let moved = if is_left { bits.checked_shl(by) } else { bits.checked_shr(by) };
        moved.unwrap_or(0).cast_signed()
    };
    pairs(call, |a, _| a, |a, b| Some(shifted(a, b)))
}

/// Computes powers, whose type is that of the base.
fn power(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let shape = broadcast_shape(&[base.shape(), exponent.shape()])?;
    call.spend_shape(&shape)?;
    let (base, exponent) = (base.broadcast(&shape)?, exponent.broadcast(&shape)?);
    if let (Values::Integers(x), Values::Integers(y)) = (base.values(), exponent.values()) {
        let raised = x.iter().zip(y).map(|(x, y)| Some(x.wrapping_pow(u32::try_from(*y).ok()?)));
        let Some(values) = raised.collect() else {
            return fault("a negative power of an integer is no integer");
        };
        return Ok(vec![Tensor::of_integers(base.element(), &shape, values)?]);
    }
    let (x, y) = (base.to_floats(), exponent.to_floats());
    let values = x.iter().zip(&y).map(|(x, y)| x.powf(*y)).collect();
    let powers = Tensor::of_floats(Element::Float64, &shape, values)?;
    if base.element().is_float() {
        let powers = powers.as_floats()?.to_vec();
        return Ok(vec![Tensor::of_floats(base.element(), &shape, powers)?]);
    }
    Ok(vec![cast(&powers, base.element())?])
}

/// Multiplies negative numbers by a slope that broadcasts to the input.
fn parametric_relu(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let slope = call.input(1)?.broadcast(input.shape())?;
    let relu = |x: f64, slope: f64| if x < 0.0 { slope * x } else { x };
    let integers = |x: i64, slope: i64| Some(if x < 0 { slope.wrapping_mul(x) } else { x });
    Ok(vec![combine(input, &slope, relu, integers)?])
}

/// Limits numbers to a range that attributes give before opset 11, and inputs since.
fn clip(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let largest = input.element().largest();
    if call.opset < 11 {
        let low = call.optional_float("min")?.unwrap_or(f64::from(f32::MIN));
        let high = call.optional_float("max")?.unwrap_or(f64::from(f32::MAX));
        return super::activation::each(call, |x| limit(x, low, high));
    }
    if call.has("min") || call.has("max") {
        return fault("the limits are inputs since opset 11");
    }
    let limits = [call.optional(1), call.optional(2)];
    for bound in limits.into_iter().flatten() {
        if bound.element() != input.element() {
            return fault(format!("limits of type {} for {}", bound.element(), input.element()));
        }
    }
    let [low, high] = limits;
    let output = match input.values() {
        Values::Floats(values) => {
            let low = low.map_or(Ok(-largest), Tensor::as_float)?;
            let high = high.map_or(Ok(largest), Tensor::as_float)?;
            if low.is_nan() || high.is_nan() {
                return fault("a limit is NaN");
            }
            let values = values.iter().map(|value| limit(*value, low, high)).collect();
            Tensor::of_floats(input.element(), input.shape(), values)
        }
        Values::Integers(values) => {
            let low = low.map_or(Ok(i64::MIN), Tensor::as_integer)?;
            let high = high.map_or(Ok(i64::MAX), Tensor::as_integer)?;
            let values = values.iter().map(|value| (*value).max(low).min(high)).collect();
            Tensor::of_integers(input.element(), input.shape(), values)
        }
    };
    Ok(vec![output?])
}

/// Returns min(max(x, low), high), or NaN for NaN.
pub(super) fn limit(x: f64, low: f64, high: f64) -> f64 {
    let raised = if x < low { low } else { x };
    if raised > high { high } else { raised }
}

/// Converts the input. Numbers next to a whole one may become another integer.
fn converted(call: &Call<'_>, element: Element) -> Result<Vec<Tensor>, Fault> {
    let (input, own) = (call.input(0)?, call.input(0)?.element());
    if let Values::Floats(values) = input.values()
        && !element.is_float()
        && element != Element::Bool
    {
        for value in values {
            let x = own.round(*value);
            call.note_jump(own, &[*value], [x, x.round()]);
        }
    }
    Ok(vec![cast(input, element)?])
}

/// Converts to another type. A float of few bits is rounded to its own type first, as it is stored.
pub(super) fn cast(input: &Tensor, element: Element) -> Result<Tensor, Fault> {
    let own = input.element();
    let (shape, is_float) = (input.shape(), element.is_float());
    if element.bits() == 4 {
        return fault(format!("casts to elements of type {element} are not supported"));
    }
    match input.values() {
        Values::Floats(values) if is_float => {
            let values = values.iter().map(|value| element.round(own.round(*value))).collect();
            Tensor::of_floats(element, shape, values)
        }
        Values::Floats(values) if element == Element::Bool => {
            Tensor::of_truths(shape, values.iter().map(|value| own.round(*value) != 0.0))
        }
        Values::Floats(values) => {
            let values: Result<_, _> =
                values.iter().map(|value| truncate(own.round(*value), element)).collect();
            Tensor::of_integers(element, shape, values?)
        }
        Values::Integers(_) if is_float => {
            let values = input.to_floats().iter().map(|value| element.round(*value)).collect();
            Tensor::of_floats(element, shape, values)
        }
        Values::Integers(values) => Tensor::of_integers(element, shape, values.clone()),
    }
}

/// Truncates to an integer, which must lie in the range of the type.
fn truncate(value: f64, element: Element) -> Result<i64, Fault> {
    let (low, high) = element.limits();
    let truncated = value.trunc();
    let fits = truncated >= low as f64
        && if high == i64::MAX { truncated < high as f64 } else { truncated <= high as f64 };
    if !fits {
        return fault(format!("the standard does not define what {value} is as {element}"));
    }
    Ok(truncated as i64)
}
