//! Comparison of the verification of programs with their execution.

use std::ops::Range;
use std::sync::Arc;

use dyno_kernels::{
    Activation, Buffer, BufferKind, Epilogue, HiddenState, Panels, Place, Precision, Product,
    SlotIndex, Slots,
};

mod random;
mod refused;
mod touches;

/// Weights for `units` units of `vectors` outputs.
pub(crate) fn panels(precision: Precision, vectors: usize, units: usize, k: usize) -> Arc<Panels> {
    let row: Vec<f32> = (0..k).map(|at| (at % 5) as f32 * 0.125 - 0.25).collect();
    Arc::new(Panels::pack(precision, vectors, units, k, |_, _| &row))
}

pub(crate) fn place(buffer: usize, at: SlotIndex, column: usize) -> Place {
    Place { buffer, at, column }
}

pub(crate) fn buffer(kind: BufferKind, slots: Slots, rows: usize, columns: usize) -> Buffer {
    Buffer { kind, slots, rows, columns }
}

/// A product that stores all of its outputs.
pub(crate) fn store(a: Place, to: Place, weights: &Arc<Panels>, rows: Range<usize>) -> Product {
    let outputs = weights.panels() * weights.vectors() * dyno_kernels::LANES;
    let activation = Activation::Identity;
    Product {
        a,
        holds: weights.precision(),
        weights: Arc::clone(weights),
        panels: 0..weights.panels(),
        rows,
        bias: None,
        scale: 1.0,
        reads_state: false,
        epilogue: Epilogue::Store { to, activation, outputs },
    }
}

pub(crate) fn hidden(state: Place, units: usize) -> HiddenState {
    HiddenState { state, narrow: None, output: None, units }
}
