//! Times and failures of records for comparisons and requirements.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare;

use super::{NEVER, Records};

impl Records {
    /// Returns the times of the answered queries, and a flag for each query that failed.
    pub fn observation(&self) -> compare::Run {
        let answered: Vec<usize> =
            (0..self.row_count()).filter(|&row| self.is_answered(row)).collect();
        let latency = |row: usize| self.latency_ns[row];
        let first = |row: usize| self.first_token_ns.get(row).copied().filter(|&at| at != NEVER);
        let mut completed: Vec<Nanos> = answered
            .iter()
            .map(|&row| time(self.scheduled_ns[row].saturating_add(latency(row))))
            .collect();
        completed.sort_unstable();
        let per_token = |&row: &usize| {
            let gaps = self.tokens.get(row).filter(|&&tokens| tokens > 1)? - 1;
            // As in `Definitions::Native`.
            let spent = latency(row).saturating_sub(first(row)?);
            (spent > 0).then(|| time(spent / gaps))
        };
        compare::Run {
            latency: answered.iter().map(|&row| time(latency(row))).collect(),
            first_token: answered.iter().filter_map(|&row| first(row)).map(time).collect(),
            time_per_output_token: answered.iter().filter_map(per_token).collect(),
            completed,
            failed: (0..self.row_count()).map(|row| !self.is_answered(row)).collect(),
            stride: self.stride as f64,
            exact: Vec::new(),
            position: None,
        }
    }
}

/// Returns a time in ns, with 0 for a negative time of a damaged file.
fn time(ns: i64) -> Nanos {
    ns.max(0).cast_unsigned()
}
