//! Answers of a text server and their tokens, as lines of text.

use super::Metrics;
use super::answers::Tokens;
use crate::units::{count, duration, rate};

/// Returns the classes of the answers, such as `answers: 160 whole, 8 empty`.
pub fn classes(metrics: &Metrics) -> Option<String> {
    let answers = metrics.answers.as_ref()?;
    let text = format!("answers: {}", answers.list());
    Some(if answers.accepted.is_empty() {
        text
    } else {
        format!("{text} ({} accepted)", answers.accepted.join(", "))
    })
}

/// Returns totals, rates, lengths and contradictions of tokens.
pub fn tokens(metrics: &Metrics) -> Option<String> {
    let tokens = metrics.tokens.as_ref()?;
    let parts = [
        totals(tokens),
        rates(tokens),
        lengths(tokens, metrics.sample_count),
        contradictions(tokens),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("tokens: {}", parts.join("; ")))
}

/// Returns when the streams ended, if that is clearly later than the last output: p50 by more than a
/// tenth, or p99 by more than the latency.
pub fn end_of_stream(metrics: &Metrics) -> Option<String> {
    let end = metrics.answers.as_ref()?.end_of_stream_ns.filter(|end| end.count > 0)?;
    let latency = metrics.answered()?;
    let is_later = end.p50 > latency.p50 + latency.p50 / 10 || end.p99 > 2 * latency.p99;
    is_later.then(|| {
        format!(
            "streams ended at p50 {} p99 {}, after the last output",
            duration(end.p50),
            duration(end.p99)
        )
    })
}

fn totals(tokens: &Tokens) -> Option<String> {
    let by: Vec<&str> =
        tokens.output_counted_by.keys().map(String::as_str).filter(|by| *by != "nobody").collect();
    let output = tokens.output.map(|n| {
        if by.is_empty() {
            format!("{} output", count(n))
        } else {
            format!("{} output by {}", count(n), by.join(" and "))
        }
    });
    let of = |n: Option<u64>, name: &str| n.map(|n| format!("{} {name}", count(n)));
    let parts = [
        of(tokens.input, "input"),
        cached(tokens),
        output,
        of(tokens.reasoning, "of them reasoning"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the input tokens from the cache, with their share.
fn cached(tokens: &Tokens) -> Option<String> {
    let cached = tokens.cached?;
    let share = tokens
        .input
        .filter(|input| *input > 0)
        .map(|input| format!(" ({:.1} %)", 100.0 * cached as f64 / input as f64));
    Some(format!("{} of them cached{}", count(cached), share.unwrap_or_default()))
}

fn rates(tokens: &Tokens) -> Option<String> {
    let of = |per_s: Option<f64>, name: &str| per_s.map(|r| format!("{} {name}/s", rate(r)));
    let parts = [
        of(tokens.input_per_s, "input"),
        of(tokens.output_per_s, "output"),
        of(tokens.total_per_s, "total"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the mean lengths, and how many of `answers` they cover if some have no limit or no count.
fn lengths(tokens: &Tokens, answers: u64) -> Option<String> {
    let lengths = tokens.lengths.as_ref()?;
    let covered = if lengths.answers < answers {
        format!(" ({} of {} answers have a limit)", count(lengths.answers), count(answers))
    } else {
        String::new()
    };
    Some(format!(
        "{:.1} per answer, at most {:.1} requested{covered}",
        lengths.delivered, lengths.requested
    ))
}

fn contradictions(tokens: &Tokens) -> Option<String> {
    let all: Vec<String> = tokens
        .contradictions
        .values()
        .map(|of| format!("{} contradictory, such as: {}", count(of.answers), of.first))
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::answers::Lengths;
    use super::*;

    #[test]
    fn answers_without_a_limit_are_not_left_out_silently() {
        let lengths_of = Lengths { answers: 16, requested: 5.0, delivered: 2.6, shorter: 3 };
        let tokens = Tokens { lengths: Some(lengths_of), ..Tokens::default() };
        let text = |answers| lengths(&tokens, answers).unwrap();
        assert_eq!(text(16), "2.6 per answer, at most 5.0 requested");
        assert!(text(20).ends_with(" (16 of 20 answers have a limit)"), "{}", text(20));
    }
}
