//! Answers of a text server and their tokens, within the section of a test.

use dyno_results::summary::Metrics;
use dyno_results::summary::answers::Tokens;
use dyno_results::summary::metrics::Distribution;
use dyno_results::summary::sessions::TurnFigures;
use dyno_results::units::{self, count};

use super::words;

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
    let head = ["turn", "issued", "answered", "input tokens", "TTFT p50", "TTFT p90", "TTFT p99"];
    let head = head.iter().chain(&["latency p50", "latency p90", "latency p99"]);
    let head: String = head.map(|name| format!("<th>{name}</th>")).collect();
    let times = |times: &Option<Distribution>| match times {
        Some(times) => [times.p50, times.p90, times.p99].map(words::time_ns),
        None => ["-"; 3].map(str::to_owned),
    };
    let row = |of: &TurnFigures| {
        let tokens = of.input_tokens.map_or_else(|| "-".into(), |tokens| format!("{tokens:.1}"));
        let first = [of.name(), count(of.issued), count(of.answered), tokens];
        let (tokens, latency) = (times(&of.first_token_ns), times(&of.latency_ns));
        let cells = first.iter().chain(&tokens).chain(&latency);
        let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr>{cells}</tr>")
    };
    let rows: String = sessions.by_turn.iter().map(row).collect();
    format!(
        "<h3>Turns of sessions</h3><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
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
