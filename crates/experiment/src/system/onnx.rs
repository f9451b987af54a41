//! The systems `onnx:FILE` and `tract:FILE`: a model, its samples, its labels.

use std::cell::RefCell;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::settings::{Scenario, similar};
use dyno_onnx::{Model, ReadError};
use dyno_sut::engine::Engine;
use dyno_sut::infer::RowModel;
use dyno_sut::onnx::ort::{OrtModel, OrtOptions};
use dyno_sut::onnx::runtime::{CAN_LOAD, Search};
use dyno_sut::onnx::{Answer, EngineOptions, OnnxError, WITH_TENSORS};
use dyno_sut::tensors::{ModelInput, Spans, TensorLibrary};
use dyno_task::open::TaskModel;

use super::kind::{Drive, OpenedSystem, Request, Resources, SystemKind};
use super::shapes::{self, Symbols};
use super::{BATCH_DEFAULT, SAMPLES_DEFAULT, policy};
use crate::environment;
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};

pub(super) const ONNX: SystemKind = SystemKind {
    name: "onnx",
    operand: "FILE",
    help: if CAN_LOAD {
        "an ONNX model in ONNX Runtime (pip install onnxruntime); --data FILE.npy contains the \
         samples, --labels FILE.npy their classes. Without --data the samples are random and \
         measure only speed. onnx:FILE,output=NAME scores another output than the first one"
    } else {
        "not available in this build: it is a static program, which cannot load ONNX Runtime; \
         use tract:FILE, or the program for glibc of the same release"
    },
    accepts: &[
        "model",
        "data",
        "shape",
        "labels",
        "ort-lib",
        "workers",
        "threads",
        "cores",
        "warm-up",
        "batch",
        "batch-wait",
    ],
    resources: model_file,
    check: Some(check),
    open: |request| open("onnx", request),
};

pub(super) const TRACT: SystemKind = SystemKind {
    name: "tract",
    help: if cfg!(feature = "tract") {
        "an ONNX model in tract, which is built in; --data, --labels and output=NAME as for \
         onnx:FILE"
    } else {
        "an ONNX model in tract; needs a build with --features tract"
    },
    accepts: &[
        "model",
        "data",
        "shape",
        "labels",
        "workers",
        "threads",
        "cores",
        "warm-up",
        "batch",
        "batch-wait",
    ],
    open: |request| open("tract", request),
    ..ONNX
};

/// Operand of `onnx:` and `tract:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand<'a> {
    /// File of the model; empty if `--model` names it.
    pub file: &'a str,
    /// Name of the output of which answers are made; the first one by default.
    pub output: Option<&'a str>,
}

/// Key of the output, with its separators.
const OUTPUT: &str = ",output=";

/// Hint for a file whose name seems to have another key behind it.
const ONLY_KEY: &str = "the only key behind the file is output=NAME; the others are flags";

/// Splits an operand such as `model.onnx,output=logits`.
pub fn parse(operand: &str) -> Operand<'_> {
    if let Some(output) = operand.strip_prefix(&OUTPUT[1..]) {
        return Operand { file: "", output: Some(output) };
    }
    match operand.split_once(OUTPUT) {
        Some((file, output)) => Operand { file, output: Some(output) },
        None => Operand { file: operand, output: None },
    }
}

/// Returns whether a specification may choose the output of which answers are made.
pub fn has_choice_of_output(spec: &str) -> bool {
    let name = spec.split_once(':').map_or(spec, |(name, _)| name);
    matches!(name, "onnx" | "tract" | "rnn")
}

/// Returns the failure for `output=` of a served model.
pub fn no_choice_of_output(system: &str, name: &str) -> Failure {
    let problem = format!(
        "system {system}: output={name} has no effect: a served model answers with all outputs"
    );
    Failure::usage(problem)
        .hint("remove it; a client chooses the output with --system oip:URL/MODEL,output=NAME")
}

fn model_file(operand: &str) -> Resources {
    let file = parse(operand).file;
    Resources::files((!file.is_empty()).then(|| file.into()).into_iter().collect())
}

/// Checks shapes and the name of an output, which a file has without an engine.
fn check(operand: &str, run: &RunOptions) -> Result<(), Failure> {
    let Operand { file, output } = parse(operand);
    let file = if file.is_empty() { run.model.as_deref() } else { Some(Path::new(file)) };
    let Some(file) = file else { return Ok(()) };
    shapes::check_output(file, output)?;
    shapes::check_file(file, run)
}

fn open(engine: &str, request: &Request<'_>) -> Result<OpenedSystem, Failure> {
    let Request { operand, run, .. } = *request;
    let loaded = load(engine, parse(operand), &Spans::new(), None, run)?;
    Ok(OpenedSystem {
        labels: loaded.library.labels().map(<[i64]>::to_vec),
        tensors: Some(loaded.library.clone()),
        offline_workers: loaded.offline_workers,
        is_synthetic: run.data.is_empty(),
        ..OpenedSystem::new(Drive::Engine(loaded.engine), loaded.library)
    })
}

/// A loaded model with its samples.
pub struct LoadedModel {
    pub engine: Arc<dyn Engine>,
    pub library: Arc<TensorLibrary>,
    /// Default number of computing threads in Offline.
    pub offline_workers: usize,
}

/// Loads the model of `onnx:FILE` or `tract:FILE`; the file may also come from `--model`. `spans`
/// are the ranges of random integers, `fitting` bounds the batch size.
///
/// # Errors
/// A missing file, output or engine, or samples that do not fit the model.
pub fn load(
    engine: &str,
    operand: Operand<'_>,
    spans: &Spans<'_>,
    fitting: Option<NonZero<usize>>,
    run: &RunOptions,
) -> Result<LoadedModel, Failure> {
    let path = match (operand.file, &run.model) {
        ("", Some(path)) => path.clone(),
        ("", None) => {
            return Err(Failure::usage(format!("system `{engine}` needs a model"))
                .hint(format!("use --system {engine}:FILE.onnx, or --model FILE.onnx")));
        }
        (file, _) => PathBuf::from(file),
    };
    if !path.is_file() {
        let failure = Failure::no_file("model", &path);
        let is_keyed = operand.file.contains(',');
        return Err(if is_keyed { failure.hint(ONLY_KEY) } else { failure });
    }
    let output = shapes::output(&path, operand.output)?;
    match engine {
        "onnx" => load_ort(&path, output, spans, fitting, run),
        _ => load_tract(&path, output, spans, run),
    }
}

/// ONNX Runtime spreads one call over all cores by itself, so that one worker
/// is enough, which keeps Offline batched and open to Ctrl-C. With several
/// workers, each has a session of its own and a share of the cores.
fn load_ort(
    path: &Path,
    output: usize,
    spans: &Spans<'_>,
    fitting: Option<NonZero<usize>>,
    run: &RunOptions,
) -> Result<LoadedModel, Failure> {
    let _bound = policy::bound(run.cores.as_ref())?;
    let search = Search::from_environment(run.ort_lib.clone());
    let model = OrtModel::open(path, &search, ort_options(run));
    let model = model.map_err(|error| missing(error, &[], run))?;
    shapes::check_ranks(path, model.inputs())?;
    let library = Arc::new(library(model.inputs(), || shapes::symbols(path), spans, run)?);
    let inputs = model.inputs().to_vec();
    let mut options = options(path, output, run);
    options.largest_batch =
        fitting.map_or(options.largest_batch, |most| most.get().min(options.largest_batch));
    let engine = model.engine(&library, options);
    let engine = engine.map_err(|error| missing(error, &inputs, run))?;
    Ok(LoadedModel { engine: Arc::new(engine), library, offline_workers: 1 })
}

/// Loads the model of a task, with samples that are already prepared.
///
/// # Errors
/// A missing engine, or samples that do not fit the model.
pub fn load_prepared(
    model: TaskModel,
    library: TensorLibrary,
    run: &RunOptions,
) -> Result<LoadedModel, Failure> {
    let (options, search) = (ort_options(run), Search::from_environment(run.ort_lib.clone()));
    let _bound = policy::bound(run.cores.as_ref())?;
    let inputs = RefCell::default();
    let open = |path: &Path| {
        let model = OrtModel::open(path, &search, options)?;
        inputs.replace(model.inputs().to_vec());
        Ok(model)
    };
    let library = Arc::new(library);
    let engine = model.engine(&library, largest_batch(run), &open);
    let engine = engine.map_err(|error| missing(error, &inputs.take(), run))?;
    Ok(LoadedModel { engine, library, offline_workers: 1 })
}

/// Returns the options of ONNX Runtime: each of several sessions gets a share of the cores.
pub fn ort_options(run: &RunOptions) -> OrtOptions {
    let sessions = run.workers.and_then(NonZero::new).unwrap_or(NonZero::<usize>::MIN);
    // ONNX Runtime binds the threads that it starts itself to cores of its choice.
    let cores = run.cores.as_ref().map(|cores| cores.len().get());
    let threads = match (run.threads, cores, sessions.get()) {
        (Some(threads), ..) => threads.get(),
        (None, None, 1) => 0,
        (None, cores, several) => (cores.unwrap_or_else(environment::cores) / several).max(1),
    };
    OrtOptions { threads, sessions }
}

#[cfg(feature = "tract")]
fn load_tract(
    path: &Path,
    output: usize,
    spans: &Spans<'_>,
    run: &RunOptions,
) -> Result<LoadedModel, Failure> {
    use dyno_sut::onnx::tract::TractModel;

    let model = TractModel::open(path).map_err(|error| missing(error, &[], run))?;
    shapes::check_ranks(path, model.inputs())?;
    let library = Arc::new(library(model.inputs(), || shapes::symbols(path), spans, run)?);
    let inputs = model.inputs().to_vec();
    let engine = model.engine(&library, options(path, output, run));
    let engine = engine.map_err(|error| missing(error, &inputs, run))?;
    Ok(LoadedModel { engine: Arc::new(engine), library, offline_workers: environment::cores() })
}

#[cfg(not(feature = "tract"))]
fn load_tract(
    _path: &Path,
    _output: usize,
    _spans: &Spans<'_>,
    _run: &RunOptions,
) -> Result<LoadedModel, Failure> {
    Err(Failure::set_up("this build does not include tract")
        .hint("build with --features tract, or use --system onnx:FILE"))
}

/// Returns the failure, with advice, of a model that cannot be loaded or does not fit its samples.
pub fn missing(error: OnnxError, inputs: &[ModelInput], run: &RunOptions) -> Failure {
    let takes = || format!("the model expects {}", describe(inputs));
    let hints = match &error {
        OnnxError::InputMissing { name, .. } => {
            vec![takes(), format!("pass its samples with --data {name}=FILE.npy")]
        }
        OnnxError::ElementType { expected, .. } => vec![
            takes(),
            format!("convert the samples: numpy.save(NEW, numpy.load(FILE).astype('{expected}'))"),
        ],
        OnnxError::Shape { expected, .. } => {
            // A first dimension that is open or 1 is the batch; another one belongs to each sample.
            let has_batch = matches!(expected.first(), Some(None | Some(1)));
            let rest = if has_batch && expected.len() > 1 { &expected[1..] } else { expected };
            let rest: Vec<String> = rest.iter().map(dimension).collect();
            vec![
                takes(),
                format!(
                    "the first axis of a file is the samples; use an array of shape [samples, {}]",
                    rest.join(", ")
                ),
            ]
        }
        OnnxError::Model { .. } => vec![
            "this message comes from the engine; check that the file is an ONNX model. A newer \
             opset needs a newer engine: pip install --upgrade onnxruntime"
                .into(),
        ],
        OnnxError::Trial { .. } if run.data.is_empty() => {
            vec![takes(), "the samples were random; pass real ones with --data FILE.npy".into()]
        }
        OnnxError::Trial { .. } => vec![takes()],
        OnnxError::Mixed { .. } => {
            vec!["use --batch 1; or export the model with the batch first".into()]
        }
        OnnxError::OutputType { .. } => vec![WITH_TENSORS.into()],
        OnnxError::InputType { .. } => {
            vec![
                "put a Cast in front of it in the model, or export the model with such inputs"
                    .into(),
            ]
        }
        _ => Vec::new(),
    };
    hints.into_iter().fold(Failure::set_up(error), Failure::hint)
}

/// Reads an ONNX model.
///
/// # Errors
/// The file is missing, or is not an ONNX model.
pub fn read_model(path: &Path) -> Result<Model, Failure> {
    Model::read(path).map_err(|error| match error {
        ReadError::File { path, reason } => Failure::unreadable(&path, &reason),
        other => Failure::usage(format!("{}: {other}", path.display())),
    })
}

/// Returns why samples must not share a call of a model; `None` if nothing is against it. `output` is
/// the only output that matters; by default, all do.
pub fn obstacle(path: &Path, output: Option<usize>) -> Option<String> {
    match Model::read(path) {
        Ok(model) => dyno_onnx::batch_obstacle(model, output),
        Err(error) => Some(format!("the file cannot be checked: {error}")),
    }
}

/// Separates the requests of a served model unless each output has one row per request, which depends
/// on this request only. Returns a sentence with the reason. `file` is the model as an ONNX file;
/// `inputs` are its inputs with the dimensions of a trial.
pub fn separate(
    model: &mut RowModel,
    file: Option<&Path>,
    inputs: &[ModelInput],
) -> Option<String> {
    if !model.is_shared() {
        return None;
    }
    if let Some(why) = file.and_then(|file| obstacle(file, None)) {
        model.separate();
        return Some(format!("Requests do not share calls: {why}."));
    }
    let why = model.try_rows(inputs)?;
    Some(format!("Requests do not share calls, because they influence each other: {why}."))
}

/// Describes inputs, such as `ink float32 [?, 64]`.
fn describe(inputs: &[ModelInput]) -> String {
    let one = |input: &ModelInput| {
        let shape: Vec<String> = input.shape.iter().map(dimension).collect();
        format!("{} {} [{}]", input.name, input.element, shape.join(", "))
    };
    inputs.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn dimension(dimension: &Option<usize>) -> String {
    dimension.map_or("?".into(), |n| n.to_string())
}

/// Returns the options of an engine of this file that answers with the output of this index. Labels are
/// classes, and are compared with the index of its greatest element.
pub fn options(path: &Path, output: usize, run: &RunOptions) -> EngineOptions {
    let largest_batch = largest_batch(run).get();
    EngineOptions {
        answer: if run.labels.is_some() { Answer::Argmax } else { Answer::Output },
        largest_batch,
        output,
        separate: if largest_batch > 1 { obstacle(path, Some(output)) } else { None },
    }
}

/// Returns the largest batch size of all scenarios.
pub fn largest_batch(run: &RunOptions) -> NonZero<usize> {
    let batch = run.batch.clone().unwrap_or_default();
    let of = |scenario: &Scenario| batch.size(*scenario).unwrap_or(BATCH_DEFAULT);
    Scenario::ALL.iter().map(of).max().unwrap_or(BATCH_DEFAULT)
}

/// Size of a sample in the batch dimension, the only dynamic one.
const BATCH: usize = 1;

/// Maximum size of the default number of random samples, bytes. A benchmark's number of samples
/// would fill any memory.
const LARGEST_SET: usize = 1 << 28;

/// Returns the given samples, or else random ones, which measure speed but not accuracy. Dynamic
/// dimensions of random samples are those of `--shape`.
///
/// # Errors
/// Files that cannot be read, samples that do not fit the model, or dimensions without a size.
pub fn library(
    inputs: &[ModelInput],
    symbols: impl FnOnce() -> Symbols,
    spans: &Spans<'_>,
    run: &RunOptions,
) -> Result<TensorLibrary, Failure> {
    if run.data.is_empty() {
        if run.labels.is_some() {
            return Err(Failure::usage("--labels needs the samples that they belong to")
                .hint("pass them with --data FILE.npy"));
        }
        let inputs = &shapes::bound(inputs, symbols, run)?[..];
        let samples = run.samples.map_or_else(
            || {
                let most = LARGEST_SET / TensorLibrary::random_sample_bytes(inputs, BATCH);
                run.samples_or_of_round(SAMPLES_DEFAULT).min(most.max(1))
            },
            NonZero::get,
        );
        let seed = run.seed_of(RandomStream::Inputs);
        let library = TensorLibrary::synthetic(inputs, samples, BATCH, spans, seed);
        return library.map_err(Failure::set_up);
    }
    let files = named_files(inputs, run)?;
    let name = run.data[0].1.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    TensorLibrary::open(name, &files, run.labels.as_deref()).map_err(Failure::set_up)
}

/// Returns the files of `--data`, each with the input that it belongs to.
///
/// # Errors
/// An unknown input, a file without one, or two files for one.
pub fn named_files(
    inputs: &[ModelInput],
    run: &RunOptions,
) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for (name, path) in &run.data {
        let name = match (name, inputs) {
            (Some(name), _) if inputs.iter().all(|input| input.name != *name) => {
                let near = similar(name, inputs.iter().map(|input| input.name.as_str()));
                let near =
                    near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
                return Err(Failure::usage(format!("the model has no input `{name}`{near}"))
                    .hint(format!("the model expects {}", describe(inputs))));
            }
            (Some(name), _) => name.clone(),
            (None, [only]) => only.name.clone(),
            (None, _) => {
                let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
                return Err(Failure::usage(format!(
                    "the model has the inputs {}, but --data does not name one",
                    names.join(", ")
                ))
                .hint(format!("use --data {}=FILE.npy, once for each input", names[0])));
            }
        };
        files.push((name, path.clone()));
    }
    check_names(&files)?;
    Ok(files)
}

/// Checks that no two files are of the same input.
///
/// # Errors
/// The input with its two files.
pub fn check_names(files: &[(String, PathBuf)]) -> Result<(), Failure> {
    for (at, (name, path)) in files.iter().enumerate() {
        if let Some((_, other)) = files[..at].iter().find(|(known, _)| known == name) {
            let (other, path) = (other.display(), path.display());
            let problem = format!("input `{name}` has two files: {other} and {path}");
            return Err(Failure::usage(problem).hint("give one --data per input"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_is_a_file_and_perhaps_an_output() {
        let check = |operand: &str, file: &str, output: Option<&str>| {
            let expected = Operand { file, output };
            assert_eq!(parse(operand), expected, "{operand}");
        };
        check("", "", None);
        check("a,b.onnx", "a,b.onnx", None);
        check("m.onnx,output=scores/1:0", "m.onnx", Some("scores/1:0"));
        check("output=scores", "", Some("scores"));
        let files = |operand| model_file(operand).files;
        assert_eq!(files("m.onnx,output=y"), [PathBuf::from("m.onnx")]);
        assert_eq!(files("output=y"), Vec::<PathBuf>::new());
        assert!(
            has_choice_of_output("tract:m.onnx") && !has_choice_of_output("tuned:model=m.onnx")
        );
    }
}
