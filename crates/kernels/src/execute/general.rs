//! Epilogues of cells with options: turns places into matrices.

use super::worker::{Step, Worker};
use crate::cell::Block;
use crate::cell::general::{self, GateActivations};
use crate::lanes::Lanes;
use crate::program::GeneralCell;

impl Worker<'_> {
    #[inline(always)]
    pub(super) fn finish_general<S: Lanes>(
        &self,
        s: S,
        cell: &GeneralCell,
        block: Block,
        at: &Step<'_>,
    ) {
        match cell {
            GeneralCell::Lstm(cell) => s.call(general::Lstm {
                block,
                input: at.matrix(cell.input),
                cell: at.matrix(cell.cell),
                hidden: at.hidden(&cell.hidden),
                shaped: GateActivations::new(cell.gates),
                peepholes: cell.peepholes.as_deref(),
                coupled: cell.coupled,
            }),
            GeneralCell::Gru(cell) => s.call(general::Gru {
                block,
                input: at.matrix(cell.input),
                last: at.matrix(cell.last),
                hidden: at.hidden(&cell.hidden),
                shaped: GateActivations::new(cell.gates),
            }),
            GeneralCell::Reset(cell) => s.call(general::ResetCell {
                block,
                input: at.matrix(cell.input),
                last: at.matrix(cell.last),
                update: at.matrix(cell.update),
                reset: at.matrix(cell.reset),
                shaped: GateActivations::new(cell.gates),
            }),
            GeneralCell::Blend(cell) => s.call(general::BlendCell {
                block,
                input: at.matrix(cell.input),
                update: at.matrix(cell.update),
                last: at.matrix(cell.last),
                hidden: at.hidden(&cell.hidden),
                shaped: GateActivations::new(cell.gates),
            }),
            GeneralCell::Rnn(cell) => s.call(general::Rnn {
                block,
                input: cell.input.map(|place| at.matrix(place)),
                hidden: at.hidden(&cell.hidden),
                shaped: GateActivations::new(cell.gates),
            }),
            GeneralCell::Highway(cell) => s.call(general::HighwayCell {
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
