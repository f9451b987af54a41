//! What `vllm bench serve --save-result` writes: one object with all figures;
//! with `--save-detailed` also arrays with an entry a request. Times are seconds
//! in arrays and ms in figures. `--append-result` puts one object a line.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::requests::{Request, records};
use super::{Figures, Foreign, ForeignError, MILLISECOND, SECOND, Test, Tool, ns};
use crate::summary::{Data, Plan};

#[derive(Debug, Deserialize)]
struct Saved {
    #[serde(default)]
    model_id: String,
    /// Requests/s; the text `inf` sends all at once.
    request_rate: Option<Value>,
    max_concurrency: Option<u64>,
    completed: u64,
    failed: Option<u64>,
    request_throughput: f64,
    /// Entry a request, in the order in which they were sent.
    latencies: Option<Vec<f64>>,
    ttfts: Option<Vec<f64>>,
    itls: Option<Vec<Vec<f64>>>,
    output_lens: Option<Vec<i64>>,
    errors: Option<Vec<String>>,
    start_times: Option<Vec<f64>>,
    queue_times: Option<Vec<f64>>,
}

/// Whether this is one.
pub fn is(value: &Value) -> bool {
    value["request_throughput"].is_number()
        && value["completed"].is_number()
        && value["duration"].is_number()
}

/// Reads each object as a test.
pub fn read(path: &Path, values: &[Value]) -> Result<Foreign, ForeignError> {
    let malformed =
        |reason: String| ForeignError::Malformed { path: path.into(), tool: Tool::Vllm, reason };
    let test = |value: &Value| {
        let saved = Saved::deserialize(value).map_err(|error| malformed(error.to_string()))?;
        test(&saved, value).map_err(malformed)
    };
    let tests = values.iter().map(test).collect::<Result<_, _>>()?;
    Ok(Foreign { tool: Tool::Vllm, version: String::new(), tests })
}

fn test(saved: &Saved, value: &Value) -> Result<Test, String> {
    // Everything at once has no rate.
    let rate = saved.request_rate.as_ref().and_then(Value::as_f64).filter(|rate| rate.is_finite());
    let (title, scenario) = match (rate, saved.max_concurrency) {
        (Some(rate), _) => (format!("{rate} requests/s"), "Server"),
        (None, Some(1)) => ("one at a time".into(), "SingleStream"),
        (None, Some(most)) => (format!("{most} at a time"), "Server"),
        (None, None) => ("all at once".into(), "Offline"),
    };
    let requests = requests(saved)?;
    let remark = match (&requests, &saved.queue_times) {
        (_, Some(_)) => {
            "latency counts from when the client took the request up: a client that is late hides it"
        }
        _ => {
            "latency counts from when the request was sent: time spent waiting in the client is not \
             in it"
        }
    };
    let arrivals = if saved.max_concurrency.is_some() { "concurrency" } else { "poisson" };
    Ok(Test {
        title,
        scenario: scenario.into(),
        system: saved.model_id.clone(),
        data: Data::default(),
        plan: Plan {
            target_qps: rate.unwrap_or(0.0),
            arrivals: (scenario == "Server").then(|| arrivals.into()),
            samples_per_query: 1,
            percentile: 0.99,
            ..Plan::default()
        },
        figures: figures(saved, value),
        has_times: saved.start_times.is_some(),
        records: requests.and_then(records),
        remarks: vec![remark.into()],
    })
}

/// Names of theirs beside ours.
const TIMES: [(&str, &str); 3] = [("e2el", ""), ("ttft", "ttft-"), ("tpot", "tpot-")];

fn figures(saved: &Saved, value: &Value) -> Figures {
    let mut figures = Figures::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        // Such as `p99_ttft_ms`.
        let parts = key.strip_suffix("_ms").and_then(|key| key.split_once('_'));
        let (Some((what, of)), Some(value)) = (parts, value.as_f64()) else { continue };
        let Some((_, ours)) = TIMES.iter().find(|(theirs, _)| *theirs == of) else { continue };
        let what = if what == "median" { "p50" } else { what };
        figures.insert(format!("{ours}{what}"), value * MILLISECOND);
    }
    figures.insert("throughput".into(), saved.request_throughput);
    if let Some(failed) = saved.failed {
        let all = (saved.completed + failed).max(1) as f64;
        figures.insert("failures".into(), failed as f64 / all);
    }
    figures
}

/// The requests, if they are in the file.
fn requests(saved: &Saved) -> Result<Option<Vec<Request>>, String> {
    let Some(ttfts) = &saved.ttfts else { return Ok(None) };
    let count = ttfts.len();
    let of_length = |key: &str, found: Option<usize>| match found {
        Some(found) if found != count => {
            Err(format!("`{key}` has {found} entries, but `ttfts` has {count}"))
        }
        _ => Ok(()),
    };
    of_length("latencies", saved.latencies.as_ref().map(Vec::len))?;
    of_length("itls", saved.itls.as_ref().map(Vec::len))?;
    of_length("output_lens", saved.output_lens.as_ref().map(Vec::len))?;
    of_length("errors", saved.errors.as_ref().map(Vec::len))?;
    of_length("start_times", saved.start_times.as_ref().map(Vec::len))?;
    of_length("queue_times", saved.queue_times.as_ref().map(Vec::len))?;
    let at = |column: &Option<Vec<f64>>, at: usize| column.as_ref().map(|column| column[at]);
    let request = |row: usize| {
        let issued = at(&saved.start_times, row).unwrap_or(0.0);
        let tokens = saved.output_lens.as_ref().map(|lens| lens[row]);
        let gaps = saved.itls.as_ref().map(|itls| itls[row].iter().sum::<f64>());
        let took = at(&saved.latencies, row).or(gaps.map(|gaps| ttfts[row] + gaps));
        // Older versions tell a failure by the lack of tokens alone.
        let is_failed = match &saved.errors {
            Some(errors) => !errors[row].is_empty(),
            None => tokens == Some(0),
        };
        let took = took.ok_or("neither `latencies` nor `itls` is there")?;
        let issued = ns(issued, SECOND);
        let waited = ns(at(&saved.queue_times, row).unwrap_or(0.0).max(0.0), SECOND);
        let after = |time: f64| issued.saturating_add(ns(time, SECOND));
        Ok(Request {
            scheduled: issued.saturating_sub(waited),
            issued,
            completed: (!is_failed).then(|| after(took)),
            first_token: (!is_failed && ttfts[row] > 0.0).then(|| after(ttfts[row])),
            tokens,
        })
    };
    (0..count).map(request).collect::<Result<Vec<_>, _>>().map(Some)
}
