//! Results of `vllm bench serve --save-result`: one object with all figures; with `--save-detailed`
//! also arrays with an entry per request. Times are seconds in arrays and ms in figures.
//! `--append-result` writes one object per line, and `vllm bench sweep serve` a list of objects.
//!
//! SGLang's `bench_serving` is of the same origin: its `--output-file` has an object per line with most
//! of these keys, and with `--output-details` the arrays.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::requests::{Request, records};
use super::{Figures, ForeignError, ForeignResult, MILLISECOND, SECOND, Test, Tool, ns};
use crate::summary::{Data, Plan};
use crate::units::counted;

#[derive(Debug, Deserialize)]
struct SavedResult {
    #[serde(default)]
    model_id: String,
    /// Requests/s; the text `inf` means all at once.
    request_rate: Option<Value>,
    /// Shape of the gamma distribution between requests; 1 is Poisson.
    burstiness: Option<f64>,
    /// Ramp between two rates: `linear` or `exponential`.
    ramp_up_strategy: Option<String>,
    ramp_up_start_rps: Option<f64>,
    ramp_up_end_rps: Option<f64>,
    max_concurrency: Option<u64>,
    /// Requests to send, answered or not.
    num_prompts: Option<u64>,
    completed: u64,
    failed: Option<u64>,
    request_throughput: f64,
    /// Latency of each request, in the order of sending.
    latencies: Option<Vec<f64>>,
    ttfts: Option<Vec<f64>>,
    itls: Option<Vec<Vec<f64>>>,
    output_lens: Option<Vec<i64>>,
    errors: Option<Vec<String>>,
    start_times: Option<Vec<f64>>,
    queue_times: Option<Vec<f64>>,
}

/// Returns whether a value is a result of vLLM.
pub fn is(value: &Value) -> bool {
    value["request_throughput"].is_number()
        && value["completed"].is_number()
        && value["duration"].is_number()
}

/// Returns the tool that wrote a result.
pub fn tool(value: &Value) -> Tool {
    if value["mean_e2e_latency_ms"].is_number() { Tool::Sglang } else { Tool::Vllm }
}

/// Reads each object as a test.
pub fn read(path: &Path, values: &[Value]) -> Result<ForeignResult, ForeignError> {
    let tool = values.first().map_or(Tool::Vllm, tool);
    let malformed = |reason: String| ForeignError::Malformed { path: path.into(), tool, reason };
    let test = |value: &Value| {
        let saved =
            SavedResult::deserialize(value).map_err(|error| malformed(error.to_string()))?;
        test(&saved, value).map_err(malformed)
    };
    let mut tests = values.iter().map(test).collect::<Result<Vec<_>, _>>()?;
    let labels = || values.iter().map(|value| value["label"].as_str().unwrap_or_default());
    // Without `--label`, every result has the name of the backend.
    if labels().any(|label| labels().next() != Some(label)) {
        for (test, label) in tests.iter_mut().zip(labels()).filter(|(_, label)| !label.is_empty()) {
            test.title += &format!(", {label}");
        }
    }
    Ok(ForeignResult { tool, version: String::new(), tests })
}

fn test(saved: &SavedResult, value: &Value) -> Result<Test, String> {
    // Requests that are sent all at once have no rate.
    let rate = saved.request_rate.as_ref().and_then(Value::as_f64).filter(|rate| rate.is_finite());
    let (title, scenario) = match (ramp(saved), rate, saved.max_concurrency) {
        (Some(ramp), ..) => (ramp, "Server"),
        (None, Some(rate), _) => (format!("{rate} requests/s"), "Server"),
        (None, None, Some(1)) => ("one at a time".into(), "SingleStream"),
        (None, None, Some(most)) => (format!("{most} at a time"), "Server"),
        (None, None, None) => ("all at once".into(), "Offline"),
    };
    let requests = requests(saved)?;
    let mut remarks = vec![
        match (&requests, &saved.queue_times) {
            (Some(_), Some(_)) => {
                "raw latencies count from when the client began the request, but its figures \
                 count from when it was sent, which hides delays of the client"
            }
            _ => "latency counts from when the request was sent and excludes time in the client",
        }
        .to_string(),
    ];
    if let Some(requests) = &requests {
        remarks.extend(contradiction(saved, requests)?);
    }
    remarks.extend(ramp(saved).map(|ramp| format!("its rate is not constant: {ramp}")));
    Ok(Test {
        title,
        scenario: scenario.into(),
        system: saved.model_id.clone(),
        data: Data::default(),
        plan: Plan {
            target_qps: rate.unwrap_or(0.0),
            arrivals: (scenario == "Server").then(|| arrivals(saved, rate)),
            samples_per_query: 1,
            percentile: 0.99,
            ..Plan::default()
        },
        figures: figures(saved, value),
        has_times: saved.start_times.is_some(),
        records: requests.and_then(records),
        invalid: None,
        remarks,
    })
}

/// Returns a remark if more requests have no answer than the file states.
///
/// # Errors
/// The arrays have fewer failures, or fewer requests, than the file states: failures would be hidden.
fn contradiction(saved: &SavedResult, requests: &[Request]) -> Result<Option<String>, String> {
    let count = requests.len() as u64;
    let answered = requests.iter().filter(|request| request.completed.is_some()).count() as u64;
    let failed = count - answered;
    let StatedRequests { all, failed: stated } = StatedRequests::new(saved);
    if all > count {
        return Err(format!(
            "it states {all} requests, but its arrays have {count}, so {} have no result; a file of \
             --no-oversample has to state the number of requests that were sent in `num_prompts`",
            all - count
        ));
    }
    if stated > failed {
        let found = counted(failed, "request of its arrays has", "requests of its arrays have");
        return Err(format!("it states {stated} failed requests, but {found} no answer"));
    }
    let is_more = saved.failed.is_some() && stated < failed;
    Ok(is_more.then(|| {
        let found = counted(failed, "request of the file has", "requests of the file have");
        format!("it states {stated} failed requests, but {found} no answer")
    }))
}

/// What a file states about its requests.
struct StatedRequests {
    /// Requests that were sent or were to be sent.
    all: u64,
    /// Those of them without an answer.
    failed: u64,
}

impl StatedRequests {
    fn new(saved: &SavedResult) -> Self {
        let sent = saved.completed.saturating_add(saved.failed.unwrap_or(0));
        let all = sent.max(saved.num_prompts.unwrap_or(0));
        Self { all, failed: all - saved.completed }
    }
}

/// Returns the arrival process, in the grammar of `server_arrivals` where that can express it.
fn arrivals(saved: &SavedResult, rate: Option<f64>) -> String {
    let process = match saved.burstiness {
        Some(shape) if shape != 1.0 => format!("gamma:{shape}"),
        _ => "poisson".into(),
    };
    let ramp = ramp(saved);
    match saved.max_concurrency {
        Some(most) if rate.is_none() && ramp.is_none() => format!("concurrency:{most}"),
        most => {
            let ramp = ramp.map(|ramp| format!(", {ramp}")).unwrap_or_default();
            let most = most.map(|most| format!(", at most {most} at a time")).unwrap_or_default();
            format!("{process}{ramp}{most}")
        }
    }
}

/// Returns a description of a ramp of the rate, which no setting of Dyno expresses; `None` without
/// one.
fn ramp(saved: &SavedResult) -> Option<String> {
    let strategy = saved.ramp_up_strategy.as_ref()?;
    let rate = |rate: Option<f64>| rate.map_or("?".into(), |rate| rate.to_string());
    let (from, to) = (rate(saved.ramp_up_start_rps), rate(saved.ramp_up_end_rps));
    Some(format!("{from} to {to} requests/s, {strategy}"))
}

/// Names of times in vLLM and SGLang, and our prefixes.
const TIMES: [(&str, &str); 4] =
    [("e2el", ""), ("e2e_latency", ""), ("ttft", "ttft-"), ("tpot", "tpot-")];

fn figures(saved: &SavedResult, value: &Value) -> Figures {
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
    if saved.failed.is_some() || saved.num_prompts.is_some() {
        let StatedRequests { all, failed } = StatedRequests::new(saved);
        figures.insert("failures".into(), failed as f64 / all.max(1) as f64);
    }
    figures
}

/// Returns the requests; `None` if the file has none.
///
/// # Errors
/// If the arrays have different lengths or invalid times.
fn requests(saved: &SavedResult) -> Result<Option<Vec<Request>>, String> {
    let (whose, count) = match (&saved.latencies, &saved.ttfts) {
        (Some(latencies), _) => ("latencies", latencies.len()),
        (None, Some(ttfts)) => ("ttfts", ttfts.len()),
        (None, None) => return Ok(None),
    };
    let of_length = |key: &str, found: Option<usize>| match found {
        Some(found) if found != count => {
            Err(format!("`{key}` has {found} entries, but `{whose}` has {count}"))
        }
        _ => Ok(()),
    };
    of_length("ttfts", saved.ttfts.as_ref().map(Vec::len))?;
    of_length("itls", saved.itls.as_ref().map(Vec::len))?;
    of_length("output_lens", saved.output_lens.as_ref().map(Vec::len))?;
    of_length("errors", saved.errors.as_ref().map(Vec::len))?;
    of_length("start_times", saved.start_times.as_ref().map(Vec::len))?;
    of_length("queue_times", saved.queue_times.as_ref().map(Vec::len))?;
    (0..count).map(|row| request(saved, row)).collect::<Result<Vec<_>, _>>().map(Some)
}

fn request(saved: &SavedResult, row: usize) -> Result<Request, String> {
    let at = |column: &Option<Vec<f64>>| column.as_ref().map(|column| column[row]);
    let ns =
        |key: &str, time: f64| ns(time, SECOND).map_err(|bad| format!("`{key}[{row}]`: {bad}"));
    let ttft = at(&saved.ttfts);
    let gaps = saved.itls.as_ref().map(|itls| itls[row].iter().sum::<f64>());
    let together = ttft.zip(gaps).map(|(ttft, gaps)| ttft + gaps);
    let took = at(&saved.latencies).or(together);
    let took = took.ok_or("neither `latencies` nor `itls` is there")?;
    let tokens = saved.output_lens.as_ref().map(|lens| lens[row]);
    // The error text of a refused request may be empty. A request without duration, or with neither
    // output tokens nor a first token, was not answered either.
    let has_error = saved.errors.as_ref().is_some_and(|errors| !errors[row].is_empty());
    let is_empty = tokens == Some(0) && ttft.is_none_or(|ttft| ttft == 0.0);
    let is_answered = !(has_error || is_empty || took == 0.0);
    let waited = ns("queue_times", at(&saved.queue_times).unwrap_or(0.0).max(0.0))?;
    // Without start times, all requests start at 0.
    let sent = at(&saved.start_times).map(|sent| ns("start_times", sent)).transpose()?;
    let issued = sent.unwrap_or(waited);
    let completed = issued.saturating_add(ns("latencies", took)?);
    let first = ttft.filter(|&ttft| ttft != 0.0).map(|ttft| ns("ttfts", ttft)).transpose()?;
    Ok(Request {
        scheduled: issued.saturating_sub(waited),
        issued,
        completed: is_answered.then_some(completed),
        first_token: first.filter(|_| is_answered).map(|first| issued.saturating_add(first)),
        tokens,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As `bench_serving.py` of SGLang writes it; a failure in the middle.
    fn sglang() -> Value {
        json!({"backend": "sglang", "dataset_name": "random", "request_rate": 4.0,
            "max_concurrency": null, "duration": 1.5, "completed": 2, "total_input_tokens": 6,
            "request_throughput": 1.25, "mean_e2e_latency_ms": 55.0,
            "median_e2e_latency_ms": 55.5, "p99_e2e_latency_ms": 70.0, "p99_ttft_ms": 20.0,
            "mean_tpot_ms": 12.0, "input_lens": [3, 3, 3], "output_lens": [3, 0, 2],
            "ttfts": [0.010, 0.0, 0.020], "itls": [[0.020, 0.010], [], [0.050]],
            "generated_texts": ["a", "", "b"], "errors": ["", "503", ""]})
    }

    #[test]
    fn results_of_sglang_have_their_latencies() {
        let result = read(Path::new("x.jsonl"), &[sglang()]).unwrap();
        let test = &result.tests[0];
        assert_eq!((result.tool.name(), &*test.title), ("SGLang", "4 requests/s"));
        let figure = |key: &str| test.figures.get(key).copied();
        assert_eq!((figure("mean"), figure("p50")), (Some(55e6), Some(55.5e6)));
        assert_eq!((figure("p99"), figure("ttft-p99")), (Some(70e6), Some(20e6)));
        assert!(test.records.is_some() && !test.has_times);
        let mut wrong = sglang();
        wrong["ttfts"] = json!([0.01]);
        let error = read(Path::new("x.jsonl"), &[wrong]).unwrap_err().to_string();
        assert!(error.contains("not as SGLang writes it"), "{error}");
    }
}
