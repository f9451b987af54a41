//! `mlperf_log_trace.json`: the run for a trace viewer, in the Chrome trace format.
//!
//! The trace is derived from the record after the run, so that tracing does not affect the run.
//! Data that the record does not hold is left out: `IssueQuery` has a begin but no length, and
//! there is no logger thread.

use std::io;

use super::format::{push_microseconds, push_u64};
use super::stream::Stream;
use crate::clock::Nanos;
use crate::plan::Load;
use crate::run::{Event, RunLog, Span, TestLog};
use crate::settings::Scenario;

/// Writes the trace of every run. The file as a whole is JSON.
///
/// # Errors
/// The file could not be written.
pub fn write(log: &TestLog, out: Stream<'_>) -> io::Result<()> {
    let mut trace = Trace { out, pid: u64::from(log.process.pid) };
    let formatted = trace.test(log);
    trace.out.finish(formatted)
}

struct Trace<'a> {
    out: Stream<'a>,
    pid: u64,
}

/// One sample of the trace; times are ns since the origin of the log.
struct Row {
    sequence: u64,
    query: u64,
    index: u64,
    scheduled: Nanos,
    issued: Nanos,
    /// `None` if it was never complete.
    completed: Option<Nanos>,
}

impl Trace<'_> {
    fn test(&mut self, log: &TestLog) -> io::Result<()> {
        self.text("{\"traceEvents\":[\n");
        for event in &log.events {
            match event {
                Event::Loaded { span, samples } => {
                    self.span("LoadSamples", *span, Some(samples.len()));
                }
                Event::Run(run) => self.run(run)?,
                Event::Message(_) | Event::Result { .. } => {}
            }
        }
        self.text(
            "{\"name\":\"LastTrace\"}\n],\n\"displayTimeUnit\":\"ns\",\n\"otherData\":{\n\"ts\":",
        );
        push_microseconds(&mut self.out.buffer, log.origin_wall.unix_ns);
        self.text(",\n\"version\":\"MLPerf LoadGen v1.0\"\n}\n}\n");
        Ok(())
    }

    #[inline]
    fn text(&mut self, text: &str) {
        self.out.buffer.extend_from_slice(text.as_bytes());
    }

    #[inline]
    fn number(&mut self, label: &str, value: u64) {
        self.text(label);
        push_u64(&mut self.out.buffer, value);
    }

    #[inline]
    fn time(&mut self, label: &str, at: Nanos) {
        self.text(label);
        push_microseconds(&mut self.out.buffer, at);
    }

    /// Writes an event with a length.
    fn span(&mut self, name: &str, span: Span, count: Option<usize>) {
        self.text("{\"name\":\"");
        self.text(name);
        self.number("\",\"ph\":\"X\",\"pid\":", self.pid);
        self.number(",\"tid\":", self.pid);
        self.time(",\"ts\":", span.begin);
        self.time(",\"dur\":", span.end.saturating_sub(span.begin));
        self.text(",\"args\":{");
        if let Some(count) = count {
            self.number("\"count\":", count as u64);
        }
        self.text("}},\n");
    }

    fn run(&mut self, run: &RunLog) -> io::Result<()> {
        let loaded = (!run.loaded.is_empty()).then_some(run.loaded.len());
        if loaded.is_some() {
            self.span("LoadSamples", run.load, loaded);
        }
        self.span("GenerateQueries", run.generate, None);
        self.queries(run)?;
        if loaded.is_some() {
            // The spelling is the reference's.
            self.span("UnloadSampes", run.unload, loaded);
        }
        Ok(())
    }

    fn queries(&mut self, run: &RunLog) -> io::Result<()> {
        let record = &run.record;
        let server = run.plan.scenario() == Scenario::Server;
        let coalesces = matches!(&run.plan.load, Load::Server(server) if server.coalesce);
        for (q, &issued) in record.issued_at.iter().enumerate() {
            let issued = run.started_at + issued;
            let scheduled = run.started_at + record.scheduled(q);
            // Coalesced queries were issued in one call, with one stamp.
            let coalesced = coalesces && q > 0 && record.issued_at[q - 1] == record.issued_at[q];
            if !coalesced {
                self.span("IssueQuery", Span { begin: issued, end: issued }, None);
            }
            for i in q * record.samples_per_query..(q + 1) * record.samples_per_query {
                let at = |time: Nanos| (time != 0).then(|| run.started_at + time);
                let row = Row {
                    sequence: record.first_sample + i as u64,
                    query: record.first_query + q as u64,
                    index: u64::from(record.indices[i]),
                    scheduled,
                    issued,
                    completed: at(record.completed_at[i]),
                };
                if server {
                    self.latency("Latency", &row, row.completed);
                }
                self.pair("Sample", &row, row.completed);
                if let Some(first_token) = record.first_token_at.get(i).copied().and_then(at) {
                    if server {
                        self.latency("Token_Latency", &row, Some(first_token));
                    } else {
                        self.pair("Token", &row, Some(first_token));
                    }
                }
                self.out.entry_done()?;
            }
        }
        Ok(())
    }

    /// Writes a counter event with the two parts of a latency.
    fn latency(&mut self, name: &str, row: &Row, done: Option<Nanos>) {
        let Some(done) = done else { return };
        self.text("{\"name\":\"");
        self.text(name);
        self.number("\",\"ph\": \"C\",\"pid\":", self.pid);
        self.time(",\"ts\":", row.scheduled);
        self.number(",\"args\":{ \"issue_delay\":", row.issued.saturating_sub(row.scheduled));
        self.number(",\"issue_to_done\":", done.saturating_sub(row.issued));
        self.text("}},\n");
    }

    /// Writes the begin and end events of an overlapping span. A missing sample has no end.
    fn pair(&mut self, name: &str, row: &Row, done: Option<Nanos>) {
        self.begin_of_pair(name, 'b', row, row.scheduled);
        self.number(",\"args\":{\"sample_seq\":", row.sequence);
        self.number(",\"query_seq\":", row.query);
        self.number(",\"sample_idx\":", row.index);
        self.number(",\"issue_start_ns\":", row.issued.saturating_sub(row.scheduled));
        if let Some(done) = done {
            self.number(",\"complete_ns\":", done.saturating_sub(row.scheduled));
        }
        self.text("}},\n");
        if let Some(done) = done {
            self.begin_of_pair(name, 'e', row, done);
            self.text("},\n");
        }
    }

    fn begin_of_pair(&mut self, name: &str, phase: char, row: &Row, at: Nanos) {
        self.text("{\"name\":\"");
        self.text(name);
        // The space after the end's comma is the reference's.
        let phase = if phase == 'b' { "b\",\"pid\":" } else { "e\", \"pid\":" };
        self.text("\",\"cat\":\"default\",\"ph\":\"");
        self.number(phase, self.pid);
        self.number(",\"id\":", row.sequence);
        self.time(",\"ts\":", at);
    }
}
