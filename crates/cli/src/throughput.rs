//! How fast a system is, about: for the settings that depend on it and that
//! nobody gave.

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use dyno_loadgen::plan::Plan;
use dyno_loadgen::run::Keep;
use dyno_loadgen::settings::{Scenario, TestMode, TestSettings};

use crate::exit::Failure;
use crate::measure::{Test, TestTenant, Watch};
use crate::options::RunOptions;
use crate::system::System;

/// A probe that lasts this long says enough.
const LONG_ENOUGH: Nanos = 200 * MILLISECOND;
/// Of so many long ones the fastest counts: others slow a probe down, and
/// nothing speeds it up.
const LONG_PROBES: usize = 3;
/// Each further probe has this many times the samples of the last.
const GROWTH: u64 = 4;
/// However fast the system is.
const MOST_SAMPLES: u64 = 1 << 22;
/// Where nobody says how patient to be.
const DEADLINE_MS: u64 = 60_000;

/// Samples per second of one large query; `None` if the probe was interrupted.
///
/// # Errors
/// If the system cannot be started, or does not answer.
pub fn samples_per_second(
    system: &System,
    run: &RunOptions,
    watch: Watch<'_>,
) -> Result<Option<f64>, Failure> {
    let mut samples = 1;
    let mut rates: Vec<f64> = Vec::new();
    loop {
        let deadline = run.deadline.map_or(DEADLINE_MS, |ns| ns.div_ceil(MILLISECOND));
        let settings = TestSettings {
            scenario: Scenario::Offline,
            mode: TestMode::PerformanceOnly,
            min_duration_ms: 0,
            min_query_count: samples,
            response_deadline_ms: deadline,
            ..TestSettings::default()
        };
        let plan = Plan::resolve(&settings, system.library_size()).map_err(Failure::usage)?;
        let tenant =
            TestTenant { name: None, settings: settings.into(), plan, messages: Vec::new() };
        let test = Test {
            scenario: Scenario::Offline,
            mode: TestMode::PerformanceOnly,
            tenants: vec![tenant],
            keep: Keep::Results,
        };
        let log = test.play(system, watch, "probe")?.swap_remove(0);
        if watch.interrupt.is_some_and(crate::interrupt::Interrupt::is_asked) {
            return Ok(None);
        }
        let Some(run) = log.runs().last() else { return Ok(None) };
        if run.record.missing() > 0 {
            let problem = format!(
                "the system left {} of {samples} samples unanswered in a first probe, and nothing \
                 came for {} s",
                run.record.missing(),
                deadline / 1000
            );
            return Err(Failure::set_up(problem).hint("check the system, or raise --deadline"));
        }
        let took = run.record.completed_at.iter().copied().max().unwrap_or(0).max(1);
        if took < LONG_ENOUGH && samples < MOST_SAMPLES {
            samples *= GROWTH;
            continue;
        }
        rates.push(samples as f64 * 1e9 / took as f64);
        // A system that takes seconds for a sample is not asked three times.
        if rates.len() == LONG_PROBES || took >= GROWTH * LONG_ENOUGH || system.is_simulated() {
            return Ok(rates.into_iter().reduce(f64::max));
        }
    }
}
