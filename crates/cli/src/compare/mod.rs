//! Two sides of runs, test by test: what they must have in common, what the
//! statistics of [`dyno_loadgen::compare`] say, and how it is told.

mod conditions;
mod console;
mod github;
pub mod interleave;
mod json;
mod metric;
mod source;
mod told;

use dyno_loadgen::compare::{self, Comparison, Metric, Pairing, Verdict};

pub use github::Annotations;
pub use json::{Compared, SCHEMA_VERSION};
pub use metric::{GRAMMAR as METRICS, parse as parse_metric};
pub use source::{Played, columns, refuse_copies};

use crate::exit::{Exit, Failure};
use crate::output;
use crate::summary::State;
use conditions::Conditions;
use source::PlayedTest;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Question {
    /// Changes up to this share do not matter (>= 0).
    pub threshold: f64,
    /// The headline first; empty takes those of the scenario.
    pub metrics: Vec<Metric>,
    /// Probability of any false alarm, over all tests.
    pub risk: f64,
    /// Whether runs belong together in pairs.
    pub is_paired: bool,
    /// Whether settings that differ are only told.
    pub is_forced: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// Where the runs of the baseline lie.
    pub baseline: Vec<String>,
    /// Where those of the candidate lie.
    pub candidate: Vec<String>,
    /// What the first run of each side measured.
    pub systems: [String; 2],
    /// What was asked for.
    pub question: Question,
    /// One entry a test that both sides have.
    pub tests: Vec<TestReport>,
    /// What a reader must know.
    pub remarks: Vec<String>,
}

/// What came of one test.
#[derive(Debug)]
pub struct TestReport {
    /// Such as `Server` or `Server of tenant a`.
    pub title: String,
    /// Such as `Server`.
    pub scenario: String,
    /// If it has a name.
    pub tenant: Option<String>,
    /// The metric that decides, if no other is worse.
    pub headline: Metric,
    /// What the statistics say.
    pub comparison: Comparison,
    /// Whether pairs were compared.
    pub pairing: Pairing,
    /// Runs of each side.
    pub runs: [usize; 2],
    /// Whether every run kept its queries; if not, nothing can be told from chance.
    pub has_records: bool,
    /// What a reader must know of it.
    pub notes: Vec<String>,
}

impl Report {
    /// Compares the runs of two sides, at least one each.
    ///
    /// # Errors
    /// If they have no test in common, or if their conditions differ.
    pub fn of(
        baseline: &[Played],
        candidate: &[Played],
        question: Question,
    ) -> Result<Self, Failure> {
        if question.is_paired && baseline.len() != candidate.len() {
            let (a, b) = (baseline.len(), candidate.len());
            let problem = format!("--paired takes as many runs of both sides, found {a} and {b}");
            return Err(Failure::usage(problem).hint("leave --paired out, or give the others"));
        }
        let all = || baseline.iter().chain(candidate);
        let (first, others) = (&baseline[0], all().skip(1));
        let mut differences: Vec<_> =
            others.clone().filter_map(|other| conditions::of_runs(first, other)).collect();
        let (titles, mut remarks) = common_tests(baseline, candidate)?;
        for other in others {
            remarks.extend(conditions::remarks(first, other));
            for title in &titles {
                let (a, b) = (test(first, title), test(other, title));
                differences.extend(conditions::of_tests(&a.conditions, &b.conditions));
            }
        }
        remarks.extend(conditions::refuse(differences, question.is_forced)?);
        let risk = question.risk / titles.len() as f64;
        let mut tests = Vec::new();
        for title in &titles {
            let each = |side: &[Played]| -> Vec<PlayedTest> {
                side.iter().map(|run| test(run, title).clone()).collect()
            };
            tests.push(TestReport::of(each(baseline), each(candidate), &question, risk)?);
        }
        if baseline.len() > 1 && candidate.len() > 1 && !question.is_paired {
            remarks.push(
                "runs of one side that all came before those of the other cannot tell a change of \
                 the machine from one of the system; dyno compare --interleave can"
                    .into(),
            );
        }
        if baseline.len() == 1 && candidate.len() == 1 {
            remarks.push(
                "one run a side: how much runs differ among themselves is not in the intervals; \
                 --interleave 5 measures it"
                    .into(),
            );
        }
        let mut seen = std::collections::HashSet::new();
        remarks.retain(|remark: &String| seen.insert(remark.clone()));
        let systems = [&baseline[0], &candidate[0]].map(|run| run.system.clone());
        let labels = |side: &[Played]| side.iter().map(|run| run.label.clone()).collect();
        let (baseline, candidate) = (labels(baseline), labels(candidate));
        Ok(Self { baseline, candidate, systems, question, tests, remarks })
    }

    /// Of all tests.
    pub fn verdict(&self) -> Verdict {
        let has = |verdict| self.tests.iter().any(|test| test.comparison.verdict == verdict);
        let by_weight = [Verdict::Worse, Verdict::CannotTell, Verdict::Better];
        by_weight.into_iter().find(|&verdict| has(verdict)).unwrap_or(Verdict::NoDifference)
    }

    /// How the command ends; `is_strict` does not take no answer for a good one.
    pub fn exit(&self, is_strict: bool) -> Exit {
        match self.verdict() {
            Verdict::Worse => Exit::Invalid,
            Verdict::CannotTell if is_strict => Exit::Invalid,
            Verdict::CannotTell | Verdict::NoDifference | Verdict::Better => Exit::Valid,
        }
    }

    /// For programs.
    pub fn to_json(&self) -> Compared {
        Compared::of(self)
    }

    /// For a terminal.
    pub fn to_text(&self, is_colored: bool) -> String {
        console::text(self, is_colored)
    }
}

/// Annotates a comparison where that is asked for; the lines only if stdout takes
/// them.
///
/// # Errors
/// If stdout does not take them.
pub fn annotate(
    report: &Report,
    annotations: Annotations,
    is_for_stdout: bool,
) -> Result<(), Failure> {
    if !annotations.are_wanted() {
        return Ok(());
    }
    if is_for_stdout {
        output::print(github::lines(report))?;
    }
    if let Err(error) = github::summarize(report) {
        output::say(format_args!("warning: no summary of the job: {error}"));
    }
    Ok(())
}

/// As users read it.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference => "no difference",
        Verdict::CannotTell => "cannot tell",
    }
}

fn test<'a>(run: &'a Played, title: &str) -> &'a PlayedTest {
    let mut tests = run.tests.iter();
    tests.find(|test| test.conditions.title() == title).expect("every run has the common tests")
}

/// Titles of the tests that all runs have, and what is said of the others.
fn common_tests(
    baseline: &[Played],
    candidate: &[Played],
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let titles =
        |run: &Played| run.tests.iter().map(|test| test.conditions.title()).collect::<Vec<_>>();
    let runs = || baseline.iter().chain(candidate);
    let is_common = |title: &String| runs().all(|run| titles(run).contains(title));
    let common: Vec<String> = titles(&baseline[0]).into_iter().filter(is_common).collect();
    if common.is_empty() {
        let line = |run: &Played| match titles(run).join(", ") {
            none if none.is_empty() => format!("{} has no performance test", run.label),
            titles => format!("{} has {titles}", run.label),
        };
        let mut problems = vec!["the runs have no scenario in common".to_string()];
        problems.extend(runs().map(line));
        return Err(Failure::usages(problems)
            .hint("the figures of different scenarios mean different things"));
    }
    let mut remarks = Vec::new();
    for run in runs() {
        for title in titles(run).into_iter().filter(|title| !is_common(title)) {
            remarks.push(format!("{title} is not compared: not every run has it"));
        }
    }
    Ok((common, remarks))
}

impl TestReport {
    fn of(
        baseline: Vec<PlayedTest>,
        candidate: Vec<PlayedTest>,
        question: &Question,
        risk: f64,
    ) -> Result<Self, Failure> {
        let first = &baseline[0];
        let mut notes = Vec::new();
        for (side, tests) in [("baseline", &baseline), ("candidate", &candidate)] {
            if let Some(ended) = tests.iter().find(|test| test.state != State::Complete) {
                let how = &ended.verdict;
                let problem = format!(
                    "{} of the {side} is {how}: it has no result",
                    ended.conditions.title()
                );
                if !question.is_forced {
                    return Err(Failure::usage(problem).hint("--force takes what there is of it"));
                }
                notes.push(problem);
            } else if let Some(test) = tests.iter().find(|test| !test.is_valid) {
                let how = &test.verdict;
                notes.push(format!("the {side} is {how}; its figures are compared as they are"));
            }
        }
        let metrics = match &question.metrics[..] {
            [] => metric::of_scenario(&baseline, &candidate),
            given => given.to_vec(),
        };
        let pairing = pairing(&baseline, &candidate, question.is_paired);
        let options = compare::Options {
            headline: metrics[0],
            further: metrics[1..].to_vec(),
            pairing,
            threshold: question.threshold,
            risk,
        };
        let title = first.conditions.title();
        let Conditions { scenario, tenant, .. } = first.conditions.clone();
        let runs = [baseline.len(), candidate.len()];
        let has_records = baseline.iter().chain(&candidate).all(|test| test.has_records);
        let columns = |tests: Vec<PlayedTest>| -> Vec<compare::Run> {
            tests.into_iter().map(|test| test.columns).collect()
        };
        let comparison = match has_records {
            true => compare::compare(&columns(baseline), &columns(candidate), &options),
            false => told::compare(&baseline, &candidate, &question.metrics),
        };
        let headline = metrics[0];
        Ok(Self {
            title,
            scenario,
            tenant,
            headline,
            comparison,
            pairing,
            runs,
            has_records,
            notes,
        })
    }
}

/// Single runs are compared query by query where both had the same schedule.
fn pairing(baseline: &[PlayedTest], candidate: &[PlayedTest], is_paired: bool) -> Pairing {
    let is_paired = match (baseline, candidate) {
        ([a], [b]) => a.scheduled == b.scheduled,
        _ => is_paired,
    };
    if is_paired { Pairing::InOrder } else { Pairing::None }
}
