//! Operators of quantized models.

use super::broadcast::{zip, zip_into};
use super::cast::cast_to;
use super::convolution::Convolution;
use super::integer::{IntegerFilters, IntegerMatrix};
use super::{layout, name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Data, Value, axis, each};

use dyno_tensors::Element;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("" | "com.microsoft", "QuantizeLinear") => {
            let stated = stated_codes(reader)?;
            let spread = Spread::read(reader)?;
            one(move |frame| quantize(frame, &spread, stated))
        }
        ("" | "com.microsoft", "DequantizeLinear") => {
            if reader.int("output_dtype", 0)? != 0 {
                return Err("attribute 'output_dtype' is not supported".into());
            }
            let spread = Spread::read(reader)?;
            one(move |frame| {
                spread.check(frame)?;
                dequantize(frame.input(0)?, frame.input(1)?, frame.get(2), &spread)
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
            IntegerMatrix::new(&layout::transposed(&b, None)?)?
        }
        _ => None,
    };
    if constant.is_some() {
        reader.consume(b);
        reader.consume(b_zero);
    }
    Ok(Box::new(move |frame: &Frame<'_>| {
        let (a, a_zero) = (frame.input(a)?, frame.get(a_zero));
        if let Some(weights) = &constant {
            return weights.multiply(frame.workspace.isa, a, &row_zeros(a, a_zero)?);
        }
        let b = shifted(frame.input(b)?, frame.get(b_zero), -1)?;
        whole_product(&shifted(a, a_zero, -2)?, &b)
    }))
}

fn convolution(
    reader: &NodeReader<'_>,
    [x, x_zero, w, w_zero]: Operands,
) -> Result<Product, String> {
    let convolution = Convolution::read(reader)?;
    let groups = convolution.groups();
    let constant = constant_weights(reader, [w, w_zero], 0)?;
    let constant = constant.map(|w| IntegerFilters::new(&w, groups)).transpose()?;
    if constant.is_some() {
        reader.consume(w);
        reader.consume(w_zero);
    }
    Ok(Box::new(move |frame: &Frame<'_>| {
        expect_single(frame, &[x_zero])?;
        let x = frame.input(x)?;
        let zero = row_zeros(x, frame.get(x_zero))?[0];
        let packed;
        let filters = match &constant {
            Some(filters) => filters,
            None => {
                let w = shifted(frame.input(w)?, frame.get(w_zero), 0)?;
                packed = IntegerFilters::new(&w, groups)?;
                &packed
            }
        };
        filters.convolve(frame.workspace, x, zero, &convolution)
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
    zip_into::<i64>(cast_to(sums, Element::I64)?, bias, |sum, bias| sum + bias)
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
    let factors = zip_into::<f64>(scale(1, rows)?, scale(4, columns)?, |x, w| x * w)?;
    let numbers = cast_to(sums.clone(), Element::F64)?;
    let numbers = zip_into::<f64>(numbers, factors, |sum, by| sum * by)?;
    let steps = zip_into::<f64>(numbers, scale(6, rows)?, |x, step| x / step)?;
    let zero = frame.input(7)?;
    let (least, most) = limits(zero.element())?;
    let shift = aligned(&cast_to(zero.clone(), Element::F64)?, sums.dims(), rows)?;
    let code = |x: f64, zero: f64| (rounded(x) + zero).clamp(f64::from(least), f64::from(most));
    cast_to(zip_into::<f64>(steps, shift, code)?, zero.element())
}

/// Returns the nearest integer, ties to even, of a number that is limited to 2^20, beyond which all
/// codes saturate. Unlike the function of the standard library, compilers make vectors of it.
fn rounded(x: f64) -> f64 {
    const LIMIT: f64 = (1 << 20) as f64;
    // 1.5 * 2^52: sums have no bits of fractions.
    const WHOLE: f64 = 6_755_399_441_055_744.0;
    x.clamp(-LIMIT, LIMIT) + WHOLE - WHOLE
}

/// Returns the bits of a code: the nearest integer, ties to even, plus the zero point, within
/// limits of 8 bits. 0 for NaN.
fn code(x: f32, zero: f32, [least, most]: [f32; 2]) -> u8 {
    // Beyond this number, all codes saturate.
    const LIMIT: f32 = 1024.0;
    // 1.5 * 2^23: sums have no bits of fractions, and end in the bits of integers.
    const WHOLE: f32 = 12_582_912.0;
    let step = x.clamp(-LIMIT, LIMIT) + WHOLE - WHOLE;
    let code = (step + zero).clamp(least, most);
    let code = if code.is_nan() { 0.0 } else { code };
    (code + WHOLE).to_bits() as u8
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

/// Elements that have a scale and zero point in common.
struct Spread {
    /// Axis of scales and zero points. `None` if there can only be one of each.
    along: Option<i64>,
    /// Elements of a block on the axis; 0 without blocks.
    block: usize,
}

impl Spread {
    fn read(reader: &NodeReader<'_>) -> Result<Self, String> {
        reader.ignore("saturate");
        let block = reader.int("block_size", 0)?;
        let block = usize::try_from(block).map_err(|_| format!("blocks of {block} elements"))?;
        if reader.int("precision", 0)? != 0 {
            return Err("attribute 'precision' is not supported".into());
        }
        let along = reader.int("axis", 1)?;
        let has_axis = if reader.node.domain.is_empty() {
            reader.version >= 13
        } else {
            reader.attribute("axis").is_some() || block > 0
        };
        // A single scale has no axis.
        if has_axis && (block > 0 || reader.constant(1).is_some_and(|scale| scale.len() != 1)) {
            reader.check_axes(&[along], 0)?;
        }
        Ok(Self { along: has_axis.then_some(along), block })
    }

    /// Checks that there is one scale and one zero point, unless they have an axis.
    fn check(&self, frame: &Frame<'_>) -> Result<(), String> {
        if self.along.is_some() { Ok(()) } else { expect_single(frame, &[1, 2]) }
    }

    /// Returns parameters that are broadcast to a value of these dimensions.
    fn over(&self, parameters: &Value, dims: &[usize]) -> Result<Value, String> {
        let along = self.along.unwrap_or(1);
        if self.block == 0 {
            return aligned(parameters, dims, along);
        }
        let (at, block) = (axis(along, dims.len())?, self.block);
        let mut blocks = dims.to_vec();
        blocks[at] = dims[at].div_ceil(block);
        if parameters.dims() != blocks {
            let found = parameters.dims();
            return Err(format!(
                "expected {blocks:?} scales or zero points for blocks of {block} elements on axis {at}, \
                 found {found:?}"
            ));
        }
        let (steps, inner) = (dims[at], dims[at + 1..].iter().product::<usize>());
        let place = |element: usize| {
            let (outer, step) = (element / inner / steps, element / inner % steps);
            (outer * blocks[at] + step / block) * inner + element % inner
        };
        let elements = 0..dims.iter().product::<usize>();
        each!(parameters, all => Value::new(dims, elements.map(|at| all[place(at)]).collect()))
    }
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

/// Returns the type of codes that a `QuantizeLinear` states, if it does.
fn stated_codes(reader: &NodeReader<'_>) -> Result<Option<Element>, String> {
    let number = reader.int("output_dtype", 0)?;
    match reader.node.stated_codes() {
        None if number == 0 => Ok(None),
        Some(codes @ (Element::U8 | Element::I8)) => Ok(Some(codes)),
        Some(other) => Err(format!("codes of type {other} are not supported")),
        None => Err(format!("codes of type {number} are not supported")),
    }
}

/// Computes a `QuantizeLinear`. Codes have the type that the node states, or that of the zero point.
fn quantize(frame: &Frame<'_>, spread: &Spread, stated: Option<Element>) -> Result<Value, String> {
    spread.check(frame)?;
    let (value, scale, zero) = (frame.input(0)?, frame.input(1)?, frame.get(2));
    let given = zero.map(Value::element);
    let to = stated.or(given).unwrap_or(Element::U8);
    if let Some(given) = given.filter(|given| *given != to) {
        return Err(format!("output_dtype is {to}, but the zero point has the type {given}"));
    }
    let dims = value.dims();
    let (least, most) = limits(to)?;
    let steps = zip::<f32, f32>(value, &spread.over(scale, dims)?, |x, scale| x / scale)?;
    if steps.has_nan() {
        return Err(format!("NaN has no value of type {to}"));
    }
    let limits = [least, most];
    let zero = match zero {
        Some(zero) => spread.over(&cast_to(zero.clone(), Element::F32)?, dims)?,
        None => Value::scalar(0.0_f32),
    };
    match to {
        Element::I8 => zip::<f32, i8>(&steps, &zero, |x, zero| code(x, zero, limits).cast_signed()),
        _ => zip::<f32, u8>(&steps, &zero, |x, zero| code(x, zero, limits)),
    }
}

fn dequantize(
    value: &Value,
    scale: &Value,
    zero: Option<&Value>,
    spread: &Spread,
) -> Result<Value, String> {
    let dims = value.dims();
    if value.element().is_real() {
        return Err("expected integers".into());
    }
    if zero.is_some_and(|zero| zero.element() != value.element()) {
        return Err("the zero point has another type than the codes".into());
    }
    // Differences of bytes are exact in `f32`; other integers have more bits.
    let is_byte = matches!(value.element(), Element::U8 | Element::I8);
    let wide = cast_to(value.clone(), if is_byte { Element::F32 } else { Element::I64 })?;
    let steps = match zero {
        Some(zero) => {
            let zero = spread.over(&cast_to(zero.clone(), wide.element())?, dims)?;
            if is_byte {
                zip_into::<f32>(wide, zero, |x, zero| x - zero)?
            } else {
                zip_into::<i64>(wide, zero, i64::wrapping_sub)?
            }
        }
        None => wide,
    };
    let scale = spread.over(scale, dims)?;
    zip_into::<f32>(cast_to(steps, Element::F32)?, scale, |x, scale| x * scale)
}

/// Quantizes to bytes between the least and the greatest number, and zero.
fn dynamically_quantized(value: &Value) -> Result<Vec<Value>, String> {
    let all = value.all::<f32>()?;
    let [least, most] = extremes(all).ok_or("NaN has no quantized value")?;
    // A value of zeros has any scale; ONNX Runtime returns 1.
    let scale = if most == least { 1.0 } else { (most - least) / 255.0 };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    let bytes = all.iter().map(|x| code(x / scale, zero, [0.0, 255.0])).collect();
    let bytes = Value::new(value.dims(), bytes)?;
    Ok(vec![bytes, Value::scalar(scale), Value::scalar(zero as u8)])
}

/// Returns the least and the greatest of all numbers and zero, or `None` if a number is NaN.
fn extremes(all: &[f32]) -> Option<[f32; 2]> {
    /// Numbers that are compared at once.
    const LANES: usize = 16;
    let (mut least, mut most, mut nan) = ([0.0_f32; LANES], [0.0_f32; LANES], [0_u32; LANES]);
    let (rows, rest) = all.as_chunks::<LANES>();
    let mut last = [0.0; LANES];
    last[..rest.len()].copy_from_slice(rest);
    for row in rows.iter().chain(std::iter::once(&last)) {
        for (lane, x) in row.iter().enumerate() {
            least[lane] = if *x < least[lane] { *x } else { least[lane] };
            most[lane] = if *x > most[lane] { *x } else { most[lane] };
            nan[lane] |= u32::from(x.is_nan());
        }
    }
    let least = least.into_iter().fold(0.0, f32::min);
    let most = most.into_iter().fold(0.0, f32::max);
    nan.iter().all(|nan| *nan == 0).then_some([least, most])
}

/// Checks that a value has bytes, and its zero point, too.
fn expect_bytes(value: &Value, zero: Option<&Value>) -> Result<(), String> {
    if !matches!(value.data(), Data::U8(_) | Data::I8(_)) {
        return Err(format!("expected bytes, found {}", value.element()));
    }
    match zero.map(Value::element).filter(|zero| *zero != value.element()) {
        Some(zero) => Err(format!("a zero point of {zero} for {}", value.element())),
        None => Ok(()),
    }
}

/// Returns the zero point of all rows of bytes, or that of each row.
fn row_zeros(value: &Value, zero: Option<&Value>) -> Result<Vec<i16>, String> {
    expect_bytes(value, zero)?;
    let Some(zero) = zero else { return Ok(vec![0]) };
    let mut dims = value.dims().to_vec();
    let each = match (zero.len(), dims.last_mut()) {
        (1, _) | (_, None) => zero.clone(),
        (_, Some(last)) => {
            *last = 1;
            let is_list = zero.dims().len() == 1;
            let zero = if is_list { aligned(zero, &dims, -2)? } else { zero.clone() };
            layout::expanded_to(&zero, &dims)?
        }
    };
    // Bytes have 8 of the 16 bits.
    Ok(each.integers()?.iter().map(|zero| *zero as i16).collect())
}

/// Returns bytes minus their zero point, which may be one per row or column.
fn shifted(value: &Value, zero: Option<&Value>, along: i64) -> Result<Value, String> {
    expect_bytes(value, zero)?;
    let wide = cast_to(value.clone(), Element::F32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = cast_to(zero.clone(), Element::F32)?;
    let zero = if let [.., rows, columns] = *zero.dims() {
        // One for each row has one column, and one for each column has one row.
        let other = if along == -1 { rows } else { columns };
        if other != 1 {
            return Err(format!(
                "zero points of shape {:?} differ within a row or column",
                zero.dims()
            ));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Ties, limits of both types, numbers far beyond them, and zeros of both signs.
    #[test]
    fn codes_are_rounded_to_even_and_saturate() {
        let halves = (-4_000..4_000).map(|half| half as f32 * 0.5);
        let others = [1e30, -1e30, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.499_999_97, 1.499_999];
        for x in halves.chain(others) {
            for zero in [-128_i16, -1, 0, 3, 127, 255] {
                let (least, most) = if zero > 127 { (0_i16, 255_i16) } else { (-128, 127) };
                let sum = f64::from(x).round_ties_even() + f64::from(zero);
                let expected = sum.clamp(f64::from(least), f64::from(most)) as i16;
                let limits = [f32::from(least), f32::from(most)];
                assert_eq!(code(x, f32::from(zero), limits), expected as u8, "{x} {zero}");
                let is_near = x.abs() < 1e6;
                assert!(!is_near || rounded(x.into()) == f64::from(x).round_ties_even(), "{x}");
            }
        }
        assert_eq!(code(f32::NAN, 7.0, [0.0, 255.0]), 0);
    }

    #[test]
    fn extremes_include_zero_and_find_nan() {
        let mut all: Vec<f32> = (1..40).map(|at| at as f32).collect();
        assert_eq!(extremes(&[]), Some([0.0, 0.0]));
        assert_eq!(extremes(&all), Some([0.0, 39.0]));
        for at in [0, 15, 16, 38] {
            let before = std::mem::replace(&mut all[at], -5.0);
            assert_eq!(extremes(&all), Some([-5.0, if at == 38 { 38.0 } else { 39.0 }]));
            all[at] = f32::NAN;
            assert_eq!(extremes(&all), None);
            all[at] = before;
        }
    }
}
