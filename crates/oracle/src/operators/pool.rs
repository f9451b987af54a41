//! Pools.

use super::arithmetic::{cast, greater};
use super::window::{Windows, image};
use super::{Operator, operator};
use crate::call::{Call, integer_of, sizes_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, for_each_index, position};

const AVERAGE: &[&str] =
    &["auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"];
const MAX: &[&str] =
    &["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"];
const NORM: &[&str] =
    &["auto_pad", "ceil_mode", "dilations", "kernel_shape", "p", "pads", "strides"];

pub(super) const OPERATORS: &[Operator] = &[
    operator("AveragePool", 7, 1, AVERAGE, average),
    operator("LpPool", 7, 1, NORM, |call| {
        let power = order(call)?;
        let pooled = pool(call, |view| norm(view.values, power))?;
        Ok(vec![pooled])
    }),
    operator("MaxPool", 7, 1, MAX, maximum),
    operator("GlobalAveragePool", 7, 1, &[], |call| {
        global(call, |values| values.iter().sum::<f64>() / count(values.len()))
    }),
    operator("GlobalLpPool", 7, 1, &["p"], |call| {
        let power = order(call)?;
        global(call, |values| norm(values, power))
    }),
    operator("GlobalMaxPool", 7, 1, &[], |call| {
        global(call, |values| values.iter().copied().fold(f64::NEG_INFINITY, greater))
    }),
];

fn count(elements: usize) -> f64 {
    elements as f64
}

/// Returns the order of a norm.
fn order(call: &Call<'_>) -> Result<f64, Fault> {
    match i32::try_from(call.integer("p", 2)?) {
        Ok(power) if power > 0 => Ok(power.into()),
        _ => fault("attribute \"p\": expected 1 or more"),
    }
}

fn norm(values: &[f64], power: f64) -> f64 {
    values.iter().map(|value| value.abs().powf(power)).sum::<f64>().powf(1.0 / power)
}

/// What one window sees.
struct View<'a> {
    values: &'a [f64],
    /// Positions of the values in their image.
    positions: &'a [usize],
    /// First element of the channel in the tensor.
    channel: usize,
    /// Number of elements of the window in the image and its padding.
    padded: usize,
}

/// Applies a function to what each window sees.
fn pool(call: &Call<'_>, mut combine: impl FnMut(&View<'_>) -> f64) -> Result<Tensor, Fault> {
    let input = call.input(0)?;
    let (batch, channels, sizes) = image(input.shape())?;
    let Some(kernel) = call.integers("kernel_shape")? else {
        return fault("kernel_shape is missing");
    };
    let windows = Windows::new(call, sizes, &sizes_of(&kernel)?)?;
    let shape = [&[batch, channels], &windows.outputs[..]].concat();
    let taps = windows.kernel.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
    let results = call.spend_shape(&shape)?;
    call.spend_product(&[results, taps.unwrap_or(usize::MAX)])?;
    let values = input.to_floats();
    let area: usize = sizes.iter().product();
    let mut pooled = Vec::with_capacity(results);
    let padded_sizes: Vec<usize> = (0..sizes.len())
        .map(|axis| sizes[axis] + windows.begins[axis] + windows.ends[axis])
        .collect();
    for_each_index(&shape, |index| {
        let channel = (index[0] * channels + index[1]) * area;
        let (mut seen, mut positions, mut padded) = (Vec::new(), Vec::new(), 0);
        for_each_index(&windows.kernel, |tap| {
            let is_inside = (0..sizes.len()).all(|axis| {
                let padded =
                    index[2 + axis] * windows.strides[axis] + tap[axis] * windows.dilations[axis];
                padded < padded_sizes[axis]
            });
            padded += usize::from(is_inside);
            if let Some(source) = windows.source(&index[2..], tap, sizes) {
                let source = position(&source, sizes);
                seen.push(values[channel + source]);
                positions.push(source);
            }
        });
        pooled.push(combine(&View { values: &seen, positions: &positions, channel, padded }));
    });
    let floats = Tensor::of_floats(Element::Float64, &shape, pooled)?;
    if input.element().is_float() {
        return Tensor::of_floats(input.element(), &shape, floats.as_floats()?.to_vec());
    }
    cast(&floats, input.element())
}

fn average(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    call.input(0)?.as_floats()?;
    let counts_padding = call.flag("count_include_pad", false)?;
    let pooled = pool(call, |view| {
        let divisor = if counts_padding { view.padded } else { view.values.len() };
        view.values.iter().sum::<f64>() / count(divisor)
    })?;
    Ok(vec![pooled])
}

fn maximum(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let is_column_major = call.flag("storage_order", false)?;
    let (.., sizes) = image(call.input(0)?.shape())?;
    let mut indices = Vec::new();
    let mut empty = false;
    let pooled = pool(call, |view| {
        let largest = view.values.iter().copied().fold(f64::NEG_INFINITY, greater);
        let first = view.values.iter().position(|value| *value == largest);
        let place = first.map_or(0, |first| view.positions[first]);
        empty |= view.values.is_empty();
        if call.wants(1) {
            view.values.iter().for_each(|value| call.note_choice(*value, largest));
        }
        let place = if is_column_major { column_major(place, sizes) } else { place };
        indices.push(integer_of(view.channel + place));
        largest
    })?;
    if empty {
        return fault("a window sees only padding");
    }
    let indices = Tensor::of_integers(Element::Int64, pooled.shape(), indices)?;
    Ok(vec![pooled, indices])
}

/// Returns the position of an element when the first dimension runs fastest.
fn column_major(mut place: usize, sizes: &[usize]) -> usize {
    let mut index = vec![0; sizes.len()];
    for axis in (0..sizes.len()).rev() {
        index[axis] = place % sizes[axis];
        place /= sizes[axis];
    }
    index.iter().zip(sizes).rev().fold(0, |place, (index, size)| place * size + index)
}

/// Applies a function to all elements of each channel.
fn global(call: &Call<'_>, combine: impl Fn(&[f64]) -> f64) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let (batch, channels, sizes) = image(input.shape())?;
    let area: usize = sizes.iter().product();
    if area == 0 {
        return fault("a channel has no elements");
    }
    let values = input.as_floats()?.chunks_exact(area).map(combine).collect();
    let shape = [&[batch, channels], &vec![1; sizes.len()][..]].concat();
    Ok(vec![Tensor::of_floats(input.element(), &shape, values)?])
}
