//! Shape inference of operators that multiply by weights or slide a window.

use dyno_tensors::Element;

use super::{Dim, Fact, Facts, ShapeError, format_shape, misfit};
use crate::graph::Node;
use crate::shape::moves::broadcast;

/// One dimension of a sliding window. Products of two numbers of a file fit in 128 bits.
struct Window {
    /// Elements from the first to the last that the window covers.
    reach: i128,
    stride: i128,
    /// Padding before the first element.
    padding_before: i128,
    /// Sum of the padding at both ends.
    padding: i128,
}

/// Returns the window of a node with this kernel, dimension by dimension.
fn windows(node: &Node, kernel: &[i64]) -> Result<Vec<Window>, ShapeError> {
    let rank = kernel.len();
    let values = |name: &str, default: i64, count: usize| match node.ints(name) {
        Some(values) if values.len() == count => Ok(values.to_vec()),
        Some(values) => misfit(format!("{name} {values:?} of a kernel {kernel:?}")),
        None => Ok(vec![default; count]),
    };
    let strides = values("strides", 1, rank)?;
    let dilations = values("dilations", 1, rank)?;
    let pads = values("pads", 0, 2 * rank)?;
    if strides.iter().chain(&dilations).chain(kernel).any(|&n| n < 1) {
        return misfit("kernels, strides and dilations are at least 1");
    }
    let window = |at: usize| Window {
        reach: i128::from(dilations[at]) * i128::from(kernel[at] - 1) + 1,
        stride: strides[at].into(),
        padding_before: pads[at].into(),
        padding: i128::from(pads[at]) + i128::from(pads[at + rank]),
    };
    Ok((0..rank).map(window).collect())
}

/// Returns a dimension of this size.
fn fixed(size: i128) -> Result<Dim, ShapeError> {
    usize::try_from(size).map(Dim::Fixed).or_else(|_| misfit(format!("a size of {size}")))
}

/// Returns the number of positions of the window in each of `dims`.
fn positions(node: &Node, dims: &[Dim], kernel: &[i64]) -> Result<Vec<Dim>, ShapeError> {
    let count = |(dim, window): (&Dim, Window)| {
        let Some(size) = dim.fixed() else {
            return misfit(format!("a window over {}, which is unknown", format_shape(dims)));
        };
        let size = size as i128;
        if node.text("auto_pad").starts_with("SAME") {
            return fixed((size + window.stride - 1) / window.stride);
        }
        let Window { reach, stride, padding_before, padding } = window;
        let room = size + padding - reach;
        if room < 0 {
            return misfit(format!("a window of {reach} over {size} with {padding} of edge"));
        }
        let steps = match node.int("ceil_mode", 0) {
            0 => room / stride,
            // The last window starts in the image or in the padding before it.
            _ => ((room + stride - 1) / stride).min((size + padding_before - 1).max(0) / stride),
        };
        fixed(steps + 1)
    };
    dims.iter().zip(windows(node, kernel)?).map(count).collect()
}

/// Returns the shape of weights, which must be known.
fn weight_shape(fact: &Fact) -> Result<Vec<usize>, ShapeError> {
    let shape: Option<Vec<_>> = fact.shape.iter().map(Dim::fixed).collect();
    shape.map_or_else(|| misfit(format!("weights of shape {}", format_shape(&fact.shape))), Ok)
}

/// Checks the weights of a convolution, and returns their shape and the kernel.
fn kernel(data: &Fact, weights: &Fact) -> Result<(Vec<usize>, Vec<i64>), ShapeError> {
    let sizes = weight_shape(weights)?;
    if sizes.len() < 3 || sizes.len() != data.shape.len() {
        let shapes = (format_shape(&data.shape), format_shape(&weights.shape));
        return misfit(format!("a convolution of {} by {}", shapes.0, shapes.1));
    }
    let kernel = sizes[2..].iter().map(|&n| n as i64).collect();
    Ok((sizes, kernel))
}

/// Infers the output of a convolution.
pub fn conv(node: &Node, data: &Fact, weights: &Fact) -> Facts {
    let (sizes, kernel) = kernel(data, weights)?;
    let groups = node.int("group", 1).max(1) as usize;
    if data.shape[1] != Dim::Fixed(sizes[1].saturating_mul(groups)) || sizes[0] % groups != 0 {
        return misfit(format!(
            "a convolution of {} in {groups} groups by {}",
            format_shape(&data.shape),
            format_shape(&weights.shape)
        ));
    }
    let mut shape = vec![data.shape[0].clone(), sizes[0].into()];
    shape.extend(positions(node, &data.shape[2..], &kernel)?);
    Ok(vec![data.with_shape(shape)])
}

/// Infers the output of a `ConvTranspose`.
pub fn conv_transpose(node: &Node, data: &Fact, weights: &Fact) -> Facts {
    let (sizes, kernel) = kernel(data, weights)?;
    let groups = node.int("group", 1).max(1) as usize;
    if data.shape[1] != Dim::Fixed(sizes[0]) {
        return misfit(format!(
            "{} transposed by {}",
            format_shape(&data.shape),
            format_shape(&weights.shape)
        ));
    }
    let mut shape = vec![data.shape[0].clone(), sizes[1].saturating_mul(groups).into()];
    let extra = node.ints("output_padding").unwrap_or_default();
    let asked = node.ints("output_shape").filter(|asked| asked.len() == kernel.len());
    let auto_pad = node.text("auto_pad");
    for (at, window) in windows(node, &kernel)?.into_iter().enumerate() {
        if let Some(asked) = asked {
            shape.push(fixed(asked[at].into())?);
            continue;
        }
        let Some(size) = data.shape[at + 2].fixed() else {
            return misfit(format!("a window over {}", format_shape(&data.shape)));
        };
        let Window { reach, stride, padding, .. } = window;
        let extra = extra.get(at).copied().map_or(0, i128::from);
        let whole = (size as i128 - 1) * stride + reach + extra;
        shape.push(fixed(match auto_pad {
            "VALID" => whole,
            same if same.starts_with("SAME") => size as i128 * stride,
            _ => whole - padding,
        })?);
    }
    Ok(vec![data.with_shape(shape)])
}

/// Infers the output of a pooling operator.
pub fn pool(node: &Node, data: &Fact) -> Facts {
    let kernel = node.ints("kernel_shape").unwrap_or_default();
    if kernel.is_empty() || data.shape.len() != kernel.len() + 2 {
        return misfit(format!("a kernel {kernel:?} over {}", format_shape(&data.shape)));
    }
    let mut shape = data.shape[..2].to_vec();
    shape.extend(positions(node, &data.shape[2..], kernel)?);
    Ok(vec![data.with_shape(shape)])
}

/// Infers the outputs of a `MaxPool`: the greatest elements, and their indices.
pub fn max_pool(node: &Node, data: &Fact) -> Facts {
    let mut facts = pool(node, data)?;
    let indices = facts.first().map(|pooled| Fact::new(Element::I64, pooled.shape.clone()));
    facts.extend(indices);
    Ok(facts)
}

/// Infers the output of a pool over all elements of each channel.
pub fn global_pool(data: &Fact) -> Facts {
    let pooled = |(at, dim): (usize, &Dim)| if at < 2 { dim.clone() } else { 1.into() };
    Ok(vec![data.with_shape(data.shape.iter().enumerate().map(pooled).collect())])
}

/// Infers the output of a `Gemm`.
pub fn gemm(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let (a, b) = (super::input(inputs, 0)?, super::input(inputs, 1)?);
    let ([a0, a1], [b0, b1]) = (&a.shape[..], &b.shape[..]) else {
        return misfit(format!("Gemm of {} by {}", format_shape(&a.shape), format_shape(&b.shape)));
    };
    let (rows, inner) = if node.int("transA", 0) == 1 { (a1, a0) } else { (a0, a1) };
    let (other, columns) = if node.int("transB", 0) == 1 { (b1, b0) } else { (b0, b1) };
    if inner != other {
        return misfit(format!("Gemm of {} by {}", format_shape(&a.shape), format_shape(&b.shape)));
    }
    let shape = vec![rows.clone(), columns.clone()];
    if let Some(Some(bias)) = inputs.get(2)
        && broadcast(&shape, &bias.shape)? != shape
    {
        return misfit(format!(
            "a bias {} for {}",
            format_shape(&bias.shape),
            format_shape(&shape)
        ));
    }
    Ok(vec![a.with_shape(shape)])
}

/// Infers the output of a `MatMul`.
pub fn matmul(a: &Fact, b: &Fact) -> Facts {
    let wrong = || format!("MatMul of {} by {}", format_shape(&a.shape), format_shape(&b.shape));
    let (is_row, is_column) = (a.shape.len() == 1, b.shape.len() == 1);
    let (mut left, mut right) = (a.shape.clone(), b.shape.clone());
    if is_row {
        left.insert(0, 1.into());
    }
    if is_column {
        right.push(1.into());
    }
    let ([batch @ .., rows, inner], [other_batch @ .., other, columns]) = (&left[..], &right[..])
    else {
        return misfit(wrong());
    };
    if inner != other {
        return misfit(wrong());
    }
    let mut shape = broadcast(batch, other_batch)?;
    if !is_row {
        shape.push(rows.clone());
    }
    if !is_column {
        shape.push(columns.clone());
    }
    Ok(vec![a.with_shape(shape)])
}

/// Infers the outputs of a recurrent layer: the states of all steps, the last state, and the last cell
/// state of an LSTM.
pub fn recurrent(node: &Node, data: &Fact, recurrence: &Fact) -> Facts {
    let ([first, second, _], [directions, _, hidden]) = (&data.shape[..], &recurrence.shape[..])
    else {
        let shapes = (format_shape(&data.shape), format_shape(&recurrence.shape));
        return misfit(format!("{} of {} by {}", node.op, shapes.0, shapes.1));
    };
    let (directions, hidden) = (directions.clone(), hidden.clone());
    let shapes = match node.int("layout", 0) {
        1 => {
            let (batch, steps) = (first.clone(), second.clone());
            let all = vec![batch.clone(), steps, directions.clone(), hidden.clone()];
            [all, vec![batch, directions, hidden]]
        }
        _ => {
            let (steps, batch) = (first.clone(), second.clone());
            let all = vec![steps, directions.clone(), batch.clone(), hidden.clone()];
            [all, vec![directions, batch, hidden]]
        }
    };
    let [all, last] = shapes.map(|shape| data.with_shape(shape));
    Ok(vec![all, last.clone(), last])
}

/// Infers the output of a `Resize` or `Upsample`.
pub fn resize(inputs: &[Option<&Fact>]) -> Facts {
    let data = super::input(inputs, 0)?;
    let Some(sizes) = inputs.get(3).copied().flatten() else {
        return scaled(data, super::input(inputs, if inputs.len() > 2 { 2 } else { 1 })?);
    };
    let Some(sizes) = &sizes.integers else { return Err(ShapeError::Unknown(3)) };
    if sizes.len() != data.shape.len() {
        return misfit(format!("sizes {sizes:?} for {}", format_shape(&data.shape)));
    }
    let shape = sizes.iter().map(|&n| Dim::Fixed(n.max(0) as usize)).collect();
    Ok(vec![data.with_shape(shape)])
}

/// Infers the output of a resize by integer factors. Other factors are not supported.
fn scaled(data: &Fact, factors: &Fact) -> Facts {
    let Some(factors) = &factors.integers else { return Err(ShapeError::Unknown(2)) };
    if factors.len() != data.shape.len() {
        return misfit(format!("{} by factors {factors:?}", format_shape(&data.shape)));
    }
    let scale = |(dim, factor): (&Dim, &i64)| match (dim, usize::try_from(*factor)) {
        (dim, Ok(1)) => Ok(dim.clone()),
        (Dim::Fixed(n), Ok(factor)) => Ok(Dim::Fixed(n.saturating_mul(factor))),
        _ => misfit(format!("{} by factors {factors:?}", format_shape(&data.shape))),
    };
    let shape = data.shape.iter().zip(factors).map(scale).collect::<Result<_, _>>()?;
    Ok(vec![data.with_shape(shape)])
}
