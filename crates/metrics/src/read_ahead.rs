//! Reading ahead in a log: a thread decodes answers while earlier ones are scored.
//!
//! Two batches circulate between both threads and limit the memory to some megabytes, or to two
//! answers if an answer is larger.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use dyno_loadgen::log::read::{AccuracyReader, LogReadProblem};

/// Content from which on a batch is handed over if the scoring thread waits for it.
const MIN_ENTRIES: usize = 4096;
const MIN_BYTES: usize = 1 << 18;

/// Content from which on a batch is handed over in any case.
const MAX_ENTRIES: usize = 1 << 16;
const MAX_BYTES: usize = 1 << 22;

/// Consecutive entries of a log.
#[derive(Default)]
struct Batch {
    /// Line and sample of each entry, and the offset in `data` at which its answer ends.
    entries: Vec<(usize, u64, usize)>,
    data: Vec<u8>,
    /// Result of reading the log; `None` before its end.
    end: Option<Result<(), LogReadProblem>>,
}

impl Batch {
    fn fill<R: BufRead>(&mut self, log: &mut AccuracyReader<R>, is_awaited: &AtomicBool) {
        self.entries.clear();
        self.data.clear();
        while self.end.is_none() && !self.is_enough(is_awaited) {
            match log.next_into(&mut self.data) {
                Some(Ok(entry)) => {
                    self.entries.push((entry.line, entry.qsl_idx, self.data.len()));
                }
                Some(Err(problem)) => self.end = Some(Err(problem)),
                None => self.end = Some(Ok(())),
            }
        }
    }

    fn is_enough(&self, is_awaited: &AtomicBool) -> bool {
        let has = |entries, bytes| self.entries.len() >= entries || self.data.len() >= bytes;
        has(MIN_ENTRIES, MIN_BYTES)
            && (has(MAX_ENTRIES, MAX_BYTES) || is_awaited.load(Ordering::Relaxed))
    }

    fn entries(&self) -> Vec<(usize, u64, &[u8])> {
        let mut start = 0;
        let entry = |(line, index, end): &(usize, u64, usize)| {
            let answer = &self.data[start..*end];
            start = *end;
            (*line, *index, answer)
        };
        self.entries.iter().map(entry).collect()
    }
}

/// Answers that the reading thread decodes.
pub struct AnswerStream<'a, R> {
    empty: Sender<Batch>,
    full: Receiver<Batch>,
    is_awaited: &'a AtomicBool,
    /// The log, if the system started no thread that reads it.
    log: Option<&'a Mutex<AccuracyReader<R>>>,
}

/// Starts to read a log on a thread and passes its answers to `work`. If the system starts no further
/// thread, `work` reads the log itself.
pub fn with_stream<R: BufRead + Send, T>(
    log: AccuracyReader<R>,
    work: impl FnOnce(AnswerStream<'_, R>) -> T,
) -> T {
    with_thread(thread::Builder::new(), log, work)
}

fn with_thread<R: BufRead + Send, T>(
    thread: thread::Builder,
    log: AccuracyReader<R>,
    work: impl FnOnce(AnswerStream<'_, R>) -> T,
) -> T {
    let (is_awaited, log) = (AtomicBool::new(false), Mutex::new(log));
    thread::scope(|scope| {
        let (empty, to_fill) = channel::<Batch>();
        let (to_give, full) = sync_channel::<Batch>(1);
        let (awaited, source) = (&is_awaited, &log);
        let read = move || {
            let mut log = source.lock().unwrap_or_else(PoisonError::into_inner);
            for mut batch in to_fill {
                batch.fill(&mut log, awaited);
                if to_give.send(batch).is_err() {
                    break;
                }
            }
        };
        let log = thread.spawn_scoped(scope, read).err().map(|_| source);
        for _ in 0..2 {
            let _ = empty.send(Batch::default());
        }
        work(AnswerStream { empty, full, is_awaited: awaited, log })
    })
}

impl<R: BufRead> AnswerStream<'_, R> {
    /// Calls `take` with batches of entries in the order of the log: line, sample and answer of
    /// each.
    ///
    /// # Errors
    /// [`LogReadProblem`] if the log is damaged or truncated. Entries before the damage were
    /// passed.
    pub fn for_each(
        self,
        mut take: impl FnMut(&[(usize, u64, &[u8])]),
    ) -> Result<(), LogReadProblem> {
        loop {
            self.is_awaited.store(true, Ordering::Relaxed);
            let mut batch = match self.log {
                Some(log) => {
                    let mut batch = Batch::default();
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    batch.fill(&mut log, self.is_awaited);
                    batch
                }
                None => match self.full.recv() {
                    Ok(batch) => batch,
                    // The reading thread panicked. The scope propagates the panic.
                    Err(_) => return Ok(()),
                },
            };
            self.is_awaited.store(false, Ordering::Relaxed);
            take(&batch.entries());
            if let Some(end) = batch.end.take() {
                return end;
            }
            let _ = self.empty.send(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log with `entries` answers, each of which holds its number.
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
        taken_by(thread::Builder::new(), log)
    }

    fn taken_by(thread: thread::Builder, log: &str) -> (Vec<Taken>, Result<(), LogReadProblem>) {
        let mut all = Vec::new();
        let end = with_thread(thread, AccuracyReader::new(log.as_bytes()), |answers| {
            answers.for_each(|entries| {
                let entry =
                    |(line, index, answer): &(usize, u64, &[u8])| (*line, *index, answer.to_vec());
                all.extend(entries.iter().map(entry));
            })
        });
        (all, end)
    }

    #[test]
    fn answers_come_in_the_order_of_the_log_however_many_there_are() {
        for entries in [0, 1, MIN_ENTRIES as u64, 3 * MIN_ENTRIES as u64 + 1] {
            let expected: Vec<_> = (0..entries)
                .map(|at| (at as usize + 2, at % 100, at.to_be_bytes().to_vec()))
                .collect();
            assert_eq!(taken(&log(entries)), (expected, Ok(())), "{entries}");
        }
    }

    #[test]
    fn a_log_is_read_without_a_thread() {
        let whole = log(2 * MIN_ENTRIES as u64 + 1);
        for text in [&whole[..], &whole[..whole.len() - 10]] {
            // No system has memory for such a stack.
            let impossible = thread::Builder::new().stack_size(usize::MAX / 2);
            assert_eq!(taken_by(impossible, text), taken(text));
        }
    }

    #[test]
    fn a_log_that_is_cut_is_told_after_what_it_holds() {
        let whole = log(2 * MIN_ENTRIES as u64);
        let (all, end) = taken(&whole[..whole.len() - 10]);
        assert_eq!(all.len(), 2 * MIN_ENTRIES - 1);
        assert_eq!(end.unwrap_err().line, 2 * MIN_ENTRIES + 1);
    }

    #[test]
    fn a_log_that_nobody_wants_is_not_read_to_its_end() {
        let whole = log(2 * MAX_ENTRIES as u64 + 1);
        let mut source = whole.as_bytes();
        with_stream(AccuracyReader::new(&mut source), |answers| drop(answers));
        assert!(!source.is_empty());
    }
}
