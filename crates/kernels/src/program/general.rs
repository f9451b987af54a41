//! Cells with whatever ONNX lets them have: any activations, clipping, peepholes, coupled gates, a
//! reset gate before the product, projections. Slower by a little than the cells of
//! [`Then`](super::Then) that most models have.

use std::ops::Range;
use std::sync::Arc;

use super::{Hidden, Place};
use crate::activation::{Activation, Tanh};
use crate::lanes::LANES;

/// What the gates of a cell have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gates {
    /// Of ONNX, f, g and h in this order: of an LSTM those of the gates, of what goes into the cell
    /// and of what comes out of it; of a GRU the first two, of a plain network the first.
    pub activations: [Activation; 3],
    /// Sums are kept within this distance of zero before an activation.
    pub clip: Option<f32>,
    /// How near to tanh.
    pub tanh: Tanh,
}

/// A cell. Places of units begin with unit 0.
#[derive(Clone, Debug)]
pub enum General {
    /// Four gates: i, f, g, o of an LSTM.
    Lstm(GeneralLstm),
    /// Three gates: z, r, n of a GRU whose reset gate works on the product.
    Gru(GeneralGru),
    /// Two gates, z and r, of a GRU whose reset gate works on the state: the first of its two products.
    Reset(Reset),
    /// Its n, from a product with what [`General::Reset`] left.
    Blend(Blend),
    /// One gate, any number of vectors: a plain network, or a projection.
    Rnn(GeneralRnn),
    /// Two vectors, the gate t and the candidate: a highway layer, which has no state.
    Highway(Highway),
}

/// An LSTM. What it puts out may be projected by another product before it is the state.
#[derive(Clone, Debug)]
pub struct GeneralLstm {
    /// Products with the input, as the panels order them, biases in them.
    pub input: Place,
    /// State of the cell, in place.
    pub cell: Place,
    /// What comes out.
    pub hidden: Hidden,
    /// Of the gates.
    pub gates: Gates,
    /// Weights of the cell's state for the gates i, f and o: panels x 3 x 16; the last sees the new state.
    pub peepholes: Option<Arc<[f32]>>,
    /// Whether f is 1 - i (`input_forget`); the sum of f is then not looked at.
    pub coupled: bool,
}

/// A GRU whose `r` acts on the sum of `n`.
#[derive(Clone, Debug)]
pub struct GeneralGru {
    /// Products with the input, as the panels order them, biases in them.
    pub input: Place,
    /// The last state.
    pub last: Place,
    /// The new one.
    pub hidden: Hidden,
    /// Of the gates.
    pub gates: Gates,
}

/// The gates of a GRU, and its state times r.
#[derive(Clone, Debug)]
pub struct Reset {
    /// Products of z and r with the input, as the panels order them, biases in them.
    pub input: Place,
    /// The last state.
    pub last: Place,
    /// Where z goes.
    pub update: Place,
    /// Where r times the last state goes.
    pub reset: Place,
    /// Of the gates.
    pub gates: Gates,
}

/// What z lets in of n.
#[derive(Clone, Debug)]
pub struct Blend {
    /// Products of n with the input, as the panels order them, biases in them.
    pub input: Place,
    /// z.
    pub update: Place,
    /// The last state.
    pub last: Place,
    /// The new one.
    pub hidden: Hidden,
    /// Of the gates; n has the second activation.
    pub gates: Gates,
}

/// Sums with an activation.
#[derive(Clone, Debug)]
pub struct GeneralRnn {
    /// Products with the input, as the panels order them, biases in them; nothing if the sums have all.
    pub input: Option<Place>,
    /// The new state.
    pub hidden: Hidden,
    /// Of the gate.
    pub gates: Gates,
}

/// A highway layer (Srivastava, Greff and Schmidhuber, 2015): `t g + (1 - t) x` with the logistic gate t.
/// Both products are one, of panels with two vectors.
#[derive(Clone, Debug)]
pub struct Highway {
    /// What is carried: its first column stands against the first output.
    pub x: Place,
    /// Where the outputs go.
    pub to: Place,
    /// How many there are; x is read as far as that.
    pub outputs: usize,
    /// What is done to the candidate's sum.
    pub activation: Activation,
    /// How near to tanh.
    pub tanh: Tanh,
}

impl General {
    /// Vectors of a panel, where they are fixed.
    pub(crate) fn vectors(&self) -> Option<usize> {
        match self {
            Self::Lstm(_) => Some(4),
            Self::Gru(_) => Some(3),
            Self::Reset(_) | Self::Highway(_) => Some(2),
            Self::Blend(_) | Self::Rnn(_) => None,
        }
    }

    /// Units that it claims to have.
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

    /// Numbers that it reads beside the buffers: how many there must be for so many panels, and are.
    pub(crate) fn peepholes(&self, panels: usize) -> Option<(usize, usize)> {
        match self {
            Self::Lstm(GeneralLstm { peepholes: Some(peepholes), .. }) => {
                Some((panels * 3 * LANES, peepholes.len()))
            }
            _ => None,
        }
    }

    /// Calls `touch` with all that is touched for `panels` of `vectors`: where, which columns,
    /// whether written. Hidden states are left to the caller, which gets their units.
    pub(crate) fn touches<'a>(
        &'a self,
        panels: &Range<usize>,
        vectors: usize,
        touch: &mut impl FnMut(Place, Range<usize>, bool),
    ) -> Option<(&'a Hidden, Range<usize>)> {
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
