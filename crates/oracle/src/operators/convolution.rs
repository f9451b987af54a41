//! Convolutions.

use super::product::shifted;
use super::window::{Windows, image};
use super::{Operator, operator};
use crate::call::{Call, size_of, sizes_of};
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, element_count, for_each_index, position};

const CONV: &[&str] = &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];
const TRANSPOSED: &[&str] = &[
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "output_padding",
    "output_shape",
    "pads",
    "strides",
];

pub(super) const OPERATORS: &[Operator] = &[
    operator("Col2Im", 18, 3, &["dilations", "pads", "strides"], image_of_columns),
    operator("Conv", 7, 3, CONV, |call| {
        let (input, weights) = (call.input(0)?, call.input(1)?);
        let (shape, values) = convolve(call, input.as_floats()?, weights.as_floats()?)?;
        let output = Tensor::of_floats(input.element(), &shape, values)?;
        Ok(vec![add_bias(output, call.optional(2))?])
    }),
    operator("ConvInteger", 10, 4, CONV, |call| {
        let input = shifted(call.input(0)?, call.optional(2), None)?;
        let weights = shifted(call.input(1)?, call.optional(3), Some(0))?;
        // Sums of products of 9 bits are exact in f64.
        let (shape, values) = convolve(call, &input.to_floats(), &weights.to_floats())?;
        let sums = Tensor::of_floats(crate::Element::Float64, &shape, values)?;
        Ok(vec![super::arithmetic::cast(&sums, crate::Element::Int32)?])
    }),
    operator("ConvTranspose", 7, 3, TRANSPOSED, transposed_convolution),
];

/// Returns the spatial sizes of the kernel, which `kernel_shape` may repeat.
fn kernel<'a>(call: &Call<'_>, weights: &'a [usize]) -> Result<&'a [usize], Fault> {
    let (.., kernel) = image(weights)?;
    match call.integers("kernel_shape")? {
        Some(stated) if sizes_of(&stated)? != kernel => {
            fault(format!("kernel_shape {stated:?} for weights of {weights:?}"))
        }
        _ => Ok(kernel),
    }
}

/// Sums for each output channel and window the products with the kernel. Returns shape and values.
fn convolve(
    call: &Call<'_>,
    input: &[f64],
    weights: &[f64],
) -> Result<(Vec<usize>, Vec<f64>), Fault> {
    let (input_shape, weight_shape) = (call.input(0)?.shape(), call.input(1)?.shape());
    let (batch, channels, sizes) = image(input_shape)?;
    let kernel = kernel(call, weight_shape)?;
    let (outputs, group_channels) = (weight_shape[0], weight_shape[1]);
    let groups = size_of(call.integer("group", 1)?)?;
    let fits = groups > 0
        && outputs.is_multiple_of(groups)
        && group_channels.checked_mul(groups) == Some(channels);
    if !fits {
        return fault(format!(
            "weights of {weight_shape:?} for {channels} channels in {groups} groups"
        ));
    }
    let windows = Windows::new(call, sizes, kernel)?;
    let shape = [&[batch, outputs], &windows.outputs[..]].concat();
    let count = call.spend_shape(&shape)?;
    let taps: usize = kernel.iter().product();
    call.spend_product(&[count, group_channels, taps])?;
    let area: usize = sizes.iter().product();
    let places: usize = windows.outputs.iter().product();
    let mut values = vec![0.0; count];
    // The elements of a window, each with its number in the kernel. All channels have them.
    let mut sources = Vec::with_capacity(taps);
    let mut place = 0;
    for_each_index(&windows.outputs, |window| {
        sources.clear();
        let mut number = 0_usize;
        for_each_index(kernel, |tap| {
            if let Some(source) = windows.source(window, tap, sizes) {
                sources.push((number, position(&source, sizes)));
            }
            number += 1;
        });
        for at in 0..batch * outputs {
            let (image, output) = (at / outputs, at % outputs);
            let first = image * channels + output / (outputs / groups) * group_channels;
            let mut sum = 0.0;
            for (tap, source) in &sources {
                for channel in 0..group_channels {
                    sum += input[(first + channel) * area + source]
                        * weights[(output * group_channels + channel) * taps + tap];
                }
            }
            values[at * places + place] = sum;
        }
        place += 1;
    });
    Ok((shape, values))
}

fn add_bias(output: Tensor, bias: Option<&Tensor>) -> Result<Tensor, Fault> {
    let Some(bias) = bias else { return Ok(output) };
    let (_, channels, sizes) = image(output.shape())?;
    if bias.shape() != [channels] {
        return fault(format!("bias of {:?} for {channels} channels", bias.shape()));
    }
    let (bias, area) = (bias.as_floats()?, sizes.iter().product::<usize>().max(1));
    let values = output.as_floats()?.iter().enumerate();
    let values = values.map(|(element, value)| value + bias[element / area % channels]).collect();
    Tensor::of_floats(output.element(), output.shape(), values)
}

/// Adds each element of a column to the element of the image that a window sees there.
fn image_of_columns(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let sizes = sizes_of(call.input(1)?.as_integers()?)?;
    let kernel = sizes_of(call.input(2)?.as_integers()?)?;
    let windows = Windows::new(call, &sizes, &kernel)?;
    let (taps, count) = (element_count(&kernel)?, element_count(&windows.outputs)?);
    let (batch, channels) = match input.shape() {
        [batch, rows, columns] if rows.is_multiple_of(taps) && *columns == count => {
            (*batch, rows / taps)
        }
        shape => return fault(format!("columns of {shape:?} for {count} windows of {kernel:?}")),
    };
    let shape = [&[batch, channels], &sizes[..]].concat();
    let mut values = vec![0.0_f64; call.spend_shape(&shape)?];
    call.spend(input.count())?;
    let mut elements = input.as_floats()?.iter();
    for_each_index(&[batch, channels], |channel| {
        for_each_index(&kernel, |tap| {
            for_each_index(&windows.outputs, |window| {
                let element = elements.next().unwrap_or(&0.0);
                if let Some(source) = windows.source(window, tap, &sizes) {
                    values[position(&[channel, &source[..]].concat(), &shape)] += element;
                }
            });
        });
    });
    Ok(vec![Tensor::of_floats(input.element(), &shape, values)?])
}

/// Adds each element of the input, times the kernel, to the window of the output where it lies.
fn transposed_convolution(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, weights) = (call.input(0)?, call.input(1)?);
    let (batch, channels, sizes) = image(input.shape())?;
    let kernel = kernel(call, weights.shape())?;
    let group_outputs = weights.shape()[1];
    let groups = size_of(call.integer("group", 1)?)?;
    if weights.shape()[0] != channels || groups == 0 || !channels.is_multiple_of(groups) {
        return fault(format!(
            "weights of {:?} for {channels} channels in {groups} groups",
            weights.shape()
        ));
    }
    let mut windows = Windows::unplaced(call, sizes.len(), kernel)?;
    let results = transposed_sizes(call, &mut windows, sizes)?;
    let shape = [&[batch, group_outputs * groups], &results[..]].concat();
    let taps: usize = kernel.iter().product();
    let count = call.spend_shape(&shape)?;
    call.spend_product(&[input.count(), group_outputs, taps])?;
    let (values, factors) = (input.as_floats()?, weights.as_floats()?);
    let area: usize = results.iter().product();
    let mut output = vec![0.0; count];
    let mut element = 0;
    for_each_index(input.shape(), |index| {
        let (image, channel, window) = (index[0], index[1], &index[2..]);
        let first = channel / (channels / groups) * group_outputs;
        let mut tap_number = 0;
        for_each_index(kernel, |tap| {
            if let Some(target) = windows.source(window, tap, &results) {
                let target = position(&target, &results);
                for result in 0..group_outputs {
                    let place = (image * group_outputs * groups + first + result) * area + target;
                    let factor = factors[(channel * group_outputs + result) * taps + tap_number];
                    output[place] += values[element] * factor;
                }
            }
            tap_number += 1;
        });
        element += 1;
    });
    let output = Tensor::of_floats(input.element(), &shape, output)?;
    Ok(vec![add_bias(output, call.optional(2))?])
}

/// Returns the spatial sizes of the result, and places the padding that they imply.
fn transposed_sizes(
    call: &Call<'_>,
    windows: &mut Windows,
    sizes: &[usize],
) -> Result<Vec<usize>, Fault> {
    let rank = sizes.len();
    let added = match call.integers("output_padding")? {
        Some(added) if added.len() == rank => sizes_of(&added)?,
        Some(added) => return fault(format!("output_padding {added:?} for {rank} dimensions")),
        None => vec![0; rank],
    };
    let stated = match call.integers("output_shape")? {
        // Old files state batch and channels, too.
        Some(stated) if stated.len() >= rank => Some(sizes_of(&stated[stated.len() - rank..])?),
        Some(stated) => return fault(format!("output_shape {stated:?} for {rank} dimensions")),
        None => None,
    };
    let mode = call.text("auto_pad", "NOTSET")?;
    let mut results = Vec::new();
    for axis in 0..rank {
        let stride = windows.strides[axis];
        let Some(steps) = sizes[axis].checked_sub(1) else { return fault("the input is empty") };
        let full = steps.saturating_mul(stride).saturating_add(added[axis]);
        let full = full.saturating_add(windows.extent(axis)?);
        let wanted = match &stated {
            Some(stated) => Some(stated[axis]),
            None if mode.starts_with("SAME") => Some(sizes[axis].saturating_mul(stride)),
            None => None,
        };
        if let Some(wanted) = wanted {
            // The standard's tests have one element beyond all windows at the end. Its equations
            // halve the negative padding of others, and peers round it differently.
            if wanted.saturating_sub(full) > usize::from(mode != "SAME_UPPER") {
                return fault(format!("windows cover {full} of {wanted} elements of the output"));
            }
            windows.place(axis, full.saturating_sub(wanted), mode != "SAME_UPPER");
            results.push(wanted);
        } else {
            let pads = windows.begins[axis] + windows.ends[axis];
            let Some(size) = full.checked_sub(pads) else { return fault("the result is empty") };
            results.push(size);
        }
    }
    Ok(results)
}
