//! Tests of a run: settings are resolved for each scenario, mode and tenant, and rejected if they
//! exceed the memory of the machine.

use dyno_loadgen::plan::Plan;
use dyno_loadgen::run::RecordRetention;
use dyno_loadgen::settings::{Arrivals, Origin, Scenario, Settings, TestMode};
use dyno_results::units;

use crate::environment;
use crate::failure::Failure;
use crate::options::{Options, TenantTable, is_open};
use crate::system::System;
use crate::test::{PlannedTest, TestTenant};

/// Share of the probed throughput at which Server queries arrive.
const SERVER_SHARE: f64 = 0.1;
/// Maximum rate of Server queries that a probe sets, queries/s.
const SERVER_QPS_MOST: f64 = 1_000.0;
/// Factor on the probed rate of Offline, so that the query is long enough even if the probe was
/// slowed down.
const OFFLINE_MARGIN: f64 = 1.5;

/// Factor on the required length of a query that was too short.
const LONGER_MARGIN: f64 = 1.2;
/// Origin of rates that a probe found.
const PROBED: Origin = Origin::Code("a short probe before the run");
/// Setting that determines the size of the Offline query.
const OFFLINE_RATE: &str = "offline_expected_qps";

/// Returns the setting that a probe determines unless it is set, with its value after the probe.
fn probed_setting(scenario: Scenario, probed: Option<f64>) -> Option<(&'static str, Option<f64>)> {
    match scenario {
        Scenario::Server => {
            let qps = probed.map(|rate| two_digits((rate * SERVER_SHARE).min(SERVER_QPS_MOST)));
            Some(("server_target_qps", qps))
        }
        Scenario::Offline => {
            Some((OFFLINE_RATE, probed.map(|rate| two_digits(rate * OFFLINE_MARGIN))))
        }
        Scenario::SingleStream | Scenario::MultiStream => None,
    }
}

/// Rounds to two digits, because a probe is not exact.
fn two_digits(value: f64) -> f64 {
    let scale = 10_f64.powf(value.log10().floor() - 1.0);
    (value / scale).round() * scale
}

/// Returns whether a rate depends on the speed of the system and is not given.
pub fn needs_probe(options: &Options, system: &System) -> bool {
    // Accuracy tests of Server have arrivals at the rate, too; Offline is one query of all samples.
    let is_measured = options.modes().iter().any(|mode| *mode != TestMode::AccuracyOnly);
    let is_unknown = |scenario: Scenario| {
        if !is_measured && scenario != Scenario::Server {
            return false;
        }
        let mut settings = options.settings(scenario, TestMode::PerformanceOnly, None);
        system.complete(&options.run, &mut settings);
        options.complete_load(&mut settings);
        has_rate(&settings)
            && probed_setting(scenario, None).is_some_and(|(key, _)| is_open(&settings, key))
    };
    // Tenants set their rates.
    options.tenants.is_empty() && options.scenarios().into_iter().any(is_unknown)
}

/// Returns whether queries arrive at a rate, and not with a fixed number in flight or at recorded
/// times.
fn has_rate(settings: &Settings) -> bool {
    let arrivals = &settings.values.server_arrivals;
    settings.values.scenario != Scenario::Server
        || !matches!(arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_))
}

/// Returns all tests of the run, in order.
///
/// # Errors
/// All invalid settings of all tests.
pub fn tests(
    options: &Options,
    system: &System,
    probed: Option<f64>,
) -> Result<Vec<PlannedTest>, Failure> {
    let (mut tests, mut problems) = (Vec::<PlannedTest>::new(), Vec::new());
    for scenario in options.scenarios() {
        for &mode in options.modes() {
            let tenants: Vec<Option<&TenantTable>> = match &options.tenants[..] {
                [] => vec![None],
                tables => tables.iter().map(Some).collect(),
            };
            let resolved = tenants
                .into_iter()
                .map(|tenant| resolve(options, system, scenario, mode, tenant, probed));
            let (mut resolved_tenants, before) = (Vec::new(), problems.len());
            for tenant in resolved {
                match tenant {
                    Ok(tenant) => resolved_tenants.push(tenant),
                    Err(found) => problems.extend(found),
                }
            }
            if problems.len() > before {
                continue;
            }
            // An audit may force one mode, so that two tests become equal.
            let mode = resolved_tenants[0].plan.mode;
            if tests.iter().all(|test| (test.scenario, test.mode) != (scenario, mode)) {
                tests.push(planned(options, scenario, mode, resolved_tenants));
            }
        }
    }
    // Settings are resolved for each mode, so that problems repeat.
    let mut seen = std::collections::HashSet::new();
    problems.retain(|problem: &String| seen.insert(problem.clone()));
    if !problems.is_empty() {
        return Err(other_data(options, system).unwrap_or_else(|| Failure::usages(problems)));
    }
    if let Some(workers) = &system.remote_workers {
        workers.check(&tests, system.is_simulated())?;
    }
    Ok(tests)
}

/// Returns the failure of a system with fewer samples than the round requires, as of a system for
/// another task; `None` for other systems. It is the cause of further invalid settings.
fn other_data(options: &Options, system: &System) -> Option<Failure> {
    let rules = options.rules.as_ref()?;
    let samples = system.library_size().total;
    let required = |scenario| {
        let settings = options.settings(scenario, TestMode::PerformanceOnly, None);
        let is_of_round = matches!(settings.origin(PERFORMANCE_SAMPLES), Some(Origin::Rules(_)));
        is_of_round.then_some(settings.values.performance_sample_count_override)
    };
    let required = options.scenarios().into_iter().filter_map(required).max()?;
    if required <= samples {
        return None;
    }
    let (round, benchmark) = (rules.round.version, &rules.benchmark.name);
    let problem = format!(
        "round {round} requires at least {} samples in memory for {benchmark}; {} has {}",
        units::count(required),
        system.spec,
        units::count(samples)
    );
    Some(Failure::usage(problem).hint(match options.run.system {
        None => {
            "add the model and the data of the benchmark, such as --system onnx:FILE --data FILE; \
             without --system, a run measures the built-in model"
        }
        Some(_) => {
            "use the data of the benchmark, or use all samples, which departs from the round: --set \
             performance_sample_count_override=0"
        }
    }))
}

/// Setting of the size of the performance set.
const PERFORMANCE_SAMPLES: &str = "performance_sample_count_override";

fn planned(
    options: &Options,
    scenario: Scenario,
    mode: TestMode,
    tenants: Vec<TestTenant>,
) -> PlannedTest {
    PlannedTest {
        scenario,
        mode,
        tenants,
        keep: keep(options),
        fails_fast: options.fails_fast(),
        stops_saturated: options.stops_on_saturation(),
        reads_metrics: true,
    }
}

/// Returns what is kept of records. A trace needs the samples of all runs.
fn keep(options: &Options) -> RecordRetention {
    if options.run.trace_log { RecordRetention::Every } else { RecordRetention::Results }
}

fn resolve(
    options: &Options,
    system: &System,
    scenario: Scenario,
    mode: TestMode,
    tenant: Option<&TenantTable>,
    probed: Option<f64>,
) -> Result<TestTenant, Vec<String>> {
    let mut settings = options.settings(scenario, mode, tenant);
    if let Some((key, Some(value))) = probed_setting(scenario, probed)
        && is_open(&settings, key)
        && has_rate(&settings)
    {
        let value = match scenario {
            Scenario::Offline => value.min(rate_that_fits(settings.values.min_duration_ms)),
            _ => value,
        };
        settings.set(key, &value.to_string(), PROBED).expect("a rate is a number");
    }
    settle(options, system, scenario, tenant, settings)
}

/// Returns one performance test, with these settings above all layers.
///
/// # Errors
/// All invalid settings.
///
/// # Panics
/// A setting does not exist, or a value is invalid.
pub fn performance(
    options: &Options,
    system: &System,
    scenario: Scenario,
    on_top: &[(&str, String)],
    origin: &Origin,
) -> Result<PlannedTest, Failure> {
    let mode = TestMode::PerformanceOnly;
    let mut settings = options.settings(scenario, mode, None);
    for (key, value) in on_top {
        settings.set(key, value, origin.clone()).expect("settings that exist, values that read");
    }
    let tenant = settle(options, system, scenario, None, settings).map_err(Failure::usages)?;
    let test = planned(options, scenario, mode, vec![tenant]);
    if let Some(workers) = &system.remote_workers {
        workers.check(std::slice::from_ref(&test), system.is_simulated())?;
    }
    Ok(test)
}

/// Returns whether a probe determined the size of the Offline query.
pub fn is_probed(settings: &Settings) -> bool {
    settings.origin(OFFLINE_RATE) == Some(&PROBED)
}

/// Returns an Offline test whose query is long enough at a rate, in samples/s; `None` if the memory
/// does not hold a larger query.
///
/// # Errors
/// Invalid settings.
pub fn resized(
    options: &Options,
    system: &System,
    test: &PlannedTest,
    rate: f64,
) -> Result<Option<PlannedTest>, Failure> {
    let mut settings = test.tenants[0].settings.clone();
    let fits = rate_that_fits(settings.values.min_duration_ms);
    let rate = (rate * LONGER_MARGIN).min(fits);
    if rate <= settings.values.offline_expected_qps {
        return Ok(None);
    }
    settings.set(OFFLINE_RATE, &rate.to_string(), PROBED).expect("a rate is a number");
    let tenant = settle(options, system, test.scenario, None, settings).map_err(Failure::usages)?;
    Ok(Some(PlannedTest { tenants: vec![tenant], ..test.clone() }))
}

/// Completes settings, and returns the tenant's part of the test.
fn settle(
    options: &Options,
    system: &System,
    scenario: Scenario,
    tenant: Option<&TenantTable>,
    mut settings: Settings,
) -> Result<TestTenant, Vec<String>> {
    system.complete(&options.run, &mut settings);
    options.complete_load(&mut settings);
    let messages = options.complete(&mut settings);
    let plan = Plan::resolve(&settings.values, system.library_size()).map_err(|errors| {
        let of = tenant.map(|tenant| format!(" of tenant {}", tenant.name)).unwrap_or_default();
        let line = |line: &str| format!("{scenario}{of}: {line}");
        errors.describe(&settings).lines().map(line).collect::<Vec<_>>()
    })?;
    let is_measured = plan.mode != TestMode::AccuracyOnly && scenario == Scenario::Server;
    let plan = match options.run.ramp.filter(|_| is_measured) {
        Some(ramp) => plan.with_ramp(ramp).map_err(|why| vec![format!("--ramp: {why}")])?,
        None => plan,
    };
    let plan = match system.remote() {
        Some(remote) => {
            let plan = remote.check_requests(&options.run, &plan).and(Ok(plan));
            let plan = plan.and_then(|plan| remote.with_sessions(plan));
            plan.map_err(|problem| vec![format!("{scenario}: {problem}")])?
        }
        None => plan,
    };
    check_memory(&plan).map_err(|problem| vec![format!("{scenario}: {problem}")])?;
    if let (Some(remote), None) = (system.remote(), &system.remote_workers) {
        let is_this = |table: &TenantTable| Some(&table.name) == tenant.map(|one| &one.name);
        let number = options.tenants.iter().position(is_this).unwrap_or(0);
        let checked = remote.check(number, &plan);
        checked.map_err(|problem| vec![format!("{scenario}: {problem}")])?;
    }
    let name = tenant.map(|tenant| tenant.name.clone());
    Ok(TestTenant { name, settings, plan, messages })
}

/// Memory per sample, bytes: index, timestamps and claim, and values computed from them. Measured
/// at 40 to 50 bytes, for each run that may be the result.
const BYTES_A_SAMPLE: f64 = 50.0;

/// Returns the Offline rate whose query takes half of the free memory. A probed rate is limited to
/// it.
fn rate_that_fits(min_duration_ms: u64) -> f64 {
    let Some(available) = environment::memory_available() else { return f64::INFINITY };
    let seconds = (min_duration_ms as f64 / 1e3).max(1e-3);
    two_digits(available as f64 / 2.0 / BYTES_A_SAMPLE / (1.1 * seconds))
}

/// Rejects a trace that would exhaust the memory of this machine.
fn check_memory(plan: &Plan) -> Result<(), String> {
    let Some(available) = environment::memory_available() else { return Ok(()) };
    let by_time = plan.target_qps * plan.target_duration as f64 / 1e9;
    let samples = by_time.max(plan.min_query_count as f64) * plan.samples_per_query as f64;
    let runs = plan.repetition.runs();
    let needed = samples * f64::from(runs) * BYTES_A_SAMPLE;
    if needed <= available as f64 {
        return Ok(());
    }
    let each = if runs == 1 { String::new() } else { format!(", kept of {runs} runs,") };
    Err(format!(
        "a trace of about {} samples{each} takes {:.1} GB of memory, and {:.1} GB are free; lower \
         the rate, the duration or the counts",
        units::count(samples as u64),
        needed / 1e9,
        available as f64 / 1e9
    ))
}
