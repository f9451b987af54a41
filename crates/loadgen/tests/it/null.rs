//! Systems and libraries that do next to nothing.

use std::sync::Mutex;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::record::Outcome;
use dyno_loadgen::run::Tenant;
use dyno_loadgen::settings::{Settings, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

/// A library without data that notes what is loaded.
#[derive(Debug)]
pub struct NullLibrary {
    total: usize,
    performance: usize,
    pub loads: Mutex<Vec<Vec<SampleIndex>>>,
    pub unloads: Mutex<Vec<Vec<SampleIndex>>>,
}

impl NullLibrary {
    pub fn new(total: usize, performance: usize) -> Self {
        Self { total, performance, loads: Mutex::default(), unloads: Mutex::default() }
    }
}

impl SampleLibrary for NullLibrary {
    fn name(&self) -> &str {
        "null library"
    }
    fn total_sample_count(&self) -> usize {
        self.total
    }
    fn performance_sample_count(&self) -> usize {
        self.performance
    }
    fn load(&self, samples: &[SampleIndex]) {
        self.loads.lock().unwrap().push(samples.to_vec());
    }
    fn unload(&self, samples: &[SampleIndex]) {
        self.unloads.lock().unwrap().push(samples.to_vec());
    }
}

/// A tenant with these settings, resolved as the reference would.
pub fn tenant<'a>(settings: &TestSettings, library: &'a NullLibrary) -> Tenant<'a> {
    let sizes = Library { total: library.total as u64, performance: library.performance as u64 };
    let (plan, _) = Plan::resolve_as_reference(settings, sizes);
    Tenant { settings: Settings::from(settings.clone()), plan, library, messages: Vec::new() }
}

/// A simulated system that answers each query after a fixed time, whatever
/// else it has to do, and notes what it is asked.
#[derive(Debug, Default)]
pub struct Echo {
    pub latency: Nanos,
    /// Time of issue, tenant and samples of each query.
    pub queries: Vec<(Nanos, usize, Vec<SampleIndex>)>,
    /// Queries before each flush.
    pub flushes: Vec<usize>,
    pub pending: std::collections::VecDeque<(Nanos, ResponseId, usize)>,
    /// Samples that are never answered, by number of the sample in the system.
    pub silent_from: Option<usize>,
    pub samples: usize,
}

impl SimulatedSystem for Echo {
    fn name(&self) -> &str {
        "echo"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.queries.push((now, query.tenant, query.indices.to_vec()));
        self.samples += query.indices.len();
        if self.silent_from.is_none_or(|from| self.samples <= from) {
            self.pending.push_back((now + self.latency, query.first, query.indices.len()));
        }
    }
    fn next_event(&self) -> Option<Nanos> {
        self.pending.front().map(|p| p.0)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while let Some(&(at, first, samples)) = self.pending.front() {
            if at > now {
                break;
            }
            self.pending.pop_front();
            completions.extend((0..samples as u64).map(|i| SimulatedCompletion {
                id: ResponseId(first.0 + i),
                first_token_at: None,
                outcome: Outcome::Ok { tokens: 0 },
            }));
        }
    }
    fn flush(&mut self, _now: Nanos) {
        self.flushes.push(self.queries.len());
    }
}
