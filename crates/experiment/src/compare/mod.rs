//! Compares two sides of runs, test by test: checks their conditions, and applies the statistics of
//! [`dyno_loadgen::compare`].
//!
//! ```no_run
//! use std::path::Path;
//!
//! use dyno_experiment::compare::{ComparedRun, ComparisonReport, Question, Sides};
//! use dyno_loadgen::compare::{LookPolicy, MARGIN, RISK};
//!
//! let baseline = ComparedRun::read(Path::new("runs/a"))?;
//! let candidate = ComparedRun::read(Path::new("runs/b"))?;
//! let runs = [vec![baseline], vec![candidate]];
//! let sides = Sides { runs, configs: None, peer: None, missing: Vec::new() };
//! let question = Question {
//!     threshold: 0.0,
//!     margin: MARGIN,
//!     looks: LookPolicy::One,
//!     between_runs: 0.01,
//!     metrics: Vec::new(), // those of the scenario
//!     risk: RISK,
//!     is_paired: false,
//!     is_forced: false,
//! };
//! let report = ComparisonReport::from_sides(&sides, question)?;
//! println!("{:?}", report.verdict());
//! # Ok::<(), dyno_experiment::Failure>(())
//! ```

mod accuracy;
mod compared_run;
mod conditions;
mod copies;
mod doubts;
mod figures;
pub mod interleave;
mod json;
mod label;
mod layout;
pub mod metric;
pub mod peer;
mod server;
mod source;
mod tokens;

use dyno_loadgen::compare::{
    self, Comparison, Doubt, Finding, LookPolicy, Metric, Pairing, Verdict,
};
use dyno_results::summary::State;

pub use accuracy::AccuracyRow;
pub use compared_run::ComparedRun;
pub use copies::refuse_copies;
pub use json::{ComparisonDocument, SCHEMA_VERSION};
pub use layout::{SLICES_MOST, is_slice_count, read as read_folder};
pub use metric::{GRAMMAR as METRICS, parse_requested as parse_metric};
pub use server::ServerRow;
pub use tokens::TokenRow;

use crate::End;
use crate::failure::Failure;
use compared_run::ComparedTest;
use conditions::Conditions;
use doubts::Doubts;
use peer::PeerAccount;

/// Settings of a comparison.
#[derive(Debug, Clone)]
pub struct Question {
    /// Changes up to this share are neither better nor worse (>= 0).
    pub threshold: f64,
    /// Changes up to this share are equivalent (>= 0).
    pub margin: f64,
    /// Number of looks at the data while pairs are added.
    pub looks: LookPolicy,
    /// Standard deviation between runs of one system, as a share (>= 0), assumed
    /// where each side has a single run in real time.
    pub between_runs: f64,
    /// Metrics to compare, the headline first; empty takes those of the scenario, or
    /// [`peer::METRICS`] that both load generators measure.
    pub metrics: Vec<Metric>,
    /// Probability of any false alarm, over all tests.
    pub risk: f64,
    /// Whether runs belong together in pairs.
    pub is_paired: bool,
    /// Whether differing settings are only reported.
    pub is_forced: bool,
}

/// Runs of both sides.
#[derive(Debug, Clone)]
pub struct Sides {
    /// Runs of the baseline and of the candidate, at least one each.
    pub runs: [Vec<ComparedRun>; 2],
    /// Configuration files of interleaved runs.
    pub configs: Option<[String; 2]>,
    /// Account of the other load generator that made the candidate's runs, if it was not Dyno.
    pub peer: Option<PeerAccount>,
    /// Folders of planned runs that are missing or incomplete. Their pairs are not compared.
    pub missing: Vec<String>,
}

/// The result of a comparison.
#[derive(Debug)]
pub struct ComparisonReport {
    /// Folders of the baseline's runs.
    pub baseline: Vec<String>,
    /// Folders of the candidate's runs.
    pub candidate: Vec<String>,
    /// Systems measured by the first run of each side.
    pub systems: [String; 2],
    /// Shortest texts that distinguish the two sides.
    pub labels: [String; 2],
    /// [`Question::between_runs`] where it applies, otherwise 0.
    pub between_runs: f64,
    /// Settings of the comparison.
    pub question: Question,
    /// One entry per test that both sides have.
    pub tests: Vec<TestReport>,
    /// Remarks for readers.
    pub remarks: Vec<String>,
    /// Account of the other load generator that made the candidate's runs, if it was not Dyno.
    pub peer: Option<PeerAccount>,
}

/// The result of the comparison of one test.
#[derive(Debug)]
pub struct TestReport {
    /// Title such as `Server` or `Server of tenant a`.
    pub title: String,
    /// Scenario, such as `Server`.
    pub scenario: String,
    /// Name of the tenant, if it has one.
    pub tenant: Option<String>,
    /// The metric that decides, if no other is worse.
    pub headline: Metric,
    /// Statistics of all metrics.
    pub comparison: Comparison,
    /// Whether runs were compared in pairs.
    pub pairing: Pairing,
    /// Runs of each side.
    pub runs: [usize; 2],
    /// Observations of each side: more than runs where they were played in slices.
    pub observations: [usize; 2],
    /// Whether every run kept its queries; if not, every metric is inconclusive.
    pub has_records: bool,
    /// Accuracy of both sides, if every run has an accuracy test.
    pub accuracy: Option<AccuracyRow>,
    /// Why the accuracies of both sides cannot be compared, so that neither can be better or equivalent.
    pub accuracy_doubt: Option<String>,
    /// Output tokens per answer of both sides, if every run has them.
    pub output_tokens: Option<TokenRow>,
    /// Values of the servers' metrics pages, which are not judged.
    pub server: Vec<ServerRow>,
    /// Whether conditions make metrics inconclusive that further pairs could change: the share of
    /// failures over all slices.
    pub may_recover: bool,
    /// Whether a side is INVALID and its use is not forced.
    pub has_invalid_side: bool,
    /// Notes for readers.
    pub notes: Vec<String>,
}

impl ComparisonReport {
    /// Compares the runs of two sides, at least one each.
    ///
    /// # Errors
    /// The sides have no test in common, or their conditions differ.
    pub fn from_sides(sides: &Sides, question: Question) -> Result<Self, Failure> {
        let named = with_names(sides);
        let Sides { runs: [baseline, candidate], configs, peer, missing } =
            named.as_ref().unwrap_or(sides);
        if question.is_paired && baseline.len() != candidate.len() {
            let (a, b) = (baseline.len(), candidate.len());
            let problem = format!(
                "--paired needs the same number of runs on both sides, found \
                 {a} and {b}"
            );
            return Err(Failure::usage(problem).hint("remove --paired, or add the missing runs"));
        }
        let (titles, mut remarks) = common_tests(baseline, candidate)?;
        let forced = question.is_forced;
        remarks.extend(condition_remarks([baseline, candidate], &titles, forced)?);
        let is_single = baseline.len() == 1 && candidate.len() == 1;
        let between_runs =
            if is_single && baseline[0].time == "real" { question.between_runs } else { 0.0 };
        let (accuracies, without) =
            comparable_accuracies([baseline, candidate], &titles, question.is_forced);
        remarks.extend(without);
        let risk = question.risk / (titles.len() + accuracies) as f64;
        let mut tests = Vec::new();
        for title in &titles {
            let each = |side: &[ComparedRun]| -> Vec<ComparedTest> {
                side.iter().map(|run| test(run, title).clone()).collect()
            };
            let (a, b) = (each(baseline), each(candidate));
            let assumed = Assumptions { risk, between_runs, has_peer: peer.is_some() };
            tests.push(TestReport::from_tests(a, b, &question, assumed)?);
        }
        remarks.extend(missing_runs(missing, &mut tests));
        if baseline.len() > 1 && candidate.len() > 1 && !question.is_paired {
            remarks.push(
                "all runs of one side came before those of the other, so a change of the machine \
                 looks like a change of the system; use dyno compare --interleave"
                    .into(),
            );
        }
        if between_runs > 0.0 {
            let assumed = metric::share(between_runs);
            remarks.push(format!(
                "one run per side: the intervals assume that runs of one system differ by \
                 {assumed} (--between-runs); --interleave 5 measures it"
            ));
        } else if is_single {
            remarks.push(
                "one run per side: the intervals do not include differences between runs".into(),
            );
        }
        let mut seen = std::collections::HashSet::new();
        remarks.retain(|remark: &String| seen.insert(remark.clone()));
        let systems = [&baseline[0], &candidate[0]].map(|run| run.system.clone());
        let labels = match peer {
            Some(peer) => ["Dyno".into(), format!("{} {}", peer.tool, peer.version)],
            None => label::of_sides(&baseline[0], &candidate[0], configs.as_ref()),
        };
        let paths = |side: &[ComparedRun]| side.iter().map(|run| run.label.clone()).collect();
        Ok(Self {
            baseline: paths(baseline),
            candidate: paths(candidate),
            systems,
            labels,
            between_runs,
            question,
            tests,
            remarks,
            peer: peer.clone(),
        })
    }

    /// Returns the verdict over all tests.
    pub fn verdict(&self) -> Verdict {
        let has = |verdict| self.tests.iter().any(|test| test.comparison.verdict == verdict);
        let by_weight = [Verdict::Worse, Verdict::Inconclusive, Verdict::Better];
        by_weight.into_iter().find(|&verdict| has(verdict)).unwrap_or(Verdict::Equivalent)
    }

    /// Returns whether further pairs cannot change the result: each test is worse, its headline is
    /// conclusive, or the conditions or the length of the runs prevent a conclusion.
    pub fn is_decided(&self) -> bool {
        self.tests.iter().all(|test| {
            let rows = &test.comparison.rows;
            let of_headline = rows.iter().find(|row| row.metric == test.headline);
            let is_over = of_headline.is_none_or(|row| {
                let conditions = Finding::Inconclusive(Doubt::Conditions);
                row.finding.is_conclusive() || (row.finding == conditions && !test.may_recover)
            });
            is_over || test.comparison.verdict == Verdict::Worse
        })
    }

    /// Returns how a gate on this comparison ends: it fails if the candidate is worse or a side is
    /// INVALID, with `is_strict` also if the comparison is inconclusive. For another load generator,
    /// it fails only with `is_strict`, also on differences.
    pub fn end(&self, is_strict: bool) -> End {
        let verdict = self.verdict();
        let fails = if self.peer.is_some() {
            is_strict && verdict != Verdict::Equivalent
        } else {
            verdict == Verdict::Worse
                || (verdict == Verdict::Inconclusive && is_strict)
                || self.tests.iter().any(TestReport::fails)
        };
        if fails { End::Invalid } else { End::Valid }
    }

    /// Returns the document for programs.
    pub fn to_json(&self) -> ComparisonDocument {
        ComparisonDocument::from_report(self)
    }
}

/// Makes tests inconclusive unless they are worse, and returns a remark, if planned runs are missing or
/// incomplete: they may be missing because of what they showed.
fn missing_runs(missing: &[String], tests: &mut [TestReport]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    for comparison in tests.iter_mut().map(|test| &mut test.comparison) {
        prevent_success(comparison);
    }
    let shown = &missing[..missing.len().min(MISSING_MOST)];
    let more = match missing.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "warning: planned runs are missing or incomplete, so their pairs are left out, and no side can \
         be better or equivalent: {}{more}; --resume measures them",
        shown.join(", ")
    ))
}

/// Most missing runs that are listed.
const MISSING_MOST: usize = 8;

/// Makes a comparison inconclusive unless it is worse, and returns a note, if only all runs together show
/// that the candidate fails more.
fn open_failures(comparison: &mut Comparison) -> Option<String> {
    if !comparison.has_more_failures {
        return None;
    }
    prevent_success(comparison);
    Some(
        "over all runs, the candidate has more failures beyond chance, but not in each run; this ends \
         with exit code 1: add runs (--until-decided 5m)"
            .into(),
    )
}

fn prevent_success(comparison: &mut Comparison) {
    if comparison.verdict != Verdict::Worse {
        comparison.verdict = Verdict::Inconclusive;
    }
}

/// Returns the display name of a verdict.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
    }
}

fn test<'a>(run: &'a ComparedRun, title: &str) -> &'a ComparedTest {
    let mut tests = run.tests.iter();
    tests.find(|test| test.conditions.title() == title).expect("every run has the common tests")
}

/// Returns the number of tests whose accuracies are compared, and remarks on those of which only
/// some runs have one.
fn comparable_accuracies(
    sides: [&[ComparedRun]; 2],
    titles: &[String],
    is_forced: bool,
) -> (usize, Vec<String>) {
    let (mut count, mut remarks) = (0, Vec::new());
    for title in titles {
        let sides = sides.map(|side| side.iter().map(|run| test(run, title)).collect::<Vec<_>>());
        if accuracy::is_comparable(&sides[0], &sides[1]) {
            count += 1;
            continue;
        }
        // The reason of an inconclusive test states it already.
        let is_stated = accuracy::doubt(&sides[0], &sides[1], is_forced).is_some();
        if !is_stated && sides.iter().flatten().any(|test| !test.accuracy.is_empty()) {
            remarks.push(format!(
                "the accuracy of {title} is not compared: not every run has a complete accuracy \
                 test of the same metric; measure both sides with --mode both"
            ));
        }
    }
    (count, remarks)
}

/// Returns remarks on the conditions of the runs.
///
/// # Errors
/// The conditions differ so that the runs cannot be compared.
fn condition_remarks(
    sides: [&[ComparedRun]; 2],
    titles: &[String],
    is_forced: bool,
) -> Result<Vec<String>, Failure> {
    let mut runs = sides.into_iter().flatten();
    let first = runs.next().expect("each side has a run");
    let (mut differences, mut remarks) = (Vec::new(), Vec::new());
    for other in runs {
        differences.extend(conditions::of_runs(first, other));
        // A file of another tool is one of several results.
        if !first.is_foreign && !other.is_foreign {
            differences.extend(conditions::of_titles(&all_titles(first), &all_titles(other)));
        }
        remarks.extend(conditions::remarks(first, other));
        for title in titles {
            let (a, b) = (test(first, title), test(other, title));
            differences.extend(conditions::of_tests(&a.conditions, &b.conditions));
        }
    }
    remarks.extend(conditions::refuse(differences, is_forced)?);
    Ok(remarks)
}

/// Returns the sides with the only test of a scenario named like the test of the same load in a result of
/// another tool with several tests of the scenario; `None` if there is none. Of several tests with that
/// load, it is the first.
fn with_names(sides: &Sides) -> Option<Sides> {
    let tests = || sides.runs.iter().flatten().flat_map(|run| &run.tests);
    let named: Vec<&Conditions> =
        tests().map(|test| &test.conditions).filter(|of| of.name.is_some()).collect();
    let name_of = |of: &Conditions| {
        let is_unnamed = of.name.is_none() && of.tenant.is_none();
        let same = || named.iter().find(|other| conditions::have_same_load(of, other));
        if is_unnamed { same()?.name.clone() } else { None }
    };
    if !tests().any(|test| name_of(&test.conditions).is_some()) {
        return None;
    }
    let mut all = sides.clone();
    for test in all.runs.iter_mut().flatten().flat_map(|run| &mut run.tests) {
        if let Some(name) = name_of(&test.conditions) {
            test.conditions.name = Some(name);
        }
    }
    Some(all)
}

fn all_titles(run: &ComparedRun) -> Vec<String> {
    run.tests.iter().map(|test| test.conditions.title()).collect()
}

/// Returns the titles of the tests that all runs have, and remarks on the others.
fn common_tests(
    baseline: &[ComparedRun],
    candidate: &[ComparedRun],
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let titles = all_titles;
    let runs = || baseline.iter().chain(candidate);
    let is_common = |title: &String| runs().all(|run| titles(run).contains(title));
    let common: Vec<String> = titles(&baseline[0]).into_iter().filter(is_common).collect();
    if common.is_empty() {
        let line = |run: &ComparedRun| match titles(run).join(", ") {
            none if none.is_empty() => format!("{} has no performance test", run.label),
            titles => format!("{} has {titles}", run.label),
        };
        let mut problems = vec!["the runs have no scenario in common".to_string()];
        problems.extend(runs().map(line));
        return Err(
            Failure::usages(problems).hint("figures of different scenarios are not comparable")
        );
    }
    let mut remarks = Vec::new();
    for run in runs() {
        for title in titles(run).into_iter().filter(|title| !is_common(title)) {
            remarks.push(format!("{title} is not compared: not every run has it"));
        }
    }
    Ok((common, remarks))
}

/// Risk of the comparison of one test, and its assumptions.
#[derive(Clone, Copy)]
struct Assumptions {
    /// Probability of any false alarm.
    risk: f64,
    /// Assumed standard deviation between runs of one system, as a share.
    between_runs: f64,
    /// Whether another load generator made the candidate's runs. It has its own default metrics, and
    /// the lengths of answers may differ: they are a stated reason of the difference.
    has_peer: bool,
}

impl TestReport {
    /// Returns whether a gate fails whatever the verdict: a side is INVALID, or the candidate has more
    /// failures over all runs.
    pub fn fails(&self) -> bool {
        self.has_invalid_side || self.comparison.has_more_failures
    }

    fn from_tests(
        baseline: Vec<ComparedTest>,
        candidate: Vec<ComparedTest>,
        question: &Question,
        assumed: Assumptions,
    ) -> Result<Self, Failure> {
        let tokens_risk = tokens::RISK_PART * assumed.risk;
        let output_tokens = TokenRow::new(&baseline, &candidate, question.margin, tokens_risk);
        let risk = assumed.risk - output_tokens.as_ref().map_or(0.0, |_| tokens_risk);
        let mut notes = refuse_incomplete(&baseline, &candidate, question.is_forced)?;
        notes.extend(tokens::remark(&baseline, &candidate));
        let (metrics, unmeasured) = metrics(&baseline, &candidate, question, assumed.has_peer)?;
        notes.extend(unmeasured);
        let pairing = pairing(&baseline, &candidate, question.is_paired);
        let most = |tests: &[ComparedTest]| tests.iter().map(|test| test.observations.len()).max();
        let options = compare::Options {
            threshold: question.threshold,
            margin: question.margin,
            risk,
            looks: question.looks,
            between_runs: assumed.between_runs.ln_1p(),
            pooled_most: most(&baseline).unwrap_or(1),
            ..compare::Options::new(metrics[0], metrics[1..].to_vec(), pairing)
        };
        let lengths = output_tokens.as_ref().filter(|_| !assumed.has_peer);
        let doubts = Doubts::new(&baseline, &candidate, lengths, question.is_forced);
        let Conditions { scenario, tenant, .. } = baseline[0].conditions.clone();
        let title = baseline[0].conditions.title();
        let runs = [baseline.len(), candidate.len()];
        let has_records = baseline.iter().chain(&candidate).all(|test| test.has_records);
        let server = server::rows(&baseline, &candidate);
        let accuracy = AccuracyRow::new(&baseline, &candidate, risk);
        let sides = [&baseline, &candidate].map(|side| side.iter().collect::<Vec<_>>());
        let accuracy_doubt = accuracy::doubt(&sides[0], &sides[1], question.is_forced);
        let (mut comparison, observations) = if has_records {
            let of = |tests: Vec<ComparedTest>| -> Vec<compare::Run> {
                tests.into_iter().flat_map(|test| test.observations).collect()
            };
            let (a, b) = (of(baseline), of(candidate));
            (compare::compare(&a, &b, &options), [a.len(), b.len()])
        } else {
            (figures::compare(&baseline, &candidate, &question.metrics), runs)
        };
        notes.extend(doubts.apply(&mut comparison, metrics[0]));
        comparison.verdict =
            accuracy::verdict(accuracy.as_ref(), accuracy_doubt.as_deref(), comparison.verdict);
        notes.extend(accuracy_doubt.clone());
        notes.extend(open_failures(&mut comparison));
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
            accuracy,
            accuracy_doubt,
            output_tokens,
            server,
            may_recover: doubts.may_end(),
            has_invalid_side: doubts.has_invalid_side(),
            notes,
        })
    }
}

/// Returns the metrics to compare, the headline first, and a note on default metrics that are left out.
///
/// # Errors
/// A requested metric that a run does not measure.
fn metrics(
    baseline: &[ComparedTest],
    candidate: &[ComparedTest],
    question: &Question,
    has_peer: bool,
) -> Result<(Vec<Metric>, Option<String>), Failure> {
    if !question.metrics.is_empty() {
        metric::refuse_unmeasured(&question.metrics, baseline, candidate)?;
        let requested = question.metrics.clone();
        let metrics = if has_peer {
            requested
        } else {
            metric::with_failures(requested, baseline, candidate)
        };
        return Ok((metrics, None));
    }
    if has_peer {
        return Ok(metric::measured(&peer::METRICS, baseline, candidate));
    }
    Ok((metric::of_scenario(baseline, candidate), None))
}

/// Rejects incomplete runs unless they are forced. Returns notes on them.
fn refuse_incomplete(
    baseline: &[ComparedTest],
    candidate: &[ComparedTest],
    is_forced: bool,
) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    for (side, tests) in [("baseline", baseline), ("candidate", candidate)] {
        let Some(ended) = tests.iter().find(|test| test.state != State::Complete) else { continue };
        let how = &ended.verdict;
        let title = ended.conditions.title();
        let problem = format!("{title} of the {side} is {how} and has no result");
        if !is_forced {
            return Err(Failure::usage(problem).hint("--force uses its partial result"));
        }
        notes.push(problem);
    }
    Ok(notes)
}

/// Returns the pairing of runs. Single runs are compared query by query if both had the same
/// schedule.
fn pairing(baseline: &[ComparedTest], candidate: &[ComparedTest], is_paired: bool) -> Pairing {
    let is_paired = match (baseline, candidate) {
        ([a], [b]) => a.scheduled == b.scheduled,
        _ => is_paired,
    };
    if is_paired { Pairing::InOrder } else { Pairing::None }
}
