//! Soak: several long runs in one process. No record may be lost, and neither resident memory nor the
//! lateness of the client may grow from run to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::drive::real::{RealTime, Responder};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, Settings, TestSettings};
use dyno_loadgen::sut::{QuerySample, SystemUnderTest};

use crate::simulate::system::CountingLibrary;

/// Length and load of the runs.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// Queries per second.
    pub rate: f64,
    /// Length of a run, ns.
    pub duration: Nanos,
}

/// One run of a soak.
#[derive(Debug, Clone, Copy, Default)]
pub struct SoakedRun {
    /// Queries that the system received.
    pub received: u64,
    /// Queries of the record.
    pub recorded: u64,
    /// Queries of the record that have an answer.
    pub answered: u64,
    /// 99th percentile of the lateness that the client caused, ns.
    pub lag_p99: Nanos,
    /// Resident memory after the run, bytes; `None` where the system does not state it.
    pub resident: Option<u64>,
}

impl SoakedRun {
    /// Returns the queries or answers that are missing in the record, or too many in it.
    pub fn lost(&self) -> u64 {
        self.received.abs_diff(self.recorded) + self.received.abs_diff(self.answered)
    }
}

/// Returns the growth of resident memory from the first run to the largest later one, in percent.
pub fn growth_percent(runs: &[SoakedRun]) -> Option<f64> {
    let (first, later) = runs.split_first()?;
    let most = later.iter().filter_map(|run| run.resident).max()?;
    Some(100.0 * (most as f64 / first.resident? as f64 - 1.0))
}

/// A system that answers at once and counts what it answers.
#[derive(Default)]
struct Counting(AtomicU64);

impl SystemUnderTest for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        self.0.fetch_add(samples.len() as u64, Ordering::Relaxed);
        for sample in samples {
            responder.complete(&[sample.id]);
        }
    }
}

/// Plays one run and measures it after its record is dropped.
pub fn play(soak: &Soak, seed: u64) -> SoakedRun {
    const SAMPLES: usize = 1_024;
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_target_qps: soak.rate,
        server_target_latency_ns: SECOND,
        min_duration_ms: soak.duration / 1_000_000,
        min_query_count: 1,
        schedule_rng_seed: seed,
        ..TestSettings::default()
    };
    let size = Library { total: SAMPLES as u64, performance: SAMPLES as u64 };
    let plan = Plan::resolve(&settings, size).expect("Dyno accepts a Server run");
    let library =
        CountingLibrary { total: SAMPLES, performance: SAMPLES, loads: AtomicU32::new(0) };
    let system = Arc::new(Counting::default());
    let mut driver = RealTime::new(system.clone());
    let tenant =
        Tenant { settings: Settings::from(settings), plan, library: &library, messages: vec![] };
    let mut played = {
        let log = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
        let record = &log.runs().last().expect("a test has a run").record;
        let mut lag = record.client_lag.clone();
        lag.sort_unstable();
        SoakedRun {
            received: system.0.load(Ordering::Relaxed),
            recorded: record.query_count() as u64,
            answered: record.completed_at.iter().filter(|&&at| at != 0).count() as u64,
            lag_p99: lag.get(lag.len() * 99 / 100).copied().unwrap_or(0).into(),
            resident: None,
        }
    };
    drop(driver);
    played.resident = resident();
    played
}

/// Returns the resident memory of this process in bytes; `None` if the system does not state it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_lose_no_record() {
        let soak = Soak { rate: 5_000.0, duration: SECOND / 5 };
        for seed in 0..3 {
            let played = play(&soak, seed);
            assert_eq!(played.lost(), 0, "{played:?}");
            assert!(played.received > 500, "{played:?}");
        }
    }

    #[test]
    fn growth_is_that_of_the_largest_later_run() {
        let run = |resident| SoakedRun { resident: Some(resident), ..SoakedRun::default() };
        let growth = growth_percent(&[run(200), run(210), run(206)]);
        assert!(growth.is_some_and(|growth| (growth - 5.0).abs() < 1e-9), "{growth:?}");
        assert_eq!(growth_percent(&[run(200)]), None);
        assert_eq!(SoakedRun { received: 9, recorded: 8, answered: 6, ..run(1) }.lost(), 4);
    }
}
