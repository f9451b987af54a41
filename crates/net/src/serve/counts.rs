//! Metrics of a running server, and their page for Prometheus.
//!
//! Source: the text format of Prometheus, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A histogram with fixed bounds.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: Vec<f64>,
    /// One more than bounds: the last bucket counts values above all bounds.
    buckets: Vec<AtomicU64>,
    /// Sum of the values, multiplied by [`PER_ONE`].
    sum: AtomicU64,
}

/// Sums are integers in this fraction, so that threads can add to them atomically.
const PER_ONE: f64 = 1e9;

impl Histogram {
    /// Creates a histogram of times from 0.1 ms to a minute, in seconds.
    pub fn seconds() -> Self {
        Self::with_bounds(
            [
                0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
            ]
            .to_vec(),
        )
    }

    /// Creates a histogram of batch sizes up to this one.
    pub fn sizes(most: usize) -> Self {
        let powers = std::iter::successors(Some(1_usize), |size| size.checked_mul(2));
        let bounds = powers.take_while(|size| *size < most).chain([most.max(1)]);
        Self::with_bounds(bounds.map(|size| size as f64).collect())
    }

    fn with_bounds(bounds: Vec<f64>) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    pub fn add(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * PER_ONE).round() as u64, Ordering::Relaxed);
    }

    /// Writes the lines of the metric; `labels` are such as `protocol="oip"`.
    pub fn write(&self, name: &str, labels: &str, page: &mut String) {
        let mut count = 0;
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".into()]);
        for (bound, bucket) in bounds.zip(&self.buckets) {
            count += bucket.load(Ordering::Relaxed);
            let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let sum = self.sum.load(Ordering::Relaxed) as f64 / PER_ONE;
        let _ = writeln!(page, "{name}_sum{{{labels}}} {sum}");
        let _ = writeln!(page, "{name}_count{{{labels}}} {count}");
    }
}

dyno_loadgen::named_enum! {
    /// Protocols that metrics distinguish.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum ServedProtocol {
        OipHttp = "oip-http",
        OipGrpc = "oip-grpc",
        OpenAi = "openai",
        /// Health, metrics and unknown paths.
        Other = "other",
    }
}

/// All metrics of a server except those of its queues.
#[derive(Debug)]
pub(super) struct Counts {
    /// Number of requests by protocol and code.
    requests: Mutex<BTreeMap<(ServedProtocol, String), u64>>,
    durations: [Histogram; 4],
    pub received_bytes: AtomicU64,
    pub sent_bytes: AtomicU64,
    pub connections: AtomicU64,
    pub connections_refused: AtomicU64,
    pub tokens: AtomicU64,
}

impl Counts {
    pub fn new() -> Self {
        Self {
            requests: Mutex::default(),
            durations: std::array::from_fn(|_| Histogram::seconds()),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
        }
    }

    /// Counts a request and the time in seconds until its answer began.
    pub fn answered(&self, protocol: ServedProtocol, code: &str, seconds: f64) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        match requests.get_mut(&(protocol, code.to_owned())) {
            Some(count) => *count += 1,
            None => {
                requests.insert((protocol, code.to_owned()), 1);
            }
        }
        drop(requests);
        self.durations[protocol as usize].add(seconds);
    }

    pub fn write(&self, page: &mut String) {
        head(page, "dyno_requests_total", "counter", "Requests by protocol and code of the answer");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((protocol, code), count) in &*requests {
            let protocol = protocol.name();
            let _ = writeln!(
                page,
                "dyno_requests_total{{protocol=\"{protocol}\",code=\"{code}\"}} {count}"
            );
        }
        drop(requests);
        let name = "dyno_request_duration_seconds";
        head(page, name, "histogram", "Time from the request header to the response header");
        for protocol in ServedProtocol::ALL {
            let labels = format!("protocol=\"{}\"", protocol.name());
            self.durations[protocol as usize].write(name, &labels, page);
        }
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        for (name, kind, help, value) in [
            (
                "dyno_received_bytes_total",
                "counter",
                "Bytes of request bodies received",
                &self.received_bytes,
            ),
            ("dyno_sent_bytes_total", "counter", "Bytes of response bodies sent", &self.sent_bytes),
            ("dyno_connections", "gauge", "Open connections", &self.connections),
            (
                "dyno_connections_refused_total",
                "counter",
                "Connections rejected at the limit",
                &self.connections_refused,
            ),
            ("dyno_tokens_total", "counter", "Tokens sent", &self.tokens),
        ] {
            single(page, name, kind, help, load(value));
        }
    }
}

/// Writes the description of a metric.
pub(super) fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

/// Writes a metric with one value.
pub(super) fn single(page: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    head(page, name, kind, help);
    let _ = writeln!(page, "{name} {value}");
}

/// Escapes the value of a label.
pub(super) fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_their_bounds_belong_to_them() {
        let spread = Histogram::sizes(5);
        for size in [1.0, 2.0, 2.0, 5.0, 9.0] {
            spread.add(size);
        }
        let mut page = String::new();
        spread.write("batch", "model=\"m\"", &mut page);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            lines,
            [
                "batch_bucket{model=\"m\",le=\"1\"} 1",
                "batch_bucket{model=\"m\",le=\"2\"} 3",
                "batch_bucket{model=\"m\",le=\"4\"} 3",
                "batch_bucket{model=\"m\",le=\"5\"} 4",
                "batch_bucket{model=\"m\",le=\"+Inf\"} 5",
                "batch_sum{model=\"m\"} 19",
                "batch_count{model=\"m\"} 5",
            ]
        );
    }
}
