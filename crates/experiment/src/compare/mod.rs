//! Two sides of runs, test by test: what they must have in common, what the
//! statistics of [`dyno_loadgen::compare`] say, and how it is told.

mod conditions;
pub mod interleave;
mod json;
mod label;
mod layout;
pub mod metric;
mod source;
mod told;

use dyno_loadgen::compare::{
    self, Comparison, Doubt, Finding, LookPolicy, Metric, Pairing, Series, Verdict,
};
use dyno_results::summary::State;

pub use json::{Compared, SCHEMA_VERSION};
pub use layout::{is_slice_count, read as read_folder};
pub use metric::{GRAMMAR as METRICS, parse as parse_metric};
pub use source::{Played, refuse_copies};

use crate::End;
use crate::failure::Failure;
use conditions::Conditions;
use source::PlayedTest;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Question {
    /// Changes up to this share are neither better nor worse (>= 0).
    pub threshold: f64,
    /// Changes up to this share are equivalent (>= 0).
    pub margin: f64,
    /// How often the comparison is made while pairs are added.
    pub looks: LookPolicy,
    /// Standard deviation between runs of one system, as a share (>= 0), assumed
    /// where each side has a single run in real time.
    pub between_runs: f64,
    /// The headline first; empty takes those of the scenario.
    pub metrics: Vec<Metric>,
    /// Probability of any false alarm, over all tests.
    pub risk: f64,
    /// Whether runs belong together in pairs.
    pub is_paired: bool,
    /// Whether settings that differ are only told.
    pub is_forced: bool,
}

/// Runs of both sides.
#[derive(Debug, Clone)]
pub struct Sides {
    /// Runs of the baseline and of the candidate, at least one each.
    pub runs: [Vec<Played>; 2],
    /// The configurations that they were played from, if they were played in turn.
    pub configs: Option<[String; 2]>,
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
    /// What tells the two sides apart.
    pub labels: [String; 2],
    /// [`Question::between_runs`] where it applies, otherwise 0.
    pub between_runs: f64,
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
    /// Observations of each side: more than runs where they were played in slices.
    pub observations: [usize; 2],
    /// Whether every run kept its queries; if not, every metric is inconclusive.
    pub has_records: bool,
    /// What a reader must know of it.
    pub notes: Vec<String>,
}

impl Report {
    /// Compares the runs of two sides, at least one each.
    ///
    /// # Errors
    /// If they have no test in common, or if their conditions differ.
    pub fn of(sides: &Sides, question: Question) -> Result<Self, Failure> {
        let Sides { runs: [baseline, candidate], configs } = sides;
        if question.is_paired && baseline.len() != candidate.len() {
            let (a, b) = (baseline.len(), candidate.len());
            let problem = format!("--paired takes as many runs of both sides, found {a} and {b}");
            return Err(Failure::usage(problem).hint("leave --paired out, or give the others"));
        }
        let (titles, mut remarks) = common_tests(baseline, candidate)?;
        remarks.extend(condition_remarks(sides, &titles, question.is_forced)?);
        let is_single = baseline.len() == 1 && candidate.len() == 1;
        let between_runs =
            if is_single && baseline[0].time == "real" { question.between_runs } else { 0.0 };
        let risk = question.risk / titles.len() as f64;
        let mut tests = Vec::new();
        for title in &titles {
            let each = |side: &[Played]| -> Vec<PlayedTest> {
                side.iter().map(|run| test(run, title).clone()).collect()
            };
            let options = (&question, risk, between_runs);
            tests.push(TestReport::of(each(baseline), each(candidate), options)?);
        }
        if baseline.len() > 1 && candidate.len() > 1 && !question.is_paired {
            remarks.push(
                "runs of one side that all came before those of the other cannot tell a change of \
                 the machine from one of the system; dyno compare --interleave can"
                    .into(),
            );
        }
        if between_runs > 0.0 {
            let assumed = metric::share(between_runs);
            remarks.push(format!(
                "one run a side: the intervals assume that runs of one system differ by {assumed} \
                 (--between-runs); --interleave 5 measures it"
            ));
        } else if is_single {
            remarks.push("one run a side: how much runs differ is not in the intervals".into());
        }
        let mut seen = std::collections::HashSet::new();
        remarks.retain(|remark: &String| seen.insert(remark.clone()));
        let systems = [&baseline[0], &candidate[0]].map(|run| run.system.clone());
        let labels = label::of_sides(&baseline[0], &candidate[0], configs.as_ref());
        let paths = |side: &[Played]| side.iter().map(|run| run.label.clone()).collect();
        let (baseline, candidate) = (paths(baseline), paths(candidate));
        Ok(Self { baseline, candidate, systems, labels, between_runs, question, tests, remarks })
    }

    /// Of all tests.
    pub fn verdict(&self) -> Verdict {
        let has = |verdict| self.tests.iter().any(|test| test.comparison.verdict == verdict);
        let by_weight = [Verdict::Worse, Verdict::Inconclusive, Verdict::Better];
        by_weight.into_iter().find(|&verdict| has(verdict)).unwrap_or(Verdict::Equivalent)
    }

    /// Whether further pairs are of no use: each test is worse, its headline is
    /// conclusive, or the conditions or the length of the runs prevent a conclusion.
    pub fn is_decided(&self) -> bool {
        self.tests.iter().all(|test| {
            let rows = &test.comparison.rows;
            let of_headline = rows.iter().find(|row| row.metric == test.headline);
            let is_over = of_headline.is_none_or(|row| {
                let conditions = Finding::Inconclusive(Doubt::Conditions);
                row.finding.is_conclusive() || row.finding == conditions
            });
            is_over || test.comparison.verdict == Verdict::Worse
        })
    }

    /// Returns how a gate ends that asks for it; `is_strict` fails on an inconclusive comparison.
    pub fn end(&self, is_strict: bool) -> End {
        match self.verdict() {
            Verdict::Worse => End::Invalid,
            Verdict::Inconclusive if is_strict => End::Invalid,
            Verdict::Inconclusive | Verdict::Equivalent | Verdict::Better => End::Valid,
        }
    }

    /// For programs.
    pub fn to_json(&self) -> Compared {
        Compared::of(self)
    }
}

/// As users read it.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
    }
}

fn test<'a>(run: &'a Played, title: &str) -> &'a PlayedTest {
    let mut tests = run.tests.iter();
    tests.find(|test| test.conditions.title() == title).expect("every run has the common tests")
}

/// Returns what a reader must know of the runs' conditions.
///
/// # Errors
/// If they differ so that the runs cannot be compared.
fn condition_remarks(
    sides: &Sides,
    titles: &[String],
    is_forced: bool,
) -> Result<Vec<String>, Failure> {
    let mut runs = sides.runs.iter().flatten();
    let first = runs.next().expect("each side has a run");
    let (mut differences, mut remarks) = (Vec::new(), Vec::new());
    for other in runs {
        differences.extend(conditions::of_runs(first, other));
        remarks.extend(conditions::remarks(first, other));
        for title in titles {
            let (a, b) = (test(first, title), test(other, title));
            differences.extend(conditions::of_tests(&a.conditions, &b.conditions));
        }
    }
    remarks.extend(conditions::refuse(differences, is_forced)?);
    Ok(remarks)
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
        (question, risk, between_runs): (&Question, f64, f64),
    ) -> Result<Self, Failure> {
        let mut notes = refuse_incomplete(&baseline, &candidate, question.is_forced)?;
        let metrics = match &question.metrics[..] {
            [] => metric::of_scenario(&baseline, &candidate),
            given => given.to_vec(),
        };
        let pairing = pairing(&baseline, &candidate, question.is_paired);
        let most = |tests: &[PlayedTest]| tests.iter().map(|test| test.observations.len()).max();
        let options = compare::Options {
            threshold: question.threshold,
            margin: question.margin,
            risk,
            looks: question.looks,
            between_runs: between_runs.ln_1p(),
            pooled_most: most(&baseline).unwrap_or(1),
            ..compare::Options::new(metrics[0], metrics[1..].to_vec(), pairing)
        };
        let doubts = Doubts::new(&baseline, &candidate, question.is_forced);
        let Conditions { scenario, tenant, .. } = baseline[0].conditions.clone();
        let title = baseline[0].conditions.title();
        let runs = [baseline.len(), candidate.len()];
        let has_records = baseline.iter().chain(&candidate).all(|test| test.has_records);
        let (mut comparison, observations) = match has_records {
            true => {
                let of = |tests: Vec<PlayedTest>| -> Vec<compare::Run> {
                    tests.into_iter().flat_map(|test| test.observations).collect()
                };
                let (a, b) = (of(baseline), of(candidate));
                (compare::compare(&a, &b, &options), [a.len(), b.len()])
            }
            false => (told::compare(&baseline, &candidate, &question.metrics), runs),
        };
        notes.extend(doubts.apply(&mut comparison, metrics[0]));
        Ok(Self {
            title,
            scenario,
            tenant,
            headline: metrics[0],
            comparison,
            pairing,
            runs,
            observations,
            has_records,
            notes,
        })
    }
}

/// Refuses runs that did not end, unless they are forced; returns what is noted of
/// them.
fn refuse_incomplete(
    baseline: &[PlayedTest],
    candidate: &[PlayedTest],
    is_forced: bool,
) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    for (side, tests) in [("baseline", baseline), ("candidate", candidate)] {
        let Some(ended) = tests.iter().find(|test| test.state != State::Complete) else { continue };
        let how = &ended.verdict;
        let title = ended.conditions.title();
        let problem = format!("{title} of the {side} is {how}: it has no result");
        if !is_forced {
            return Err(Failure::usage(problem).hint("--force takes what there is of it"));
        }
        notes.push(problem);
    }
    Ok(notes)
}

/// What makes metrics inconclusive, whatever their intervals are.
struct Doubts {
    /// Sides that are INVALID.
    invalid: Vec<&'static str>,
    /// Definitions of the two sides, where they differ.
    definitions: Option<[String; 2]>,
    is_forced: bool,
}

impl Doubts {
    fn new(baseline: &[PlayedTest], candidate: &[PlayedTest], is_forced: bool) -> Self {
        let sides = [("baseline", baseline), ("candidate", candidate)];
        let is_invalid = |tests: &[PlayedTest]| tests.iter().any(|test| test.is_invalid);
        let invalid = sides.into_iter().filter(|(_, tests)| is_invalid(tests));
        let invalid = invalid.map(|(side, _)| side).collect();
        // Only tokens are defined differently.
        let mut definitions = baseline
            .iter()
            .chain(candidate)
            .filter(|test| test.has_tokens() && !test.definitions.is_empty())
            .map(|test| test.definitions.clone());
        let definitions = definitions.next().and_then(|first| {
            let other = definitions.find(|other| *other != first)?;
            Some([first, other])
        });
        Self { invalid, definitions, is_forced }
    }

    /// Makes metrics inconclusive; returns the reasons.
    fn apply(&self, comparison: &mut Comparison, headline: Metric) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some([a, b]) = &self.definitions {
            comparison.doubt(headline, is_by_definition, true);
            notes.push(format!(
                "the runs define times of tokens differently ({a} and {b}), so these are inconclusive"
            ));
        }
        if self.invalid.is_empty() {
            return notes;
        }
        let sides = self.invalid.join(" and the ");
        let are = if self.invalid.len() > 1 { "are" } else { "is" };
        notes.push(match self.is_forced {
            true => format!("the {sides} {are} INVALID; forced to take the figures as they are"),
            false => {
                comparison.doubt(headline, |_| true, false);
                format!(
                    "the {sides} {are} INVALID, so nothing is better or equivalent; --force takes \
                     the figures as they are"
                )
            }
        });
        notes
    }
}

/// Whether a metric depends on the definition of tokens and of the last output.
fn is_by_definition(metric: Metric) -> bool {
    match metric {
        Metric::Percentile(series, _) | Metric::Mean(series) => series != Series::FirstToken,
        Metric::Throughput | Metric::Failures => false,
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
