//! Comparisons, logic, and choices by truth values.

use std::cmp::Ordering;

use super::{Operator, operator};
use crate::call::Call;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, Values, broadcast_shape, for_each_index};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Equal", 7, 2, &[], |call| compare(call, Ordering::is_eq)),
    operator("Greater", 7, 2, &[], |call| compare(call, Ordering::is_gt)),
    operator("GreaterOrEqual", 12, 2, &[], |call| compare(call, Ordering::is_ge)),
    operator("Less", 7, 2, &[], |call| compare(call, Ordering::is_lt)),
    operator("LessOrEqual", 12, 2, &[], |call| compare(call, Ordering::is_le)),
    operator("And", 7, 2, &[], |call| logic(call, |a, b| a && b)),
    operator("Or", 7, 2, &[], |call| logic(call, |a, b| a || b)),
    operator("Xor", 7, 2, &[], |call| logic(call, |a, b| a != b)),
    operator("Not", 7, 1, &[], |call| {
        let input = call.input(0)?;
        let truths = input.as_truths()?;
        Ok(vec![Tensor::of_truths(input.shape(), truths.iter().map(|truth| !truth))?])
    }),
    operator("IsNaN", 9, 1, &[], |call| {
        let input = call.input(0)?;
        let truths = input.as_floats()?.iter().map(|value| value.is_nan());
        Ok(vec![Tensor::of_truths(input.shape(), truths)?])
    }),
    operator("IsInf", 10, 1, &["detect_negative", "detect_positive"], |call| {
        let input = call.input(0)?;
        let negative = call.flag("detect_negative", true)?;
        let positive = call.flag("detect_positive", true)?;
        let truths = input
            .as_floats()?
            .iter()
            .map(|value| value.is_infinite() && if *value < 0.0 { negative } else { positive });
        Ok(vec![Tensor::of_truths(input.shape(), truths)?])
    }),
    operator("Where", 9, 3, &[], choose),
    operator("NonZero", 9, 1, &[], nonzero),
];

/// Compares pairs of elements. A comparison with NaN is false.
fn compare(call: &Call<'_>, accepts: fn(Ordering) -> bool) -> Result<Vec<Tensor>, Fault> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.element() != b.element() {
        return fault(format!("inputs are of types {} and {}", a.element(), b.element()));
    }
    let shape = broadcast_shape(&[a.shape(), b.shape()])?;
    call.spend_shape(&shape)?;
    let (a, b) = (a.broadcast(&shape)?, b.broadcast(&shape)?);
    let output = match (a.values(), b.values()) {
        (Values::Floats(x), Values::Floats(y)) => {
            // Engines round what they compare.
            let element = a.element();
            let orders = x.iter().zip(y).map(|(own, other)| {
                let (x, y) = (element.round(*own), element.round(*other));
                call.note_jump(element, &[*own, *other], [x, y]);
                x.partial_cmp(&y)
            });
            Tensor::of_truths(&shape, orders.map(|order| order.is_some_and(accepts)))
        }
        (Values::Integers(x), Values::Integers(y)) => {
            Tensor::of_truths(&shape, x.iter().zip(y).map(|(x, y)| accepts(x.cmp(y))))
        }
        _ => fault("inputs are of different types"),
    };
    Ok(vec![output?])
}

fn logic(call: &Call<'_>, combine: fn(bool, bool) -> bool) -> Result<Vec<Tensor>, Fault> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let shape = broadcast_shape(&[a.shape(), b.shape()])?;
    call.spend_shape(&shape)?;
    let (a, b) = (a.broadcast(&shape)?.as_truths()?, b.broadcast(&shape)?.as_truths()?);
    Ok(vec![Tensor::of_truths(&shape, a.iter().zip(&b).map(|(a, b)| combine(*a, *b)))?])
}

/// Takes each element of the second input where the first is true, else of the third.
fn choose(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (condition, a, b) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if a.element() != b.element() {
        return fault(format!("inputs are of types {} and {}", a.element(), b.element()));
    }
    let shape = broadcast_shape(&[condition.shape(), a.shape(), b.shape()])?;
    let count = call.spend_shape(&shape)?;
    let truths = condition.broadcast(&shape)?.as_truths()?;
    let both = a.broadcast(&shape)?.followed_by(&b.broadcast(&shape)?)?;
    let positions: Vec<usize> =
        (0..count).map(|element| if truths[element] { element } else { count + element }).collect();
    Ok(vec![both.picked(&shape, &positions)?])
}

/// Returns the indices of elements other than 0: one row for each dimension.
fn nonzero(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let values = input.to_floats();
    let mut rows = vec![Vec::new(); input.rank()];
    let mut element = 0;
    for_each_index(input.shape(), |index| {
        if values[element] != 0.0 {
            for (row, position) in rows.iter_mut().zip(index) {
                row.push(crate::call::integer_of(*position));
            }
        }
        element += 1;
    });
    let Some(count) = rows.first().map(Vec::len) else {
        return fault("the standard does not define the indices of a scalar");
    };
    let shape = [input.rank(), count];
    Ok(vec![Tensor::of_integers(crate::Element::Int64, &shape, rows.concat())?])
}
