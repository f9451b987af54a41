//! Assigns tests to results, by the rules of the division.

use super::runs::{AuditFiles, RunContents, TestPart, TestRun};
use super::{Infer, PackageError, PackageRequest};
use crate::entry::DivisionFolder;
use dyno_rules::{Benchmark, RuleScenario, Suite, SuiteScenarios, Version};

/// A result to write.
#[derive(Debug, Clone)]
pub(super) struct PlannedResult<'f> {
    /// Name of the model's folder.
    pub model: String,
    /// Scenario of the result.
    pub scenario: RuleScenario,
    /// Scenario that was run.
    pub run: RuleScenario,
    pub accuracy: &'f TestRun,
    /// Performance runs, in order.
    pub performance: Vec<&'f TestRun>,
    pub audits: Vec<&'f AuditFiles>,
}

/// Returns the official benchmark of the results.
pub(super) fn benchmark<'a>(request: &PackageRequest<'a>) -> Result<&'a Benchmark, PackageError> {
    let round = request.round;
    let official = request.stands_for.as_deref().unwrap_or(&request.benchmark);
    if request.division == DivisionFolder::Network && round.version < Version::new(2, 1) {
        let division = request.division.name();
        return Err(PackageError::NoDivision { division, round: round.version });
    }
    round.benchmark(official).ok_or_else(|| PackageError::UnknownBenchmark {
        name: official.to_owned(),
        round: round.version,
        nearest: round.similar_benchmark(official).map(str::to_owned),
        may_be_own: request.division == DivisionFolder::Open && request.stands_for.is_none(),
    })
}

/// Returns the results, sorted by scenario.
pub(super) fn results<'f>(
    request: &PackageRequest<'_>,
    benchmark: &Benchmark,
    found: &'f RunContents,
) -> Result<Vec<PlannedResult<'f>>, PackageError> {
    let mut results = Vec::new();
    for scenario in RuleScenario::ALL {
        if found.tests.iter().any(|test| test.scenario == scenario) {
            results.push(scenario_result(request, scenario, found)?);
        }
    }
    for (index, audit) in found.audits.iter().enumerate() {
        let is_same =
            |other: &&AuditFiles| (other.scenario, &other.name) == (audit.scenario, &audit.name);
        if let Some(other) = found.audits[index + 1..].iter().find(is_same) {
            let folders = [audit.folder.clone(), other.folder.clone()];
            return Err(PackageError::DuplicateAudit { folders });
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
    let wanted = benchmark.scenarios_in(request.suite);
    let wanted = wanted.as_deref();
    if request.infer == Infer::Missing && request.suite != Suite::Datacenter {
        infer(wanted, &mut results)?;
    }
    match (request.division, wanted) {
        // The open division accepts all scenarios.
        (DivisionFolder::Open, _) => {}
        (_, None) => {
            let benchmark = benchmark.name.clone();
            return Err(PackageError::NotInSuite { benchmark, suite: request.suite });
        }
        (_, Some(wanted)) => check_scenarios(request, benchmark, wanted, &results)?,
    }
    results.sort_by_key(|result| result.scenario);
    Ok(results)
}

/// Returns the benchmark of the lower target if the results have the high one. Results that
/// reach 99.9 % of the reference quality may also be submitted for 99 %.
pub(super) fn lower_target<'a>(request: &PackageRequest<'a>) -> Option<&'a Benchmark> {
    let round = request.round;
    let own = round.benchmark(&request.benchmark).filter(|_| request.stands_for.is_none())?;
    round.benchmark(own.lower_target()?)
}

/// Returns copies of the results for the lower target, or none if they are not all that the
/// suite requires.
pub(super) fn copies<'f>(
    request: &PackageRequest<'_>,
    lower: &Benchmark,
    results: &[PlannedResult<'f>],
) -> Vec<PlannedResult<'f>> {
    let wanted = lower.scenarios_in(request.suite);
    let wanted = wanted.as_deref();
    let is_open = request.division == DivisionFolder::Open;
    let is_wanted = |result: &&PlannedResult<'_>| {
        is_open || wanted.is_some_and(|wanted| wanted.has(result.scenario))
    };
    let copies = results.iter().filter(is_wanted).cloned();
    let copies: Vec<_> =
        copies.map(|result| PlannedResult { model: lower.name.clone(), ..result }).collect();
    let is_complete =
        wanted.is_some_and(|wanted| check_scenarios(request, lower, wanted, &copies).is_ok());
    if is_open || is_complete { copies } else { Vec::new() }
}

/// Returns the result of one scenario.
fn scenario_result<'f>(
    request: &PackageRequest<'_>,
    scenario: RuleScenario,
    found: &'f RunContents,
) -> Result<PlannedResult<'f>, PackageError> {
    let tests = |part: TestPart| -> Vec<&TestRun> {
        let is_it = |test: &&TestRun| test.scenario == scenario && test.part == part;
        found.tests.iter().filter(is_it).collect()
    };
    let at_most = |part: TestPart, most: usize| {
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
    // Before v1.0, the worst of five Server runs counted.
    let has_five = scenario == RuleScenario::Server && request.round.version < Version::new(1, 0);
    let performance = match confirmed_run(request, scenario, &tests(TestPart::Performance)) {
        Some(run) if !has_five => vec![run],
        _ => at_most(TestPart::Performance, if has_five { 5 } else { 1 })?,
    };
    let accuracy = at_most(TestPart::Accuracy, 1)?[0];
    let audits = found.audits.iter().filter(|audit| audit.scenario == scenario).collect();
    let model = request.benchmark.clone();
    Ok(PlannedResult { model, scenario, run: scenario, accuracy, performance, audits })
}

/// Returns the run to submit if several runs in one folder confirm a result: the first of those
/// with the fewest streams.
fn confirmed_run<'f>(
    request: &PackageRequest<'_>,
    scenario: RuleScenario,
    tests: &[&'f TestRun],
) -> Option<&'f TestRun> {
    let runs = request.round.scenarios.get(&scenario)?.confirmation.as_ref()?.runs;
    let parent = tests.first()?.folder.parent();
    let is_repeated = |test: &&&TestRun| {
        let name = test.folder.file_name().and_then(|name| name.to_str());
        test.folder.parent() == parent && name.is_some_and(|name| name.starts_with("run_"))
    };
    let side_by_side = tests.iter().filter(is_repeated).count();
    if side_by_side != tests.len() || tests.len() as u64 > runs {
        return None;
    }
    let streams = |test: &TestRun| test.detail.number("effective_samples_per_query").unwrap_or(0.0);
    tests.iter().copied().min_by(|a, b| streams(a).total_cmp(&streams(b)))
}

/// Adds MultiStream and Offline results that are required and were not run.
fn infer<'f>(
    wanted: Option<&SuiteScenarios>,
    results: &mut Vec<PlannedResult<'f>>,
) -> Result<(), PackageError> {
    for scenario in [RuleScenario::MultiStream, RuleScenario::Offline] {
        let is_wanted = wanted.is_none_or(|wanted| wanted.required.contains(&scenario));
        if !is_wanted || results.iter().any(|result| result.scenario == scenario) {
            continue;
        }
        let Some(source) = source_of(scenario, results) else { continue };
        let test = source.performance[0];
        let estimate = test.detail.number("early_stopping_latency_ms");
        if scenario == RuleScenario::MultiStream && estimate.is_none_or(|ns| ns <= 0.0) {
            let folder = test.folder.clone();
            return Err(PackageError::NoEstimate { folder, scenario });
        }
        results.push(PlannedResult { scenario, ..source });
    }
    Ok(())
}

/// Returns the result from which a scenario may be inferred. Inferred results are not sources.
fn source_of<'f>(
    scenario: RuleScenario,
    results: &[PlannedResult<'f>],
) -> Option<PlannedResult<'f>> {
    let sources: &[RuleScenario] = match scenario {
        RuleScenario::MultiStream => &[RuleScenario::SingleStream],
        RuleScenario::Offline => &[RuleScenario::SingleStream, RuleScenario::MultiStream],
        _ => &[],
    };
    let run = |source: &RuleScenario| {
        results.iter().find(|result| result.scenario == *source && result.run == *source)
    };
    sources.iter().find_map(run).cloned()
}

fn check_scenarios(
    request: &PackageRequest<'_>,
    benchmark: &Benchmark,
    wanted: &SuiteScenarios,
    results: &[PlannedResult<'_>],
) -> Result<(), PackageError> {
    if let Some(result) = results.iter().find(|result| !wanted.has(result.scenario)) {
        let all = wanted.required.iter().chain(&wanted.optional).copied().collect();
        let (benchmark, scenario) = (benchmark.name.clone(), result.scenario);
        return Err(PackageError::ScenarioNotWanted { benchmark, scenario, wanted: all });
    }
    let has = |scenario: &RuleScenario| results.iter().any(|result| result.scenario == *scenario);
    let missing: Vec<_> =
        wanted.required.iter().copied().filter(|scenario| !has(scenario)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let can_be_inferred = request.suite != Suite::Datacenter
        && missing.iter().all(|scenario| source_of(*scenario, results).is_some());
    Err(PackageError::ScenariosMissing { missing, can_be_inferred })
}
