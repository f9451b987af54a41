//! Observations of the client of a server, and whether the client limited the figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metrics::Distribution;
use super::observer::{is_unjudged, unjudged_note};
use super::{Cause, Metrics, Reason, ReasonKind, Test};
use crate::units;

/// View of the client of a server in a test. Counts, and times between parts of answers, cover all
/// runs of the test; other times are those of the run that is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Client {
    /// of the test
    pub scenario: String,
    /// of the test: `accuracy`, `performance` or `peak`
    pub mode: String,
    /// requests written to a socket, including retries
    pub sent: u64,
    /// retried requests, by reason
    pub retries: BTreeMap<String, u64>,
    /// failed samples by kind
    pub troubles: BTreeMap<String, Trouble>,
    /// connections opened
    pub connects: u64,
    /// connections that the server closed, or that broke
    pub lost_connections: u64,
    /// samples that waited for a free connection or stream
    pub connection_waits: u64,
    /// their total wait
    pub waited_ns: u64,
    /// the longest wait
    pub longest_wait_ns: u64,
    /// of these, the samples that waited for a connection or a stream in use by another request
    #[serde(default)]
    pub queue_waits: u64,
    /// samples that waited because `max-concurrency` requests were in flight; their wait counts
    /// in their latency
    #[serde(default)]
    pub limit_waits: u64,
    /// their total wait
    #[serde(default)]
    pub limited_ns: u64,
    /// the longest wait
    #[serde(default)]
    pub longest_limited_ns: u64,
    /// how often a reading thread waited for the parsers
    #[serde(default)]
    pub parser_waits: u64,
    /// answers that were compressed although their request did not permit it; they are unpacked
    /// after their timestamp
    #[serde(default)]
    pub unrequested_compression: u64,
    /// bytes of requests, before encryption
    pub bytes_sent: u64,
    /// bytes of answers, after decryption
    pub bytes_received: u64,
    /// share of the time for which the client's threads computed, in [0, 1]
    pub busy: f64,
    /// time written to a socket - the scheduled time, or the end of a wait for `max-concurrency`,
    /// of all tenants' samples; null for an accuracy test, and if further runs of a repetition
    /// followed the one that is shown
    pub lateness_ns: Option<Distribution>,
    /// completion - issue, of answered samples: the latency that a closed-loop client would
    /// report; null for an accuracy test
    pub latency_from_issue_ns: Option<Distribution>,
    /// time between the parts with output of an answer; null if answers have no parts
    pub inter_token_ns: Option<Spans>,
    /// answers by the source of their output token count: `server` (usage), `tokenizer`, `events`
    /// (one for each part with output) or `nobody` (no count)
    pub tokens_counted_by: BTreeMap<String, u64>,
    /// workers that shared the load; the figures above cover all workers
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Worker>,
    /// maximum number of streams that the server permits on a connection of HTTP/2; null if it was not
    /// reached, or is not below `streams`
    #[serde(default)]
    pub stream_limit: Option<u64>,
    /// Streams on each connection of HTTP/2 by the settings; `None` over HTTP/1.1. Only advice depends on
    /// it, so that it is not in the file.
    #[serde(skip)]
    pub streams: Option<u64>,
    /// total time that requests waited for their retries, as the server asked (`Retry-After`) or by the
    /// client's own times; it counts in their latency
    #[serde(default)]
    pub retry_wait_ns: u64,
}

/// Samples that failed in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trouble {
    /// number of them
    pub samples: u64,
    /// message of the first one since the client started
    pub first: String,
}

/// Percentiles of spans, each at most 1/64 too high.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spans {
    /// number of them
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

/// The client's own queue limits the figures if it delays requests by more than this part of the
/// latency and by more than this many ns.
const QUEUE_SHARE: i64 = 20;
const LEAST_QUEUE_NS: i64 = 200_000;
/// Maximum share of time for which the client's threads may be busy.
const BUSY_BUDGET: f64 = 0.95;

/// Words of every reason about the client's connections and streams.
const WAITED: &str = " samples waited for a ";

impl Test {
    /// Moves the reason about the client's connections before those about its processors: waits for a
    /// connection are delays of the client, which no processor shortens.
    pub(super) fn begin_with_connections(&mut self) {
        let Some(at) = self.reason_of_connections() else { return };
        let reason = self.causes.remove(at);
        self.reasons.retain(|text| *text != reason.text);
        self.add_reason_after_failures(reason);
    }

    /// Returns the index of the cause about the client's connections.
    pub(super) fn reason_of_connections(&self) -> Option<usize> {
        let is_of_connections =
            |reason: &Reason| reason.kind == ReasonKind::ClientLag && reason.text.contains(WAITED);
        self.causes.iter().position(is_of_connections)
    }
}

/// Adds a reason by the client, or a note if the settings disable the judgment of the client.
fn charge(test: &mut Test, text: String) {
    if is_unjudged(test) {
        test.notes.push(unjudged_note(&text));
    } else {
        test.add_reason(Reason::new(ReasonKind::ClientLag, text).because_of(Cause::Client));
    }
}

impl Client {
    /// Adds reasons to a tenant's test if the client limited its figures, and derives its verdict.
    pub fn judge(&self, test: &mut Test) {
        if test.metrics.is_none() {
            return;
        }
        // The load generator already reports queries that were issued too late.
        let is_reported = |metrics: &Metrics| metrics.conditions.client_lag_met == Some(false);
        let is_judged =
            test.scenario == "Server" && !test.metrics.as_ref().is_some_and(is_reported);
        let budget = test.plan.max_client_lag_ns.filter(|_| is_judged);
        if let (Some(budget), Some(late)) = (budget, &self.lateness_ns)
            && u64::try_from(late.target).unwrap_or(0) > budget
        {
            let waits = match self.connection_waits {
                0 => "Run the client on a faster machine, or lower the rate.".to_owned(),
                waits => format!(
                    "{waits}{WAITED}free connection, at most {}. {}",
                    units::duration(self.longest_wait_ns.cast_signed()),
                    self.stream_remedy().unwrap_or("Raise connections=N, or use HTTP/2.".into())
                ),
            };
            let text = format!(
                "The client sent too late: at the target percentile a request was on the wire {} \
                 after it was due, more than the {} of max_client_lag_ns. {waits}",
                units::duration(late.target),
                units::bound(budget)
            );
            charge(test, text);
        } else if let Some(text) = self.own_queue(test) {
            charge(test, text);
        }
        if self.busy > BUSY_BUDGET {
            let text = format!(
                "The client's threads were busy for {:.0} % of the time, more than {:.0} %. The \
                 figures may reflect the client instead of the server. Raise threads=N, or use a \
                 faster machine.",
                100.0 * self.busy,
                100.0 * BUSY_BUDGET
            );
            charge(test, text);
        }
        if self.parser_waits > 0 {
            let text = format!(
                "The client parsed too slowly: {} times it stopped reading because too many bytes \
                 waited for the parser, so later answers have late timestamps. Run the client on \
                 a faster machine, or lower the load.",
                self.parser_waits
            );
            charge(test, text);
        }
        test.begin_with_connections();
        test.settle();
    }

    /// States that the client's `limit` of the requests in flight made the queue grow, if at least half of
    /// the requests waited for it.
    pub fn judge_limit(&self, test: &mut Test, limit: u64) {
        if self.limit_waits > 0 && self.limit_waits.saturating_mul(2) >= self.sent {
            test.charge_limit(limit);
        }
    }

    /// Returns the reason if the client's own queue limited the figures.
    fn own_queue(&self, test: &Test) -> Option<String> {
        let (late, metrics) = (self.lateness_ns.as_ref()?, test.metrics.as_ref()?);
        // Offline is excluded because all of its samples are due at once. Fewer waits than `least` do
        // not affect the target percentile.
        // The waits are those of all runs of a repetition, as the requests are.
        let requests = late.count.max(self.sent);
        let least = (1.0 - test.plan.percentile) * requests as f64;
        let has_queued = self.queue_waits > 0 && self.queue_waits as f64 >= least;
        let is_judged = has_queued && test.scenario != "Offline";
        let budget = LEAST_QUEUE_NS.max(metrics.latency_ns.target / QUEUE_SHARE);
        // Requests may be late for other reasons: no wait for a connection was longer than this.
        let longest = self.longest_wait_ns.cast_signed();
        let remedy = self.stream_remedy().unwrap_or_else(|| {
            "If connections=N is set, raise or remove it. Otherwise raise the limit on descriptors \
             (ulimit -n), use a faster machine for the client, or lower the rate."
                .into()
        });
        (is_judged && late.target.min(longest) > budget).then(|| {
            format!(
                "The client queued: {}{WAITED}busy connection, at most {}, and at \
                 the target percentile a request was on the wire {} after it was due. {remedy}",
                self.queue_waits,
                units::duration(self.longest_wait_ns.cast_signed()),
                units::duration(late.target),
            )
        })
    }

    /// Returns what helps if the load needs more streams than the server or the settings permit; `None`
    /// over HTTP/1.1.
    fn stream_remedy(&self) -> Option<String> {
        Some(match (self.stream_limit, self.streams?) {
            (Some(limit), _) => format!(
                "The server permits {} on a connection of HTTP/2. Raise connections=N, or the \
                 limit of the server.",
                units::counted(limit, "stream", "streams")
            ),
            (None, streams) => format!(
                "Requests have {streams} streams on a connection of HTTP/2. Raise streams=N or \
                 connections=N."
            ),
        })
    }

    /// Returns a sentence about the client.
    pub fn remark(&self) -> String {
        let mut text =
            format!("{} {}: client busy {:.0} %", self.scenario, self.mode, 100.0 * self.busy);
        if let Some(late) = &self.lateness_ns {
            text += &format!(", on the wire p99 {} after due", units::duration(late.p99));
        }
        if self.limit_waits > 0 {
            text += &format!(
                ", {} for max-concurrency, the longest {}",
                units::counted(self.limit_waits, "wait", "waits"),
                units::duration(self.longest_limited_ns.cast_signed())
            );
        }
        if self.connection_waits > 0 {
            let waits = units::counted(self.connection_waits, "wait", "waits");
            text += &format!(", {waits} for a connection");
        }
        if let (Some(limit), true) = (self.stream_limit, self.queue_waits > 0) {
            let streams = units::counted(limit, "stream", "streams");
            text += &format!(" (the server permits {streams} on each)");
        }
        if let Some(gaps) = &self.inter_token_ns {
            let show = |span: u64| units::duration(span.cast_signed());
            text += &format!(", inter-token p50 {}, p99 {}", show(gaps.p50), show(gaps.p99));
        }
        let by: Vec<&str> = self.tokens_counted_by.keys().map(String::as_str).collect();
        if by.iter().any(|by| *by != "nobody") {
            text += &format!(", tokens counted by {}", by.join(" and "));
        }
        let retries: u64 = self.retries.values().sum();
        if retries > 0 {
            text += &format!(", {} sent again", units::counted(retries, "request", "requests"));
        }
        if self.retry_wait_ns > 0 {
            let waited = units::duration(self.retry_wait_ns.cast_signed());
            text += &format!(" after waits of {waited} in all");
        }
        if self.unrequested_compression > 0 {
            let answers = units::counted(self.unrequested_compression, "answer", "answers");
            text += &format!(", {answers} compressed although the request did not ask");
        }
        for (kind, trouble) in &self.troubles {
            text += &format!("; {} failed ({kind}), the first: {}", trouble.samples, trouble.first);
        }
        text + "."
    }
}

/// One worker of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Worker {
    /// its number, from 1
    pub worker: u32,
    /// host and process
    pub name: String,
    /// queries issued in the last run
    pub queries: u64,
    /// requests written to its sockets; null without a server
    pub sent: Option<u64>,
    /// failed samples; null without a server
    pub failed: Option<u64>,
    /// share of the time for which the threads of its client computed, in [0, 1]; null without a
    /// server
    pub busy: Option<f64>,
    /// delay with which it issued scheduled queries; null without scheduled queries
    pub client_lag_ns: Option<Distribution>,
    /// time written to a socket - scheduled time; null without a server
    pub lateness_ns: Option<Distribution>,
    /// longest time in the run without a message from it
    pub longest_silence_ns: u64,
    /// delay of its start after the other workers
    pub began_late_ns: u64,
}
