//! Operators of quantized models.

use super::convolution::{Convolution, Filters};
use super::elementwise::{cast_to, zip};
use super::product::PackedMatrix;
use super::{layout, name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Data, Value, axis};

use dyno_tensors::Element;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("" | "com.microsoft", "QuantizeLinear") => {
            let along = along(reader)?;
            one(move |frame| {
                let along = axis_of(frame, along)?;
                quantize(frame.input(0)?, frame.input(1)?, frame.get(2), along)
            })
        }
        ("" | "com.microsoft", "DequantizeLinear") => {
            let along = along(reader)?;
            one(move |frame| {
                let along = axis_of(frame, along)?;
                dequantize(frame.input(0)?, frame.input(1)?, frame.get(2), along)
            })
        }
        ("", "DynamicQuantizeLinear") => {
            Ok(Some(Box::new(|frame| dynamically_quantized(frame.input(0)?))))
        }
        ("", "MatMulInteger") => {
            let product = matrix_product(reader, INTEGERS)?;
            one(move |frame| product(frame))
        }
        ("", "ConvInteger") => {
            let product = convolution(reader, INTEGERS)?;
            one(move |frame| product(frame))
        }
        ("", "QLinearMatMul") => {
            let product = matrix_product(reader, CODES)?;
            one(move |frame| {
                // The product of a vector has no rows, and a vector on the right has no columns.
                let is_vector =
                    |input| frame.get(input).is_some_and(|value| value.dims().len() < 2);
                if is_vector(0) || is_vector(3) {
                    expect_single(frame, &[1, 6, 7])?;
                }
                if is_vector(3) {
                    expect_single(frame, &[4, 5])?;
                }
                requantized(frame, &product(frame)?, [-2, -1])
            })
        }
        ("", "QLinearConv") => {
            let product = convolution(reader, CODES)?;
            one(move |frame| {
                expect_single(frame, &[1, 6, 7])?;
                let sums = with_bias(product(frame)?, frame.get(8))?;
                requantized(frame, &sums, [1, 1])
            })
        }
        _ => Ok(None),
    }
}

/// Indices of an integer product's inputs: numbers, their zero point, weights, and theirs.
type Operands = [usize; 4];
/// Inputs of an operator whose outputs are sums.
const INTEGERS: Operands = [0, 2, 1, 3];
/// Inputs of an operator whose outputs are codes. Each operand has a scale, too.
const CODES: Operands = [0, 2, 3, 5];

/// Computes sums of `i32`.
type Product = Box<dyn Fn(&Frame<'_>) -> Result<Value, String> + Send + Sync>;

fn matrix_product(
    reader: &NodeReader<'_>,
    [a, a_zero, b, b_zero]: Operands,
) -> Result<Product, String> {
    let constant = match constant_weights(reader, [b, b_zero], -1)? {
        Some(b) if b.dims().len() == 2 && !b.is_empty() => {
            let b = layout::transposed(&b, None)?;
            Parts::split(&b, |part| Ok(PackedMatrix::new(part.dims()[1], part.all()?)))?
        }
        _ => None,
    };
    if constant.is_some() {
        reader.consume(b);
        reader.consume(b_zero);
    }
    Ok(Box::new(move |frame: &Frame<'_>| {
        let a = shifted(frame.input(a)?, frame.get(a_zero), -2)?;
        let isa = frame.workspace.isa;
        match &constant {
            Some(parts) => parts.sum(|weights| weights.multiply(isa, &a)),
            None => whole_product(&a, &shifted(frame.input(b)?, frame.get(b_zero), -1)?),
        }
    }))
}

fn convolution(
    reader: &NodeReader<'_>,
    [x, x_zero, w, w_zero]: Operands,
) -> Result<Product, String> {
    let convolution = Convolution::read(reader)?;
    let groups = convolution.groups();
    let pack = move |w: &Value| {
        let window: usize = w.dims().iter().skip(1).product();
        let parts = Parts::split(w, |part| Filters::new(part, groups))?;
        parts.ok_or_else(|| format!("windows of {window} numbers are not supported"))
    };
    let constant = constant_weights(reader, [w, w_zero], 0)?.map(|w| pack(&w)).transpose()?;
    if constant.is_some() {
        reader.consume(w);
        reader.consume(w_zero);
    }
    Ok(Box::new(move |frame: &Frame<'_>| {
        expect_single(frame, &[x_zero])?;
        let x = shifted(frame.input(x)?, frame.get(x_zero), 0)?;
        let isa = frame.workspace.isa;
        let packed;
        let parts = match &constant {
            Some(parts) => parts,
            None => {
                packed = pack(&shifted(frame.input(w)?, frame.get(w_zero), 0)?)?;
                &packed
            }
        };
        parts.sum(|filters| convolution.run(isa, &x, None, filters))
    }))
}

/// Checks that inputs have one element, if they are present.
fn expect_single(frame: &Frame<'_>, inputs: &[usize]) -> Result<(), String> {
    let is_list = |input: &&usize| frame.get(**input).is_some_and(|value| value.len() != 1);
    match inputs.iter().find(is_list) {
        Some(input) => Err(format!("expected one number in input {input}")),
        None => Ok(()),
    }
}

/// Adds a number of `i32` to the sums of each filter.
fn with_bias(sums: Value, bias: Option<&Value>) -> Result<Value, String> {
    let Some(bias) = bias else { return Ok(sums) };
    bias.all::<i32>()?;
    let filters = sums.dims().get(1).copied();
    if Some(bias.len()) != filters {
        return Err(format!("expected a bias of each filter, found {}", bias.len()));
    }
    let bias = aligned(&cast_to(bias.clone(), Element::I64)?, sums.dims(), 1)?;
    zip::<i64, i64>(&cast_to(sums, Element::I64)?, &bias, |sum, bias| sum + bias)
}

/// Returns the codes of sums of products: the sums times the scales of both operands, in steps of the
/// output's scale. Scales and zero points may be one for each row or, of the weights, each column.
fn requantized(
    frame: &Frame<'_>,
    sums: &Value,
    [rows, columns]: [i64; 2],
) -> Result<Value, String> {
    let scale = |input: usize, along: i64| {
        let scale = cast_to(frame.input(input)?.clone(), Element::F64)?;
        aligned(&scale, sums.dims(), along)
    };
    let factors = zip::<f64, f64>(&scale(1, rows)?, &scale(4, columns)?, |x, w| x * w)?;
    let sums_of_numbers = cast_to(sums.clone(), Element::F64)?;
    let numbers = zip::<f64, f64>(&sums_of_numbers, &factors, |sum, by| sum * by)?;
    let steps = zip::<f64, f64>(&numbers, &scale(6, rows)?, |x, step| x / step)?;
    let zero = frame.input(7)?;
    let (least, most) = limits(zero.element())?;
    let shift = aligned(&cast_to(zero.clone(), Element::F64)?, sums.dims(), rows)?;
    let code =
        |x: f64, zero: f64| (x.round_ties_even() + zero).clamp(f64::from(least), f64::from(most));
    cast_to(zip::<f64, f64>(&steps, &shift, code)?, zero.element())
}

/// Returns the least and the greatest code of a type.
fn limits(element: Element) -> Result<(f32, f32), String> {
    match element {
        Element::U8 => Ok((0.0, 255.0)),
        Element::I8 => Ok((-128.0, 127.0)),
        other => Err(format!("elements of type {other} are not supported")),
    }
}

/// Returns the constant weights of an integer product, minus their zero point.
fn constant_weights(
    reader: &NodeReader<'_>,
    [weights, zero]: [usize; 2],
    along: i64,
) -> Result<Option<Value>, String> {
    let has_zero = reader.node.inputs.get(zero).is_some_and(|name| !name.is_empty());
    match (reader.constant(weights), reader.constant(zero)) {
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

/// Returns the axis of scales and zero points, or `None` if there can only be one of each.
fn along(reader: &NodeReader<'_>) -> Result<Option<i64>, String> {
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
    let has_axis = if reader.node.domain.is_empty() {
        reader.version >= 13
    } else {
        reader.attribute("axis").is_some()
    };
    // A single scale has no axis.
    if has_axis && reader.constant(1).is_some_and(|scale| scale.len() != 1) {
        reader.check_axes(&[along], 0)?;
    }
    Ok(has_axis.then_some(along))
}

/// Returns the axis, which a single scale does not need.
fn axis_of(frame: &Frame<'_>, along: Option<i64>) -> Result<i64, String> {
    if along.is_none() {
        expect_single(frame, &[1, 2])?;
    }
    Ok(along.unwrap_or(1))
}

/// Returns parameters with an axis for each of the value's, so that they are broadcast along one.
///
/// # Errors
/// There is neither one parameter nor one for each element of this axis.
fn aligned(parameters: &Value, dims: &[usize], along: i64) -> Result<Value, String> {
    if parameters.len() == 1 {
        return parameters.clone().reshaped(Vec::new());
    }
    let at = axis(along, dims.len())?;
    if parameters.dims() != [dims[at]] {
        let (size, found) = (dims[at], parameters.dims());
        return Err(format!("expected {size} scales or zero points on axis {at}, found {found:?}"));
    }
    let mut shape = vec![1; dims.len()];
    shape[at] = dims[at];
    parameters.clone().reshaped(shape)
}

fn quantize(
    value: &Value,
    scale: &Value,
    zero: Option<&Value>,
    along: i64,
) -> Result<Value, String> {
    let dims = value.dims();
    let to = zero.map_or(Element::U8, Value::element);
    let (least, most) = limits(to)?;
    let steps = zip::<f32, f32>(value, &aligned(scale, dims, along)?, |x, scale| {
        (x / scale).round_ties_even()
    })?;
    let steps = match zero {
        Some(zero) => {
            let zero = aligned(&cast_to(zero.clone(), Element::F32)?, dims, along)?;
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
    let dims = value.dims();
    if value.element().is_real() {
        return Err("expected integers".into());
    }
    if zero.is_some_and(|zero| zero.element() != value.element()) {
        return Err("the zero point has another type than the codes".into());
    }
    let steps = match zero {
        Some(zero) => {
            let wide = cast_to(value.clone(), Element::I64)?;
            let zero = aligned(&cast_to(zero.clone(), Element::I64)?, dims, along)?;
            zip::<i64, i64>(&wide, &zero, i64::wrapping_sub)?
        }
        None => value.clone(),
    };
    let scale = aligned(scale, dims, along)?;
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
    if zero.element() != value.element() {
        return Err(format!("a zero point of {} for {}", zero.element(), value.element()));
    }
    let zero = cast_to(zero.clone(), Element::F32)?;
    let zero = if zero.dims().len() > 1 {
        layout::expanded_to(&zero, value.dims())?
    } else {
        aligned(&zero, value.dims(), along)?
    };
    zip::<f32, f32>(&wide, &zero, |x, zero| x - zero)
}

/// Multiplies integers of 9 bits. Sums in `f64` are exact.
fn whole_product(a: &Value, b: &Value) -> Result<Value, String> {
    let [a, b] = [a, b].map(|value| cast_to(value.clone(), Element::F64));
    let product = super::product::matmul(dyno_kernels::Isa::best(), &a?, &b?)?;
    layout::expanded(&cast_to(product.clone(), Element::I32)?, product.dims())
}
