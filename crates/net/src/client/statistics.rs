//! Statistics of a client beyond the record of a run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use dyno_loadgen::clock::Nanos;
use serde::{Deserialize, Serialize};

use super::gaps::{GapCounts, Gaps};
use crate::protocol::{OtherModel, TokenCounter};
use crate::trouble::{Kind, Trouble};

/// Counts of the models that answers name, by the model that is requested.
pub type NameCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// Statistics of a client since its start. Workers send them to their coordinator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientStatistics {
    /// Requests that the socket accepted completely, including retries.
    pub sent: u64,
    /// Answers handed to the instrument.
    pub answered: u64,
    /// Failed samples by kind: their number, and the message of the first.
    pub troubles: BTreeMap<Kind, (u64, String)>,
    /// Retried requests, by the trouble of the failed attempt.
    pub retries: BTreeMap<Kind, u64>,
    /// Total time that requests waited for their retries, in ns.
    pub retry_wait_ns: Nanos,
    /// Established connections, including TLS.
    pub connects: u64,
    /// Connections that could not be established, by kind: their number, and the message of the
    /// first.
    pub refused_connects: BTreeMap<Kind, (u64, String)>,
    /// Connections that the server closed, or that broke.
    pub lost_connections: u64,
    /// Samples that found no free connection (HTTP/1.1) or stream (HTTP/2) and waited.
    pub connection_waits: u64,
    /// Total time that they waited, in ns.
    pub waited_ns: Nanos,
    /// Longest of these waits, in ns.
    pub longest_wait_ns: Nanos,
    /// Those of them that waited for a connection or stream in use by another request: a queue of
    /// the client's own.
    pub queue_waits: u64,
    /// Maximum number of streams that a server permits on an HTTP/2 connection, if it is below
    /// [`Options::streams`](super::Options::streams) and was reached; the lowest of several.
    pub stream_limit: Option<u64>,
    /// Samples that waited for the limit of concurrent requests.
    pub limit_waits: u64,
    /// Total time that they waited, in ns.
    pub limited_ns: Nanos,
    /// Longest of these waits, in ns.
    pub longest_limited_ns: Nanos,
    /// Bytes of requests, before encryption.
    pub bytes_sent: u64,
    /// Bytes of answers, after decryption.
    pub bytes_received: u64,
    /// CPU time of the threads that read sockets, in ns; excludes issuing and parsing threads.
    pub cpu_ns: Nanos,
    /// CPU time of the threads that parse large answers, ns.
    pub parser_cpu_ns: Nanos,
    /// How often a reading thread waited because too much was queued for parsing: its next read was
    /// late.
    pub parser_waits: u64,
    /// Answers that were compressed although their request did not permit it.
    pub unrequested_compression: u64,
    /// Answers by the counter of their tokens.
    pub counted_by: BTreeMap<TokenCounter, u64>,
    /// Answers that name another model than their request, by the model of the request and that of the
    /// answer.
    pub other_models: NameCounts,
    /// Calls of tools that the client answered.
    pub tool_calls: u64,
    /// Those of them whose tool failed.
    pub failed_tool_calls: u64,
    /// Time that the tools took, in ns.
    pub tool_ns: Nanos,
    /// Spans between the events with output of an answer, from the first on.
    pub gaps: Gaps,
}

/// Maximum number of names that answers have for one requested model.
const MOST_NAMES: usize = 8;

/// Counters shared by all threads of a client. Those that each request updates are in
/// [`ThreadCounters`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    troubles: Mutex<BTreeMap<Kind, (u64, String)>>,
    retries: Mutex<BTreeMap<Kind, u64>>,
    refused_connects: Mutex<BTreeMap<Kind, (u64, String)>>,
    other_models: Mutex<NameCounts>,
    stream_limit: Mutex<Option<u64>>,
    retry_wait_ns: AtomicU64,
    tool_calls: AtomicU64,
    failed_tool_calls: AtomicU64,
    tool_ns: AtomicU64,
}

/// Counters of one thread, alone on their cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct ThreadCounters {
    pub sent: AtomicU64,
    pub answered: AtomicU64,
    pub connects: AtomicU64,
    pub lost_connections: AtomicU64,
    pub connection_waits: AtomicU64,
    pub waited_ns: AtomicU64,
    pub longest_wait_ns: AtomicU64,
    queue_waits: AtomicU64,
    limit_waits: AtomicU64,
    limited_ns: AtomicU64,
    longest_limited_ns: AtomicU64,
    pub bytes_sent: AtomicU64,
    pub bytes_received: AtomicU64,
    pub cpu_ns: AtomicU64,
    pub unrequested_compression: AtomicU64,
    counted_by: [AtomicU64; COUNTED.len()],
    pub gaps: GapCounts,
}

const COUNTED: [TokenCounter; 4] =
    [TokenCounter::Nobody, TokenCounter::Server, TokenCounter::Tokenizer, TokenCounter::Events];

impl ThreadCounters {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            sent: zero(),
            answered: zero(),
            connects: zero(),
            lost_connections: zero(),
            connection_waits: zero(),
            waited_ns: zero(),
            longest_wait_ns: zero(),
            queue_waits: zero(),
            limit_waits: zero(),
            limited_ns: zero(),
            longest_limited_ns: zero(),
            bytes_sent: zero(),
            bytes_received: zero(),
            cpu_ns: zero(),
            unrequested_compression: zero(),
            counted_by: COUNTED.map(|_| zero()),
            gaps: GapCounts::new(),
        }
    }

    #[inline]
    pub(super) fn request(&self, bytes: usize, is_counted: bool) {
        self.sent.fetch_add(u64::from(is_counted), Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts an answer with the spans (ns) between the reads of its events with output.
    #[inline]
    pub(super) fn answer(&self, counted_by: TokenCounter, gaps: &[Nanos], events: u32) {
        self.answered.fetch_add(1, Relaxed);
        self.counted_by[counted_by as usize].fetch_add(1, Relaxed);
        gaps.iter().for_each(|gap| self.gaps.add(*gap, 1));
        // Events of one read have no gap between them.
        let spread = gaps.len() as u64 + 1;
        self.gaps.add(0, u64::from(events).saturating_sub(spread));
    }

    /// Counts a sample that waited for a connection.
    #[inline]
    pub(super) fn waited(&self, span: Nanos) {
        self.connection_waits.fetch_add(1, Relaxed);
        self.waited_ns.fetch_add(span, Relaxed);
        self.longest_wait_ns.fetch_max(span, Relaxed);
    }

    /// Counts a sample that waited for a connection in use by another request.
    #[inline]
    pub(super) fn was_queued(&self, span: Nanos) {
        self.queue_waits.fetch_add(1, Relaxed);
        self.waited(span);
    }

    /// Counts a sample that waited for the limit of concurrent requests.
    #[inline]
    pub(super) fn was_limited(&self, span: Nanos) {
        self.limit_waits.fetch_add(1, Relaxed);
        self.limited_ns.fetch_add(span, Relaxed);
        self.longest_limited_ns.fetch_max(span, Relaxed);
    }

    /// Records the CPU time of the calling thread.
    pub(super) fn note_cpu_time(&self) {
        self.cpu_ns.store(thread_cpu_time(), Relaxed);
    }
}

/// Returns the CPU time of the calling thread, in ns; 0 where the system does not report it.
pub(super) fn thread_cpu_time() -> Nanos {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec.cast_unsigned() * dyno_loadgen::clock::SECOND + time.tv_nsec.cast_unsigned()
    }
    #[cfg(not(unix))]
    0
}

impl Counters {
    pub(super) fn failed(&self, trouble: &Trouble) {
        note(&self.troubles, trouble, 1);
    }

    pub(super) fn all_failed(&self, trouble: &Trouble, samples: u64) {
        note(&self.troubles, trouble, samples);
    }

    pub(super) fn no_connection(&self, trouble: &Trouble) {
        note(&self.refused_connects, trouble, 1);
    }

    /// Counts an answer of another model, whose name is recorded as `hidden` returns it. Beyond
    /// [`MOST_NAMES`] names for a model they are counted together.
    pub(super) fn other_model(&self, models: OtherModel<'_>, hidden: impl FnOnce(&str) -> String) {
        let mut all = lock(&self.other_models);
        if !all.contains_key(models.requested) {
            all.insert(models.requested.to_owned(), BTreeMap::new());
        }
        let Some(names) = all.get_mut(models.requested) else { return };
        // A name in the list holds no secret.
        if let Some(count) = names.get_mut(models.answered) {
            *count += 1;
            return;
        }
        let answered = hidden(models.answered);
        let is_listed = names.len() < MOST_NAMES || names.contains_key(&answered);
        let name = if is_listed { answered } else { "further models".to_owned() };
        *names.entry(name).or_default() += 1;
    }

    /// Counts the call of a tool that took this long, in ns.
    pub(super) fn tool_called(&self, took: Nanos, is_failed: bool) {
        self.tool_calls.fetch_add(1, Relaxed);
        self.failed_tool_calls.fetch_add(u64::from(is_failed), Relaxed);
        self.tool_ns.fetch_add(took, Relaxed);
    }

    /// Records how many streams a server permits on a connection.
    pub(super) fn streams_limited(&self, permitted: u64) {
        let mut lowest = lock(&self.stream_limit);
        *lowest = Some(lowest.map_or(permitted, |known| known.min(permitted)));
    }

    /// Counts a retry that waits for this span, in ns.
    pub(super) fn repeated(&self, kind: Kind, span: Nanos) {
        self.retry_wait_ns.fetch_add(span, Relaxed);
        *lock(&self.retries).entry(kind).or_default() += 1;
    }

    /// Returns a snapshot that includes the counts of each thread.
    pub(super) fn snapshot<'a>(
        &self,
        threads: impl Iterator<Item = &'a ThreadCounters>,
    ) -> ClientStatistics {
        let mut total = ClientStatistics {
            troubles: lock(&self.troubles).clone(),
            retries: lock(&self.retries).clone(),
            retry_wait_ns: self.retry_wait_ns.load(Relaxed),
            refused_connects: lock(&self.refused_connects).clone(),
            other_models: lock(&self.other_models).clone(),
            stream_limit: *lock(&self.stream_limit),
            tool_calls: self.tool_calls.load(Relaxed),
            failed_tool_calls: self.failed_tool_calls.load(Relaxed),
            tool_ns: self.tool_ns.load(Relaxed),
            ..ClientStatistics::default()
        };
        for thread in threads {
            total.sent += thread.sent.load(Relaxed);
            total.answered += thread.answered.load(Relaxed);
            total.connects += thread.connects.load(Relaxed);
            total.lost_connections += thread.lost_connections.load(Relaxed);
            total.connection_waits += thread.connection_waits.load(Relaxed);
            total.waited_ns += thread.waited_ns.load(Relaxed);
            total.longest_wait_ns = total.longest_wait_ns.max(thread.longest_wait_ns.load(Relaxed));
            total.queue_waits += thread.queue_waits.load(Relaxed);
            total.limit_waits += thread.limit_waits.load(Relaxed);
            total.limited_ns += thread.limited_ns.load(Relaxed);
            let longest = thread.longest_limited_ns.load(Relaxed);
            total.longest_limited_ns = total.longest_limited_ns.max(longest);
            total.bytes_sent += thread.bytes_sent.load(Relaxed);
            total.bytes_received += thread.bytes_received.load(Relaxed);
            total.cpu_ns += thread.cpu_ns.load(Relaxed);
            total.unrequested_compression += thread.unrequested_compression.load(Relaxed);
            for (by, count) in COUNTED.iter().zip(&thread.counted_by) {
                let count = count.load(Relaxed);
                if count > 0 {
                    *total.counted_by.entry(*by).or_default() += count;
                }
            }
            total.gaps.add_all(&thread.gaps);
        }
        total
    }
}

impl ClientStatistics {
    /// Returns the statistics since an earlier snapshot of the same client. The longest wait, the limit
    /// of streams and the first message of each kind of trouble remain those since the start.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let more = |now: u64, then: u64| now.saturating_sub(then);
        Self {
            sent: more(self.sent, earlier.sent),
            answered: more(self.answered, earlier.answered),
            troubles: later_words(&self.troubles, &earlier.troubles),
            retries: later(&self.retries, &earlier.retries),
            retry_wait_ns: more(self.retry_wait_ns, earlier.retry_wait_ns),
            connects: more(self.connects, earlier.connects),
            refused_connects: later_words(&self.refused_connects, &earlier.refused_connects),
            lost_connections: more(self.lost_connections, earlier.lost_connections),
            connection_waits: more(self.connection_waits, earlier.connection_waits),
            waited_ns: more(self.waited_ns, earlier.waited_ns),
            longest_wait_ns: self.longest_wait_ns,
            queue_waits: more(self.queue_waits, earlier.queue_waits),
            stream_limit: self.stream_limit,
            limit_waits: more(self.limit_waits, earlier.limit_waits),
            limited_ns: more(self.limited_ns, earlier.limited_ns),
            longest_limited_ns: self.longest_limited_ns,
            bytes_sent: more(self.bytes_sent, earlier.bytes_sent),
            bytes_received: more(self.bytes_received, earlier.bytes_received),
            cpu_ns: more(self.cpu_ns, earlier.cpu_ns),
            parser_cpu_ns: more(self.parser_cpu_ns, earlier.parser_cpu_ns),
            parser_waits: more(self.parser_waits, earlier.parser_waits),
            unrequested_compression: more(
                self.unrequested_compression,
                earlier.unrequested_compression,
            ),
            counted_by: later(&self.counted_by, &earlier.counted_by),
            other_models: later_names(&self.other_models, &earlier.other_models),
            tool_calls: more(self.tool_calls, earlier.tool_calls),
            failed_tool_calls: more(self.failed_tool_calls, earlier.failed_tool_calls),
            tool_ns: more(self.tool_ns, earlier.tool_ns),
            gaps: self.gaps.since(&earlier.gaps),
        }
    }

    /// Returns the combined statistics of two clients.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            answered: self.answered + other.answered,
            troubles: both_words(&self.troubles, &other.troubles),
            retries: both(&self.retries, &other.retries),
            retry_wait_ns: self.retry_wait_ns + other.retry_wait_ns,
            connects: self.connects + other.connects,
            refused_connects: both_words(&self.refused_connects, &other.refused_connects),
            lost_connections: self.lost_connections + other.lost_connections,
            connection_waits: self.connection_waits + other.connection_waits,
            waited_ns: self.waited_ns + other.waited_ns,
            longest_wait_ns: self.longest_wait_ns.max(other.longest_wait_ns),
            queue_waits: self.queue_waits + other.queue_waits,
            stream_limit: self.stream_limit.into_iter().chain(other.stream_limit).min(),
            limit_waits: self.limit_waits + other.limit_waits,
            limited_ns: self.limited_ns + other.limited_ns,
            longest_limited_ns: self.longest_limited_ns.max(other.longest_limited_ns),
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bytes_received: self.bytes_received + other.bytes_received,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            parser_cpu_ns: self.parser_cpu_ns + other.parser_cpu_ns,
            parser_waits: self.parser_waits + other.parser_waits,
            unrequested_compression: self.unrequested_compression + other.unrequested_compression,
            counted_by: both(&self.counted_by, &other.counted_by),
            other_models: both_names(&self.other_models, &other.other_models),
            tool_calls: self.tool_calls + other.tool_calls,
            failed_tool_calls: self.failed_tool_calls + other.failed_tool_calls,
            tool_ns: self.tool_ns + other.tool_ns,
            gaps: self.gaps.and(&other.gaps),
        }
    }

    /// Returns the trouble for people, with a line for each kind; `None` if there was none.
    pub fn trouble(&self) -> Option<String> {
        let samples = self.troubles.values().map(|(count, words)| {
            let noun = if *count == 1 { "sample" } else { "samples" };
            format!("{count} {noun} failed: {words}")
        });
        let connections = self.refused_connects.values().map(|(count, words)| {
            let noun = if *count == 1 { "connection" } else { "connections" };
            format!("{count} {noun} could not be made: {words}")
        });
        let lines: Vec<String> = samples.chain(connections).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Returns the number of failed samples.
    pub fn failed(&self) -> u64 {
        self.troubles.values().map(|(count, _)| count).sum()
    }
}

fn note(map: &Mutex<BTreeMap<Kind, (u64, String)>>, trouble: &Trouble, times: u64) {
    if times == 0 {
        return;
    }
    let mut map = lock(map);
    match map.get_mut(&trouble.kind) {
        Some((count, _)) => *count += times,
        None => {
            map.insert(trouble.kind, (times, trouble.words.clone()));
        }
    }
}

/// Locks a counter, which is consistent even if a thread panicked.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns counts beyond earlier ones, without those that did not grow.
fn later<K: Ord + Clone>(now: &BTreeMap<K, u64>, then: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let grown = |(kind, count): (&K, &u64)| {
        let more = count.saturating_sub(then.get(kind).copied().unwrap_or(0));
        (more > 0).then(|| (kind.clone(), more))
    };
    now.iter().filter_map(grown).collect()
}

/// Returns the sums of two sets of counts.
fn both<K: Ord + Clone>(one: &BTreeMap<K, u64>, other: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let mut sum = one.clone();
    other.iter().for_each(|(key, count)| *sum.entry(key.clone()).or_default() += count);
    sum
}

/// Returns counts of names beyond earlier ones.
fn later_names(now: &NameCounts, then: &NameCounts) -> NameCounts {
    let none = BTreeMap::new();
    let more = now.iter().map(|(requested, names)| {
        (requested.clone(), later(names, then.get(requested).unwrap_or(&none)))
    });
    more.filter(|(_, names)| !names.is_empty()).collect()
}

/// Returns the sums of two sets of counts of names.
fn both_names(one: &NameCounts, other: &NameCounts) -> NameCounts {
    let mut sum = one.clone();
    for (requested, names) in other {
        let counts = sum.entry(requested.clone()).or_default();
        *counts = both(counts, names);
    }
    sum
}

/// Returns the sums of two sets of counts, with the first message available for each.
fn both_words(
    one: &BTreeMap<Kind, (u64, String)>,
    other: &BTreeMap<Kind, (u64, String)>,
) -> BTreeMap<Kind, (u64, String)> {
    let mut sum = one.clone();
    for (kind, (count, words)) in other {
        sum.entry(*kind).or_insert_with(|| (0, words.clone())).0 += count;
    }
    sum
}

/// Returns counts with messages beyond earlier ones, without those that did not grow.
fn later_words(
    now: &BTreeMap<Kind, (u64, String)>,
    then: &BTreeMap<Kind, (u64, String)>,
) -> BTreeMap<Kind, (u64, String)> {
    let grown = |(kind, (count, words)): (&Kind, &(u64, String))| {
        let more = count.saturating_sub(then.get(kind).map_or(0, |(count, _)| *count));
        (more > 0).then(|| (*kind, (more, words.clone())))
    };
    now.iter().filter_map(grown).collect()
}
