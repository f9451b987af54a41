//! Operators of a graph, from tensors to tensors.

use super::super::stage::{Stage, softmax};
use super::convolve::{GroupedConvolution, image, of_pixels, to_pixels};
use super::elementwise::{BinaryOp, UnaryOp};
use super::quantize;
use super::recurrent::{InitialStates, RecurrentLayer};
use super::target::Context;
use super::tensor::{Mismatch, Reduction, Tensor, place, room};
use crate::codec::NanError;

/// Why a step cannot be computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StepError {
    Nan(NanError),
    Mismatch(Mismatch),
    /// A table with `count` rows has none with this number.
    Row {
        number: i64,
        count: usize,
    },
}

impl From<NanError> for StepError {
    fn from(error: NanError) -> Self {
        Self::Nan(error)
    }
}

impl From<Mismatch> for StepError {
    fn from(why: Mismatch) -> Self {
        Self::Mismatch(why)
    }
}

/// Operator of a step. Axes and sizes that are inputs in ONNX are read during execution.
#[derive(Debug)]
pub(super) enum Op {
    /// Product of rows with a target's weights.
    Rows {
        target: usize,
        stage: usize,
    },
    /// Convolution of images.
    Convolution {
        target: usize,
        stage: usize,
    },
    /// Convolution in groups or with dilations.
    Grouped {
        target: usize,
        convolution: GroupedConvolution,
    },
    /// Pool of images.
    Pool(Box<Stage>),
    /// Rows of a table of weights, by index.
    Table {
        target: usize,
        width: usize,
    },
    Recurrent(Box<RecurrentLayer>),
    Unary(UnaryOp),
    Binary(BinaryOp),
    MatMul,
    Clip,
    Softmax(i64),
    /// `LayerNormalization` from an axis on; scale and shift are inputs.
    Normalise {
        axis: i64,
        epsilon: f32,
    },
    /// One factor and one addend per channel, the second axis.
    Channels {
        scale: Vec<f32>,
        shift: Vec<f32>,
    },
    Reduce {
        how: Reduction,
        axes: Axes,
        keeps: bool,
        spares_empty: bool,
    },
    ArgMax {
        axis: i64,
        keeps: bool,
    },
    Reshape {
        zero_is_zero: bool,
    },
    Flatten(i64),
    Transpose(Option<Vec<usize>>),
    Concat(i64),
    Gather(i64),
    Slice(Option<[Vec<i64>; 3]>),
    /// Sizes of the parts; otherwise `parts` parts of equal size, with a smaller last one if
    /// necessary.
    Split {
        axis: i64,
        sizes: Option<Vec<i64>>,
        parts: usize,
    },
    Unsqueeze(Axes),
    Squeeze(Axes),
    Expand,
    Shape,
    Where,
    CumSum {
        exclusive: bool,
    },
    /// `QuantizeLinear`: scale and zero point are inputs.
    Quantize {
        axis: i64,
        limits: [f32; 2],
    },
    Dequantize {
        axis: i64,
    },
    DynamicQuantize,
}

/// Axes: an attribute in old files, the second input in others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axes(pub Option<Vec<i64>>);

/// Inputs of a node; `None` if one is left out.
pub(super) type Inputs = Vec<Option<Tensor>>;

impl Op {
    /// Computes the outputs of the operator.
    ///
    /// # Errors
    /// An input does not fit, or a value is NaN.
    pub fn run(
        &self,
        mut inputs: Inputs,
        context: &mut Context<'_>,
    ) -> Result<Vec<Tensor>, StepError> {
        let x = inputs.first_mut().and_then(Option::take).ok_or_else(|| missing(0))?;
        let mut rest = RemainingInputs { inputs };
        let one = match self {
            Self::Rows { target, stage } => rows(*target, *stage, &x, context)?,
            Self::Convolution { target, stage } => {
                let product = &context.targets[*target].stages[*stage];
                let shape = image(&x, product.input)?;
                let values = to_pixels(&x.values, product.input);
                let output = product.output;
                let dims = shape.dims(product.output);
                let sums = context.product(*target, *stage, &values)?;
                Tensor::new(dims, of_pixels(&sums, output))
            }
            Self::Grouped { target, convolution } => convolution.run(*target, &x, context)?,
            Self::Pool(stage) => {
                let shape = image(&x, stage.input)?;
                let mut to = Vec::new();
                stage.run(None, &to_pixels(&x.values, stage.input), &mut to, context.scratch)?;
                Tensor::new(shape.dims(stage.output), of_pixels(&to, stage.output))
            }
            Self::Table { target, width } => {
                // Tables are large, so they are read in place.
                table(&context.prepared[*target].weights, *width, &x)?
            }
            Self::Recurrent(layer) => {
                let given = InitialStates {
                    lengths: rest.take(4),
                    hidden: rest.take(5),
                    cells: rest.take(6),
                };
                return layer.run(&x, &given, context);
            }
            Self::Unary(each) => x.each(|numbers| each.run(numbers)),
            Self::Binary(pair) => {
                let mut all = x;
                for at in 1..rest.inputs.len() {
                    all = pair.run(all, &rest.get(at)?)?;
                }
                all
            }
            Self::MatMul => x.multiplied(&rest.get(1)?)?,
            Self::Clip => {
                let bound = |input: Option<Tensor>, default: f32| {
                    input.and_then(|input| input.values.first().copied()).unwrap_or(default)
                };
                let (least, most) = (bound(rest.take(1), f32::MIN), bound(rest.take(2), f32::MAX));
                x.each(|numbers| UnaryOp::Clip(least, most).run(numbers))
            }
            Self::Softmax(axis) => shares(x, *axis)?,
            Self::Normalise { axis, epsilon } => {
                let (scale, shift) = (rest.get(1)?, rest.take(2));
                normalised(x, *axis, *epsilon, &scale, shift.as_ref())?
            }
            Self::Channels { scale, shift } => channels(x, scale, shift)?,
            Self::CumSum { exclusive } => summed(x, &rest.get(1)?, *exclusive)?,
            Self::Where => chosen(&x, rest.get(1)?, rest.get(2)?)?,
            Self::Split { axis, sizes, parts } => {
                let sizes = rest.take(1).map(|axes| axes.integers()).or_else(|| sizes.clone());
                return split(&x, *axis, sizes, *parts);
            }
            Self::Quantize { .. } | Self::Dequantize { .. } => self.coded(x, &mut rest)?,
            Self::DynamicQuantize => return Ok(quantize::dynamic_codes(x)?),
            _ => self.moved(x, &mut rest)?,
        };
        Ok(vec![one])
    }

    /// Computes operators between numbers and their codes.
    fn coded(&self, x: Tensor, rest: &mut RemainingInputs) -> Result<Tensor, StepError> {
        let (scale, zero) = (rest.get(1)?, rest.take(2));
        Ok(match self {
            Self::Quantize { axis, limits } => quantize::codes(x, scale, zero, *axis, *limits)?,
            Self::Dequantize { axis } => quantize::numbers(x, scale, zero, *axis)?,
            other => return Err(format!("is not done: {other:?}").into()),
        })
    }

    /// Computes operators that reduce or move numbers.
    fn moved(&self, x: Tensor, rest: &mut RemainingInputs) -> Result<Tensor, StepError> {
        Ok(match self {
            Self::Reduce { how, axes, keeps, spares_empty } => {
                let axes = rest.axes(axes, &x)?;
                if axes.is_empty() && *spares_empty {
                    return Ok(x);
                }
                x.reduced(&axes, *keeps, *how)?
            }
            Self::ArgMax { axis, keeps } => greatest(&x, *axis, *keeps)?,
            Self::Reshape { zero_is_zero } => {
                let dims = reshaped(&x.dims, &rest.get(1)?.integers(), *zero_is_zero)?;
                x.with_dims(dims)?
            }
            Self::Flatten(axis) => {
                let at = if *axis == x.dims.len() as i64 { x.dims.len() } else { x.axis(*axis)? };
                let dims = [x.dims[..at].iter().product(), x.dims[at..].iter().product()];
                x.with_dims(dims.into())?
            }
            Self::Transpose(order) => match order {
                Some(order) => x.transposed(order)?,
                None => x.transposed(&(0..x.dims.len()).rev().collect::<Vec<_>>())?,
            },
            Self::Concat(axis) => {
                let axis = x.axis(*axis)?;
                let others = rest.inputs.iter_mut().filter_map(Option::take);
                let parts: Vec<Tensor> = std::iter::once(x).chain(others).collect();
                Tensor::joined(&parts, axis)?
            }
            Self::Gather(axis) => x.gathered(x.axis(*axis)?, &rest.get(1)?)?,
            Self::Slice(given) => sliced(x, given.as_ref(), rest)?,
            Self::Unsqueeze(axes) => {
                let axes = rest.given(axes);
                let rank = x.dims.len() + axes.len();
                let place =
                    |axis: &i64| place(*axis, rank).ok_or_else(|| format!("has no axis {axis}"));
                let mut axes = axes.iter().map(place).collect::<Result<Vec<_>, _>>()?;
                axes.sort_unstable();
                let mut dims = x.dims.clone();
                axes.into_iter().for_each(|axis| dims.insert(axis.min(dims.len()), 1));
                x.with_dims(dims)?
            }
            Self::Squeeze(axes) => {
                let axes = rest.axes(axes, &x)?;
                let is_kept = |at: usize| match axes[..] {
                    [] => x.dims[at] != 1,
                    _ => !axes.contains(&at),
                };
                let kept = (0..x.dims.len()).filter(|at| is_kept(*at)).map(|at| x.dims[at]);
                let dims = kept.collect();
                x.with_dims(dims)?
            }
            Self::Expand => {
                let dims = rest.get(1)?.integers();
                let dims =
                    dims.iter().map(|n| usize::try_from(*n).unwrap_or(1)).collect::<Vec<_>>();
                x.expanded(&dims)?
            }
            Self::Shape => {
                let dims = x.dims.iter().map(|n| *n as f32).collect();
                Tensor::new(vec![x.dims.len()], dims)
            }
            other => return Err(format!("is not done: {other:?}").into()),
        })
    }
}

/// Inputs after the first.
struct RemainingInputs {
    inputs: Inputs,
}

impl RemainingInputs {
    fn take(&mut self, at: usize) -> Option<Tensor> {
        self.inputs.get_mut(at).and_then(Option::take)
    }

    fn get(&mut self, at: usize) -> Result<Tensor, Mismatch> {
        self.take(at).ok_or_else(|| missing(at))
    }

    fn given(&mut self, axes: &Axes) -> Vec<i64> {
        axes.0.clone().or_else(|| self.take(1).map(|axes| axes.integers())).unwrap_or_default()
    }

    fn axes(&mut self, axes: &Axes, x: &Tensor) -> Result<Vec<usize>, Mismatch> {
        self.given(axes).into_iter().map(|axis| x.axis(axis)).collect()
    }
}

fn missing(at: usize) -> Mismatch {
    format!("has no input {at}")
}

fn rows(
    target: usize,
    stage: usize,
    x: &Tensor,
    context: &mut Context<'_>,
) -> Result<Tensor, StepError> {
    let product = &context.targets[target].stages[stage];
    let k = product.input.len();
    let outputs = product.output.len();
    let mut dims = x.dims.clone();
    match dims.last_mut() {
        Some(last) if *last == k => *last = outputs,
        _ => return Err(format!("multiplies {:?} by {k} rows", x.dims).into()),
    }
    Ok(Tensor::new(dims, context.product(target, stage, &x.values)?))
}

fn table(weights: &[f32], width: usize, numbers: &Tensor) -> Result<Tensor, StepError> {
    let count = weights.len() / width;
    let mut dims = numbers.dims.clone();
    dims.push(width);
    let mut values = room(&dims)?;
    for number in numbers.integers() {
        let row = place(number, count).ok_or(StepError::Row { number, count })?;
        values.extend_from_slice(&weights[row * width..][..width]);
    }
    Ok(Tensor::new(dims, values))
}

fn shares(x: Tensor, axis: i64) -> Result<Tensor, Mismatch> {
    let at = x.axis(axis)?;
    let [_, along, within] = x.around(at);
    if within == 1 {
        return Ok(x.each(|numbers| numbers.chunks_exact_mut(along.max(1)).for_each(softmax)));
    }
    let mut order: Vec<usize> = (0..x.dims.len()).collect();
    let last = order.len() - 1;
    order.swap(at, last);
    shares(x.transposed(&order)?, -1)?.transposed(&order)
}

/// Normalizes all numbers from an axis on to mean 0 and variance 1, then applies the scale and the
/// shift of each position.
fn normalised(
    x: Tensor,
    axis: i64,
    epsilon: f32,
    scale: &Tensor,
    shift: Option<&Tensor>,
) -> Result<Tensor, Mismatch> {
    let at = x.axis(axis)?;
    let count: usize = x.dims[at..].iter().product();
    let is_wide = |input: &Tensor| input.values.len() == count;
    if count == 0 || !is_wide(scale) || shift.is_some_and(|shift| !is_wide(shift)) {
        return Err(format!("normalises {count} numbers with scales of {:?}", scale.dims));
    }
    Ok(x.each(|numbers| {
        for row in numbers.chunks_exact_mut(count) {
            let mean = row.iter().sum::<f32>() / count as f32;
            row.iter_mut().for_each(|x| *x -= mean);
            let variance = row.iter().map(|x| x * x).sum::<f32>() / count as f32;
            let by = 1.0 / (variance + epsilon).sqrt();
            row.iter_mut().zip(scale.values.iter()).for_each(|(x, scale)| *x *= by * scale);
            if let Some(shift) = shift {
                row.iter_mut().zip(shift.values.iter()).for_each(|(x, shift)| *x += shift);
            }
        }
    }))
}

fn channels(x: Tensor, scale: &[f32], shift: &[f32]) -> Result<Tensor, Mismatch> {
    if x.dims.get(1) != Some(&scale.len()) {
        return Err(format!("has {} channels and is fed {:?}", scale.len(), x.dims));
    }
    let [_, along, within] = x.around(1);
    Ok(x.each(|numbers| {
        for (at, channel) in numbers.chunks_exact_mut(within.max(1)).enumerate() {
            let (scale, shift) = (scale[at % along], shift[at % along]);
            channel.iter_mut().for_each(|x| *x = *x * scale + shift);
        }
    }))
}

fn summed(x: Tensor, axis: &Tensor, exclusive: bool) -> Result<Tensor, Mismatch> {
    let axis = x.axis(axis.integers().first().copied().unwrap_or(0))?;
    let [_, along, within] = x.around(axis);
    Ok(x.each(|numbers| {
        for part in numbers.chunks_exact_mut((along * within).max(1)) {
            for at in 0..within {
                let mut sum = 0.0;
                for x in part[at..].iter_mut().step_by(within) {
                    let before = sum;
                    sum += *x;
                    *x = if exclusive { before } else { sum };
                }
            }
        }
    }))
}

fn chosen(is_first: &Tensor, x: Tensor, y: Tensor) -> Result<Tensor, Mismatch> {
    // All three are broadcast to common dimensions.
    let whole = x.clone().paired(&y, |x, _| x)?.paired(is_first, |x, _| x)?.dims;
    let (x, y, is_first) =
        (x.expanded(&whole)?, y.expanded(&whole)?, is_first.clone().expanded(&whole)?);
    let all = is_first.values.iter().zip(x.values.iter().zip(y.values.iter()));
    let values = all.map(|(first, (x, y))| if *first != 0.0 { *x } else { *y }).collect();
    Ok(Tensor::new(whole, values))
}

fn greatest(x: &Tensor, axis: i64, keeps: bool) -> Result<Tensor, Mismatch> {
    let axis = x.axis(axis)?;
    let [before, along, within] = x.around(axis);
    let at = |at: usize| {
        let value = |step: usize| x.values[(at / within * along + step) * within + at % within];
        let better = |best: usize, step: usize| if value(step) > value(best) { step } else { best };
        // The standard does not define the index of NaN, which stays NaN.
        if (0..along).any(|step| value(step).is_nan()) {
            return f32::NAN;
        }
        (1..along).fold(0, better) as f32
    };
    let values = (0..before * within).map(at).collect();
    let mut dims = x.dims.clone();
    if keeps {
        dims[axis] = 1;
    } else {
        dims.remove(axis);
    }
    Ok(Tensor::new(dims, values))
}

fn reshaped(dims: &[usize], to: &[i64], zero_is_zero: bool) -> Result<Vec<usize>, Mismatch> {
    let wrong = || format!("makes {to:?} of {dims:?}");
    let size = |(at, n): (usize, &i64)| match *n {
        0 if !zero_is_zero => dims.get(at).copied().ok_or_else(wrong),
        -1 => Ok(1),
        n => usize::try_from(n).map_err(|_| wrong()),
    };
    let mut found = to.iter().enumerate().map(size).collect::<Result<Vec<_>, _>>()?;
    if let Some(open) = to.iter().position(|n| *n == -1) {
        let all = dims.iter().product::<usize>();
        let known = found.iter().product::<usize>();
        found[open] = all.checked_div(known).ok_or_else(wrong)?;
    }
    Ok(found)
}

fn sliced(
    x: Tensor,
    given: Option<&[Vec<i64>; 3]>,
    rest: &mut RemainingInputs,
) -> Result<Tensor, Mismatch> {
    let (starts, ends, axes, steps) = match given {
        Some([starts, ends, axes]) => (starts.clone(), ends.clone(), axes.clone(), Vec::new()),
        None => {
            let (starts, ends) = (rest.get(1)?.integers(), rest.get(2)?.integers());
            let mut more = |at| rest.take(at).map(|axes| axes.integers()).unwrap_or_default();
            (starts, ends, more(3), more(4))
        }
    };
    let mut x = x;
    for (at, (start, end)) in starts.iter().zip(&ends).enumerate() {
        let axis = x.axis(axes.get(at).copied().unwrap_or(at as i64))?;
        let by = steps.get(at).copied().unwrap_or(1);
        let size = x.dims[axis] as i64;
        // Ends as large as i64 were converted from `f32` and saturate.
        let cut = |at: i64, least: i64, most: i64| {
            let at = if at < 0 { at.saturating_add(size) } else { at };
            at.clamp(least, most)
        };
        let (first, count) = match by {
            0 => return Err("takes steps of nothing".into()),
            _ if size == 0 => (0, 0),
            1.. => {
                let (first, end) = (cut(*start, 0, size), cut(*end, 0, size));
                (first, (end - first).max(0).unsigned_abs().div_ceil(by.unsigned_abs()))
            }
            _ => {
                let (first, end) = (cut(*start, 0, size - 1), cut(*end, -1, size - 1));
                (first, (first - end).max(0).unsigned_abs().div_ceil(by.unsigned_abs()))
            }
        };
        x = x.sliced(axis, first.max(0) as usize, by, count as usize);
    }
    Ok(x)
}

fn split(
    x: &Tensor,
    axis: i64,
    sizes: Option<Vec<i64>>,
    parts: usize,
) -> Result<Vec<Tensor>, StepError> {
    let axis = x.axis(axis)?;
    let each = x.dims[axis].div_ceil(parts.max(1));
    let even = |at: usize| x.dims[axis].saturating_sub(at * each).min(each);
    let sizes: Vec<usize> = match sizes {
        Some(sizes) => sizes.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect(),
        None => (0..parts).map(even).collect(),
    };
    if sizes.iter().sum::<usize>() != x.dims[axis] {
        return Err(format!("splits {} into {sizes:?}", x.dims[axis]).into());
    }
    let mut first = 0;
    let parts = sizes.into_iter().map(|count| {
        let part = x.sliced(axis, first, 1, count);
        first += count;
        part
    });
    Ok(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_sliced_to_nothing() {
        let empty = Tensor::new(vec![2, 0], Vec::new());
        let given = [vec![-1], vec![i64::MIN], vec![1]];
        let part = |given: &[Vec<i64>; 3], by: f32| {
            let one = |n: i64| Some(Tensor::new(vec![1], vec![n as f32]));
            let [starts, ends, axes] = given.clone().map(|of| one(of[0]));
            let by = Some(Tensor::new(vec![1], vec![by]));
            let inputs = vec![None, starts, ends, axes, by];
            sliced(empty.clone(), None, &mut RemainingInputs { inputs }).unwrap().dims
        };
        assert_eq!(part(&given, -1.0), [2, 0]);
        assert_eq!(part(&given, 1.0), [2, 0]);
    }

    #[test]
    fn more_than_there_can_be_is_told() {
        let x = Tensor::new(vec![1], vec![0.0]);
        assert!(x.clone().expanded(&[usize::MAX, 2]).is_err());
        assert!(x.with_dims(vec![usize::MAX, 2]).is_err());
        let zeros = vec![0.0; 1 << 16];
        let rows = table(&zeros, 1 << 16, &Tensor::new(vec![1 << 16], zeros.clone()));
        assert!(matches!(rows, Err(StepError::Mismatch(text)) if text.contains("[65536, 65536]")));
    }

    #[test]
    fn dimensions_are_reshaped() {
        assert_eq!(reshaped(&[2, 6], &[0, -1, 3], false).unwrap(), [2, 2, 3]);
        assert_eq!(reshaped(&[2, 0], &[0, 2], true).unwrap(), [0, 2]);
        assert!(reshaped(&[2], &[0, 0], false).is_err());
    }
}
