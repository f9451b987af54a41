//! Pooling: the elements of each window are combined.

use dyno_tensors::Element;

use super::elementwise::cast_to;
use super::sliding::{Axis, Sliding};
use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Value, count};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator) = name(reader) else { return Ok(None) };
    match operator {
        "MaxPool" => {
            let sliding = Sliding::read(reader)?;
            if reader.int("storage_order", 0)? != 0
                || reader.node.outputs.get(1).is_some_and(|name| !name.is_empty())
            {
                return Err("indices are not supported".into());
            }
            one(move |frame| {
                // Bytes are exact in `f32`.
                let element = frame.input(0)?.element();
                if !matches!(element, Element::F32 | Element::U8 | Element::I8) {
                    return Err(format!("elements of type {element} are not supported"));
                }
                let value = cast_to(frame.take(0)?, Element::F32)?;
                let found =
                    pool(&value, &sliding, |window, _| window.fold(f32::NEG_INFINITY, greater))?;
                cast_to(found, element)
            })
        }
        "AveragePool" => {
            let sliding = Sliding::read(reader)?;
            let counts_padding = reader.flag("count_include_pad")?;
            one(move |frame| {
                let value = frame.input(0)?;
                pool(value, &sliding, |window, with_padding| {
                    let (mut sum, mut found) = (0.0, 0_usize);
                    for x in window {
                        sum += x;
                        found += 1;
                    }
                    sum / if counts_padding { with_padding } else { found } as f32
                })
            })
        }
        "GlobalAveragePool" => one(|frame| {
            global(frame.input(0)?, |all| {
                (all.iter().map(|x| f64::from(*x)).sum::<f64>() / all.len() as f64) as f32
            })
        }),
        "GlobalMaxPool" => one(|frame| {
            global(frame.input(0)?, |all| all.iter().copied().fold(f32::NEG_INFINITY, greater))
        }),
        _ => Ok(None),
    }
}

/// Returns the greater number, or NaN if one of the two is: `f32::max` would drop it.
fn greater(most: f32, x: f32) -> f32 {
    if x > most || x.is_nan() { x } else { most }
}

fn global(value: &Value, combine: impl Fn(&[f32]) -> f32) -> Result<Value, String> {
    let (&[n, c, ..], all) = (value.dims(), value.all::<f32>()?) else {
        return Err("expected channels".into());
    };
    let inner: usize = value.dims()[2..].iter().product();
    if inner == 0 {
        return Err("expected elements to combine".into());
    }
    let mut dims = vec![1; value.dims().len()];
    [dims[0], dims[1]] = [n, c];
    Value::new(dims, all.chunks_exact(inner).map(combine).collect())
}

/// Combines each window: the elements inside, and their number with padding.
fn pool(
    value: &Value,
    sliding: &Sliding,
    combine: impl Fn(&mut dyn Iterator<Item = f32>, usize) -> f32,
) -> Result<Value, String> {
    let (&[_, _, ref sizes @ ..], from) = (value.dims(), value.all::<f32>()?) else {
        return Err("expected channels".into());
    };
    let axes = sliding.axes(sizes, None)?;
    let mut dims = value.dims()[..2].to_vec();
    dims.extend(axes[3 - sizes.len()..].iter().map(|axis| axis.windows));
    let mut all = Vec::with_capacity(count(&dims, 4)?);
    let range = |axis: &Axis, window: usize| -> Vec<usize> {
        (0..axis.kernel).filter_map(|place| axis.at(window, place)).collect()
    };
    // Elements of a window that are within the padded axis.
    let reach = |axis: &Axis, window: usize| {
        let last = axis.padded();
        (0..axis.kernel).filter(|at| window * axis.stride + at * axis.dilation < last).count()
    };
    let each = axes.map(|axis| {
        (0..axis.windows).map(|at| (range(&axis, at), reach(&axis, at))).collect::<Vec<_>>()
    });
    let [_, height, width] = axes.map(|axis| axis.size);
    let plane: usize = sizes.iter().product();
    if plane == 0 {
        return Value::new(dims, all);
    }
    for plane in from.chunks_exact(plane) {
        for (z, z_count) in &each[0] {
            for (y, y_count) in &each[1] {
                for (x, x_count) in &each[2] {
                    let rows = z.iter().flat_map(|z| y.iter().map(move |y| z * height + y));
                    let mut window =
                        rows.flat_map(|row| x.iter().map(move |x| plane[row * width + x]));
                    all.push(combine(&mut window, z_count * y_count * x_count));
                }
            }
        }
    }
    Value::new(dims, all)
}
