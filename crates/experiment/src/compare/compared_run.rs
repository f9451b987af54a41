//! A run that is compared, and its tests. [`source`](super::source) reads them.

use std::collections::BTreeMap;

use dyno_loadgen::compare;
use dyno_loadgen::settings::Scenario;
use dyno_results::foreign::Figures;
use dyno_results::records::Records;
use dyno_results::summary::{self, Accuracy, State};

use super::conditions::Conditions;

/// A run that is compared.
#[derive(Debug, Clone)]
pub struct ComparedRun {
    /// Path of the run.
    pub label: String,
    /// Specification of the system.
    pub system: String,
    /// Kind of time: `real` or `virtual`.
    pub time: String,
    /// Time of the start in UTC; empty if unknown.
    pub started_at: String,
    /// `release` or `debug`, with the version of Dyno.
    pub build: String,
    /// Processor and cores.
    pub machine: String,
    /// Whether it is the result of another tool.
    pub is_foreign: bool,
    /// Given options and settings by name.
    pub given: BTreeMap<String, String>,
    /// Performance tests of the run.
    pub tests: Vec<ComparedTest>,
    /// Remarks that readers need to interpret the figures.
    pub remarks: Vec<String>,
}

/// A performance test of a compared run.
#[derive(Debug, Clone)]
pub struct ComparedTest {
    /// Conditions of the test.
    pub conditions: Conditions,
    /// How the run ended.
    pub state: State,
    /// Why the test is INVALID, besides failures and missed requirements; empty if nothing else makes it
    /// INVALID.
    pub invalid: Vec<String>,
    /// Reasons of missed requirements that are judged over all slices of a sliced run.
    pub missed: Vec<String>,
    /// Requirements of the test, with the results of the whole run or of its first slice.
    pub requirements: Vec<summary::Requirement>,
    /// Why failures make the test or one of its slices INVALID; `None` if they do not.
    pub failures: Option<String>,
    /// Whether it was played in slices, whose failures are judged together.
    pub is_sliced: bool,
    /// Whether a single failure makes it INVALID, whatever its bounds allow.
    pub allows_no_failure: bool,
    /// Name of the verdict.
    pub verdict: String,
    /// Definitions of the metrics; empty if unknown.
    pub definitions: String,
    /// Due times of the queries, ns; with slices those of the first slice.
    pub scheduled: Vec<i64>,
    /// Observations: one for a whole run, one per slice for a run in slices.
    pub observations: Vec<compare::Run>,
    /// Output tokens of each answer, in thousandths; empty without tokens.
    pub output_tokens: Vec<u64>,
    /// Whether there is a record of each query; otherwise there are only figures.
    pub has_records: bool,
    /// Figures by names of metrics.
    pub figures: Figures,
    /// Means of the quantities of the servers' metrics pages.
    pub server: BTreeMap<String, f64>,
    /// Accuracy of the same scenario: one for a whole run, one per slice for a run in slices; empty
    /// if the run has no accuracy test.
    pub accuracy: Vec<Accuracy>,
    /// Records of another tool, if they have times: its load may become known later.
    pub foreign: Option<Records>,
}

impl ComparedRun {
    /// Adopts the conditions of a run of Dyno that another load generator repeated, with the same
    /// requests.
    pub fn adopt_conditions(&mut self, run: &Self) {
        self.system.clone_from(&run.system);
        self.started_at.clone_from(&run.started_at);
        self.build.clone_from(&run.build);
        // Its remarks are on figures that are not compared.
        self.remarks.clear();
        for (test, of_dyno) in self.tests.iter_mut().zip(&run.tests) {
            test.conditions = of_dyno.conditions.clone();
            if let Some(records) = &test.foreign {
                let Conditions { scenario, plan, .. } = &test.conditions;
                test.observations = vec![observation(records, scenario, plan)];
            }
        }
    }

    /// Returns one run of slices that were played in this order.
    ///
    /// # Panics
    /// There are no slices.
    pub fn from_slices(mut slices: Vec<Self>, label: String) -> Self {
        let mut run = slices.remove(0);
        run.label = label;
        for test in &mut run.tests {
            let title = test.conditions.title();
            let mut runs = std::mem::take(&mut test.observations);
            test.is_sliced = true;
            for slice in &slices {
                let Some(other) = slice.tests.iter().find(|t| t.conditions.title() == title) else {
                    continue;
                };
                runs.extend(other.observations.iter().cloned());
                test.accuracy.extend(other.accuracy.iter().cloned());
                test.output_tokens.extend_from_slice(&other.output_tokens);
                test.invalid.extend(other.invalid.iter().cloned());
                test.failures = test.failures.take().or_else(|| other.failures.clone());
                if test.state == State::Complete {
                    test.state = other.state;
                    test.verdict.clone_from(&other.verdict);
                }
            }
            runs.iter_mut().for_each(without_first);
            test.observations = compare::slices::observations(&runs);
        }
        run
    }
}

impl ComparedTest {
    /// Returns whether times of tokens were recorded.
    pub fn has_tokens(&self) -> bool {
        self.observations.iter().any(|run| !run.first_token.is_empty())
    }
}

/// Returns the observation of a test: of Server without the fill and the drain of its load, if its
/// arrivals are known.
pub(super) fn observation(records: &Records, scenario: &str, plan: &summary::Plan) -> compare::Run {
    match &plan.arrivals {
        Some(arrivals) if scenario == Scenario::Server.name() => {
            records.observation_of_server(arrivals)
        }
        _ => records.observation(),
    }
}

/// Removes the times of the first query, because the system was just loaded and slices are short.
fn without_first(run: &mut compare::Run) {
    for times in [&mut run.latency, &mut run.first_token, &mut run.time_per_output_token] {
        if !times.is_empty() {
            times.remove(0);
        }
    }
}
