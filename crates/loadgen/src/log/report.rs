//! What is said of a performance run: the input of the summary and of the last
//! part of the detail log.

use crate::metrics::{Definitions, Metrics};
use crate::run::{RunLog, TestLog};
use crate::verdict::{EarlyStoppingResult, Finding, Judgement, Verdict, Violation, judge};

/// A performance run that is reported, with its numbers and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Report<'a> {
    /// The run.
    pub run: &'a RunLog,
    /// Its numbers.
    pub metrics: Metrics,
    /// Whether it counts.
    pub judgement: Judgement,
}

/// One report for each [`crate::run::Event::Result`] of a test, in order, by the reference's
/// definitions. Sorts all latencies: compute it once and hand it to
/// [`super::LogFiles::write_reports`].
#[must_use]
pub fn reports(log: &TestLog) -> Vec<Report<'_>> {
    reports_by(log, Definitions::Reference, Definitions::Reference)
}

/// The same reports with figures and verdicts by these definitions, for readers that are not of
/// LoadGen's logs. The verdict of a run under the rules needs the reference's.
#[must_use]
pub fn reports_by(log: &TestLog, figures: Definitions, judged: Definitions) -> Vec<Report<'_>> {
    let report = |run| {
        let run: &RunLog = run;
        let metrics = Metrics::with_definitions(figures, &run.record, &run.plan);
        let judgement = if judged == figures || !run.plan.measures_tokens() {
            judge(&metrics, &run.plan, run.ended)
        } else {
            let metrics = Metrics::with_definitions(judged, &run.record, &run.plan);
            judge(&metrics, &run.plan, run.ended)
        };
        Report { run, metrics, judgement }
    };
    (0..log.events.len()).filter_map(|at| log.run_of_result(at)).map(report).collect()
}

impl Report<'_> {
    /// Whether the run counts.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.judgement.verdict == Verdict::Valid
    }

    /// Advice on each violation for which the reference has no condition: what
    /// only Dyno judges.
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

    /// The kinds and texts of early stopping, in order.
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

/// What an early-stopping text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyStoppingKind {
    Latency,
    FirstToken,
    TimePerOutputToken,
}
