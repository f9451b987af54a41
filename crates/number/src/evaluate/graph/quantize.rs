//! Operators between numbers and their integer codes.

use super::tensor::{Mismatch, Tensor};

/// Returns parameters with an axis for each of the value's, so that they are broadcast along one.
fn aligned(parameters: Tensor, x: &Tensor, axis: i64) -> Result<Tensor, Mismatch> {
    let count = parameters.values.len();
    if count == 1 {
        return parameters.with_dims(Vec::new());
    }
    let axis = x.axis(axis)?;
    if parameters.dims.len() != 1 || x.dims[axis] != count {
        return Err(format!("has scales of {:?} for {:?}", parameters.dims, x.dims));
    }
    let mut dims = vec![1; x.dims.len()];
    dims[axis] = count;
    parameters.with_dims(dims)
}

/// Returns the codes of numbers: steps to the nearest, ties to even, from `least` to `most`.
pub(super) fn codes(
    x: Tensor,
    scale: Tensor,
    zero: Option<Tensor>,
    axis: i64,
    [least, most]: [f32; 2],
) -> Result<Tensor, Mismatch> {
    let scale = aligned(scale, &x, axis)?;
    let zero = zero.map(|zero| aligned(zero, &x, axis)).transpose()?;
    let steps = x.paired(&scale, |x, scale| (x / scale).round_ties_even())?;
    let codes = match zero {
        Some(zero) => steps.paired(&zero, |steps, zero| steps + zero)?,
        None => steps,
    };
    Ok(codes.each(|codes| codes.iter_mut().for_each(|code| *code = code.clamp(least, most))))
}

/// Returns the numbers of codes.
pub(super) fn numbers(
    codes: Tensor,
    scale: Tensor,
    zero: Option<Tensor>,
    axis: i64,
) -> Result<Tensor, Mismatch> {
    let scale = aligned(scale, &codes, axis)?;
    let steps = match zero {
        Some(zero) => {
            let zero = aligned(zero, &codes, axis)?;
            codes.paired(&zero, |code, zero| code - zero)?
        }
        None => codes,
    };
    steps.paired(&scale, |steps, scale| steps * scale)
}

/// Returns bytes for numbers between the least, the greatest and 0, with their scale and zero point.
pub(super) fn dynamic_codes(x: Tensor) -> Result<Vec<Tensor>, Mismatch> {
    let least = x.values.iter().fold(0.0_f32, |least, x| least.min(*x));
    let most = x.values.iter().fold(0.0_f32, |most, x| most.max(*x));
    // ONNX Runtime takes the scale 1 for values of zeros.
    let scale = if most == least { 1.0 } else { (most - least) / 255.0 };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    let one = |number| Tensor::new(Vec::new(), vec![number]);
    let codes = codes(x, one(scale), Some(one(zero)), 0, [0.0, 255.0])?;
    Ok(vec![codes, one(scale), one(zero)])
}
