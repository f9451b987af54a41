//! An audit as one command: the submission's runs, those of the audit, and the
//! verdict on their logs.

mod loads;
mod play;
mod quality;

use dyno_loadgen::settings::Scenario;
use dyno_rules::Round;
use dyno_submission::audit::{self, AuditResult, Plan, Test};

pub use play::Schedule;

use crate::failure::Failure;

/// What an audit found in one scenario.
pub struct Audited {
    /// The scenario.
    pub scenario: Scenario,
    /// The verdict.
    pub result: AuditResult,
    /// Folders that were written for a submission.
    pub folders: Vec<std::path::PathBuf>,
}

/// Bounds that somebody gives, over those of a round.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    /// TEST07.
    pub least_quality: Option<f64>,
    /// TEST09: the fewest and the most.
    pub mean_tokens: Option<[f64; 2]>,
}

impl Bounds {
    /// A plan with these bounds, where they are given.
    pub fn over(self, plan: Plan) -> Plan {
        Plan {
            threshold: self.least_quality.or(plan.threshold),
            mean_tokens: self.mean_tokens.or(plan.mean_tokens),
            ..plan
        }
    }
}

/// The audit of that name.
///
/// # Errors
/// There is none.
pub fn test(name: &str) -> Result<Test, Failure> {
    Test::named(name).ok_or_else(|| {
        let names: Vec<&str> = Test::ALL.iter().map(|test| test.name()).collect();
        let problem = format!("there is no audit `{name}`; the nearest is {}", Test::nearest(name));
        Failure::usage(problem).hint(format!("the audits are {}", names.join(", ")))
    })
}

/// The round of that name, or the last one that has the audit.
///
/// # Errors
/// There is no such round, or it has no such audit.
pub fn round(name: Option<&str>, test: Test) -> Result<&'static Round, Failure> {
    let has = |round: &&Round| audit::plan(test, round, None, Scenario::Offline).is_ok();
    match name {
        Some(name) => Round::named(name).map_err(Failure::usage),
        None => {
            let mut rounds = Round::names().into_iter().rev().filter_map(|n| Round::named(n).ok());
            Ok(rounds.find(has).expect("every audit is of some round"))
        }
    }
}

/// The plan of an audit, with a hint where the round has another one.
///
/// # Errors
/// The round has no such audit, or no such benchmark.
pub fn plan(
    test: Test,
    round: &Round,
    benchmark: Option<&str>,
    scenario: Scenario,
) -> Result<Plan, Failure> {
    if let Some(name) = benchmark.filter(|name| round.benchmark(name).is_none()) {
        let near = round.nearest_benchmark(name).unwrap_or("resnet");
        let problem = format!("round {} has no benchmark `{name}`", round.version);
        return Err(Failure::usage(format!("{problem}; the nearest is `{near}`")));
    }
    let has = |test: &Test| audit::plan(*test, round, None, scenario).is_ok();
    audit::plan(test, round, benchmark, scenario).map_err(|error| {
        let names: Vec<&str> =
            Test::ALL.iter().filter(|test| has(test)).map(|t| t.name()).collect();
        Failure::usage(error).hint(format!("round {} has {}", round.version, names.join(", ")))
    })
}
