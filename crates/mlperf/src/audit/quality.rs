//! Qualities that accuracy scripts have printed: the way out of TEST01 for
//! systems that are not deterministic, and TEST07.

use regex::Regex;

use super::plan::Plan;
use super::reason::Reason;
use super::text::{self, verdict};
use super::{Figure, Part, TextFile, Verdict};
use crate::round::{Benchmark, Round};

/// One quality.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// Of what, as rounds name it.
    pub metric: String,
    /// Over the samples of the audited run, of the accuracy run and of the audited run.
    /// A text without the metric makes it 0, as in the official checkers.
    pub values: [f64; 2],
}

/// The qualities of the accuracy run over the samples of the audit, and those of the
/// audited run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Accuracies {
    /// Each metric that is asked for.
    pub metrics: Vec<Accuracy>,
    /// What the accuracy script printed, of both runs: `baseline_accuracy.txt` and
    /// `compliance_accuracy.txt`.
    pub texts: [String; 2],
}

impl Accuracies {
    /// Reads what the accuracy script of a benchmark printed of both runs.
    #[must_use]
    pub fn of(round: &Round, benchmark: &Benchmark, texts: [String; 2]) -> Self {
        let asked: Vec<&str> = benchmark.accuracy.iter().map(|target| &*target.metric).collect();
        let [baseline, audit] = [&texts[0], &texts[1]].map(|text| metrics_in(text, round, &asked));
        let metrics = asked.iter().zip(baseline.iter().zip(audit));
        let metrics = metrics.map(|(name, (baseline, audit))| Accuracy {
            metric: (*name).to_owned(),
            values: [baseline.unwrap_or(0.0), audit.unwrap_or(0.0)],
        });
        Self { metrics: metrics.collect(), texts }
    }
}

/// What a text says of each of these metrics; the last line that matches counts.
#[must_use]
pub fn metrics_in(text: &str, round: &Round, metrics: &[&str]) -> Vec<Option<f64>> {
    let value = |metric: &&str| {
        let pattern = round.accuracy_patterns.get(*metric)?;
        let pattern = Regex::new(&format!("^(?:{pattern})")).ok()?;
        let of = |line| pattern.captures(line)?.get(1)?.as_str().parse().ok();
        text.lines().filter_map(of).next_back()
    };
    metrics.iter().map(value).collect()
}

/// Whether two qualities are close enough, for systems that are not deterministic.
pub(super) fn close(accuracies: &Accuracies, plan: &Plan) -> Part {
    let (deltas, otherwise) = &plan.quality_delta_percent;
    let mut reasons = Vec::new();
    let mut figures = Vec::new();
    for Accuracy { metric, values: [baseline, audit] } in &accuracies.metrics {
        let (baseline, audit) = (*baseline, *audit);
        figures.push(Figure { name: "baseline quality", value: baseline, unit: "" });
        figures.push(Figure { name: "audited quality", value: audit, unit: "" });
        if baseline == 0.0 || audit == 0.0 {
            reasons.push(Reason::NoQuality { metric: metric.clone() });
            continue;
        }
        let most = deltas.get(metric).copied().unwrap_or(*otherwise);
        let percent = (1.0 - baseline / audit).abs() * 100.0;
        if percent.is_nan() || percent > most {
            let metric = metric.clone();
            reasons.push(Reason::QualityDelta { metric, baseline, audit, percent, most });
        }
    }
    if accuracies.metrics.is_empty() {
        reasons.push(Reason::NotGiven { what: "quality" });
    }
    let (corrected, official) = (Verdict::of(reasons.clone()), Verdict::of(reasons));
    Part { name: "quality", corrected, official, figures, file: None }
}

/// TEST07: whether the quality is high enough, and all samples were looked at.
pub(super) fn high_enough(
    quality: Option<f64>,
    plan: &Plan,
    logged: u64,
    samples: Option<u64>,
) -> Part {
    let mut official = Vec::new();
    let mut figures = Vec::new();
    match (quality, plan.threshold) {
        (None, _) => official.push(Reason::NotGiven { what: "quality of the audited run" }),
        (_, None) => official.push(Reason::NoBound { what: "quality" }),
        (Some(found), Some(least)) => {
            figures.push(Figure { name: "quality", value: found, unit: "" });
            if found.is_nan() || found < least {
                official.push(Reason::Quality { found, least });
            }
        }
    }
    let mut corrected = official.clone();
    if let Some(expected) = samples.filter(|expected| logged < *expected) {
        corrected.push(Reason::TooFew { found: logged, expected });
    }
    figures.push(Figure { name: "logged samples", value: logged as f64, unit: "" });
    let is_passed = corrected.is_empty();
    let text = match (quality, plan.threshold) {
        (Some(found), Some(least)) => format!(
            "'exact_match': {found}\nTEST07 Verification Summary\nAccuracy score: {found}\n\
             Accuracy threshold: {least}\nAccuracy check pass: {}\n{}\n",
            text::truth(found >= least),
            verdict(is_passed)
        ),
        _ => format!("TEST07 Verification Summary\n{}\n", verdict(false)),
    };
    let file = Some(TextFile { path: text::ACCURACY, text });
    let (corrected, official) = (Verdict::of(corrected), Verdict::of(official));
    Part { name: "quality", corrected, official, figures, file }
}
