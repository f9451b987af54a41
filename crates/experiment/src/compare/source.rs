//! Reads runs for a comparison.
//!
//! Results of other tools become a [`ComparedRun`] here, so that the rest of the comparison does
//! not depend on the tool.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_loadgen::compare;
use dyno_results::foreign::{self, ForeignResult};
use dyno_results::records::{self, Records};
use dyno_results::summary::{self, ReasonKind, State, Verdict};

use super::compared_run::{ComparedRun, ComparedTest, observation};
use super::conditions::Conditions;
use super::figures::contradiction;
use super::{accuracy, figures, label, server, tokens};

use crate::failure::{Failure, reject_special};
use crate::options::Profile;
use crate::requirement;

impl ComparedRun {
    /// Reads a run.
    ///
    /// # Errors
    /// The path is not a run, or its raw records are missing or damaged.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Err(Failure::set_up(format!("{} does not exist", path.display()))
                .hint("pass run directories of dyno run, by default below runs/"));
        }
        if !path.join(summary::FILE).is_file() {
            reject_special(path)?;
            let read = foreign::read(path).map(|of| Self::foreign(path, of));
            return read.map_err(|error| Failure::usage(error).hint_one_run(path));
        }
        let run = summary::Run::read(path)
            .map_err(|error| Failure::usage(error).hint("pass run directories of dyno run"))?;
        let measured = run.tests.iter().filter(|test| test.mode == "performance");
        let read = |test| ComparedTest::read(path, &run, test);
        let tests = measured.map(read).collect::<Result<_, _>>()?;
        let given = label::given(path, &run);
        let environment = &run.environment;
        let processor = environment.processor.as_deref().unwrap_or("an unknown processor");
        Ok(Self {
            label: path.display().to_string(),
            system: run.system,
            time: run.time,
            started_at: run.started_at,
            build: format!("{} build of {}", environment.build, environment.dyno_version),
            machine: format!("{} cores of {processor}", environment.cores),
            is_foreign: false,
            given,
            tests,
            remarks: Vec::new(),
        })
    }

    /// Returns the result of another tool as a run.
    fn foreign(path: &Path, result: ForeignResult) -> Self {
        let label = path.display().to_string();
        let name = result.tool.name();
        let scenarios: Vec<String> = result.tests.iter().map(|t| t.scenario.clone()).collect();
        let mut remarks = Vec::new();
        for test in &result.tests {
            // The comparison lists why a side is INVALID.
            let others =
                test.remarks.iter().filter(|remark| Some(*remark) != test.invalid.as_ref());
            remarks.extend(others.map(|remark| format!("{name}: {remark}")));
            if test.data.name.is_empty() {
                remarks.push(format!(
                    "{name} does not record its data and bounds; make sure that \
                         they are equal"
                ));
            }
            if test.scenario == "Server" && test.plan.arrivals.is_none() {
                remarks.push(format!(
                    "{name} does not record its arrivals; make sure that they are equal"
                ));
            }
            if test.records.is_none() {
                let how = result.tool.how_to_keep_records();
                remarks.push(format!("{label} has no raw records; {how}"));
            }
        }
        let is_only = |of: &str| scenarios.iter().filter(|scenario| *scenario == of).count() == 1;
        let system = result.tests.first().map(|test| test.system.clone()).unwrap_or_default();
        let tests = result.tests.into_iter();
        Self {
            label,
            system: if system.is_empty() { "unknown".into() } else { system },
            time: "real".into(),
            started_at: String::new(),
            build: format!("{name} {}", result.version).trim_end().into(),
            machine: String::new(),
            is_foreign: true,
            given: BTreeMap::new(),
            tests: tests
                .map(|test| ComparedTest::foreign(&test, is_only(&test.scenario)))
                .collect(),
            remarks,
        }
    }
}

impl ComparedTest {
    fn read(directory: &Path, run: &summary::Run, test: &summary::Test) -> Result<Self, Failure> {
        let file = directory.join(&test.folder).join(records::FILE);
        let records = Records::read(&file).map_err(|error| {
            Failure::usage(error)
                .hint("without raw records, a difference cannot be distinguished from chance")
        })?;
        let is_accuracy = |other: &summary::Test| {
            other.mode == "accuracy"
                && (&other.scenario, &other.tenant) == (&test.scenario, &test.tenant)
        };
        if let Some(metrics) = test.metrics.as_ref().filter(|_| test.state == State::Complete)
            && let Some(contradiction) = contradiction(metrics, &records)
        {
            let problem = format!("{} is of another run: {contradiction}", file.display());
            return Err(Failure::usage(problem).hint("measure the run again"));
        }
        let conditions = Conditions {
            has_accuracy: Some(run.tests.iter().any(is_accuracy)),
            ..Conditions::from_test(test)
        };
        let exact = figures::of_all_queries(run, test, &records);
        let observed = observation(&records, &test.scenario, &test.plan);
        let observed = compare::Run { exact, ..observed };
        let InvalidReasons { others: invalid, missed, failures } =
            InvalidReasons::of_test(test, &observed);
        Ok(Self {
            conditions,
            state: test.state,
            invalid,
            missed,
            requirements: test.requirements.clone(),
            failures,
            is_sliced: false,
            allows_no_failure: allows_no_failure(run, test),
            verdict: test.judged().name().into(),
            definitions: match &run.definitions[..] {
                "" => EARLIER.into(),
                definitions => definitions.into(),
            },
            observations: vec![observed],
            output_tokens: tokens::of_answers(&records),
            scheduled: records.scheduled_ns,
            has_records: true,
            figures: foreign::of_summary(test),
            server: server::of_test(run, test),
            accuracy: accuracy::of_test(run, test).into_iter().collect(),
            foreign: None,
        })
    }

    fn foreign(test: &foreign::Test, is_only: bool) -> Self {
        let timed = test.records.as_ref().filter(|_| test.has_times);
        let columns = match (timed, &test.records) {
            (Some(records), _) => observation(records, &test.scenario, &test.plan),
            (None, Some(records)) => {
                compare::Run { completed: Vec::new(), ..records.observation() }
            }
            (None, None) => compare::Run::default(),
        };
        let verdict = if test.invalid.is_some() { Verdict::Invalid } else { Verdict::Valid };
        Self {
            conditions: Conditions::foreign(test, is_only),
            state: State::Complete,
            invalid: test.invalid.iter().cloned().collect(),
            missed: Vec::new(),
            requirements: Vec::new(),
            failures: None,
            is_sliced: false,
            allows_no_failure: false,
            verdict: verdict.name().into(),
            definitions: String::new(),
            scheduled: test.records.as_ref().map(|r| r.scheduled_ns.clone()).unwrap_or_default(),
            has_records: test.records.is_some(),
            observations: vec![columns],
            output_tokens: test.records.as_ref().map(tokens::of_answers).unwrap_or_default(),
            figures: test.figures.clone(),
            server: BTreeMap::new(),
            accuracy: Vec::new(),
            foreign: timed.cloned(),
        }
    }
}

/// Reasons why a test is INVALID.
#[derive(Debug, Default)]
struct InvalidReasons {
    /// Those of failures; `None` if they do not make it INVALID.
    failures: Option<String>,
    /// Those of missed requirements that can be judged over slices.
    missed: Vec<String>,
    /// All others.
    others: Vec<String>,
}

impl InvalidReasons {
    fn of_test(test: &summary::Test, observed: &compare::Run) -> Self {
        let mut found = Self::default();
        if test.judged() != Verdict::Invalid {
            return found;
        }
        let is_alone = |text: &str| {
            let mut named = test.requirements.iter().filter(|of| text.contains(&of.requirement));
            named.any(|of| requirement::over_slices(of, std::slice::from_ref(observed)).is_none())
        };
        for text in &test.reasons {
            match test.causes.iter().find(|reason| reason.text == *text) {
                Some(reason) if reason.kind == ReasonKind::Failures => {
                    found.failures = Some(text.clone());
                }
                Some(reason) if reason.undecided || reason.kind == ReasonKind::Consequence => {}
                Some(reason) if reason.kind == ReasonKind::Requirement && !is_alone(text) => {
                    found.missed.push(text.clone());
                }
                _ => found.others.push(text.clone()),
            }
        }
        if found.others.is_empty() && found.missed.is_empty() && found.failures.is_none() {
            found.others.clone_from(&test.reasons);
        }
        found
    }
}

/// Returns whether VALID means complete answers, as in profile llm without a requirement on errors.
/// See `Options::failures`.
fn allows_no_failure(run: &summary::Run, test: &summary::Test) -> bool {
    let is_of_profile = run.profile == Profile::Llm.name() && run.rules.is_none();
    is_of_profile && test.requirements.iter().all(|requirement| requirement.metric != "errors")
}

/// Definitions of runs by versions that did not record them.
const EARLIER: &str = "an earlier version";

#[cfg(test)]
impl ComparedTest {
    /// Returns a test without a measurement.
    pub fn empty() -> Self {
        let test = foreign::Test {
            title: "example".into(),
            scenario: "Server".into(),
            system: String::new(),
            data: summary::Data::default(),
            plan: summary::Plan::default(),
            figures: foreign::Figures::new(),
            records: None,
            has_times: false,
            invalid: None,
            remarks: Vec::new(),
        };
        Self::foreign(&test, true)
    }
}

#[cfg(test)]
mod tests {
    use dyno_results::summary::{Reason, Requirement};

    use super::*;

    #[test]
    fn missed_requirements_are_apart_from_other_reasons() {
        let mut test: summary::Test = serde_json::from_value(serde_json::json!({
            "scenario": "Server", "mode": "performance", "folder": "", "state": "complete",
            "verdict": "INVALID", "reasons": [], "notes": [], "settings": {},
        }))
        .unwrap();
        // Neither the lag of the client nor the times of tokens of several samples are in slices.
        for (metric, requirement) in [
            ("errors", "errors <= 3 %"),
            ("lag.p99", "client lag <= 1 ms"),
            ("tpot.p99", "tpot.p99 <= 1 ms"),
        ] {
            let text = format!("The requirement {requirement} is missed: a.");
            test.add_reason(Reason::new(ReasonKind::Requirement, text));
            test.requirements.push(Requirement {
                requirement: requirement.into(),
                metric: metric.into(),
                ..Requirement::default()
            });
        }
        let observed = compare::Run { failed: vec![true; 8], ..compare::Run::default() };
        let found = InvalidReasons::of_test(&test, &observed);
        assert_eq!(found.missed, ["The requirement errors <= 3 % is missed: a."]);
        let others = [
            "The requirement client lag <= 1 ms is missed: a.",
            "The requirement tpot.p99 <= 1 ms is missed: a.",
        ];
        assert_eq!(found.others, others);
        assert_eq!(found.failures, None);
    }
}
