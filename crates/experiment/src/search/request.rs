//! Settings of a search: they are parsed, completed from the settings of the run, and rejected if
//! invalid.

use std::collections::BTreeMap;

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::early_stopping;
use dyno_loadgen::plan::Plan;
use dyno_loadgen::search::{Limit, Quantity, Rules};
use dyno_loadgen::settings::{
    Arrivals, EarlyStopping, FIELDS, Field, Origin, Repetition, Scenario, Setting as _, TestMode,
    TestSettings,
};
use dyno_results::search::{Definition, Load, SettingOverride, limits};
use dyno_results::summary::NO_BOUND;

use crate::effect;
use crate::failure::Failure;
use crate::options::{KeyOrigin, Mode, Options, Profile, is_chosen, is_open};
use crate::run::PreparedRun;
use crate::system::net::Remote;
use crate::test::PlannedTest;
use crate::throughput;
use crate::watch::Control;

/// Settings of a search besides those of its runs.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// Limits in the grammar of `--limit`.
    pub limits: Vec<String>,
    /// Limits in the grammar of `--goodput`.
    pub goodput: Vec<String>,
    /// Load that is raised.
    pub load: Option<Load>,
    /// The first load.
    pub from: Option<f64>,
    /// The highest load that is tried.
    pub to: Option<f64>,
    /// Relative tolerance of the peak.
    pub tolerance: f64,
    /// Length of the first runs, ns.
    pub short: Option<Nanos>,
    /// Time limit of all runs together, ns.
    pub max_time: Option<Nanos>,
    /// Whether a full run confirms the peak.
    pub confirm: bool,
    /// Maximum number of repeats of a run that the client or the machine disturbed.
    pub repeats: u32,
}

/// Maximum number of full runs.
const CONFIRMATIONS: u32 = 4;
/// Maximum number of queries of a short run.
const MOST_QUERIES: u64 = 5_000_000;

/// Reduces the options to one scenario and one mode. Returns the load that is raised.
pub fn narrow(options: &mut Options, ask: &SearchRequest) -> Result<Load, Failure> {
    let given = options.run.scenarios.clone();
    let load = match (ask.load, &given[..]) {
        (Some(load), _) => load,
        (None, [Scenario::MultiStream]) => Load::Samples,
        (None, _) => Load::Qps,
    };
    let scenario = load.scenario();
    if given.iter().any(|given| *given != scenario) {
        let problem = format!("a search raises the {} of {scenario}", load.name());
        return Err(Failure::usage(problem).hint(
            "remove --scenario, or use MultiStream, where the search raises the samples per \
                 query",
        ));
    }
    if matches!(options.run.mode, Some(Mode::Accuracy | Mode::Both | Mode::Peak)) {
        let problem = "a search runs only performance tests; --mode has no effect";
        return Err(Failure::usage(problem).hint("dyno run --mode accuracy measures accuracy"));
    }
    let is_flag = |given: &KeyOrigin| matches!(given.origin, Origin::Flag(_));
    if options.given().iter().any(|given| given.key == "require" && is_flag(given)) {
        let problem = "a search uses limits; --require has no effect";
        return Err(Failure::usage(problem).hint("use --limit instead of --require"));
    }
    if ask.short == Some(0) {
        let problem = "expected --short above 0";
        return Err(Failure::usage(problem).hint("use --short 2s, or remove it"));
    }
    if !options.tenants.is_empty() {
        let problem = "a search measures one tenant";
        return Err(Failure::usage(problem).hint("remove the [[tenants]] tables from the file"));
    }
    options.run.scenarios = vec![scenario];
    options.run.mode = Some(Mode::Performance);
    options.judge_limits();
    Ok(load)
}

/// Returns the given limits. If none bounds latency, the bounds of the settings are added.
pub fn read_limits(
    prepared: &PreparedRun,
    ask: &SearchRequest,
    load: Load,
) -> Result<Vec<Limit>, Failure> {
    let said = prepared.options.settings(load.scenario(), TestMode::PerformanceOnly, None).values;
    let percentile = match load {
        Load::Qps | Load::Concurrency => said.server_target_latency_percentile,
        Load::Samples => said.multi_stream_target_latency_percentile,
    };
    if !(percentile > 0.0 && percentile < 1.0) {
        let problem = format!(
            "the target percentile is {percentile}; expected a value between 0 \
             and 1"
        );
        return Err(Failure::usage(problem));
    }
    let given = ask.limits.iter().map(|text| limits::parse_requested(text, percentile));
    let alias = ask.goodput.iter().map(|text| limits::parse_goodput(text, percentile));
    let (mut found, mut problems) = (Vec::<Limit>::new(), Vec::new());
    for limit in given.chain(alias) {
        match limit {
            Ok(limit) => {
                let same = |other: &&Limit| {
                    let errors = limit.quantity == Quantity::Errors;
                    other.quantity == limit.quantity && (errors || other.allowed == limit.allowed)
                };
                match found.iter().find(same) {
                    Some(other) => problems.push(format!(
                        "two limits of the same metric: {} and {}",
                        limits::show(other),
                        limits::show(&limit)
                    )),
                    None => found.push(limit),
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(
            Failure::usages(problems).hint(format!("limits have the form {}", limits::GRAMMAR))
        );
    }
    let bounds_latency =
        |limit: &Limit| limit.quantity.waits() || limit.quantity == Quantity::TimePerOutputToken;
    if found.iter().any(bounds_latency) {
        let why = "the limits of the search replace it";
        reject_bounds(&prepared.options, &|_| false, why)?;
    } else {
        let has_tokens = said.use_token_latencies;
        let why = format!("use_token_latencies is {has_tokens}");
        reject_bounds(&prepared.options, &|key| effect::is_judged(key, has_tokens), &why)?;
        found.extend(limits_of_settings(&said, load, percentile)?);
    }
    check_tokens(prepared, &found)?;
    check_lag(prepared, &found, load)?;
    Ok(found)
}

/// Rejects limits on the lag of a client that has none.
fn check_lag(prepared: &PreparedRun, limits: &[Limit], load: Load) -> Result<(), Failure> {
    let has_lag = load == Load::Qps && !prepared.system.is_simulated();
    match limits.iter().find(|limit| limit.quantity == Quantity::ClientLag && !has_lag) {
        Some(limit) => {
            let shown = limits::show(limit);
            let why = effect::WHERE_CLIENTS_LAG;
            Err(Failure::usage(format!("the limit {shown} is not measured: {why}"))
                .hint("limit the latency, or remove it"))
        }
        None => Ok(()),
    }
}

/// Rejects limits on times of tokens that the system does not report.
fn check_tokens(prepared: &PreparedRun, limits: &[Limit]) -> Result<(), Failure> {
    let is_on_tpot = |limit: &Limit| limit.quantity == Quantity::TimePerOutputToken;
    let is_on_tokens = |limit: &&Limit| limit.quantity == Quantity::FirstToken || is_on_tpot(limit);
    if let Some(limit) = limits.iter().find(is_on_tokens)
        && !prepared.system.reports_tokens()
    {
        let shown = limits::show(limit);
        let problem = format!("the limit {shown} is not measured: the system reports no tokens");
        let hint = "limit the latency, or measure a system that streams tokens";
        return Err(Failure::usage(problem).hint(hint));
    }
    let has_choices = || prepared.system.remote().is_some_and(Remote::has_choices);
    if limits.iter().any(is_on_tpot) && has_choices() {
        let problem = "a limit on TPOT, which answers with several choices (n) do not have";
        return Err(Failure::usage(problem).hint("remove n, or limit ttft or latency"));
    }
    Ok(())
}

/// Rejects bounds of the command line that are no limits of the search.
fn reject_bounds(
    options: &Options,
    is_limit: &dyn Fn(&str) -> bool,
    why: &str,
) -> Result<(), Failure> {
    const BOUNDS: [&str; 3] =
        ["server_target_latency_ns", "server_ttft_latency", "server_tpot_latency"];
    let mut flags = options.assigned().filter(|set| matches!(set.origin, Origin::Flag(_)));
    let Some(set) = flags.find(|set| BOUNDS.contains(&set.key) && !is_limit(set.key)) else {
        return Ok(());
    };
    let problem = format!("--set {} has no effect: {why}", set.key);
    Err(Failure::usage(problem).hint("use --limit, such as --limit 'p99<=50ms', or remove --set"))
}

fn limits_of_settings(
    said: &TestSettings,
    load: Load,
    percentile: f64,
) -> Result<Vec<Limit>, Failure> {
    let allowed = limits::allowed(percentile);
    let limit = |quantity, bound| Limit { quantity, allowed, bound };
    match load {
        // A query that takes longer than the interval skips an interval.
        Load::Samples if said.multi_stream_target_qps > 0.0 => {
            let interval = SECOND as f64 / said.multi_stream_target_qps;
            Ok(vec![limit(Quantity::Latency, interval as Nanos)])
        }
        Load::Samples => Err(Failure::usage("MultiStream has no default limit").hint(
            "use --limit 'p99 <= 50ms', or --set multi_stream_target_qps=20 for an interval of 50 \
             ms, which acts as a limit",
        )),
        _ if said.server_target_latency_ns >= NO_BOUND => {
            let problem = "profile llm has no default limit";
            Err(Failure::usage(problem).hint(format!("use --limit, such as {}", limits::GRAMMAR)))
        }
        _ if said.use_token_latencies => Ok(vec![
            limit(Quantity::FirstToken, said.server_ttft_latency),
            limit(Quantity::TimePerOutputToken, said.server_tpot_latency),
        ]),
        _ => Ok(vec![limit(Quantity::Latency, said.server_target_latency_ns)]),
    }
}

/// Returns the limit on the client's lag, which every run is judged by.
pub fn lag_limit(
    prepared: &PreparedRun,
    limits: &[Limit],
    load: Load,
    plan: &Plan,
) -> Option<Limit> {
    let is_said = limits.iter().any(|limit| limit.quantity == Quantity::ClientLag);
    let judged = load == Load::Qps && plan.max_client_lag > 0 && !prepared.system.is_simulated();
    (judged && !is_said).then(|| Limit {
        quantity: Quantity::ClientLag,
        allowed: limits::allowed(plan.percentile()),
        bound: plan.max_client_lag,
    })
}

/// First load of a search.
pub enum FirstLoad {
    /// A known load.
    At(f64),
    /// The load that a probe would find; the probe was not made.
    LeftToProbe,
}

pub fn first_load(
    prepared: &PreparedRun,
    ask: &SearchRequest,
    load: Load,
    control: Option<Control<'_>>,
) -> Result<Option<FirstLoad>, Failure> {
    for (flag, given) in [("--from", ask.from), ("--to", ask.to)] {
        if let Some(given) = given.filter(|given| !(given.is_finite() && *given > 0.0)) {
            let problem = format!("flag {flag}: expected a load above 0, found `{given}`");
            return Err(Failure::usage(problem));
        }
    }
    if let (Some(from), Some(to)) = (ask.from, ask.to)
        && from >= to
    {
        return Err(Failure::usage(format!("--from {from} is not below --to {to}")));
    }
    check_in_flight(prepared, ask, load)?;
    check_rate(prepared, load)?;
    let settings = prepared.options.settings(load.scenario(), TestMode::PerformanceOnly, None);
    let is_unknown = load == Load::Qps && is_open(&settings, "server_target_qps");
    let named = match (load, &settings.values.server_arrivals) {
        (Load::Samples, _) if !is_open(&settings, "multi_stream_samples_per_query") => {
            Some(settings.values.multi_stream_samples_per_query as f64)
        }
        (Load::Concurrency, Arrivals::Concurrency(queries)) => Some(f64::from(*queries)),
        (Load::Qps | Load::Concurrency | Load::Samples, _) => None,
    };
    let is_set = is_chosen(&settings, load.setting(1.0).0);
    match (ask.from, load, control) {
        (Some(from), Load::Qps, _) => Ok(Some(FirstLoad::At(from))),
        (Some(from), _, _) => Ok(Some(FirstLoad::At(from.round().max(1.0)))),
        (None, Load::Concurrency | Load::Samples, _) => {
            let from = match named.filter(|_| is_set) {
                Some(named) => below(load, named, ask.to)?,
                None => {
                    let named = named.unwrap_or(1.0);
                    ask.to.map_or(named, |to| named.min((to / 2.0).floor())).max(1.0)
                }
            };
            Ok(Some(FirstLoad::At(from)))
        }
        (None, Load::Qps, Some(control)) if is_unknown => {
            // The first load stays below `--to`, whatever the probe finds.
            let most = ask.to.map_or(f64::INFINITY, |to| to / 2.0);
            let rate = probed_rate(prepared, control)?;
            Ok(rate.map(|rate| FirstLoad::At(rate.min(most))))
        }
        (None, Load::Qps, None) if is_unknown => Ok(Some(FirstLoad::LeftToProbe)),
        (None, Load::Qps, _) => {
            Ok(Some(FirstLoad::At(below(load, settings.values.server_target_qps, ask.to)?)))
        }
    }
}

/// Returns the first load of a setting, which must be below the maximum.
fn below(load: Load, from: f64, to: Option<f64>) -> Result<f64, Failure> {
    match to.filter(|to| from >= *to) {
        Some(to) => {
            let (key, value) = load.setting(from);
            let problem = format!("the first load, {key} {value}, is not below --to {to}");
            Err(Failure::usage(problem).hint("begin below it with --from, or raise --to"))
        }
        None => Ok(from),
    }
}

/// Returns the minimum number of queries of a run that counts. Fewer queries are too few to be certain
/// of a percentile even if all of them keep the limit. With early stopping, that decides.
pub fn least_queries(
    prepared: &PreparedRun,
    load: Load,
    limits: &[Limit],
) -> Option<SettingOverride> {
    let settings = prepared.options.settings(load.scenario(), TestMode::PerformanceOnly, None);
    let key = "min_query_count";
    let is_left_open = settings.values.early_stopping == EarlyStopping::Never
        && settings.values.max_query_count == 0
        && !is_chosen(&settings, key);
    let needed = limits.iter().filter_map(limits::queries_to_be_certain).max()?;
    let queries = needed.max(settings.values.min_query_count);
    is_left_open.then(|| (key, queries.to_string()))
}

/// Returns the rate that a probe finds; `None` if it was interrupted.
fn probed_rate(prepared: &PreparedRun, control: Control<'_>) -> Result<Option<f64>, Failure> {
    let Some(tests) = prepared.probed_tests(control)? else { return Ok(None) };
    let tenant = &tests[0].tenants[0];
    if !matches!(tenant.settings.values.server_arrivals, Arrivals::Concurrency(_)) {
        return Ok(Some(tenant.plan.target_qps));
    }
    // Without a rate, a run of this profile has a fixed concurrency, and no probe was made.
    let probe = throughput::samples_per_second(&prepared.system, &prepared.options, control)?;
    Ok(probe.map(|probe| PROBED_SHARE * probe.samples_per_s))
}

/// First rate of a search as a share of the rate that a probe finds.
const PROBED_SHARE: f64 = 0.5;

/// Rejects a search for a rate if the load has fixed times.
fn check_rate(prepared: &PreparedRun, load: Load) -> Result<(), Failure> {
    if load != Load::Qps {
        return Ok(());
    }
    let options = &prepared.options;
    let mut settings = options.settings(load.scenario(), TestMode::PerformanceOnly, None);
    if matches!(settings.values.server_arrivals, Arrivals::Concurrency(_)) {
        let problem =
            "a search varies the rate, which a fixed concurrency (server_arrivals) has not";
        return Err(
            Failure::usage(problem).hint("use --load concurrency, or remove server_arrivals")
        );
    }
    prepared.system.complete(&options.run, &mut settings);
    options.complete_load(&mut settings);
    if !matches!(settings.values.server_arrivals, Arrivals::Replay(_)) {
        return Ok(());
    }
    let problem = "a search varies the rate, but the times of this load are fixed by a recorded \
                   trace or by --stages";
    Err(Failure::usage(problem).hint(
        "use data without times, remove --stages, or play the trace faster with the key speed=X",
    ))
}

/// Number of requests in flight that a search without `--to` rarely reaches.
const FAR: usize = 1024;

/// Rejects a search that needs more requests in flight than the client allows.
fn check_in_flight(prepared: &PreparedRun, ask: &SearchRequest, load: Load) -> Result<(), Failure> {
    let most = prepared.system.remote().and_then(Remote::most_in_flight);
    let Some(most) = most.filter(|_| load != Load::Qps) else { return Ok(()) };
    if ask.to.map_or(most < FAR, |to| to > most as f64) {
        let problem = format!("the client keeps at most {most} requests in flight");
        let hint = format!("use --to {most}, or raise or remove connections=N");
        return Err(Failure::usage(problem).hint(hint));
    }
    Ok(())
}

/// Returns the repetition of runs at one load, if requested. The search lowers the load after a
/// failure.
pub fn repetition(prepared: &PreparedRun, load: Load) -> Option<SettingOverride> {
    let said = prepared.options.settings(load.scenario(), TestMode::PerformanceOnly, None).values;
    match said.repetition {
        Repetition::Confirm { runs, .. } => Some(("repetition", Repetition::Minimum(runs).show())),
        Repetition::Once | Repetition::Minimum(_) => None,
    }
}

pub fn rules(
    prepared: &PreparedRun,
    ask: &SearchRequest,
    load: Load,
    from: f64,
    limits: &[Limit],
    plan: &Plan,
) -> Rules {
    let is_quick = prepared.options.profile() != Profile::Rules;
    let full_runs = plan.repetition.runs();
    // At a fixed interval the number of queries determines the length of a run.
    let by_count = plan.interval().map_or(0, |at| at.saturating_mul(plan.min_query_count));
    let full = plan.min_duration.max(by_count);
    // Virtual time costs almost nothing, so that the limit allows all tries.
    let tries = full.saturating_mul(u64::from(full_runs * CONFIRMATIONS));
    let most = match (prepared.system.is_simulated(), is_quick) {
        (true, _) => tries.saturating_add(48 * 3_600 * SECOND),
        (false, true) => 30 * 60 * SECOND,
        (false, false) => 2 * 3_600 * SECOND,
    };
    Rules {
        limits: of_system(limits),
        from,
        to: ask.to,
        unit: load.unit(),
        tolerance: ask.tolerance,
        short: ask.short.unwrap_or(if is_quick { 2 * SECOND } else { 10 * SECOND }),
        full,
        full_queries: plan.min_query_count,
        certain_queries: early_stopping_queries(prepared, load, limits),
        full_runs,
        most_queries: MOST_QUERIES,
        max_time: ask.max_time.unwrap_or(most),
        confirmations: if ask.confirm { CONFIRMATIONS } else { 0 },
    }
}

/// Queries of a full run at a rate as a multiple of those that early stopping demands if none is over the
/// limit: near the peak, some are.
const NEAR_PEAK: u64 = 4;

/// Returns how many queries of a full run at a rate let early stopping pass it; 0 if that does not decide.
fn early_stopping_queries(prepared: &PreparedRun, load: Load, limits: &[Limit]) -> u64 {
    let settings = prepared.options.settings(load.scenario(), TestMode::PerformanceOnly, None);
    let values = &settings.values;
    if values.early_stopping == EarlyStopping::Never || values.max_query_count != 0 {
        return 0;
    }
    let is_percentile = |limit: &&Limit| limits::queries_to_be_certain(limit).is_some();
    let least = |limit: &Limit| {
        let params = early_stopping::Params::rules(1.0 - limit.allowed);
        NEAR_PEAK.saturating_mul(early_stopping::minimum_queries(0, &params))
    };
    limits.iter().filter(is_percentile).map(least).max().unwrap_or(0)
}

/// Returns the limits on the system. The lag is a property of the client: a run with too much lag
/// shows nothing about the system.
pub fn of_system(limits: &[Limit]) -> Vec<Limit> {
    limits.iter().filter(|limit| limit.quantity != Quantity::ClientLag).copied().collect()
}

pub fn definition(
    prepared: &PreparedRun,
    load: Load,
    rules: &Rules,
    limits: &[Limit],
    base: &PlannedTest,
) -> Definition {
    let (values, defaults) = (&base.tenants[0].settings.values, TestSettings::default());
    let (of_load, _): SettingOverride = load.setting(1.0);
    let differs = |field: &&Field| {
        let is_own = [of_load, "scenario", "mode"].contains(&field.name);
        !is_own && (field.get)(values) != (field.get)(&defaults)
    };
    let settings: BTreeMap<String, String> = FIELDS
        .iter()
        .filter(differs)
        .map(|field| (field.name.to_string(), (field.get)(values)))
        .collect();
    Definition {
        system: prepared.system.spec.clone(),
        scenario: load.scenario().to_string(),
        load,
        limits: limits.iter().map(limits::key).collect(),
        from: rules.from,
        to: rules.to,
        tolerance: rules.tolerance,
        short_ns: rules.short,
        full_ns: rules.full,
        full_queries: rules.full_queries,
        max_time_ns: rules.max_time,
        confirmations: rules.confirmations,
        settings,
    }
}
