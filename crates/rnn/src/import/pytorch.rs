//! Weights of `torch.nn.LSTM`, `GRU` and `RNN`.

use super::{Array, ImportError, reordered};
use crate::layer::{Cell, CellOptions, Directions, Layer, Weights};

/// Imports the stacked layers of a module, from the first on.
///
/// Layer 0 has `{prefix}weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0` and `bias_hh_l0` if it has
/// biases, `weight_hr_l0` if it has a projection, and each with `_reverse` if it is bidirectional;
/// layer 1 has `l1`, and so on. Each layer takes the outputs of the one before, and has the kinds of
/// arrays that layer 0 has.
///
/// The order of gates in PyTorch is i, f, g, o for an LSTM and r, z, n for a GRU, whose r is
/// applied to the product.
///
/// # Errors
/// An array is missing or has the wrong shape.
pub fn pytorch(
    cell: Cell,
    prefix: &str,
    array: &dyn Fn(&str) -> Option<Array>,
) -> Result<Vec<Layer>, ImportError> {
    let has = |name: &str| array(&format!("{prefix}{name}")).is_some();
    let is_both = has("weight_ih_l0_reverse");
    let has_bias = has("bias_ih_l0") || has("bias_hh_l0");
    let is_projected = has("weight_hr_l0");
    let directions = if is_both { Directions::Both } else { Directions::Forward };
    let endings = if is_both { &["", "_reverse"][..] } else { &[""] };
    let needed = |name: &str| array(name).ok_or_else(|| ImportError::Missing(name.to_owned()));
    let mut layers = Vec::new();
    loop {
        let name = |what: &str| format!("{prefix}{what}_l{}", layers.len());
        if !layers.is_empty() && array(&name("weight_ih")).is_none() {
            return Ok(layers);
        }
        let mut all = Vec::new();
        let mut sizes = (0, 0);
        let mut projections = Vec::new();
        for ending in endings {
            let named = |what: &str| format!("{}{ending}", name(what));
            let (weights_of_direction, found) = direction(cell, has_bias, &named, &needed)?;
            if !all.is_empty() && sizes != found {
                let expected = format!("{sizes:?} inputs and units");
                let found = format!("{found:?}");
                return Err(ImportError::Shape { name: named("weight_ih"), expected, found });
            }
            sizes = found;
            all.push(weights_of_direction);
            if is_projected {
                let projection = needed(&named("weight_hr"))?;
                let (width, _) = projection.matrix(&named("weight_hr"))?;
                projection.expect(&named("weight_hr"), &[width, sizes.1])?;
                projections.push(projection.numbers);
            }
        }
        let options = CellOptions { projections, ..CellOptions::default() };
        layers.push(Layer::with_options(cell, sizes.0, sizes.1, directions, all, options)?);
    }
}

/// Returns the weights of one direction, with its numbers of inputs and units.
fn direction(
    cell: Cell,
    has_bias: bool,
    name: &dyn Fn(&str) -> String,
    needed: &dyn Fn(&str) -> Result<Array, ImportError>,
) -> Result<(Weights, (usize, usize)), ImportError> {
    let input = needed(&name("weight_ih"))?;
    let state = needed(&name("weight_hh"))?;
    let ((rows, inputs), (_, width)) =
        (input.matrix(&name("weight_ih"))?, state.matrix(&name("weight_hh"))?);
    let units = rows / cell.gates();
    input.expect(&name("weight_ih"), &[cell.gates() * units, inputs])?;
    state.expect(&name("weight_hh"), &[rows, width])?;
    let order: &[usize] = match cell {
        Cell::Lstm => &[0, 1, 2, 3],
        Cell::Gru => &[1, 0, 2],
        Cell::Rnn(_) => &[0],
    };
    let bias = |what: &str| {
        if !has_bias {
            return Ok(vec![0.0; rows]);
        }
        let bias = needed(&name(what))?;
        bias.expect(&name(what), &[rows]).map(|()| reordered(&bias.numbers, order))
    };
    let weights = Weights {
        input: reordered(&input.numbers, order),
        state: reordered(&state.numbers, order),
        input_bias: bias("bias_ih")?,
        state_bias: bias("bias_hh")?,
    };
    Ok((weights, (inputs, units)))
}
