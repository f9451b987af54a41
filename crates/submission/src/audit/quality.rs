//! Qualities printed by accuracy scripts: the alternative in TEST01 for nondeterministic
//! systems, and TEST07.

use regex::bytes::RegexBuilder;

use super::plan::AuditPlan;
use super::reason::Reason;
use super::text::{self, verdict};
use super::{Figure, Part, Verdict, VerdictFile};
use dyno_rules::{Benchmark, Round};

/// Quality of both runs by one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// Name of the metric in the rounds.
    pub metric: String,
    /// Values over the samples of the audited run: of the accuracy run, then of the audited run.
    /// 0 if a text does not contain the metric, as in the official checkers.
    pub values: [f64; 2],
}

/// Qualities of the accuracy run over the samples of the audit, and qualities of the audited
/// run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Accuracies {
    /// One entry per requested metric.
    pub metrics: Vec<Accuracy>,
    /// Output of the accuracy script for both runs: `baseline_accuracy.txt` and
    /// `compliance_accuracy.txt`.
    pub texts: [String; 2],
    /// Quality over every logged answer, if known. Accuracy scripts read only the first answer
    /// to each sample, so a system could answer arbitrarily from the second one on.
    pub of_every_answer: Option<[f64; 2]>,
}

impl Accuracies {
    /// Parses the output of a benchmark's accuracy script for both runs. Without a benchmark, it
    /// includes every metric of the round that either text contains.
    pub fn from_texts(round: &Round, benchmark: Option<&Benchmark>, texts: [String; 2]) -> Self {
        let names: Vec<&str> = match benchmark {
            Some(known) => known.accuracy.iter().map(|target| &*target.metric).collect(),
            None => round.accuracy_patterns.keys().map(String::as_str).collect(),
        };
        let [baseline, audit] = [&texts[0], &texts[1]].map(|text| metrics_in(text, round, &names));
        let metrics = names.iter().zip(baseline.iter().zip(audit));
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

/// Returns the value of each metric in a text. The last matching line counts.
pub fn metrics_in(text: &str, round: &Round, metrics: &[&str]) -> Vec<Option<f64>> {
    let value = |metric: &&str| {
        let pattern = round.accuracy_patterns.get(*metric)?;
        // `\d` and `\s` match ASCII only.
        let pattern = RegexBuilder::new(&format!("^(?:{pattern})")).unicode(false).build().ok()?;
        let parse = |line: &str| {
            let value = pattern.captures(line.as_bytes())?.get(1)?;
            line.get(value.range())?.parse().ok()
        };
        text.lines().filter_map(parse).next_back()
    };
    metrics.iter().map(value).collect()
}

/// Compares two qualities of a nondeterministic system.
pub(super) fn close(accuracies: &Accuracies, plan: &AuditPlan) -> Part {
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
    let official = Verdict::from_reasons(reasons.clone());
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
    Part {
        name: "quality",
        corrected: Verdict::from_reasons(reasons),
        official,
        figures,
        file: None,
    }
}

/// TEST07: checks whether the quality is sufficient and all samples were logged.
pub(super) fn high_enough(
    quality: Option<f64>,
    plan: &AuditPlan,
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
            // False if either number is NaN.
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
    let file = Some(VerdictFile { path: text::ACCURACY, text });
    let (corrected, official) = (Verdict::from_reasons(corrected), Verdict::from_reasons(official));
    Part { name: "quality", corrected, official, figures, file }
}

fn is_enough(found: f64, least: f64) -> bool {
    found.is_finite() && least.is_finite() && found >= least
}
