//! Quality of the answers of an accuracy test.

use std::collections::{BTreeSet, HashSet};

use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::record::Failure;
use dyno_loadgen::run::TestLog;
use dyno_metrics::{ScoreReport, score_answers};
use dyno_results::summary::{self, Accuracy, Cause, QualityUnit, Reason, ReasonKind};
use dyno_results::units::counted;
use dyno_sut::top1::{self, Chance};
use dyno_task::card::{Bound, Unit};
use dyno_task::judge::{Judge, Target};

use super::failures::Failures;
use super::reasons::Context;

use crate::system::System;
use crate::system::net::Remote;

/// Scores the answers of a test, and adds reasons why they are not good enough, or cannot be judged.
pub fn judge(test: &mut summary::Test, log: &TestLog, system: &System, context: Context<'_>) {
    let answers = AccuracyAnswers::from_log(log);
    not_answered(test, &answers.failed, answers.missing, context);
    let Quality { mut accuracy, mut reasons, classes } = score(answers, log, system);
    if accuracy.is_reached() == Some(false) && log.complete {
        let sentence = short_of(&accuracy);
        accuracy.short_of.insert(0, sentence);
    }
    if !log.complete {
        // A figure over some of the samples would be mistaken for one over all.
        (accuracy.value, accuracy.short_of) = (None, Vec::new());
    }
    reasons.extend(accuracy.short_of.iter().cloned());
    if context.has_round && log.complete && accuracy.value.is_none() && reasons.is_empty() {
        let text = "The accuracy that the round requires is not judged: the answers have no labels. \
                    Add --labels, or score mlperf_log_accuracy.json with dyno task score.";
        test.add_reason(Reason::new(ReasonKind::Accuracy, text).undecided());
    }
    if accuracy.excluded > 0 && log.complete && system.accuracy_target.is_none() {
        let text = not_compared(&accuracy);
        test.add_reason(Reason::new(ReasonKind::Accuracy, text).undecided());
    }
    let labels = system.labels.as_deref().filter(|_| log.complete);
    test.notes.extend(labels.and_then(|labels| by_chance(&accuracy, &classes, labels)));
    test.accuracy = Some(accuracy);
    for text in reasons {
        test.add_reason(Reason::new(ReasonKind::Accuracy, text));
    }
}

/// Quality of the answers of a test.
struct Quality {
    accuracy: Accuracy,
    /// Reasons why the answers cannot be judged.
    reasons: Vec<String>,
    /// Classes of the answers; empty unless they are compared with labels.
    classes: Vec<i64>,
}

/// Scores answers by the labels, references or method of the system.
fn score(answers: AccuracyAnswers<'_>, log: &TestLog, system: &System) -> Quality {
    let AccuracyAnswers { answers, unanswered, answered, .. } = answers;
    let mut accuracy = Accuracy { answered, ..Accuracy::default() };
    let (mut reasons, mut classes, target) = (Vec::new(), Vec::new(), system.accuracy_target);
    if let (Some(remote), Some(labels)) = (system.remote(), system.labels.as_deref()) {
        // Servers answer with classes or scores of any type. They are decoded here, where no clock
        // runs.
        let encoded: Vec<(SampleIndex, Option<[u8; 8]>)> = answers
            .into_iter()
            .map(|(index, data)| (index, remote.class(data).map(i64::to_le_bytes)))
            .collect();
        classes = encoded.iter().filter_map(|(_, class)| class.map(i64::from_le_bytes)).collect();
        let encoded = encoded
            .iter()
            .map(|(index, class)| (*index, class.as_ref().map_or(&[][..], |class| &class[..])));
        let score = top1::score(encoded, labels);
        reasons.extend(by_labels(&mut accuracy, score, &unanswered, target));
    } else if let Some(references) = system.remote().and_then(Remote::references) {
        by_references(&mut accuracy, answers, &unanswered, references, target);
    } else if let Some(labels) = system.labels.as_deref() {
        classes = answers.iter().filter_map(|(_, data)| top1::decode(data)).collect();
        let score = top1::score(answers, labels);
        reasons.extend(by_labels(&mut accuracy, score, &unanswered, target));
    } else if let Some(judge) = &system.judge {
        match judge.scorer() {
            Ok(mut scorer) => {
                let wide = answers.into_iter().map(|(index, data)| (index.into(), data));
                let without: Vec<u64> = unanswered.iter().map(|&index| index.into()).collect();
                let scored = score_answers(wide, &without, scorer.as_mut());
                let targets: Vec<&Target> = judge.targets_in(log.plan.scenario()).collect();
                reasons.extend(by_method(
                    &mut accuracy,
                    judge,
                    &targets,
                    &scored,
                    without.len() as u64,
                    target,
                ));
            }
            // The answers are in the log and can be scored later.
            Err(error) => reasons.push(format!("The answers were not scored: {error}.")),
        }
    }
    Quality { accuracy, reasons, classes }
}

/// Answers of the accuracy runs of a test.
struct AccuracyAnswers<'a> {
    answers: Vec<(SampleIndex, &'a [u8])>,
    /// Samples without an answer, ascending; empty if the test is not complete.
    unanswered: Vec<SampleIndex>,
    /// Number of samples that were answered and did not fail.
    answered: u64,
    failed: Vec<(u64, Failure)>,
    /// Number of samples that were never answered; 0 if the test is not complete.
    missing: usize,
}

impl<'a> AccuracyAnswers<'a> {
    fn from_log(log: &'a TestLog) -> Self {
        let (mut answered, mut failed, mut missing) = (0, Vec::new(), 0);
        let (mut answers, mut issued) = (Vec::new(), BTreeSet::new());
        for run in log.runs().filter(|run| run.accuracy) {
            let record = &run.record;
            let lost: HashSet<u64> = record.failed.iter().map(|(sequence, _)| *sequence).collect();
            missing += record.missing();
            failed.extend_from_slice(&record.failed);
            answered += record.completed_at.iter().filter(|&&at| at != 0).count();
            issued.extend(record.indices.iter().copied());
            let kept = record.responses.iter().filter(|of| !lost.contains(&of.sequence));
            answers.extend(kept.filter_map(|response| {
                let at = usize::try_from(response.sequence).ok()?;
                Some((*record.indices.get(at)?, response.data))
            }));
        }
        if log.complete {
            answers.iter().for_each(|(index, _)| _ = issued.remove(index));
        } else {
            (issued, missing) = (BTreeSet::new(), 0);
        }
        Self {
            answers,
            unanswered: issued.into_iter().collect(),
            answered: (answered - failed.len()) as u64,
            failed,
            missing,
        }
    }
}

/// Adds reasons for failed samples, by kind, and for samples without an answer.
fn not_answered(
    test: &mut summary::Test,
    failed: &[(u64, Failure)],
    missing: usize,
    context: Context<'_>,
) {
    if !failed.is_empty() {
        let failures = Failures::from_samples(failed, context.troubles);
        let failures = failures.with_reason(context.failure);
        let samples = counted(failures.samples, "sample", "samples");
        let by_kind = failures.by_kind();
        let text = format!(
            "{samples} failed: {by_kind}. Accuracy needs every sample. {}",
            failures.advice()
        );
        test.add_reason(Reason::new(ReasonKind::Failures, text).because_of(failures.cause()));
    }
    if missing > 0 {
        let missing = counted(missing as u64, "sample was", "samples were");
        let text = format!("{missing} never answered; accuracy needs every sample.");
        test.add_reason(Reason::new(ReasonKind::Missing, text).because_of(Cause::System));
    }
}

/// Sets the number of answers that equal their labels, of all samples. Returns the problem of answers that
/// are not classes.
fn by_labels(
    accuracy: &mut Accuracy,
    score: top1::Score,
    unanswered: &[SampleIndex],
    target: Option<f64>,
) -> Option<String> {
    let score = top1::Score { total: score.total + unanswered.len(), ..score };
    accuracy.metric = Some("top-1".into());
    accuracy.value = Some(score.accuracy());
    accuracy.target = target;
    accuracy.correct = Some(score.correct as u64);
    accuracy.scored = Some(score.total as u64);
    accuracy.malformed = Some(score.malformed as u64);
    (score.malformed > 0).then(|| {
        format!(
            "{} of {} answers have no class, because their scores contain NaN, are missing or are those of \
             several samples; they count as wrong.",
            score.malformed,
            score.total - unanswered.len()
        )
    })
}

/// Returns a note if the same answers in a random order could be right at least as often. The accuracy then
/// does not show that labels and samples belong together.
fn by_chance(accuracy: &Accuracy, classes: &[i64], labels: &[i64]) -> Option<String> {
    /// Distance from the mean that chance hardly explains, in standard deviations.
    const CLEAR: f64 = 2.33;
    let (correct, all) = (accuracy.correct?, labels.len() as u64);
    let Chance { mean, deviation } = Chance::new(classes, labels);
    let is_as_good = accuracy.scored == Some(all) && correct as f64 <= mean + CLEAR * deviation;
    is_as_good.then(|| {
        let percent = 100.0 * mean / all as f64;
        format!(
            "The same answers in a random order could be right at least as often by chance \
             ({percent:.2} % on average), so the accuracy does not show that the model distinguishes \
             the samples, or that they belong to their labels."
        )
    })
}

/// Sets the number of texts that equal their references, ignoring surrounding white space, of all samples
/// with a reference.
fn by_references<'a>(
    accuracy: &mut Accuracy,
    answers: impl IntoIterator<Item = (SampleIndex, &'a [u8])>,
    unanswered: &[SampleIndex],
    references: &[Option<String>],
    target: Option<f64>,
) {
    let has_reference =
        |index: &&SampleIndex| matches!(references.get(**index as usize), Some(Some(_)));
    let (mut correct, mut scored) = (0, unanswered.iter().filter(has_reference).count() as u64);
    let mut seen = HashSet::new();
    for (index, data) in answers {
        let Some(Some(reference)) = references.get(index as usize) else { continue };
        if seen.insert(index) {
            scored += 1;
            correct += u64::from(data.trim_ascii() == reference.trim().as_bytes());
        }
    }
    accuracy.metric = Some("exact match".into());
    accuracy.value = Some(if scored == 0 { 0.0 } else { correct as f64 / scored as f64 });
    accuracy.target = target;
    accuracy.correct = Some(correct);
    accuracy.scored = Some(scored);
    accuracy.malformed = Some(0);
}

/// Sets the scores of a method, with further figures that miss their targets. Returns problems of
/// the answers. `unanswered` is the number of samples without an answer.
fn by_method(
    accuracy: &mut Accuracy,
    judge: &Judge,
    targets: &[&Target],
    scored: &ScoreReport,
    unanswered: u64,
    asked: Option<f64>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    let per_one = if judge.unit == Unit::Percent { 100.0 } else { 1.0 };
    accuracy.unit = match judge.unit {
        Unit::Percent | Unit::Share => QualityUnit::Share,
        Unit::Points => QualityUnit::Points,
    };
    let own = targets.iter().position(|target| target.metric == judge.metric);
    let bound = own.map(|at| targets[at].bound);
    accuracy.lower_is_better = matches!(bound, Some(Bound::AtMost(_)));
    let bound = bound.map(|bound| match bound {
        Bound::AtLeast(bound) | Bound::AtMost(bound) => bound / per_one,
    });
    accuracy.metric = Some(judge.metric.clone());
    accuracy.target = asked.or(bound);
    // Samples without an answer count as wrong where malformed answers do.
    let failed = if scored.counts_malformed { unanswered } else { 0 };
    accuracy.scored = Some((scored.samples + failed).saturating_sub(scored.excluded));
    accuracy.excluded = scored.excluded;
    accuracy.malformed = Some(scored.malformed);
    // If malformed answers do not count as wrong, figures exclude them and samples without an answer.
    let counts = scored.malformed + unanswered == 0 || scored.counts_malformed;
    let figure = scored.scores.figure(&judge.metric).filter(|value| value.is_finite());
    accuracy.value = figure.filter(|_| counts).map(|value| value / per_one);
    if let (Some(first), true) = (scored.first_malformed.first(), scored.malformed > 0) {
        reasons.push(format!(
            "{} of the task, the first to sample {}: {}.",
            counted(
                scored.malformed,
                "answer is not a valid answer",
                "answers are not valid answers"
            ),
            first.index,
            first.problem
        ));
    }
    if let Some(missing) =
        scored.references.map(|all| all.saturating_sub(scored.samples + failed)).filter(|n| *n > 0)
    {
        let missing = counted(missing, "reference has", "references have");
        reasons.push(format!("{missing} no answer."));
    }
    if let (Some(figure), true) = (figure, unanswered > 0 && !counts) {
        reasons.push(format!(
            "{} is {figure:.4} over {}. It is not compared with its target, because {} no answer.",
            judge.metric,
            counted(scored.samples, "answered sample", "answered samples"),
            counted(unanswered, "sample has", "samples have")
        ));
        return reasons;
    }
    if accuracy.value.is_none() {
        reasons.push(format!("These answers give no {}.", judge.metric));
    }
    // The first bound of the deciding figure is its target.
    let others = targets.iter().enumerate().filter(|(at, _)| own != Some(*at));
    for (_, Target { metric, bound, .. }) in others {
        let Some(value) = scored.scores.figure(metric).filter(|value| value.is_finite()) else {
            reasons.push(format!("These answers give no {metric}."));
            continue;
        };
        let missed = match *bound {
            Bound::AtLeast(least) if value < least => Some(("below the lower limit", least)),
            Bound::AtMost(most) if value > most => Some(("above the upper limit", most)),
            _ => None,
        };
        if let Some((side, bound)) = missed {
            accuracy.short_of.push(format!("{metric} of {value:.4} is {side}, {bound:.4}."));
        }
    }
    reasons
}

/// Returns the reason why a figure that leaves out samples decides nothing.
fn not_compared(accuracy: &Accuracy) -> String {
    let compared = accuracy.scored.unwrap_or(0);
    let were = if compared == 1 { "was" } else { "were" };
    format!(
        "{compared} of {} samples {were} compared; the references of the others are all 0, infinite or \
         NaN. Check the model and its inputs, or accept this with --accuracy-target.",
        compared + accuracy.excluded
    )
}

fn short_of(accuracy: &Accuracy) -> String {
    let (value, target) = (accuracy.value.unwrap_or(0.0), accuracy.target.unwrap_or(0.0));
    let side = if accuracy.lower_is_better { "above" } else { "below" };
    let name = match accuracy.metric.as_deref() {
        None | Some("top-1") => "accuracy",
        Some(metric) => metric,
    };
    format!(
        "The {name} of {} is {side} the target of {}; check that the samples are prepared as in \
         training.",
        accuracy.shown(value),
        accuracy.shown(target)
    )
}

#[cfg(test)]
mod tests {
    use dyno_metrics::{AnswerError, Figure, Inputs, MalformedAnswer, Method, Scores};

    use super::*;

    fn judged(
        (metric, unit): (&str, Unit),
        bounds: &[(&str, Bound)],
        scored: &ScoreReport,
    ) -> (Accuracy, Vec<String>) {
        let target = |(metric, bound): &(&str, Bound)| Target {
            metric: (*metric).to_owned(),
            bound: *bound,
            scenario: None,
        };
        let judge = Judge {
            method: Method::named("top1").unwrap(),
            inputs: Inputs::default(),
            metric: metric.into(),
            unit,
            targets: bounds.iter().map(target).collect(),
            networks: None,
        };
        let mut accuracy = Accuracy { answered: 4, ..Accuracy::default() };
        let targets: Vec<&Target> = judge.targets.iter().collect();
        let reasons = by_method(&mut accuracy, &judge, &targets, scored, 0, None);
        (accuracy, reasons)
    }

    fn found(figures: &[(&'static str, f64)]) -> ScoreReport {
        let figures = figures.iter().map(|&(metric, value)| Figure { metric, value }).collect();
        let scores = Scores { figures, ..Scores::default() };
        ScoreReport {
            scores,
            samples: 4,
            references: Some(4),
            counts_malformed: true,
            ..ScoreReport::default()
        }
    }

    #[test]
    fn percentages_become_shares_and_errors_are_better_the_lower_they_are() {
        let per = ("per", Unit::Percent);
        let (accuracy, reasons) =
            judged(per, &[("per", Bound::AtMost(10.0))], &found(&[("per", 9.5)]));
        assert_eq!((accuracy.value, accuracy.target), (Some(0.095), Some(0.1)));
        assert_eq!((accuracy.is_reached(), accuracy.share()), (Some(true), None));
        assert!(reasons.is_empty(), "{reasons:?}");
        let (accuracy, _) = judged(per, &[("per", Bound::AtMost(9.0))], &found(&[("per", 9.5)]));
        assert_eq!(accuracy.is_reached(), Some(false));
        assert!(short_of(&accuracy).starts_with("The per of 9.50 % is above the target of 9.00 %"));
    }

    #[test]
    fn every_bound_of_a_benchmark_is_held() {
        let clip = ("CLIP", Unit::Points);
        let bounds = [("CLIP", Bound::AtLeast(31.0)), ("FID", Bound::AtMost(24.0))];
        let (accuracy, reasons) = judged(clip, &bounds, &found(&[("CLIP", 31.5), ("FID", 25.0)]));
        assert_eq!((accuracy.value, accuracy.unit), (Some(31.5), QualityUnit::Points));
        let short_of = ["FID of 25.0000 is above the upper limit, 24.0000."];
        assert_eq!((reasons, &accuracy.short_of[..]), (vec![], &short_of.map(str::to_owned)[..]));
        // A figure between two bounds.
        let bounds = [("CLIP", Bound::AtLeast(31.0)), ("CLIP", Bound::AtMost(31.2))];
        let (accuracy, _) = judged(clip, &bounds, &found(&[("CLIP", 31.5)]));
        assert_eq!(accuracy.short_of, ["CLIP of 31.5000 is above the upper limit, 31.2000."]);
        let bounds = [("CLIP", Bound::AtLeast(31.0)), ("FID", Bound::AtMost(24.0))];
        let undefined = [("CLIP", 31.5), ("FID", f64::NAN)];
        for figures in [&undefined[..1], &undefined] {
            let (_, reasons) = judged(clip, &bounds, &found(figures));
            assert_eq!(reasons, ["These answers give no FID."], "{figures:?}");
        }
    }

    #[test]
    fn answers_without_a_comparable_reference_are_not_scored() {
        let scored = ScoreReport { excluded: 3, ..found(&[("cosine", 100.0)]) };
        let (accuracy, reasons) = judged(("cosine", Unit::Percent), &[], &scored);
        assert_eq!((accuracy.scored, accuracy.excluded, reasons.len()), (Some(1), 3, 0));
        let text = accuracy.text().unwrap();
        assert_eq!(text, "cosine 100.00 % (1 of 4 samples compared)");
        assert!(not_compared(&accuracy).starts_with("1 of 4 samples was compared;"));
    }

    /// 50 of 1,000 samples are of a rare class. One class for every sample would be right for 950 of them.
    #[test]
    fn a_model_that_finds_a_rare_class_is_not_taken_for_chance() {
        let labels: Vec<i64> = (0..1_000).map(|at| i64::from(at < 50)).collect();
        let note = |classes: &[i64]| {
            let correct =
                classes.iter().zip(&labels).filter(|(class, label)| class == label).count();
            let (correct, scored) = (Some(correct as u64), Some(1_000));
            by_chance(&Accuracy { correct, scored, ..Accuracy::default() }, classes, &labels)
        };
        // 30 of the rare ones and 30 others: right for 950, too, but for 896 on average in a random order.
        let found: Vec<i64> = (0..1_000).map(|at| i64::from((20..80).contains(&at))).collect();
        assert_eq!(note(&found), None);
        let text = note(&[0; 1_000]).unwrap();
        assert!(text.contains("(95.00 % on average)"), "{text}");
        // Labels of other samples.
        let shifted: Vec<i64> = (0..1_000).map(|at| i64::from((300..350).contains(&at))).collect();
        assert!(note(&shifted).is_some());
        // Right for none, but for half of them on average in a random order.
        let labels: Vec<i64> = (0..1_000).map(|at| at % 2).collect();
        let scored = Accuracy { correct: Some(0), scored: Some(1_000), ..Accuracy::default() };
        let swapped: Vec<i64> = labels.iter().map(|label| 1 - label).collect();
        let text = by_chance(&scored, &swapped, &labels).unwrap();
        assert!(text.contains("at least as often by chance (50.00 % on average)"), "{text}");
    }

    #[test]
    fn samples_without_an_answer_have_no_right_class_or_text() {
        let mut accuracy = Accuracy::default();
        let score = top1::Score { correct: 799, total: 928, malformed: 0 };
        assert_eq!(by_labels(&mut accuracy, score, &[7; 72], Some(0.86)), None);
        assert_eq!((accuracy.value, accuracy.is_reached()), (Some(0.799), Some(false)));
        assert_eq!(accuracy.text().as_deref(), Some("top-1 79.90 % (799 of 1000)"));
        let references: [Option<String>; 4] =
            [Some("a".into()), Some("b".into()), None, Some("d".into())];
        by_references(&mut accuracy, [(0, &b"a "[..])], &[1, 2, 3], &references, None);
        assert_eq!((accuracy.correct, accuracy.scored), (Some(1), Some(3)));
    }

    #[test]
    fn samples_without_an_answer_are_wrong_or_leave_the_target_open() {
        let judge = Judge {
            method: Method::named("top1").unwrap(),
            inputs: Inputs::default(),
            metric: "acc".into(),
            unit: Unit::Percent,
            targets: Vec::new(),
            networks: None,
        };
        for (counts_malformed, expected) in [(true, (Some(0.6), Some(4))), (false, (None, Some(3)))]
        {
            let scored = ScoreReport { samples: 3, counts_malformed, ..found(&[("acc", 60.0)]) };
            let mut accuracy = Accuracy::default();
            let reasons = by_method(&mut accuracy, &judge, &[], &scored, 1, Some(0.5));
            assert_eq!((accuracy.value, accuracy.scored), expected);
            assert_eq!(accuracy.is_reached(), counts_malformed.then_some(true));
            let told = reasons.iter().any(|text| text.contains("over 3 answered samples"));
            assert_eq!(told, !counts_malformed, "{reasons:?}");
        }
    }

    #[test]
    fn figures_that_leave_answers_out_count_for_nothing() {
        let problem = AnswerError::Length { expected: "8".into(), found: 3 };
        let scored = ScoreReport {
            malformed: 1,
            first_malformed: vec![MalformedAnswer { line: 1, index: 7, problem }],
            counts_malformed: false,
            samples: 3,
            ..found(&[("acc", 80.0)])
        };
        let (accuracy, reasons) = judged(("acc", Unit::Percent), &[], &scored);
        assert_eq!((accuracy.value, accuracy.malformed), (None, Some(1)));
        assert_eq!(
            reasons,
            [
                "1 answer is not a valid answer of the task, the first to sample 7: expected 8 bytes, \
                 found 3.",
                "1 reference has no answer.",
                "These answers give no acc."
            ]
        );
    }
}
