//! Operators that compute each element on its own, with broadcasting.

use dyno_kernels::{Isa, change_each};
use dyno_tensors::Element;
use half::{bf16, f16};

use super::broadcast::{broadcast, broadcast_strides, for_each_row, joined, zip, zip_into};
use super::cast::{cast, cast_to};
use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Number, Value, count, each, is_nan};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if let Some(operation) = binary(reader)? {
        return Ok(Some(operation));
    }
    let ("", operator) = name(reader) else { return Ok(None) };
    match operator {
        "Identity" => one(|frame| frame.take(0)),
        "Dropout" => {
            reader.ignore("ratio");
            reader.ignore("seed");
            let [ratio, training] = [1, 2].map(|input| reader.constant(input));
            // A ratio that is not constant is read in the run.
            let is_fed = reader.node.inputs.get(1).is_some_and(|name| !name.is_empty());
            if (ratio.is_some() || !is_fed) && drops(ratio, training)? {
                return Err("training is not supported".into());
            }
            Ok(Some(Box::new(|frame| {
                if drops(frame.get(1), frame.get(2))? {
                    return Err("training is not supported".into());
                }
                let value = frame.take(0)?;
                let mask = Value::new(value.dims(), vec![true; value.len()])?;
                Ok(vec![value, mask])
            })))
        }
        "Not" => one(|frame| mapped::<bool>(frame, |x| !x)),
        "Abs" => one(|frame| signed(frame, f32::abs, f64::abs, i64::wrapping_abs)),
        "Neg" => one(|frame| signed(frame, |x| -x, |x| -x, i64::wrapping_neg)),
        "Sign" => one(|frame| signed(frame, sign_f32, sign_f64, i64::signum)),
        "IsNaN" => one(|frame| judged(frame, f64::is_nan)),
        "IsInf" => {
            let [up, down] = [reader.int("detect_positive", 1)?, reader.int("detect_negative", 1)?];
            one(move |frame| {
                judged(frame, |x| {
                    (up != 0 && x == f64::INFINITY) || (down != 0 && x == f64::NEG_INFINITY)
                })
            })
        }
        "Clip" => clip(reader),
        "Where" => one(select),
        "Cast" => cast(reader),
        "CastLike" => {
            reader.ignore("saturate");
            reader.ignore("round_mode");
            // Values of types of 16 bits are `f32` when the model runs.
            let short = reader.element(1).filter(|to| matches!(to, Element::F16 | Element::BF16));
            one(move |frame| {
                let to = short.unwrap_or(frame.input(1)?.element());
                cast_to(frame.take(0)?, to)
            })
        }
        _ => Ok(None),
    }
}

/// Returns whether a `Dropout` in training mode drops elements. It drops half of them without a ratio,
/// and none with a ratio of 0.
fn drops(ratio: Option<&Value>, training: Option<&Value>) -> Result<bool, String> {
    if training.map(Value::integer).transpose()?.is_none_or(|training| training == 0) {
        return Ok(false);
    }
    let Some(ratio) = ratio else { return Ok(true) };
    let ratio = ratio.elements(ratio.element()).ok_or("expected a ratio")?;
    Ok(ratio.to_f64().iter().any(|ratio| *ratio != 0.0))
}

fn sign_f32(x: f32) -> f32 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}

fn sign_f64(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}

/// Changes each element of a value of one type.
pub(super) fn mapped<T: Number>(
    frame: &mut Frame<'_>,
    map: impl Fn(T) -> T,
) -> Result<Value, String> {
    let value = frame.take(0)?;
    let dims = value.dims().to_vec();
    let mut all = value.into_vec::<T>()?;
    all.iter_mut().for_each(|x| *x = map(*x));
    Value::new(dims, all)
}

/// Changes each floating-point number.
pub(super) fn real(
    frame: &mut Frame<'_>,
    short: impl Fn(f32) -> f32,
    long: impl Fn(f64) -> f64,
) -> Result<Value, String> {
    match frame.input(0)?.element() {
        Element::F64 => mapped(frame, long),
        _ => changed(frame, |isa, all| change_each(isa, all, short)),
    }
}

/// Changes all numbers, which are `f32`, by a function of the kernels.
pub(super) fn changed(
    frame: &mut Frame<'_>,
    change: impl FnOnce(Isa, &mut [f32]),
) -> Result<Value, String> {
    let (isa, value) = (frame.workspace.isa, frame.take(0)?);
    let dims = value.dims().to_vec();
    let mut all = value.into_vec()?;
    change(isa, &mut all);
    Value::new(dims, all)
}

/// Changes each number; integers are converted to `i64` and back.
pub(super) fn signed(
    frame: &mut Frame<'_>,
    short: impl Fn(f32) -> f32,
    long: impl Fn(f64) -> f64,
    whole: impl Fn(i64) -> i64,
) -> Result<Value, String> {
    match frame.input(0)?.element() {
        Element::I64 => mapped(frame, whole),
        Element::I32 => mapped(frame, |x: i32| whole(x.into()) as i32),
        Element::I8 => mapped(frame, |x: i8| whole(x.into()) as i8),
        Element::U8 => mapped(frame, |x: u8| whole(x.into()) as u8),
        _ => real(frame, short, long),
    }
}

fn judged(frame: &Frame<'_>, judge: impl Fn(f64) -> bool) -> Result<Value, String> {
    let value = frame.input(0)?;
    let all = match value.as_slice::<f32>() {
        Some(all) => all.iter().map(|x| judge(f64::from(*x))).collect(),
        None => value.all::<f64>()?.iter().map(|x| judge(*x)).collect(),
    };
    Value::new(value.dims(), all)
}

fn clip(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if reader.version >= 11 {
        let known = |input: usize| match reader.constant(input)?.as_slice() {
            Some([limit]) => Some(*limit).filter(|limit: &f32| !limit.is_nan()),
            _ => None,
        };
        if let (Some(least), Some(most)) = (known(1), known(2)) {
            let limit = move |x| limited(x, least, most);
            return one(move |frame| changed(frame, |isa, all| change_each(isa, all, limit)));
        }
        let declared = reader.element(0);
        return one(move |frame| {
            let value = frame.take(0)?;
            let greatest = greatest_number(declared.unwrap_or(value.element()));
            let default = |sign: f64| {
                let limit = greatest.map(|most| Value::scalar(sign * most));
                limit.map(|limit| cast_to(limit, value.element())).transpose()
            };
            let [least, most] = [default(-1.0)?, default(1.0)?];
            let value = match frame.get(1).or(least.as_ref()) {
                Some(least) => extreme(value, least, true)?,
                None => value,
            };
            match frame.get(2).or(most.as_ref()) {
                Some(most) => extreme(value, most, false),
                None => Ok(value),
            }
        });
    }
    if reader.node.inputs.len() > 1 {
        return Err("expected limits as attributes before version 11, found inputs".into());
    }
    let (least, most) = (reader.float("min", f32::MIN)?, reader.float("max", f32::MAX)?);
    if least.is_nan() || most.is_nan() {
        return Err(NAN_LIMIT.into());
    }
    one(move |frame| {
        real(frame, |x| limited(x, least, most), |x| limited(x, least.into(), most.into()))
    })
}

/// Returns the greatest finite number of a floating-point type, which is the default limit. `None` for
/// integers, which do not exceed theirs.
fn greatest_number(element: Element) -> Option<f64> {
    match element {
        Element::F32 => Some(f32::MAX.into()),
        Element::F64 => Some(f64::MAX),
        Element::F16 => Some(f16::MAX.to_f64()),
        Element::BF16 => Some(bf16::MAX.to_f64()),
        _ => None,
    }
}

/// NaN exceeds no number in ONNX Runtime, and every number in `onnx.reference`.
const NAN_LIMIT: &str = "a limit is NaN, which the standard does not define";

/// Returns the number, or the limit that it exceeds. NaN stays NaN.
fn limited<T: PartialOrd>(x: T, least: T, most: T) -> T {
    let x = if x < least { least } else { x };
    if x > most { most } else { x }
}

/// Returns the greater or the lesser of each element and a limit. NaN stays NaN.
fn extreme(value: Value, limit: &Value, greater: bool) -> Result<Value, String> {
    fn extremes<T: Number>(value: Value, limit: &[T], greater: bool) -> Result<Value, String> {
        let &[limit] = limit else { return Err("expected one limit".into()) };
        if is_nan(limit) {
            return Err(NAN_LIMIT.into());
        }
        let dims = value.dims().to_vec();
        let mut all = value.into_vec::<T>()?;
        let is_beyond = |x: &T| if greater { *x < limit } else { *x > limit };
        all.iter_mut().for_each(|x| *x = if is_beyond(x) { limit } else { *x });
        Value::new(dims, all)
    }
    each!(limit, limit => extremes(value, limit, greater))
}

/// Combines two values of integers as 64-bit integers; results keep the lower bits of their type.
fn integers(a: Value, b: Value, f: impl Fn(i64, i64) -> i64) -> Result<Value, String> {
    let element = a.element();
    if matches!(element, Element::F32 | Element::F64 | Element::Bool) {
        return Err(format!("expected integers, found {element}"));
    }
    let [a, b] = widened(a, b)?;
    cast_to(zip_into::<i64>(a, b, f)?, element)
}

/// Converts two values of one type to 64-bit integers.
fn widened(a: Value, b: Value) -> Result<[Value; 2], String> {
    if a.element() != b.element() {
        return Err(format!("expected {}, found {}", a.element(), b.element()));
    }
    Ok([cast_to(a, Element::I64)?, cast_to(b, Element::I64)?])
}

/// Computes with two values of numbers.
macro_rules! arithmetic {
    ($real:expr, $whole:expr) => {
        one(move |frame| {
            pairs(frame, |a, b| match a.element() {
                Element::F32 => zip_into::<f32>(a, b, $real),
                Element::F64 => zip_into::<f64>(a, b, $real),
                _ => integers(a, b, $whole),
            })
        })
    };
}

/// Compares two values of numbers.
macro_rules! comparison {
    ($compare:expr) => {
        comparison!($compare, |_, _| Err("expected numbers, found bool".into()))
    };
    ($compare:expr, $bools:expr) => {
        one(move |frame| {
            pairs(frame, |a, b| match a.element() {
                Element::F32 => zip::<f32, bool>(&a, &b, $compare),
                Element::F64 => zip::<f64, bool>(&a, &b, $compare),
                Element::Bool => $bools(&a, &b),
                _ => widened(a, b).and_then(|[a, b]| zip::<i64, bool>(&a, &b, $compare)),
            })
        })
    };
}

/// Operators of two values, or of more for `Min`, `Max`, `Sum` and `Mean`.
fn binary(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator) = name(reader) else { return Ok(None) };
    match operator {
        "Add" | "Sum" => arithmetic!(|x, y| x + y, i64::wrapping_add),
        "Sub" => arithmetic!(|x, y| x - y, i64::wrapping_sub),
        "Mul" => arithmetic!(|x, y| x * y, i64::wrapping_mul),
        "Div" => one(|frame| {
            if frame.input(0)?.element().is_real() {
                return pairs(frame, |a, b| match a.element() {
                    Element::F64 => zip_into::<f64>(a, b, |x, y| x / y),
                    _ => zip_into::<f32>(a, b, |x, y| x / y),
                });
            }
            let divisor = frame.input(1)?;
            if divisor.integers()?.contains(&0) {
                return Err("a number is divided by zero".into());
            }
            pairs(frame, |a, b| integers(a, b, i64::wrapping_div))
        }),
        "Max" => arithmetic!(|x, y| if x > y || x.is_nan() { x } else { y }, Ord::max),
        "Min" => arithmetic!(|x, y| if x < y || x.is_nan() { x } else { y }, Ord::min),
        "Mean" => {
            let count = reader.node.inputs.len() as f32;
            one(move |frame| {
                let sum = pairs(frame, |a, b| zip_into::<f32>(a, b, |x, y| x + y))?;
                zip_into::<f32>(sum, Value::scalar(count), |x, y| x / y)
            })
        }
        "PRelu" => one(|frame| {
            let (x, slope) = (frame.input(0)?.dims(), frame.input(1)?.dims());
            if broadcast(x, slope)? != x {
                return Err(format!("slopes of {slope:?} do not fit {x:?}"));
            }
            pairs(frame, |a, b| match a.element() {
                Element::F64 => {
                    zip_into::<f64>(a, b, |x, slope| if x < 0.0 { slope * x } else { x })
                }
                _ => zip_into::<f32>(a, b, |x, slope| if x < 0.0 { slope * x } else { x }),
            })
        }),
        "Pow" => one(|frame| power(frame.input(0)?, frame.input(1)?)),
        "Mod" => {
            let is_float = reader.flag("fmod")?;
            one(move |frame| remainder(frame.input(0)?, frame.input(1)?, is_float))
        }
        "Equal" => comparison!(|x, y| x == y, |a, b| zip::<bool, bool>(a, b, |x, y| x == y)),
        "Greater" => comparison!(|x, y| x > y),
        "Less" => comparison!(|x, y| x < y),
        "GreaterOrEqual" => comparison!(|x, y| x >= y),
        "LessOrEqual" => comparison!(|x, y| x <= y),
        "And" => one(|frame| pairs(frame, |a, b| zip_into::<bool>(a, b, |x, y| x && y))),
        "Or" => one(|frame| pairs(frame, |a, b| zip_into::<bool>(a, b, |x, y| x || y))),
        "Xor" => one(|frame| pairs(frame, |a, b| zip_into::<bool>(a, b, |x, y| x != y))),
        _ => bits(reader),
    }
}

/// Operators on the bits of integers.
fn bits(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    macro_rules! combined {
        ($combine:expr) => {
            one(|frame| pairs(frame, |a, b| integers(a, b, $combine)))
        };
    }
    match name(reader) {
        ("", "BitwiseAnd") => combined!(|x, y| x & y),
        ("", "BitwiseOr") => combined!(|x, y| x | y),
        ("", "BitwiseXor") => combined!(|x, y| x ^ y),
        ("", "BitwiseNot") => one(|frame| {
            let element = frame.input(0)?.element();
            match element {
                Element::I64 => mapped::<i64>(frame, |x| !x),
                Element::I32 => mapped::<i32>(frame, |x| !x),
                Element::I8 => mapped::<i8>(frame, |x| !x),
                Element::U8 => mapped::<u8>(frame, |x| !x),
                other => Err(format!("expected integers, found {other}")),
            }
        }),
        ("", "BitShift") => {
            let shift = match reader.text("direction", "")? {
                "LEFT" => u8::checked_shl,
                "RIGHT" => u8::checked_shr,
                other => return Err(format!("expected direction LEFT or RIGHT, found '{other}'")),
            };
            one(move |frame| {
                pairs(frame, |a, b| zip_into::<u8>(a, b, |x, by| shift(x, by.into()).unwrap_or(0)))
            })
        }
        _ => Ok(None),
    }
}

/// Combines all inputs from the first to the last.
fn pairs(
    frame: &mut Frame<'_>,
    combine: impl Fn(Value, Value) -> Result<Value, String>,
) -> Result<Value, String> {
    let mut all = frame.take_all().into_iter().flatten();
    let mut result = all.next().ok_or("expected inputs")?;
    for next in all {
        // The result has the memory of the first operand if no other value shares it.
        let is_spare = result.data().is_unshared() && result.len() >= next.len();
        let spare = is_spare.then(|| next.clone());
        result = combine(result, next)?;
        if let Some(spare) = spare {
            frame.workspace.buffers.store(spare);
        }
    }
    Ok(result)
}

fn power(base: &Value, exponent: &Value) -> Result<Value, String> {
    let (x, y) = (base.element(), exponent.element());
    match x {
        Element::F32 => {
            let exponent = cast_to(exponent.clone(), Element::F32)?;
            match exponent.as_slice::<f32>() {
                Some([2.0]) => zip::<f32, f32>(base, &exponent, |x, _| x * x),
                // The root of -0 is -0, and that of negative infinity is NaN; these powers are not.
                Some([0.5]) => zip::<f32, f32>(base, &exponent, |x, _| {
                    if x == f32::NEG_INFINITY { f32::INFINITY } else { (x + 0.0).sqrt() }
                }),
                Some([3.0]) => zip::<f32, f32>(base, &exponent, |x, _| x * x * x),
                _ => zip::<f32, f32>(base, &exponent, f32::powf),
            }
        }
        Element::F64 => zip::<f64, f64>(base, &cast_to(exponent.clone(), Element::F64)?, f64::powf),
        Element::I64 | Element::I32 if !y.is_real() => {
            let [a, b] = [base, exponent].map(|value| cast_to(value.clone(), Element::I64));
            let whole = |x: i64, y: i64| match u32::try_from(y) {
                Ok(y) => x.wrapping_pow(y),
                // A power with a negative exponent is a fraction, except for 1 and -1.
                Err(_) => {
                    if x == 1 || (x == -1 && y % 2 == 0) {
                        1
                    } else {
                        -i64::from(x == -1)
                    }
                }
            };
            cast_to(zip::<i64, i64>(&a?, &b?, whole)?, x)
        }
        _ => {
            let [a, b] = [base, exponent].map(|value| cast_to(value.clone(), Element::F64));
            cast_to(zip::<f64, f64>(&a?, &b?, f64::powf)?, x)
        }
    }
}

/// Returns remainders, which have the sign of the dividend with `fmod`, and else that of the divisor.
fn remainder(a: &Value, b: &Value, is_float: bool) -> Result<Value, String> {
    macro_rules! floats {
        ($type:ty) => {
            zip::<$type, $type>(a, b, |x, y| {
                let rest = x % y;
                match rest {
                    _ if is_float => rest,
                    0.0 => rest.copysign(y),
                    _ if (rest < 0.0) != (y < 0.0) => rest + y,
                    _ => rest,
                }
            })
        };
    }
    match a.element() {
        Element::F32 => floats!(f32),
        Element::F64 => floats!(f64),
        element => {
            if b.integers()?.contains(&0) {
                return Err("a number is divided by zero".into());
            }
            let [a, b] = [a, b].map(|value| cast_to(value.clone(), Element::I64));
            let whole = |x: i64, y: i64| {
                let rest = x.wrapping_rem(y);
                if !is_float && rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
            };
            cast_to(zip::<i64, i64>(&a?, &b?, whole)?, element)
        }
    }
}

fn select(frame: &mut Frame<'_>) -> Result<Value, String> {
    fn selected<T: Number>(
        condition: &Value,
        x: &[T],
        a: &Value,
        b: &Value,
    ) -> Result<Value, String> {
        let y = b.all::<T>()?;
        let choose = condition.all::<bool>()?;
        let dims = broadcast(&broadcast(condition.dims(), a.dims())?, b.dims())?;
        let mut all = Vec::with_capacity(count(&dims, size_of::<T>())?);
        let strides = [condition, a, b].map(|value| broadcast_strides(value.dims(), &dims));
        let (sizes, strides) = joined(&dims, &strides);
        let width = sizes.last().copied().unwrap_or(1);
        let [c, s, t] = [0, 1, 2].map(|at: usize| strides[at].last().copied().unwrap_or(0));
        for_each_row(&sizes, &strides, &mut |[i, j, k]| {
            let pick = |at| if choose[i + at * c] { x[j + at * s] } else { y[k + at * t] };
            all.extend((0..width).map(pick));
        });
        Value::new(dims, all)
    }
    let (condition, a, b) = (frame.input(0)?, frame.input(1)?, frame.input(2)?);
    each!(a, x => selected(condition, x, a, b))
}
