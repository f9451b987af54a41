//! Cells with the options of ONNX: arbitrary activations, clipping, peepholes, coupled gates, a
//! reset gate before the product, and projections. They are slightly slower than the common cells
//! of [`Epilogue`](super::Epilogue).

use std::ops::Range;
use std::sync::Arc;

use super::{HiddenState, Place};
use crate::activation::{Activation, Tanh};
use crate::lanes::LANES;

/// Settings of a cell's gates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gates {
    /// Activations f, g and h of ONNX, in this order: for an LSTM those of the gates, of the cell's
    /// input and of its output; for a GRU f and g only; for an RNN f only.
    pub activations: [Activation; 3],
    /// Limit on the absolute value of sums before an activation.
    pub clip: Option<f32>,
    /// Accuracy of tanh.
    pub tanh: Tanh,
}

/// A cell with options. Places of units begin with unit 0.
#[derive(Clone, Debug)]
pub enum GeneralCell {
    /// Four gates: i, f, g, o of an LSTM.
    Lstm(GeneralLstm),
    /// Three gates: z, r, n of a GRU whose reset gate is applied to the product.
    Gru(GeneralGru),
    /// Two gates, z and r, of a GRU whose reset gate is applied to the state: the first of its two
    /// products.
    Reset(ResetCell),
    /// Gate n of that GRU, from a product with the result of [`GeneralCell::Reset`].
    Blend(BlendCell),
    /// One gate with any number of vectors: a plain recurrent network, or a projection.
    Rnn(GeneralRnn),
    /// Two vectors, gate t and candidate: a highway layer, which has no state.
    Highway(HighwayCell),
}

/// An LSTM. Another product may project its output before that becomes the state.
#[derive(Clone, Debug)]
pub struct GeneralLstm {
    /// Products with the input including biases, in the order of the panels.
    pub input: Place,
    /// Cell state, updated in place.
    pub cell: Place,
    /// Destinations of the output.
    pub hidden: HiddenState,
    /// Settings of the gates.
    pub gates: Gates,
    /// Weights of the cell state in gates i, f and o: panels x 3 x 16; gate o sees the new state.
    pub peepholes: Option<Arc<[f32]>>,
    /// Whether f is 1 - i (`input_forget` in ONNX); the sum of f is then ignored.
    pub coupled: bool,
}

/// A GRU whose gate r is applied to the sum of n.
#[derive(Clone, Debug)]
pub struct GeneralGru {
    /// Products with the input including biases, in the order of the panels.
    pub input: Place,
    /// State after the last step.
    pub last: Place,
    /// Destinations of the new state.
    pub hidden: HiddenState,
    /// Settings of the gates.
    pub gates: Gates,
}

/// Gates z and r of a GRU, and its state times r.
#[derive(Clone, Debug)]
pub struct ResetCell {
    /// Products of z and r with the input including biases, in the order of the panels.
    pub input: Place,
    /// State after the last step.
    pub last: Place,
    /// Destination of z.
    pub update: Place,
    /// Destination of r times the last state.
    pub reset: Place,
    /// Settings of the gates.
    pub gates: Gates,
}

/// Gate n of a GRU and its blend with the last state.
#[derive(Clone, Debug)]
pub struct BlendCell {
    /// Products of n with the input including biases, in the order of the panels.
    pub input: Place,
    /// Gate z.
    pub update: Place,
    /// State after the last step.
    pub last: Place,
    /// Destinations of the new state.
    pub hidden: HiddenState,
    /// Settings of the gates; n has the second activation.
    pub gates: Gates,
}

/// Sums with an activation.
#[derive(Clone, Debug)]
pub struct GeneralRnn {
    /// Products with the input including biases, in the order of the panels; `None` if the sums
    /// include them.
    pub input: Option<Place>,
    /// Destinations of the new state.
    pub hidden: HiddenState,
    /// Settings of the gate.
    pub gates: Gates,
}

/// A highway layer (Srivastava, Greff and Schmidhuber, 2015): `t g + (1 - t) x` with the logistic
/// gate t. Gate and candidate are one product, of panels with two vectors.
#[derive(Clone, Debug)]
pub struct HighwayCell {
    /// Input x; its first column belongs to the first output.
    pub x: Place,
    /// Destination of the outputs.
    pub to: Place,
    /// Number of outputs, and of columns of x that are read.
    pub outputs: usize,
    /// Activation of the candidate.
    pub activation: Activation,
    /// Accuracy of tanh.
    pub tanh: Tanh,
}

impl GeneralCell {
    /// Vectors of a panel, if the cell determines them.
    pub(crate) fn vectors(&self) -> Option<usize> {
        match self {
            Self::Lstm(_) => Some(4),
            Self::Gru(_) => Some(3),
            Self::Reset(_) | Self::Highway(_) => Some(2),
            Self::Blend(_) | Self::Rnn(_) => None,
        }
    }

    /// Units that the cell declares.
    pub(crate) fn units(&self) -> usize {
        match self {
            Self::Lstm(cell) => cell.hidden.units,
            Self::Gru(cell) => cell.hidden.units,
            Self::Reset(_) => 0,
            Self::Blend(cell) => cell.hidden.units,
            Self::Rnn(cell) => cell.hidden.units,
            Self::Highway(cell) => cell.outputs,
        }
    }

    /// Expected and actual numbers of peepholes for `panels` panels, if there are any.
    pub(crate) fn peepholes(&self, panels: usize) -> Option<(usize, usize)> {
        match self {
            Self::Lstm(GeneralLstm { peepholes: Some(peepholes), .. }) => {
                Some((panels * 3 * LANES, peepholes.len()))
            }
            _ => None,
        }
    }

    /// Calls `touch` with each place that the cell accesses for `panels` of `vectors`: the place,
    /// its columns, and whether it is written. Returns the hidden state and its units, which the
    /// caller must add.
    pub(crate) fn touches<'a>(
        &'a self,
        panels: &Range<usize>,
        vectors: usize,
        touch: &mut impl FnMut(Place, Range<usize>, bool),
    ) -> Option<(&'a HiddenState, Range<usize>)> {
        let by = |width: usize| panels.start * width..panels.end * width;
        let (sums, units) = (by(vectors * LANES), by(LANES));
        match self {
            Self::Lstm(cell) => {
                touch(cell.input, sums, false);
                touch(cell.cell, units.clone(), true);
                Some((&cell.hidden, units))
            }
            Self::Gru(cell) => {
                touch(cell.input, sums, false);
                touch(cell.last, units.clone(), false);
                Some((&cell.hidden, units))
            }
            Self::Reset(cell) => {
                touch(cell.input, sums, false);
                touch(cell.last, units.clone(), false);
                touch(cell.update, units.clone(), true);
                touch(cell.reset, units, true);
                None
            }
            Self::Blend(cell) => {
                touch(cell.input, sums.clone(), false);
                touch(cell.update, sums.clone(), false);
                touch(cell.last, sums.clone(), false);
                Some((&cell.hidden, sums))
            }
            Self::Rnn(cell) => {
                cell.input.iter().for_each(|input| touch(*input, sums.clone(), false));
                Some((&cell.hidden, sums))
            }
            Self::Highway(cell) => {
                let outputs = units.start..units.end.min(cell.outputs);
                touch(cell.x, outputs.clone(), false);
                touch(cell.to, outputs, true);
                None
            }
        }
    }
}
