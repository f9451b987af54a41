//! Pooling: the elements of each window are combined.

use dyno_tensors::Element;

use super::cast::cast_to;
use super::convolution::places;
use super::reduce::check_order;
use super::sliding::{Axis, Sliding};
use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Value, count};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator) = name(reader) else { return Ok(None) };
    match operator {
        "MaxPool" => {
            let sliding = Sliding::read(reader)?;
            let is_column_major = reader.flag("storage_order")?;
            let has_indices = reader.node.outputs.get(1).is_some_and(|name| !name.is_empty());
            Ok(Some(Box::new(move |frame| {
                // Bytes are exact in `f32`.
                let element = frame.input(0)?.element();
                if !matches!(element, Element::F32 | Element::U8 | Element::I8) {
                    return Err(format!("elements of type {element} are not supported"));
                }
                let value = cast_to(frame.input(0)?.clone(), Element::F32)?;
                if has_indices {
                    let [found, indices] = greatest(&value, &sliding, is_column_major)?;
                    return Ok(vec![cast_to(found, element)?, indices]);
                }
                let found = pool(&value, &sliding, f32::NEG_INFINITY, greater)?;
                Ok(vec![cast_to(Value::new(found.dims, found.windows)?, element)?])
            })))
        }
        "AveragePool" => {
            let sliding = Sliding::read(reader)?;
            let counts_padding = reader.flag("count_include_pad")?;
            one(move |frame| {
                let add = |sum: f64, x: f32| sum + f64::from(x);
                let sums = pool(frame.input(0)?, &sliding, 0.0, add)?;
                let all = averages(&sums.windows, &sums.axes, counts_padding);
                Value::new(sums.dims, all)
            })
        }
        "LpPool" => {
            let (sliding, p) = (Sliding::read(reader)?, norm(reader)?);
            one(move |frame| {
                let add = |sum: f64, x: f32| sum + f64::from(x).abs().powi(p);
                let sums = pool(frame.input(0)?, &sliding, 0.0, add)?;
                let roots = sums.windows.iter().map(|sum| sum.powf(1.0 / f64::from(p)) as f32);
                Value::new(sums.dims, roots.collect())
            })
        }
        "GlobalLpPool" => {
            let p = norm(reader)?;
            one(move |frame| {
                global(frame.input(0)?, |all| {
                    let sum: f64 = all.iter().map(|x| f64::from(*x).abs().powi(p)).sum();
                    sum.powf(1.0 / f64::from(p)) as f32
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

/// Returns the exponent of a norm.
fn norm(reader: &NodeReader<'_>) -> Result<i32, String> {
    let p = reader.int("p", 2)?;
    i32::try_from(p).ok().filter(|p| *p > 0).ok_or_else(|| format!("norm {p} is not supported"))
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

/// Returns the greatest element of each window, and its index in the whole value: that of the first one
/// of equal elements. In column-major order, the first spatial axis runs fastest.
fn greatest(value: &Value, sliding: &Sliding, is_column_major: bool) -> Result<[Value; 2], String> {
    let (&[_, _, ref sizes @ ..], from) = (value.dims(), value.all::<f32>()?) else {
        return Err("expected channels".into());
    };
    check_order(value)?;
    let axes = sliding.axes(sizes, None)?;
    let mut dims = value.dims()[..2].to_vec();
    dims.extend(axes[3 - sizes.len()..].iter().map(|axis| axis.windows));
    let plane: usize = sizes.iter().product();
    let [z, y, x] = axes;
    let kernel: Vec<[usize; 3]> = places(&axes).map(|(i, j, l)| [i, j, l]).collect();
    let mut found = Vec::with_capacity(count(&dims, size_of::<i64>())?);
    let mut indices = Vec::with_capacity(found.capacity());
    for (channel, from) in from.chunks_exact(plane.max(1)).enumerate() {
        for window in 0..windows(&axes) {
            let (row, column) = (window / x.windows, window % x.windows);
            let (deep, line) = (row / y.windows, row % y.windows);
            let inside = kernel.iter().filter_map(|[i, j, l]| {
                let at = [z.at(deep, *i)?, y.at(line, *j)?, x.at(column, *l)?];
                Some((at, from[(at[0] * y.size + at[1]) * x.size + at[2]]))
            });
            let best = inside.reduce(|best, other| if other.1 > best.1 { other } else { best });
            let ([i, j, l], most) = best.ok_or("a window has no elements, which have an index")?;
            let place = if is_column_major {
                i + z.size * (j + y.size * l)
            } else {
                (i * y.size + j) * x.size + l
            };
            found.push(most);
            indices.push((channel * plane + place) as i64);
        }
    }
    Ok([Value::new(dims.clone(), found)?, Value::new(dims, indices)?])
}

/// One value for each window.
struct Pool<T> {
    dims: Vec<usize>,
    windows: Vec<T>,
    axes: [Axis; 3],
}

/// Combines the elements of each window one after the other, from `start` on.
fn pool<T: Copy>(
    value: &Value,
    sliding: &Sliding,
    start: T,
    combine: impl Fn(T, f32) -> T,
) -> Result<Pool<T>, String> {
    let (&[_, _, ref sizes @ ..], from) = (value.dims(), value.all::<f32>()?) else {
        return Err("expected channels".into());
    };
    let axes = sliding.axes(sizes, None)?;
    let mut dims = value.dims()[..2].to_vec();
    dims.extend(axes[3 - sizes.len()..].iter().map(|axis| axis.windows));
    let plane: usize = sizes.iter().product();
    if plane == 0 {
        return Ok(Pool { dims, windows: Vec::new(), axes });
    }
    let mut all = vec![start; count(&dims, size_of::<T>())?];
    let [z, y, x] = axes;
    for (from, to) in from.chunks_exact(plane).zip(all.chunks_exact_mut(windows(&axes))) {
        for (row, to) in to.chunks_exact_mut(x.windows).enumerate() {
            let (deep, line) = (row / y.windows, row % y.windows);
            for i in (0..z.kernel).filter_map(|place| z.at(deep, place)) {
                for j in (0..y.kernel).filter_map(|place| y.at(line, place)) {
                    let from = &from[(i * y.size + j) * x.size..][..x.size];
                    combine_row(from, &x, to, &combine);
                }
            }
        }
    }
    Ok(Pool { dims, windows: all, axes })
}

/// Combines the windows along one axis with their elements.
fn combine_row<T: Copy>(from: &[f32], axis: &Axis, to: &mut [T], combine: impl Fn(T, f32) -> T) {
    for place in 0..axis.kernel {
        let inside = axis.inside(place);
        let Some(first) = axis.at(inside.start, place).filter(|_| !inside.is_empty()) else {
            continue;
        };
        let (from, to) = (&from[first..], &mut to[inside]);
        // A step of a known size makes vectors of the loop.
        match axis.stride {
            1 => to.iter_mut().zip(from).for_each(|(to, x)| *to = combine(*to, *x)),
            step => to
                .iter_mut()
                .zip(from.iter().step_by(step))
                .for_each(|(to, x)| *to = combine(*to, *x)),
        }
    }
}

/// Returns the number of windows of a plane.
fn windows(axes: &[Axis; 3]) -> usize {
    axes.iter().map(|axis| axis.windows).product()
}

/// Divides the sum of each window by its elements, with those of the padding if they count.
fn averages(sums: &[f64], axes: &[Axis; 3], counts_padding: bool) -> Vec<f32> {
    let elements = |axis: &Axis, window: usize| {
        let is_counted = |place: &usize| {
            if counts_padding {
                // A window may extend beyond the padding.
                window * axis.stride + place * axis.dilation < axis.padded()
            } else {
                axis.at(window, *place).is_some()
            }
        };
        (0..axis.kernel).filter(is_counted).count()
    };
    let [z, y, x] = axes
        .each_ref()
        .map(|axis| (0..axis.windows).map(|at| elements(axis, at)).collect::<Vec<usize>>());
    let mut all = Vec::with_capacity(sums.len());
    for plane in sums.chunks_exact(windows(axes)) {
        for (row, sums) in plane.chunks_exact(x.len()).enumerate() {
            let rows = z[row / y.len()] * y[row % y.len()];
            all.extend(sums.iter().zip(&x).map(|(sum, n)| (sum / (rows * n) as f64) as f32));
        }
    }
    all
}
