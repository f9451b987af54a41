//! Random selections of rows that keep their order.

use dyno_loadgen::rng::split_mix_at;

/// Selection of one random row in each stretch of equal length.
///
/// Rows at even distances would show a system with a period always at the same phase. The selection
/// depends on the numbers of the rows only, so runs of equal length have the same rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection {
    total: usize,
    stride: usize,
}

impl Selection {
    /// Selects at most `most` (>= 1) of `total` rows.
    pub(crate) fn new(total: usize, most: usize) -> Self {
        Self { total, stride: total.div_ceil(most).max(1) }
    }

    /// Returns the length of a stretch (>= 1).
    pub(crate) fn stride(self) -> usize {
        self.stride
    }

    /// Returns the selected rows, ascending.
    pub(crate) fn rows(self) -> impl Iterator<Item = usize> {
        (0..self.total.div_ceil(self.stride)).map(move |stretch| self.row_in(stretch))
    }

    /// Returns whether a row is selected; the row must be one of the total.
    pub(crate) fn contains(self, row: usize) -> bool {
        self.stride == 1 || self.row_in(row / self.stride) == row
    }

    fn row_in(self, stretch: usize) -> usize {
        let begin = stretch * self.stride;
        let length = self.stride.min(self.total - begin);
        let random = split_mix_at(stretch as u64);
        begin + (random % length as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stretch_has_one_row_and_a_period_has_its_share() {
        for (total, most) in [(1, 1), (10, 10), (11, 10), (100_000, 25_000), (99_999, 30_000)] {
            let selection = Selection::new(total, most);
            let rows: Vec<usize> = selection.rows().collect();
            assert!(rows.len() <= most && rows.iter().all(|&row| row < total));
            let stretches = rows.iter().map(|row| row / selection.stride());
            assert!(stretches.eq(0..rows.len()), "{total} of {most}");
            let contained = (0..total).filter(|&row| selection.contains(row));
            assert!(contained.eq(rows.iter().copied()), "{total} of {most}");
        }
        let selection = Selection::new(100_000, 25_000);
        for period in [2, 4, 8, 200] {
            let share =
                selection.rows().filter(|row| row.is_multiple_of(period)).count() as f64 / 25_000.0;
            let expected = 1.0 / period as f64;
            // Four standard deviations of a binomial share.
            let reach = 4.0 * (expected * (1.0 - expected) / 25_000.0).sqrt();
            assert!((share - expected).abs() < reach, "period {period}: {share}");
        }
    }

    #[test]
    fn a_short_run_is_kept_whole() {
        assert!(Selection::new(5, 8).rows().eq(0..5));
        assert_eq!(Selection::new(0, 8).rows().count(), 0);
    }
}
