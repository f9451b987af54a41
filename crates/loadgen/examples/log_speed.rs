//! How long the logs take to write: a million short responses, 412 MB of long
//! ones, and the trace of 100,000 Server queries.
//!
//! `cargo run --release -p dyno-loadgen --example log_speed [FOLDER]`

use std::error::Error;
use std::path::PathBuf;

use dyno_loadgen::clock::{Clock, WallTime};
use dyno_loadgen::drive::{Process, ThreadReport};
use dyno_loadgen::log::{LogFiles, LogSettings};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::record::{LoggedResponse, Record};
use dyno_loadgen::run::{Event, RunLog, Span, TestLog};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Scenario, Settings};

fn main() -> Result<(), Box<dyn Error>> {
    let outdir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    for (what, samples, response_bytes, enable_trace) in [
        ("1,000,000 responses of 4 bytes", 1_000_000, 4, false),
        ("24,576 responses of 8,384 bytes", 24_576, 8_384, false),
        ("trace of 100,000 queries", 100_000, 0, true),
    ] {
        let log = test_log(samples, response_bytes)?;
        let settings = LogSettings {
            outdir: outdir.clone(),
            prefix: "log_speed_".into(),
            enable_trace,
            ..LogSettings::default()
        };
        let (mut best, mut bytes) = (f64::INFINITY, 0);
        for _ in 0..5 {
            let mut files = LogFiles::open(&settings, None, 0)?;
            let clock = Clock::start();
            files.write_reports(&log, &[])?;
            best = best.min(clock.now() as f64 * 1e-9);
            bytes = 0;
            for path in files.paths() {
                bytes += std::fs::metadata(path)?.len();
                std::fs::remove_file(path)?;
            }
        }
        println!("{what}: {:.0} MB in {best:.3} s (best of 5)", bytes as f64 / 1e6);
    }
    Ok(())
}

fn test_log(samples: u32, response_bytes: usize) -> Result<TestLog, Box<dyn Error>> {
    let mut requested = Settings::default();
    requested.values.scenario = Scenario::Server;
    let library = Library { total: 1024, performance: 1024 };
    let plan = Plan::resolve(&requested.values, library)?;
    let times: Vec<u64> = (0..u64::from(samples)).map(|i| i * 100_003).collect();
    let mut record = Record {
        samples_per_query: 1,
        issued_at: times.iter().map(|at| at + 517).collect(),
        completed_at: times.iter().map(|at| at + 2_000_123).collect(),
        indices: (0..samples).map(|i| i % 1024).collect(),
        scheduled_at: times,
        ..Record::default()
    };
    let data: Vec<u8> = (0..=250).cycle().take(response_bytes).collect();
    for sequence in (0..u64::from(samples)).filter(|_| response_bytes > 0) {
        let response = LoggedResponse { sequence, data: &data, first_token: None, tokens: 0 };
        record.responses.push(&response);
    }
    let run = RunLog {
        accuracy: false,
        plan: plan.clone(),
        loaded: (0..1024).collect(),
        generated_queries: u64::from(samples),
        generated_samples_per_query: 1,
        generated_duration: 0,
        ended: EndReason::TraceIssued,
        threads: ThreadReport::default(),
        record,
        dropped: None,
        load: Span::default(),
        generate: Span::default(),
        started_at: 1_000_000,
        started_wall: WallTime { unix_ns: 0 },
        finished_at: 0,
        unload: Span::default(),
    };
    Ok(TestLog {
        sut_name: "none".into(),
        sut_name_duration: 0,
        qsl_name: "none".into(),
        qsl_total: 1024,
        qsl_performance: 1024,
        process: Process::default(),
        origin_wall: WallTime { unix_ns: 0 },
        requested,
        plan,
        events: vec![Event::Run(Box::new(run))],
        complete: true,
        search: None,
    })
}
