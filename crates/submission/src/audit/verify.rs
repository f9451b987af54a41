//! Verdict on an audit, from its logs alone.

use super::evidence::{Evidence, RunFolder};
use super::plan::{AuditPlan, PlannedRun};
use super::quality;
use super::reason::{Reason, Side};
use super::{AuditResult, AuditTest, Part, Verdict, data, entropy, score, selection, text, tokens};
use dyno_loadgen::log::read::Value;
use dyno_rules::Version;

/// Judges an audit by the logs of its runs. Missing and unreadable logs are reasons to fail.
#[must_use]
pub fn verify(plan: &AuditPlan, evidence: &Evidence) -> AuditResult {
    let mut result = judge(plan, evidence);
    explain_invalid_runs(plan, evidence, &mut result);
    result
}

/// Adds the reasons that the logs of INVALID runs state.
fn explain_invalid_runs(plan: &AuditPlan, evidence: &Evidence, result: &mut AuditResult) {
    let reference = match plan.test {
        AuditTest::Test04Pair => evidence.audited.first(),
        _ => evidence.performance.as_ref(),
    };
    let reasons = result.corrected();
    for (side, run) in [(Side::Reference, reference), (Side::Audit, evidence.audited.last())] {
        let detail = run.and_then(|run| run.detail().ok());
        let is_invalid = reasons.reasons().contains(&Reason::NotValid { side });
        let Some(detail) = detail.filter(|_| is_invalid) else { continue };
        let texts = detail.values("result_invalid_reason").filter_map(|value| match value {
            Value::Text(text) => Some(text.trim()),
            _ => None,
        });
        let why = texts.collect::<Vec<_>>().join(" ");
        if !why.is_empty() {
            result.notes.push(format!("The {side} run is INVALID by its log: {why}"));
        }
    }
}

fn judge(plan: &AuditPlan, evidence: &Evidence) -> AuditResult {
    let mut result = AuditResult { test: plan.test, parts: Vec::new(), notes: Vec::new() };
    let runs: Vec<(&PlannedRun, &RunFolder)> = plan.runs.iter().zip(&evidence.audited).collect();
    let Some(&(run, audited)) = runs.last().filter(|_| runs.len() == plan.runs.len()) else {
        result.parts.push(missing("run of the audit", text::ACCURACY));
        return result;
    };
    // The official scripts do not check whether a run has the settings of the audit. The
    // comparison of scores here checks them as well.
    let wrong = || {
        let mut reasons = score::settings_of(run, audited).unwrap_or_else(|reason| vec![reason]);
        reasons.extend(selection::check(audited));
        reasons
    };
    match plan.test {
        AuditTest::Test01 => {
            result.parts.push(answers(plan, evidence, audited, &mut result.notes));
            scores(plan, run, evidence.performance.as_ref(), audited, &mut result);
        }
        AuditTest::Test03 | AuditTest::Test04 | AuditTest::Test05 => {
            scores(plan, run, evidence.performance.as_ref(), audited, &mut result);
        }
        AuditTest::Test04Pair => scores(plan, run, Some(runs[0].1), audited, &mut result),
        AuditTest::Test06 => {
            let log = audited.accuracy_path();
            let (element, end) = (evidence.element, evidence.end_of_text);
            let wrong = if audited.has_answers_alone() {
                result.notes.push(
                    "The log of the run that gave the answers is missing. The rules do not \
                     require it. Its settings are not judged."
                        .into(),
                );
                selection::check(audited)
            } else {
                wrong()
            };
            let notes = &mut result.notes;
            result.parts.push(tokens::consistency(&log, element, end, plan, wrong, notes));
        }
        AuditTest::Test07 => {
            let is_unique = run.settings.iter().any(|(key, _)| *key == "performance_issue_unique");
            let part = match distinct(audited) {
                Ok(logged) => {
                    // A run that draws samples may repeat them; `wrong` reports missing answers.
                    let all = is_unique.then(|| most_distinct(plan, audited));
                    let samples = evidence.samples.or(all).unwrap_or(1);
                    quality::high_enough(evidence.quality, plan, logged, samples, wrong())
                }
                Err(reason) => Part::failed("quality", text::ACCURACY, &reason),
            };
            result.parts.push(part);
        }
        AuditTest::Test08 => result.parts.push(match &evidence.accuracy {
            Some(accuracy) => entropy::compare(
                &accuracy.accuracy_path(),
                &audited.accuracy_path(),
                plan.tolerance,
                wrong(),
            ),
            None => missing("accuracy run", text::ACCURACY),
        }),
        AuditTest::Test09 => {
            let log = audited.accuracy_path();
            result.parts.push(tokens::length(&log, plan, evidence.samples, wrong()));
        }
    }
    result
}

fn missing(what: &'static str, path: &'static str) -> Part {
    Part::failed("evidence", path, &Reason::NotGiven { what })
}

fn scores(
    plan: &AuditPlan,
    run: &PlannedRun,
    reference: Option<&RunFolder>,
    audited: &RunFolder,
    result: &mut AuditResult,
) {
    match reference {
        Some(reference) => {
            let (part, notes) = score::compare(plan, run, reference, audited);
            result.parts.push(part);
            result.notes.extend(notes);
        }
        None => result.parts.push(missing("performance run", text::PERFORMANCE)),
    }
}

/// TEST01: compares the answers, and the qualities if answers differ.
fn answers(
    plan: &AuditPlan,
    evidence: &Evidence,
    audited: &RunFolder,
    notes: &mut Vec<String>,
) -> Part {
    let Some(accuracy) = &evidence.accuracy else {
        return missing("accuracy run", text::ACCURACY);
    };
    let needs_match = plan.round > Version::new(0, 5);
    let samples = accuracy.detail().ok().and_then(|detail| {
        let keys = ["effective_accuracy_sample_count", "qsl_reported_total_count"];
        keys.iter().find_map(|key| detail.whole(key).filter(|count| *count > 0))
    });
    let (reference, log) = (accuracy.accuracy_path(), audited.accuracy_path());
    let wrong = selection::check(audited);
    let element = evidence.element;
    let mut part = data::answers(&reference, &log, element, needs_match, samples, wrong);
    let is_passed = part.corrected.is_passed() && part.official.is_passed();
    let Some(qualities) = evidence.qualities.as_ref().filter(|_| !is_passed) else { return part };
    let close = quality::close(qualities, plan);
    // Equal quality excuses answers that differ, and nothing else.
    let differs = |reason: &Reason| matches!(reason, Reason::Answers { .. });
    for (verdict, instead) in
        [(&mut part.corrected, &close.corrected), (&mut part.official, &close.official)]
    {
        if verdict.reasons().iter().any(differs) {
            let others = verdict.reasons().iter().filter(|reason| !differs(reason));
            let reasons = others.chain(instead.reasons()).cloned().collect();
            if instead.is_passed() {
                *verdict = Verdict::from_reasons(reasons);
            } else if let Verdict::Failed(reasons) = verdict {
                reasons.extend(instead.reasons().iter().cloned());
            }
        }
    }
    part.figures.extend(close.figures);
    if close.corrected.is_passed() {
        notes.push(
            "Answers differ from the accuracy run with equal quality: the system is not \
             deterministic. A submission needs baseline_accuracy.txt and compliance_accuracy.txt."
                .into(),
        );
    }
    part
}

fn distinct(audited: &RunFolder) -> Result<u64, Reason> {
    let mut samples = std::collections::HashSet::new();
    data::read_entries(&audited.accuracy_path(), |entry| {
        samples.insert(entry.qsl_idx);
    })?;
    Ok(samples.len() as u64)
}

/// Returns the number of distinct samples that the run can log: a run that issues each sample
/// once is limited by the loaded samples.
fn most_distinct(plan: &AuditPlan, audited: &RunFolder) -> u64 {
    let detail = audited.detail().ok();
    let loaded = detail.and_then(|detail| detail.whole("effective_performance_sample_count"));
    plan.logged().min(loaded.unwrap_or(u64::MAX))
}
