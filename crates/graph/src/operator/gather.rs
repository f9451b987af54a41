//! Operators that pick elements by index, or put them at an index.

use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Number, Value, axis, count, each, each_number, is_nan, strides};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator) = name(reader) else { return Ok(None) };
    match operator {
        "Gather" => {
            let along = reader.axis("axis", 0)?;
            one(move |frame| gather(frame.input(0)?, frame.input(1)?, along))
        }
        "GatherElements" => {
            let along = reader.axis("axis", 0)?;
            expect_equal_ranks(reader)?;
            one(move |frame| {
                let (value, indices) = (frame.input(0)?, frame.input(1)?);
                let places = places(value.dims(), indices, along)?;
                each!(value, from => {
                    Value::new(indices.dims(), places.iter().map(|at| from[*at]).collect())
                })
            })
        }
        "GatherND" => {
            let batch = reader.int("batch_dims", 0)?;
            let ranks = [0, 1].map(|input| reader.rank(input).unwrap_or(usize::MAX));
            let batch = usize::try_from(batch).ok().filter(|batch| ranks.iter().all(|n| batch < n));
            let batch = batch.ok_or("batch_dims is out of range for its inputs")?;
            one(move |frame| {
                let (value, indices) = (frame.input(0)?, frame.input(1)?);
                let (starts, depth) = tuples(value.dims(), indices, batch)?;
                let inner = &value.dims()[depth..];
                let size: usize = inner.iter().product();
                let outer = &indices.dims()[..indices.dims().len() - 1];
                let dims = [outer, inner].concat();
                each!(value, from => picked(from, &starts, size, dims))
            })
        }
        "ScatterElements" | "Scatter" => {
            let (along, how) = (reader.axis("axis", 0)?, reduction(reader)?);
            expect_equal_ranks(reader)?;
            one(move |frame| {
                let (indices, updates) = (frame.input(1)?, frame.input(2)?);
                let places = places(frame.input(0)?.dims(), indices, along)?;
                if updates.dims() != indices.dims() {
                    return Err("expected as many updates as indices".into());
                }
                put(frame.input(0)?, &places, 1, updates, how)
            })
        }
        "ScatterND" => {
            let how = reduction(reader)?;
            one(move |frame| {
                let (indices, updates) = (frame.input(1)?, frame.input(2)?);
                let (starts, depth) = tuples(frame.input(0)?.dims(), indices, 0)?;
                let inner = &frame.input(0)?.dims()[depth..];
                let outer = &indices.dims()[..indices.dims().len() - 1];
                if updates.dims() != [outer, inner].concat() {
                    return Err(format!("updates of {:?} do not fit the indices", updates.dims()));
                }
                let size = inner.iter().product();
                put(frame.input(0)?, &starts, size, updates, how)
            })
        }
        "ReverseSequence" => {
            let (time, batch) = (reader.axis("time_axis", 0)?, reader.axis("batch_axis", 1)?);
            one(move |frame| reverse(frame.input(0)?, frame.input(1)?, time, batch))
        }
        "Compress" => compress(reader),
        _ => Ok(None),
    }
}

/// Checks that the second input has as many dimensions as the first.
fn expect_equal_ranks(reader: &NodeReader<'_>) -> Result<(), String> {
    reader.rank(0).map_or(Ok(()), |rank| reader.expect_rank(1, rank))
}

fn compress(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let along = match reader.attribute("axis") {
        Some(_) => Some(reader.axis("axis", 0)?),
        None => None,
    };
    one(move |frame| {
        let chosen = frame.input(1)?.all::<bool>()?.iter().enumerate();
        let chosen = chosen.filter(|(_, is_chosen)| **is_chosen).map(|(at, _)| at as i64);
        let indices = Value::list(chosen.collect());
        let value = frame.input(0)?.clone();
        match along {
            Some(along) => gather(&value, &indices, along),
            None => {
                let length = value.len();
                gather(&value.reshaped(vec![length])?, &indices, 0)
            }
        }
    })
}

/// Resolves an index, which counts from the end if it is negative.
fn index(at: i64, size: usize) -> Result<usize, String> {
    let from_start = if at < 0 { at.saturating_add(size as i64) } else { at };
    usize::try_from(from_start)
        .ok()
        .filter(|at| *at < size)
        .ok_or_else(|| format!("index {at} is out of range for {size} elements"))
}

fn picked<T: Number>(
    from: &[T],
    starts: &[usize],
    size: usize,
    dims: Vec<usize>,
) -> Result<Value, String> {
    let mut all = Vec::with_capacity(count(&dims, size_of::<T>())?);
    starts.iter().for_each(|start| all.extend_from_slice(&from[*start..][..size]));
    Value::new(dims, all)
}

pub(super) fn gather(value: &Value, indices: &Value, along: i64) -> Result<Value, String> {
    let at = axis(along, value.dims().len())?;
    let (outer, rest) = value.dims().split_at(at);
    let (size, inner) = (rest[0], &rest[1..]);
    let width: usize = inner.iter().product();
    let chosen: Vec<usize> =
        indices.integers()?.iter().map(|at| index(*at, size)).collect::<Result<_, _>>()?;
    let dims = [outer, indices.dims(), inner].concat();
    count(&dims, 1)?;
    let starts = (0..outer.iter().product())
        .flat_map(|outer: usize| chosen.iter().map(move |at| (outer * size + at) * width));
    let starts: Vec<usize> = if width == 0 { Vec::new() } else { starts.collect() };
    each!(value, from => picked(from, &starts, width, dims))
}

/// Returns the places of elements that have the position of their index on all axes but one.
fn places(dims: &[usize], indices: &Value, along: i64) -> Result<Vec<usize>, String> {
    let at = axis(along, dims.len())?;
    let own = strides(dims);
    let fits = |(axis, (n, size)): (usize, (&usize, &usize))| axis == at || n <= size;
    let mut pairs = indices.dims().iter().zip(dims).enumerate();
    if indices.dims().len() != dims.len() || !pairs.all(fits) {
        return Err(format!("indices of {:?} do not fit {dims:?}", indices.dims()));
    }
    let steps = strides(indices.dims());
    let place = |(n, chosen): (usize, &i64)| {
        let position = |axis: usize| n / steps[axis] % indices.dims()[axis];
        let others = (0..dims.len()).filter(|axis| *axis != at);
        let others: usize = others.map(|axis| position(axis) * own[axis]).sum();
        Ok(others + index(*chosen, dims[at])? * own[at])
    };
    indices.integers()?.iter().enumerate().map(place).collect()
}

/// Returns the first element of each slice that a tuple of indices names, and the axes before a slice.
fn tuples(dims: &[usize], indices: &Value, batch: usize) -> Result<(Vec<usize>, usize), String> {
    let width = *indices.dims().last().ok_or("expected tuples of indices")?;
    let depth = batch.checked_add(width).filter(|depth| *depth <= dims.len());
    let depth = depth.ok_or_else(|| format!("indices of {width} axes do not fit {dims:?}"))?;
    if width == 0 || batch >= indices.dims().len() || indices.dims()[..batch] != dims[..batch] {
        return Err(format!("indices of {:?} do not fit {dims:?}", indices.dims()));
    }
    let own = strides(dims);
    let all = indices.integers()?;
    let rows = all.len() / width;
    let batches: usize = dims[..batch].iter().product();
    let each_batch = (rows / batches.max(1)).max(1);
    let size: usize = dims[batch..].iter().product();
    let start = |(row, tuple): (usize, &[i64])| {
        let mut start = row / each_batch * size;
        for (at, chosen) in tuple.iter().enumerate() {
            start += index(*chosen, dims[batch + at])? * own[batch + at];
        }
        Ok(start)
    };
    let starts = all.chunks_exact(width).enumerate().map(start).collect::<Result<_, String>>()?;
    Ok((starts, depth))
}

/// How an update changes an element.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    Replace,
    Add,
    Multiply,
    Max,
    Min,
}

fn reduction(reader: &NodeReader<'_>) -> Result<Reduction, String> {
    match reader.text("reduction", "none")? {
        "none" => Ok(Reduction::Replace),
        "add" => Ok(Reduction::Add),
        "mul" => Ok(Reduction::Multiply),
        "max" => Ok(Reduction::Max),
        "min" => Ok(Reduction::Min),
        other => Err(format!("reduction '{other}' is not supported")),
    }
}

fn put(
    value: &Value,
    starts: &[usize],
    size: usize,
    updates: &Value,
    how: Reduction,
) -> Result<Value, String> {
    fn with<T: Number>(
        from: &[T],
        value: &Value,
        slices: (&[usize], usize),
        updates: &Value,
        join: impl Fn(T, T) -> T,
    ) -> Result<Value, String> {
        let (mut all, new) = (from.to_vec(), updates.all::<T>()?);
        let (starts, size) = slices;
        if starts.len().checked_mul(size) != Some(new.len()) {
            return Err(format!("expected {} updates of {size} elements", starts.len()));
        }
        for (start, new) in starts.iter().zip(new.chunks_exact(size.max(1))) {
            let to = all[*start..][..size].iter_mut();
            to.zip(new).for_each(|(to, new)| *to = join(*to, *new));
        }
        Value::new(value.dims(), all)
    }
    let slices = (starts, size);
    match how {
        Reduction::Replace => each!(value, all => with(all, value, slices, updates, |_, b| b)),
        Reduction::Max => {
            each_number!(value, all => {
                with(all, value, slices, updates, |a, b| if b > a || is_nan(b) { b } else { a })
            })
        }
        Reduction::Min => {
            each_number!(value, all => {
                with(all, value, slices, updates, |a, b| if b < a || is_nan(b) { b } else { a })
            })
        }
        Reduction::Add | Reduction::Multiply => {
            let is_sum = how == Reduction::Add;
            macro_rules! whole {
                ($all:expr) => {
                    with($all, value, slices, updates, |a, b| {
                        if is_sum { a.wrapping_add(b) } else { a.wrapping_mul(b) }
                    })
                };
            }
            use crate::value::Data;
            match value.data() {
                Data::F32(all) => {
                    with(all, value, slices, updates, |a, b| if is_sum { a + b } else { a * b })
                }
                Data::F64(all) => {
                    with(all, value, slices, updates, |a, b| if is_sum { a + b } else { a * b })
                }
                Data::I64(all) => whole!(all),
                Data::I32(all) => whole!(all),
                Data::I8(all) => whole!(all),
                Data::U8(all) => whole!(all),
                Data::Bool(_) => Err("expected numbers, found bool".into()),
            }
        }
    }
}

fn reverse(value: &Value, lengths: &Value, time: i64, batch: i64) -> Result<Value, String> {
    let rank = value.dims().len();
    let (time, batch) = (axis(time, rank)?, axis(batch, rank)?);
    let lengths = lengths.integers()?;
    let [steps, rows] = [time, batch].map(|axis| value.dims()[axis]);
    let fits = |n: &i64| usize::try_from(*n).is_ok_and(|n| n <= steps);
    if time + batch != 1 || lengths.len() != rows || !lengths.iter().all(fits) {
        return Err(format!("cannot reverse {:?} over {} lengths", value.dims(), lengths.len()));
    }
    let width: usize = value.dims()[2..].iter().product();
    let start = |place: usize| {
        let (first, second) = (place / value.dims()[1].max(1), place % value.dims()[1].max(1));
        let (step, row) = if time == 0 { (first, second) } else { (second, first) };
        let length = lengths[row] as usize;
        let step = if step < length { length - 1 - step } else { step };
        (if time == 0 { step * rows + row } else { row * steps + step }) * width
    };
    let starts: Vec<usize> = (0..steps * rows).map(start).collect();
    each!(value, from => picked(from, &starts, width, value.dims().to_vec()))
}
