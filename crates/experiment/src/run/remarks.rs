//! Remarks for readers of a run, and the command that repeats it.

use dyno_loadgen::plan::Load;
use dyno_loadgen::settings::{Arrivals, Scenario, TestMode};
use dyno_results::summary::Observer;

use crate::environment;
use crate::options::{FailureRule, Options, Profile};
use crate::system::System;
use crate::system::net::without_secrets;
use crate::test::{PlannedTest, TestTenant};

/// Returns remarks on the run as a whole. In virtual time the machine does not matter, and equal
/// seeds must give equal bytes.
pub fn of_run(options: &Options, system: &System) -> Vec<String> {
    // With a round, the profile does not determine the length of tests.
    let failures = options.scenarios().into_iter().map(|scenario| options.failures(scenario));
    let failures = failures.max_by_key(|rule| *rule != FailureRule::None);
    let of_profile = options.profile().remark(failures.unwrap_or(FailureRule::None));
    let of_profile = of_profile.filter(|_| options.rules.is_none());
    let said = [of_profile, system.remark()];
    let mut remarks: Vec<String> = said.into_iter().flatten().map(str::to_string).collect();
    remarks.extend(options.rules_remarks());
    remarks.extend(system.remarks.iter().cloned());
    if system.is_simulated() {
        return remarks;
    }
    if options.scenarios().contains(&Scenario::Server) && options.profile() != Profile::Llm {
        remarks.push(
            "Server also judges the client: at the target percentile its lag may reach a tenth of \
             the latency bound, or 1 ms if that is more."
                .into(),
        );
    }
    if cfg!(debug_assertions) {
        remarks.push("This is a debug build; its figures are not representative.".into());
    }
    let (load, cores) = (environment::load_average().unwrap_or(0.0), environment::cores());
    if load > cores as f64 {
        remarks.push(format!(
            "This machine was busy before the run: load {load:.1} on {cores} cores."
        ));
    }
    remarks
}

/// Returns remarks on the time that the client lost in a test.
pub fn of_observers(system: &System, test: &PlannedTest, observers: &[Observer]) -> Vec<String> {
    // Waits are summed over all runs of a test, but observers describe the last run.
    let has_one_run = test.mode == TestMode::PerformanceOnly && test.repetition_runs() == 1;
    let shows_waits = has_one_run && system.remote().is_none();
    let of = |one: &Observer| [one.remark(), one.wait_remark().filter(|_| shows_waits)];
    observers.iter().flat_map(of).flatten().collect()
}

/// Returns notes on the load of a test.
pub fn of_load(options: &Options, test: &PlannedTest) -> impl Iterator<Item = String> {
    [equal_arrivals(test), closed_loop(options, test)].into_iter().flatten()
}

/// Returns a note on a closed loop of profile llm, which is its default load; `None` for other loads.
/// The scenarios of MLPerf define their own loops, and turns at an interval have due times.
fn closed_loop(options: &Options, test: &PlannedTest) -> Option<String> {
    let is_closed = |tenant: &TestTenant| match &tenant.plan.load {
        Load::Server(server) => {
            matches!(server.arrivals, Arrivals::Concurrency(_)) && tenant.plan.turn_interval == 0
        }
        _ => false,
    };
    let is_llm = options.profile() == Profile::Llm && options.rules.is_none();
    let is_noted = is_llm && test.mode == TestMode::PerformanceOnly;
    (is_noted && test.tenants.iter().any(is_closed)).then(|| {
        "Closed loop: during a stall of the server no new requests are sent, so percentiles may \
         hide it. --request-rate shows it in full."
            .into()
    })
}

/// Returns a note on two tenants whose random arrivals have one seed; `None` if there are none.
fn equal_arrivals(test: &PlannedTest) -> Option<String> {
    // The generator uses 32 bits.
    let seed = |tenant: &TestTenant| match &tenant.plan.load {
        Load::Server(server) => match server.arrivals {
            Arrivals::Constant | Arrivals::Concurrency(_) | Arrivals::Replay(_) => None,
            _ => Some(tenant.plan.seeds.schedule as u32),
        },
        _ => None,
    };
    let name = |tenant: &TestTenant| tenant.name.clone().unwrap_or_default();
    test.tenants.iter().enumerate().find_map(|(at, later)| {
        let is_same = |one: &&TestTenant| seed(one).is_some() && seed(one) == seed(later);
        let earlier = test.tenants[..at].iter().find(is_same)?;
        Some(format!(
            "Tenants {} and {} have the same schedule_rng_seed, so that their arrivals follow each \
             other. Give each its own, or leave it out.",
            name(earlier),
            name(later)
        ))
    })
}

/// Returns the arguments that repeat the run, without the directory of its results and without values
/// of header fields.
pub fn command() -> Vec<String> {
    let mut kept = Vec::new();
    // Non-UTF-8 arguments are converted lossily.
    let mut arguments =
        std::env::args_os().skip(1).map(|arg| without_secrets(&arg.to_string_lossy()));
    while let Some(argument) = arguments.next() {
        if argument == "--out" {
            arguments.next();
        } else if !argument.starts_with("--out=") {
            kept.push(argument);
        }
    }
    kept
}
