//! The last part of a step for cells with options: places become matrices.

use super::Worker;
use crate::cell::general::{self, Shaped};
use crate::cell::{Block, Hidden, Matrix};
use crate::lanes::Lanes;
use crate::program::{self, General, Place};

impl Worker<'_> {
    #[inline(always)]
    pub(super) fn finish_general<S: Lanes>(
        &self,
        s: S,
        cell: &General,
        block: Block,
        matrix: &impl Fn(Place) -> Matrix,
        hidden: &impl Fn(&program::Hidden) -> Hidden,
    ) {
        match cell {
            General::Lstm(cell) => s.call(general::Lstm {
                block,
                input: matrix(cell.input),
                cell: matrix(cell.cell),
                hidden: hidden(&cell.hidden),
                shaped: Shaped::new(cell.gates),
                peepholes: cell.peepholes.as_deref(),
                coupled: cell.coupled,
            }),
            General::Gru(cell) => s.call(general::Gru {
                block,
                input: matrix(cell.input),
                last: matrix(cell.last),
                hidden: hidden(&cell.hidden),
                shaped: Shaped::new(cell.gates),
            }),
            General::Reset(cell) => s.call(general::Reset {
                block,
                input: matrix(cell.input),
                last: matrix(cell.last),
                update: matrix(cell.update),
                reset: matrix(cell.reset),
                shaped: Shaped::new(cell.gates),
            }),
            General::Blend(cell) => s.call(general::Blend {
                block,
                input: matrix(cell.input),
                update: matrix(cell.update),
                last: matrix(cell.last),
                hidden: hidden(&cell.hidden),
                shaped: Shaped::new(cell.gates),
            }),
            General::Rnn(cell) => s.call(general::Rnn {
                block,
                input: cell.input.map(matrix),
                hidden: hidden(&cell.hidden),
                shaped: Shaped::new(cell.gates),
            }),
            General::Highway(cell) => s.call(general::Highway {
                block,
                x: matrix(cell.x),
                to: matrix(cell.to),
                outputs: cell.outputs,
                activation: cell.activation,
                curve: cell.tanh.curve(),
            }),
        }
    }
}
