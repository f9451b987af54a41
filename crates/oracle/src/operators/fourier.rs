//! Discrete Fourier transforms.

use std::f64::consts::TAU;

use super::{Operator, operator};
use crate::call::{Call, axis_of, size_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Lanes, Tensor};

pub(super) const OPERATORS: &[Operator] = &[
    operator("DFT", 17, 3, &["axis", "inverse", "onesided"], transform),
    operator("STFT", 17, 4, &["onesided"], short_time),
    operator("HannWindow", 17, 1, WINDOW, |call| window(call, [0.5, 0.5, 0.0])),
    operator("HammingWindow", 17, 1, WINDOW, |call| window(call, [25.0 / 46.0, 21.0 / 46.0, 0.0])),
    operator("BlackmanWindow", 17, 1, WINDOW, |call| window(call, [0.42, 0.5, 0.08])),
];

const WINDOW: &[&str] = &["output_datatype", "periodic"];

/// Computes a - b cos(2 pi n / N) + c cos(4 pi n / N), where N is the size, or one less unless the window
/// is periodic.
fn window(call: &Call<'_>, [a, b, c]: [f64; 3]) -> Result<Vec<Tensor>, Fault> {
    let size = size_of(call.input(0)?.as_integer()?)?;
    let code = call.integer("output_datatype", 1)?;
    let Some(element) = Element::from_code(code).filter(|element| element.is_float()) else {
        return fault(format!("elements of type {code} are not supported"));
    };
    let steps = if call.flag("periodic", true)? { size } else { size.saturating_sub(1) };
    call.spend_shape(&[size])?;
    if size == 1 && steps == 0 {
        return fault("a symmetric window of one number is not defined");
    }
    let value = |n: usize| {
        let angle = TAU * n as f64 / steps as f64;
        a - b * angle.cos() + c * (2.0 * angle).cos()
    };
    Ok(vec![Tensor::of_floats(element, &[size], (0..size).map(value).collect())?])
}

/// Sums numbers times e^(i turn n k / length), for each k.
fn sums(numbers: &[(f64, f64)], length: usize, turn: f64, outputs: usize) -> Vec<(f64, f64)> {
    let sum = |k: usize| {
        numbers.iter().enumerate().fold((0.0, 0.0), |(real, imaginary), (n, (x, y))| {
            // Angles of whole turns are removed, which would cost digits.
            let angle = turn * ((n * k) % length) as f64 / length as f64;
            let (sine, cosine) = angle.sin_cos();
            (real + x * cosine - y * sine, imaginary + x * sine + y * cosine)
        })
    };
    (0..outputs).map(sum).collect()
}

fn transform(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let axis = match (call.opset < 20, call.optional(2)) {
        (true, None) => call.integer("axis", 1)?,
        (true, Some(_)) => return fault("the axis is an attribute before opset 20"),
        (false, _) if call.has("axis") => return fault("the axis is an input since opset 20"),
        (false, Some(axis)) => axis.as_integer()?,
        (false, None) => -2,
    };
    let axis = axis_of(axis, input.rank())?;
    let parts = input.shape().last().copied().filter(|_| axis + 1 < input.rank());
    let Some(parts @ (1 | 2)) = parts else {
        return fault(format!("no transform of shape {:?} on axis {axis}", input.shape()));
    };
    let (inverse, one_sided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    if one_sided && inverse {
        return real_signal(call, axis);
    }
    if one_sided && parts == 2 {
        return fault("one side of a complex signal is not supported");
    }
    let size = input.shape()[axis];
    let length = match call.optional(1) {
        Some(length) => size_of(length.as_integer()?)?,
        None => size,
    };
    if length == 0 {
        return fault("a transform of no numbers");
    }
    let outputs = if one_sided { length / 2 + 1 } else { length };
    let mut shape = input.shape().to_vec();
    let last = shape.len() - 1;
    (shape[axis], shape[last]) = (outputs, 2);
    let count = call.spend_shape(&shape)?;
    call.spend_product(&[count, length])?;
    let from = input.as_floats()?;
    let mut values = vec![0.0; count];
    // Lanes of numbers, each of which has one or two parts.
    let lanes = Lanes::new(&input.shape()[..last], axis).positions();
    let turn = if inverse { TAU } else { -TAU };
    let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
    for (lane, target) in lanes.zip(Lanes::new(&shape[..last], axis).positions()) {
        let number = |at: usize| match lane.get(at) {
            Some(at) => (from[at * parts], if parts == 2 { from[at * 2 + 1] } else { 0.0 }),
            None => (0.0, 0.0),
        };
        let numbers: Vec<(f64, f64)> = (0..length).map(number).collect();
        for (target, (real, imaginary)) in
            target.into_iter().zip(sums(&numbers, length, turn, outputs))
        {
            values[target * 2] = real * scale;
            values[target * 2 + 1] = imaginary * scale;
        }
    }
    Ok(vec![Tensor::of_floats(input.element(), &shape, values)?])
}

/// Computes a real signal from one side of its spectrum. The other side has the conjugate numbers.
fn real_signal(call: &Call<'_>, axis: usize) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let (size, last) = (input.shape()[axis], input.rank() - 1);
    let length = match call.optional(1) {
        Some(length) => size_of(length.as_integer()?)?,
        None => 2 * size.saturating_sub(1),
    };
    if input.shape()[last] != 2 || length == 0 || length / 2 + 1 != size {
        return fault(format!("shape {:?} is no side of {length} numbers", input.shape()));
    }
    let mut shape = input.shape().to_vec();
    (shape[axis], shape[last]) = (length, 1);
    let count = call.spend_shape(&shape)?;
    call.spend_product(&[count, size])?;
    let from = input.as_floats()?;
    let mut values = vec![0.0; count];
    let lanes = Lanes::new(&input.shape()[..last], axis).positions();
    for (lane, targets) in lanes.zip(Lanes::new(&shape[..last], axis).positions()) {
        for (n, target) in targets.into_iter().enumerate() {
            let wave = |(k, at): (usize, &usize)| {
                let angle = TAU * ((n * k) % length) as f64 / length as f64;
                let wave = from[at * 2] * angle.cos() - from[at * 2 + 1] * angle.sin();
                // The mean, and the last number of an even length, have no conjugate.
                if 2 * k % length == 0 { wave } else { 2.0 * wave }
            };
            values[target] = lane.iter().enumerate().map(wave).sum::<f64>() / length as f64;
        }
    }
    Ok(vec![Tensor::of_floats(input.element(), &shape, values)?])
}

fn short_time(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let signal = call.input(0)?;
    let (batch, samples, parts) = match *signal.shape() {
        [batch, samples] => (batch, samples, 1),
        [batch, samples, parts @ (1 | 2)] => (batch, samples, parts),
        _ => return fault(format!("no signals of shape {:?}", signal.shape())),
    };
    let step = size_of(call.input(1)?.as_integer()?)?;
    let window = call.optional(2).map(Tensor::as_floats).transpose()?;
    let stated = call.optional(3).map(Tensor::as_integer).transpose()?;
    let length = match (stated, window) {
        (Some(length), _) => size_of(length)?,
        (None, Some(window)) => window.len(),
        (None, None) => return fault("neither a window nor a length of frames"),
    };
    if length == 0 || length > samples || step == 0 {
        return fault(format!("frames of {length} each {step} of {samples} samples"));
    }
    if window.is_some_and(|window| window.len() != length) {
        return fault(format!("the window does not have {length} numbers"));
    }
    let one_sided = call.flag("onesided", true)?;
    if one_sided && parts == 2 {
        return fault("one side of a complex signal is not supported");
    }
    let outputs = if one_sided { length / 2 + 1 } else { length };
    let frames = (samples - length) / step + 1;
    let shape = [batch, frames, outputs, 2];
    let count = call.spend_shape(&shape)?;
    call.spend_product(&[count, length])?;
    let from = signal.as_floats()?;
    let mut values = Vec::with_capacity(count);
    for b in 0..batch {
        for start in (0..frames).map(|frame| frame * step) {
            let number = |n: usize| {
                let at = (b * samples + start + n) * parts;
                let weight = window.map_or(1.0, |window| window[n]);
                (from[at] * weight, if parts == 2 { from[at + 1] * weight } else { 0.0 })
            };
            let numbers: Vec<(f64, f64)> = (0..length).map(number).collect();
            let found = sums(&numbers, length, -TAU, outputs);
            values.extend(found.into_iter().flat_map(|(real, imaginary)| [real, imaginary]));
        }
    }
    Ok(vec![Tensor::of_floats(signal.element(), &shape, values)?])
}
