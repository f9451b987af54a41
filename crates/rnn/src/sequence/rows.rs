//! Rows of states, wherever a plan keeps them.

use dyno_kernels::Execution;

use crate::plan::StatePart;

/// What of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Hidden,
    Narrow,
    Cell,
}

impl Of {
    pub(super) const ALL: [Self; 3] = [Self::Hidden, Self::Narrow, Self::Cell];

    pub(super) fn buffer(self, part: &StatePart) -> Option<usize> {
        match self {
            Self::Hidden => Some(part.hidden),
            Self::Narrow => part.narrow,
            Self::Cell => part.cell,
        }
    }
}

/// Words of a row; none if the state has no such thing.
pub(super) fn columns(execution: &Execution, parts: &[StatePart], of: Of) -> usize {
    let buffer = parts.first().and_then(|part| of.buffer(part));
    buffer.map_or(0, |buffer| execution.program().buffers()[buffer].columns)
}

/// Where a row's words are, and which of them are the part's.
fn place(
    execution: &Execution,
    part: &StatePart,
    of: Of,
    (slot, row): (usize, usize),
) -> Option<(usize, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let index = of.buffer(part).filter(|_| part.rows.contains(&row))?;
    let buffer = &execution.program().buffers()[index];
    let columns = if of == Of::Cell { part.units.clone() } else { 0..buffer.columns };
    let first = (slot * buffer.rows + row) * buffer.columns;
    Some((index, first + columns.start..first + columns.end, columns))
}

/// Copies a row of a slot out of all parts.
pub(super) fn take(
    execution: &Execution,
    parts: &[StatePart],
    of: Of,
    at: (usize, usize),
    to: &mut [f32],
) {
    for part in parts {
        if let Some((buffer, words, columns)) = place(execution, part, of, at) {
            to[columns].copy_from_slice(&execution.inside(buffer)[words]);
        }
    }
}

/// Copies a row into a slot of all parts.
pub(super) fn put(
    execution: &mut Execution,
    parts: &[StatePart],
    of: Of,
    at: (usize, usize),
    from: &[f32],
) {
    for part in parts {
        if let Some((buffer, words, columns)) = place(execution, part, of, at) {
            execution.inside_mut(buffer)[words].copy_from_slice(&from[columns]);
        }
    }
}
