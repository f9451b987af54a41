//! Operators that combine the elements along some axes.

use super::cast::cast_to;
use super::layout::integers;
use super::{layout, name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Data, Number, Value, axis, each, each_number, is_nan};

use dyno_tensors::Element;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator) = name(reader) else { return Ok(None) };
    match operator {
        "ArgMax" | "ArgMin" => {
            let along = reader.axis("axis", 0)?;
            let keeps = reader.int("keepdims", 1)? != 0;
            let last = reader.flag("select_last_index")?;
            let greatest = operator == "ArgMax";
            one(move |frame| {
                let value = frame.input(0)?;
                let at = axis(along, value.dims().len())?;
                check_order(value)?;
                each_number!(value, all => extreme_index(all, value.dims(), at, (greatest, last)))
                    .and_then(|found| {
                        if keeps { Ok(found) } else { layout::squeeze(found, Some(&[along])) }
                    })
            })
        }
        "CumSum" => {
            let (exclusive, back) = (reader.flag("exclusive")?, reader.flag("reverse")?);
            reader.check_axes(&reader.known(1, None)?, 0)?;
            one(move |frame| {
                let along = frame.input(1)?.integer()?;
                let value = frame.input(0)?;
                let at = axis(along, value.dims().len())?;
                cumulate(value, at, exclusive, back)
            })
        }
        _ => match operator.strip_prefix("Reduce").and_then(Kind::from_name) {
            Some(kind) => reduction(reader, kind),
            None => Ok(None),
        },
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Sum,
    Mean,
    Max,
    Min,
    Product,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

impl Kind {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "Sum" => Self::Sum,
            "Mean" => Self::Mean,
            "Max" => Self::Max,
            "Min" => Self::Min,
            "Prod" => Self::Product,
            "L1" => Self::L1,
            "L2" => Self::L2,
            "SumSquare" => Self::SumSquare,
            "LogSum" => Self::LogSum,
            "LogSumExp" => Self::LogSumExp,
            _ => return None,
        })
    }

    /// Returns whether the result of a single element is the element.
    fn keeps_single(self) -> bool {
        match self {
            Self::Sum | Self::Mean | Self::Max | Self::Min | Self::Product | Self::LogSumExp => {
                true
            }
            Self::L1 | Self::L2 | Self::SumSquare | Self::LogSum => false,
        }
    }
}

fn reduction(reader: &NodeReader<'_>, kind: Kind) -> Result<Option<Operation>, String> {
    let axes = reader.ints("axes")?;
    reader.check_axes(&reader.known(1, axes.as_deref())?, 0)?;
    let keeps = reader.int("keepdims", 1)? != 0;
    let is_empty_noop = reader.flag("noop_with_empty_axes")?;
    one(move |frame| {
        let axes = integers(frame, 1, axes.as_deref())?.unwrap_or_default();
        if axes.is_empty() && is_empty_noop && kind.keeps_single() {
            return frame.take(0);
        }
        let value = frame.input(0)?;
        let rank = value.dims().len();
        // Over no axes, each element is still squared, made absolute, or replaced by its logarithm.
        let mut goes = vec![axes.is_empty() && !is_empty_noop; rank];
        for along in &axes {
            goes[axis(*along, rank)?] = true;
        }
        // Axes to combine become the last ones.
        let kept = (0..rank).filter(|axis| !goes[*axis]);
        let order: Vec<usize> = kept.chain((0..rank).filter(|axis| goes[*axis])).collect();
        let turned = layout::transposed(value, Some(&order))?;
        let size = |gone: bool| -> usize {
            value
                .dims()
                .iter()
                .zip(&goes)
                .filter(|(_, goes)| **goes == gone)
                .map(|(n, _)| n)
                .product()
        };
        let (outer, inner) = (size(false), size(true));
        let dims = value.dims().iter().zip(&goes);
        let dims = dims.filter(|(_, goes)| keeps || !**goes);
        let dims: Vec<usize> = dims.map(|(n, goes)| if *goes { 1 } else { *n }).collect();
        reduced(&turned, outer, inner, dims, kind)
    })
}

fn reduced(
    value: &Value,
    outer: usize,
    inner: usize,
    dims: Vec<usize>,
    kind: Kind,
) -> Result<Value, String> {
    if inner == 0 && kind == Kind::Mean {
        return Err("the standard does not define the mean of no elements".into());
    }
    /// Combines floating-point numbers as `f64`, and rounds the results.
    fn real<T: Number>(
        all: &[T],
        (outer, inner): (usize, usize),
        dims: Vec<usize>,
        combine: impl Fn(&[T]) -> T,
    ) -> Result<Value, String> {
        Value::new(dims, (0..outer).map(|row| combine(&all[row * inner..][..inner])).collect())
    }
    fn extreme<T: Number>(all: &[T], greatest: bool) -> T {
        let is_better = |x: &T, best: &T| if greatest { x > best } else { x < best };
        all.iter().copied().fold(
            all[0],
            |best, x| {
                if is_better(&x, &best) || is_nan(x) { x } else { best }
            },
        )
    }
    let size = (outer, inner);
    if matches!(kind, Kind::Max | Kind::Min) {
        let greatest = kind == Kind::Max;
        if inner == 0 {
            return layout::expanded(&extreme_of_none(value.element(), greatest)?, &dims);
        }
        return each!(value, all => real(all, size, dims, |row| extreme(row, greatest)));
    }
    match value.data() {
        Data::F32(all) => {
            real(all, size, dims, |row| combined(row.iter().map(|x| f64::from(*x)), kind) as f32)
        }
        Data::F64(all) => real(all, size, dims, |row| combined(row.iter().copied(), kind)),
        // Roots and logarithms of integers are truncated; the logarithm of a negative sum is NaN.
        Data::I64(_) | Data::I32(_)
            if matches!(kind, Kind::L2 | Kind::LogSum | Kind::LogSumExp) =>
        {
            let numbers = cast_to(value.clone(), Element::F64)?;
            cast_to(reduced(&numbers, outer, inner, dims, kind)?, value.element())
        }
        Data::I64(all) => real(all, size, dims, |row| whole(row.iter().copied(), kind)),
        Data::I32(all) => {
            real(all, size, dims, |row| whole(row.iter().map(|x| i64::from(*x)), kind) as i32)
        }
        _ => Err(format!("elements of type {} are not supported", value.element())),
    }
}

/// Returns the greatest or the least of no elements: that with which every number is an extreme.
fn extreme_of_none(element: Element, greatest: bool) -> Result<Value, String> {
    macro_rules! number {
        ($least:expr, $most:expr) => {
            Value::scalar(if greatest { $least } else { $most })
        };
    }
    Ok(match element {
        Element::F32 => number!(f32::NEG_INFINITY, f32::INFINITY),
        Element::F64 => number!(f64::NEG_INFINITY, f64::INFINITY),
        Element::I64 => number!(i64::MIN, i64::MAX),
        Element::I32 => number!(i32::MIN, i32::MAX),
        Element::I8 => number!(i8::MIN, i8::MAX),
        Element::U8 => number!(u8::MIN, u8::MAX),
        Element::Bool => number!(false, true),
        other => return Err(format!("elements of type {other} are not supported")),
    })
}

fn combined(row: impl ExactSizeIterator<Item = f64> + Clone, kind: Kind) -> f64 {
    let count = row.len();
    if count == 0 {
        // Sums of the standard library begin with -0.
        return match kind {
            Kind::Product => 1.0,
            Kind::LogSum | Kind::LogSumExp => f64::NEG_INFINITY,
            _ => 0.0,
        };
    }
    match kind {
        Kind::Sum => row.sum(),
        Kind::Mean => row.sum::<f64>() / count as f64,
        Kind::Product => row.product(),
        Kind::L1 => row.map(f64::abs).sum(),
        Kind::L2 => row.map(|x| x * x).sum::<f64>().sqrt(),
        Kind::SumSquare => row.map(|x| x * x).sum(),
        Kind::LogSum => row.sum::<f64>().ln(),
        Kind::LogSumExp => {
            let most = row.clone().fold(f64::NEG_INFINITY, f64::max);
            // Infinite numbers have no difference.
            let most = if most.is_finite() { most } else { 0.0 };
            row.map(|x| (x - most).exp()).sum::<f64>().ln() + most
        }
        Kind::Max | Kind::Min => unreachable!("found by comparison"),
    }
}

/// Combines integers, which wrap.
fn whole(row: impl ExactSizeIterator<Item = i64> + Clone, kind: Kind) -> i64 {
    let count = row.len() as i64;
    let sum = |row: &mut dyn Iterator<Item = i64>| row.fold(0_i64, i64::wrapping_add);
    match kind {
        Kind::Sum => sum(&mut row.into_iter()),
        Kind::Mean => sum(&mut row.into_iter()) / count,
        Kind::Product => row.fold(1_i64, i64::wrapping_mul),
        Kind::L1 => sum(&mut row.map(i64::wrapping_abs)),
        Kind::SumSquare => sum(&mut row.map(|x| x.wrapping_mul(x))),
        _ => unreachable!("found by comparison, or of real numbers"),
    }
}

/// Checks that the elements can be ordered. The standard does not define which index NaN has.
pub(super) fn check_order(value: &Value) -> Result<(), String> {
    if value.has_nan() { Err("NaN has no order".into()) } else { Ok(()) }
}

fn extreme_index<T: Number>(
    all: &[T],
    dims: &[usize],
    at: usize,
    (greatest, last): (bool, bool),
) -> Result<Value, String> {
    let size = dims[at];
    if size == 0 {
        return Err("expected elements to compare".into());
    }
    let inner: usize = dims[at + 1..].iter().product();
    let outer: usize = dims[..at].iter().product();
    let mut found = Vec::with_capacity(outer * inner);
    for outer in 0..outer {
        for inner_at in 0..inner {
            let element = |index: usize| all[(outer * size + index) * inner + inner_at];
            let is_better = |a: T, b: T| {
                if greatest { a > b || (last && a == b) } else { a < b || (last && a == b) }
            };
            let best = (1..size).fold(0, |best, index| {
                if is_better(element(index), element(best)) { index } else { best }
            });
            found.push(best as i64);
        }
    }
    let mut dims = dims.to_vec();
    dims[at] = 1;
    Value::new(dims, found)
}

fn cumulate(value: &Value, at: usize, exclusive: bool, back: bool) -> Result<Value, String> {
    fn sums<T: Number>(
        all: &[T],
        dims: &[usize],
        at: usize,
        (exclusive, back): (bool, bool),
        add: impl Fn(T, T) -> T,
    ) -> Result<Value, String> {
        let (size, inner) = (dims[at], dims[at + 1..].iter().product::<usize>());
        let mut to = all.to_vec();
        if size == 0 || inner == 0 {
            return Value::new(dims, to);
        }
        for block in to.chunks_exact_mut(size * inner) {
            for column in 0..inner {
                let mut sum = T::default();
                for step in 0..size {
                    let index = if back { size - 1 - step } else { step };
                    let place = &mut block[index * inner + column];
                    let next = add(sum, *place);
                    *place = if exclusive { sum } else { next };
                    sum = next;
                }
            }
        }
        Value::new(dims, to)
    }
    let (dims, how) = (value.dims(), (exclusive, back));
    match value.data() {
        Data::F32(all) => sums(all, dims, at, how, |a, b| a + b),
        Data::F64(all) => sums(all, dims, at, how, |a, b| a + b),
        Data::I64(all) => sums(all, dims, at, how, i64::wrapping_add),
        Data::I32(all) => sums(all, dims, at, how, i32::wrapping_add),
        _ => Err(format!("elements of type {} are not supported", value.element())),
    }
}
