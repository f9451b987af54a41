//! Verification of programs: every place lies inside of its buffer, and between two barriers no
//! worker accesses what another one writes.

use std::ops::Range;

use thiserror::Error;

use super::{
    Buffer, BufferKind, Cadence, Epilogue, HiddenState, Loop, Phase, Place, Product, SlotIndex,
    Slots,
};
use crate::lanes::LANES;
use crate::panels::Precision;

/// Reason why a program is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The amount of work in a phase differs from the number of workers.
    #[error("expected work for {expected} workers, found work for {found}")]
    Workers {
        /// Workers of the program.
        expected: usize,
        /// Workers with work in the phase.
        found: usize,
    },
    /// A place lies outside of its buffer, or the buffer does not exist.
    #[error("rows {:?}, columns {:?} are outside of buffer {buffer}", touched.0, touched.1)]
    Outside {
        /// Index of the buffer.
        buffer: usize,
        /// Rows and columns that would be accessed.
        touched: (Range<usize>, Range<usize>),
    },
    /// A buffer exceeds the memory of any machine.
    #[error("expected a buffer that fits into memory, found more words in buffer {buffer}")]
    Size {
        /// Index of the buffer.
        buffer: usize,
    },
    /// The buffer, or this loop, does not have the slot.
    #[error("buffer {buffer} has no slot {at} in this loop")]
    Slot {
        /// Index of the buffer.
        buffer: usize,
        /// The slot.
        at: String,
    },
    /// An input would be written, or two buffers are the same output.
    #[error("buffer {buffer} is an input that is written, or an output named twice")]
    Direction {
        /// Index of the buffer.
        buffer: usize,
    },
    /// Panels, biases or cells do not fit the weights.
    #[error("expected {expected} {what}, found {found}")]
    Weights {
        /// Description of the count.
        what: &'static str,
        /// Expected count.
        expected: usize,
        /// Count found.
        found: usize,
    },
    /// Two workers could access the same place without a barrier between them, and one of them
    /// writes.
    #[error("workers {} and {} would meet in buffer {buffer}", workers.0, workers.1)]
    Race {
        /// The workers.
        workers: (usize, usize),
        /// Index of the buffer.
        buffer: usize,
    },
}

/// An access of a product to a buffer.
struct Access {
    place: Place,
    rows: Range<usize>,
    columns: Range<usize>,
    writes: bool,
}

impl Access {
    fn is_nothing(&self) -> bool {
        self.rows.is_empty() || self.columns.is_empty()
    }
}

pub(super) fn check(
    workers: usize,
    buffers: &[Buffer],
    loops: &[Loop],
) -> Result<(), ProgramError> {
    if workers == 0 {
        return Err(ProgramError::Workers { expected: 1, found: 0 });
    }
    for (index, buffer) in buffers.iter().enumerate() {
        // The size of a buffer as long as a sequence is checked again at each run.
        let slots = if let Slots::Count(count) = buffer.slots { count } else { 1 };
        if buffer.words(slots).is_none() {
            return Err(ProgramError::Size { buffer: index });
        }
        let again = |other: &Buffer| {
            matches!(other.kind, BufferKind::Output(_)) && other.kind == buffer.kind
        };
        if buffers[..index].iter().any(again) {
            return Err(ProgramError::Direction { buffer: index });
        }
    }
    for looped in loops {
        let phases = || {
            looped
                .stages
                .iter()
                .flat_map(|stage| stage.phases.iter().map(move |p| (stage.cadence, p)))
        };
        for (cadence, phase) in phases() {
            if phase.work.len() != workers {
                return Err(ProgramError::Workers { expected: workers, found: phase.work.len() });
            }
            for product in phase.work.iter().flatten() {
                fits(product)?;
                for access in accesses(product) {
                    inside(buffers, looped, cadence, &access)?;
                }
            }
        }
        // If each phase ends with a barrier, only accesses of one phase can race, and all of them
        // are at the same step. Otherwise, two workers may be anywhere in the loop.
        if phases().all(|(_, phase)| phase.has_barrier) {
            for (cadence, phase) in phases() {
                apart(buffers, &[phase], cadence == Cadence::Step)?;
            }
        } else {
            apart(buffers, &phases().map(|(_, phase)| phase).collect::<Vec<_>>(), false)?;
        }
    }
    Ok(())
}

/// Checks panels, biases and cells against the weights.
fn fits(product: &Product) -> Result<(), ProgramError> {
    let weights = &product.weights;
    let needed = |what, expected, found| Err(ProgramError::Weights { what, expected, found });
    if product.panels.end > weights.panels() {
        return needed("panels", product.panels.end, weights.panels());
    }
    let outputs = weights.panels() * weights.vectors() * LANES;
    if let Some(bias) = &product.bias
        && bias.len() != outputs
    {
        return needed("biases", outputs, bias.len());
    }
    if product.holds != Precision::F32 && product.holds != weights.precision() {
        return needed(
            "values of k in a word",
            weights.precision().per_word(),
            product.holds.per_word(),
        );
    }
    let (gates, units) = match &product.epilogue {
        Epilogue::Store { outputs: stored, .. } => (weights.vectors(), *stored),
        Epilogue::Lstm(cell) => (4, cell.hidden.units),
        Epilogue::Gru(cell) => (3, cell.hidden.units),
        Epilogue::Rnn(cell) => (weights.vectors(), cell.hidden.units),
        Epilogue::General(cell) => (cell.vectors().unwrap_or(weights.vectors()), cell.units()),
    };
    if gates != weights.vectors() {
        return needed("vectors of a panel", gates, weights.vectors());
    }
    let most = match &product.epilogue {
        Epilogue::Store { .. } | Epilogue::Rnn(_) => outputs,
        Epilogue::General(cell) if cell.vectors().is_none() => outputs,
        Epilogue::Lstm(_) | Epilogue::Gru(_) | Epilogue::General(_) => weights.panels() * LANES,
    };
    if units > most {
        return needed("outputs of the weights", units, most);
    }
    if let Epilogue::General(cell) = &product.epilogue
        && let Some((expected, found)) = cell.peepholes(weights.panels())
        && expected != found
    {
        return needed("peepholes", expected, found);
    }
    Ok(())
}

/// Returns all accesses of a product.
fn accesses(product: &Product) -> Vec<Access> {
    // A range that ends before it begins is empty, and a product with an empty range does nothing.
    let nothing = product.panels.is_empty() || product.rows.is_empty();
    let some = |range: &Range<usize>| if nothing { 0..0 } else { range.clone() };
    let (panels, rows) = (some(&product.panels), some(&product.rows));
    let width = product.weights.vectors() * LANES;
    let mut all = Vec::new();
    let mut touch = |place: Place, columns: Range<usize>, writes| {
        // A sum that saturates exceeds any buffer.
        let [start, end] = [columns.start, columns.end].map(|at| place.column.saturating_add(at));
        all.push(Access { place, rows: rows.clone(), columns: start..end, writes });
    };
    let sums = panels.start * width..panels.end * width;
    touch(product.a, 0..product.holds.words(product.weights.k()), false);
    match &product.epilogue {
        Epilogue::Store { to, outputs, .. } => {
            touch(*to, sums.start..sums.end.min(*outputs), true);
        }
        Epilogue::Lstm(cell) => {
            let units = panels.start * LANES..panels.end * LANES;
            cell.input.iter().for_each(|input| touch(*input, sums.clone(), false));
            touch(cell.cell, units.clone(), true);
            hidden(&cell.hidden, units, &mut touch);
        }
        Epilogue::Gru(cell) => {
            let units = panels.start * LANES..panels.end * LANES;
            touch(cell.input, sums, false);
            touch(cell.last, units.clone(), false);
            hidden(&cell.hidden, units, &mut touch);
        }
        Epilogue::Rnn(cell) => {
            touch(cell.input, sums.clone(), false);
            hidden(&cell.hidden, sums, &mut touch);
        }
        Epilogue::General(cell) => {
            if let Some((state, units)) =
                cell.touches(&panels, product.weights.vectors(), &mut touch)
            {
                hidden(state, units, &mut touch);
            }
        }
    }
    all
}

fn hidden(
    hidden: &HiddenState,
    units: Range<usize>,
    touch: &mut impl FnMut(Place, Range<usize>, bool),
) {
    touch(hidden.state, units.clone(), true);
    if let Some((place, precision)) = hidden.narrow {
        let words = |units: usize| units / precision.per_word();
        touch(place, words(units.start)..words(units.end), true);
    }
    if let Some(output) = hidden.output {
        touch(output, units.start..units.end.min(hidden.units), true);
    }
}

fn inside(
    buffers: &[Buffer],
    looped: &Loop,
    cadence: Cadence,
    access: &Access,
) -> Result<(), ProgramError> {
    let Access { place, rows, columns, writes } = access;
    let index = place.buffer;
    let outside =
        || ProgramError::Outside { buffer: index, touched: (rows.clone(), columns.clone()) };
    let buffer = buffers.get(index).ok_or_else(outside)?;
    if !access.is_nothing() && (rows.end > buffer.rows || columns.end > buffer.columns) {
        return Err(outside());
    }
    if *writes && matches!(buffer.kind, BufferKind::Input(_)) {
        return Err(ProgramError::Direction { buffer: index });
    }
    let exists = match (place.at, buffer.slots) {
        (SlotIndex::Fixed(slot), Slots::Count(count)) => slot < count,
        (SlotIndex::Step | SlotIndex::Back, Slots::Length(length)) => length == looped.length,
        (SlotIndex::Turn { .. }, Slots::Count(count)) => match cadence {
            // The steps of a chunk need separate slots.
            Cadence::Chunk => count >= looped.chunk.max(1),
            Cadence::Step => count >= 1,
        },
        _ => false,
    };
    if exists {
        Ok(())
    } else {
        Err(ProgramError::Slot { buffer: index, at: place.at.to_string() })
    }
}

/// Checks that no two workers access the same place in these phases, unless both only read.
fn apart(buffers: &[Buffer], phases: &[&Phase], one_step: bool) -> Result<(), ProgramError> {
    let workers = phases.first().map_or(0, |phase| phase.work.len());
    let accesses_of = |worker: usize| -> Vec<Access> {
        phases.iter().flat_map(|phase| &phase.work[worker]).flat_map(accesses).collect()
    };
    let all: Vec<Vec<Access>> = (0..workers).map(accesses_of).collect();
    for one in 0..workers {
        for other in one + 1..workers {
            for a in &all[one] {
                for b in &all[other] {
                    if (a.writes || b.writes) && collide(buffers, a, b, one_step) {
                        let buffer = a.place.buffer;
                        return Err(ProgramError::Race { workers: (one, other), buffer });
                    }
                }
            }
        }
    }
    Ok(())
}

fn collide(buffers: &[Buffer], a: &Access, b: &Access, one_step: bool) -> bool {
    let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    let slots_differ = match (a.place.at, b.place.at, buffers[a.place.buffer].slots) {
        (SlotIndex::Fixed(a), SlotIndex::Fixed(b), _) => a != b,
        (SlotIndex::Turn { by: a }, SlotIndex::Turn { by: b }, Slots::Count(count)) => {
            one_step && a % count != b % count
        }
        _ => false,
    };
    a.place.buffer == b.place.buffer
        && !a.is_nothing()
        && !b.is_nothing()
        && overlap(&a.rows, &b.rows)
        && overlap(&a.columns, &b.columns)
        && !slots_differ
}
