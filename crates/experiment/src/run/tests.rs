//! From what was said to the tests of a run: settings resolved for each scenario,
//! mode and tenant, and refused if the machine cannot hold them.

use dyno_loadgen::plan::Plan;
use dyno_loadgen::run::RecordRetention;
use dyno_loadgen::settings::{Arrivals, Origin, Scenario, Settings, TestMode};
use dyno_results::units;

use crate::environment;
use crate::failure::Failure;
use crate::options::{Options, TenantTable, is_open};
use crate::system::System;
use crate::test::{Test, TestTenant};

/// Share of the probed throughput at which Server queries arrive.
const SERVER_SHARE: f64 = 0.1;
/// However fast the system is.
const SERVER_QPS_MOST: f64 = 1_000.0;
/// An Offline query must last, even if the probe ran in a slower moment.
const OFFLINE_MARGIN: f64 = 1.5;

/// A query that was too short is made so much longer than it would have to be.
const LONGER_MARGIN: f64 = 1.2;
/// Who sets a rate that a probe found.
const PROBED: Origin = Origin::Code("a short probe before the run");
/// The rate that sizes the query of Offline.
const OFFLINE_RATE: &str = "offline_expected_qps";

/// The key that a probe decides if nobody else does, and its value.
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

/// A probe is not exact, and should not look so.
fn two_digits(value: f64) -> f64 {
    let scale = 10_f64.powf(value.log10().floor() - 1.0);
    (value / scale).round() * scale
}

/// Whether a rate depends on how fast the system is, and was not given.
pub fn needs_probe(options: &Options, system: &System) -> bool {
    let is_measured = |mode: &TestMode| *mode != TestMode::AccuracyOnly;
    let is_unknown = |scenario: Scenario| {
        let mut settings = options.settings(scenario, TestMode::PerformanceOnly, None);
        if let Some(remote) = system.remote() {
            remote.complete(&mut settings);
        }
        has_rate(&settings)
            && probed_setting(scenario, None).is_some_and(|(key, _)| is_open(&settings, key))
    };
    // Tenants say their rates themselves.
    options.tenants.is_empty()
        && options.modes().iter().any(is_measured)
        && options.scenarios().into_iter().any(is_unknown)
}

/// Whether queries come at a rate: not where so many are in flight, or at recorded times.
fn has_rate(settings: &Settings) -> bool {
    let arrivals = &settings.values.server_arrivals;
    settings.values.scenario != Scenario::Server
        || !matches!(arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_))
}

/// All tests of the run, in order.
///
/// # Errors
/// Every setting that makes no sense, in any of them.
pub fn tests(
    options: &Options,
    system: &System,
    probed: Option<f64>,
) -> Result<Vec<Test>, Failure> {
    let (mut tests, mut problems) = (Vec::<Test>::new(), Vec::new());
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
            // An audit may force one mode, which makes two tests the same.
            let mode = resolved_tenants[0].plan.mode;
            if tests.iter().all(|test| (test.scenario, test.mode) != (scenario, mode)) {
                let (tenants, keep) = (resolved_tenants, keep(options));
                let fails_fast = options.fails_fast();
                tests.push(Test { scenario, mode, tenants, keep, fails_fast });
            }
        }
    }
    // The same settings are resolved for each mode.
    let mut seen = std::collections::HashSet::new();
    problems.retain(|problem: &String| seen.insert(problem.clone()));
    if !problems.is_empty() {
        return Err(Failure::usages(problems));
    }
    if let Some(workers) = &system.remote_workers {
        workers.check(&tests, system.is_simulated())?;
    }
    Ok(tests)
}

/// A trace shows the samples of every run.
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

/// One performance test, with these settings on top of all that was said.
///
/// # Errors
/// Every setting that makes no sense.
///
/// # Panics
/// If a setting does not exist or a value does not read.
pub fn performance(
    options: &Options,
    system: &System,
    scenario: Scenario,
    (on_top, origin): (&[(&str, String)], &Origin),
) -> Result<Test, Failure> {
    let mode = TestMode::PerformanceOnly;
    let mut settings = options.settings(scenario, mode, None);
    for (key, value) in on_top {
        settings.set(key, value, origin.clone()).expect("settings that exist, values that read");
    }
    let tenant = settle(options, system, scenario, None, settings).map_err(Failure::usages)?;
    let (keep, fails_fast) = (keep(options), options.fails_fast());
    let test = Test { scenario, mode, tenants: vec![tenant], keep, fails_fast };
    if let Some(workers) = &system.remote_workers {
        workers.check(std::slice::from_ref(&test), system.is_simulated())?;
    }
    Ok(test)
}

/// Whether a probe sized the query of Offline.
pub fn is_probed(settings: &Settings) -> bool {
    settings.origin(OFFLINE_RATE) == Some(&PROBED)
}

/// An Offline test with a query that lasts long enough at a rate, in samples/s; `None` if there is
/// no room for a larger one.
///
/// # Errors
/// Settings that make no sense.
pub fn resized(
    options: &Options,
    system: &System,
    test: &Test,
    rate: f64,
) -> Result<Option<Test>, Failure> {
    let mut settings = test.tenants[0].settings.clone();
    let fits = rate_that_fits(settings.values.min_duration_ms);
    let rate = (rate * LONGER_MARGIN).min(fits);
    if rate <= settings.values.offline_expected_qps {
        return Ok(None);
    }
    settings.set(OFFLINE_RATE, &rate.to_string(), PROBED).expect("a rate is a number");
    let tenant = settle(options, system, test.scenario, None, settings).map_err(Failure::usages)?;
    Ok(Some(Test { tenants: vec![tenant], ..test.clone() }))
}

/// What the settings mean, once all that is said is in them.
fn settle(
    options: &Options,
    system: &System,
    scenario: Scenario,
    tenant: Option<&TenantTable>,
    mut settings: Settings,
) -> Result<TestTenant, Vec<String>> {
    if let Some(remote) = system.remote() {
        remote.complete(&mut settings);
    }
    let messages = options.complete(&mut settings);
    let plan = Plan::resolve(&settings.values, system.library_size()).map_err(|errors| {
        let of = tenant.map(|tenant| format!(" of tenant {}", tenant.name)).unwrap_or_default();
        let line = |line: &str| format!("{scenario}{of}: {line}");
        errors.describe(&settings).lines().map(line).collect::<Vec<_>>()
    })?;
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

/// A sample's index, stamps and claim, and what is computed of them afterwards;
/// measured at 40 to 50 bytes, for each run that may be the result.
const BYTES_A_SAMPLE: f64 = 50.0;

/// The highest Offline rate whose query takes half of the free memory; nobody
/// chose it, so it gives way.
fn rate_that_fits(min_duration_ms: u64) -> f64 {
    let Some(available) = environment::memory_available() else { return f64::INFINITY };
    let seconds = (min_duration_ms as f64 / 1e3).max(1e-3);
    two_digits(available as f64 / 2.0 / BYTES_A_SAMPLE / (1.1 * seconds))
}

/// Refuses a trace that would exhaust the memory of this machine.
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
