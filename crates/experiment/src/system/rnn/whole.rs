//! `rnn:FILE.onnx`: a whole model in Dyno's executor of graphs, with its own inputs and outputs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_graph::{MOST_DIFFERENT, Oracle, SessionOptions, Verification};
use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_rnn::Precision;
use dyno_sut::infer::{InferenceModel, StatefulModel, Value, trials};
use dyno_sut::onnx::graph::GraphModel;
use dyno_sut::tensors::{ModelInput, Spans, TensorLibrary};
use dyno_task::judge::Judge;
use dyno_tensors::files;

use super::oracle;
use super::spec::Spec;
use crate::environment;
use crate::failure::Failure;
use crate::options::{Mode, RunOptions};
use crate::system::kind::{Drive, OpenedSystem};
use crate::system::{onnx, policy, shapes};

/// Multiplications of the oracle for all samples of a run: minutes.
const JUDGED_WORK: u64 = 20_000_000_000;

/// Returns the file of a specification that names a whole model.
pub fn file(spec: &Spec) -> Option<&Path> {
    let [(model, _)] = &spec.models[..] else { return None };
    let path = Path::new(model);
    let is_onnx = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"));
    (!spec.as_layers && is_onnx && path.is_file()).then_some(path)
}

/// Checks, before anything is loaded, that random samples have a shape, and that the model has the
/// output of which answers are made.
///
/// # Errors
/// Dimensions without a size, with the flags that set them, or another name of an output.
pub fn check(path: &Path, spec: &Spec, run: &RunOptions) -> Result<(), Failure> {
    shapes::check_output(path, spec.output.as_deref())?;
    shapes::check_file(path, run)
}

/// Opens a model and its samples.
///
/// # Errors
/// A model that cannot run as a whole, options that it does not have, or samples that do not fit.
pub fn open(path: &Path, spec: &Spec, run: &RunOptions) -> Result<OpenedSystem, Failure> {
    let output = shapes::output(path, spec.output.as_deref())?;
    let model = model(path, spec, run)?;
    let _bound = policy::bound(cores(spec, run))?;
    let symbols = || shapes::symbols(path);
    let inputs = model.inputs().to_vec();
    let library = Arc::new(onnx::library(&inputs, symbols, &Spans::new(), run)?);
    let mut remarks = Vec::new();
    if let Some(sample) = call(&library, &inputs, 0) {
        remarks.push(verified(&model, spec, &sample)?.1);
    }
    let source = JudgedModel { path, output, inputs: &inputs };
    let judge = judge(source, spec, &library, run, &mut remarks)?;
    let engine = model.engine(&library, onnx::options(path, output, run));
    let engine = engine.map_err(|error| onnx::missing(error, &inputs, run))?;
    Ok(OpenedSystem {
        labels: library.labels().map(<[i64]>::to_vec),
        tensors: Some(library.clone()),
        offline_workers: 1,
        judge,
        remarks,
        is_synthetic: run.data.is_empty(),
        ..OpenedSystem::new(Drive::Engine(Arc::new(engine)), library)
    })
}

/// Opens a model for requests that carry their data. The sentence states how it was verified.
///
/// # Errors
/// As [`open`].
pub fn by_value(
    path: &Path,
    spec: &Spec,
    batch: usize,
    run: &RunOptions,
) -> Result<(Arc<dyn InferenceModel>, Option<String>), Failure> {
    if let Some(name) = &spec.output {
        return Err(onnx::no_choice_of_output("rnn", name));
    }
    let model = model(path, spec, run)?;
    let _bound = policy::bound(cores(spec, run))?;
    let inputs = if run.shapes.is_empty() {
        model.inputs().to_vec()
    } else {
        shapes::bound(model.inputs(), || shapes::symbols(path), run)?
    };
    let verification = verified_on_trials(&model, spec, &inputs)?;
    let mut model = model.by_value(batch);
    let mixed = shapes::allow_other_rows(&mut model, &shapes::symbols(path))
        .or_else(|| onnx::separate(&mut model, Some(path), &inputs));
    let remarks: Vec<String> = [verification].into_iter().chain(mixed).collect();
    let remark = Some(remarks.join("\n"));
    if spec.states.is_empty() {
        return Ok((Arc::new(model), remark));
    }
    let model = StatefulModel::new(model, &spec.states).map_err(|why| {
        Failure::usage(format!("system rnn: states=: {why}"))
            .hint("states=INPUT:OUTPUT+... names inputs and the outputs that they start from")
    })?;
    Ok((Arc::new(model), remark))
}

/// Compares a model with the oracle on random inputs. A model may not accept every size of its dynamic
/// dimensions, so several sizes are tried. Returns a sentence on the comparison.
fn verified_on_trials(
    model: &GraphModel,
    spec: &Spec,
    inputs: &[ModelInput],
) -> Result<String, Failure> {
    let why = "random samples of its inputs are empty or too large";
    let mut remark = format!("The model was not verified, because {why}.");
    for library in trials(inputs, 1) {
        let Some(sample) = call(&library, inputs, 0) else { continue };
        let (is_compared, sentence) = verified(model, spec, &sample)?;
        remark = sentence;
        if is_compared {
            break;
        }
    }
    Ok(remark)
}

fn model(path: &Path, spec: &Spec, run: &RunOptions) -> Result<GraphModel, Failure> {
    for (key, is_given) in [
        ("lengths", spec.lengths.is_some()),
        ("documents", spec.documents.is_some()),
        ("near", spec.near.is_some()),
        ("tune", spec.tune.is_some()),
        ("outputs", !spec.outputs.is_empty()),
    ] {
        if is_given {
            let problem = format!("system rnn: {key}= is not an option of a whole model");
            return Err(Failure::usage(problem).hint(
                "add as=layers to run a chain of layers on sequences, whose last states are the answers",
            ));
        }
    }
    let _bound = policy::bound(cores(spec, run))?;
    let sessions = run.workers.and_then(NonZero::new).unwrap_or(NonZero::<usize>::MIN);
    let usable = cores(spec, run).map_or_else(environment::cores, |cores| cores.len().get());
    let threads = run.threads.map_or((usable / sessions).max(1), NonZero::get);
    let options =
        SessionOptions { threads, precision: spec.precision, ..SessionOptions::default() };
    GraphModel::open(path, &options, sessions).map_err(|error| {
        Failure::set_up(format!("system rnn: {error}"))
            .hint("a layer runs alone as FILE#LAYER; onnx:FILE runs the model in ONNX Runtime")
    })
}

fn cores<'a>(spec: &'a Spec, run: &'a RunOptions) -> Option<&'a dyno_sut::cores::Cores> {
    spec.models[0].1.as_ref().or(run.cores.as_ref())
}

/// Returns the inputs of a call with one sample.
fn call(library: &TensorLibrary, inputs: &[ModelInput], index: u32) -> Option<Vec<Value>> {
    let sample = library.sample(index).ok()?;
    let value = |input: &ModelInput| {
        let (_, tensor) = match (inputs, &sample[..]) {
            ([_], [only]) => only,
            _ => sample.iter().find(|(name, _)| *name == input.name)?,
        };
        let mut shape = tensor.shape.clone();
        if shape.len() < input.shape.len() {
            shape.insert(0, 1);
        }
        Some(Value { shape, elements: tensor.elements.clone() })
    };
    inputs.iter().map(value).collect()
}

/// Compares a model with the oracle on these inputs. Returns whether the oracle computes it, and a
/// sentence on the comparison.
fn verified(model: &GraphModel, spec: &Spec, inputs: &[Value]) -> Result<(bool, String), Failure> {
    if !spec.verify {
        return Ok((false, "The model was not verified (verify=off).".to_owned()));
    }
    let wrong = |reason: String| {
        Failure::set_up(format!(
            "system rnn: this engine computes the network incorrectly: \
             {reason}"
        ))
        .hint(
            "report the model as a bug; onnx:FILE runs it in ONNX Runtime, verify=off runs it \
             anyway",
        )
    };
    match model.verify(inputs) {
        Verification::Compared { difference, output, beyond } => {
            if spec.precision == Precision::F32 && difference > MOST_DIFFERENT {
                return Err(wrong(format!(
                    "output '{output}' differs from an independent evaluation by {difference:.1e} \
                     of its largest magnitude"
                )));
            }
            let mut sentence = format!(
                "Outputs were compared with an independent ONNX evaluator in double precision, on \
                 one sample: the largest difference is {difference:.1e} of an output's largest \
                 magnitude."
            );
            if beyond > 0 {
                sentence += &format!(
                    " {beyond} numbers were not compared, because values of the evaluator are \
                     outside the range of float32."
                );
            }
            Ok((true, sentence))
        }
        Verification::Contradiction(reason) => Err(wrong(reason)),
        // Random inputs may be no valid axes, indices or lengths.
        Verification::Failed(reason) | Verification::Refused(reason) => Ok((
            false,
            format!(
                "The model was not verified, because it fails on the inputs of the comparison: \
                 {reason}. --shape sets other sizes."
            ),
        )),
        Verification::Unjudged(reason) => {
            // Some of the evaluator's errors begin with the same words.
            let reason = reason.trim_start_matches("not verified: ").trim_end_matches('.');
            Ok((
                false,
                format!("The model was not verified by an independent evaluator: {reason}."),
            ))
        }
    }
}

/// A model file, as the oracle evaluates it to judge answers.
#[derive(Clone, Copy)]
struct JudgedModel<'a> {
    path: &'a Path,
    /// Index of the output of which answers are made.
    output: usize,
    inputs: &'a [ModelInput],
}

/// Returns the judge of answers without labels: the user's references, or the oracle's outputs.
fn judge(
    model: JudgedModel<'_>,
    spec: &Spec,
    library: &Arc<TensorLibrary>,
    run: &RunOptions,
    remarks: &mut Vec<String>,
) -> Result<Option<Judge>, Failure> {
    if library.labels().is_some() {
        return match super::reference(run)? {
            None => Ok(None),
            Some(path) => Err(Failure::usage(format!(
                "--with reference={} has no effect: --labels decides the accuracy",
                path.display()
            ))
            .hint("remove --with reference= or --labels")),
        };
    }
    match super::reference(run)? {
        Some(reference) => {
            check_reference(&reference, model, library)?;
            oracle::judge(reference, spec.precision).map(Some)
        }
        None if spec.verify && matches!(run.mode, None | Some(Mode::Accuracy | Mode::Both)) => {
            match rows(model, library) {
                Ok(vectors) => {
                    let by = "those of an independent ONNX evaluator in double precision";
                    Ok(oracle::computed_judge(vectors, spec.precision, by, remarks))
                }
                Err(reason) => {
                    let reason = reason.problems().join("; ");
                    remarks.push(format!("Answers are not compared: {reason}."));
                    Ok(None)
                }
            }
        }
        None => Ok(None),
    }
}

/// Checks that a reference has a row per sample, as long as an answer. An unreadable file is reported
/// when it is opened to score.
fn check_reference(
    reference: &Path,
    model: JudgedModel<'_>,
    library: &TensorLibrary,
) -> Result<(), Failure> {
    let bytes = files::read(reference).unwrap_or_default();
    let array = dyno_tensors::npy::Npy::parse(&bytes);
    let Ok(array) = array else { return Ok(()) };
    let refused = |problem: String| {
        Failure::usage(format!("{}: {problem}", reference.display()))
            .hint("remove --with reference=, or compare classes with --labels")
    };
    let rows = array.shape.first().copied();
    let width = array.shape.get(1..).map(|row| row.iter().product::<usize>());
    if width.is_none_or(|width| width < 2) {
        return Err(refused("answers of a single number have no cosine".into()));
    }
    let samples = library.total_sample_count();
    if rows != Some(samples) {
        let rows = rows.unwrap_or(0);
        return Err(refused(format!("has {rows} rows, but there are {samples} samples")));
    }
    let (oracle, call) = (Oracle::read(model.path, JUDGED_WORK), call(library, model.inputs, 0));
    if let (Ok(oracle), Some(call)) = (oracle, call)
        && let Ok(answer) = model.answer(&oracle, &call)
        && width != Some(answer.len())
    {
        return Err(refused(format!(
            "has rows of {} numbers, but an answer has {}",
            width.unwrap_or(0),
            answer.len()
        )));
    }
    Ok(())
}

/// Returns the file with the oracle's answers for all samples.
fn rows(model: JudgedModel<'_>, library: &TensorLibrary) -> Result<PathBuf, Failure> {
    let JudgedModel { path, output, inputs } = model;
    let total = library.total_sample_count();
    let refused = |why: String| Failure::set_up(why);
    let judge = Oracle::read(path, JUDGED_WORK / total.max(1) as u64).map_err(refused)?;
    let mut hasher = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), "whole, without overflow").hash(&mut hasher);
    hash_files(path, &mut hasher).map_err(refused)?;
    if output > 0 {
        ("output", output).hash(&mut hasher);
    }
    let mut calls = Vec::new();
    for index in 0..total {
        let values = call(library, inputs, index as u32)
            .ok_or_else(|| refused("samples are prepared during the run".to_owned()))?;
        for Value { shape, elements } in &values {
            shape.hash(&mut hasher);
            let mut bytes = Vec::new();
            elements.write(&mut bytes);
            bytes.hash(&mut hasher);
        }
        calls.push(values);
    }
    oracle::stored(hasher.finish(), || {
        let answer = |index: usize| model.answer(&judge, &calls[index]);
        let rows = oracle::each(total, &answer).map_err(refused)?;
        check_lengths(&rows).map_err(refused)?;
        Ok(rows)
    })
}

/// Checks that a cosine compares these answers. Those that are all 0, infinite or NaN are excluded when
/// they are scored.
fn check_lengths(rows: &[Vec<f64>]) -> Result<(), String> {
    for (sample, row) in rows.iter().enumerate() {
        let why = if row.len() != rows[0].len() {
            "has a different length than sample 0"
        } else if row.len() < 2 {
            "is a single number, for which a cosine depends only on the sign"
        } else {
            continue;
        };
        return Err(format!("the output of sample {sample} {why}"));
    }
    Ok(())
}

impl JudgedModel<'_> {
    /// Returns the oracle's answer. If a number of the run exceeds its type, the numbers are NaN: an
    /// engine in float32 may have others.
    fn answer(self, judge: &Oracle, inputs: &[Value]) -> Result<Vec<f64>, String> {
        let value = |Value { shape, elements }: &Value| {
            dyno_graph::Value::from_elements(shape, elements.slice(0..elements.len()))
        };
        let inputs = inputs.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<&str> = self.inputs.iter().map(|input| &input.name[..]).collect();
        let outputs = judge.run(&names, &inputs)?;
        let own = outputs.into_iter().nth(self.output).ok_or("the model has no outputs")?;
        if !own.is_float32 {
            return Err(format!("output '{}' is not float32", own.name));
        }
        Ok(if own.has_overflow { vec![f64::NAN; own.numbers.len()] } else { own.numbers })
    }
}

/// Hashes a model and the sizes and times of its files of weights.
fn hash_files(path: &Path, hasher: &mut DefaultHasher) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    files::read(path).map_err(told)?.hash(hasher);
    let model = dyno_onnx::Model::read(path).map_err(|error| error.to_string())?;
    for file in model.external_files() {
        let about = std::fs::metadata(file).map_err(told)?;
        (file, about.len(), about.modified().ok()).hash(hasher);
    }
    Ok(())
}
