//! Parser of `mlperf_log_trace.json`, line by line: the file of the reference is not valid JSON as
//! a whole, because some of its strings are quoted twice.

use std::io::BufRead;

use super::cursor::Cursor;
use super::{LogReadProblem, ProblemKind};
use crate::clock::Nanos;
use crate::record::Record;

/// Event of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// Line of the file, from 1.
    pub line: usize,
    /// Name, such as `Sample` or `IssueQuery`.
    pub name: String,
    /// The phase of the trace format: `X`, `C`, `b`, `e`, `n` or `M`.
    pub phase: char,
    /// Time in ns since the origin of the trace.
    pub ts: Nanos,
    /// Length in ns, for phase `X`.
    pub dur: Option<Nanos>,
    /// Id that links the events of one sample.
    pub id: Option<u64>,
    /// Arguments that are whole numbers.
    pub args: Vec<(String, u64)>,
}

impl TraceEvent {
    /// Returns a numeric argument.
    pub fn arg(&self, name: &str) -> Option<u64> {
        self.args.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }
}

/// Reads a trace event by event.
#[derive(Debug)]
pub struct TraceReader<R> {
    source: R,
    bytes: Vec<u8>,
    line: usize,
    ended: bool,
}

impl<R: BufRead> TraceReader<R> {
    /// Returns a reader of `source`.
    pub fn new(source: R) -> Self {
        Self { source, bytes: Vec::new(), line: 0, ended: false }
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<TraceEvent, LogReadProblem>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            self.bytes.clear();
            let kind = match self.source.read_until(b'\n', &mut self.bytes) {
                Ok(0) if self.line == 0 => return None,
                Ok(0) => ProblemKind::Truncated { expected: "the event `LastTrace`" },
                Ok(_) => {
                    self.line += 1;
                    match read_event(self.line, &self.bytes) {
                        Ok(Some(event)) if event.name == "LastTrace" => {
                            self.ended = true;
                            return None;
                        }
                        Ok(Some(event)) => return Some(Ok(event)),
                        Ok(None) => continue,
                        Err(kind) if self.bytes.ends_with(b"\n") => {
                            return Some(Err(LogReadProblem { line: self.line, kind }));
                        }
                        Err(_) => ProblemKind::Truncated { expected: "the rest of an event" },
                    }
                }
                Err(error) => ProblemKind::Io { message: error.to_string() },
            };
            self.ended = true;
            return Some(Err(LogReadProblem { line: self.line, kind }));
        }
        None
    }
}

/// Parses the event of a line; returns `None` for the opening line and for empty lines.
fn read_event(line: usize, bytes: &[u8]) -> Result<Option<TraceEvent>, ProblemKind> {
    let text = bytes.trim_ascii();
    if text.is_empty() || text.starts_with(b"{\"traceEvents\"") {
        return Ok(None);
    }
    let foreign = ProblemKind::Foreign { expected: "an event such as {\"name\":\"Sample\",...}" };
    let mut cursor = Cursor::new(text);
    let mut event = TraceEvent {
        line,
        name: String::new(),
        phase: 'X',
        ts: 0,
        dur: None,
        id: None,
        args: Vec::new(),
    };
    if !cursor.eat(b'{') {
        return Err(foreign);
    }
    loop {
        let key = cursor.plain_string().filter(|_| cursor.eat(b':')).ok_or(foreign.clone())?;
        let bad = |field| ProblemKind::Field { field };
        match key {
            b"name" => event.name = cursor.string().ok_or(bad("name"))?,
            b"ph" => {
                let phase = cursor.string().ok_or(bad("ph"))?;
                event.phase = phase.chars().next().ok_or(bad("ph"))?;
            }
            b"ts" => event.ts = cursor.word().and_then(microseconds).ok_or(bad("ts"))?,
            b"dur" => {
                event.dur = Some(cursor.word().and_then(microseconds).ok_or(bad("dur"))?);
            }
            b"id" => event.id = Some(cursor.integer().ok_or(bad("id"))?),
            // The arguments come last. Arguments that are not numbers may be quoted twice and are
            // ignored.
            b"args" => {
                read_args(&mut cursor, &mut event.args);
                return if text.ends_with(b"}},") || text.ends_with(b"}}") {
                    Ok(Some(event))
                } else {
                    Err(foreign)
                };
            }
            _ if cursor.peek() == Some(b'"') => {
                cursor.plain_string().ok_or(foreign.clone())?;
            }
            _ => {
                cursor.word().ok_or(foreign.clone())?;
            }
        }
        if !cursor.eat(b',') {
            return if cursor.eat(b'}') { Ok(Some(event)) } else { Err(foreign) };
        }
    }
}

fn read_args(cursor: &mut Cursor, args: &mut Vec<(String, u64)>) {
    if !cursor.eat(b'{') {
        return;
    }
    while let Some(key) = cursor.plain_string() {
        let key = String::from_utf8_lossy(key).into_owned();
        if !cursor.eat(b':') {
            return;
        }
        if let Some(value) = cursor.integer() {
            args.push((key, value));
        }
        if !cursor.eat(b',') {
            return;
        }
    }
}

/// Parses microseconds with up to three decimals as ns, without rounding.
fn microseconds(text: &str) -> Option<Nanos> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(nanos)
}

/// Data of one sample in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceSample {
    /// Sequence number of the sample within the test.
    pub sample_seq: u64,
    /// Sequence number of its query within the test.
    pub query_seq: u64,
    /// Index in the data set.
    pub sample_idx: u64,
    /// When its query was due, ns since the origin of the trace.
    pub scheduled_at: Nanos,
    /// Time from the due time to the issue, ns.
    pub issue_start_ns: u64,
    /// Time from the due time to the completion, ns; `None` if it never completed.
    pub complete_ns: Option<u64>,
}

/// Returns the samples of a trace in the order of their sequence numbers, and the problems found.
pub fn samples_of<R: BufRead>(reader: TraceReader<R>) -> (Vec<TraceSample>, Vec<LogReadProblem>) {
    let mut samples = Vec::new();
    let mut problems = Vec::new();
    for event in reader {
        match event {
            Ok(event) if event.name == "Sample" && event.phase == 'b' => match sample(&event) {
                Ok(sample) => samples.push(sample),
                Err(kind) => problems.push(LogReadProblem { line: event.line, kind }),
            },
            Ok(_) => {}
            Err(problem) => problems.push(problem),
        }
    }
    samples.sort_by_key(|sample: &TraceSample| sample.sample_seq);
    (samples, problems)
}

fn sample(event: &TraceEvent) -> Result<TraceSample, ProblemKind> {
    let arg = |field: &'static str| event.arg(field).ok_or(ProblemKind::Field { field });
    Ok(TraceSample {
        sample_seq: arg("sample_seq")?,
        query_seq: arg("query_seq")?,
        sample_idx: arg("sample_idx")?,
        scheduled_at: event.ts,
        issue_start_ns: arg("issue_start_ns")?,
        complete_ns: event.arg("complete_ns"),
    })
}

/// Rebuilds the record of a run from its samples, which are in the order of their sequence numbers.
/// Returns `None` if they are not complete queries of `samples_per_query` samples.
///
/// `started_at` is the start of the run in ns since the origin of the trace. `scheduled` states
/// whether queries were due at set times.
pub fn record_of(
    samples: &[TraceSample],
    samples_per_query: usize,
    started_at: Nanos,
    scheduled: bool,
) -> Option<Record> {
    let first = samples.first()?;
    let mut record = Record {
        samples_per_query,
        first_sample: first.sample_seq,
        first_query: first.query_seq,
        ..Record::default()
    };
    for (q, query) in samples.chunks(samples_per_query.max(1)).enumerate() {
        let whole = query.len() == samples_per_query
            && query.iter().all(|s| s.query_seq == first.query_seq + q as u64);
        let due = query[0].scheduled_at.checked_sub(started_at).filter(|_| whole)?;
        if scheduled {
            record.scheduled_at.push(due);
        }
        record.issued_at.push(due + query[0].issue_start_ns);
        for sample in query {
            record.indices.push(u32::try_from(sample.sample_idx).ok()?);
            record.completed_at.push(sample.complete_ns.map_or(0, |after| due + after));
        }
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_of_every_kind() {
        let text = "{\"traceEvents\":[\n\
            {\"name\":\"Latency\",\"ph\": \"C\",\"pid\":8,\"ts\":60.309,\"args\":{ \"issue_delay\":206,\"issue_to_done\":28649}},\n\
            {\"name\":\"Sample\",\"cat\":\"default\",\"ph\":\"b\",\"pid\":8,\"id\":3,\"ts\":60.3,\"args\":{\"sample_seq\":3,\"query_seq\":2,\"sample_idx\":9,\"issue_start_ns\":206,\"complete_ns\":28855}},\n\
            {\"name\":\"Sample\",\"cat\":\"default\",\"ph\":\"e\", \"pid\":8,\"id\":3,\"ts\":89.164},\n\
            {\"name\":\"LogDetail\",\"ph\":\"X\",\"pid\":8,\"tid\":9,\"ts\":1,\"dur\":0.752,\"args\":{\"key\":\"\"qsl, }name\"\"}},\n\
            {\"name\":\"LastTrace\"}\n],\n\"displayTimeUnit\":\"ns\",\n";
        let events: Vec<TraceEvent> =
            TraceReader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap();
        assert_eq!(events.len(), 4);
        assert_eq!((events[0].phase, events[0].ts), ('C', 60_309));
        assert_eq!(events[0].arg("issue_to_done"), Some(28_649));
        assert_eq!((events[2].phase, events[2].id), ('e', Some(3)));
        assert_eq!((events[3].name.as_str(), events[3].dur), ("LogDetail", Some(752)));
        let (samples, problems) = samples_of(TraceReader::new(text.as_bytes()));
        assert_eq!(problems, []);
        assert_eq!(samples[0].scheduled_at, 60_300);
        assert_eq!(samples[0].complete_ns, Some(28_855));
    }

    #[test]
    fn an_interrupted_trace_is_an_error_with_its_line() {
        let text =
            "{\"traceEvents\":[\n{\"name\":\"Sample\",\"ph\":\"e\",\"ts\":1.000},\n{\"name\":\"Sam";
        let events: Vec<_> = TraceReader::new(text.as_bytes()).collect();
        assert!(events[0].is_ok());
        assert_eq!(events[1].as_ref().unwrap_err().line, 3);
        assert_eq!(events.len(), 2);
        assert_eq!(TraceReader::new(&b""[..]).count(), 0, "a trace that is off is empty");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, text in "(\\{\"(name|ts|args|id)\":[\"0a.{}]{0,6},?|\\n){0,9}") {
            let lines = bytes.split(|&b| b == b'\n').count();
            prop_assert!(TraceReader::new(&bytes[..]).count() <= lines);
            let _ = samples_of(TraceReader::new(text.as_bytes()));
        }
    }
}
