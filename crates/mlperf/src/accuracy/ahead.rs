//! Answers of a log, read ahead: while some are scored, a thread decodes the next ones.
//!
//! Two batches go to and fro, so that as much of a log is in memory as two batches
//! have: some hundred kilobytes, or two answers where a single one is larger.

use std::io::BufRead;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use dyno_loadgen::log::read::{AccuracyReader, LogReadProblem};

/// What a batch is full with.
const ENTRIES: usize = 4096;
const BYTES: usize = 1 << 18;

/// Some entries of a log, one after the other.
#[derive(Default)]
struct Batch {
    /// Line, sample, and where the answer ends in `data`.
    entries: Vec<(usize, u64, usize)>,
    data: Vec<u8>,
    /// Of the log, if it is reached.
    end: Option<Result<(), LogReadProblem>>,
}

impl Batch {
    fn fill<R: BufRead>(&mut self, log: &mut AccuracyReader<R>) {
        self.entries.clear();
        self.data.clear();
        while self.end.is_none() && self.entries.len() < ENTRIES && self.data.len() < BYTES {
            match log.next_into(&mut self.data) {
                Some(Ok(entry)) => {
                    self.entries.push((entry.line, entry.qsl_idx, self.data.len()));
                }
                Some(Err(problem)) => self.end = Some(Err(problem)),
                None => self.end = Some(Ok(())),
            }
        }
    }

    fn give(&self, take: &mut impl FnMut(usize, u64, &[u8])) {
        let mut start = 0;
        for (line, index, end) in &self.entries {
            take(*line, *index, &self.data[start..*end]);
            start = *end;
        }
    }
}

/// Gives the line, the sample and the answer of each entry to `take`, in the order of
/// the log.
///
/// # Errors
/// The log does not read to its end; what was before has been given.
pub fn each<R: BufRead + Send>(
    mut log: AccuracyReader<R>,
    mut take: impl FnMut(usize, u64, &[u8]),
) -> Result<(), LogReadProblem> {
    let mut batch = Batch::default();
    batch.fill(&mut log);
    if let Some(end) = batch.end.take() {
        // Not worth a thread.
        batch.give(&mut take);
        return end;
    }
    thread::scope(|scope| {
        let (to_fill, empty) = channel::<Batch>();
        let (to_give, full) = sync_channel::<Batch>(1);
        scope.spawn(move || {
            for mut batch in empty {
                batch.fill(&mut log);
                if to_give.send(batch).is_err() {
                    break;
                }
            }
        });
        let mut next = Some(Batch::default());
        loop {
            if let Some(next) = next.take() {
                let _ = to_fill.send(next);
            }
            batch.give(&mut take);
            if let Some(end) = batch.end.take() {
                return end;
            }
            // Nothing comes of a thread that panicked, which the scope then tells.
            let Ok(filled) = full.recv() else { return Ok(()) };
            next = Some(std::mem::replace(&mut batch, filled));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of so many answers, each of its number.
    fn log(entries: u64) -> String {
        let entry = |at: u64| {
            let data = at.to_be_bytes().into_iter().map(|byte| format!("{byte:02X}"));
            format!(
                "{{ \"seq_id\" : {at}, \"qsl_idx\" : {}, \"data\" : \"{}\" }}",
                at % 100,
                data.collect::<String>()
            )
        };
        let entries: Vec<String> = (0..entries).map(entry).collect();
        format!("[\n{}\n]\n", entries.join(",\n"))
    }

    /// Line, sample and answer.
    type Taken = (usize, u64, Vec<u8>);

    fn taken(log: &str) -> (Vec<Taken>, Result<(), LogReadProblem>) {
        let mut all = Vec::new();
        let end = each(AccuracyReader::new(log.as_bytes()), |line, index, answer| {
            all.push((line, index, answer.to_vec()));
        });
        (all, end)
    }

    #[test]
    fn answers_come_in_the_order_of_the_log_however_many_there_are() {
        for entries in [0, 1, ENTRIES as u64, 3 * ENTRIES as u64 + 1] {
            let expected: Vec<_> = (0..entries)
                .map(|at| (at as usize + 2, at % 100, at.to_be_bytes().to_vec()))
                .collect();
            assert_eq!(taken(&log(entries)), (expected, Ok(())), "{entries}");
        }
    }

    #[test]
    fn a_log_that_is_cut_is_told_after_what_it_holds() {
        let whole = log(2 * ENTRIES as u64);
        let (all, end) = taken(&whole[..whole.len() - 10]);
        assert_eq!(all.len(), 2 * ENTRIES - 1);
        assert_eq!(end.unwrap_err().line, 2 * ENTRIES + 1);
    }
}
