//! The last part of a step for cells with options: places become matrices.

use super::worker::{Step, Worker};
use crate::cell::Block;
use crate::cell::general::{self, Shaped};
use crate::lanes::Lanes;
use crate::program::General;

impl Worker<'_> {
    #[inline(always)]
    pub(super) fn finish_general<S: Lanes>(
        &self,
        s: S,
        cell: &General,
        block: Block,
        at: &Step<'_>,
    ) {
        match cell {
            General::Lstm(cell) => s.call(general::Lstm {
                block,
                input: at.matrix(cell.input),
                cell: at.matrix(cell.cell),
                hidden: at.hidden(&cell.hidden),
                shaped: Shaped::new(cell.gates),
                peepholes: cell.peepholes.as_deref(),
                coupled: cell.coupled,
            }),
            General::Gru(cell) => s.call(general::Gru {
                block,
                input: at.matrix(cell.input),
                last: at.matrix(cell.last),
                hidden: at.hidden(&cell.hidden),
                shaped: Shaped::new(cell.gates),
            }),
            General::Reset(cell) => s.call(general::Reset {
                block,
                input: at.matrix(cell.input),
                last: at.matrix(cell.last),
                update: at.matrix(cell.update),
                reset: at.matrix(cell.reset),
                shaped: Shaped::new(cell.gates),
            }),
            General::Blend(cell) => s.call(general::Blend {
                block,
                input: at.matrix(cell.input),
                update: at.matrix(cell.update),
                last: at.matrix(cell.last),
                hidden: at.hidden(&cell.hidden),
                shaped: Shaped::new(cell.gates),
            }),
            General::Rnn(cell) => s.call(general::Rnn {
                block,
                input: cell.input.map(|place| at.matrix(place)),
                hidden: at.hidden(&cell.hidden),
                shaped: Shaped::new(cell.gates),
            }),
            General::Highway(cell) => s.call(general::Highway {
                block,
                x: at.matrix(cell.x),
                to: at.matrix(cell.to),
                outputs: cell.outputs,
                activation: cell.activation,
                curve: cell.tanh.curve(),
            }),
        }
    }
}
