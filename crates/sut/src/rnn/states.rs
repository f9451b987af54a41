//! States of the layers of a model: their layout in a batch, and whether they can be carried on.

use std::ops::Range;

use dyno_rnn::engine::Engine;
use dyno_rnn::{Cell, Directions, Layer};

/// Layout of the states of one row: the numbers of each layer and direction, as the engine orders
/// them. The engine keeps each of these blocks together for all rows of a batch.
#[derive(Debug, Clone, Default)]
pub(super) struct StateLayout {
    blocks: Vec<Range<usize>>,
}

/// Hidden states or cell states of a layer, among the states of one row.
#[derive(Debug, Clone)]
pub(super) struct LayerState {
    /// Index of the layer.
    pub layer: usize,
    /// `Y_h` or `Y_c`.
    pub name: &'static str,
    pub directions: usize,
    /// Numbers of one direction.
    pub width: usize,
    pub numbers: Range<usize>,
}

/// Returns the states of all layers, in the order of the engine.
pub(super) fn layer_states(engine: &Engine) -> Vec<LayerState> {
    let mut next = 0;
    let mut states = Vec::new();
    for (layer, own) in engine.model().layers().iter().enumerate() {
        let directions = own.directions().count();
        let cells = (own.cell() == Cell::Lstm).then(|| ("Y_c", own.units()));
        for (name, width) in [("Y_h", own.width())].into_iter().chain(cells) {
            let numbers = next..next + directions * width;
            next = numbers.end;
            states.push(LayerState { layer, name, directions, width, numbers });
        }
    }
    states
}

impl StateLayout {
    pub fn new(engine: &Engine) -> Self {
        let blocks = layer_states(engine).into_iter().flat_map(|state| {
            let LayerState { directions, width, numbers, .. } = state;
            (0..directions).map(move |at| {
                let first = numbers.start + at * width;
                first..first + width
            })
        });
        Self { blocks: blocks.collect() }
    }

    /// Returns how many numbers the states of a row have.
    pub fn len(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.end)
    }

    /// Arranges the states of rows as those of a batch; rows without states get zeros.
    pub fn joined(&self, rows: &[Vec<f32>], states: &mut Vec<f32>) {
        states.clear();
        for block in &self.blocks {
            for row in rows {
                match row.get(block.clone()) {
                    Some(own) => states.extend_from_slice(own),
                    None => states.resize(states.len() + block.len(), 0.0),
                }
            }
        }
    }

    /// Copies the states of one of `rows` rows of a batch to `own`.
    pub fn split(&self, states: &[f32], rows: usize, row: usize, own: &mut [f32]) {
        for block in &self.blocks {
            let from = block.start * rows + row * block.len();
            own[block.clone()].copy_from_slice(&states[from..from + block.len()]);
        }
    }
}

/// Returns the states from which a sequence starts that goes on in later batches.
///
/// # Errors
/// The reason why the model cannot go on with a sequence.
pub(super) fn start(engine: &Engine) -> Result<Vec<f32>, String> {
    let model = engine.model();
    let is_backward = |layer: &Layer| layer.directions() != Directions::Forward;
    if let Some(layer) = model.layers().iter().position(is_backward) {
        return Err(format!(
            "layer {layer} runs backward from the last step of a sequence, which is not known \
             before its end"
        ));
    }
    // Free places of a batch have no steps.
    let steps = model.steps(usize::MAX);
    if steps < usize::MAX {
        return Err(format!("the file ends each sequence after {steps} steps (sequence_lens)"));
    }
    engine.initial_states(1).map_err(|error| error.to_string())
}
