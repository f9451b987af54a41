//! The load that repeated runs settled on. In v0.7 the load is lowered until five runs in a row are
//! VALID; in v0.5 the lowest of five runs counts. The runs of an audit are single runs at the load
//! of the submission.

use dyno_loadgen::settings::{Repetition, Scenario, Setting as _, TestMode};
use dyno_results::summary::{self, mode_name};

use crate::test::PlannedTest;

/// The loads of all scenarios that repeated runs settled on.
#[derive(Debug, Default)]
pub struct Loads(Vec<Load>);

#[derive(Debug)]
struct Load {
    scenario: String,
    repetition: String,
    /// The setting that imposes the load and its value, in scenarios that have a load.
    imposed: Option<(&'static str, String)>,
}

/// Returns whether any of the tests asks for a repetition.
pub fn is_repeated(tests: &[PlannedTest]) -> bool {
    let of = |test: &PlannedTest| test.tenants[0].plan.repetition != Repetition::Once;
    tests.iter().any(|test| test.mode == TestMode::PerformanceOnly && of(test))
}

impl Loads {
    /// Returns the loads that the runs of a submission settled on.
    pub fn from_tests(tests: &[summary::Test]) -> Self {
        let is_performance =
            |test: &&summary::Test| test.mode == mode_name(TestMode::PerformanceOnly);
        let load = |test: &summary::Test| {
            let plan = &test.plan;
            let imposed = if plan.interval_ns.is_some() {
                Some(("multi_stream_samples_per_query", plan.samples_per_query.to_string()))
            } else if test.scenario == Scenario::Server.name() {
                Some(("server_target_qps", plan.target_qps.to_string()))
            } else {
                None
            };
            let repetition = plan.repetition.clone()?;
            Some(Load { scenario: test.scenario.clone(), repetition, imposed })
        };
        Self(tests.iter().filter(is_performance).filter_map(load).collect())
    }

    fn get(&self, scenario: Scenario) -> Option<&Load> {
        self.0.iter().find(|load| load.scenario == scenario.name())
    }

    /// Returns the settings of a single run at this load.
    pub fn settings(&self, scenario: Scenario) -> Vec<(&'static str, String)> {
        let Some(load) = self.get(scenario) else { return Vec::new() };
        let once = ("repetition", Repetition::Once.show());
        [once].into_iter().chain(load.imposed.clone()).collect()
    }

    /// Returns a note for readers of a verdict about the load.
    pub fn note(&self, scenario: Scenario) -> Option<String> {
        let load = self.get(scenario)?;
        let at = match &load.imposed {
            Some(("server_target_qps", qps)) => {
                format!(", at {qps} queries/s, the rate of the submission")
            }
            Some((_, streams)) => format!(", with {streams} streams, as in the submission"),
            None => String::new(),
        };
        let rule = &load.repetition;
        Some(format!("The run of the submission was repeated ({rule}); the audit ran once{at}."))
    }
}
