//! Operators of quantized models.

use super::convolution::{Convolution, Filters};
use super::elementwise::{cast_to, zip};
use super::product::PackedMatrix;
use super::{layout, name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Data, Value, axis};

use dyno_tensors::Element;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("" | "com.microsoft", "QuantizeLinear") => {
            let along = along(reader)?;
            one(move |frame| quantize(frame.input(0)?, frame.input(1)?, frame.get(2), along))
        }
        ("" | "com.microsoft", "DequantizeLinear") => {
            let along = along(reader)?;
            one(move |frame| dequantize(frame.input(0)?, frame.input(1)?, frame.get(2), along))
        }
        ("", "DynamicQuantizeLinear") => {
            Ok(Some(Box::new(|frame| dynamically_quantized(frame.input(0)?))))
        }
        ("", "MatMulInteger") => {
            let constant = match constant_weights(reader, -1)? {
                Some(b) if b.dims().len() == 2 && !b.is_empty() => {
                    let b = layout::transposed(&b, None)?;
                    Parts::split(&b, |part| Ok(PackedMatrix::new(part.dims()[1], part.all()?)))?
                }
                _ => None,
            };
            if constant.is_some() {
                reader.consume(1);
                reader.consume(3);
            }
            one(move |frame| {
                let a = shifted(frame.input(0)?, frame.get(2), -2)?;
                let isa = frame.workspace.isa;
                match &constant {
                    Some(parts) => parts.sum(|weights| weights.multiply(isa, &a)),
                    None => whole_product(&a, &shifted(frame.input(1)?, frame.get(3), -1)?),
                }
            })
        }
        ("", "ConvInteger") => {
            let convolution = Convolution::read(reader)?;
            let groups = convolution.groups();
            let pack = move |w: &Value| {
                let window: usize = w.dims().iter().skip(1).product();
                let parts = Parts::split(w, |part| Filters::new(part, groups))?;
                parts.ok_or_else(|| format!("windows of {window} numbers are not supported"))
            };
            let constant = constant_weights(reader, 0)?.map(|w| pack(&w)).transpose()?;
            if constant.is_some() {
                reader.consume(1);
                reader.consume(3);
            }
            one(move |frame| {
                let x = shifted(frame.input(0)?, frame.get(2), 0)?;
                let isa = frame.workspace.isa;
                let packed;
                let parts = match &constant {
                    Some(parts) => parts,
                    None => {
                        packed = pack(&shifted(frame.input(1)?, frame.get(3), 0)?)?;
                        &packed
                    }
                };
                parts.sum(|filters| convolution.run(isa, &x, None, filters))
            })
        }
        _ => Ok(None),
    }
}

/// Returns the constant weights of an integer product, minus their zero point.
fn constant_weights(reader: &NodeReader<'_>, along: i64) -> Result<Option<Value>, String> {
    let has_zero = reader.node.inputs.get(3).is_some_and(|name| !name.is_empty());
    match (reader.constant(1), reader.constant(3)) {
        (Some(_), None) if has_zero => Ok(None),
        (Some(weights), zero) => shifted(weights, zero, along).map(Some),
        (None, _) => Ok(None),
    }
}

/// Weights of an exact product of integers: packed parts and the factors of their sums.
struct Parts<T>(Vec<(i32, T)>);

impl<T> Parts<T> {
    /// Packs rows of weights of 9 bits. Sums of a part times numbers of 9 bits are exact in `f32`, in
    /// any order: one part, or 16 times one of up to 16 and another of up to 8. `None` if rows are so
    /// long that two parts are not enough.
    fn split(
        rows: &Value,
        pack: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Option<Self>, String> {
        let factor = Value::scalar(16.0_f32);
        let high = zip::<f32, f32>(rows, &factor, |w, by| (w / by).round_ties_even())?;
        if is_exact(rows)? {
            return Ok(Some(Self(vec![(1, pack(rows)?)])));
        }
        let low = zip::<f32, f32>(rows, &high, |w, high| w - 16.0 * high)?;
        if !is_exact(&high)? || !is_exact(&low)? {
            return Ok(None);
        }
        Ok(Some(Self(vec![(16, pack(&high)?), (1, pack(&low)?)])))
    }

    /// Returns the sum of the products with all parts.
    fn sum(&self, product: impl Fn(&T) -> Result<Value, String>) -> Result<Value, String> {
        let scaled = |(factor, part): &(i32, T)| {
            let sums = cast_to(product(part)?, Element::I32)?;
            match factor {
                1 => Ok(sums),
                _ => zip::<i32, i32>(&sums, &Value::scalar(*factor), |sum, by| sum * by),
            }
        };
        let (first, rest) = self.0.split_first().ok_or("expected weights")?;
        rest.iter().try_fold(scaled(first)?, |all, part| {
            zip::<i32, i32>(&all, &scaled(part)?, |a, b| a + b)
        })
    }
}

/// Returns whether sums of these weights times numbers of 9 bits are exact in `f32`.
fn is_exact(rows: &Value) -> Result<bool, String> {
    const EXACT: f32 = (1 << 24) as f32;
    let row = rows.dims().iter().skip(1).product::<usize>().max(1);
    let magnitude = |row: &[f32]| row.iter().map(|w| w.abs()).sum::<f32>();
    Ok(rows.all::<f32>()?.chunks(row).all(|row| 255.0 * magnitude(row) < EXACT))
}

fn along(reader: &NodeReader<'_>) -> Result<i64, String> {
    reader.ignore("saturate");
    if reader.int("block_size", 0)? != 0 {
        return Err("blocks are not supported".into());
    }
    for name in ["output_dtype", "precision"] {
        if reader.int(name, 0)? != 0 {
            return Err(format!("attribute '{name}' is not supported"));
        }
    }
    let along = reader.int("axis", 1)?;
    // A single scale has no axis.
    if reader.constant(1).is_some_and(|scale| scale.len() != 1) {
        reader.check_axes(&[along], 0)?;
    }
    Ok(along)
}

/// Returns parameters with an axis for each of the value's, so that they are broadcast along one.
fn aligned(parameters: &Value, rank: usize, along: i64) -> Result<Value, String> {
    if parameters.len() == 1 {
        return parameters.clone().reshaped(Vec::new());
    }
    let mut dims = vec![1; rank];
    dims[axis(along, rank)?] = parameters.len();
    parameters.clone().reshaped(dims)
}

fn quantize(
    value: &Value,
    scale: &Value,
    zero: Option<&Value>,
    along: i64,
) -> Result<Value, String> {
    let rank = value.dims().len();
    let to = zero.map_or(Element::U8, Value::element);
    let (least, most) = match to {
        Element::U8 => (0.0, 255.0),
        Element::I8 => (-128.0, 127.0),
        other => return Err(format!("elements of type {other} are not supported")),
    };
    let steps = zip::<f32, f32>(value, &aligned(scale, rank, along)?, |x, scale| {
        (x / scale).round_ties_even()
    })?;
    let steps = match zero {
        Some(zero) => {
            let zero = aligned(&cast_to(zero.clone(), Element::F32)?, rank, along)?;
            zip::<f32, f32>(&steps, &zero, |x, zero| x + zero)?
        }
        None => steps,
    };
    let limited = steps.all::<f32>()?.iter().map(|x| x.clamp(least, most)).collect();
    cast_to(Value::new(steps.dims(), limited)?, to)
}

fn dequantize(
    value: &Value,
    scale: &Value,
    zero: Option<&Value>,
    along: i64,
) -> Result<Value, String> {
    let rank = value.dims().len();
    if value.element().is_real() {
        return Err("expected integers".into());
    }
    let steps = match zero {
        Some(zero) => {
            let wide = cast_to(value.clone(), Element::I64)?;
            let zero = aligned(&cast_to(zero.clone(), Element::I64)?, rank, along)?;
            zip::<i64, i64>(&wide, &zero, i64::wrapping_sub)?
        }
        None => value.clone(),
    };
    let scale = aligned(scale, rank, along)?;
    zip::<f32, f32>(&cast_to(steps, Element::F32)?, &scale, |x, scale| x * scale)
}

/// Quantizes to bytes between the least and the greatest number, and zero.
fn dynamically_quantized(value: &Value) -> Result<Vec<Value>, String> {
    let all = value.all::<f32>()?;
    if value.has_nan() {
        return Err("NaN has no quantized value".into());
    }
    let (least, most) =
        all.iter().fold((0.0_f32, 0.0_f32), |(least, most), x| (least.min(*x), most.max(*x)));
    // A value of zeros has any scale; ONNX Runtime returns 1.
    let scale = if most == least { 1.0 } else { (most - least) / 255.0 };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    let step = |x: &f32| ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8;
    let bytes = Value::new(value.dims(), all.iter().map(step).collect())?;
    Ok(vec![bytes, Value::scalar(scale), Value::scalar(zero as u8)])
}

/// Returns bytes minus their zero point, which may be one per row or column.
fn shifted(value: &Value, zero: Option<&Value>, along: i64) -> Result<Value, String> {
    if !matches!(value.data(), Data::U8(_) | Data::I8(_)) {
        return Err(format!("expected bytes, found {}", value.element()));
    }
    let wide = cast_to(value.clone(), Element::F32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = cast_to(zero.clone(), Element::F32)?;
    let zero =
        if zero.dims().len() > 1 { zero } else { aligned(&zero, value.dims().len(), along)? };
    zip::<f32, f32>(&wide, &zero, |x, zero| x - zero)
}

/// Multiplies integers of 9 bits. Sums in `f64` are exact.
fn whole_product(a: &Value, b: &Value) -> Result<Value, String> {
    let [a, b] = [a, b].map(|value| cast_to(value.clone(), Element::F64));
    let product = super::product::matmul(dyno_kernels::Isa::best(), &a?, &b?)?;
    layout::expanded(&cast_to(product.clone(), Element::I32)?, product.dims())
}
