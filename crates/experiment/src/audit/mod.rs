//! An audit as one command: the runs of the submission, the runs of the audit, and the verdict on
//! their logs.

mod loads;
mod play;
mod quality;

use dyno_loadgen::settings::Scenario;
use dyno_rules::Round;
use dyno_submission::audit::{self, AuditPlan, AuditResult, AuditTest};

pub use play::Schedule;

use crate::failure::Failure;

/// The result of an audit in one scenario.
pub struct ScenarioAudit {
    /// The scenario.
    pub scenario: Scenario,
    /// The verdict.
    pub result: AuditResult,
    /// Folders written for a submission.
    pub folders: Vec<std::path::PathBuf>,
}

/// Bounds given by the user, which replace those of a round.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    /// Least quality, for TEST07.
    pub least_quality: Option<f64>,
    /// Fewest and most tokens of an answer on average, for TEST09.
    pub mean_tokens: Option<[f64; 2]>,
}

impl Bounds {
    /// Returns a plan with these bounds in place of its own where they are given.
    pub fn over(self, plan: AuditPlan) -> AuditPlan {
        AuditPlan {
            threshold: self.least_quality.or(plan.threshold),
            mean_tokens: self.mean_tokens.or(plan.mean_tokens),
            ..plan
        }
    }
}

/// Returns the audit of this name.
///
/// # Errors
/// There is no audit of this name.
pub fn test(name: &str) -> Result<AuditTest, Failure> {
    AuditTest::named(name).ok_or_else(|| {
        let names: Vec<&str> = AuditTest::ALL.iter().map(|test| test.name()).collect();
        let near = AuditTest::nearest(name);
        let near = near.map(|near| format!("; the nearest is {near}")).unwrap_or_default();
        Failure::usage(format!("unknown audit `{name}`{near}"))
            .hint(format!("the audits are {}", names.join(", ")))
    })
}

/// Returns the round of this name, or the newest round that has the audit.
///
/// # Errors
/// The round does not exist, or does not have this audit.
pub fn round(name: Option<&str>, test: AuditTest) -> Result<&'static Round, Failure> {
    let has = |round: &&Round| audit::plan(test, round, None, Scenario::Offline).is_ok();
    match name {
        Some(name) => Round::named(name).map_err(Failure::usage),
        None => {
            let mut rounds = Round::names().into_iter().rev().filter_map(|n| Round::named(n).ok());
            Ok(rounds.find(has).expect("every audit is of some round"))
        }
    }
}

/// Returns the plan of an audit; the error has a hint if the round has a different audit.
///
/// # Errors
/// The round does not have this audit or this benchmark.
pub fn plan(
    test: AuditTest,
    round: &Round,
    benchmark: Option<&str>,
    scenario: Scenario,
) -> Result<AuditPlan, Failure> {
    if let Some(name) = benchmark.filter(|name| round.benchmark(name).is_none()) {
        let near = round.similar_benchmark(name);
        let near = near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
        let problem = format!("round {} has no benchmark `{name}`{near}", round.version);
        return Err(Failure::usage(problem));
    }
    let has = |test: &AuditTest| audit::plan(*test, round, None, scenario).is_ok();
    audit::plan(test, round, benchmark, scenario).map_err(|error| {
        let names: Vec<&str> =
            AuditTest::ALL.iter().filter(|test| has(test)).map(|t| t.name()).collect();
        Failure::usage(error).hint(format!("round {} has {}", round.version, names.join(", ")))
    })
}
