//! TopK, Unique and CumSum.

use std::cmp::Ordering;

use super::reduce::check_order;
use super::{Operator, operator};
use crate::call::{Call, axis_of, integer_of, size_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Lanes, Tensor, Values, position};

pub(super) const OPERATORS: &[Operator] = &[
    operator("CumSum", 11, 2, &["exclusive", "reverse"], cumulative_sum),
    operator("TopK", 7, 2, &["axis", "k", "largest", "sorted"], top),
    operator("Unique", 11, 1, &["axis", "sorted"], unique),
];

/// Finds the k largest or smallest elements on an axis, in order; the lower index first among equals.
fn top(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let axis = call.axis(-1, input.rank())?;
    let k = if call.opset < 10 {
        call.optional_integer("k")?
    } else {
        Some(call.input(1)?.as_integer()?)
    };
    let Some(k) = k else { return fault("k is missing") };
    let k = size_of(k)?;
    let takes_largest = call.flag("largest", true)?;
    if !call.flag("sorted", true)? {
        return fault("the order of results is open with sorted=0");
    }
    let lanes = Lanes::new(input.shape(), axis);
    if k > lanes.size {
        return fault(format!("{k} of {} elements", lanes.size));
    }
    let order = |a: usize, b: usize| match input.values() {
        Values::Floats(values) => values[a].partial_cmp(&values[b]).unwrap_or(Ordering::Equal),
        Values::Integers(values) => values[a].cmp(&values[b]),
    };
    check_order(input)?;
    let mut shape = input.shape().to_vec();
    shape[axis] = k;
    let mut positions = vec![0; shape.iter().product()];
    let mut indices = vec![0; positions.len()];
    let chosen = Lanes::new(&shape, axis);
    for (lane, target) in lanes.positions().zip(chosen.positions()) {
        let mut steps: Vec<usize> = (0..lane.len()).collect();
        steps.sort_by(|a, b| {
            let order = order(lane[*a], lane[*b]);
            if takes_largest { order.reverse() } else { order }
        });
        if let Values::Floats(values) = input.values() {
            for pair in steps.windows(2).take(k) {
                call.note_choice(values[lane[pair[0]]], values[lane[pair[1]]]);
            }
        }
        for (target, step) in target.iter().zip(steps) {
            positions[*target] = lane[step];
            indices[*target] = integer_of(step);
        }
    }
    let values = input.picked(&shape, &positions)?;
    Ok(vec![values, Tensor::of_integers(Element::Int64, &shape, indices)?])
}

/// Finds the distinct elements or, on an axis, the distinct slices: compares each one with all before it.
fn unique(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    check_order(input)?;
    let (input, axis) = match call.optional_integer("axis")? {
        Some(axis) => (input.clone(), axis_of(axis, input.rank())?),
        None => (input.reshaped(&[input.count()])?, 0),
    };
    let lanes = Lanes::new(input.shape(), axis);
    call.spend_product(&[lanes.size, input.count()])?;
    let order = |a: usize, b: usize| match input.values() {
        Values::Floats(values) => {
            call.note_choice(values[a], values[b]);
            values[a].partial_cmp(&values[b]).unwrap_or(Ordering::Equal)
        }
        Values::Integers(values) => values[a].cmp(&values[b]),
    };
    let elements: Vec<Vec<usize>> = lanes.positions().collect();
    let compare = |a: usize, b: usize| {
        let orders = elements.iter().map(|lane| order(lane[a], lane[b]));
        orders.fold(Ordering::Equal, Ordering::then)
    };
    let (mut firsts, mut groups): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for slice in 0..lanes.size {
        let known = firsts.iter().position(|first| compare(*first, slice) == Ordering::Equal);
        groups.push(known.unwrap_or(firsts.len()));
        if known.is_none() {
            firsts.push(slice);
        }
    }
    let mut ranks: Vec<usize> = (0..firsts.len()).collect();
    if call.flag("sorted", true)? {
        ranks.sort_by(|a, b| compare(firsts[*a], firsts[*b]));
    }
    let mut shape = input.shape().to_vec();
    shape[axis] = ranks.len();
    let distinct = input.rearranged(&shape, |index| {
        let mut own = index.to_vec();
        own[axis] = firsts[ranks[own[axis]]];
        position(&own, input.shape())
    })?;
    let rank = |group: &usize| ranks.iter().position(|known| known == group).unwrap_or_default();
    let inverse: Vec<usize> = groups.iter().map(rank).collect();
    let count = |group: &usize| groups.iter().filter(|own| *own == group).count();
    let list = |all: Vec<usize>| Tensor::of_indices(all.into_iter().map(integer_of).collect());
    let counts = ranks.iter().map(count).collect();
    let firsts = ranks.iter().map(|group| firsts[*group]).collect();
    Ok(vec![distinct, list(firsts)?, list(inverse)?, list(counts)?])
}

/// Sums the elements before each element on an axis, with the element itself unless `exclusive`.
fn cumulative_sum(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    fn accumulate<T: Copy + Default>(
        values: &[T],
        lanes: Lanes,
        (exclusive, reverse): (bool, bool),
        add: fn(T, T) -> T,
    ) -> Vec<T> {
        let mut sums = values.to_vec();
        for mut lane in lanes.positions() {
            if reverse {
                lane.reverse();
            }
            let mut sum = T::default();
            for position in lane {
                let before = sum;
                sum = add(sum, values[position]);
                sums[position] = if exclusive { before } else { sum };
            }
        }
        sums
    }
    let input = call.input(0)?;
    let axis = axis_of(call.input(1)?.as_integer()?, input.rank())?;
    let lanes = Lanes::new(input.shape(), axis);
    let mode = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    let output = match input.values() {
        Values::Floats(values) => {
            let sums = accumulate(values, lanes, mode, |a, b| a + b);
            Tensor::of_floats(input.element(), input.shape(), sums)
        }
        Values::Integers(values) => {
            let sums = accumulate(values, lanes, mode, i64::wrapping_add);
            Tensor::of_integers(input.element(), input.shape(), sums)
        }
    };
    Ok(vec![output?])
}
