//! Access to the rows of states in a plan's buffers.

use std::ops::Range;

use dyno_kernels::Execution;

use crate::plan::StatePart;

/// Kind of a state's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateKind {
    Hidden,
    Narrow,
    Cell,
}

impl StateKind {
    pub(super) const ALL: [Self; 3] = [Self::Hidden, Self::Narrow, Self::Cell];

    pub(super) fn buffer(self, part: &StatePart) -> Option<usize> {
        match self {
            Self::Hidden => Some(part.hidden),
            Self::Narrow => part.narrow,
            Self::Cell => part.cell,
        }
    }
}

/// Words of a row; 0 if the state has no such buffer.
pub(super) fn columns(execution: &Execution, parts: &[StatePart], kind: StateKind) -> usize {
    let buffer = parts.first().and_then(|part| kind.buffer(part));
    buffer.map_or(0, |buffer| execution.program().buffers()[buffer].columns)
}

/// Returns the buffer of a row, its words there, and the columns that belong to the part.
fn place(
    execution: &Execution,
    part: &StatePart,
    kind: StateKind,
    slot: usize,
    row: usize,
) -> Option<(usize, Range<usize>, Range<usize>)> {
    let index = kind.buffer(part).filter(|_| part.rows.contains(&row))?;
    let buffer = &execution.program().buffers()[index];
    let columns = if kind == StateKind::Cell { part.units.clone() } else { 0..buffer.columns };
    let first = (slot * buffer.rows + row) * buffer.columns;
    Some((index, first + columns.start..first + columns.end, columns))
}

/// Returns the columns of a part among the first `len`: the words of a state end before its padding.
fn clipped(columns: Range<usize>, len: usize) -> Range<usize> {
    columns.start.min(len)..columns.end.min(len)
}

/// Copies a row of a slot out of all parts, as many words as `to` has.
pub(super) fn take(
    execution: &Execution,
    parts: &[StatePart],
    kind: StateKind,
    slot: usize,
    row: usize,
    to: &mut [f32],
) {
    for part in parts {
        if let Some((buffer, words, columns)) = place(execution, part, kind, slot, row) {
            let columns = clipped(columns, to.len());
            to[columns.clone()].copy_from_slice(&execution.inside(buffer)[words][..columns.len()]);
        }
    }
}

/// Copies a row into a slot of all parts; words after those of `from` remain as they are.
pub(super) fn put(
    execution: &mut Execution,
    parts: &[StatePart],
    kind: StateKind,
    slot: usize,
    row: usize,
    from: &[f32],
) {
    for part in parts {
        if let Some((buffer, words, columns)) = place(execution, part, kind, slot, row) {
            let from = &from[clipped(columns, from.len())];
            execution.inside_mut(buffer)[words][..from.len()].copy_from_slice(from);
        }
    }
}
