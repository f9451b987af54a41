//! Normalization: of probabilities, and by mean and variance.

use dyno_kernels::{Isa, log_softmax, mean, mean_square, softmax, standardize};

use super::broadcast::sum;
use super::reduce::check_order;
use super::{layout, name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Value, axis};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("", operator @ ("Softmax" | "LogSoftmax" | "Hardmax")) => probabilities(
            reader,
            match operator {
                "Softmax" => Form::Shares,
                "LogSoftmax" => Form::Logarithms,
                _ => Form::Winner,
            },
        ),
        ("", "LpNormalization") => {
            let (along, p) = (reader.axis("axis", -1)?, reader.int("p", 2)?);
            if p != 1 && p != 2 {
                return Err(format!("norm {p} is not supported"));
            }
            one(move |frame| {
                lines(frame.take(0)?, along, |line| {
                    let sum: f64 = line
                        .iter()
                        .map(|x| f64::from(*x))
                        .map(|x| if p == 1 { x.abs() } else { x * x })
                        .sum();
                    let norm = if p == 1 { sum } else { sum.sqrt() };
                    // Zeros stay zeros.
                    let norm = if norm == 0.0 { 1.0 } else { norm };
                    line.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
                })
            })
        }
        ("", "MeanVarianceNormalization") => {
            let axes = reader.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
            reader.check_axes(&axes, 0)?;
            one(move |frame| mean_variance(frame.workspace.isa, frame.input(0)?, &axes))
        }
        ("", "LRN") => {
            let [alpha, beta] = [reader.float("alpha", 1e-4)?, reader.float("beta", 0.75)?];
            let (bias, size) = (reader.float("bias", 1.0)?, reader.int("size", 0)?);
            let size = usize::try_from(size).ok().filter(|n| *n > 0).ok_or("expected a size")?;
            one(move |frame| response(frame.input(0)?, size, [alpha, beta, bias]))
        }
        _ => by_moments(reader),
    }
}

/// Default `epsilon` of ONNX Runtime's normalizations of sums. Those of the standard have 1e-5.
const SKIP_EPSILON: f32 = 1e-12;

/// Reads operators that divide by a standard deviation.
fn by_moments(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("", "BatchNormalization") => {
            let epsilon = reader.float("epsilon", 1e-5)?;
            reader.ignore("momentum");
            // Before version 14, outputs for means state that the node trains.
            let trains = reader.node.outputs.iter().skip(1).any(|name| !name.is_empty());
            if trains || reader.flag("training_mode")? || reader.int("spatial", 1)? != 1 {
                return Err("only inference over channels is supported".into());
            }
            one(move |frame| batch_normalization(frame, epsilon))
        }
        ("", "InstanceNormalization") => {
            let epsilon = reader.float("epsilon", 1e-5)?;
            one(move |frame| {
                let channels = *frame.input(0)?.dims().get(1).ok_or("expected channels")?;
                group_normalization(frame, channels, epsilon, Parameters::PerChannel)
            })
        }
        ("", "GroupNormalization") => {
            let epsilon = reader.float("epsilon", 1e-5)?;
            let groups = usize::try_from(reader.int("num_groups", 0)?).unwrap_or(0);
            reader.ignore("stash_type");
            let parameters =
                if reader.version < 21 { Parameters::PerGroup } else { Parameters::PerChannel };
            one(move |frame| group_normalization(frame, groups, epsilon, parameters))
        }
        ("", "LayerNormalization") => {
            let (along, epsilon) = (reader.axis("axis", -1)?, reader.float("epsilon", 1e-5)?);
            reader.ignore("stash_type");
            Ok(Some(Box::new(move |frame| {
                let (isa, x) = (frame.workspace.isa, frame.take(0)?);
                layer_normalization(isa, x, (frame.input(1)?, frame.get(2)), along, epsilon)
            })))
        }
        ("com.microsoft", "SkipLayerNormalization") => {
            let epsilon = reader.float("epsilon", SKIP_EPSILON)?;
            Ok(Some(Box::new(move |frame| {
                let sum = sum_with_skip(frame, 4)?;
                let weights = (frame.input(2)?, frame.get(3));
                let isa = frame.workspace.isa;
                let mut outputs = layer_normalization(isa, sum.clone(), weights, -1, epsilon)?;
                outputs.push(sum);
                Ok(outputs)
            })))
        }
        _ => by_mean_square(reader),
    }
}

/// Returns the sum of the first two inputs and of the bias, if the node has one.
fn sum_with_skip(frame: &Frame<'_>, bias: usize) -> Result<Value, String> {
    let both = sum(frame.input(0)?.clone(), frame.input(1)?.clone())?;
    match frame.get(bias) {
        Some(bias) => sum(both, bias.clone()),
        None => Ok(both),
    }
}

/// Reads operators that divide by the root of a mean square.
fn by_mean_square(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        // ONNX Runtime writes it without a domain of its own.
        ("", "RMSNormalization" | "SimplifiedLayerNormalization") => {
            let (along, epsilon) = (reader.axis("axis", -1)?, reader.float("epsilon", 1e-5)?);
            reader.ignore("stash_type");
            Ok(Some(Box::new(move |frame| {
                let (isa, x) = (frame.workspace.isa, frame.take(0)?);
                root_mean_square(isa, x, frame.input(1)?, along, epsilon)
            })))
        }
        ("com.microsoft", "SkipSimplifiedLayerNormalization") => {
            let epsilon = reader.float("epsilon", SKIP_EPSILON)?;
            Ok(Some(Box::new(move |frame| {
                let sum = sum_with_skip(frame, 3)?;
                let isa = frame.workspace.isa;
                let mut outputs = root_mean_square(isa, sum.clone(), frame.input(2)?, -1, epsilon)?;
                // A mean, which is not subtracted, is between them.
                outputs.insert(1, outputs[1].clone());
                outputs.push(sum);
                Ok(outputs)
            })))
        }
        _ => Ok(None),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Shares,
    Logarithms,
    Winner,
}

fn probabilities(reader: &NodeReader<'_>, form: Form) -> Result<Option<Operation>, String> {
    let is_old = reader.version < 13;
    let along = reader.int("axis", if is_old { 1 } else { -1 })?;
    reader.check_axes(&[along], usize::from(is_old && along >= 0))?;
    one(move |frame| {
        let (isa, value) = (frame.workspace.isa, frame.take(0)?);
        if form == Form::Winner {
            check_order(&value)?;
        }
        if !is_old {
            return lines(value, along, |line| normalize(isa, line, form));
        }
        // Before version 13, all axes from `axis` on are one.
        let dims = value.dims().to_vec();
        let rank = dims.len();
        let at = if along == rank as i64 { rank } else { axis(along, rank)? };
        let (outer, inner) = dims.split_at(at);
        let flat = vec![outer.iter().product(), inner.iter().product()];
        let found = lines(value.reshaped(flat)?, 1, |line| normalize(isa, line, form))?;
        found.reshaped(dims)
    })
}

fn normalize(isa: Isa, line: &mut [f32], form: Form) {
    match form {
        Form::Shares => softmax(isa, line),
        Form::Logarithms => log_softmax(isa, line),
        Form::Winner => {
            let most = line.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let first = line.iter().position(|x| *x == most);
            line.fill(0.0);
            if let Some(first) = first {
                line[first] = 1.0;
            }
        }
    }
}

/// Changes each line of numbers along an axis.
fn lines(value: Value, along: i64, change: impl Fn(&mut [f32])) -> Result<Value, String> {
    let rank = value.dims().len();
    if rank == 0 {
        let mut all = value.into_vec::<f32>()?;
        change(&mut all);
        return Value::new(Vec::new(), all);
    }
    let at = axis(along, rank)?;
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(at, rank - 1);
    let turned = layout::transposed(&value, Some(&order))?;
    drop(value);
    let dims = turned.dims().to_vec();
    let mut all = turned.into_vec::<f32>()?;
    let width = dims[rank - 1];
    if width > 0 {
        all.chunks_exact_mut(width).for_each(change);
    }
    layout::transposed(&Value::new(dims, all)?, Some(&order))
}

fn batch_normalization(frame: &mut Frame<'_>, epsilon: f32) -> Result<Value, String> {
    let value = frame.take(0)?;
    let dims = value.dims().to_vec();
    let channels = *dims.get(1).ok_or("expected channels")?;
    let inner: usize = dims[2..].iter().product();
    let [scale, bias, mean, variance] =
        [1, 2, 3, 4].map(|at| frame.input(at).and_then(|value| value.all::<f32>()));
    let (scale, bias, mean, variance) = (scale?, bias?, mean?, variance?);
    if [scale, bias, mean, variance].iter().any(|all| all.len() != channels) {
        return Err(format!("expected parameters of {channels} channels"));
    }
    let factors: Vec<f32> =
        scale.iter().zip(variance).map(|(scale, x)| scale / (x + epsilon).sqrt()).collect();
    let mut all = value.into_vec::<f32>()?;
    if inner > 0 {
        for (at, block) in all.chunks_exact_mut(inner).enumerate() {
            let channel = at % channels;
            let (factor, mean, bias) = (factors[channel], mean[channel], bias[channel]);
            block.iter_mut().for_each(|x| *x = (*x - mean) * factor + bias);
        }
    }
    Value::new(dims, all)
}

/// Returns the mean, and the inverse of the standard deviation.
fn moments(isa: Isa, line: &[f32], epsilon: f32) -> (f64, f64) {
    let mean = mean(isa, line);
    let variance = mean_square(isa, line, mean);
    (mean, 1.0 / (variance + f64::from(epsilon)).sqrt())
}

#[derive(Clone, Copy)]
enum Parameters {
    PerChannel,
    PerGroup,
}

fn group_normalization(
    frame: &mut Frame<'_>,
    groups: usize,
    epsilon: f32,
    parameters: Parameters,
) -> Result<Value, String> {
    let (isa, value) = (frame.workspace.isa, frame.take(0)?);
    let dims = value.dims().to_vec();
    let channels = *dims.get(1).ok_or("expected channels")?;
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(format!("cannot divide {channels} channels into {groups} groups"));
    }
    let (scale, bias) = (frame.input(1)?.all::<f32>()?, frame.input(2)?.all::<f32>()?);
    let each_group = channels / groups;
    let expected = match parameters {
        Parameters::PerChannel => channels,
        Parameters::PerGroup => groups,
    };
    if scale.len() != expected || bias.len() != expected {
        return Err(format!("expected {expected} scales and biases"));
    }
    let inner: usize = dims[2..].iter().product();
    let mut all = value.into_vec::<f32>()?;
    if each_group * inner > 0 {
        for (group, block) in all.chunks_exact_mut(each_group * inner).enumerate() {
            let (mean, factor) = moments(isa, block, epsilon);
            for (channel, line) in block.chunks_exact_mut(inner).enumerate() {
                let group = group % groups;
                let at = match parameters {
                    Parameters::PerChannel => group * each_group + channel,
                    Parameters::PerGroup => group,
                };
                let (scale, bias) = (f64::from(scale[at]), f64::from(bias[at]));
                line.iter_mut().for_each(|x| {
                    *x = ((f64::from(*x) - mean) * factor * scale + bias) as f32;
                });
            }
        }
    }
    Value::new(dims, all)
}

/// Returns the normalized numbers, and the mean and the inverse deviation of each line.
fn layer_normalization(
    isa: Isa,
    value: Value,
    weights: (&Value, Option<&Value>),
    along: i64,
    epsilon: f32,
) -> Result<Vec<Value>, String> {
    normalized(isa, value, weights, along, |line| moments(isa, line, epsilon))
}

/// Divides the elements of each line by the root of their mean square and multiplies them by `scale`.
/// Returns them and the inverses of the roots.
fn root_mean_square(
    isa: Isa,
    value: Value,
    scale: &Value,
    along: i64,
    epsilon: f32,
) -> Result<Vec<Value>, String> {
    let mut outputs = normalized(isa, value, (scale, None), along, |line| {
        (0.0, 1.0 / (mean_square(isa, line, 0.0) + f64::from(epsilon)).sqrt())
    })?;
    // The mean, which is not subtracted.
    outputs.remove(1);
    Ok(outputs)
}

/// Returns the normalized numbers, and the mean and the factor of each line, as `moments` returns them.
fn normalized(
    isa: Isa,
    value: Value,
    (scale, bias): (&Value, Option<&Value>),
    along: i64,
    moments: impl Fn(&[f32]) -> (f64, f64),
) -> Result<Vec<Value>, String> {
    let whole = value.dims().to_vec();
    let at = axis(along, whole.len())?;
    let (outer, inner) = whole.split_at(at);
    let width: usize = inner.iter().product();
    let scale = layout::expanded_to(scale, inner)?;
    let bias = bias.map(|bias| layout::expanded_to(bias, inner)).transpose()?;
    let scale = scale.all::<f32>()?;
    let bias = bias.as_ref().map(|bias| bias.all::<f32>()).transpose()?;
    let mut all = value.into_vec::<f32>()?;
    let (mut means, mut factors) = (Vec::new(), Vec::new());
    if width > 0 {
        for line in all.chunks_exact_mut(width) {
            let (mean, factor) = moments(line);
            standardize(isa, line, mean, factor);
            line.iter_mut().zip(scale).for_each(|(x, scale)| *x *= scale);
            if let Some(bias) = bias {
                line.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
            }
            means.push(mean as f32);
            factors.push(factor as f32);
        }
    }
    let mut dims = outer.to_vec();
    dims.resize(whole.len(), 1);
    means.resize(dims.iter().product(), 0.0);
    factors.resize(means.len(), 0.0);
    Ok(vec![Value::new(whole, all)?, Value::new(dims.clone(), means)?, Value::new(dims, factors)?])
}

/// Returns the numbers minus their mean over some axes, divided by their deviation.
fn mean_variance(isa: Isa, value: &Value, axes: &[i64]) -> Result<Value, String> {
    let rank = value.dims().len();
    let axes: Vec<usize> = axes.iter().map(|at| axis(*at, rank)).collect::<Result<_, _>>()?;
    let (combined, kept): (Vec<usize>, Vec<usize>) = (0..rank).partition(|at| axes.contains(at));
    let width: usize = combined.iter().map(|at| value.dims()[*at]).product();
    let order = [kept, combined].concat();
    let turned = layout::transposed(value, Some(&order))?;
    let dims = turned.dims().to_vec();
    let mut all = turned.into_vec::<f32>()?;
    for line in all.chunks_exact_mut(width.max(1)) {
        let (mean, factor) = moments(isa, line, 0.0);
        let deviation = 1.0 / factor + 1e-9;
        line.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) / deviation) as f32);
    }
    let mut back = vec![0; rank];
    for (place, at) in order.iter().enumerate() {
        back[*at] = place;
    }
    layout::transposed(&Value::new(dims, all)?, Some(&back))
}

/// Local response normalization over channels.
fn response(value: &Value, size: usize, [alpha, beta, bias]: [f32; 3]) -> Result<Value, String> {
    let &[_, channels, ..] = value.dims() else { return Err("expected channels".into()) };
    let inner: usize = value.dims()[2..].iter().product();
    let from = value.all::<f32>()?;
    let mut all = Vec::with_capacity(from.len());
    let (before, after) = ((size - 1) / 2, size - 1 - (size - 1) / 2);
    for place in 0..from.len() {
        let (block, at) = (place / inner, place % inner);
        let (image, channel) = (block / channels, block % channels);
        let near = channel.saturating_sub(before)
            ..(channel.saturating_add(after).saturating_add(1)).min(channels);
        let squares = near.map(|channel| from[(image * channels + channel) * inner + at].powi(2));
        let sum: f32 = squares.sum();
        all.push(from[place] / (bias + alpha / size as f32 * sum).powf(beta));
    }
    Value::new(value.dims(), all)
}
