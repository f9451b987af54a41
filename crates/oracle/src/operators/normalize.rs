//! Normalizations.

use super::{Operator, operator};
use crate::call::{Call, axes_of, size_of};
use crate::fault::{Fault, fault};
use crate::tensor::{Lanes, Tensor, for_each_index, position};

const BATCH: &[&str] = &["epsilon", "momentum", "spatial", "training_mode"];

pub(super) const OPERATORS: &[Operator] = &[
    operator("BatchNormalization", 7, 5, BATCH, batch_normalization),
    operator("GroupNormalization", 18, 3, &["epsilon", "num_groups", "stash_type"], group),
    operator("InstanceNormalization", 7, 3, &["epsilon"], instance),
    operator("LayerNormalization", 17, 3, &["axis", "epsilon", "stash_type"], layer),
    operator("LpNormalization", 7, 1, &["axis", "p"], by_norm),
    operator("LRN", 7, 1, &["alpha", "beta", "bias", "size"], local_response),
    operator("MeanVarianceNormalization", 9, 1, &["axes"], mean_variance),
    operator("RMSNormalization", 23, 2, &["axis", "epsilon", "stash_type"], root_mean_square),
];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let center = mean(values);
    let squares: Vec<f64> = values.iter().map(|value| (value - center).powi(2)).collect();
    (center, mean(&squares))
}

/// Returns an input of one number for each channel.
fn per_channel<'a>(call: &'a Call<'_>, number: usize, channels: usize) -> Result<&'a [f64], Fault> {
    let input = call.input(number)?;
    if input.shape() != [channels] {
        return fault(format!("input {number} of {:?} for {channels} channels", input.shape()));
    }
    input.as_floats()
}

/// Returns the number of channels: dimension 1, or 1 for a vector.
fn channels(input: &Tensor) -> usize {
    input.shape().get(1).copied().unwrap_or(1)
}

fn batch_normalization(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    if call.flag("training_mode", false)? || !call.flag("spatial", true)? {
        return fault("training_mode=1 and spatial=0 are not supported");
    }
    let input = call.input(0)?;
    let channels = channels(input);
    let [scale, bias, mean, variance] =
        [1, 2, 3, 4].map(|number| per_channel(call, number, channels));
    let (scale, bias, mean, variance) = (scale?, bias?, mean?, variance?);
    let epsilon = call.float("epsilon", 1e-5)?;
    let area: usize = input.shape().iter().skip(2).product::<usize>().max(1);
    let values = input.as_floats()?.iter().enumerate().map(|(element, value)| {
        let channel = element / area % channels;
        scale[channel] * (value - mean[channel]) / (variance[channel] + epsilon).sqrt()
            + bias[channel]
    });
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), values.collect())?])
}

/// Normalizes runs of `length` elements to mean 0 and variance 1.
fn normalized(input: &Tensor, length: usize, epsilon: f64) -> Result<Vec<f64>, Fault> {
    if length == 0 {
        return fault("the mean of no elements is undefined");
    }
    let runs = input.as_floats()?.chunks_exact(length);
    Ok(runs
        .flat_map(|run| {
            let (center, variance) = moments(run);
            run.iter().map(move |value| (value - center) / (variance + epsilon).sqrt())
        })
        .collect())
}

fn instance(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let channels = channels(input);
    let (scale, bias) = (per_channel(call, 1, channels)?, per_channel(call, 2, channels)?);
    let area: usize = input.shape().iter().skip(2).product();
    let mut values = normalized(input, area, call.float("epsilon", 1e-5)?)?;
    for (element, value) in values.iter_mut().enumerate() {
        let channel = element / area % channels;
        *value = *value * scale[channel] + bias[channel];
    }
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), values)?])
}

/// Normalizes groups of channels. Scale and bias belong to groups before opset 21, to channels since.
fn group(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let channels = channels(input);
    let groups = size_of(call.integer("num_groups", 0)?)?;
    if groups == 0 || !channels.is_multiple_of(groups) {
        return fault(format!("{channels} channels in {groups} groups"));
    }
    let area: usize = input.shape().iter().skip(2).product();
    let parts = if call.opset < 21 { groups } else { channels };
    let (scale, bias) = (per_channel(call, 1, parts)?, per_channel(call, 2, parts)?);
    let mut values = normalized(input, channels / groups * area, call.float("epsilon", 1e-5)?)?;
    for (element, value) in values.iter_mut().enumerate() {
        let part = element / area % channels * parts / channels;
        *value = *value * scale[part] + bias[part];
    }
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), values)?])
}

/// Normalizes over the dimensions from the axis on. Returns the result, means, and inverse deviations.
fn layer(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let axis = call.axis(-1, input.rank())?;
    let epsilon = call.float("epsilon", 1e-5)?;
    let length: usize = input.shape()[axis..].iter().product();
    let values = normalized(input, length, epsilon)?;
    let values = scaled(call, values)?;
    let moments = input.as_floats()?.chunks_exact(length).map(moments);
    let (means, inverses): (Vec<f64>, Vec<f64>) =
        moments.map(|(center, variance)| (center, 1.0 / (variance + epsilon).sqrt())).unzip();
    let mut shape = input.shape().to_vec();
    shape[axis..].fill(1);
    let element = stash_type(call)?;
    Ok(vec![
        Tensor::of_floats(input.element(), input.shape(), values)?,
        Tensor::of_floats(element, &shape, means)?,
        Tensor::of_floats(element, &shape, inverses)?,
    ])
}

/// Returns the type in which means are stored.
fn stash_type(call: &Call<'_>) -> Result<crate::Element, Fault> {
    match crate::Element::from_code(call.integer("stash_type", 1)?) {
        Some(element) if element.is_float() => Ok(element),
        _ => fault("attribute \"stash_type\": expected a floating-point type"),
    }
}

/// Multiplies by input 1, and adds input 2 if it is there; both broadcast.
fn scaled(call: &Call<'_>, mut values: Vec<f64>) -> Result<Vec<f64>, Fault> {
    let shape = call.input(0)?.shape();
    let scale = call.input(1)?.broadcast(shape)?;
    for (value, scale) in values.iter_mut().zip(scale.as_floats()?) {
        *value *= scale;
    }
    if let Some(bias) = call.optional(2) {
        for (value, bias) in values.iter_mut().zip(bias.broadcast(shape)?.as_floats()?) {
            *value += bias;
        }
    }
    Ok(values)
}

fn root_mean_square(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let axis = call.axis(-1, input.rank())?;
    let epsilon = call.float("epsilon", 1e-5)?;
    let length: usize = input.shape()[axis..].iter().product();
    if length == 0 {
        return fault("the mean of no elements is undefined");
    }
    let runs = input.as_floats()?.chunks_exact(length).flat_map(|run| {
        let squares: Vec<f64> = run.iter().map(|value| value * value).collect();
        let root = (mean(&squares) + epsilon).sqrt();
        run.iter().map(move |value| value / root)
    });
    let values = scaled(call, runs.collect())?;
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), values)?])
}

/// Divides the elements along an axis by their norm.
fn by_norm(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let lanes = Lanes::new(input.shape(), call.axis(-1, input.rank())?);
    let power = call.integer("p", 2)?;
    let mut values = input.as_floats()?.to_vec();
    for lane in lanes.positions() {
        let own = lane.iter().map(|position| values[*position]);
        let norm = match power {
            1 => own.map(f64::abs).sum::<f64>(),
            2 => own.map(|value| value * value).sum::<f64>().sqrt(),
            other => return fault(format!("attribute \"p\": expected 1 or 2, found {other}")),
        };
        for position in lane {
            // The standard leaves 0 / 0 open; engines agree on 0.
            values[position] = if norm == 0.0 { 0.0 } else { values[position] / norm };
        }
    }
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), values)?])
}

/// Divides by a power of the squares in neighboring channels.
fn local_response(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let (alpha, beta) = (call.float("alpha", 0.0001)?, call.float("beta", 0.75)?);
    let bias = call.float("bias", 1.0)?;
    let size = size_of(call.integer("size", 0)?)?;
    if size == 0 || input.rank() < 2 {
        return fault("expected a size of 1 or more, and channels");
    }
    let (values, channels) = (input.as_floats()?, channels(input));
    call.spend_product(&[input.count(), size.min(channels)])?;
    let mut output = Vec::with_capacity(values.len());
    for_each_index(input.shape(), |index| {
        let first = index[1].saturating_sub((size - 1) / 2);
        let last = index[1].saturating_add(size / 2).min(channels - 1);
        let mut own = index.to_vec();
        let mut squares = 0.0;
        for channel in first..=last {
            own[1] = channel;
            squares += values[position(&own, input.shape())].powi(2);
        }
        let value = values[position(index, input.shape())];
        output.push(value / (bias + alpha / size as f64 * squares).powf(beta));
    });
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), output)?])
}

/// Subtracts the mean over some dimensions, and divides by the deviation.
fn mean_variance(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let axes = call.integers("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let axes = axes_of(&axes, input.rank())?;
    let kept: Vec<usize> = (0..input.rank()).filter(|axis| !axes.contains(axis)).collect();
    let order = [&kept[..], &axes].concat();
    let moved = super::layout::transpose(input, &order)?;
    let length: usize = axes.iter().map(|axis| input.shape()[*axis]).product();
    if length == 0 {
        return fault("the mean of no elements is undefined");
    }
    let runs = moved.as_floats()?.chunks_exact(length).flat_map(|run| {
        let (center, variance) = moments(run);
        run.iter().map(move |value| (value - center) / (variance.sqrt() + 1e-9))
    });
    let moved = Tensor::of_floats(input.element(), moved.shape(), runs.collect())?;
    let mut inverse = vec![0; order.len()];
    for (place, axis) in order.iter().enumerate() {
        inverse[*axis] = place;
    }
    Ok(vec![super::layout::transpose(&moved, &inverse)?])
}
