//! Runs through the driver in real time, with threads, tiny durations and faults. The system writes
//! down between which two times it sent each completion; Dyno's stamps must lie between them.

pub mod bounds;
mod pool;

use std::sync::{Arc, Mutex};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::{RealTime, Responder, WaitStrategy};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::run::{RecordRetention, RunLog, Tenant, run};
use dyno_loadgen::settings::{Arrivals, Scenario, Settings, TestSettings};
use dyno_loadgen::sut::{QuerySample, SystemUnderTest};

use crate::oracle::{self, Finding, judge};
use crate::rng::Stream;
use crate::simulate::play::{oracle_settings, report};
use crate::simulate::system::CountingLibrary;
use pool::{Pool, Worker};

dyno_loadgen::named_enum! {
    /// Kind of fault in real time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Fault {
        /// A sample is never answered.
        Lost = "lost",
        /// A sample is answered twice, by two threads.
        Duplicate = "duplicate",
        /// A completion names an id that the run never issued.
        Unknown = "unknown",
        /// The system reports that it could not answer.
        Failed = "failed",
        /// The system states an impossible time of completion.
        ImpossibleTime = "impossible-time",
        /// A sample is answered again after its run.
        AfterEnd = "after-end",
    }
}

/// A run in real time.
#[derive(Debug, Clone)]
pub struct Case {
    /// Seed and number of the run.
    pub number: (u64, u64),
    /// Settings for Dyno.
    pub settings: TestSettings,
    /// Completing threads; 0 answers within the issue call.
    pub threads: usize,
    /// Mean service time, ns.
    pub mean_ns: f64,
    /// How the issuing thread waits.
    pub waiting: WaitStrategy,
    /// Faults, each with its probability per sample.
    pub faults: Vec<(Fault, f64)>,
}

impl Case {
    /// Returns run `index` of `seed`.
    pub fn draw(seed: u64, index: u64) -> Self {
        let mut draw = Stream::new(seed, index, 100);
        let scenario = draw.pick(Scenario::ALL);
        let queries = draw.log_uniform(1.0, 300.0) as u64;
        let mut faults: Vec<(Fault, f64)> = Vec::new();
        for _ in 0..draw.pick(&[0, 1, 1, 2]) {
            let (kind, rate) = (draw.pick(&Fault::ALL), draw.log_uniform(0.003, 0.3));
            if faults.iter().all(|(known, _)| *known != kind) {
                faults.push((kind, rate));
            }
        }
        let loses = faults.iter().any(|(fault, _)| *fault == Fault::Lost);
        let settings = TestSettings {
            scenario,
            min_query_count: queries,
            min_duration_ms: draw.pick(&[0, 0, 0, 1, 2]),
            max_duration_ms: draw.pick(&[0, 0, 0, 3]),
            single_stream_expected_latency_ns: 1e5,
            multi_stream_expected_latency_ns: 1e5,
            multi_stream_samples_per_query: draw.pick(&[1, 2, 8, 70]),
            server_target_qps: draw.log_uniform(2e4, 1e6),
            server_target_latency_ns: draw.log_uniform(1e3, 1e7) as u64,
            server_coalesce_queries: draw.chance(0.3),
            server_max_async_queries: draw.pick(&[0, 0, 0, 20]),
            server_arrivals: draw.pick(&[0, 0, 1, 2]).into_arrivals(&mut draw),
            offline_expected_qps: 1e5,
            sample_index_rng_seed: draw.bits(),
            schedule_rng_seed: draw.bits(),
            // Without lost samples a deadline would only measure the scheduler of this machine.
            response_deadline_ms: if loses { 2 + draw.below(3) } else { 0 },
            ..TestSettings::default()
        };
        let waits = [WaitStrategy::Auto, WaitStrategy::Sleep, WaitStrategy::Spin];
        Self {
            number: (seed, index),
            settings,
            threads: draw.pick(&[0, 1, 2, 3]),
            mean_ns: draw.log_uniform(200.0, 5e4),
            waiting: draw.pick(&waits),
            faults,
        }
    }

    fn rate(&self, fault: Fault) -> f64 {
        self.faults.iter().find(|(kind, _)| *kind == fault).map_or(0.0, |(_, rate)| *rate)
    }
}

/// Draws arrivals from a number.
trait IntoArrivals {
    fn into_arrivals(self, draw: &mut Stream) -> Arrivals;
}

impl IntoArrivals for u64 {
    fn into_arrivals(self, draw: &mut Stream) -> Arrivals {
        match self {
            0 => Arrivals::Poisson,
            1 => Arrivals::Burst(1 + draw.below(20) as u32),
            _ => Arrivals::Concurrency(1 + draw.below(20) as u32),
        }
    }
}

/// A completion that the system sent.
#[derive(Debug, Clone, Copy)]
pub struct SentCompletion {
    /// The id that it named.
    pub id: u64,
    /// Time before the call, ns since the start of the run.
    pub before: Nanos,
    /// Time after the call.
    pub after: Nanos,
    /// Time that the system stated, if it did.
    pub stated: Option<Nanos>,
    /// Whether it reported a failure.
    pub failed: bool,
}

/// A call to the system.
#[derive(Debug, Clone)]
pub struct Call {
    /// Time at its entry, ns since the start of the run.
    pub at: Nanos,
    /// Ids and indices of its samples.
    pub samples: Vec<(u64, u64)>,
}

struct FaultySystem {
    pool: Pool,
    calls: Mutex<Vec<Call>>,
    inline: Mutex<Worker>,
}

impl SystemUnderTest for FaultySystem {
    fn name(&self) -> &str {
        "faulty"
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        let at = responder.now();
        let listed = samples.iter().map(|sample| (sample.id.0, sample.index)).collect();
        self.calls.lock().expect("no holder panics").push(Call { at, samples: listed });
        if self.pool.is_inline() {
            let mut worker = self.inline.lock().expect("no holder panics");
            samples.iter().for_each(|sample| worker.answer(sample.id, at, responder));
        } else {
            samples.iter().for_each(|sample| self.pool.send(sample.id, at, responder));
        }
    }
}

/// Outcome of a run in real time.
#[derive(Debug)]
pub struct RealRun {
    /// The run as Dyno recorded it.
    pub run: RunLog,
    /// The calls to the system, in order.
    pub calls: Vec<Call>,
    /// What the system sent, in no order.
    pub sent: Vec<SentCompletion>,
    /// Faults that happened, by [`Fault`].
    pub injected: [u64; Fault::ALL.len()],
}

/// Plays a case; `None` if Dyno rejects its settings.
pub fn play(case: &Case) -> Option<RealRun> {
    let plan = Plan::resolve(&case.settings, Library { total: 50, performance: 50 }).ok()?;
    let library = CountingLibrary { total: 50, performance: 50, loads: 0.into() };
    let settings = Settings::from(case.settings.clone());
    let tenant = Tenant { settings, plan, library: &library, messages: Vec::new() };
    let system = Arc::new(FaultySystem {
        pool: Pool::start(case),
        calls: Mutex::default(),
        inline: Mutex::new(Worker::new(case, 0)),
    });
    let mut driver = RealTime::new(system.clone()).waiting(case.waiting);
    let log = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
    drop(driver);
    let run = log.runs().last()?.clone();
    let FaultySystem { pool, calls, inline } = Arc::into_inner(system)?;
    let mut workers = pool.join();
    workers.push(inline.into_inner().ok()?);
    let mut injected = [0; Fault::ALL.len()];
    for worker in &workers {
        injected.iter_mut().zip(worker.injected).for_each(|(sum, count)| *sum += count);
    }
    let sent = workers.into_iter().flat_map(|worker| worker.sent).collect();
    Some(RealRun { run, calls: calls.into_inner().ok()?, sent, injected })
}

/// Returns everything that is wrong with a run in real time.
#[must_use]
pub fn check(case: &Case, played: &RealRun) -> Vec<Finding> {
    let mut findings = bounds::check(played);
    let record = &played.run.record;
    let ids: Vec<(u64, u64)> =
        played.calls.iter().flat_map(|c| c.samples.iter().copied()).collect();
    let samples_per_query = record.samples_per_query.max(1);
    let query = |(at, samples): (usize, &[(u64, u64)])| oracle::Query {
        scheduled_ns: record.scheduled(at),
        issued_ns: record.issued_at[at],
        samples: samples.to_vec(),
    };
    if ids.len() != record.completed_at.len() {
        return findings;
    }
    let failed = |at: usize| record.failed.iter().any(|(sequence, _)| *sequence == at as u64);
    let answered = ids.iter().zip(&record.completed_at).enumerate();
    let mut completions: Vec<_> = answered
        .filter(|(_, (_, at))| **at != 0)
        .map(|(n, ((sample_id, _), at))| oracle::Completion {
            sample_id: *sample_id,
            at_ns: *at,
            failed: failed(n),
        })
        .collect();
    completions.sort_by_key(|completion| completion.at_ns);
    let observed = oracle::Observation {
        queries: ids.chunks(samples_per_query).enumerate().map(query).collect(),
        completions,
        ended_ns: None,
        continued_ns: None,
    };
    // The counts of misuse are judged by the bounds.
    let reported = oracle::RunReport {
        duplicate_completions: 0,
        unknown_completions: 0,
        ..report(&played.run)
    };
    findings.extend(judge(&oracle_settings(&case.settings, 50), &observed, &reported));
    findings
}
