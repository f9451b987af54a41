//! The systems `rnn:MODEL` and `digits-lstm`: recurrent networks on teams of pinned threads, one team
//! for each set of cores.

mod oracle;
mod source;
mod spec;
mod whole;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::sut::SystemUnderTest;
use dyno_rnn::engine::EngineOptions;
use dyno_rnn::{Isa, Layer};
use dyno_sut::batch::{BatchSizes, BatchingPool, Policy, PoolRouter, Station};
use dyno_sut::cores::Cores;
use dyno_sut::digits::DigitsLstm;
use dyno_sut::engine::Engine;
use dyno_sut::infer::InferenceModel;
use dyno_sut::rnn::{
    Batching, GROUP, RecurrentModel, Runner, SequenceEngine, SequenceLibrary, Sequences,
};
use dyno_task::judge::Judge;

use super::kind::{Drive, OpenedSystem, Resources, SystemKind};
use super::{BATCH_DEFAULT, digits, onnx, policy};
use crate::environment;
use crate::failure::Failure;
use crate::options::{Mode, RandomStream, RunOptions};
use source::Source;
use spec::Spec;

pub(super) const KIND: SystemKind = SystemKind {
    name: "rnn",
    operand: "MODEL",
    help: spec::GRAMMAR,
    accepts: &[
        "data",
        "shape",
        "labels",
        "with",
        "workers",
        "threads",
        "cores",
        "warm-up",
        "batch",
        "batch-wait",
    ],
    resources: |operand| Resources::files(files(operand)),
    check: Some(|operand, run| {
        let Ok(spec) = spec::parse(operand) else { return Ok(()) };
        whole::file(&spec).map_or(Ok(()), |path| whole::check(path, &spec, run))
    }),
    open: |request| {
        let spec = read(request.operand, "rnn")?;
        check_unserved(&spec, "rnn")?;
        match whole::file(&spec) {
            Some(path) => whole::open(path, &spec, request.run),
            None => Ok(load(&spec, request.run)?.into()),
        }
    },
};

pub(super) const DIGITS_LSTM: SystemKind = SystemKind {
    name: "digits-lstm",
    operand: "",
    help: "the same digits, read row by row by a small LSTM that is built in, in Dyno's engine of \
           recurrent networks; digits-lstm:precision=bf16 or int8 in fewer bits",
    accepts: digits::KIND.accepts,
    resources: Resources::nothing,
    check: None,
    open: |request| {
        Ok(OpenedSystem {
            labels: Some(dyno_sut::digits::labels()),
            target: Some(LSTM_TARGET),
            ..load_digits(request.operand, request.run)?.into()
        })
    },
};

/// Accuracy target of the built-in LSTM, from its accuracy when it was trained.
const LSTM_TARGET: f64 = digits::SHARE_OF_REFERENCE * dyno_sut::digits::LSTM_CORRECT as f64
    / dyno_sut::digits::TEST_COUNT as f64;

impl From<LoadedNetworks> for OpenedSystem {
    fn from(loaded: LoadedNetworks) -> Self {
        Self {
            judge: loaded.judge,
            remarks: loaded.remarks,
            is_synthetic: loaded.is_synthetic,
            pools: Some(loaded.pools),
            ..Self::new(Drive::Engine(loaded.engine), loaded.library)
        }
    }
}

/// Loaded models with their samples.
pub struct LoadedNetworks {
    /// Engine that computes batches.
    pub engine: Arc<SequenceEngine>,
    /// Samples of all models.
    pub library: Arc<SequenceLibrary>,
    /// Workers with separate engines.
    pub pools: Pools,
    /// Method that scores answers.
    pub judge: Option<Judge>,
    /// Whether the samples are random.
    pub is_synthetic: bool,
    /// Notes for readers of a result.
    pub remarks: Vec<String>,
}

/// Workers with separate engines and cores; each model has a queue.
pub struct Pools {
    engine: Arc<SequenceEngine>,
    /// Engines with their cores, by model.
    stations: Vec<Vec<(Arc<SequenceEngine>, Option<Cores>)>>,
}

impl Pools {
    /// Returns whether workers are bound to cores.
    pub fn is_bound(&self) -> bool {
        self.stations.iter().flatten().any(|(_, cores)| cores.is_some())
    }

    /// Returns the engines of all models.
    pub fn engines(&self) -> impl Iterator<Item = &Arc<SequenceEngine>> {
        self.stations.iter().flatten().map(|(engine, _)| engine)
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        &self,
        policy: Policy,
        sizes: &BatchSizes,
    ) -> Result<Arc<dyn SystemUnderTest>, Failure> {
        let name = || Engine::name(&*self.engine).to_owned();
        let mut pools = Vec::new();
        for stations in &self.stations {
            let stations = stations.iter().map(|(engine, cores)| Station {
                engine: Arc::clone(engine) as Arc<dyn Engine>,
                cores: cores.clone(),
            });
            let pool =
                BatchingPool::from_stations(name(), stations, policy, Some(self.engine.classes()));
            let pool = pool.map_err(|error| {
                Failure::set_up(format!("cannot start workers: {error}")).hint("lower --workers")
            })?;
            pools.push(pool.with_batch_sizes(sizes.clone()));
        }
        Ok(match pools.len() {
            1 => Arc::new(pools.remove(0)),
            _ => Arc::new(PoolRouter::new(name(), pools, self.engine.route())),
        })
    }
}

/// Loads the models of the operand of `rnn:`.
///
/// # Errors
/// Invalid models or samples, or cores that do not exist.
fn load(spec: &Spec, run: &RunOptions) -> Result<LoadedNetworks, Failure> {
    if spec.models.iter().any(|(model, _)| model.is_empty()) {
        return Err(Failure::usage("system `rnn` needs a model")
            .hint("use --system rnn:FILE.onnx, or a layer by its shape: rnn:lstm:256x256x1x100"));
    }
    let mut models = Vec::new();
    for (name, _) in &spec.models {
        let source = Source::open(name, spec);
        models.push(if spec.models.len() > 1 && name.ends_with(".onnx") {
            source.map_err(|failure| {
                failure.hint("several models are chains of layers; a whole model is measured alone")
            })?
        } else {
            source?
        });
    }
    let library = Arc::new(library(spec, &models, run)?);
    let mut remarks: Vec<String> =
        models.iter().filter_map(Source::assumption).map(str::to_owned).collect();
    let threads = run.threads.map_or(1, NonZero::get);
    remarks.extend(EngineOptions { threads, ..EngineOptions::default() }.thread_limit());
    let judge = judge(spec, &models, &library, run, &mut remarks)?;
    let shape = models.iter().find_map(Source::shape);
    let batch_default = shape.and_then(|[rows, _]| NonZero::new(rows)).unwrap_or(BATCH_DEFAULT);
    let largest = run.batch.as_ref().map_or(batch_default, |_| onnx::largest_batch(run));
    let layers =
        models.iter().zip(library.sets()).filter(|(of, _)| matches!(of, Source::Layers(_)));
    let steps = layers.map(|(_, set)| set.longest()).max().unwrap_or(1);
    let open = |model: usize, options: &EngineOptions| models[model].runner(options);
    let (name, batching) = (
        format!("dyno-rnn-{}", short(spec)),
        Batching { largest, length_classes: spec.near.unwrap_or_default() },
    );
    let parts = Parts { name, batching, steps, open: &open };
    let (engine, pools) = parts.build(spec, &library, run)?;
    Ok(LoadedNetworks { engine, library, pools, judge, is_synthetic: run.data.is_empty(), remarks })
}

/// Returns the files that a specification names.
pub fn files(text: &str) -> Vec<PathBuf> {
    let Ok(spec) = spec::parse(text) else { return Vec::new() };
    let file = |(model, _): &(String, Option<Cores>)| {
        // Names of layers by shape do not contain these characters.
        let is_file = model.contains(['/', '.', '#']) || Path::new(model).exists();
        // A layer follows `#`, options `?`.
        let mut path = model.as_str();
        for sign in ['#', '?'] {
            path = match path.rsplit_once(sign) {
                Some((before, _)) if !Path::new(path).is_file() => before,
                _ => path,
            };
        }
        is_file.then(|| PathBuf::from(path))
    };
    spec.models.iter().filter_map(file).collect()
}

/// Loads the built-in LSTM; options may follow `digits-lstm:`.
///
/// # Errors
/// Invalid options, or cores that do not exist.
pub fn load_digits(text: &str, run: &RunOptions) -> Result<LoadedNetworks, Failure> {
    let spec = read(text, "digits-lstm")?;
    check_unserved(&spec, "digits-lstm")?;
    if spec.models[0] != (String::new(), None) || spec.models.len() > 1 || spec.lengths.is_some() {
        return Err(Failure::usage(format!("system digits-lstm:{text} has a model or lengths"))
            .hint("its model is built in; digits-lstm:precision=int8 runs it in fewer bits"));
    }
    let library = Arc::new(DigitsLstm::library());
    let largest = run.batch.as_ref().map_or(BATCH_DEFAULT, |_| onnx::largest_batch(run));
    let open = |_: usize, options: &EngineOptions| DigitsLstm::runner(options);
    let batching = Batching { largest, length_classes: spec.near.unwrap_or_default() };
    let steps = dyno_sut::digits::ROWS;
    let parts = Parts { name: "digits-lstm".into(), batching, steps, open: &open };
    let (engine, pools) = parts.build(&spec, &library, run)?;
    Ok(LoadedNetworks {
        engine,
        library,
        pools,
        judge: None,
        is_synthetic: false,
        remarks: Vec::new(),
    })
}

/// A model for requests that carry their data.
pub struct ByValue {
    /// The model.
    pub model: Arc<dyn InferenceModel>,
    /// Cores of each worker.
    pub cores: Vec<Option<Cores>>,
    /// How the model was verified.
    pub remark: Option<String>,
}

/// Remark on a model whose sequences are not batched.
const ALONE: &str = "Requests of sequences (sequence_id) do not share calls: others in a batch would change the last bits of \
     an answer. With several threads, try --threads 1 and --workers N. On one thread, the kernels of this layer are the cause.";

/// Loads the model of `rnn:` or `digits-lstm` for requests that carry their data, with the cores of
/// each of its workers.
///
/// # Errors
/// As [`load`] and [`load_digits`]; or several models, because a server has one.
pub fn by_value(system: &str, text: &str, run: &RunOptions) -> Result<ByValue, Failure> {
    let spec = read(text, system)?;
    let batch_size = run.batch.as_ref().map_or(BATCH_DEFAULT, |_| onnx::largest_batch(run));
    if let Some(path) = whole::file(&spec).filter(|_| system == "rnn") {
        let (model, remark) = whole::by_value(path, &spec, batch_size.get(), run)?;
        let cores = spec.models[0].1.clone().or(run.cores.clone());
        let stations = vec![cores; run.workers.unwrap_or(1).max(1)];
        return Ok(ByValue { model, cores: stations, remark });
    }
    if !spec.states.is_empty() {
        let problem = format!("system {system}: states= is an option of a whole model");
        return Err(Failure::usage(problem).hint("layers carry their states without it"));
    }
    let [(model, _)] = &spec.models[..] else {
        return Err(Failure::usage(format!("system {system}:{text} has several models"))
            .hint("serve each separately"));
    };
    let batching = Batching { largest: batch_size, length_classes: spec.near.unwrap_or_default() };
    let sets = core_sets(&spec, run)?;
    let made = if system == "digits-lstm" {
        let open = |_: usize, options: &EngineOptions| DigitsLstm::runner(options);
        let steps = dyno_sut::digits::ROWS;
        Parts { name: system.into(), batching, steps, open: &open }.runners(&spec, &sets, run)
    } else {
        let source = Source::open(model, &spec)?;
        let open = |_: usize, options: &EngineOptions| source.runner(options);
        let steps = source.shape().map_or(STEPS_DEFAULT, |[_, steps]| steps);
        let name = format!("dyno-rnn-{}", short(&spec));
        Parts { name, batching, steps, open: &open }.runners(&spec, &sets, run)
    };
    let (mut firsts, mut others) = made?;
    firsts.append(&mut others[0]);
    let name = if system == "rnn" { format!("dyno-rnn-{}", short(&spec)) } else { system.into() };
    let failed = |why| Failure::set_up(format!("system {system}: {why}"));
    let mut model = RecurrentModel::new(name, firsts, batching).map_err(failed)?;
    if !spec.outputs.is_empty() {
        model = model.with_outputs(&spec.outputs).map_err(failed)?;
    }
    let is_alone = model.check_sequences().is_ok() && model.sequences_per_call() == 1;
    let remark = is_alone.then(|| ALONE.to_owned());
    let cores = sets.into_iter().flatten().collect();
    Ok(ByValue { model: Arc::new(model), cores, remark })
}

/// Rejects options of a served model in a run.
fn check_unserved(spec: &Spec, system: &str) -> Result<(), Failure> {
    for (key, is_given) in
        [("outputs", !spec.outputs.is_empty()), ("states", !spec.states.is_empty())]
    {
        if is_given {
            let problem = format!("system {system}: {key}= is an option of dyno serve");
            return Err(Failure::usage(problem)
                .hint("remove it, or serve the model and measure it with --system oip:URL/MODEL"));
        }
    }
    Ok(())
}

fn read(text: &str, system: &str) -> Result<Spec, Failure> {
    let spec = spec::parse(text).map_err(|expected| {
        Failure::usage(format!("system `{system}:{text}`: {expected}"))
            .hint("for example rnn:lstm:256x256x1x100,precision=bf16; see dyno info systems rnn")
    })?;
    // A missing file is reported where it is opened.
    let is_onnx = |model: &str| {
        Path::new(model).extension().is_some_and(|end| end.eq_ignore_ascii_case("onnx"))
    };
    let is_whole = !spec.as_layers && matches!(&spec.models[..], [(model, _)] if is_onnx(model));
    let (key, why) = if !spec.verify {
        ("verify=off", "only whole ONNX models are verified")
    } else if spec.output.is_some() {
        ("output=", "only whole ONNX models have several outputs")
    } else {
        return Ok(spec);
    };
    if is_whole {
        return Ok(spec);
    }
    let problem = format!("system `{system}:{text}`: {key} has no effect: {why}");
    Err(Failure::usage(problem).hint(format!("remove {key}")))
}

/// Returns a short name of the models for folders.
fn short(spec: &Spec) -> String {
    let stem = |(model, _): &(String, Option<Cores>)| {
        let stem = Path::new(model).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        stem.replace([':', '#'], "-")
    };
    spec.models.iter().map(stem).collect::<Vec<_>>().join("+")
}

type Open<'a> = dyn Fn(usize, &EngineOptions) -> Result<Box<dyn Runner>, String> + 'a;

/// Parts of engines.
struct Parts<'a> {
    name: String,
    batching: Batching,
    /// Steps of the sequences that plans are made for.
    steps: usize,
    /// Opens the first engine of a model.
    open: &'a Open<'a>,
}

impl Parts<'_> {
    fn build(
        self,
        spec: &Spec,
        library: &Arc<SequenceLibrary>,
        run: &RunOptions,
    ) -> Result<(Arc<SequenceEngine>, Pools), Failure> {
        let sets = core_sets(spec, run)?;
        let (firsts, others) = self.runners(spec, &sets, run)?;
        let failed = |why: String| Failure::set_up(format!("system rnn: {why}"));
        let engine = SequenceEngine::new(self.name, Arc::clone(library), firsts, self.batching);
        let engine = Arc::new(engine.map_err(failed)?);
        let mut stations = Vec::new();
        for (model, (others, sets)) in others.into_iter().zip(sets).enumerate() {
            let owns = std::iter::once(None).chain(others.into_iter().map(Some));
            let of = |(own, cores): (Option<Box<dyn Runner>>, Option<Cores>)| {
                Ok((Arc::new(engine.station(model, own).map_err(failed)?), cores))
            };
            stations.push(owns.zip(sets).map(of).collect::<Result<Vec<_>, Failure>>()?);
        }
        let pools = Pools { engine: Arc::clone(&engine), stations };
        Ok((engine, pools))
    }

    /// Returns the first runner of each model, and its other runners.
    fn runners(
        &self,
        spec: &Spec,
        sets: &[Vec<Option<Cores>>],
        run: &RunOptions,
    ) -> Result<Runners, Failure> {
        let replicas = sets[0].len();
        let all: usize = sets.iter().map(Vec::len).sum();
        let shared = (environment::cores() / all).max(1);
        let failed = |why: String| Failure::set_up(format!("system rnn: {why}"));
        let (mut firsts, mut others) = (Vec::new(), Vec::new());
        for (model, sets) in sets.iter().enumerate() {
            let own = sets[0].as_ref().map(|cores| cores.len().get());
            let threads = run.threads.map(NonZero::get).or(own).unwrap_or(shared);
            let options = EngineOptions {
                precision: spec.precision,
                threads: own.map_or(threads, |most| threads.min(most)),
                cores: beside(sets[0].as_ref()),
                isa: Isa::best(),
                steps: self.steps,
                tuning: spec.tune.unwrap_or(spec::TUNE_DEFAULT),
            };
            // The thread that makes an engine is part of its team while plans are timed.
            let _bound = policy::bound(sets[0].as_ref())?;
            let mut engine = (self.open)(model, &options).map_err(failed)?;
            // Replicas share the plans of the first engine, so that all batch sizes are planned
            // now.
            for size in (0..)
                .map(|power| 1 << power)
                .take_while(|size| *size < 2 * self.batching.largest.get().max(GROUP))
            {
                engine.prepare(size).map_err(failed)?;
            }
            let replica = |at: usize| engine.on_cores(beside(sets[at].as_ref())).map_err(failed);
            others.push((1..replicas).map(replica).collect::<Result<Vec<_>, Failure>>()?);
            firsts.push(engine);
        }
        Ok((firsts, others))
    }
}

/// First runner of each model, and its other runners.
type Runners = (Vec<Box<dyn Runner>>, Vec<Vec<Box<dyn Runner>>>);

/// Returns the cores of a team's workers except the first.
fn beside(cores: Option<&Cores>) -> Vec<usize> {
    cores.map_or_else(Vec::new, |cores| cores.numbers()[1..].to_vec())
}

/// Returns disjoint sets of cores for all engines, by model.
fn core_sets(spec: &Spec, run: &RunOptions) -> Result<Vec<Vec<Option<Cores>>>, Failure> {
    let (models, engines) = (spec.models.len(), run.workers.unwrap_or(1).max(1));
    let own: Vec<&Cores> = spec.models.iter().filter_map(|(_, cores)| cores.as_ref()).collect();
    let too_few = |cores: &Cores, shares: usize| {
        Failure::usage(format!(
            "{} processors ({cores}) are too few for {shares} engines",
            cores.len()
        ))
        .hint("lower --workers, or pass more processors")
    };
    if own.is_empty() {
        let Some(cores) = &run.cores else { return Ok(vec![vec![None; engines]; models]) };
        policy::bound(Some(cores)).map(drop)?;
        let shares =
            cores.shares(models * engines).ok_or_else(|| too_few(cores, models * engines))?;
        return Ok(shares
            .chunks(engines)
            .map(|own| own.iter().cloned().map(Some).collect())
            .collect());
    }
    if own.len() < models || run.cores.is_some() || run.workers == Some(0) {
        return Err(Failure::usage(
            "with MODEL@CORES every model needs its own cores, without --cores and --workers 0",
        ));
    }
    let mut all: Vec<usize> = own.iter().flat_map(|cores| cores.numbers()).copied().collect();
    all.sort_unstable();
    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        let problem = format!("processor {} is given to two models", pair[0]);
        return Err(Failure::usage(problem).hint(
            "thread teams on one processor wait for each other; use \
                 different processors",
        ));
    }
    let sets = own.into_iter().map(|cores| {
        policy::bound(Some(cores)).map(drop)?;
        let shares = cores.shares(engines).ok_or_else(|| too_few(cores, engines))?;
        Ok(shares.into_iter().map(Some).collect())
    });
    sets.collect()
}

/// Default number of steps of random samples.
const STEPS_DEFAULT: usize = 100;
/// Multiplications of all random samples together, from which their default number follows: seconds
/// for the oracle.
const WORK_DEFAULT: usize = 2_000_000_000;
/// Lower and upper bound of the default number of random samples of a model.
const SAMPLES: [usize; 2] = [8, 256];

fn library(spec: &Spec, models: &[Source], run: &RunOptions) -> Result<SequenceLibrary, Failure> {
    if run.labels.is_some() {
        return Err(Failure::usage(
            "--labels has no effect on system `rnn`: its answers are states, not classes",
        )
        .hint("pass the correct states with --with reference=FILE.npy"));
    }
    let named = |(name, path): &(Option<String>, PathBuf)| {
        (name.clone().unwrap_or_else(|| "sequence".into()), path.clone())
    };
    onnx::check_names(&run.data.iter().map(named).collect::<Vec<_>>())?;
    let mut lengths = None;
    let mut samples = None;
    for (name, path) in &run.data {
        match name.as_deref() {
            None | Some("sequence") => samples = Some(path),
            Some("lengths") => lengths = Some(path),
            Some(other) => {
                return Err(Failure::usage(format!("system rnn has no input `{other}`")).hint(
                    "--data FILE.npy has the sequences, --data lengths=FILE.npy their steps",
                ));
            }
        }
    }
    let sets = match (samples, models) {
        (Some(path), [model]) => {
            let set = Sequences::open(model.inputs(), path, lengths.map(|path| &**path));
            vec![set.map_err(Failure::set_up)?]
        }
        (Some(_), _) => {
            return Err(Failure::usage("with several models samples are random")
                .hint("remove --data, or measure one model"));
        }
        (None, _) if lengths.is_some() => {
            return Err(Failure::usage(
                "--data lengths=FILE.npy needs the samples that they belong to",
            )
            .hint("pass them with --data FILE.npy, or use random ones with ,lengths=5-40"));
        }
        (None, models) => {
            let random = |(number, model): (usize, &Source)| {
                let seed = run.seed_of(RandomStream::Inputs).wrapping_add(number as u64);
                let model = match model {
                    Source::Layers(model) => model,
                    // The oracle takes seconds per sample.
                    Source::Served(served) => {
                        return Ok(served.samples(run.samples_or_of_round(SAMPLES[0]), seed));
                    }
                };
                let steps = model.shape().map_or(STEPS_DEFAULT, |[_, steps]| steps);
                let lengths = spec.lengths.clone().unwrap_or(steps..=steps);
                let work = |layer: &Layer| {
                    let each = layer.cell().gates() * layer.units() * layer.directions().count();
                    each * (layer.inputs() + layer.units()) * lengths.end()
                };
                let work: usize = model.layers().iter().map(work).sum();
                let default = (WORK_DEFAULT / work.max(1)).clamp(SAMPLES[0], SAMPLES[1]);
                let count = run.samples_or_of_round(default);
                Sequences::random(model.inputs(), lengths, count, seed)
            };
            let sets = models.iter().enumerate().map(random).collect::<Result<_, _>>();
            sets.map_err(Failure::set_up)?
        }
    };
    Ok(SequenceLibrary::new("sequences", sets))
}

fn judge(
    spec: &Spec,
    models: &[Source],
    library: &SequenceLibrary,
    run: &RunOptions,
    remarks: &mut Vec<String>,
) -> Result<Option<Judge>, Failure> {
    if let Some(path) = reference(run)? {
        return oracle::judge(path, spec.precision).map(Some);
    }
    if !matches!(run.mode, None | Some(Mode::Accuracy | Mode::Both)) {
        return Ok(None);
    }
    let Some(vectors) = oracle::computed(models, library)? else {
        remarks.push("Answers of models with different widths are not compared.".to_owned());
        return Ok(None);
    };
    let by = "the layers in double precision";
    Ok(oracle::computed_judge(vectors, spec.precision, by, remarks))
}

/// Returns the file of `--with reference=FILE.npy`.
fn reference(run: &RunOptions) -> Result<Option<PathBuf>, Failure> {
    match &run.with[..] {
        [] => Ok(None),
        [(name, path)] if name == "reference" => Ok(Some(path.clone())),
        all => {
            let other = all.iter().find(|(name, _)| name != "reference");
            let problem = other
                .map_or("--with reference=... is given twice".into(), |(name, _)| {
                    format!("system rnn has no file `{name}`; its only file is reference")
                });
            Err(Failure::usage(problem).hint("use --with reference=FILE.npy, one row per sample"))
        }
    }
}
