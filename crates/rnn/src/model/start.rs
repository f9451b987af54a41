//! Initial states and lengths that a file fixes for a layer.

use std::hash::{Hash, Hasher};

use crate::import::{ImportedLayer, InitialState};
use crate::layer::{Cell, Layer};

/// Constant initial states and lengths of a layer, for each row of a batch or the same for all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Start {
    /// Name of the node.
    node: String,
    /// Hidden states and cell states of each row: directions x width numbers. Empty for zeros, one
    /// row if all rows have the same.
    states: [Vec<Vec<f32>>; 2],
    /// Steps of each row. Empty for all steps, one number if all rows have the same.
    lengths: Vec<usize>,
    /// Rows of the constants in the file, if it has any.
    rows: Option<usize>,
}

impl Start {
    /// Returns the constants of an imported layer. Inputs that are not constant count as absent.
    ///
    /// # Errors
    /// The constants are not those of equally many rows.
    pub fn new(imported: &ImportedLayer) -> Result<Self, String> {
        let layer = &imported.layer;
        let directions = layer.directions().count();
        let mut start = Self { node: imported.name.clone(), ..Self::default() };
        let mut counts = Vec::new();
        for (at, state) in imported.initial.iter().enumerate() {
            let InitialState::Given(numbers) = state else { continue };
            let width = widths(layer)[at];
            let rows = numbers.len() / (directions * width).max(1);
            let row = |row: usize| -> Vec<f32> {
                let place = |direction: usize| {
                    let (first, second) = if imported.batch_first {
                        (row * directions, direction)
                    } else {
                        (direction * rows, row)
                    };
                    (first + second) * width
                };
                (0..directions).flat_map(|d| &numbers[place(d)..][..width]).copied().collect()
            };
            start.states[at] = merged((0..rows).map(row).collect());
            counts.push(rows);
        }
        if let Some(lengths) = &imported.given_lengths {
            counts.push(lengths.len());
            start.lengths = merged(lengths.clone());
        }
        if counts.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(format!("has initial states and sequence_lens of {counts:?} rows"));
        }
        start.rows = counts.first().copied();
        Ok(start)
    }

    /// Checks the constants against the steps and rows of the input, where they are known.
    pub fn check(&self, steps: Option<i64>, rows: Option<i64>) -> Result<(), String> {
        let exceeds = |length: &&usize| {
            steps.is_some_and(|steps| i64::try_from(**length).is_ok_and(|length| length > steps))
        };
        if let (Some(length), Some(steps)) = (self.lengths.iter().find(exceeds), steps) {
            return Err(format!("has {length} in sequence_lens, but its input has {steps} steps"));
        }
        match (self.rows.and_then(|own| i64::try_from(own).ok()), rows) {
            (Some(own), Some(rows)) if own != rows => Err(format!(
                "has initial states or sequence_lens of {own} rows, but its input has {rows}"
            )),
            _ => Ok(()),
        }
    }

    /// Name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Rows that a batch must have, if the constants differ from row to row.
    pub fn rows(&self) -> Option<usize> {
        let differs = self.lengths.len() > 1 || self.states.iter().any(|rows| rows.len() > 1);
        self.rows.filter(|_| differs)
    }

    /// Whether the layer starts from other states than zeros.
    pub fn has_states(&self) -> bool {
        self.states.iter().any(|rows| !rows.is_empty())
    }

    /// Constant number of steps of a row, if any.
    pub fn length(&self, row: usize) -> Option<usize> {
        self.lengths.get(if self.lengths.len() == 1 { 0 } else { row }).copied()
    }

    /// Whether the layer has constant lengths.
    pub fn has_lengths(&self) -> bool {
        !self.lengths.is_empty()
    }

    /// Hashes the constants.
    pub fn hash(&self, hasher: &mut impl Hasher) {
        for numbers in self.states.iter().flatten() {
            numbers.iter().for_each(|number| number.to_bits().hash(hasher));
        }
        self.lengths.hash(hasher);
    }

    /// Appends the initial states of `rows` rows: hidden states, then cell states of an LSTM, each
    /// directions x rows x width.
    pub fn push_states(&self, layer: &Layer, rows: usize, to: &mut Vec<f32>) {
        for (width, states) in widths(layer).into_iter().zip(&self.states) {
            for direction in 0..layer.directions().count() {
                for row in 0..rows {
                    match states.get(if states.len() == 1 { 0 } else { row }) {
                        Some(state) => to.extend_from_slice(&state[direction * width..][..width]),
                        None => to.resize(to.len() + width, 0.0),
                    }
                }
            }
        }
    }
}

/// Widths of the hidden state and the cell state of one direction.
fn widths(layer: &Layer) -> [usize; 2] {
    [layer.width(), if layer.cell() == Cell::Lstm { layer.units() } else { 0 }]
}

/// Returns one row if all rows are equal.
fn merged<T: PartialEq>(mut rows: Vec<T>) -> Vec<T> {
    if rows.windows(2).all(|pair| pair[0] == pair[1]) {
        rows.truncate(1);
    }
    rows
}
