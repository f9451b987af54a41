//! Times and failures of records for comparisons and requirements.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare;
use dyno_loadgen::metrics::{closed_loop, open_loop};

use super::{NEVER, Records, Row};

/// Prefix of the arrivals of a closed loop, before the number of queries in flight.
const CONCURRENCY: &str = "concurrency:";

impl Records {
    /// Returns the observation of a Server test with these arrivals, in the form of a plan. Its
    /// throughput includes neither the fill nor the drain of the load.
    pub fn observation_of_server(&self, arrivals: &str) -> compare::Run {
        let run = self.observation();
        if self.row != Row::Query || self.samples_per_query != 1 || run.completed.is_empty() {
            return run;
        }
        match arrivals.strip_prefix(CONCURRENCY).map(str::parse::<usize>) {
            Some(Ok(in_flight)) if in_flight > 0 => self.in_closed_loop(run, in_flight),
            Some(_) => run,
            // Turns of sessions are due after the answers before them.
            None if !self.session.is_empty() => run,
            None => {
                let lasted = run.completed.last().copied().unwrap_or(0);
                let due: Vec<Nanos> = self.scheduled_ns.iter().map(|&at| time(at)).collect();
                let answered_at =
                    |row: usize| if self.is_answered(row) { self.done(row) } else { 0 };
                let answered: Vec<Nanos> = (0..self.row_count()).map(answered_at).collect();
                compare::Run { length: open_loop(&due, &answered, lasted), ..run }
            }
        }
    }

    /// Returns the observation of a closed loop with so many queries in flight. The completions after
    /// the last issue are those of its drain.
    fn in_closed_loop(&self, mut run: compare::Run, in_flight: usize) -> compare::Run {
        let issue = |row: usize| {
            let delay = self.issue_delay_ns.get(row).copied().unwrap_or(0);
            time(self.scheduled_ns[row].saturating_add(delay))
        };
        let mut issued: Vec<Nanos> = (0..self.row_count()).map(issue).collect();
        // Sessions that are played once become fewer after the last one began.
        let begins = self.turn.iter().zip(&issued).filter(|(turn, _)| **turn == 1);
        if let Some(last) = begins.map(|(_, at)| *at).max() {
            issued.retain(|at| *at <= last);
        }
        let stride = usize::try_from(self.stride).unwrap_or(1).max(1);
        let in_flight = in_flight.div_ceil(stride);
        let settled = self.latency_ns.iter().filter(|&&latency| latency != NEVER).count();
        let Some(length) = closed_loop(&issued, settled, in_flight) else { return run };
        let (answers, last) = (run.completed.len(), issued.iter().copied().max().unwrap_or(0));
        let kept = run.completed.partition_point(|at| *at <= last);
        if kept > 0 {
            run.completed.truncate(kept);
            let part = u128::from(length) * run.completed.len() as u128 / answers as u128;
            (run.length, run.in_flight) = (Nanos::try_from(part).ok(), in_flight);
        }
        run
    }

    /// Returns when a row was complete, ns since the start of the run.
    fn done(&self, row: usize) -> Nanos {
        time(self.scheduled_ns[row].saturating_add(self.latency_ns[row]))
    }

    /// Returns the times of the answered queries, and a flag for each query that failed. Rows of several
    /// samples have no times of tokens: they hold the first token of one sample and the tokens of all.
    pub fn observation(&self) -> compare::Run {
        let has_tokens = self.row == Row::Sample || self.samples_per_query <= 1;
        let answered: Vec<usize> =
            (0..self.row_count()).filter(|&row| self.is_answered(row)).collect();
        let latency = |row: usize| self.latency_ns[row];
        let first = |row: usize| {
            let found = self.first_token_ns.get(row).copied();
            found.filter(|&at| has_tokens && at != NEVER)
        };
        let mut completed: Vec<Nanos> = answered.iter().map(|&row| self.done(row)).collect();
        completed.sort_unstable();
        let per_token = |&row: &usize| {
            let tokens = self.timed_tokens.get(row).or(self.tokens.get(row));
            let gaps = tokens.filter(|&&tokens| tokens > 1)? - 1;
            // As in `Definitions::Native`.
            let spent = latency(row).saturating_sub(first(row)?);
            (spent > 0).then(|| time(spent / gaps))
        };
        compare::Run {
            latency: answered.iter().map(|&row| time(latency(row))).collect(),
            first_token: answered.iter().filter_map(|&row| first(row)).map(time).collect(),
            time_per_output_token: answered.iter().filter_map(per_token).collect(),
            completed,
            length: None,
            in_flight: 0,
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

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::MILLISECOND;
    use dyno_loadgen::record::Record;

    use super::*;
    use crate::records::Keep;

    /// Returns a run of 375 ms with 8 queries in flight of this latency.
    fn slice(latency: Nanos) -> compare::Run {
        let rounds = 375_u64.div_ceil(latency);
        let issued_at: Vec<Nanos> =
            (0..8 * rounds).map(|query| query / 8 * latency * MILLISECOND).collect();
        let record = Record {
            samples_per_query: 1,
            completed_at: issued_at.iter().map(|at| at + latency * MILLISECOND).collect(),
            indices: vec![0; issued_at.len()],
            issued_at,
            ..Record::default()
        };
        let records = Records::from_record(&record, Keep::All).unwrap();
        records.observation_of_server("concurrency:8")
    }

    #[test]
    fn slices_of_closed_loops_differ_by_their_latencies() {
        // Three rounds of 182 ms, and two of 190 ms.
        let (a, b) = (slice(182), slice(190));
        assert_eq!((a.completed.len(), b.completed.len()), (16, 8));
        let pairs = 4;
        let sides = [a, b].map(|run| vec![run; 2 * pairs]);
        let options = compare::Options::new(
            compare::Metric::Throughput,
            Vec::new(),
            compare::Pairing::InOrder,
        );
        let observations = sides.map(|runs| compare::slices::observations(&runs));
        let found = compare::compare(&observations[0], &observations[1], &options);
        let row = &found.rows[0];
        assert!((row.change.value - (182.0 / 190.0 - 1.0)).abs() < 1e-9, "{row:?}");
        assert!((row.baseline - 8.0 / 0.182).abs() < 1e-6, "{row:?}");
    }

    #[test]
    fn rows_of_several_samples_have_no_times_of_tokens() {
        let of = |samples_per_query: usize| {
            let record = Record {
                samples_per_query,
                scheduled_at: vec![0, 1_000],
                issued_at: vec![0, 1_000],
                indices: vec![0; 2 * samples_per_query],
                first_token_at: vec![1_100; 2 * samples_per_query],
                completed_at: vec![1_300; 2 * samples_per_query],
                tokens: vec![3; 2 * samples_per_query],
                ..Record::default()
            };
            let run = Records::from_record(&record, Keep::All).unwrap().observation();
            (run.latency.len(), run.first_token, run.time_per_output_token)
        };
        assert_eq!(of(1), (2, vec![1_100, 100], vec![100, 100]));
        assert_eq!(of(2), (2, Vec::new(), Vec::new()));
    }

    #[test]
    fn an_open_loop_that_never_queues_has_the_rate_of_its_arrivals() {
        let scheduled_at: Vec<Nanos> = (0..200).map(|query| query * 100 * MILLISECOND).collect();
        let record = Record {
            samples_per_query: 1,
            completed_at: scheduled_at.iter().map(|at| at + 10_000 * MILLISECOND).collect(),
            indices: vec![0; 200],
            issued_at: scheduled_at.clone(),
            scheduled_at,
            ..Record::default()
        };
        let records = Records::from_record(&record, Keep::All).unwrap();
        // 200 answers in 200 intervals of 100 ms.
        assert_eq!(records.observation_of_server("poisson").length, Some(20_000 * MILLISECOND));
        assert_eq!(records.observation().length, None);
    }
}
