//! Reports of performance runs: the input of the summary and of the last part of the detail log.

use crate::metrics::{Definitions, Metrics};
use crate::run::{RunLog, TestLog};
use crate::verdict::{EarlyStoppingResult, Finding, Judgement, Verdict, Violation, judge};

/// Report of a performance run: its metrics and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Report<'a> {
    /// The run.
    pub run: &'a RunLog,
    /// Metrics of the run.
    pub metrics: Metrics,
    /// Verdict on the run.
    pub judgement: Judgement,
}

/// Returns one report for each [`crate::run::Event::Result`] of a test, in order, by the
/// definitions of the reference. This orders all latencies: compute the reports once and pass them
/// to [`super::LogFiles::write_reports`].
pub fn reports(log: &TestLog) -> Vec<Report<'_>> {
    reports_by(log, Definitions::Reference, Definitions::Reference)
}

/// Returns the reports with metrics and verdicts by these definitions, for outputs other than the
/// logs of LoadGen. The verdict of a run under the rules needs the definitions of the reference. If the
/// two differ, verdicts count only the tokens that came in the time of their sample, as in
/// [`Record::with_timed_tokens`](crate::record::Record::with_timed_tokens).
pub fn reports_by(log: &TestLog, figures: Definitions, judged: Definitions) -> Vec<Report<'_>> {
    let report = |run| {
        let run: &RunLog = run;
        let metrics = Metrics::with_definitions(figures, &run.record, &run.plan);
        let judgement = if judged == figures || !run.plan.measures_tokens() {
            judge(&metrics, &run.plan, run.ended)
        } else {
            // Tokens that came in another time must not make a bound seem kept.
            let timed = run.record.with_timed_tokens();
            let record = timed.as_ref().unwrap_or(&run.record);
            let metrics = Metrics::with_definitions(judged, record, &run.plan);
            judge(&metrics, &run.plan, run.ended)
        };
        Report { run, metrics, judgement }
    };
    (0..log.events.len()).filter_map(|at| log.run_of_result(at)).map(report).collect()
}

impl Report<'_> {
    /// Returns whether the run is VALID.
    pub fn is_valid(&self) -> bool {
        self.judgement.verdict == Verdict::Valid
    }

    /// Returns advice on violations of conditions that the reference does not have.
    pub(super) fn own_advice(&self) -> impl Iterator<Item = String> {
        let violations = match &self.judgement.verdict {
            Verdict::Valid => &[][..],
            Verdict::Invalid(violations) => violations,
        };
        violations
            .iter()
            .filter(|v| {
                v.recommendation().is_none() && !matches!(v, Violation::EarlyStopping { .. })
            })
            .map(ToString::to_string)
    }

    /// Returns the kinds and texts of early stopping, in order.
    pub(super) fn early_stopping_texts(&self) -> Vec<(EarlyStoppingKind, String)> {
        match &self.judgement.early_stopping {
            EarlyStoppingResult::None if self.run.plan.measures_tokens() => {
                vec![
                    (EarlyStoppingKind::FirstToken, String::new()),
                    (EarlyStoppingKind::TimePerOutputToken, String::new()),
                ]
            }
            EarlyStoppingResult::None => vec![(EarlyStoppingKind::Latency, String::new())],
            EarlyStoppingResult::Latency(finding) => {
                vec![(EarlyStoppingKind::Latency, finding.text())]
            }
            EarlyStoppingResult::Tokens { first_token, time_per_output_token } => vec![
                (
                    EarlyStoppingKind::FirstToken,
                    first_token.as_ref().map(Finding::text).unwrap_or_default(),
                ),
                (EarlyStoppingKind::TimePerOutputToken, time_per_output_token.text()),
            ],
        }
    }
}

/// Kind of time of an early-stopping text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyStoppingKind {
    Latency,
    FirstToken,
    TimePerOutputToken,
}
