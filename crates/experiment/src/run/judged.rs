//! What decides the verdict of a test besides the load generator: its early end, its backlog, and the
//! requirements of the run. A repetition is VALID only if each of its runs is.

use dyno_loadgen::run::{RunLog, TestLog};
use dyno_loadgen::settings::TestMode;
use dyno_results::summary::{self, Failing, SaturationFinding};

use super::seen;
use crate::options::{FailureRule, Profile, Requirement, RunOptions};
use crate::outcome::{Troubles, judge_failures};
use crate::requirement::{self, JudgedRun};
use crate::run::PreparedRun;
use crate::test::PlannedTest;

/// How a test ended, and what decides about its backlog and its failures.
#[derive(Clone, Copy)]
pub(super) struct Ending<'a> {
    pub failing: Option<&'a Failing>,
    pub saturated: Option<&'a SaturationFinding>,
    pub backlog: BacklogCheck,
    pub troubles: &'a Troubles,
    pub failures: FailureRule,
}

/// What a backlog that still grows at the end does to the verdict: it leaves it undecided, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BacklogCheck {
    /// The load varies by itself.
    Never,
    /// The rules of MLPerf alone decide; a note states the growth.
    Noted,
    /// In any case, as the first reason after failures.
    Always,
    /// If the test would be VALID otherwise.
    IfValid,
}

impl BacklogCheck {
    /// Returns the check of a test. `--stop-on-saturation off` does not change it: that only lets the
    /// run go on.
    pub(super) fn of_test(prepared: &PreparedRun, test: &PlannedTest) -> Self {
        let options = &prepared.options;
        let is_of_rules = options.profile() == Profile::Rules || options.rules.is_some();
        if !test.has_one_rate() || options.run.stages.is_some() {
            Self::Never
        } else if test.stops_saturated {
            Self::Always
        } else if is_of_rules {
            Self::Noted
        } else if prepared.system.remote().is_some() {
            Self::Always
        } else {
            Self::IfValid
        }
    }
}

impl Ending<'_> {
    /// Adds the goodput, the early end, the backlog and the requirements to the summary of a tenant.
    pub(super) fn judge(
        self,
        tenant: &mut summary::Test,
        log: &TestLog,
        test: &PlannedTest,
        options: &RunOptions,
    ) {
        let runs = judged_runs(log);
        if let (Some(limits), Some(metrics), Some(shown)) =
            (options.goodput, &mut tenant.metrics, runs.first())
        {
            let counted_over = metrics.counted_over();
            add_goodput(metrics, limits.goodput(shown.record, counted_over));
        }
        if let Some(failing) = self.failing {
            tenant.end_failing(failing);
        }
        if let Some(saturated) = self.saturated {
            tenant.end_saturated(saturated);
        } else {
            let has_reasons = !tenant.reasons.is_empty();
            let judges_growth = match self.backlog {
                BacklogCheck::Never | BacklogCheck::Noted => false,
                BacklogCheck::Always => true,
                BacklogCheck::IfValid => !has_reasons,
            };
            seen::judge_backlog(tenant, &runs, judges_growth);
            if self.backlog == BacklogCheck::Noted {
                seen::note_backlog(tenant, &runs);
            }
        }
        if test.mode == TestMode::PerformanceOnly {
            let own = |bound: &&Requirement| bound.is_for(test.scenario);
            let own: Vec<&Requirement> = options.requirements.iter().filter(own).collect();
            requirement::judge(tenant, &own, &runs);
            for run in &runs {
                judge_failures(tenant, run, self.troubles, self.failures);
            }
        }
    }
}

/// Returns the runs of a log that decide the verdict of a test: first the one whose figures are shown,
/// then the others of its repetition.
fn judged_runs(log: &TestLog) -> Vec<JudgedRun<'_>> {
    let Some(shown) = log.result().or_else(|| log.runs().last()) else { return Vec::new() };
    let mut runs = vec![JudgedRun { record: &shown.record, name: None }];
    let repeated = log.search.as_ref().map_or(0..0, |search| search.repeated.clone());
    let count = repeated.len();
    let all: Vec<&RunLog> = log.runs().filter(|run| !run.accuracy).collect();
    let others = (1..).zip(all.into_iter().skip(repeated.start).take(count));
    let others = others.filter(|(_, run)| !std::ptr::eq::<RunLog>(*run, shown));
    runs.extend(others.map(|(number, run): (usize, _)| {
        let name = Some(format!("run {number} of {count}"));
        JudgedRun { record: &run.record, name }
    }));
    runs
}

/// Returns a note on which run the client and the machine were observed in; `None` for one run, and
/// without `observers`.
pub(super) fn observed_run(test: &PlannedTest, observers: usize) -> Option<String> {
    let runs = test.repetition_runs();
    (runs > 1 && observers > 0).then(|| {
        "Delays of the client and of its machine are those of the last run; they were not judged in \
         the runs before it."
            .into()
    })
}

/// Sets the goodput within the given limits. A run has one goodput, so that this replaces the
/// goodput within the bounds.
fn add_goodput(metrics: &mut summary::Metrics, goodput: summary::metrics::Goodput) {
    if metrics.rates.goodput_samples_per_s.is_some() {
        metrics.rates.goodput_samples_per_s = goodput.samples_per_s;
    }
    metrics.goodput = Some(goodput);
}
