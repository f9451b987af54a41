//! What is compared: a run, read from where it lies.
//!
//! Whatever else can be compared becomes a [`Played`] here; nothing further on
//! knows where it came from.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_loadgen::compare;
use dyno_results::foreign::{self, Figures, ForeignResult};
use dyno_results::records::{self, Records};
use dyno_results::summary::{self, State, Verdict};

use super::conditions::Conditions;
use super::label;

use crate::failure::Failure;

/// A run that was played.
#[derive(Debug, Clone)]
pub struct Played {
    /// Where it lies.
    pub label: String,
    /// As it was named on the command line.
    pub system: String,
    /// `real` or `virtual`.
    pub time: String,
    /// In UTC; empty if it is not known.
    pub started_at: String,
    /// `release` or `debug`, with the version.
    pub build: String,
    /// Processor and cores.
    pub machine: String,
    /// Options and settings that were given, by name.
    pub given: BTreeMap<String, String>,
    /// Its performance tests.
    pub tests: Vec<PlayedTest>,
    /// What a reader must know to read its figures right.
    pub remarks: Vec<String>,
}

/// A performance test of a run.
#[derive(Debug, Clone)]
pub struct PlayedTest {
    /// What it was played with.
    pub conditions: Conditions,
    /// How it ended.
    pub state: State,
    /// Whether it is INVALID.
    pub is_invalid: bool,
    /// The word of its verdict.
    pub verdict: String,
    /// How its metrics are defined; empty where it is not known.
    pub definitions: String,
    /// When its queries were due, ns; of slices those of the first.
    pub scheduled: Vec<i64>,
    /// What was measured: of a run that was played at once one observation, of slices
    /// several.
    pub observations: Vec<compare::Run>,
    /// Whether anything was kept of each query; if not, there are only the figures.
    pub has_records: bool,
    /// Its figures, by names of metrics.
    pub figures: Figures,
}

impl Played {
    /// Reads a run.
    ///
    /// # Errors
    /// If it is none, or if its raw records are missing or damaged.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Err(Failure::usage(format!("{} is not there", path.display()))
                .hint("dyno compare takes the folders that dyno run leaves below runs/"));
        }
        if !path.join(summary::FILE).is_file() {
            return foreign::read(path).map(|of| Self::foreign(path, of)).map_err(Failure::usage);
        }
        let run = summary::Run::read(path).map_err(|error| {
            Failure::usage(error).hint("dyno compare takes the folders that dyno run leaves")
        })?;
        let measured = run.tests.iter().filter(|test| test.mode == "performance");
        let read = |test| PlayedTest::read(path, test, &run.definitions);
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
            given,
            tests,
            remarks: Vec::new(),
        })
    }

    /// A result of another tool.
    fn foreign(path: &Path, result: ForeignResult) -> Self {
        let label = path.display().to_string();
        let name = result.tool.name();
        let scenarios: Vec<String> = result.tests.iter().map(|t| t.scenario.clone()).collect();
        let mut remarks = Vec::new();
        for test in &result.tests {
            remarks.extend(test.remarks.iter().map(|remark| format!("{name}: {remark}")));
            if test.data.name.is_empty() {
                remarks
                    .push(format!("{name} does not tell its data and bounds: make sure of them"));
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
            given: BTreeMap::new(),
            tests: tests.map(|test| PlayedTest::foreign(&test, is_only(&test.scenario))).collect(),
            remarks,
        }
    }
}

/// Refuses a side that has a run twice: it would say that runs never differ.
///
/// # Errors
/// Which runs are the same.
pub fn refuse_copies(side: &[Played]) -> Result<(), Failure> {
    for (at, run) in side.iter().enumerate() {
        let Some(same) = side[..at].iter().find(|other| other.is_copy_of(run)) else { continue };
        let problem = format!("{} and {} are the same run", same.label, run.label);
        return Err(Failure::usage(problem).hint(
            "each run counts once; with --seed N a run in virtual time has random numbers of its \
             own",
        ));
    }
    Ok(())
}

impl Played {
    fn is_copy_of(&self, other: &Self) -> bool {
        let place = |run: &Self| std::fs::canonicalize(&run.label).ok();
        let is_alike = |(a, b): (&PlayedTest, &PlayedTest)| {
            let has_any = !a.scheduled.is_empty();
            has_any && a.scheduled == b.scheduled && a.observations == b.observations
        };
        let mut tests = self.tests.iter().zip(&other.tests);
        let has_same = self.tests.len() == other.tests.len() && !self.tests.is_empty();
        (place(self).is_some() && place(self) == place(other)) || (has_same && tests.all(is_alike))
    }
}

impl PlayedTest {
    fn read(directory: &Path, test: &summary::Test, definitions: &str) -> Result<Self, Failure> {
        let file = directory.join(&test.folder).join(records::FILE);
        let records = Records::read(&file).map_err(|error| {
            Failure::usage(error).hint("only the raw records tell chance from a difference")
        })?;
        Ok(Self {
            conditions: Conditions::of(test),
            state: test.state,
            is_invalid: test.judged() == Verdict::Invalid,
            verdict: test.judged().name().into(),
            definitions: match definitions {
                "" => EARLIER.into(),
                definitions => definitions.into(),
            },
            observations: vec![records.observation()],
            scheduled: records.scheduled_ns,
            has_records: true,
            figures: foreign::of_summary(test),
        })
    }

    /// Whether it has times of tokens.
    pub fn has_tokens(&self) -> bool {
        self.observations.iter().any(|run| !run.first_token.is_empty())
    }

    fn foreign(test: &foreign::Test, is_only: bool) -> Self {
        let mut columns = test.records.as_ref().map(Records::observation).unwrap_or_default();
        if !test.has_times {
            columns.completed.clear();
        }
        Self {
            conditions: Conditions::foreign(test, is_only),
            state: State::Complete,
            is_invalid: false,
            verdict: Verdict::Valid.name().into(),
            definitions: String::new(),
            scheduled: test.records.as_ref().map(|r| r.scheduled_ns.clone()).unwrap_or_default(),
            has_records: test.records.is_some(),
            observations: vec![columns],
            figures: test.figures.clone(),
        }
    }
}

impl Played {
    /// Returns one run of slices that were played in this order.
    ///
    /// # Panics
    /// If there is none.
    pub fn from_slices(mut slices: Vec<Self>, label: String) -> Self {
        let mut run = slices.remove(0);
        run.label = label;
        for test in &mut run.tests {
            let title = test.conditions.title();
            let mut runs = std::mem::take(&mut test.observations);
            for slice in &slices {
                let Some(other) = slice.tests.iter().find(|t| t.conditions.title() == title) else {
                    continue;
                };
                runs.extend(other.observations.iter().cloned());
                test.is_invalid |= other.is_invalid;
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

/// Definitions of runs of versions that did not name them.
const EARLIER: &str = "an earlier version";

/// Leaves the times of the first query out: the system was loaded for this slice, and
/// slices are short.
fn without_first(run: &mut compare::Run) {
    for times in [&mut run.latency, &mut run.first_token, &mut run.time_per_output_token] {
        if !times.is_empty() {
            times.remove(0);
        }
    }
}
