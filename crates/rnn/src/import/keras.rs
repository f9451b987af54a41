//! Weights as Keras keeps them.

use dyno_kernels::Activation;

use super::{Array, ImportError, transposed};
use crate::layer::{Cell, Directions, Layer, Options, Weights};

/// How a layer of Keras was made, where its weights do not tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keras<'a> {
    /// What it is.
    pub cell: Cell,
    /// `recurrent_activation` and `activation`, if they are not sigmoid and tanh.
    pub activations: Option<(Activation, Activation)>,
    /// `reset_after` of a GRU; false is the default of Keras 1 and of its GRUs before TensorFlow 2.
    pub reset_after: bool,
    /// What stands before `kernel`: once for a layer that reads forward, twice for one of `Bidirectional`
    /// that joins its outputs.
    pub prefixes: &'a [&'a str],
}

/// A layer: `{prefix}kernel` of inputs x gates, `recurrent_kernel` of units x gates and `bias` if it has one.
///
/// Gates there are i, f, c, o of an LSTM and z, r, h of a GRU, which has two rows of biases if it resets
/// after the product.
///
/// # Errors
/// An array is missing or has another shape.
pub fn keras(of: &Keras<'_>, array: &dyn Fn(&str) -> Option<Array>) -> Result<Layer, ImportError> {
    let directions = match of.prefixes.len() {
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
    for prefix in of.prefixes {
        let name = |what: &str| format!("{prefix}{what}");
        let needed =
            |what: &str| array(&name(what)).ok_or_else(|| ImportError::Missing(name(what)));
        let (kernel, state) = (needed("kernel")?, needed("recurrent_kernel")?);
        let (inputs, _) = kernel.matrix(&name("kernel"))?;
        let (units, _) = state.matrix(&name("recurrent_kernel"))?;
        let rows = of.cell.gates() * units;
        kernel.expect(&name("kernel"), &[inputs, rows])?;
        state.expect(&name("recurrent_kernel"), &[units, rows])?;
        let has_two = of.cell == Cell::Gru && of.reset_after;
        let (mut input_bias, mut state_bias) = (vec![0.0; rows], vec![0.0; rows]);
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
    let shape = |(gates, own): (Activation, Activation)| match of.cell {
        Cell::Rnn(_) => [own; 3],
        Cell::Lstm | Cell::Gru => [gates, own, own],
    };
    let options = Options {
        activations: of
            .activations
            .into_iter()
            .flat_map(|of| vec![shape(of); directions.count()])
            .collect(),
        reset_first: of.cell == Cell::Gru && !of.reset_after,
        ..Options::default()
    };
    Ok(Layer::with_options(of.cell, sizes.0, sizes.1, directions, weights, options)?)
}
