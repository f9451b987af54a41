//! `dyno audit verify`: judges an audit by existing logs.

use std::path::{Path, PathBuf};

use clap::Args;
use dyno_experiment::audit::{self, ScenarioAudit};
use dyno_experiment::{Failure, options};
use dyno_loadgen::settings::{Scenario, TestMode};
use dyno_rules::RuleScenario;
use dyno_submission::audit::{AuditTest, Evidence, RunFolder, baseline_log, verify, write_folder};
use dyno_submission::package::is_truncated;

use super::{Answers, OutputFlags, Rules, exit};
use crate::render::audit::AuditHeading;

use crate::exit::Exit;

/// Flags of `dyno audit verify`.
#[derive(Debug, Args)]
pub struct VerifyCommand {
    /// The audit, such as TEST01
    #[arg(value_name = "TEST")]
    test: String,
    /// The submission's result: a folder with accuracy/ and performance/, or of logs; of TEST04-A
    /// and -B, the run with unique samples
    #[arg(long, value_name = "DIR")]
    reference: Option<PathBuf>,
    /// The audit's run: a folder of logs, or of the audit in a submission
    #[arg(long, value_name = "DIR")]
    audit: PathBuf,
    /// Scenario, if the logs do not state it
    #[arg(long, value_name = "SCENARIO", value_parser = options::scenario)]
    scenario: Option<Scenario>,
    #[command(flatten)]
    rules: Rules,
    #[command(flatten)]
    answers: Answers,
    /// Write the folder of the audit for a submission below this one
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// TEST01: write the answers of the accuracy run to the audited samples, for the accuracy script
    #[arg(long, value_name = "FILE", requires = "reference")]
    baseline_log: Option<PathBuf>,
    #[command(flatten)]
    output_flags: OutputFlags,
}

impl VerifyCommand {
    /// Judges the logs and prints the verdict.
    ///
    /// # Errors
    /// An unknown audit or round, or folders without logs or without complete answers.
    pub fn execute(&self) -> Result<Exit, Failure> {
        let test = audit::test(&self.test)?;
        let rules = audit::round(self.rules.round.as_deref(), test)?;
        let benchmark = self.rules.benchmark.as_deref();
        let audited = find(&self.audit, TestMode::PerformanceOnly)?;
        let logged = audited.scenario();
        if let (Some(given), Some(logged)) = (self.scenario, logged)
            && given != logged
        {
            return Err(Failure::usage(format!(
                "--scenario is {}, but the logs are of {}",
                given.name(),
                logged.name()
            ))
            .hint("remove --scenario"));
        }
        let scenario = self.scenario.or(logged).or_else(|| scenario_of(&self.audit));
        let scenario = scenario.ok_or_else(|| {
            Failure::usage(format!("{} does not state the scenario", self.audit.display()))
                .hint("state it with --scenario")
        })?;
        let plan = self.answers.bounds()?.over(audit::plan(test, rules, benchmark, scenario)?);
        let mut evidence = self.answers.evidence(test, rules, benchmark)?;
        let reference = |mode| self.reference.as_deref().map(|at| find(at, mode)).transpose();
        if plan.needs.accuracy {
            evidence.accuracy = reference(TestMode::AccuracyOnly)?;
        }
        if plan.needs.performance {
            evidence.performance = reference(TestMode::PerformanceOnly)?;
        }
        if test == AuditTest::Test04Pair {
            evidence.audited.extend(reference(TestMode::PerformanceOnly)?);
        }
        let real = |run: &RunFolder| run.folder.canonicalize().ok();
        let compared = evidence.performance.iter().chain(&evidence.audited);
        if compared.into_iter().any(|run| real(run).is_some() && real(run) == real(&audited)) {
            let problem = format!(
                "--reference and --audit are the same folder, {}",
                audited.folder.display()
            );
            return Err(Failure::usage(problem).hint("pass the folders of two different runs"));
        }
        evidence.audited.push(audited);
        check_answers(test, &evidence)?;
        if let (Some(into), Some(accuracy)) = (&self.baseline_log, &evidence.accuracy) {
            let audited = evidence.audited[0].accuracy_path();
            baseline_log(&accuracy.accuracy_path(), &audited, into).map_err(Failure::set_up)?;
        }
        let result = verify(&plan, &evidence);
        let mut one = ScenarioAudit { scenario, result, folders: Vec::new() };
        if let Some(below) = &self.write {
            let written = write_folder(&one.result, &evidence, below).map_err(|error| {
                Failure::set_up(format!("cannot write to {}: {error}", below.display()))
            })?;
            one.folders = written.folders;
        }
        let system = self.audit.display().to_string();
        let heading = AuditHeading { test, round: rules.version, system: &system };
        let audited = [one];
        self.output_flags.print_results(&heading, &audited)?;
        Ok(exit(&audited))
    }
}

/// Checks that the logs of an audit that compares answers are complete. An audit cannot be judged by
/// those of a submission, which is neither a failure of the system nor a success.
fn check_answers(test: AuditTest, evidence: &Evidence) -> Result<(), Failure> {
    use AuditTest::{Test03, Test04, Test04Pair, Test05};
    if matches!(test, Test03 | Test04 | Test04Pair | Test05) {
        return Ok(());
    }
    let mut logs = evidence.accuracy.iter().chain(&evidence.audited).map(RunFolder::accuracy_path);
    // Missing and unreadable logs are reasons to fail.
    let Some(log) = logs.find(|log| is_truncated(log).unwrap_or(false)) else {
        return Ok(());
    };
    let problem = format!(
        "{} is truncated, as submissions require; {test} compares all answers, so it is undecided",
        log.display()
    );
    Err(Failure::set_up(problem).hint(
        "pass the logs as the runs wrote them; `dyno check` judges the audits of a submission by \
         their texts",
    ))
}

fn find(folder: &Path, mode: TestMode) -> Result<RunFolder, Failure> {
    Failure::check_files([folder])?;
    RunFolder::find(folder, mode).ok_or_else(|| {
        let (run, places) = match mode {
            TestMode::AccuracyOnly => ("an accuracy run", "accuracy"),
            _ => ("a performance run", "performance or performance/run_1"),
        };
        let problem = format!("{} contains no LoadGen logs of {run}", folder.display());
        // The directory of a run of Dyno has a folder for each scenario.
        let mut below = Scenario::ALL.iter().map(|scenario| folder.join(scenario.name()));
        let below = below.find(|folder| RunFolder::find(folder, mode).is_some());
        Failure::set_up(problem).hint(match below {
            Some(below) => format!("pass the folder of one scenario: {}", below.display()),
            None => format!("expected mlperf_log_detail.txt in this folder or in {places}"),
        })
    })
}

/// Returns the scenario that a folder of a submission belongs to.
fn scenario_of(folder: &Path) -> Option<Scenario> {
    let whole = folder.canonicalize().ok()?;
    let mut names = whole.iter().rev().filter_map(|name| RuleScenario::named(name.to_str()?));
    names.next().map(RuleScenario::loadgen_scenario)
}
