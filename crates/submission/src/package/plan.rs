//! Which tests make which result, by the rules of the division.

use super::runs::{AuditFiles, Found, Part, Test};
use super::{Asked, Infer, PackageError};
use crate::entry::DivisionFolder;
use dyno_rules::{Benchmark, Scenario, Suite, SuiteScenarios, Version};

/// A result that is to be written.
#[derive(Debug, Clone)]
pub(super) struct Planned<'f> {
    /// In the folder of this model.
    pub model: String,
    /// Under this name.
    pub scenario: Scenario,
    /// What was run.
    pub run: Scenario,
    pub accuracy: &'f Test,
    /// In the order of their numbers.
    pub performance: Vec<&'f Test>,
    pub audits: Vec<&'f AuditFiles>,
}

/// The official benchmark that the results are of.
pub(super) fn benchmark<'a>(asked: &Asked<'a>) -> Result<&'a Benchmark, PackageError> {
    let round = asked.round;
    let official = asked.stands_for.as_deref().unwrap_or(&asked.benchmark);
    if asked.division == DivisionFolder::Network && round.version < Version::new(2, 1) {
        let division = asked.division.name();
        return Err(PackageError::NoDivision { division, round: round.version });
    }
    round.benchmark(official).ok_or_else(|| PackageError::UnknownBenchmark {
        name: official.to_owned(),
        round: round.version,
        nearest: round.nearest_benchmark(official).map(str::to_owned),
        may_be_own: asked.division == DivisionFolder::Open && asked.stands_for.is_none(),
    })
}

/// The results, in the order of the scenarios.
pub(super) fn results<'f>(
    asked: &Asked<'_>,
    benchmark: &Benchmark,
    found: &'f Found,
) -> Result<Vec<Planned<'f>>, PackageError> {
    let mut results = Vec::new();
    for scenario in Scenario::ALL {
        if found.tests.iter().any(|test| test.scenario == scenario) {
            results.push(measured(asked, scenario, found)?);
        }
    }
    for (at, audit) in found.audits.iter().enumerate() {
        let is_same =
            |other: &&AuditFiles| (other.scenario, &other.name) == (audit.scenario, &audit.name);
        if let Some(other) = found.audits[at + 1..].iter().find(is_same) {
            let folders = [audit.folder.clone(), other.folder.clone()];
            return Err(PackageError::AuditTwice { folders });
        }
    }
    if let Some(audit) = found
        .audits
        .iter()
        .find(|audit| results.iter().all(|result| result.scenario != audit.scenario))
    {
        let (folder, scenario) = (audit.folder.clone(), audit.scenario);
        return Err(PackageError::AuditWithoutResult { folder, scenario });
    }
    let wanted = benchmark.scenarios_in(asked.suite);
    let wanted = wanted.as_deref();
    if asked.infer == Infer::Missing && asked.suite != Suite::Datacenter {
        infer(wanted, &mut results)?;
    }
    match (asked.division, wanted) {
        // Anything goes there, as long as it is told.
        (DivisionFolder::Open, _) => {}
        (_, None) => {
            let benchmark = benchmark.name.clone();
            return Err(PackageError::NotInSuite { benchmark, suite: asked.suite });
        }
        (_, Some(wanted)) => check_scenarios(asked, benchmark, wanted, &results)?,
    }
    results.sort_by_key(|result| result.scenario);
    Ok(results)
}

/// The benchmark of the lower target, where that of the results is the high one: what
/// reaches 99.9 % of the reference's quality may be submitted for 99 % as well.
pub(super) fn lower_target<'a>(asked: &Asked<'a>) -> Option<&'a Benchmark> {
    let name = asked.benchmark.strip_suffix("-99.9").filter(|_| asked.stands_for.is_none())?;
    asked.round.benchmark(&format!("{name}-99"))
}

/// The results, as those of the lower target; none if they are not all that the suite
/// requires there.
pub(super) fn copies<'f>(
    asked: &Asked<'_>,
    lower: &Benchmark,
    results: &[Planned<'f>],
) -> Vec<Planned<'f>> {
    let wanted = lower.scenarios_in(asked.suite);
    let wanted = wanted.as_deref();
    let is_open = asked.division == DivisionFolder::Open;
    let is_wanted =
        |result: &&Planned<'_>| is_open || wanted.is_some_and(|wanted| wanted.has(result.scenario));
    let copies = results.iter().filter(is_wanted).cloned();
    let copies: Vec<_> =
        copies.map(|result| Planned { model: lower.name.clone(), ..result }).collect();
    let is_whole =
        wanted.is_some_and(|wanted| check_scenarios(asked, lower, wanted, &copies).is_ok());
    if is_open || is_whole { copies } else { Vec::new() }
}

/// The tests of one scenario.
fn measured<'f>(
    asked: &Asked<'_>,
    scenario: Scenario,
    found: &'f Found,
) -> Result<Planned<'f>, PackageError> {
    let tests = |part: Part| -> Vec<&Test> {
        let is_it = |test: &&Test| test.scenario == scenario && test.part == part;
        found.tests.iter().filter(is_it).collect()
    };
    let at_most = |part: Part, most: usize| {
        let tests = tests(part);
        if tests.is_empty() {
            return Err(PackageError::PartMissing { scenario, part });
        }
        if tests.len() > most {
            let folders = tests.iter().map(|test| test.folder.clone()).collect();
            return Err(PackageError::TooMany { scenario, part, folders, most });
        }
        Ok(tests)
    };
    // The rules had the worst of five runs count, until early stopping came.
    let has_five = scenario == Scenario::Server && asked.round.version < Version::new(1, 0);
    let performance = match confirmed(asked, scenario, &tests(Part::Performance)) {
        Some(run) if !has_five => vec![run],
        _ => at_most(Part::Performance, if has_five { 5 } else { 1 })?,
    };
    let accuracy = at_most(Part::Accuracy, 1)?[0];
    let audits = found.audits.iter().filter(|audit| audit.scenario == scenario).collect();
    let model = asked.benchmark.clone();
    Ok(Planned { model, scenario, run: scenario, accuracy, performance, audits })
}

/// The run of a result that is submitted once, after several that confirmed it
/// stand side by side: the one with the fewest streams, the first of those alike.
fn confirmed<'f>(asked: &Asked<'_>, scenario: Scenario, tests: &[&'f Test]) -> Option<&'f Test> {
    let runs = asked.round.scenarios.get(&scenario)?.confirmation.as_ref()?.runs;
    let parent = tests.first()?.folder.parent();
    let is_repeated = |test: &&&Test| {
        let name = test.folder.file_name().and_then(|name| name.to_str());
        test.folder.parent() == parent && name.is_some_and(|name| name.starts_with("run_"))
    };
    let side_by_side = tests.iter().filter(is_repeated).count();
    if side_by_side != tests.len() || tests.len() as u64 > runs {
        return None;
    }
    let streams = |test: &Test| test.detail.number("effective_samples_per_query").unwrap_or(0.0);
    tests.iter().copied().min_by(|a, b| streams(a).total_cmp(&streams(b)))
}

/// Adds the results of MultiStream and Offline that are wanted and were not run.
fn infer<'f>(
    wanted: Option<&SuiteScenarios>,
    results: &mut Vec<Planned<'f>>,
) -> Result<(), PackageError> {
    for scenario in [Scenario::MultiStream, Scenario::Offline] {
        let is_wanted = wanted.is_none_or(|wanted| wanted.required.contains(&scenario));
        if !is_wanted || results.iter().any(|result| result.scenario == scenario) {
            continue;
        }
        let Some(source) = source_of(scenario, results) else { continue };
        let test = source.performance[0];
        let estimate = test.detail.number("early_stopping_latency_ms");
        if scenario == Scenario::MultiStream && estimate.is_none_or(|ns| ns <= 0.0) {
            let folder = test.folder.clone();
            return Err(PackageError::NoEstimate { folder, scenario });
        }
        results.push(Planned { scenario, ..source });
    }
    Ok(())
}

/// What a scenario may be inferred from, by the rules: what was run, not what was
/// inferred itself.
fn source_of<'f>(scenario: Scenario, results: &[Planned<'f>]) -> Option<Planned<'f>> {
    let sources: &[Scenario] = match scenario {
        Scenario::MultiStream => &[Scenario::SingleStream],
        Scenario::Offline => &[Scenario::SingleStream, Scenario::MultiStream],
        _ => &[],
    };
    let run = |source: &Scenario| {
        results.iter().find(|result| result.scenario == *source && result.run == *source)
    };
    sources.iter().find_map(run).cloned()
}

fn check_scenarios(
    asked: &Asked<'_>,
    benchmark: &Benchmark,
    wanted: &SuiteScenarios,
    results: &[Planned<'_>],
) -> Result<(), PackageError> {
    if let Some(result) = results.iter().find(|result| !wanted.has(result.scenario)) {
        let all = wanted.required.iter().chain(&wanted.optional).copied().collect();
        let (benchmark, scenario) = (benchmark.name.clone(), result.scenario);
        return Err(PackageError::ScenarioNotWanted { benchmark, scenario, wanted: all });
    }
    let has = |scenario: &Scenario| results.iter().any(|result| result.scenario == *scenario);
    let missing: Vec<_> =
        wanted.required.iter().copied().filter(|scenario| !has(scenario)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let can_be_inferred = asked.suite != Suite::Datacenter
        && missing.iter().all(|scenario| source_of(*scenario, results).is_some());
    Err(PackageError::ScenariosMissing { missing, can_be_inferred })
}
