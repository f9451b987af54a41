//! One test of an experiment, before it is played.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::message::Message;
use dyno_loadgen::plan::Plan;
use dyno_loadgen::run::RecordRetention;
use dyno_loadgen::settings::{Scenario, Settings, TestMode};

/// One test: what is measured of a system in one go.
#[derive(Debug, Clone)]
pub struct Test {
    /// Of all tenants.
    pub scenario: Scenario,
    /// Of all tenants.
    pub mode: TestMode,
    /// At least one.
    pub tenants: Vec<TestTenant>,
    /// Of the records of its runs.
    pub keep: RecordRetention,
    /// Whether it ends when most answers fail, see `--fail-fast`. In virtual time it
    /// does not: there the failures are what was asked for.
    pub fails_fast: bool,
}

/// One tenant's part of a test.
#[derive(Debug, Clone)]
pub struct TestTenant {
    /// None if it is the only one and has no name.
    pub name: Option<String>,
    /// What was asked for.
    pub settings: Settings,
    /// What that means.
    pub plan: Plan,
    /// What the log is told of the settings.
    pub messages: Vec<Message>,
}

impl Test {
    /// Such as `Server performance`.
    pub fn title(&self) -> String {
        format!("{} {}", self.scenario, dyno_results::summary::mode_name(self.mode))
    }

    /// About how long it lasts, ns, if each run of a repetition is VALID. An
    /// accuracy run's length is the system's secret.
    pub fn expected(&self) -> Nanos {
        let of = |tenant: &TestTenant| match (self.mode, self.scenario) {
            (TestMode::AccuracyOnly, _) => 0,
            _ => tenant.plan.min_duration,
        };
        let one = self.tenants.iter().map(of).max().unwrap_or(0);
        one.saturating_mul(self.repetition_runs())
    }

    /// Runs that a repetition asks for, if it is one of performance.
    pub(crate) fn repetition_runs(&self) -> u64 {
        match self.mode {
            TestMode::AccuracyOnly | TestMode::FindPeakPerformance => 1,
            TestMode::PerformanceOnly | TestMode::SubmissionRun => {
                u64::from(self.tenants[0].plan.repetition.runs())
            }
        }
    }
}
