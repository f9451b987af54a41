//! Weights of Keras layers.

use dyno_kernels::Activation;

use super::{Array, ImportError, transposed};
use crate::layer::{Cell, CellOptions, Directions, Layer, Weights};

/// Description of a Keras layer that its weights do not determine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KerasLayer<'a> {
    /// The cell.
    pub cell: Cell,
    /// `recurrent_activation` and `activation`, unless these are sigmoid and tanh.
    pub activations: Option<(Activation, Activation)>,
    /// `reset_after` of a GRU; false is the default of Keras 1 and of GRUs before TensorFlow 2.
    pub reset_after: bool,
    /// Prefixes of `kernel`: one for a forward layer, two for a `Bidirectional` one that
    /// concatenates its outputs.
    pub prefixes: &'a [&'a str],
}

/// Imports a layer from `{prefix}kernel` of inputs x gates, `recurrent_kernel` of units x gates,
/// and `bias` if present.
///
/// The order of gates in Keras is i, f, c, o for an LSTM and z, r, h for a GRU, which has two rows
/// of biases if it resets after the product.
///
/// # Errors
/// An array is missing or has the wrong shape.
pub fn keras(
    layer: &KerasLayer<'_>,
    array: &dyn Fn(&str) -> Option<Array>,
) -> Result<Layer, ImportError> {
    let directions = match layer.prefixes.len() {
        1 => Directions::Forward,
        2 => Directions::Both,
        count => {
            return Err(ImportError::Format(format!(
                "expected one or two prefixes, found {count}"
            )));
        }
    };
    let mut weights = Vec::new();
    let mut sizes = (0, 0);
    for prefix in layer.prefixes {
        let name = |what: &str| format!("{prefix}{what}");
        let needed =
            |what: &str| array(&name(what)).ok_or_else(|| ImportError::Missing(name(what)));
        let kernel = needed("kernel")?;
        let state = needed("recurrent_kernel")?;
        let (inputs, _) = kernel.matrix(&name("kernel"))?;
        let (units, _) = state.matrix(&name("recurrent_kernel"))?;
        let rows = layer.cell.gates() * units;
        kernel.expect(&name("kernel"), &[inputs, rows])?;
        state.expect(&name("recurrent_kernel"), &[units, rows])?;
        let has_two = layer.cell == Cell::Gru && layer.reset_after;
        let mut input_bias = vec![0.0; rows];
        let mut state_bias = vec![0.0; rows];
        if let Some(bias) = array(&name("bias")) {
            let shape = if has_two { &[2, rows][..] } else { &[rows] };
            bias.expect(&name("bias"), shape)?;
            input_bias.copy_from_slice(&bias.numbers[..rows]);
            if has_two {
                state_bias.copy_from_slice(&bias.numbers[rows..]);
            }
        }
        sizes = (inputs, units);
        weights.push(Weights {
            input: transposed(&kernel.numbers, inputs, rows),
            state: transposed(&state.numbers, units, rows),
            input_bias,
            state_bias,
        });
    }
    let shape = |(gates, own): (Activation, Activation)| match layer.cell {
        Cell::Rnn(_) => [own; 3],
        Cell::Lstm | Cell::Gru => [gates, own, own],
    };
    let options = CellOptions {
        activations: layer
            .activations
            .into_iter()
            .flat_map(|pair| vec![shape(pair); directions.count()])
            .collect(),
        reset_first: layer.cell == Cell::Gru && !layer.reset_after,
        ..CellOptions::default()
    };
    Ok(Layer::with_options(layer.cell, sizes.0, sizes.1, directions, weights, options)?)
}
