//! Tensors as nodes see them in a call.

use std::ops::Range;

use dyno_kernels::Rows;

/// A tensor with as many steps as the call has.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// `steps` x `batch` x `width`.
    pub numbers: &'a [f32],
    /// The same of an input of ids, `steps` x `batch`.
    pub ids: &'a [u32],
    pub steps: usize,
    pub batch: usize,
    pub width: usize,
    /// Steps of each row.
    pub lengths: &'a [usize],
}

impl<'a> View<'a> {
    /// Numbers of a step's row; those of a single vector whatever the step.
    pub(super) fn at(&self, step: usize, row: usize) -> &'a [f32] {
        let step = step.min(self.steps.saturating_sub(1));
        &self.numbers[(step * self.batch + row) * self.width..][..self.width]
    }

    /// A row of single vectors, or the only one there is.
    pub(super) fn single(&self, row: usize) -> &'a [f32] {
        self.at(0, if self.batch == 1 { 0 } else { row })
    }

    /// All steps that a row has.
    pub(super) fn row(&self, row: usize) -> Rows<'a> {
        self.some(row, 0..self.steps)
    }

    /// Of these steps those that a row has.
    pub(super) fn some(&self, row: usize, steps: Range<usize>) -> Rows<'a> {
        let count = steps.end.min(self.lengths[row]).saturating_sub(steps.start);
        let first = (steps.start * self.batch + row) * self.width;
        let from = if count == 0 { &[] } else { &self.numbers[first..] };
        Rows::new(from, count, self.width, self.batch * self.width)
    }

    /// Whether no row ends before another.
    pub(super) fn is_full(&self) -> bool {
        self.lengths.iter().all(|length| *length == self.steps)
    }

    /// Steps and rows that are in use, and where these stand.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<'a> {
        let (batch, lengths) = (self.batch, self.lengths);
        (0..self.steps).flat_map(move |step| {
            let in_use = move |row: &usize| step < lengths[*row];
            (0..batch).filter(in_use).map(move |row| (step, row, step * batch + row))
        })
    }
}
