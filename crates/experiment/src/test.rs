//! One test of an experiment, before it is played.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::message::Message;
use dyno_loadgen::plan::{Load, Plan, SampleChoice};
use dyno_loadgen::run::RecordRetention;
use dyno_loadgen::settings::{Arrivals, Scenario, Settings, TestMode};

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
            _ => {
                let plan = &tenant.plan;
                plan.min_duration.max(last_recorded(plan)).saturating_add(plan.ramp)
            }
        };
        let one = self.tenants.iter().map(of).max().unwrap_or(0);
        one.saturating_mul(self.repetition_runs())
    }

    /// Returns whether queries arrive at recorded times or in stages. Such a load has a length of its
    /// own, and a part of it is another load.
    pub fn is_recorded(&self) -> bool {
        let mut plans = self.tenants.iter().map(|tenant| &tenant.plan);
        plans.any(|plan| recorded_times(plan).is_some())
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

/// Returns the recorded times of a load; `None` if queries arrive otherwise.
fn recorded_times(plan: &Plan) -> Option<&[Nanos]> {
    match &plan.load {
        Load::Server(server) => match &server.arrivals {
            Arrivals::Replay(times) => Some(&times[..]),
            _ => None,
        },
        _ => None,
    }
}

/// Returns when the last query of a run at recorded times arrives, ns, if no limit ends the run
/// before; 0 for other loads, and where the number of queries is unknown.
pub(crate) fn last_recorded(plan: &Plan) -> Nanos {
    let Some(times) = recorded_times(plan) else { return 0 };
    let is_once = plan.choice == SampleChoice::Unique;
    let queries = match &plan.sessions {
        // The times are those of first turns, and a limit counts all turns.
        Some(sessions) if is_once && plan.max_query_count == 0 => sessions.len() as u64,
        Some(_) => 0,
        None if is_once => plan.performance_sample_count / plan.samples_per_query.max(1),
        None => plan.min_query_count,
    };
    let queries = match plan.max_query_count {
        0 => queries,
        most => queries.min(most),
    };
    let queries = times.len().min(usize::try_from(queries).unwrap_or(usize::MAX));
    let last = queries.checked_sub(1).map_or(0, |last| times[last]);
    match plan.max_duration {
        0 => last,
        most => last.min(most),
    }
}
