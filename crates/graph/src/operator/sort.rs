//! `TopK` and `Unique`.

use std::cmp::Ordering;

use super::gather::gather;
use super::reduce::check_order;
use super::{layout, name};
use crate::node::{NodeReader, Operation};
use crate::value::{Number, Value, axis, each, each_number};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("", "TopK") => top_k(reader),
        ("", "Unique") => unique(reader),
        _ => Ok(None),
    }
}

fn top_k(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
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

/// Reads a `Unique`: distinct elements or, along an axis, distinct slices.
fn unique(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let along = match reader.attribute("axis") {
        Some(_) => Some(reader.axis("axis", 0)?),
        None => None,
    };
    let is_sorted = reader.int("sorted", 1)? != 0;
    Ok(Some(Box::new(move |frame| {
        let value = frame.input(0)?;
        check_order(value)?;
        // The slices become rows. The other axes keep their order, by which slices are compared.
        let (rows, back) = match along {
            None => (value.clone().reshaped(vec![value.len()])?, vec![0]),
            Some(along) => {
                let rank = value.dims().len();
                let at = axis(along, rank)?;
                let mut order: Vec<usize> = (0..rank).collect();
                let mut back = order.clone();
                order[..=at].rotate_right(1);
                back[..=at].rotate_left(1);
                (layout::transposed(value, Some(&order))?, back)
            }
        };
        let found = each!(rows, all => Groups::new(all, rows.dims()[0], is_sorted));
        let list = |all: &[usize]| Value::list(all.iter().map(|at| *at as i64).collect());
        let firsts = list(&found.firsts);
        let distinct = gather(&rows, &firsts, 0)?;
        let distinct = layout::transposed(&distinct, Some(&back))?;
        Ok(vec![distinct, firsts, list(&found.members), list(&found.sizes())])
    })))
}

/// Groups of equal rows.
struct Groups {
    /// First row of each group.
    firsts: Vec<usize>,
    /// Group of each row.
    members: Vec<usize>,
}

impl Groups {
    /// Finds the groups in the order of their numbers, or in that of their first rows.
    fn new<T: Number>(all: &[T], count: usize, is_sorted: bool) -> Self {
        let width = all.len() / count.max(1);
        let row = |at: usize| &all[at * width..][..width];
        let mut order: Vec<usize> = (0..count).collect();
        // Equal rows keep their order.
        order.sort_by(|a, b| row(*a).partial_cmp(row(*b)).unwrap_or(Ordering::Equal));
        let (mut firsts, mut members): (Vec<usize>, _) = (Vec::new(), vec![0; count]);
        for at in order {
            if firsts.last().is_none_or(|first| row(*first) != row(at)) {
                firsts.push(at);
            }
            members[at] = firsts.len() - 1;
        }
        if !is_sorted {
            let sorted = firsts.clone();
            firsts.sort_unstable();
            let place = |group: usize| firsts.binary_search(&sorted[group]).unwrap_or_default();
            members.iter_mut().for_each(|group| *group = place(*group));
        }
        Self { firsts, members }
    }

    /// Returns the number of rows of each group.
    fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.firsts.len()];
        self.members.iter().for_each(|group| sizes[*group] += 1);
        sizes
    }
}
