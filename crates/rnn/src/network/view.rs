//! Views of tensors during a call.

use std::ops::Range;

use dyno_kernels::Rows;

/// A tensor with the steps of the current call.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// Numbers, `steps` x `batch` x `width`.
    pub numbers: &'a [f32],
    /// Ids of an input of ids, `steps` x `batch`.
    pub ids: &'a [u32],
    pub steps: usize,
    pub batch: usize,
    pub width: usize,
    /// Steps of each row.
    pub lengths: &'a [usize],
}

impl<'a> View<'a> {
    /// Numbers of a row at a step; a single vector is the same at all steps.
    pub(super) fn at(&self, step: usize, row: usize) -> &'a [f32] {
        let step = step.min(self.steps.saturating_sub(1));
        &self.numbers[(step * self.batch + row) * self.width..][..self.width]
    }

    /// Single vector of a row; if there is only one vector, it belongs to all rows.
    pub(super) fn single(&self, row: usize) -> &'a [f32] {
        self.at(0, if self.batch == 1 { 0 } else { row })
    }

    /// All steps of a row.
    pub(super) fn row(&self, row: usize) -> Rows<'a> {
        self.some(row, 0..self.steps)
    }

    /// The steps of a row within `steps`.
    pub(super) fn some(&self, row: usize, steps: Range<usize>) -> Rows<'a> {
        let count = steps.end.min(self.lengths[row]).saturating_sub(steps.start);
        let first = (steps.start * self.batch + row) * self.width;
        let from = if count == 0 { &[] } else { &self.numbers[first..] };
        Rows::new(from, count, self.width, self.batch * self.width)
    }

    /// Whether all rows have all steps.
    pub(super) fn is_full(&self) -> bool {
        self.lengths.iter().all(|length| *length == self.steps)
    }

    /// Iterates over the (step, row, place) triples in use.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<'a> {
        let batch = self.batch;
        let lengths = self.lengths;
        (0..self.steps).flat_map(move |step| {
            let in_use = move |row: &usize| step < lengths[*row];
            (0..batch).filter(in_use).map(move |row| (step, row, step * batch + row))
        })
    }
}
