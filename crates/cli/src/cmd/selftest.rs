//! `dyno selftest`: measures the limits of this machine, and checks that this build matches its
//! sources and the reference.

mod document;
mod traces;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dyno_experiment::system::Numbers;
use dyno_experiment::{Failure, environment};
use dyno_loadgen::clock::{Clock, SECOND};
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::log;
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::plan::Plan;
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::run::{self, RecordRetention, RunLog, Tenant};
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_results::units::duration;
use dyno_results::write::pretty;
use dyno_sut::null::Null;

use crate::exit::Exit;
use crate::output;

pub use document::Document;
#[cfg(test)]
pub use document::SCHEMA_VERSION;

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Selftest {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Compare the build with the sources in this checkout (the directory of dyno-loadgen, or the
    /// root of the repository)
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

impl Selftest {
    /// Measures, checks, prints.
    ///
    /// # Errors
    /// Sources that cannot be read.
    pub fn execute(self) -> Result<Exit, Failure> {
        let sources = self.source.map(|root| Sources::compare(&root)).transpose()?;
        let found = Findings {
            clock: ClockFindings::measure(),
            overhead_ns: overhead_ns(),
            lateness: Lateness::measure(),
            traces: traces::check(),
            sources,
        };
        if self.json {
            output::print(pretty(&found.to_document()))?;
        } else {
            output::print(found.to_text())?;
        }
        Ok(if found.is_sound() { Exit::Valid } else { Exit::Invalid })
    }
}

struct Findings {
    clock: ClockFindings,
    /// Overhead of a query, single-stream against the null system.
    overhead_ns: f64,
    lateness: Lateness,
    /// Each case, and whether it equals the reference.
    traces: Vec<(&'static str, bool)>,
    sources: Option<Sources>,
}

struct ClockFindings {
    /// Duration of a clock reading.
    read_ns: f64,
    /// Smallest difference between two readings.
    granularity_ns: u64,
}

impl ClockFindings {
    fn measure() -> Self {
        const READINGS: u64 = 1_000_000;
        let clock = Clock::start();
        let mut granularity_ns = u64::MAX;
        let mut last = clock.now();
        let begin = last;
        for _ in 0..READINGS {
            let now = clock.now();
            if now > last {
                granularity_ns = granularity_ns.min(now - last);
            }
            last = now;
        }
        Self { read_ns: (last - begin) as f64 / READINGS as f64, granularity_ns }
    }
}

/// Lateness of queries at a rate that leaves the machine idle.
struct Lateness {
    p50_ns: i64,
    p99_ns: i64,
    max_ns: i64,
}

/// Rate of the lateness test, about that of the slower official servers.
const LATENESS_QPS: f64 = 1_000.0;
const LATENESS_MS: u64 = 1_500;

impl Lateness {
    fn measure() -> Self {
        let run = play(TestSettings {
            scenario: Scenario::Server,
            server_target_qps: LATENESS_QPS,
            min_duration_ms: LATENESS_MS,
            min_query_count: 1,
            ..TestSettings::default()
        });
        let lag = Metrics::from_record(&run.record, &run.plan).lag.unwrap_or_default();
        Self { p50_ns: lag.percentiles[0], p99_ns: lag.percentiles[4], max_ns: lag.max }
    }
}

/// Measures the time from one issue to the next, including the answer, ns.
fn overhead_ns() -> f64 {
    let run = play(TestSettings {
        scenario: Scenario::SingleStream,
        single_stream_expected_latency_ns: 1_000.0,
        min_duration_ms: 500,
        continue_trace: true,
        ..TestSettings::default()
    });
    let last = run.record.issued_at.last().copied().unwrap_or(0);
    last as f64 / run.record.query_count().max(1) as f64
}

/// Samples of the null system's data set.
const SAMPLES: usize = 1_024;

fn play(settings: TestSettings) -> RunLog {
    let library = Numbers { count: SAMPLES };
    let size = dyno_loadgen::plan::Library {
        total: library.total_sample_count() as u64,
        performance: library.performance_sample_count() as u64,
    };
    let plan = Plan::resolve(&settings, size).expect("the settings of the selftest make sense");
    let tenant =
        Tenant { settings: settings.into(), plan, library: &library, messages: Vec::new() };
    let mut driver = RealTime::new(Arc::new(Null));
    let log = run::run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
    log.runs().last().expect("a test has a run").clone()
}

/// Result of comparing this build with a checkout.
struct Sources {
    fingerprint: String,
    /// Files that differ, are missing or are new.
    differing: Vec<String>,
}

impl Sources {
    fn compare(root: &std::path::Path) -> Result<Self, Failure> {
        let nested = root.join("crates").join("loadgen");
        let root = if nested.is_dir() { nested } else { root.to_path_buf() };
        let now = log::recompute_fingerprint(&root).map_err(|error| {
            Failure::set_up(format!("cannot read the sources in {}: {error}", root.display()))
                .hint("name the folder of dyno-loadgen, or the root of the repository")
        })?;
        let now: Vec<(&str, &str)> = now.iter().map(|(f, h)| (f.as_str(), h.as_str())).collect();
        let built = log::fingerprint();
        let odd = |a: &[(&str, &str)], b: &[(&str, &str)]| -> Vec<String> {
            a.iter().filter(|row| !b.contains(row)).map(|(file, _)| file.to_string()).collect()
        };
        let mut differing = odd(&now, built);
        differing.extend(odd(built, &now));
        differing.sort();
        differing.dedup();
        Ok(Self { fingerprint: log::combined(now.into_iter()), differing })
    }
}

/// A spinning thread needs a core of its own beside the system's.
const CORES_TO_SPIN: usize = 2;

impl Findings {
    fn is_sound(&self) -> bool {
        let sources = self.sources.as_ref().is_none_or(|sources| sources.differing.is_empty());
        sources && self.traces.iter().all(|(_, is_equal)| *is_equal)
    }

    fn to_document(&self) -> Document {
        let trace = |(case, equals_reference): &(&'static str, bool)| document::Trace {
            case,
            equals_reference: *equals_reference,
        };
        Document {
            schema: document::SCHEMA,
            schema_version: document::SCHEMA_VERSION,
            sound: self.is_sound(),
            clock_read_ns: self.clock.read_ns,
            clock_granularity_ns: self.clock.granularity_ns,
            single_stream_overhead_ns: self.overhead_ns,
            lateness_qps: LATENESS_QPS,
            lateness_p50_ns: self.lateness.p50_ns,
            lateness_p99_ns: self.lateness.p99_ns,
            lateness_max_ns: self.lateness.max_ns,
            cores: environment::cores(),
            load_average: environment::load_average(),
            spinning_advisable: environment::cores() >= CORES_TO_SPIN,
            traces: self.traces.iter().map(trace).collect(),
            source_fingerprint: self.sources.as_ref().map(|sources| sources.fingerprint.clone()),
            source_differing: self.sources.as_ref().map(|sources| sources.differing.clone()),
            environment: environment::describe(),
        }
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<26} {value}");
        };
        row("processor", environment::processor().unwrap_or_else(|| "unknown".into()));
        row("cores", self.cores());
        let granularity = duration(i64::try_from(self.clock.granularity_ns).unwrap_or(0));
        let read = self.clock.read_ns;
        row("clock", format!("{read:.1} ns a reading, granularity {granularity}"));
        let overhead = duration(self.overhead_ns.round() as i64);
        row("single-stream overhead", format!("{overhead} a query (null system)"));
        let Lateness { p50_ns, p99_ns, max_ns } = self.lateness;
        row(
            "lateness at 1,000/s",
            format!("p50 {}, p99 {}, max {}", duration(p50_ns), duration(p99_ns), duration(max_ns)),
        );
        let shortest = p99_ns.max(1_000) * 10;
        row("good for Server bounds of", format!("{} and more", duration(shortest)));
        for (name, is_equal) in &self.traces {
            let verdict =
                if *is_equal { "equals LoadGen 6.0.17" } else { "DIFFERS from LoadGen 6.0.17" };
            row(&format!("trace {name}"), verdict.into());
        }
        row("build", log::combined_fingerprint());
        if let Some(sources) = &self.sources {
            let verdict = match &sources.differing[..] {
                [] => "the build is of these sources".to_string(),
                files => format!("DIFFER from the build: {}", files.join(", ")),
            };
            row("sources", verdict);
        }
        text
    }

    fn cores(&self) -> String {
        let cores = environment::cores();
        let advice = if cores >= CORES_TO_SPIN {
            "spinning for the next query is advisable"
        } else {
            "too few to spin; queries are a few microseconds late"
        };
        let load = environment::load_average();
        let busy = load.filter(|&load| load > cores as f64 / 2.0);
        let busy = busy.map(|load| format!("; others use it: load {load:.1}"));
        format!("{cores}; {advice}{}", busy.unwrap_or_default())
    }
}

/// Keeps the selftest short.
const _: () = assert!(LATENESS_MS * 1_000_000 < 5 * SECOND, "the selftest ends in seconds");
