//! One test of an experiment, before it is played.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::message::Message;
use dyno_loadgen::plan::Plan;
use dyno_loadgen::run::RecordRetention;
use dyno_loadgen::settings::{Scenario, Settings, TestMode};

/// One test: a single measurement of a system.
#[derive(Debug, Clone)]
pub struct PlannedTest {
    /// Scenario of all tenants.
    pub scenario: Scenario,
    /// Mode of all tenants.
    pub mode: TestMode,
    /// Tenants, at least one.
    pub tenants: Vec<TestTenant>,
    /// What is kept of the records of its runs.
    pub keep: RecordRetention,
    /// Whether it ends when most answers fail, see `--fail-fast`. In virtual time it does not,
    /// because simulated failures are intended.
    pub fails_fast: bool,
    /// Whether it ends when its queue grows without bound, see `--stop-on-saturation`. This applies to
    /// a single run at a rate, in real time and from this process.
    pub stops_saturated: bool,
    /// Whether the metrics pages of servers are read.
    pub reads_metrics: bool,
}

/// One tenant's part of a test.
#[derive(Debug, Clone)]
pub struct TestTenant {
    /// Name; `None` for a single tenant without a name.
    pub name: Option<String>,
    /// Settings of the tenant.
    pub settings: Settings,
    /// Plan that follows from the settings.
    pub plan: Plan,
    /// Messages on the settings for the log.
    pub messages: Vec<Message>,
}

impl PlannedTest {
    /// Returns a title such as `Server performance`.
    pub fn title(&self) -> String {
        format!("{} {}", self.scenario, dyno_results::summary::mode_name(self.mode))
    }

    /// Returns the expected duration, ns, if each run of a repetition is VALID. The length of an
    /// accuracy run cannot be estimated.
    pub fn expected(&self) -> Nanos {
        let of = |tenant: &TestTenant| match (self.mode, self.scenario) {
            (TestMode::AccuracyOnly, _) => 0,
            _ => tenant.plan.min_duration.saturating_add(tenant.plan.ramp),
        };
        let one = self.tenants.iter().map(of).max().unwrap_or(0);
        one.saturating_mul(self.repetition_runs())
    }

    /// Returns the length of the ramp before the measured part, ns; 0 without one. All tenants have the
    /// same.
    pub fn ramp(&self) -> Nanos {
        self.tenants[0].plan.ramp
    }

    /// Returns the number of runs of a repetition; 1 for other modes than performance.
    pub(crate) fn repetition_runs(&self) -> u64 {
        match self.mode {
            TestMode::AccuracyOnly | TestMode::FindPeakPerformance => 1,
            TestMode::PerformanceOnly | TestMode::SubmissionRun => {
                u64::from(self.tenants[0].plan.repetition.runs())
            }
        }
    }
}
