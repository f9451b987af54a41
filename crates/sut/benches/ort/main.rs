//! Overhead of Dyno over ONNX Runtime: the same model, batch and threads, driven alternately by a
//! bare loop and by a test. Prints one JSON line per figure; `bench/tasks` runs it. `--model FILE`
//! measures that model instead of small ones. `--batch N` and `--threads N` set the batch and the
//! threads.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

mod convnet;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, SECOND};
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, Settings, TestMode, TestSettings};
use dyno_loadgen::sut::SystemUnderTest;
use dyno_sut::batch::{self, Policy};
use dyno_sut::digits::Perceptron;
use dyno_sut::engine::{Engine, InlineSystem};
use dyno_sut::onnx::EngineOptions;
use dyno_sut::onnx::ort::{OrtModel, OrtOptions};
use dyno_sut::onnx::runtime::{Search, environment};
use dyno_sut::tensors::{Elements, ModelInput, Spans, TensorLibrary};
use ort::session::{Session, SessionInputValue};
use ort::value::TensorRef;

const OVERHEAD: &str = "tasks.ort_overhead_percent";

/// Rounds of both sides in turn, and the duration of each. There are many short rounds, so that
/// other load of the machine affects both sides of a pair or only few pairs.
const ROUNDS: usize = 61;
const ROUND_SECONDS: f64 = 0.3;
const QUICK: (usize, f64) = (1, 0.2);

/// Samples in the library, for models of any size.
const SAMPLES: usize = 256;

/// A comparison.
struct Case {
    name: String,
    model: PathBuf,
    scenario: Scenario,
    batch: usize,
    threads: usize,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut is_quick, mut wanted) = (false, Vec::new());
    let (mut model, mut batch, mut threads) = (None, 8, 1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // `cargo bench` adds this argument.
            "--bench" => {}
            "--quick" => is_quick = true,
            "--model" => model = Some(PathBuf::from(args.next().unwrap())),
            "--batch" => batch = args.next().unwrap().parse().unwrap(),
            "--threads" => threads = args.next().unwrap().parse().unwrap(),
            _ => wanted.push(arg),
        }
    }
    let mut search = Search::from_environment(None);
    // The loader of `ort` panics if the library does not exist.
    search.system = false;
    if let Err(missing) = search.find() {
        eprintln!("skipped {OVERHEAD}: {missing}");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let written = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let case = |of: &str, model: PathBuf, scenario, batch| {
        let name = format!("{OVERHEAD}{of}");
        Case { name, model, scenario, batch, threads }
    };
    let convnet = || written("convnet.onnx", &convnet::convnet());
    let cases = match model {
        Some(model) => vec![case("", model, Scenario::Offline, batch)],
        None => vec![
            case("", convnet(), Scenario::Offline, batch),
            case(".single_stream", convnet(), Scenario::SingleStream, 1),
            case(
                ".small_single_stream",
                written("digits.onnx", &Perceptron::trained().to_onnx()),
                Scenario::SingleStream,
                1,
            ),
        ],
    };
    let (rounds, seconds) = if is_quick { QUICK } else { (ROUNDS, ROUND_SECONDS) };
    for case in cases {
        if wanted.is_empty() || wanted.iter().any(|part| case.name.contains(part)) {
            compare(&case, &search, rounds, seconds);
        }
    }
}

fn compare(case: &Case, search: &Search, rounds: usize, seconds: f64) {
    let sessions = NonZero::<usize>::MIN;
    let options = OrtOptions { threads: case.threads, sessions };
    let model = OrtModel::open(&case.model, search, options).unwrap();
    let inputs = model.inputs().to_vec();
    let library =
        Arc::new(TensorLibrary::synthetic(&inputs, SAMPLES, 1, &Spans::new(), 1).unwrap());
    let options = EngineOptions { largest_batch: case.batch, ..EngineOptions::default() };
    let engine: Arc<dyn Engine> = Arc::new(model.engine(&library, options).unwrap());
    let builder = Session::builder(&environment(search).unwrap()).unwrap();
    let mut builder = builder.with_intra_threads(case.threads).unwrap();
    let mut session = builder.commit_from_file(&case.model).unwrap();
    let batches = batches(&library, &inputs, case.batch);

    // The warm-up calls of both sides show how many samples a round needs.
    let rate = bare(&mut session, &batches, case.batch, 2 * SAMPLES);
    let samples = ((rate * seconds) as usize).next_multiple_of(case.batch);
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // The first side alternates.
        for of in [round % 2, (round + 1) % 2] {
            match of {
                0 => peer.push(bare(&mut session, &batches, case.batch, samples)),
                _ => ours.push(through_dyno(&engine, &library, case, samples)),
            }
        }
    }
    let mut lost: Vec<f64> = ours.iter().zip(&peer).map(|(o, p)| 100.0 * (1.0 - o / p)).collect();
    let (ours, peer, lost) = (median(&mut ours), median(&mut peer), median(&mut lost));
    eprintln!("{}: {rounds} rounds of {samples} samples on each side", case.name);
    println!(
        "{{\"name\": \"{}\", \"ours\": {ours:.2}, \"peer\": {peer:.2}, \"ratio\": {:.4}, \"unit\": \
         \"samples/s; batch {}, {} threads, {lost:.2} % lost (median of pairs)\"}}",
        case.name,
        1.0 - lost / 100.0,
        case.batch,
        case.threads,
    );
}

/// One input of each batch, and its shape.
type Batch = Vec<(Vec<usize>, Vec<f32>)>;

fn batches(library: &TensorLibrary, inputs: &[ModelInput], batch: usize) -> Vec<Batch> {
    let first = library.sample(0).unwrap();
    let batch_of = |start: usize| {
        let samples: Vec<_> = (start..start + batch)
            .map(|index| dyno_loadgen::sut::QuerySample {
                id: dyno_loadgen::sut::ResponseId(1),
                index: index as u64,
            })
            .collect();
        let input = |(at, _): (usize, &ModelInput)| {
            let shape = [&[batch], &first[at].1.shape[..]].concat();
            let mut unused = Elements::U8(Vec::new().into());
            let elements = library.gather(at, &samples, &mut unused).unwrap();
            let elements = elements.as_slice::<f32>().expect("the models take floats").to_vec();
            (shape, elements)
        };
        inputs.iter().enumerate().map(input).collect()
    };
    (0..SAMPLES / batch).map(|number| batch_of(number * batch)).collect()
}

/// Returns the samples/s of the session alone, without queue and copies.
fn bare(session: &mut Session, batches: &[Batch], batch: usize, samples: usize) -> f64 {
    let clock = Clock::start();
    for number in 0..samples / batch {
        let inputs = batches[number % batches.len()].iter().map(|(shape, elements)| {
            TensorRef::from_array_view((&shape[..], &elements[..])).unwrap().into()
        });
        let inputs: Vec<SessionInputValue<'_>> = inputs.collect();
        let outputs = session.run(&inputs[..]).unwrap();
        std::hint::black_box(outputs[0].try_extract_tensor::<f32>().unwrap());
    }
    (samples / batch * batch) as f64 / (clock.now() as f64 / SECOND as f64)
}

/// Returns the samples/s of a whole test.
fn through_dyno(
    engine: &Arc<dyn Engine>,
    library: &Arc<TensorLibrary>,
    case: &Case,
    samples: usize,
) -> f64 {
    let queries = if case.scenario == Scenario::Offline { 1 } else { samples as u64 };
    let settings = TestSettings {
        scenario: case.scenario,
        mode: TestMode::PerformanceOnly,
        min_duration_ms: if case.scenario == Scenario::Offline { 1_000 } else { 0 },
        min_query_count: queries,
        max_query_count: queries,
        // The test adds 10 % to the expected rate.
        offline_expected_qps: samples as f64 / 1.1,
        ..TestSettings::default()
    };
    let total = library.total_sample_count() as u64;
    let plan = Plan::resolve(&settings, Library { total, performance: total }).unwrap();
    let tenant = Tenant {
        settings: Settings::from(settings),
        plan,
        library: &**library,
        messages: Vec::new(),
    };
    let system: Arc<dyn SystemUnderTest> = match case.scenario {
        Scenario::Offline => {
            let policy = Policy { max_size: NonZero::new(case.batch).unwrap(), max_wait: 0 };
            let one = NonZero::<usize>::MIN;
            Arc::new(batch::BatchingPool::start(Arc::clone(engine), policy, one).unwrap())
        }
        _ => Arc::new(InlineSystem::new(Arc::clone(engine))),
    };
    let logs = run(&mut RealTime::new(system), &[tenant], RecordRetention::Every, &mut |_| ());
    let record = &logs[0].runs().next().unwrap().record;
    assert_eq!(record.missing(), 0, "{:?}", engine.failure_reason());
    let last = record.completed_at.iter().max().copied().unwrap();
    record.completed_at.len() as f64 / (last as f64 / SECOND as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
