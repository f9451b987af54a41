//! Converts the counters of a client to its part of the summary.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::Record;
use dyno_net::client::ClientStatistics;
use dyno_net::protocol::TokenCounter;
use dyno_net::trouble::Kind;
use dyno_results::summary::client::{Spans, Trouble};
use dyno_results::summary::metrics::Distribution;
use dyno_results::summary::{Client, Test, Worker, goodput};

use crate::advice::{explained, kind_name};

/// Observations of the client of a test, or of the clients of all workers together.
pub struct Sight<'a> {
    /// Counters of the test.
    pub seen: ClientStatistics,
    /// Available time of all threads of the client, ns.
    pub capacity: Nanos,
    /// Returns how much later than due the requests of a tenant were accepted by a socket, ns.
    pub lateness: &'a dyn Fn(u8, &Record) -> Vec<Nanos>,
    /// The workers, if any.
    pub workers: Vec<Worker>,
    /// Streams on each connection of HTTP/2; `None` over HTTP/1.1.
    pub streams: Option<u64>,
}

/// The run of a tenant whose figures are shown.
#[derive(Debug, Clone, Copy)]
pub struct ShownRun<'a> {
    /// Record of the run.
    pub record: &'a Record,
    /// Whether no run came after it. The client has the times of its requests only then.
    pub is_last: bool,
    /// The tenant's test.
    pub test: &'a Test,
}

/// Returns the client's part of the summary.
pub fn client(sight: &Sight<'_>, tenants: &[ShownRun<'_>]) -> Option<Client> {
    let test = tenants.first()?.test;
    let seen = &sight.seen;
    let is_timed = test.metrics.is_some();
    let target = test.plan.percentile;
    let late = if is_timed { lateness(sight, tenants) } else { Vec::new() };
    let shown = tenants.iter().filter(|_| is_timed);
    let from_issue = shown.flat_map(|run| latencies_from_issue(run.record)).collect();
    let trouble = |(kind, (samples, first)): (&Kind, &(u64, String))| {
        let (name, _) = explained(*kind, first);
        (name.into(), Trouble { samples: *samples, first: first.clone() })
    };
    Some(Client {
        scenario: test.scenario.clone(),
        mode: test.mode.clone(),
        sent: seen.sent,
        retries: seen.retries.iter().map(|(kind, n)| (kind_name(*kind).into(), *n)).collect(),
        troubles: seen.troubles.iter().map(trouble).collect(),
        connects: seen.connects,
        lost_connections: seen.lost_connections,
        connection_waits: seen.connection_waits,
        waited_ns: seen.waited_ns,
        longest_wait_ns: seen.longest_wait_ns,
        queue_waits: seen.queue_waits,
        limit_waits: seen.limit_waits,
        limited_ns: seen.limited_ns,
        longest_limited_ns: seen.longest_limited_ns,
        parser_waits: seen.parser_waits,
        unrequested_compression: seen.unrequested_compression,
        bytes_sent: seen.bytes_sent,
        bytes_received: seen.bytes_received,
        // Nothing was measured if the run ended in its ramp.
        busy: match sight.capacity {
            0 => 0.0,
            capacity => seen.cpu_ns as f64 / capacity as f64,
        },
        lateness_ns: Distribution::from_times(late, target),
        latency_from_issue_ns: Distribution::from_times(from_issue, target),
        inter_token_ns: spans(seen),
        tokens_counted_by: seen
            .counted_by
            .iter()
            .map(|(by, count)| (counter(*by).into(), *count))
            .collect(),
        workers: sight.workers.clone(),
        stream_limit: seen.stream_limit,
        streams: sight.streams,
        retry_wait_ns: seen.retry_wait_ns,
    })
}

/// Returns how late the requests of the runs were; empty for a run that is not the last one.
fn lateness(sight: &Sight<'_>, tenants: &[ShownRun<'_>]) -> Vec<Nanos> {
    let last = (0..=u8::MAX).zip(tenants).filter(|(_, run)| run.is_last);
    last.flat_map(|(tenant, run)| (sight.lateness)(tenant, run.record)).collect()
}

/// Returns the times from issue to completion of answered samples, ns.
fn latencies_from_issue(record: &Record) -> impl Iterator<Item = Nanos> {
    let each = record.samples_per_query.max(1);
    let answered = goodput::answered(record);
    answered.map(move |(sample, _, at)| at.saturating_sub(record.issued_at[sample / each]))
}

fn spans(seen: &ClientStatistics) -> Option<Spans> {
    let at = |q: f64| seen.gaps.quantile(q);
    Some(Spans {
        count: seen.gaps.count(),
        p50: at(0.5)?,
        p90: at(0.9)?,
        p95: at(0.95)?,
        p99: at(0.99)?,
        p99_9: at(0.999)?,
        max: at(1.0)?,
    })
}

pub fn counter(by: TokenCounter) -> &'static str {
    match by {
        TokenCounter::Nobody => "nobody",
        TokenCounter::Server => "server",
        TokenCounter::Tokenizer => "tokenizer",
        TokenCounter::Events => "events",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test() -> Test {
        Test { repeated: Some(2), ..Test::new("Server", "performance") }
    }

    #[test]
    fn the_lateness_of_the_last_run_is_not_that_of_another_one() {
        let sight = Sight {
            seen: ClientStatistics::default(),
            capacity: 0,
            lateness: &|tenant, _| vec![Nanos::from(tenant) + 7],
            workers: Vec::new(),
            streams: None,
        };
        let (record, test) = (Record::default(), test());
        let of = |is_last| {
            let run = ShownRun { record: &record, is_last, test: &test };
            lateness(&sight, &[run; 2])
        };
        assert_eq!(of(true), [7, 8]);
        assert!(of(false).is_empty());
    }
}
