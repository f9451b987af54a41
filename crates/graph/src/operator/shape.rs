//! Operators that read shapes, or make values of given shapes.

use dyno_onnx::Attribute;
use dyno_tensors::Elements;

use super::{layout, name, one};
use crate::load;
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Data, Number, Value, axis, count, each, strides, zeros};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator) = name(reader) else { return Ok(None) };
    match operator {
        "Shape" => {
            let (start, end) = (reader.int("start", 0)?, reader.int("end", i64::MAX)?);
            one(move |frame| {
                let dims = frame.input(0)?.dims();
                let rank = dims.len() as i64;
                let place =
                    |n: i64| if n < 0 { n.saturating_add(rank) } else { n }.clamp(0, rank) as usize;
                let (start, end) = (place(start), place(end));
                let part = dims.get(start..end).unwrap_or(&[]);
                Ok(Value::list(part.iter().map(|n| *n as i64).collect()))
            })
        }
        "Size" => one(|frame| Ok(Value::scalar(frame.input(0)?.len() as i64))),
        "ConstantOfShape" => {
            let fill = match reader.attribute("value") {
                Some(Attribute::Tensor(tensor)) => {
                    load::value_of(tensor).map_err(|error| error.to_string())?
                }
                None => Value::scalar(0.0_f32),
                Some(_) => return Err("expected attribute 'value' to be a tensor".into()),
            };
            if fill.len() != 1 {
                return Err("expected one value".into());
            }
            let fill = fill.reshaped(Vec::new())?;
            one(move |frame| {
                let dims = frame.input(0)?.integers()?;
                layout::expanded(&fill, &layout::sizes(&dims)?)
            })
        }
        "Range" => {
            // Numbers of 16 bits are computed in `f32`.
            reader.ignore("stash_type");
            one(range)
        }
        "NonZero" => one(non_zero),
        "OneHot" => {
            let along = reader.int("axis", -1)?;
            reader.check_axes(&[along], 1)?;
            one(move |frame| one_hot(frame, along))
        }
        "Trilu" => {
            let upper = reader.int("upper", 1)? != 0;
            one(move |frame| triangle(frame, upper))
        }
        "EyeLike" => eye(reader),
        _ => Ok(None),
    }
}

fn eye(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    reader.expect_rank(0, 2)?;
    let k = reader.int("k", 0)?;
    let element = match reader.int("dtype", 0)? {
        0 => None,
        code => {
            let element = i32::try_from(code).ok().and_then(dyno_onnx::element_of);
            let element = element.filter(|element| Elements::TYPES.contains(element));
            Some(element.ok_or_else(|| format!("type {code} is not supported"))?)
        }
    };
    one(move |frame| {
        let &[rows, columns] = frame.input(0)?.dims() else {
            return Err("expected a matrix".into());
        };
        let mut all: Vec<f32> = zeros(&[rows, columns])?;
        for row in 0..rows {
            let column = usize::try_from(k.saturating_add(row as i64));
            if let Some(column) = column.ok().filter(|column| *column < columns) {
                all[row * columns + column] = 1.0;
            }
        }
        let element = element.unwrap_or(frame.input(0)?.element());
        super::cast::cast_to(Value::new(vec![rows, columns], all)?, element)
    })
}

fn range(frame: &mut Frame<'_>) -> Result<Value, String> {
    let [start, limit, step] = [0, 1, 2].map(|at| frame.input(at));
    let (start, limit, step) = (start?, limit?, step?);
    if start.element().is_real() {
        let one =
            |value: &Value| match super::cast::cast_to(value.clone(), dyno_tensors::Element::F64)?
                .all::<f64>()?
            {
                [only] => Ok(*only),
                _ => Err("expected one number".to_owned()),
            };
        let (from, to, by) = (one(start)?, one(limit)?, one(step)?);
        let length = ((to - from) / by).ceil();
        if !length.is_finite() {
            return Err("expected a finite range".into());
        }
        // A negative length becomes 0.
        let length = count(&[length as usize], 8)?;
        let all = (0..length).map(|at| from + at as f64 * by).collect();
        return super::cast::cast_to(Value::new(vec![length], all)?, start.element());
    }
    let (from, to, by) = (start.integer()?, limit.integer()?, step.integer()?);
    if by == 0 {
        return Err("expected a step other than 0".into());
    }
    let distance = i128::from(to) - i128::from(from);
    let by = i128::from(by);
    let length = if (distance > 0) == (by > 0) {
        distance.unsigned_abs().div_ceil(by.unsigned_abs())
    } else {
        0
    };
    let length = count(&[usize::try_from(length).unwrap_or(usize::MAX)], 8)?;
    let all = (0..length).map(|at| (i128::from(from) + at as i128 * by) as i64).collect();
    super::cast::cast_to(Value::new(vec![length], all)?, start.element())
}

fn non_zero(frame: &mut Frame<'_>) -> Result<Value, String> {
    fn places<T: Number>(all: &[T]) -> Vec<usize> {
        let is_set = |(_, x): &(usize, &T)| **x != T::default();
        all.iter().enumerate().filter(is_set).map(|(at, _)| at).collect()
    }
    let value = frame.input(0)?;
    if value.dims().is_empty() {
        return Err("the standard does not define the indices of a scalar".into());
    }
    let found = each!(value, all => places(all));
    let mut indices = Vec::new();
    for (size, stride) in value.dims().iter().zip(strides(value.dims())) {
        indices.extend(found.iter().map(|place| (place / stride % size) as i64));
    }
    Value::new(vec![value.dims().len(), found.len()], indices)
}

fn one_hot(frame: &mut Frame<'_>, along: i64) -> Result<Value, String> {
    fn hot<T: Number>(
        values: &[T],
        indices: &[Option<usize>],
        shape: [usize; 3],
    ) -> Result<Vec<T>, String> {
        let &[off, on] = values else { return Err("expected two values".into()) };
        let [outer, depth, inner] = shape;
        let mut all = vec![off; count(&[outer, depth, inner], size_of::<T>())?];
        for (at, index) in indices.iter().enumerate() {
            if let Some(index) = index {
                all[(at / inner * depth + index) * inner + at % inner] = on;
            }
        }
        Ok(all)
    }
    let to_i64 = |value: &Value| super::cast::cast_to(value.clone(), dyno_tensors::Element::I64);
    let (given, depth) = (frame.input(0)?, to_i64(frame.input(1)?)?.integer()?);
    let size = usize::try_from(depth).map_err(|_| format!("expected a depth, found {depth}"))?;
    let place =
        |n: &i64| usize::try_from(if *n < 0 { n + depth } else { *n }).ok().filter(|n| *n < size);
    // Numbers that no integer has are as far out of range as any other.
    let limited = match given.data() {
        Data::F32(all) => {
            Value::new(given.dims(), all.iter().map(|x| x.clamp(-1e18, 1e18)).collect())?
        }
        Data::F64(all) => {
            Value::new(given.dims(), all.iter().map(|x| x.clamp(-1e18, 1e18)).collect())?
        }
        _ => given.clone(),
    };
    let indices: Vec<Option<usize>> = to_i64(&limited)?.all::<i64>()?.iter().map(place).collect();
    let mut dims = given.dims().to_vec();
    let at = axis(along, dims.len() + 1)?;
    let shape = [dims[..at].iter().product(), size, dims[at..].iter().product()];
    dims.insert(at, size);
    let values = frame.input(2)?;
    each!(values, values => Value::new(dims, hot(values, &indices, shape)?))
}

fn triangle(frame: &mut Frame<'_>, upper: bool) -> Result<Value, String> {
    fn cleared<T: Number>(all: &[T], dims: &[usize], k: i64, upper: bool) -> Result<Value, String> {
        let [.., rows, columns] = *dims else { return Err("expected a matrix".into()) };
        let mut all = all.to_vec();
        for (row, line) in all.chunks_exact_mut(columns.max(1)).enumerate() {
            let diagonal = (row % rows.max(1)) as i64 + k;
            for (column, x) in line.iter_mut().enumerate() {
                let is_kept =
                    if upper { column as i64 >= diagonal } else { column as i64 <= diagonal };
                *x = if is_kept { *x } else { T::default() };
            }
        }
        Value::new(dims, all)
    }
    let k = frame.get(1).map_or(Ok(0), Value::integer)?.clamp(-(1 << 40), 1 << 40);
    let value = frame.input(0)?;
    each!(value, all => cleared(all, value.dims(), k, upper))
}
