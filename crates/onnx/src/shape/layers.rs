//! Shapes behind layers that multiply weights, and behind windows.

use super::{Dim, Fact, Facts, ShapeError, misfit, written};
use crate::graph::Node;
use crate::shape::moves::broadcast;

/// One dimension of a sliding window.
struct Window {
    kernel: i64,
    stride: i64,
    dilation: i64,
    /// Padding before the first number.
    before: i64,
    /// Padding at both ends.
    pads: i64,
}

fn windows(node: &Node, kernel: &[i64]) -> Result<Vec<Window>, ShapeError> {
    let rank = kernel.len();
    let each = |name: &str, default: i64, count: usize| match node.ints(name) {
        Some(values) if values.len() == count => Ok(values.to_vec()),
        Some(values) => misfit(format!("{name} {values:?} of a kernel {kernel:?}")),
        None => Ok(vec![default; count]),
    };
    let strides = each("strides", 1, rank)?;
    let dilations = each("dilations", 1, rank)?;
    let pads = each("pads", 0, 2 * rank)?;
    if strides.iter().chain(&dilations).chain(kernel).any(|&n| n < 1) {
        return misfit("kernels, strides and dilations are at least 1");
    }
    let window = |at: usize| Window {
        kernel: kernel[at],
        stride: strides[at],
        dilation: dilations[at],
        before: pads[at],
        pads: pads[at].saturating_add(pads[at + rank]),
    };
    Ok((0..rank).map(window).collect())
}

fn slide(node: &Node, dims: &[Dim], kernel: &[i64]) -> Result<Vec<Dim>, ShapeError> {
    let one = |(dim, window): (&Dim, Window)| {
        let Some(size) = dim.fixed() else {
            return misfit(format!("a window over {}, which is not known", written(dims)));
        };
        let size = size as i64;
        if node.text("auto_pad").starts_with("SAME") {
            return Ok(Dim::Fixed((size + window.stride - 1).div_euclid(window.stride) as usize));
        }
        let reach = window.dilation.saturating_mul(window.kernel - 1) + 1;
        let room = size.saturating_add(window.pads).saturating_sub(reach);
        if room < 0 {
            return misfit(format!("a window of {reach} over {size} with {} of edge", window.pads));
        }
        let steps = match node.int("ceil_mode", 0) {
            0 => room / window.stride,
            // The last window begins in the image or in the padding before it.
            _ => {
                let last = size.saturating_add(window.before).saturating_sub(1).max(0);
                ((room + window.stride - 1) / window.stride).min(last / window.stride)
            }
        };
        Ok(Dim::Fixed((steps + 1) as usize))
    };
    dims.iter().zip(windows(node, kernel)?).map(one).collect()
}

/// Numbers of a shape that weights have.
fn sizes(fact: &Fact) -> Result<Vec<usize>, ShapeError> {
    let all: Option<Vec<_>> = fact.shape.iter().map(Dim::fixed).collect();
    all.map_or_else(|| misfit(format!("weights of shape {}", written(&fact.shape))), Ok)
}

/// Checks the weights of a convolution; its dimensions and its kernel.
fn kernel(data: &Fact, weights: &Fact) -> Result<(Vec<usize>, Vec<i64>), ShapeError> {
    let sizes = sizes(weights)?;
    if sizes.len() < 3 || sizes.len() != data.shape.len() {
        let shapes = (written(&data.shape), written(&weights.shape));
        return misfit(format!("a convolution of {} by {}", shapes.0, shapes.1));
    }
    let kernel = sizes[2..].iter().map(|&n| n as i64).collect();
    Ok((sizes, kernel))
}

pub fn conv(node: &Node, data: &Fact, weights: &Fact) -> Facts {
    let (sizes, kernel) = kernel(data, weights)?;
    let groups = node.int("group", 1).max(1) as usize;
    if data.shape[1] != Dim::Fixed(sizes[1].saturating_mul(groups)) || sizes[0] % groups != 0 {
        return misfit(format!(
            "a convolution of {} in {groups} groups by {}",
            written(&data.shape),
            written(&weights.shape)
        ));
    }
    let mut shape = vec![data.shape[0].clone(), sizes[0].into()];
    shape.extend(slide(node, &data.shape[2..], &kernel)?);
    Ok(vec![data.like(shape)])
}

pub fn conv_transpose(node: &Node, data: &Fact, weights: &Fact) -> Facts {
    let (sizes, kernel) = kernel(data, weights)?;
    let groups = node.int("group", 1).max(1) as usize;
    if data.shape[1] != Dim::Fixed(sizes[0]) {
        return misfit(format!(
            "{} transposed by {}",
            written(&data.shape),
            written(&weights.shape)
        ));
    }
    let mut shape = vec![data.shape[0].clone(), sizes[1].saturating_mul(groups).into()];
    let extra = node.ints("output_padding").unwrap_or_default();
    for (at, window) in windows(node, &kernel)?.into_iter().enumerate() {
        let Some(size) = data.shape[at + 2].fixed() else {
            return misfit(format!("a window over {}", written(&data.shape)));
        };
        let reach = window.dilation.saturating_mul(window.kernel - 1) + 1;
        let size = (size as i64 - 1).saturating_mul(window.stride) + reach - window.pads
            + extra.get(at).copied().unwrap_or(0);
        shape.push(usize::try_from(size).or_else(|_| misfit(format!("a size of {size}")))?.into());
    }
    Ok(vec![data.like(shape)])
}

pub fn pool(node: &Node, data: &Fact) -> Facts {
    let kernel = node.ints("kernel_shape").unwrap_or_default();
    if kernel.is_empty() || data.shape.len() != kernel.len() + 2 {
        return misfit(format!("a kernel {kernel:?} over {}", written(&data.shape)));
    }
    let mut shape = data.shape[..2].to_vec();
    shape.extend(slide(node, &data.shape[2..], kernel)?);
    Ok(vec![data.like(shape)])
}

pub fn gemm(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let (a, b) = (super::input(inputs, 0)?, super::input(inputs, 1)?);
    let ([a0, a1], [b0, b1]) = (&a.shape[..], &b.shape[..]) else {
        return misfit(format!("Gemm of {} by {}", written(&a.shape), written(&b.shape)));
    };
    let (rows, inner) = if node.int("transA", 0) == 1 { (a1, a0) } else { (a0, a1) };
    let (other, columns) = if node.int("transB", 0) == 1 { (b1, b0) } else { (b0, b1) };
    if inner != other {
        return misfit(format!("Gemm of {} by {}", written(&a.shape), written(&b.shape)));
    }
    let shape = vec![rows.clone(), columns.clone()];
    if let Some(Some(bias)) = inputs.get(2)
        && broadcast(&shape, &bias.shape)? != shape
    {
        return misfit(format!("a bias {} for {}", written(&bias.shape), written(&shape)));
    }
    Ok(vec![a.like(shape)])
}

pub fn matmul(a: &Fact, b: &Fact) -> Facts {
    let wrong = || format!("MatMul of {} by {}", written(&a.shape), written(&b.shape));
    let (row, column) = (a.shape.len() == 1, b.shape.len() == 1);
    let (mut left, mut right) = (a.shape.clone(), b.shape.clone());
    if row {
        left.insert(0, 1.into());
    }
    if column {
        right.push(1.into());
    }
    let ([before @ .., rows, inner], [other_before @ .., other, columns]) = (&left[..], &right[..])
    else {
        return misfit(wrong());
    };
    if inner != other {
        return misfit(wrong());
    }
    let mut shape = broadcast(before, other_before)?;
    if !row {
        shape.push(rows.clone());
    }
    if !column {
        shape.push(columns.clone());
    }
    Ok(vec![a.like(shape)])
}

/// Outputs of all steps, of the last step, and for LSTM its cells.
pub fn recurrent(node: &Node, data: &Fact, recurrence: &Fact) -> Facts {
    let ([first, second, _], [directions, _, hidden]) = (&data.shape[..], &recurrence.shape[..])
    else {
        let shapes = (written(&data.shape), written(&recurrence.shape));
        return misfit(format!("{} of {} by {}", node.op, shapes.0, shapes.1));
    };
    let (ways, hidden) = (directions.clone(), hidden.clone());
    let shapes = match node.int("layout", 0) {
        1 => {
            let (batch, steps) = (first.clone(), second.clone());
            [vec![batch.clone(), steps, ways.clone(), hidden.clone()], vec![batch, ways, hidden]]
        }
        _ => {
            let (steps, batch) = (first.clone(), second.clone());
            [vec![steps, ways.clone(), batch.clone(), hidden.clone()], vec![ways, batch, hidden]]
        }
    };
    let [all, last] = shapes.map(|shape| data.like(shape));
    Ok(vec![all, last.clone(), last])
}

pub fn resize(inputs: &[Option<&Fact>]) -> Facts {
    let data = super::input(inputs, 0)?;
    let Some(sizes) = inputs.get(3).copied().flatten() else {
        return scaled(data, super::input(inputs, if inputs.len() > 2 { 2 } else { 1 })?);
    };
    let Some(sizes) = &sizes.integers else { return Err(ShapeError::Unknown(3)) };
    if sizes.len() != data.shape.len() {
        return misfit(format!("sizes {sizes:?} for {}", written(&data.shape)));
    }
    let shape = sizes.iter().map(|&n| Dim::Fixed(n.max(0) as usize)).collect();
    Ok(vec![data.like(shape)])
}

/// By whole factors; those of other kinds are not followed.
fn scaled(data: &Fact, factors: &Fact) -> Facts {
    let Some(factors) = &factors.integers else { return Err(ShapeError::Unknown(2)) };
    if factors.len() != data.shape.len() {
        return misfit(format!("{} by factors {factors:?}", written(&data.shape)));
    }
    let one = |(dim, factor): (&Dim, &i64)| match (dim, usize::try_from(*factor)) {
        (dim, Ok(1)) => Ok(dim.clone()),
        (Dim::Fixed(n), Ok(factor)) => Ok(Dim::Fixed(n.saturating_mul(factor))),
        _ => misfit(format!("{} by factors {factors:?}", written(&data.shape))),
    };
    let shape = data.shape.iter().zip(factors).map(one).collect::<Result<_, _>>()?;
    Ok(vec![data.like(shape)])
}
