//! The summary of a run against its detail log.

use std::path::Path;

use serde_json::Value;

use dyno_loadgen::log::read::{ComparedValue, disagreements_with, read_summary};

use crate::check::catalogue::{RUN_SUMMARY, RUN_SUMMARY_EMPTY};
use crate::check::issues::{At, Issues};
use crate::facts::detail::DetailLog;
use crate::facts::text;
use crate::finding::counted;
use crate::tree::Node;

use super::logs::Purpose;

/// More disagreements of one summary are not listed.
const LISTED: usize = 4;

/// Every field that both logs have must be the same in both.
pub(super) fn check(file: Node<'_>, log: &DetailLog, purpose: Purpose, issues: &mut Issues) {
    let path = file.path();
    let at = At::path(&path);
    let text = match text::read(Some(file)) {
        Ok(text) => text,
        Err(why) => return issues.add(&RUN_SUMMARY_EMPTY, at, format!("cannot be read: {why:?}")),
    };
    let (summary, _) = read_summary(&text.text);
    // Of an accuracy run it says only how many warnings and errors there were.
    if purpose == Purpose::Performance && summary.value("Result is").is_none() {
        return issues.add(&RUN_SUMMARY_EMPTY, at, "is no summary of a run");
    }
    let known = |key: &str| log.find(key).map(|held| said(&held.value));
    let found = disagreements_with(&summary, known);
    for one in found.iter().take(LISTED) {
        let message = format!(
            "`{}` is {}, in the detail log {} is {}",
            one.label, one.summary, one.key, one.detail
        );
        issues.add_expected(&RUN_SUMMARY, at.line(Some(one.line)), message, one.detail.clone());
    }
    if found.len() > LISTED {
        let more = counted((found.len() - LISTED) as u64, "more field", "more fields");
        let message = format!("differs from the detail log in {more}");
        issues.add(&RUN_SUMMARY, at, message);
    }
    if purpose == Purpose::Performance {
        let texts =
            summary.early_stopping.iter().map(|(head, text)| (head.as_str(), text.as_str()));
        check_estimates(&path, texts, log, "the summary", issues);
        let own = ["early_stopping_result", "early_stopping_ttft_result"];
        let texts = own.into_iter().filter_map(|key| Some((key, log.text(key)?)));
        check_estimates(&path, texts, log, "early_stopping_result", issues);
    }
    let kept = log.whole("num_errors");
    if let Some((told, kept)) = summary.errors.zip(kept).filter(|(told, kept)| told != kept) {
        let told = counted(told, "error", "errors");
        let message = format!("counts {told}, the detail log {kept}");
        issues.add(&RUN_SUMMARY, at, message);
    }
}

/// The estimates of early stopping, which are the results of SingleStream and MultiStream,
/// stand in words in the summary and in the detail log: all must be the same.
fn check_estimates<'a>(
    path: &Path,
    texts: impl Iterator<Item = (&'a str, &'a str)>,
    log: &DetailLog,
    whose: &str,
    issues: &mut Issues,
) {
    // Where tokens are measured, the estimate is of the first token.
    let texts = texts.filter(|(head, _)| !head.contains("TPOT") && !head.contains("tpot"));
    let said: Vec<(f64, f64)> = texts.flat_map(|(_, text)| estimates(text)).collect();
    let target = log.number("effective_target_latency_percentile").unwrap_or(0.9);
    let known =
        [(100.0 * target, "early_stopping_latency_ss"), (99.0, "early_stopping_latency_ms")];
    for (percentile, key) in known {
        let Some(kept) = log.number(key).filter(|kept| *kept > 0.0) else { continue };
        let of_percentile = said.iter().find(|(of, _)| (of - percentile).abs() < 1e-6);
        let message = match of_percentile {
            Some((_, told)) if (told - kept).abs() < 0.5 => continue,
            Some((_, told)) => format!("{key} is {kept}, and {whose} says {told}"),
            None => format!("{key} is {kept}, and {whose} says no estimate"),
        };
        issues.add(&RUN_SUMMARY, At::path(path), message);
    }
}

/// Percentiles and their estimates, of a text such as `Early stopping 90.0th percentile
/// estimate: 513395`.
fn estimates(text: &str) -> impl Iterator<Item = (f64, f64)> {
    let parts = text.split("Early stopping ").skip(1);
    parts.filter_map(|part| {
        let (percentile, rest) = part.split_once("th percentile estimate: ")?;
        let value = rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
        Some((percentile.parse().ok()?, value.parse().ok()?))
    })
}

/// A value as a summary can contradict it.
fn said(value: &Value) -> ComparedValue<'_> {
    match value {
        Value::Null => ComparedValue::Null,
        Value::Bool(flag) => ComparedValue::Flag(*flag),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => ComparedValue::Whole(whole),
            (None, number) => ComparedValue::Number(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => ComparedValue::Text(text),
        Value::Array(_) | Value::Object(_) => ComparedValue::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Program;
    use crate::check::strict::tests::log;

    #[test]
    fn the_estimate_of_a_benchmark_is_that_of_its_own_percentile() {
        let log = log(&[
            ("effective_target_latency_percentile", "0.999"),
            ("early_stopping_latency_ss", "7"),
            ("early_stopping_latency_ms", "5"),
        ]);
        let found = |text: &str| {
            let mut issues = Issues::new(Program::Strict);
            check_estimates(Path::new("log"), [("", text)].into_iter(), &log, "it", &mut issues);
            issues.into_findings().len()
        };
        let of = "th percentile estimate: ";
        assert_eq!(found(&format!("Early stopping 99.9{of}7 * Early stopping 99.0{of}5")), 0);
        assert_eq!(found(&format!("Early stopping 90.0{of}7 * Early stopping 99.0{of}5")), 1);
    }
}
