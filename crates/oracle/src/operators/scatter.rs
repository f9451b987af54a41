//! Operators that write elements at given indices.

use super::arithmetic::greater;
use super::gather::{positions_beside, positions_of_tuples};
use super::{Operator, operator};
use crate::call::Call;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, Values};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Scatter", 9, 3, &["axis"], scatter_elements),
    operator("ScatterElements", 11, 3, &["axis", "reduction"], scatter_elements),
    operator("ScatterND", 11, 3, &["reduction"], scatter_nd),
];

fn scatter_elements(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    if call.input(2)?.shape() != indices.shape() {
        return fault("indices and updates are of different shapes");
    }
    let positions = positions_beside(data, indices, call.axis(0, data.rank())?)?;
    write(call, &positions)
}

fn scatter_nd(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (data, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let Some((depth, outer)) = indices.shape().split_last() else {
        return fault("expected indices of at least one dimension");
    };
    if *depth == 0 || *depth > data.rank() {
        return fault(format!("indices of {:?} for data of {:?}", indices.shape(), data.shape()));
    }
    let inner = &data.shape()[*depth..];
    if updates.shape() != [outer, inner].concat() {
        return fault(format!("updates of {:?} for indices of {outer:?}", updates.shape()));
    }
    let length: usize = inner.iter().product();
    let firsts = positions_of_tuples(data.shape(), indices.as_integers()?, *depth)?;
    let positions: Vec<usize> = firsts.iter().flat_map(|first| *first..first + length).collect();
    write(call, &positions)
}

/// Writes the updates to these positions of the data, one after the other.
fn write(call: &Call<'_>, positions: &[usize]) -> Result<Vec<Tensor>, Fault> {
    let (data, updates) = (call.input(0)?, call.input(2)?);
    let reduction = call.text("reduction", "none")?;
    if reduction == "none" {
        // Which of several updates of one element counts is open.
        let mut sorted = positions.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return fault("two updates of one element without a reduction");
        }
    }
    if data.element() != updates.element() {
        return fault(format!("updates are {}, data {}", updates.element(), data.element()));
    }
    let output = match (data.values(), updates.values()) {
        (Values::Floats(own), Values::Floats(new)) => {
            let mut own = own.clone();
            let combine: fn(f64, f64) -> f64 = match reduction.as_str() {
                "none" => |_, new| new,
                "add" => |own, new| own + new,
                "mul" => |own, new| own * new,
                "max" => greater,
                "min" => |own, new| -greater(-own, -new),
                other => return fault(format!("reduction {other} is not supported")),
            };
            for (position, new) in positions.iter().zip(new) {
                own[*position] = combine(own[*position], *new);
            }
            Tensor::of_floats(data.element(), data.shape(), own)
        }
        (Values::Integers(own), Values::Integers(new)) => {
            let mut own = own.clone();
            let combine: fn(i64, i64) -> i64 = match reduction.as_str() {
                "none" => |_, new| new,
                "add" => i64::wrapping_add,
                "mul" => i64::wrapping_mul,
                "max" => i64::max,
                "min" => i64::min,
                other => return fault(format!("reduction {other} is not supported")),
            };
            for (position, new) in positions.iter().zip(new) {
                own[*position] = combine(own[*position], *new);
            }
            Tensor::of_integers(data.element(), data.shape(), own)
        }
        _ => return fault("data and updates are of different types"),
    };
    Ok(vec![output?])
}
