//! Answers of a text server and their tokens, within the section of a test.

use dyno_results::summary::Metrics;
use dyno_results::summary::answers::Tokens;
use dyno_results::units::{self, count};

use super::words;

/// Returns names and values; empty for a test whose answers are not text.
pub fn facts(metrics: &Metrics) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(answers) = &metrics.answers {
        rows.push(("answers", answers.list()));
        if !answers.accepted.is_empty() {
            rows.push(("accepted besides whole", answers.accepted.join(", ")));
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
    rows
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
            "output tokens requested at most",
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
