//! Client-side observations within the section of a test: whether the client limited the result,
//! and how evenly tokens arrived.

use std::fmt::Write as _;

use dyno_results::series;
use dyno_results::summary::client::Spans;
use dyno_results::summary::{Client, Test, metrics};
use dyno_results::units::{self, count};

use super::charts::{self, Threshold};
use super::plot;
use super::words::{self, counted, escaped};

/// Appends the client of a test; nothing if the test has no client.
pub fn section(html: &mut String, test: &Test, series: Option<&series::Test>, all: &[Client]) {
    let of_test = |client: &&Client| client.scenario == test.scenario && client.mode == test.mode;
    let Some(client) = all.iter().find(of_test) else { return };
    html.push_str("<h3>The client</h3><dl class=\"pairs\">");
    for (name, value) in rows(client) {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    }
    html.push_str("</dl>");
    for (kind, trouble) in &client.troubles {
        let failed = counted(trouble.samples, "sample", "samples");
        let _ = write!(
            html,
            "<p class=\"reason\">{failed} failed ({}), the first: {}</p>",
            escaped(kind),
            escaped(&trouble.first)
        );
    }
    let figures =
        [latency(client, test), client.inter_token_ns.as_ref().map(|s| tokens(s, test, series))];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    if !figures.is_empty() {
        let _ = write!(html, "<div class=\"charts\">{}</div>", figures.concat());
    }
}

fn rows(client: &Client) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("requests", count(client.sent)),
        ("sent again", count(client.retries.values().sum())),
        ("connections made", count(client.connects)),
        ("connections lost", count(client.lost_connections)),
        ("waits for a connection", count(client.connection_waits)),
    ];
    if client.retry_wait_ns > 0 {
        rows.push(("waits for Retry-After and the like", words::span_ns(client.retry_wait_ns)));
    }
    if client.connection_waits > 0 {
        rows.push(("longest wait", words::span_ns(client.longest_wait_ns)));
    }
    rows.extend(client.stream_limit.map(|limit| ("streams that the server permits", count(limit))));
    if client.limit_waits > 0 {
        rows.push(("waits for max-concurrency", count(client.limit_waits)));
        rows.push(("longest wait for it", words::span_ns(client.longest_limited_ns)));
    }
    rows.push(("sent", units::bytes(client.bytes_sent)));
    rows.push(("received", units::bytes(client.bytes_received)));
    rows.push(("threads busy", words::share(client.busy)));
    let late = client.lateness_ns.as_ref();
    rows.extend(late.map(|late| ("on the wire after due time, p99", words::time_ns(late.p99))));
    let by = &client.tokens_counted_by;
    let counted = by.iter().filter(|(who, _)| *who != "nobody");
    let counted: Vec<String> = counted.map(|(who, n)| format!("{who} ({})", count(*n))).collect();
    if !counted.is_empty() {
        rows.push(("tokens counted by", counted.join(", ")));
    }
    rows
}

/// Returns a chart of the latency from the issue of requests, which a closed-loop client would
/// report, and of the client's lateness.
fn latency(client: &Client, test: &Test) -> Option<String> {
    let of = |of: &metrics::Distribution| {
        let at = [(0.5, of.p50), (0.9, of.p90), (0.95, of.p95), (0.97, of.p97), (0.99, of.p99)];
        let more = [(0.999, of.p99_9), (1.0, of.max)];
        at.into_iter().chain(more).map(|(q, time)| (q, time as f64)).collect()
    };
    let issue = client.latency_from_issue_ns.as_ref()?;
    let late = client.lateness_ns.as_ref()?;
    let chart = charts::by_percentile(
        "Latency since requests were sent",
        "time, logarithmic",
        &[("since it was sent", of(issue)), ("sent after the due time", of(late))],
        None,
    );
    Some(plot::figure(&chart.note(since_sent(test))))
}

/// Returns the note of the latency since requests were sent. In a closed loop it is that of the run.
fn since_sent(test: &Test) -> &'static str {
    let arrivals = test.plan.arrivals.as_deref().unwrap_or_default();
    if arrivals.starts_with("concurrency") {
        return "Latency counts from the due time.";
    }
    "Latency counts from the due time. A closed-loop client would only see the time since the \
     request was sent."
}

fn tokens(spans: &Spans, test: &Test, series: Option<&series::Test>) -> String {
    let at = [(0.5, spans.p50), (0.9, spans.p90), (0.95, spans.p95), (0.99, spans.p99)];
    let at = at.into_iter().chain([(0.999, spans.p99_9), (1.0, spans.max)]);
    let mut lines = vec![("between two parts", at.map(|(q, span)| (q, span as f64)).collect())];
    let mean = series.map(|of| &of.time_per_output_token.spectrum).filter(|of| !of.is_empty());
    if let Some(mean) = mean {
        let mean = mean.iter().filter(|(q, _)| *q >= 0.5).map(|&(q, time)| (q, time as f64));
        lines.push(("per token, mean of an answer", mean.collect()));
    }
    let bound = test.plan.time_per_output_token_bound_ns.map(|bound| bound as f64);
    let chart = charts::by_percentile("Inter-token latency", "time, logarithmic", &lines, bound);
    let chart = Threshold::per_token(test).mark(chart);
    plot::figure(&chart.note(
        "Time between parts of answers with output. If it is far above the mean, tokens arrive in \
         bursts.",
    ))
}
