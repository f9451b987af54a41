//! Answers of a text server and their tokens, within the section of a test.

use std::fmt::Write as _;

use dyno_results::summary::Metrics;
use dyno_results::summary::answers::Tokens;
use dyno_results::summary::metrics::Distribution;
use dyno_results::summary::sessions::TurnFigures;
use dyno_results::summary::window::Window;
use dyno_results::units::{self, count};

use super::{page, words};

/// Returns names and values; empty for a test whose answers are not text.
pub fn facts(metrics: &Metrics) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(answers) = &metrics.answers {
        rows.push(("answers", answers.list()));
        if !answers.accepted.is_empty() {
            rows.push(("also accepted", answers.accepted.join(", ")));
        }
        let end = answers.end_of_stream_ns.filter(|end| end.count > 0);
        rows.extend(end.map(|end| ("end of stream, p50", words::time_ns(end.p50))));
        let ends = answers.finish_reasons.iter().map(|(why, n)| format!("{why} ({})", count(*n)));
        rows.push(("finish reasons", ends.collect::<Vec<_>>().join(", ")));
        let odd = answers.oddities.iter().map(|(name, n)| format!("{name} ({})", count(*n)));
        let odd: Vec<String> = odd.collect();
        if !odd.is_empty() {
            rows.push(("peculiarities of the server", odd.join(", ")));
        }
    }
    rows.extend(metrics.tokens.iter().flat_map(of_tokens));
    if let Some(sessions) = &metrics.sessions {
        rows.extend(sessions.lines().into_iter().map(|line| ("sessions", line)));
    }
    rows
}

/// Returns the figures by turn as a table in HTML; empty unless queries are turns of sessions.
pub fn turns(metrics: &Metrics) -> String {
    let Some(sessions) = &metrics.sessions else { return String::new() };
    let heads = [
        "turn",
        "issued",
        "answered",
        "input tokens",
        "TTFT p50",
        "TTFT p90",
        "TTFT p99",
        "latency p50",
        "latency p90",
        "latency p99",
    ];
    let times = |times: &Option<Distribution>| match times {
        Some(of) => [(50.0, of.p50), (90.0, of.p90), (99.0, of.p99)]
            .map(|(at, time)| page::percentile(time as f64, of.count, at)),
        None => ["–"; 3].map(str::to_owned),
    };
    let row = |of: &TurnFigures| -> Vec<String> {
        let tokens = of.input_tokens.map_or_else(|| "–".into(), |tokens| format!("{tokens:.1}"));
        let first = [of.name(), count(of.issued), count(of.answered), tokens];
        let (tokens, latency) = (times(&of.first_token_ns), times(&of.latency_ns));
        first.into_iter().chain(tokens).chain(latency).collect()
    };
    let rows: Vec<Vec<String>> = sessions.by_turn.iter().map(row).collect();
    format!("<h3>Turns of sessions</h3>{}", page::numbers(&heads, &rows))
}

/// Returns the stages of the load, the models, and the steady part as tables in HTML; empty if the
/// run has none of them.
pub fn windows(metrics: &Metrics) -> String {
    let kinds = [
        ("Stages of the load", "stage", &metrics.stages[..]),
        ("Models", "model", &metrics.models[..]),
        ("Steady part", "part", metrics.steady.as_slice()),
    ];
    let mut html = String::new();
    for (title, name, windows) in kinds {
        if windows.is_empty() {
            continue;
        }
        let heads = [
            name,
            "offered/s",
            "answered/s",
            "tokens/s",
            "TTFT p50",
            "TTFT p99",
            "latency p50",
            "latency p99",
            "lost",
        ];
        let rows: Vec<Vec<String>> = windows.iter().map(window_cells).collect();
        let _ = write!(html, "<h3>{title}</h3>{}", page::numbers(&heads, &rows));
    }
    if let Some(steady) = &metrics.steady {
        let _ = write!(
            html,
            "<p class=\"note\">Steady from {} on (MSER-5). The verdict covers the whole run.</p>",
            words::span_ns(steady.from_ns)
        );
    }
    html
}

fn window_cells(window: &Window) -> Vec<String> {
    let time = |metric: &str, percent: f64| {
        let found =
            window.distribution(metric).and_then(|of| Some((of.percentile(percent)?, of.count)));
        found.map_or_else(|| "–".into(), |(time, values)| page::percentile(time, values, percent))
    };
    vec![
        window.name.clone(),
        units::rate(window.offered_per_s),
        units::rate(window.completed_per_s),
        window.output_tokens_per_s.map_or_else(|| "–".into(), units::rate),
        time("ttft", 50.0),
        time("ttft", 99.0),
        time("e2el", 50.0),
        time("e2el", 99.0),
        count(window.lost),
    ]
}

fn of_tokens(tokens: &Tokens) -> Vec<(&'static str, String)> {
    let totals = [
        ("input tokens", tokens.input),
        ("input tokens from the cache", tokens.cached),
        ("reasoning tokens", tokens.reasoning),
        ("input and output tokens", tokens.total),
    ];
    let rates = [("input tokens/s", tokens.input_per_s), ("total tokens/s", tokens.total_per_s)];
    let mut rows: Vec<(&'static str, String)> = Vec::new();
    rows.extend(totals.into_iter().filter_map(|(name, n)| Some((name, count(n?)))));
    rows.extend(rates.into_iter().filter_map(|(name, rate)| Some((name, units::rate(rate?)))));
    if let Some(lengths) = &tokens.lengths {
        rows.push((
            "maximum output tokens requested",
            format!("{:.1} an answer", lengths.requested),
        ));
        rows.push(("output tokens delivered", format!("{:.1} an answer", lengths.delivered)));
    }
    for of in tokens.contradictions.values() {
        rows.push((
            "contradictory counts",
            format!("{}, such as: {}", count(of.answers), of.first),
        ));
    }
    rows
}
