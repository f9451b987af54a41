//! Qualities that accuracy scripts have printed: the way out of TEST01 for
//! systems that are not deterministic, and TEST07.

use regex::bytes::RegexBuilder;

use super::plan::Plan;
use super::reason::Reason;
use super::text::{self, verdict};
use super::{Figure, Part, TextFile, Verdict};
use dyno_rules::{Benchmark, Round};

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
    /// The same quality over every logged answer, where it is known. Accuracy scripts
    /// look at the first answer to each sample alone, so that a system may answer
    /// as it likes from the second time on.
    pub of_every_answer: Option<[f64; 2]>,
}

impl Accuracies {
    /// Reads what the accuracy script of a benchmark printed of both runs; without a
    /// benchmark, every metric of the round that either text has.
    #[must_use]
    pub fn of(round: &Round, benchmark: Option<&Benchmark>, texts: [String; 2]) -> Self {
        let asked: Vec<&str> = match benchmark {
            Some(known) => known.accuracy.iter().map(|target| &*target.metric).collect(),
            None => round.accuracy_patterns.keys().map(String::as_str).collect(),
        };
        let [baseline, audit] = [&texts[0], &texts[1]].map(|text| metrics_in(text, round, &asked));
        let metrics = asked.iter().zip(baseline.iter().zip(audit));
        let is_there = |(_, (baseline, audit)): &(_, (&Option<f64>, Option<f64>))| {
            benchmark.is_some() || baseline.is_some() || audit.is_some()
        };
        let metrics = metrics.filter(is_there).map(|(name, (baseline, audit))| Accuracy {
            metric: (*name).to_owned(),
            values: [baseline.unwrap_or(0.0), audit.unwrap_or(0.0)],
        });
        Self { metrics: metrics.collect(), texts, of_every_answer: None }
    }
}

/// What a text says of each of these metrics; the last line that matches counts.
#[must_use]
pub fn metrics_in(text: &str, round: &Round, metrics: &[&str]) -> Vec<Option<f64>> {
    let value = |metric: &&str| {
        let pattern = round.accuracy_patterns.get(*metric)?;
        // Digits and spaces are those of ASCII.
        let pattern = RegexBuilder::new(&format!("^(?:{pattern})")).unicode(false).build().ok()?;
        let of = |line: &str| {
            let value = pattern.captures(line.as_bytes())?.get(1)?;
            line.get(value.range())?.parse().ok()
        };
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
    let official = Verdict::of(reasons.clone());
    if let Some([baseline, audit]) = accuracies.of_every_answer {
        let percent = (1.0 - baseline / audit).abs() * 100.0;
        if percent.is_nan() || percent > *otherwise {
            let metric = "the quality of every answer".into();
            reasons.push(Reason::QualityDelta {
                metric,
                baseline,
                audit,
                percent,
                most: *otherwise,
            });
        }
    }
    Part { name: "quality", corrected: Verdict::of(reasons), official, figures, file: None }
}

/// TEST07: whether the quality is high enough, and all samples were looked at.
pub(super) fn high_enough(
    quality: Option<f64>,
    plan: &Plan,
    logged: u64,
    samples: u64,
    wrong: Vec<Reason>,
) -> Part {
    let mut official = Vec::new();
    let mut figures = Vec::new();
    match (quality, plan.threshold) {
        (None, _) => official.push(Reason::NotGiven { what: "quality of the audited run" }),
        (_, None) => official.push(Reason::NoBound { what: "quality" }),
        (Some(found), Some(least)) => {
            figures.push(Figure { name: "quality", value: found, unit: "" });
            // Neither number may be NaN.
            if !is_enough(found, least) {
                official.push(Reason::Quality { found, least });
            }
        }
    }
    let mut corrected = official.clone();
    if logged < samples {
        corrected.push(Reason::TooFew { found: logged, expected: samples });
    }
    corrected.extend(wrong);
    figures.push(Figure { name: "logged samples", value: logged as f64, unit: "" });
    let is_passed = corrected.is_empty();
    let text = match (quality, plan.threshold) {
        (Some(found), Some(least)) => format!(
            "'exact_match': {found}\nTEST07 Verification Summary\nAccuracy score: {found}\n\
             Accuracy threshold: {least}\nAccuracy check pass: {}\n{}\n",
            text::truth(is_enough(found, least)),
            verdict(is_passed)
        ),
        _ => format!("TEST07 Verification Summary\n{}\n", verdict(false)),
    };
    let file = Some(TextFile { path: text::ACCURACY, text });
    let (corrected, official) = (Verdict::of(corrected), Verdict::of(official));
    Part { name: "quality", corrected, official, figures, file }
}

fn is_enough(found: f64, least: f64) -> bool {
    found.is_finite() && least.is_finite() && found >= least
}
