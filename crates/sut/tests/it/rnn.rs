//! Recurrent networks as systems: batches by length, several models, and what goes wrong.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::Arc;

use dyno_loadgen::clock::{MILLISECOND, Nanos, WallTime};
use dyno_loadgen::drive::Driver;
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::{Failure, Record};
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, Settings, TestMode, TestSettings};
use dyno_loadgen::sut::{QuerySample, ResponseId, SystemUnderTest};
use dyno_rnn::engine::{Engine as Recurrent, EngineOptions};
use dyno_rnn::model::Model;
use dyno_rnn::served::{ServedModel as Network, Sizes};
use dyno_sut::batch::{self, Batcher, LengthClasses, PoolRouter, SimulatedBatcher, Station};
use dyno_sut::digits::{self, DigitsLstm};
use dyno_sut::engine::{Answers, Engine, InlineSystem, Port};
use dyno_sut::model::{Cost, Model as Service, ServiceModel, ServiceTime};
use dyno_sut::rnn::{
    Batching, Runner, SequenceEngine, SequenceLibrary, Sequences, ServedNetwork, Stack,
};
use proptest::prelude::*;

use crate::batching::{Batches, Noted, policy};

const SCENARIOS: [Scenario; 4] =
    [Scenario::SingleStream, Scenario::MultiStream, Scenario::Server, Scenario::Offline];

fn play(driver: &mut dyn Driver, library: &dyn SampleLibrary, settings: TestSettings) -> Record {
    let total = library.total_sample_count() as u64;
    let plan = Plan::resolve(&settings, Library { total, performance: total }).unwrap();
    let tenant = Tenant { settings: Settings::from(settings), plan, library, messages: Vec::new() };
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
        server_target_qps: 5_000.0,
        ..TestSettings::default()
    }
}

fn batching(largest: usize) -> Batching {
    Batching {
        largest: NonZero::new(largest).unwrap(),
        length_classes: LengthClasses::new(1.5).unwrap(),
    }
}

/// Two models, each with samples of its own, in batches of up to eight.
fn two_models() -> (Vec<Model>, Arc<SequenceLibrary>, Arc<SequenceEngine>) {
    let models: Vec<Model> =
        ["lstm:3x8", "bigru:5x4"].map(|text| Model::open(text).unwrap()).into();
    let sets = vec![
        Sequences::random(3, 1..=20, 40, 1).unwrap(),
        Sequences::random(5, 2..=9, 30, 2).unwrap(),
    ];
    let library = Arc::new(SequenceLibrary::new("two", sets));
    let runners = models.iter().map(runner).collect();
    let engine = SequenceEngine::new("two", Arc::clone(&library), runners, batching(8)).unwrap();
    (models, library, Arc::new(engine))
}

fn runner(model: &Model) -> Box<dyn Runner> {
    Box::new(Stack::new(Recurrent::new(model.clone(), &EngineOptions::default()).unwrap()))
}

/// A pool for each model, of two workers with an engine each.
fn split(models: &[Model], engine: &SequenceEngine) -> PoolRouter {
    let pool = |(model, of): (usize, &Model)| {
        let own = [None, Some(runner(of))];
        let stations = own.map(|own| Station {
            engine: Arc::new(engine.station(model, own).unwrap()),
            cores: None,
        });
        let policy = policy(8, MILLISECOND / 10);
        batch::BatchingPool::from_stations("two".into(), stations, policy, Some(engine.classes()))
            .unwrap()
    };
    let pools = models.iter().enumerate().map(pool).collect();
    PoolRouter::new("two".into(), pools, engine.route())
}

/// The last states of a sample by the oracle.
fn right(models: &[Model], library: &SequenceLibrary, index: u64) -> Vec<f64> {
    let (model, sequence) = library.sample(index).unwrap();
    let (outputs, width) = (models[model].oracle(sequence), models[model].outputs());
    let (first, last) = (&outputs[..width], &outputs[outputs.len() - width..]);
    if model == 0 { last.to_vec() } else { [&last[..4], &first[4..]].concat() }
}

/// That an answer is that of the oracle.
fn assert_right(answer: &[u8], right: &[f64], what: &str) {
    let (numbers, _) = answer.as_chunks::<4>();
    assert_eq!(numbers.len(), right.len(), "{what}");
    for (found, right) in numbers.iter().zip(right) {
        assert!((f64::from(f32::from_le_bytes(*found)) - right).abs() < 2e-6, "{what}");
    }
}

#[test]
fn all_scenarios_answer_each_sample_by_its_own_model() {
    let (models, library, engine) = two_models();
    for scenario in SCENARIOS {
        let systems: [Arc<dyn SystemUnderTest>; 2] =
            [Arc::new(InlineSystem::new(Arc::clone(&engine))), Arc::new(split(&models, &engine))];
        for system in systems {
            let accuracy = settings(scenario, TestMode::AccuracyOnly, 1);
            let mut driver = RealTime::new(Arc::clone(&system));
            let record = play(&mut driver, &*library, accuracy);
            // MultiStream fills its last query up.
            let asked: HashSet<u32> = record.indices.iter().copied().collect();
            assert_eq!((record.missing(), asked.len()), (0, 70), "{scenario:?}");
            assert_eq!(record.responses.iter().count(), record.indices.len());
            for response in record.responses.iter() {
                let index = u64::from(record.indices[response.sequence as usize]);
                let right = right(&models, &library, index);
                assert_right(response.data, &right, &format!("{scenario:?}, sample {index}"));
            }
            let queries = if scenario == Scenario::Offline { 1 } else { 60 };
            let performance = settings(scenario, TestMode::PerformanceOnly, queries);
            let record = play(&mut RealTime::new(system), &*library, performance);
            let failed = record.misuse.total();
            assert_eq!((record.missing(), failed), (0, 0), "{scenario:?}");
        }
    }
}

#[test]
fn the_embedded_lstm_has_its_accuracy_in_every_scenario() {
    let library = Arc::new(DigitsLstm::library());
    let engine = DigitsLstm::engine(&EngineOptions::default()).unwrap();
    let runner: Box<dyn Runner> = Box::new(DigitsLstm::new(engine));
    let engine =
        SequenceEngine::new("digits-lstm", Arc::clone(&library), vec![runner], batching(16));
    let engine = Arc::new(engine.unwrap());
    for scenario in SCENARIOS {
        let station = engine.station(0, None).unwrap();
        let policy = policy(16, MILLISECOND / 10);
        let pool = batch::BatchingPool::start(station, policy, NonZero::<usize>::MIN).unwrap();
        let accuracy = settings(scenario, TestMode::AccuracyOnly, 1);
        let record = play(&mut RealTime::new(Arc::new(pool)), &*library, accuracy);
        let index = |sequence: u64| record.indices[sequence as usize];
        let score = digits::score(record.responses.iter().map(|r| (index(r.sequence), r.data)));
        // Printed by `examples/train_digits_lstm.rs`, which computes without the engine.
        let found = (score.correct, score.total, score.malformed);
        assert_eq!(found, (digits::LSTM_CORRECT, 540, 0), "{scenario:?}");
    }
}

#[test]
fn a_call_that_fails_fails_its_samples_and_no_others() {
    /// Runs nothing longer than three steps.
    struct Short;

    impl Runner for Short {
        fn inputs(&self) -> usize {
            1
        }
        fn answers(&self) -> Port {
            Port { name: "row".into(), element: "int64".into(), shape: vec![Some(1)] }
        }
        fn prepare(&mut self, _rows: usize) -> Result<(), String> {
            Ok(())
        }
        fn run(&mut self, _input: &[f32], lengths: &[usize]) -> Result<(), String> {
            if lengths.iter().any(|length| *length > 3) { Err("too long".into()) } else { Ok(()) }
        }
        fn answer(&self, row: usize, bytes: &mut Vec<u8>) {
            bytes.push(row as u8);
        }
        fn on_cores(&self, _cores: Vec<usize>) -> Result<Box<dyn Runner>, String> {
            Ok(Box::new(Self))
        }
    }

    let set = Sequences::new(1, vec![0.5; 2 + 9 + 2], &[2, 9, 2]).unwrap();
    let library = Arc::new(SequenceLibrary::new("short", vec![set]));
    let engine = SequenceEngine::new("short", library, vec![Box::new(Short)], batching(8)).unwrap();
    let sample = |index: u64| QuerySample { id: ResponseId(index + 1), index };
    let mut answers = Answers::new();
    engine.answer(&[sample(0), sample(1), sample(2), sample(3)], &mut answers);
    let mut found: Vec<_> = answers.iter().collect();
    found.sort_by_key(|(id, _)| id.0);
    let (internal, rejected) = (Err(Failure::Internal), Err(Failure::Rejected));
    let expected: [(u64, Result<&[u8], Failure>); 4] =
        [(1, Ok(&[0])), (2, internal), (3, Ok(&[1])), (4, rejected)];
    assert_eq!(found, expected.map(|(id, answer)| (ResponseId(id), answer)));
    assert_eq!(engine.failure_reason(), Some("too long"));
    let narrow = Sequences::random(2, 1..=2, 3, 0).unwrap();
    let narrow = Arc::new(SequenceLibrary::new("narrow", vec![narrow]));
    let refused = SequenceEngine::new("narrow", narrow, vec![Box::new(Short)], batching(8));
    let why = refused.map(drop).unwrap_err();
    assert_eq!(why, "the model expects 1 numbers per step, but its samples have 2");
}

#[test]
fn served_networks_answer_each_query_as_the_oracle_does() {
    for model in Network::ALL {
        let sizes =
            Sizes { vocabulary: 60, embedding: 5, units: 7, query: 4, steps: 6, documents: 3 };
        let served = Arc::new(ServedNetwork::new(model, sizes).unwrap());
        let samples = served.samples(5, 1);
        let options = EngineOptions { threads: 2, ..EngineOptions::default() };
        let mut first = served.runner(&options).unwrap();
        let mut beside = first.on_cores(Vec::new()).unwrap();
        // Two queries in a call, steps x rows.
        let [one, other] = [0, 3].map(|at| samples.sequence(at).unwrap());
        assert_eq!(one.len(), served.words());
        let both: Vec<f32> = one.iter().zip(other).flat_map(|(a, b)| [*a, *b]).collect();
        for runner in [&mut first, &mut beside] {
            runner.run(&both, &[one.len(), other.len()]).unwrap();
            for (row, sequence) in [one, other].into_iter().enumerate() {
                let mut answer = Vec::new();
                runner.answer(row, &mut answer);
                let right = served.oracle(sequence).unwrap();
                assert_eq!(right.len(), served.outputs());
                assert_right(&answer, &right, model.name());
            }
        }
        let few = first.run(&one[1..], &[one.len() - 1]).unwrap_err();
        assert!(few.contains("takes samples of"), "{few}");
        for (wrong, told) in [(60.0, "60"), (0.5, "0.5"), (-1.0, "-1")] {
            let sequence = [&[wrong], &one[1..]].concat();
            let refused = first.run(&sequence, &[one.len()]).unwrap_err();
            assert_eq!(refused, format!("expected words from 0 to 59, found {told}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn padding_and_company_do_not_change_answers(
        chosen in prop::collection::vec(0_u64..70, 1..40),
    ) {
        let (models, library, engine) = two_models();
        let samples: Vec<QuerySample> = (1..)
            .zip(&chosen)
            .map(|(id, index)| QuerySample { id: ResponseId(id), index: *index })
            .collect();
        let mut answers = Answers::new();
        engine.answer(&samples, &mut answers);
        let mut ids: Vec<u64> = answers.answered().map(|id| id.0).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (1..=chosen.len() as u64).collect::<Vec<_>>(), "each once");
        for (id, answer) in answers.iter() {
            let index = chosen[id.0 as usize - 1];
            let right = right(&models, &library, index);
            assert_right(answer.unwrap(), &right, &format!("sample {index}"));
        }
    }

    #[test]
    fn batches_by_length_lose_nothing_and_keep_their_bounds(
        arrivals in prop::collection::vec((0_u64..200, 1_usize..300), 1..200),
        max_size in 1_usize..9,
        max_wait in 0_u64..500,
        ratio in 1.05_f64..3.0,
    ) {
        let near = LengthClasses::new(ratio).unwrap();
        let mut batcher = Batcher::new(policy(max_size, max_wait));
        let (mut now, mut arrived, mut taken) = (0, Vec::new(), Vec::new());
        let take = |batcher: &mut Batcher<usize>, now: Nanos, arrived: &[(Nanos, usize)]| {
            let mut batch = Vec::new();
            batcher.take(now, &mut batch);
            let of = |sample: &usize| arrived[*sample];
            let lengths: Vec<usize> = batch.iter().map(|sample| of(sample).1).collect();
            let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
            assert!(batch.len() <= max_size && *most as f64 <= *least as f64 * ratio);
            assert!(batch.is_sorted(), "first in, first out");
            let waits = now - of(&batch[0]).0;
            (waits, batch)
        };
        for (gap, length) in arrivals {
            // Whatever is due before the next arrival leaves when it is due.
            while let Some(due) = batcher.next_deadline().filter(|due| *due <= now + gap) {
                let at = due.max(now);
                let (waited, batch) = take(&mut batcher, at, &arrived);
                prop_assert!(waited <= max_wait || batch.len() == max_size);
                taken.extend(batch);
            }
            now += gap;
            batcher.push_class(near.class(length), now, arrived.len());
            arrived.push((now, length));
        }
        batcher.flush();
        while batcher.is_ready(now) {
            taken.extend(take(&mut batcher, now, &arrived).1);
        }
        taken.sort_unstable();
        prop_assert_eq!(taken, (0..arrived.len()).collect::<Vec<_>>());
        prop_assert!(batcher.is_empty() && batcher.next_deadline().is_none());
    }
}

#[test]
fn batches_by_length_are_the_same_in_virtual_time_in_every_scenario() {
    let lengths: Vec<usize> = (0..64).map(|at| 1 + at * 7 % 40).collect();
    let set = Sequences::new(1, vec![0.0; lengths.iter().sum()], &lengths).unwrap();
    let library = Arc::new(SequenceLibrary::new("lengths", vec![set]));
    let near = LengthClasses::new(1.5).unwrap();
    for scenario in SCENARIOS {
        let batches = Batches::default();
        let cost = Cost { base: 20_000, per_sample: 1_000 };
        let model = ServiceModel::new(Service::single(ServiceTime::Deterministic(cost))).unwrap();
        let noted = Noted { model, batches: Arc::clone(&batches) };
        let of = Arc::clone(&library);
        let class = move |index| of.length(index).map_or(0, |(_, steps)| near.class(steps));
        let mut system =
            SimulatedBatcher::new(noted, policy(8, MILLISECOND / 2), NonZero::<usize>::MIN)
                .with_classes(Arc::new(class));
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        let settings = settings(scenario, TestMode::PerformanceOnly, 300);
        let record = play(&mut driver, &*library, settings);
        assert_eq!(record.missing(), 0, "{scenario:?}");
        let batches = batches.lock().unwrap();
        let samples: usize = batches.iter().map(|(_, batch)| batch.len()).sum();
        assert_eq!(samples, record.completed_at.len(), "{scenario:?}");
        for (_, batch) in batches.iter() {
            let own = batch.iter().map(|index| lengths[*index as usize]);
            let (least, most) = (own.clone().min().unwrap(), own.max().unwrap());
            assert!(batch.len() <= 8 && most as f64 <= least as f64 * 1.5, "{least} and {most}");
        }
        if scenario == Scenario::Offline {
            let full = batches.iter().filter(|(_, batch)| batch.len() == 8).count();
            assert!(full * 2 > batches.len(), "{full} of {} batches are full", batches.len());
        }
    }
}
