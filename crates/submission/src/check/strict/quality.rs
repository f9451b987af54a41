//! Checks the accuracy run: its hash, its log, and values in the unit of their target.

use std::collections::HashMap;
use std::path::Path;

use dyno_loadgen::log::read::{AccuracyReader, LogReadProblem, ProblemKind};
use sha2::{Digest, Sha256};

use crate::check::accuracy::ERROR;
use crate::check::catalogue::{
    ACCURACY_COUNTS, ACCURACY_HASH_DIFFERS, ACCURACY_HASH_FORMAT, ACCURACY_LOG_EMPTY,
    ACCURACY_PLACEHOLDER, ACCURACY_UNIT, RUN_CONSISTENT,
};
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::facts::Facts;
use crate::layout::DETAIL;
use crate::tree::Node;
use dyno_rules::accuracy::{AccuracyText, MetricValue};
use dyno_rules::{Benchmark, QualityTarget, RuleScenario};

/// A larger log was not truncated, which is reported elsewhere.
const LARGEST_LOG: u64 = 10240;
/// Metric with the length of answers.
const LENGTH: &str = "TOKENS_PER_SAMPLE";
/// Line with which the official tool replaces the middle of a log.
const ELLIPSIS: &[u8] = b"...";
/// Answers are random, and a run may issue some samples more often than others.
const LENGTH_TOLERANCE: f64 = 0.2;
/// Keys of token rates and of the corresponding sample rates.
const TOKEN_RATES: [(&str, &str); 4] = [
    ("result_tokens_per_second", "result_samples_per_second"),
    ("result_completed_tokens_per_second", "result_completed_samples_per_sec"),
    ("result_inferred_tokens_per_second", "result_samples_per_second"),
    ("result_inferred_completed_tokens_per_second", "result_completed_samples_per_sec"),
];
/// Rates have six digits.
const RATE_TOLERANCE: f64 = 0.01;
/// Bound in the official tables that was never filled in.
const PLACEHOLDER: f64 = 9999.0;

/// Checks that answers of the performance run have the length that the accuracy script found,
/// and do not exceed the round's maximum.
pub(super) fn check_length(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
    let Ok(log) = &facts.performance else { return };
    let content = facts.accuracy_text.as_ref().ok();
    let mean =
        content.and_then(|content| content.metrics.iter().rfind(|found| found.metric == LENGTH));
    let mean = mean.and_then(MetricValue::number).filter(|mean| *mean > 0.0);
    let is_fixed = place.submitter.division.is_closed_or_network();
    let benchmark = place.model.benchmark.filter(|_| is_fixed);
    let most = benchmark.and_then(|benchmark| benchmark.inference.max_output_tokens);
    let path = place.entry.folder.path().join("performance/run_1").join(DETAIL);
    for (tokens_key, samples_key) in TOKEN_RATES {
        let samples = log.number(samples_key).filter(|samples| *samples > 0.0);
        let Some((tokens, samples)) = log.number(tokens_key).zip(samples) else { continue };
        let each = tokens / samples;
        let is_other = |mean: &f64| (each - mean).abs() > LENGTH_TOLERANCE * mean;
        #[expect(clippy::cast_precision_loss, reason = "answers are far below 2^53 tokens")]
        let is_longer = |most: &u64| each > (1.0 + RATE_TOLERANCE) * *most as f64;
        let expected = match (mean.filter(is_other), most.filter(is_longer)) {
            (_, Some(most)) => format!("at most {most}, the answer limit of the round"),
            (Some(mean), None) => format!("about {mean}, as in the accuracy run"),
            (None, None) => continue,
        };
        let at = Location::path(&path).line(log.line_of(tokens_key));
        let message = format!("{tokens_key} implies {each:.3} tokens per sample");
        issues.add_expected(&RUN_CONSISTENT, at, message, expected);
    }
}

/// Checks that the hash is a SHA-256, and that it matches the log if the log is complete.
pub(super) fn check_hash(
    content: &AccuracyText,
    path: &Path,
    log: Option<Node<'_>>,
    issues: &mut Issues,
) {
    let complete_log = log.and_then(|log| read_complete(log, issues));
    let Some(line) = content.hashes.last() else { return };
    let at = Location::path(path).line(Some(line.line));
    let hash = line.text.trim();
    let is_sha256 = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_sha256 {
        let message = format!("`{}` is not a SHA-256", hash.chars().take(80).collect::<String>());
        return issues.add_expected(&ACCURACY_HASH_FORMAT, at, message, "64 hexadecimal digits");
    }
    let different =
        content.hashes.iter().any(|other| !other.text.trim().eq_ignore_ascii_case(hash));
    if different {
        issues.add(&ACCURACY_HASH_FORMAT, at, "the `hash=` lines differ");
    }
    if let Some(bytes) = complete_log {
        let real: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if !real.eq_ignore_ascii_case(hash) {
            let message = "the hash does not match mlperf_log_accuracy.json, which is not \
                 truncated";
            issues.add_expected(&ACCURACY_HASH_DIFFERS, at, message, real);
        }
    }
}

/// Checks that a complete log of the accuracy run has one answer to each sample. Most official
/// scripts score the first one, and some the last one.
pub(super) fn check_answers(log: Option<Node<'_>>, issues: &mut Issues) {
    let Some(file) = log else { return };
    // `check_hash` reports a log that is not complete.
    let Some(bytes) = read_complete(file, &mut issues.another()) else { return };
    let path = file.path();
    let mut known: HashMap<u64, Vec<u8>> = HashMap::new();
    for entry in AccuracyReader::new(&bytes[..]) {
        match entry {
            Ok(entry) => {
                let first = known.entry(entry.qsl_idx).or_insert_with(|| entry.data.clone());
                if *first != entry.data {
                    let at = Location::path(&path).line(Some(entry.line));
                    let message = format!("has another answer to sample {}", entry.qsl_idx);
                    issues.add_expected(&ACCURACY_LOG_EMPTY, at, message, "one answer");
                }
            }
            Err(LogReadProblem { line, kind: kind @ ProblemKind::Repeated { .. } }) => {
                let problem = LogReadProblem { line, kind };
                let at = Location::path(&path).line(Some(line));
                issues.add(&ACCURACY_LOG_EMPTY, at, problem.to_string());
            }
            // The official programs do not parse the log, either.
            Err(_) => {}
        }
    }
}

/// Checks that a metric that is stated several times always has the same value.
pub(super) fn check_repeats(content: &AccuracyText, path: &Path, issues: &mut Issues) {
    for (at, found) in content.metrics.iter().enumerate() {
        let first = content.metrics[..at].iter().find(|first| first.metric == found.metric);
        let is_same = |first: &MetricValue| {
            first.value == found.value || first.number().is_some_and(|x| Some(x) == found.number())
        };
        if let Some(first) = first.filter(|first| !is_same(first)) {
            let at = Location::path(path).line(Some(found.line));
            let MetricValue { metric, value, .. } = found;
            let message =
                format!("{metric} is {value}, but {} in line {}", first.value, first.line);
            issues.add_expected(&ACCURACY_COUNTS, at, message, first.value.clone());
        }
    }
}

/// Returns the accuracy log if it is complete.
fn read_complete(log: Node<'_>, issues: &mut Issues) -> Option<Vec<u8>> {
    let path = log.path();
    if log.size() == 0 {
        issues.add(&ACCURACY_LOG_EMPTY, Location::path(&path), "is empty");
        return None;
    }
    if log.size() > LARGEST_LOG {
        return None;
    }
    let bytes = std::fs::read(log.absolute()).ok()?;
    let is_cut = bytes.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == ELLIPSIS);
    let text = bytes.trim_ascii();
    if is_cut {
        return None;
    }
    if text == b"[]" || text == b"[\n]" {
        issues.add(&ACCURACY_LOG_EMPTY, Location::path(&path), "has no samples");
    } else if !(text.starts_with(b"[") && text.ends_with(b"]")) {
        let message = "is neither a complete nor a truncated log";
        issues.add(&ACCURACY_LOG_EMPTY, Location::path(&path), message);
        return None;
    }
    Some(bytes)
}

/// Checks values in the unit of their target. The official programs compare percentages with
/// fractions, errors with lower bounds, or values with a placeholder.
pub(super) fn check_units(
    benchmark: &Benchmark,
    scenario: Option<RuleScenario>,
    content: &AccuracyText,
    path: &Path,
    issues: &mut Issues,
) {
    let targets = benchmark.accuracy.iter();
    for target in targets.filter(|target| target.scenario.is_none() || target.scenario == scenario)
    {
        let value = content.metrics.iter().rfind(|found| found.metric == target.metric);
        let Some((found, value)) = value.and_then(|found| Some((found, found.number()?))) else {
            continue;
        };
        check_unit(target, found, value, path, issues);
    }
}

fn check_unit(
    target: &QualityTarget,
    found: &MetricValue,
    value: f64,
    text: &Path,
    issues: &mut Issues,
) {
    let at = Location::path(text).line(Some(found.line));
    let metric = &target.metric;
    if let Some(least) = target.at_least {
        let is_error = metric == ERROR;
        if is_error {
            // The official bound is 99.9 % of the reference. The upper bound is 100.1 % of the
            // reference.
            let most = least / 0.999 * 1.001;
            if value > most {
                let message = format!("{metric} is {value}; lower is better");
                issues.add_expected(&ACCURACY_UNIT, at, message, format!("at most {most}"));
            }
        } else if least <= 1.0 && value > 100.0 {
            let message = format!("{metric} is {value}, but its target is a fraction");
            issues.add_expected(&ACCURACY_UNIT, at, message, "at most 1, or 100 %");
        } else if least <= 1.0 && value > 1.0 && value / 100.0 < least {
            let message = format!("{metric} is {value} %, but its target is a fraction");
            issues.add_expected(
                &ACCURACY_UNIT,
                at,
                message,
                format!("at least {} %", least * 100.0),
            );
        } else if least > 1.5 && least <= 100.0 && value > 100.0 && target.at_most.is_none() {
            let message = format!("{metric} is {value}, but its target is in percent");
            issues.add_expected(&ACCURACY_UNIT, at, message, "at most 100");
        } else if least > 1.5 && value < 1.0 && least <= 100.0 && value * 100.0 >= least {
            let message = format!(
                "{metric} is {value}, which looks like a fraction; its target is in percent"
            );
            issues.add_expected(&ACCURACY_UNIT, at, message, format!("at least {least}"));
        }
    }
    if target.at_most.is_some_and(|most| (most - PLACEHOLDER * 1.1).abs() < 1.0) {
        let message = format!("the bound of {metric} is a placeholder; {value} is not judged");
        issues.add(&ACCURACY_PLACEHOLDER, at, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Program;
    use dyno_rules::Round;
    use dyno_rules::accuracy::{Patterns, scan};

    /// Returns the failed checks for the output of a benchmark's script.
    fn found(round: &str, benchmark: &str, text: &str) -> Vec<&'static str> {
        let round = Round::named(round).unwrap();
        let benchmark = round.benchmark(benchmark).unwrap();
        let patterns = Patterns::new(round);
        let content = scan(&mut text.as_bytes(), patterns.for_benchmark(Some(benchmark))).unwrap();
        let mut issues = Issues::new(Program::Strict);
        check_units(benchmark, None, &content, Path::new("accuracy.txt"), &mut issues);
        check_hash(&content, Path::new("accuracy.txt"), None, &mut issues);
        check_repeats(&content, Path::new("accuracy.txt"), &mut issues);
        issues.into_findings().into_iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn percent_is_not_held_against_a_fraction() {
        // Targets are 0.7213 and 0.542; the scripts print percent.
        assert_eq!(found("v5.1", "rgat", "accuracy: 72.9\n"), [""; 0]);
        assert_eq!(found("v5.1", "rgat", "accuracy: 71.9\n"), ["accuracy.unit"]);
        assert_eq!(found("v5.1", "rgat", "accuracy: 1.2\n"), ["accuracy.unit"]);
        assert_eq!(found("v5.1", "rgat", "accuracy: 150.0\n"), ["accuracy.unit"]);
        assert_eq!(found("v5.1", "pointpainting", "'Total': 54.3\n"), [""; 0]);
        assert_eq!(found("v5.1", "pointpainting", "'Total': 53.3\n"), ["accuracy.unit"]);
        assert_eq!(found("v5.1", "resnet50", "accuracy=0.7606\n"), ["accuracy.unit"]);
        assert_eq!(found("v5.1", "resnet50", "accuracy=76.064%\n"), [""; 0]);
        assert_eq!(found("v5.1", "resnet50", "accuracy=760.64%\n"), ["accuracy.unit"]);
    }

    #[test]
    fn a_metric_has_one_value() {
        let text = |second: &str| format!("accuracy=76.064%, good=1\naccuracy={second}%, good=1\n");
        assert_eq!(found("v5.1", "resnet50", &text("76.064")), [""; 0]);
        assert_eq!(found("v5.1", "resnet50", &text("76.0640")), [""; 0]);
        assert_eq!(found("v5.1", "resnet50", &text("99.9")), ["accuracy.counts"]);
    }

    #[test]
    fn a_hash_is_one_of_sha_256() {
        let hash = "58c98cf75988c2e19231d7e5254c281592292760c7c4d2603eae8df94b337edd";
        assert_eq!(found("v5.1", "resnet50", &format!("hash={hash}\n")), [""; 0]);
        for bad in ["abc", &hash[1..], &hash.replace('5', "g")] {
            let text = format!("hash={bad}\n");
            assert_eq!(found("v5.1", "resnet50", &text), ["accuracy.hash_format"], "{bad}");
        }
        let two = format!("hash={}\nhash={hash}\n", hash.replace('5', "6"));
        assert_eq!(found("v5.1", "resnet50", &two), ["accuracy.hash_format"]);
    }
}
