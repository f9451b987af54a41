//! `TopK`.

use std::cmp::Ordering;

use super::name;
use super::reduce::check_order;
use crate::node::{NodeReader, Operation};
use crate::value::{Number, Value, axis, each_number};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if name(reader) != ("", "TopK") {
        return Ok(None);
    }
    let along = reader.axis("axis", -1)?;
    let largest = reader.int("largest", 1)? != 0;
    // Unsorted results may have any order, also a sorted one.
    reader.ignore("sorted");
    let attribute = reader.int("k", 0)?;
    let has_k = if reader.version < 10 {
        reader.attribute("k").is_some()
    } else {
        reader.node.inputs.get(1).is_some_and(|name| !name.is_empty())
    };
    if !has_k {
        return Err("expected the number of elements, k".into());
    }
    Ok(Some(Box::new(move |frame| {
        let k = frame.get(1).map_or(Ok(attribute), Value::integer)?;
        let value = frame.input(0)?;
        let at = axis(along, value.dims().len())?;
        check_order(value)?;
        let size = value.dims()[at];
        let k = usize::try_from(k).ok().filter(|k| *k <= size);
        let k = k.ok_or_else(|| format!("expected at most {size} elements"))?;
        each_number!(value, all => top(all, value.dims(), at, k, largest))
    })))
}

fn top<T: Number>(
    all: &[T],
    dims: &[usize],
    at: usize,
    k: usize,
    largest: bool,
) -> Result<Vec<Value>, String> {
    let (size, inner) = (dims[at], dims[at + 1..].iter().product::<usize>());
    let outer: usize = dims[..at].iter().product();
    let mut to = dims.to_vec();
    to[at] = k;
    let count = outer * k * inner;
    let (mut values, mut indices) = (vec![T::default(); count], vec![0_i64; count]);
    for outer in 0..outer {
        for column in 0..inner {
            let element = |index: usize| all[(outer * size + index) * inner + column];
            let mut order: Vec<usize> = (0..size).collect();
            // Equal elements keep their order.
            order.sort_by(|a, b| {
                let order = element(*a).partial_cmp(&element(*b)).unwrap_or(Ordering::Equal);
                if largest { order.reverse() } else { order }
            });
            for (rank, index) in order.into_iter().take(k).enumerate() {
                let place = (outer * k + rank) * inner + column;
                values[place] = element(index);
                indices[place] = index as i64;
            }
        }
    }
    Ok(vec![Value::new(to.clone(), values)?, Value::new(to, indices)?])
}
