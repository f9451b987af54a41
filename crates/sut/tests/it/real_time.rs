//! Engines played by the real driver, inline and behind the batcher.

use std::num::NonZero;
use std::sync::{Arc, Mutex};

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND, WallTime};
use dyno_loadgen::drive::Driver;
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::{Failure, Record};
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, Settings, TestMode, TestSettings};
use dyno_loadgen::sut::{QuerySample, SimulatedSystem, SystemUnderTest};
use dyno_sut::batch::{self, Policy, SimulatedBatcher};
use dyno_sut::digits::{self, DigitsLibrary, DigitsPerceptron};
use dyno_sut::engine::{Answers, Engine, InlineSystem};
use dyno_sut::model::{Cost, Faults, Model, ServiceModel, ServiceTime};
use dyno_sut::null::Null;
use dyno_sut::replay::Replay;
use dyno_sut::top1::Score;

use crate::batching::{Batches, Noted, policy};

fn play(driver: &mut dyn Driver, settings: TestSettings) -> Record {
    let total = DigitsLibrary.total_sample_count() as u64;
    let plan = Plan::resolve(&settings, Library { total, performance: total }).unwrap();
    let tenant = Tenant {
        settings: Settings::from(settings),
        plan,
        library: &DigitsLibrary,
        messages: Vec::new(),
    };
    let logs = run(driver, &[tenant], RecordRetention::Every, &mut |_| ());
    logs[0].runs().next().unwrap().record.clone()
}

fn settings(scenario: Scenario, mode: TestMode, queries: u64) -> TestSettings {
    TestSettings {
        scenario,
        mode,
        min_duration_ms: 0,
        min_query_count: queries,
        max_query_count: queries,
        multi_stream_samples_per_query: 8,
        server_target_qps: 20_000.0,
        ..TestSettings::default()
    }
}

fn in_real_time(system: impl SystemUnderTest + 'static, settings: TestSettings) -> Record {
    play(&mut RealTime::new(Arc::new(system)), settings)
}

fn pool(engine: impl Engine + 'static, policy: Policy, workers: usize) -> batch::BatchingPool {
    batch::BatchingPool::start(engine, policy, NonZero::new(workers).unwrap()).unwrap()
}

fn score(record: &Record) -> Score {
    let entry = |sequence: u64| record.indices[sequence as usize];
    digits::score(record.responses.iter().map(|r| (entry(r.sequence), r.data)))
}

#[test]
fn digits_have_their_accuracy_in_every_scenario() {
    let policy = policy(16, MILLISECOND / 10);
    for scenario in
        [Scenario::SingleStream, Scenario::MultiStream, Scenario::Server, Scenario::Offline]
    {
        let accuracy = || settings(scenario, TestMode::AccuracyOnly, 1);
        let inline = in_real_time(InlineSystem::new(DigitsPerceptron::new()), accuracy());
        let pooled = in_real_time(pool(DigitsPerceptron::new(), policy, 2), accuracy());
        for record in [inline, pooled] {
            let expected = Score { correct: 519, total: 540, malformed: 0 };
            assert_eq!((score(&record), record.missing()), (expected, 0), "{scenario:?}");
        }
    }
}

#[test]
fn null_answers_everything_at_once() {
    for scenario in [Scenario::SingleStream, Scenario::Offline] {
        let record = in_real_time(Null, settings(scenario, TestMode::PerformanceOnly, 700));
        assert!(record.completed_at.len() >= 540);
        assert_eq!((record.missing(), record.misuse.total()), (0, 0), "{scenario:?}");
    }
}

/// Notes the batches that reach it, by index.
struct NotedEngine(Arc<Mutex<Vec<Vec<u32>>>>);

impl Engine for NotedEngine {
    fn name(&self) -> &str {
        "noted"
    }
    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        self.0.lock().unwrap().push(samples.iter().map(|s| s.index as u32).collect());
        for sample in samples {
            answers.push(sample.id, b"done");
        }
    }
}

#[test]
fn both_adapters_make_the_same_batches() {
    // The next query of 8 samples arrives when the last is complete, and 8 are
    // 3 + 3 + 2, the 2 after the longest wait: nothing depends on a thread's luck.
    let policy = policy(3, MILLISECOND);
    for (scenario, queries) in [(Scenario::MultiStream, 40), (Scenario::Offline, 1)] {
        let settings = || settings(scenario, TestMode::PerformanceOnly, queries);
        let seen = Arc::default();
        let real = in_real_time(pool(NotedEngine(Arc::clone(&seen)), policy, 1), settings());

        let noted = Batches::default();
        let cost = Cost { base: 1_000, per_sample: 10 };
        let model = ServiceModel::new(Model::single(ServiceTime::Deterministic(cost))).unwrap();
        let inner = Noted { model, batches: Arc::clone(&noted) };
        let mut system = SimulatedBatcher::new(inner, policy, NonZero::<usize>::MIN);
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        let simulated = play(&mut driver, settings());

        let simulated_batches: Vec<Vec<u32>> =
            noted.lock().unwrap().iter().map(|(_, batch)| batch.clone()).collect();
        assert_eq!(*seen.lock().unwrap(), simulated_batches, "{scenario:?}");
        assert_eq!(real.indices, simulated.indices);
        assert_eq!((real.missing(), simulated.missing()), (0, 0));
    }
}

#[test]
fn what_waits_is_worked_off_when_the_run_is_over() {
    // Nothing fills the batch and nothing times out: only the flush helps.
    let policy = policy(1_000_000, 3_600 * SECOND);
    let settings = settings(Scenario::Server, TestMode::AccuracyOnly, 1);
    let record = in_real_time(pool(DigitsPerceptron::new(), policy, 3), settings);
    assert_eq!((score(&record).correct, record.missing()), (519, 0));
}

#[test]
fn a_lone_sample_waits_for_others_and_not_for_ever() {
    let wait: Nanos = 2 * MILLISECOND;
    // No batch is ever full: that the run ends at all is the other half of what is said.
    let policy = policy(8, wait);
    let settings = settings(Scenario::SingleStream, TestMode::PerformanceOnly, 20);
    let record = in_real_time(pool(DigitsPerceptron::new(), policy, 2), settings);
    let mut latencies: Vec<Nanos> =
        record.issued_at.iter().zip(&record.completed_at).map(|(i, c)| c - i).collect();
    // The last one is flushed.
    latencies.pop();
    assert_eq!(latencies.len(), 19);
    assert!(latencies.iter().all(|&latency| latency >= wait), "{latencies:?}");
}

#[test]
fn an_engine_that_panics_fails_its_samples_only() {
    struct Panics;
    impl Engine for Panics {
        fn name(&self) -> &str {
            "panics"
        }
        fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
            assert!(samples[0].index.is_multiple_of(2), "an odd sample, as the test wants it");
            answers.push(samples[0].id, &[]);
        }
    }
    let policy = policy(1, 0);
    let settings = settings(Scenario::SingleStream, TestMode::AccuracyOnly, 1);
    let record = in_real_time(pool(Panics, policy, 2), settings);
    assert_eq!((record.missing(), record.failed.len()), (0, 270));
    assert!(record.failed.iter().all(|(_, why)| *why == Failure::Internal));
}

#[test]
fn a_replayed_run_takes_what_it_took() {
    let cost = Cost { base: 40_000, per_sample: 0 };
    let faults = Faults { failed: 0.1, unanswered: 0.0 };
    let model = Model { faults, ..Model::single(ServiceTime::Exponential(cost)) };
    let mut model = ServiceModel::new(model).unwrap();
    let settings = || settings(Scenario::Server, TestMode::PerformanceOnly, 2_000);
    let in_virtual_time = |system: &mut dyn SimulatedSystem| {
        play(&mut VirtualTime::new(system, WallTime { unix_ns: 0 }), settings())
    };
    let recorded = in_virtual_time(&mut model);
    let replayed = in_virtual_time(&mut Replay::from_record(&recorded));
    assert!(recorded.failed.len() > 100);
    assert_eq!(recorded.completed_at, replayed.completed_at);
    assert_eq!(recorded.failed.len(), replayed.failed.len());
}

/// Notes how many samples each call has.
struct CallSizes(Arc<Mutex<Vec<usize>>>);

impl Engine for CallSizes {
    fn name(&self) -> &str {
        "sizes of calls"
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        self.0.lock().unwrap().push(samples.len());
        for sample in samples {
            answers.push(sample.id, &[]);
        }
    }
}

#[test]
fn an_inline_engine_is_warmed_up_and_gets_no_more_than_was_asked_for() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let engine = CallSizes(sizes.clone());
    engine.warm_up(2, NonZero::new(3).unwrap());
    assert_eq!(std::mem::take(&mut *sizes.lock().unwrap()), [3, 3]);
    let system = InlineSystem::new(engine).with_batch_limit(NonZero::new(5).unwrap());
    let record =
        in_real_time(system, settings(Scenario::MultiStream, TestMode::PerformanceOnly, 2));
    assert_eq!(record.missing(), 0);
    assert_eq!(*sizes.lock().unwrap(), [5, 3, 5, 3]);
}

/// Tells the first token of each sample, hands every second one over, and breaks at one.
struct Streams {
    breaks_at: u64,
}

impl Engine for Streams {
    fn name(&self) -> &str {
        "streams"
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        for (number, sample) in samples.iter().enumerate() {
            answers.first_token(sample.id, b"a");
            assert_ne!(sample.index, self.breaks_at, "a broken sample, as the test wants it");
            answers.push_tokens(sample.id, b"abc", 3);
            if number % 2 == 1 {
                answers.hand_over();
            }
        }
    }

    fn is_streaming(&self) -> bool {
        true
    }
}

#[test]
fn a_streaming_engine_tells_first_tokens_before_its_answers() {
    let mut settings = settings(Scenario::Offline, TestMode::PerformanceOnly, 1);
    settings.use_token_latencies = true;
    let whole = Streams { breaks_at: u64::MAX };
    let inline = in_real_time(InlineSystem::new(whole), settings.clone());
    let pooled = pool(Streams { breaks_at: u64::MAX }, policy(8, 0), 2);
    for record in [inline, in_real_time(pooled, settings)] {
        assert_eq!((record.missing(), record.misuse.total(), record.failed.len()), (0, 0, 0));
        let stamps = record.first_token_at.iter().zip(&record.completed_at);
        assert!(stamps.clone().count() > 0);
        assert!(stamps.clone().all(|(first, last)| *first > 0 && first <= last));
    }
}

#[test]
fn what_was_handed_over_stays_when_a_call_breaks() {
    let settings = settings(Scenario::Offline, TestMode::AccuracyOnly, 1);
    let of = |breaks_at| {
        let engine = Streams { breaks_at };
        in_real_time(pool(engine, policy(6, SECOND), 1), settings.clone())
    };
    // The fourth sample of the first call, of which two were handed over by then.
    let record = of(of(u64::MAX).indices[3].into());
    assert_eq!((record.missing(), record.misuse.total()), (0, 0));
    let failed: Vec<u64> = record.failed.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(failed, [2, 3, 4, 5]);
}

/// Answers its first calls, and fails the samples of all later ones.
struct Breaks {
    good_calls: usize,
    calls: Arc<Mutex<usize>>,
}

impl Engine for Breaks {
    fn name(&self) -> &str {
        "breaks"
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        for sample in samples {
            match *calls <= self.good_calls {
                true => answers.push(sample.id, &[]),
                false => answers.fail(sample.id, Failure::Internal),
            }
        }
    }
}

#[test]
fn what_waits_is_dropped_when_the_run_is_over() {
    let count = Arc::<Mutex<usize>>::default;
    let (inline, pooled) = (count(), count());
    let engine = |calls: &Arc<Mutex<usize>>| Breaks { good_calls: 5, calls: calls.clone() };
    let at_once = NonZero::new(16).unwrap();
    let systems: [(Arc<dyn SystemUnderTest>, _); 2] = [
        (Arc::new(InlineSystem::new(engine(&inline)).with_batch_limit(at_once)), inline.clone()),
        (Arc::new(pool(engine(&pooled), policy(16, 0), 1)), pooled.clone()),
    ];
    for (system, calls) in systems {
        let mut driver = RealTime::new(system);
        let monitor = driver.monitor();
        monitor.fail_fast(true);
        let settings = settings(Scenario::Offline, TestMode::PerformanceOnly, 100_000);
        let record = play(&mut driver, settings);
        // Dropped, it works off what still waits: nothing.
        drop(driver);
        let calls = *calls.lock().unwrap();
        assert!(monitor.failing().is_some());
        assert!(calls < 100, "{calls} calls of 6,250");
        let answered = record.completed_at.iter().filter(|&&at| at != 0).count();
        assert_eq!(answered - record.failed.len(), 80, "what was answered is kept");
    }
}
