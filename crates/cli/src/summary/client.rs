//! What the client of a server saw in a test, and whether the figures are the server's.

use std::collections::BTreeMap;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::Record;
use dyno_net::client::Seen;
use dyno_net::protocol::Counted;
use dyno_net::trouble::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metrics::Distribution;
use super::{Cause, Metrics, Reason, ReasonKind, Test};
use crate::render;
use crate::workers::Worker;

/// What the client of a server saw in a test, beside what its record holds. Of a test with several
/// runs it counts them all, and times are those of the last one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Client {
    /// of the test
    pub scenario: String,
    /// of the test: `accuracy`, `performance` or `peak`
    pub mode: String,
    /// requests that a socket took, repeated ones included
    pub sent: u64,
    /// requests that were sent again, by what had happened to them
    pub retries: BTreeMap<String, u64>,
    /// samples that failed, by kind
    pub troubles: BTreeMap<String, Trouble>,
    /// connections that were made
    pub connects: u64,
    /// connections that the server closed, or that broke
    pub lost_connections: u64,
    /// samples that found no connection free, or no stream, and waited
    pub connection_waits: u64,
    /// how long they waited together
    pub waited_ns: u64,
    /// how long the longest of them waited
    pub longest_wait_ns: u64,
    /// of those that waited, the samples that waited for a connection or a stream that another
    /// request had: a queue of the client's own
    #[serde(default)]
    pub queue_waits: u64,
    /// samples that waited because `max-concurrency` requests were in flight; their wait counts
    /// in their latency
    #[serde(default)]
    pub limit_waits: u64,
    /// how long they waited together
    #[serde(default)]
    pub limited_ns: u64,
    /// how long the longest of them waited
    #[serde(default)]
    pub longest_limited_ns: u64,
    /// how often a thread that reads answers waited because too much was to be parsed
    #[serde(default)]
    pub parser_waits: u64,
    /// of requests, before encryption
    pub bytes_sent: u64,
    /// of answers, after decryption
    pub bytes_received: u64,
    /// share of the time for which the client's threads computed, in [0, 1]
    pub busy: f64,
    /// handed to a socket - the scheduled time, or the end of a wait for `max-concurrency`, of
    /// all tenants' samples; null of an accuracy test
    pub lateness_ns: Option<Distribution>,
    /// completion - issue, of answered samples: what a client that waits for answers would
    /// call the latency; null of an accuracy test
    pub latency_from_issue_ns: Option<Distribution>,
    /// spans between the parts with output of an answer; null where answers have no parts
    pub inter_token_ns: Option<Spans>,
    /// answers by who counted their output tokens: `server` (usage), `tokenizer`, `events`
    /// (one for each part with output) or `nobody`
    pub tokens_counted_by: BTreeMap<String, u64>,
    /// the workers that shared the load; the figures above are those of all
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Worker>,
}

/// What is known of the client of a test, or of the clients of all workers together.
pub struct Sight<'a> {
    /// Counted in the test.
    pub seen: Seen,
    /// Time that all threads of the client had, ns.
    pub capacity: Nanos,
    /// Returns how much later than due the requests of a tenant were accepted by a socket, ns.
    pub lateness: &'a dyn Fn(u8, &Record) -> Vec<Nanos>,
    /// The workers, where there were some.
    pub workers: Vec<Worker>,
}

/// Samples that failed in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trouble {
    /// how many
    pub samples: u64,
    /// what was said of the first of them since the client was started
    pub first: String,
}

/// Percentiles of spans, each at most 1/64 too high.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spans {
    /// how many
    pub count: u64,
    /// median
    pub p50: u64,
    /// 0.9
    pub p90: u64,
    /// 0.95
    pub p95: u64,
    /// 0.99
    pub p99: u64,
    /// 0.999
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    /// longest
    pub max: u64,
}

/// A queue of the client's own is what is measured where it delays requests by more than this
/// part of the latency, and by more than so many ns.
const QUEUE_SHARE: i64 = 20;
const LEAST_QUEUE_NS: i64 = 200_000;
/// Above this the client's threads are what is measured.
const BUSY_BUDGET: f64 = 0.95;

impl Client {
    /// What was seen in a test, of the last runs of these tenants.
    pub fn of(sight: &Sight<'_>, tenants: &[(&Record, &Test)]) -> Option<Self> {
        let (_, test) = tenants.first()?;
        let seen = &sight.seen;
        let is_timed = test.metrics.is_some();
        let target = test.plan.percentile;
        let mut late = Vec::new();
        let mut from_issue = Vec::new();
        for (at, (record, _)) in tenants.iter().enumerate().filter(|_| is_timed) {
            late.extend((sight.lateness)(u8::try_from(at).unwrap_or(u8::MAX), record));
            from_issue.extend(latencies_from_issue(record));
        }
        let trouble = |(kind, (samples, first)): (&Kind, &(u64, String))| {
            (name_of(*kind).into(), Trouble { samples: *samples, first: first.clone() })
        };
        Some(Self {
            scenario: test.scenario.clone(),
            mode: test.mode.clone(),
            sent: seen.sent,
            retries: seen.retries.iter().map(|(kind, n)| (name_of(*kind).into(), *n)).collect(),
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
            bytes_sent: seen.bytes_sent,
            bytes_received: seen.bytes_received,
            busy: seen.cpu_ns as f64 / sight.capacity.max(1) as f64,
            lateness_ns: distribution(late, target),
            latency_from_issue_ns: distribution(from_issue, target),
            inter_token_ns: spans(seen),
            tokens_counted_by: seen
                .counted_by
                .iter()
                .map(|(by, count)| (counter(*by).into(), *count))
                .collect(),
            workers: sight.workers.clone(),
        })
    }

    /// Says of a tenant's test what keeps its figures from being the server's, and what a reader
    /// must know of them.
    pub fn judge(&self, test: &mut Test) {
        if test.metrics.is_none() {
            return;
        }
        // A query that was issued too late is told already.
        let is_told = |metrics: &Metrics| metrics.conditions.client_lag_met == Some(false);
        let is_judged = test.scenario == "Server" && !test.metrics.as_ref().is_some_and(is_told);
        let budget = test.plan.max_client_lag_ns.filter(|_| is_judged);
        if let (Some(budget), Some(late)) = (budget, &self.lateness_ns)
            && u64::try_from(late.target).unwrap_or(0) > budget
        {
            let waits = match self.connection_waits {
                0 => "Use a faster machine for the client, or a lower rate.".to_owned(),
                waits => format!(
                    "{waits} samples waited for a free connection, the longest for {}: raise \
                     connections=N, or use HTTP/2.",
                    render::duration(self.longest_wait_ns.cast_signed())
                ),
            };
            let text = format!(
                "The client sent too late: at the target percentile a request was on the wire {} \
                 after it was due, more than the {} of max_client_lag_ns. {waits}",
                render::duration(late.target),
                render::duration(budget.cast_signed())
            );
            test.add_reason(Reason::new(ReasonKind::ClientLag, text).because_of(Cause::Client));
        } else if let Some(text) = self.own_queue(test) {
            test.add_reason(Reason::new(ReasonKind::ClientLag, text).because_of(Cause::Client));
        }
        if self.busy > BUSY_BUDGET {
            let text = format!(
                "The client's threads were busy for {:.0} % of the time, more than {:.0} %: these \
                 may be its figures, not the server's. Raise threads=N, or use a faster machine.",
                100.0 * self.busy,
                100.0 * BUSY_BUDGET
            );
            test.add_reason(Reason::new(ReasonKind::ClientLag, text).because_of(Cause::Client));
        }
        if self.parser_waits > 0 {
            let text = format!(
                "The client parsed too slowly: {} times it read no answers because too many bytes \
                 waited to be parsed, and what it read next has a later time. Use a faster \
                 machine for the client, or a lower load.",
                self.parser_waits
            );
            test.add_reason(Reason::new(ReasonKind::ClientLag, text).because_of(Cause::Client));
        }
        test.settle();
    }

    /// Returns why a queue of the client's own is what was measured, where it is.
    fn own_queue(&self, test: &Test) -> Option<String> {
        let (late, metrics) = (self.lateness_ns.as_ref()?, test.metrics.as_ref()?);
        // Of an Offline query all samples are due at once.
        // Fewer waits than that do not reach the target percentile.
        let least = (1.0 - test.plan.percentile) * late.count as f64;
        let has_queued = self.queue_waits > 0 && self.queue_waits as f64 >= least;
        let is_judged = has_queued && test.scenario != "Offline";
        let budget = LEAST_QUEUE_NS.max(metrics.latency_ns.target / QUEUE_SHARE);
        (is_judged && late.target > budget).then(|| {
            format!(
                "The client queued: {} samples waited for a connection that another request had, \
                 the longest for {}, and at the target percentile a request was on the wire {} \
                 after it was due. Leave out connections=N, or raise it.",
                self.queue_waits,
                render::duration(self.longest_wait_ns.cast_signed()),
                render::duration(late.target),
            )
        })
    }

    /// The client in a sentence.
    pub fn remark(&self) -> String {
        let mut text =
            format!("{} {}: client busy {:.0} %", self.scenario, self.mode, 100.0 * self.busy);
        if let Some(late) = &self.lateness_ns {
            text += &format!(", on the wire p99 {} after due", render::duration(late.p99));
        }
        if self.limit_waits > 0 {
            text += &format!(
                ", {} waits for max-concurrency, the longest {}",
                self.limit_waits,
                render::duration(self.longest_limited_ns.cast_signed())
            );
        }
        if self.connection_waits > 0 {
            text += &format!(", {} waits for a connection", self.connection_waits);
        }
        if let Some(gaps) = &self.inter_token_ns {
            let show = |span: u64| render::duration(span.cast_signed());
            text += &format!(", inter-token p50 {}, p99 {}", show(gaps.p50), show(gaps.p99));
        }
        let by: Vec<&str> = self.tokens_counted_by.keys().map(String::as_str).collect();
        if by.iter().any(|by| *by != "nobody") {
            text += &format!(", tokens counted by {}", by.join(" and "));
        }
        let retries: u64 = self.retries.values().sum();
        if retries > 0 {
            text += &format!(", {retries} requests sent again");
        }
        for (kind, trouble) in &self.troubles {
            text += &format!("; {} failed ({kind}), the first: {}", trouble.samples, trouble.first);
        }
        text + "."
    }
}

/// Completion - issue of answered samples.
fn latencies_from_issue(record: &Record) -> impl Iterator<Item = Nanos> {
    let each = record.samples_per_query.max(1);
    let answered = super::goodput::answered(record);
    answered.map(move |(sample, _, at)| at.saturating_sub(record.issued_at[sample / each]))
}

/// Percentiles as all others: `sorted[floor(count * q)]`.
pub fn distribution(mut all: Vec<Nanos>, target: f64) -> Option<Distribution> {
    all.sort_unstable();
    let (first, last) = (*all.first()?, *all.last()?);
    let at = |q: f64| {
        let position = (all.len() as f64 * q) as usize;
        all[position.min(all.len() - 1)].cast_signed()
    };
    let sum: u128 = all.iter().map(|&time| u128::from(time)).sum();
    Some(Distribution {
        count: all.len() as u64,
        min: first.cast_signed(),
        mean: i64::try_from(sum / all.len() as u128).unwrap_or(i64::MAX),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p97: at(0.97),
        p99: at(0.99),
        p99_9: at(0.999),
        max: last.cast_signed(),
        target: at(target),
    })
}

fn spans(seen: &Seen) -> Option<Spans> {
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

/// Name of a kind of trouble, as files and screens show it.
pub fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Resolve => "no address",
        Kind::Connect => "no connection",
        Kind::Tls => "TLS",
        Kind::Closed => "closed",
        Kind::TimedOut => "timed out",
        Kind::Refused => "refused",
        Kind::Request => "wrong request",
        Kind::Server => "server error",
        Kind::Malformed => "malformed answer",
        Kind::Mismatch => "other answer",
        Kind::Empty => "empty",
        Kind::Cut => "cut",
        Kind::Aborted => "aborted",
        Kind::Filtered => "filtered",
        Kind::InBand => "error in the answer",
        Kind::Short => "short",
        _ => "other",
    }
}

pub(super) fn counter(by: Counted) -> &'static str {
    match by {
        Counted::Nobody => "nobody",
        Counted::Server => "server",
        Counted::Tokenizer => "tokenizer",
        Counted::Events => "events",
    }
}
