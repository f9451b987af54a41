//! What the records of aiperf state about its own client: waits before sending, new connections,
//! times since sending, and token counts.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{Metadata, RECORDS, Record, SUMMARY, malformed, unit};
use crate::foreign::{ForeignError, text};

/// Sums over the measured requests of a run of aiperf that were answered.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClientTimes {
    /// Answered requests.
    pub requests: u64,
    /// Those that opened a connection.
    pub new_connections: u64,
    /// Sum of the times for opening connections, ns. They are part of the times since sending.
    pub connecting_ns: f64,
    /// Sum of the times from the release of a request to its sending, ns.
    pub waiting_ns: f64,
    /// Requests with a time of the first token.
    pub first_tokens: u64,
    /// Sum of the times from sending to the first token, ns.
    pub first_token_ns: f64,
    /// Sum of the times from sending to the end of the answer, ns.
    pub latency_ns: f64,
    /// Time from the first release to the last end, ns.
    pub span_ns: f64,
    /// Requests with a count of input tokens by the server, and the sum of the counts.
    pub input_tokens: (u64, f64),
    /// Requests with a count of output tokens, and the sum of the counts.
    pub output_tokens: (u64, f64),
    /// Whether it counted output tokens with the server's usage, and not with a tokenizer.
    pub counts_by_server: bool,
}

impl ClientTimes {
    /// Reads the records in a folder of aiperf.
    ///
    /// # Errors
    /// If the records are missing or damaged.
    pub fn read(folder: &Path) -> Result<Self, ForeignError> {
        let path = folder.join(RECORDS);
        let (mut times, mut first, mut last) = (Self::default(), i64::MAX, i64::MIN);
        for (number, line) in (1..).zip(text(&path)?.lines()) {
            let bad = |reason: String| malformed(&path, format!("record {number}: {reason}"));
            let record: Record =
                serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            let Metadata { credit_issued_ns, request_start_ns, request_end_ns, .. } =
                record.metadata;
            if !record.metadata.is_measured() || record.error.is_some() {
                continue;
            }
            let released = credit_issued_ns.unwrap_or(request_start_ns).min(request_start_ns);
            (first, last) = (first.min(released), last.max(request_end_ns));
            times.waiting_ns += (request_start_ns - released) as f64;
            times.add(&record).map_err(bad)?;
        }
        times.span_ns = last.saturating_sub(first).max(0) as f64;
        times.counts_by_server = counts_by_server(folder);
        Ok(times)
    }

    fn add(&mut self, record: &Record) -> Result<(), String> {
        let time = |key: &str| -> Result<Option<f64>, String> {
            let Some(metric) = record.metrics.get(key) else { return Ok(None) };
            let unit = unit(metric)
                .ok_or_else(|| format!("`metrics.{key}.unit` is not a unit of time"))?;
            Ok(metric["value"].as_f64().map(|value| value * unit))
        };
        let number = |key: &str| record.metrics.get(key).and_then(|one| one["value"].as_f64());
        let Metadata { request_start_ns, request_end_ns, .. } = record.metadata;
        self.requests += 1;
        let whole = (request_end_ns - request_start_ns) as f64;
        self.latency_ns += time("request_latency")?.unwrap_or(whole);
        if let Some(first) = time("time_to_first_token")? {
            self.first_tokens += 1;
            self.first_token_ns += first;
        }
        if number("http_req_connection_reused") == Some(0.0) {
            self.new_connections += 1;
            self.connecting_ns += time("http_req_connecting")?.unwrap_or(0.0);
        }
        let count = |sum: &mut (u64, f64), key: &str| {
            if let Some(tokens) = number(key) {
                *sum = (sum.0 + 1, sum.1 + tokens);
            }
        };
        count(&mut self.input_tokens, "usage_prompt_tokens");
        count(&mut self.output_tokens, "output_sequence_length");
        Ok(())
    }

    /// Returns the sums over several runs.
    pub fn sum(runs: &[Self]) -> Self {
        let mut all = Self { counts_by_server: true, ..Self::default() };
        for run in runs {
            all.requests += run.requests;
            all.new_connections += run.new_connections;
            all.connecting_ns += run.connecting_ns;
            all.waiting_ns += run.waiting_ns;
            all.first_tokens += run.first_tokens;
            all.first_token_ns += run.first_token_ns;
            all.latency_ns += run.latency_ns;
            all.span_ns += run.span_ns;
            for (sum, of) in [
                (&mut all.input_tokens, run.input_tokens),
                (&mut all.output_tokens, run.output_tokens),
            ] {
                *sum = (sum.0 + of.0, sum.1 + of.1);
            }
            all.counts_by_server &= run.counts_by_server;
        }
        all
    }
}

/// Returns whether the settings in the file with the figures demand the server's counts.
fn counts_by_server(folder: &Path) -> bool {
    let summary: Option<Value> =
        text(&folder.join(SUMMARY)).ok().and_then(|text| serde_json::from_str(&text).ok());
    summary.is_some_and(|all| all["input_config"]["endpoint"]["use_server_token_count"] == true)
}

/// Returns the version in the file with the figures; empty if there is none.
pub fn version(folder: &Path) -> String {
    #[derive(Deserialize)]
    struct Figures {
        #[serde(default)]
        aiperf_version: String,
    }
    let text = text(&folder.join(SUMMARY)).unwrap_or_default();
    serde_json::from_str(&text)
        .map_or_else(|_| String::new(), |figures: Figures| figures.aiperf_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request: released at 1.000 s, sent 4 ms later over a new connection, which took 3 ms.
    const FIRST: &str = r#"{"metadata":{"credit_issued_ns":1000000000,"request_start_ns":1004000000,"request_end_ns":1104000000,"benchmark_phase":"profiling","was_cancelled":false},"metrics":{"request_latency":{"value":100.0,"unit":"ms"},"time_to_first_token":{"value":25.0,"unit":"ms"},"http_req_connection_reused":{"value":0,"unit":"ratio"},"http_req_connecting":{"value":3.0,"unit":"ms"},"usage_prompt_tokens":{"value":7,"unit":"tokens"},"output_sequence_length":{"value":16,"unit":"tokens"}}}"#;
    /// Another one on the same connection, of which the tokens are not counted.
    const SECOND: &str = r#"{"metadata":{"credit_issued_ns":1104000000,"request_start_ns":1106000000,"request_end_ns":1200000000,"benchmark_phase":"profiling","was_cancelled":false},"metrics":{"request_latency":{"value":0.094,"unit":"s"},"time_to_first_token":{"value":21.0,"unit":"ms"},"http_req_connection_reused":{"value":1,"unit":"ratio"}}}"#;

    #[test]
    fn times_are_those_of_measured_answers() {
        let folder = tempfile::tempdir().unwrap();
        let warm_up = FIRST.replace("profiling", "warmup");
        let failed = SECOND.replace("\"metrics\"", "\"error\":{\"code\":500},\"metrics\"");
        let records = [&*warm_up, FIRST, SECOND, &*failed].join("\n");
        std::fs::write(folder.path().join(RECORDS), records).unwrap();
        let figures = r#"{"aiperf_version":"0.13.0","input_config":{"endpoint":{"use_server_token_count":true}}}"#;
        std::fs::write(folder.path().join(SUMMARY), figures).unwrap();
        let expected = ClientTimes {
            requests: 2,
            new_connections: 1,
            connecting_ns: 3e6,
            waiting_ns: 6e6,
            first_tokens: 2,
            first_token_ns: 46e6,
            latency_ns: 194e6,
            span_ns: 200e6,
            input_tokens: (1, 7.0),
            output_tokens: (1, 16.0),
            counts_by_server: true,
        };
        assert_eq!(ClientTimes::read(folder.path()), Ok(expected));
        assert_eq!(version(folder.path()), "0.13.0");
        let both = ClientTimes::sum(&[expected, expected]);
        assert_eq!((both.requests, both.span_ns, both.output_tokens), (4, 400e6, (2, 32.0)));
    }

    #[test]
    fn damaged_records_are_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(RECORDS), format!("{FIRST}\n{{}}\n")).unwrap();
        let error = ClientTimes::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("record 2: missing field `metadata`"), "{error}");
    }
}
