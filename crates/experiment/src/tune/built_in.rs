//! The built-in engine as the evaluator: a model and its samples, from files.

use std::collections::HashMap;
use std::path::Path;

use dyno_loadgen::clock::Clock;
use dyno_loadgen::settings::similar;
use dyno_number::evaluate::graph::{CorrectnessRule, GraphEvaluator, GraphSamples};
use dyno_number::evaluate::{ChainEvaluator, LayerNames, NO_CLASS, Samples};
use dyno_number::network::{BuiltInModel, Layer};
use dyno_number::tune::{Chance, Evaluation, Journal, Stop, Trial};
use dyno_number::{Network, Objective};
use dyno_onnx::{Dim, Model};
use dyno_results::units;
use dyno_tensors::files;
use serde_json::{Value, json};

use super::closed::sha256;
use super::data::Data;
use super::evaluations::SharedEvaluations;
use super::speed::Speed;
use crate::failure::Failure;
use crate::system::{Resources, SystemKind, tuned};
use crate::watch::Interrupt;

/// Most samples that are predicted to check the labels.
const MOST_PREDICTED: usize = 2_000;

/// Words of a message about a set of samples, and the keys of the descriptor that name its files.
struct SetFiles {
    /// Noun of a sample.
    what: &'static str,
    labels: &'static str,
    samples: &'static str,
}

const SEARCHED: SetFiles = SetFiles { what: "sample", labels: "labels", samples: "samples" };
const HELD_OUT: SetFiles =
    SetFiles { what: "held-out sample", labels: "labels", samples: "samples" };
const VALIDATION: SetFiles = SetFiles {
    what: "held-out sample",
    labels: "validation_labels",
    samples: "validation_samples",
};

/// Advice if all labels are equal.
pub(super) const ONE_CLASS: &str = "All labels are of one class; use samples of several classes";

/// Number of samples below which an accuracy may look like chance.
const FEW_SAMPLES: usize = 100;
const FEW: &str = "; or use more samples, because so few do not tell an accuracy from chance";

/// Returns the accuracy of FLOAT 32 that is no better than chance. `what` is the noun of a sample.
pub(super) fn no_better(found: &Chance, what: &str) -> String {
    let samples = found.samples as u64;
    format!(
        "FLOAT 32 has accuracy {:.4} on {} {what}{}, and chance has {:.4}: nothing was searched",
        found.accuracy,
        units::count(samples),
        units::plural_ending(samples),
        found.expected
    )
}

/// Returns what is wrong with a model that answers a sample with NaN.
fn answer_with_nan(sample: usize, samples: &str) -> String {
    format!(
        "the answer of FLOAT 32 to sample {sample} of `{samples}` has NaN: nothing was searched. Check \
         the weights of the model and the range of its inputs"
    )
}

/// A model in this process that evaluates trials.
#[derive(Debug)]
pub struct Engine {
    shape: Shape,
    /// Latency measurement, if the objective is a latency.
    speed: Option<Speed>,
    /// Evaluations that jobs share, if a file is given.
    shared: Option<SharedEvaluations>,
    /// Both names of layers, if objects are not named as the engine names them.
    names: LayerNames,
}

#[derive(Debug)]
enum Shape {
    /// Layers in sequence, which are fused if that is faster.
    Chain(Box<ChainEvaluator>),
    /// Any other graph.
    Graph(Box<GraphEvaluator>),
}

impl Engine {
    /// Reads the model of a descriptor, relative to `folder`.
    ///
    /// # Errors
    /// A file that cannot be read, a model that the engine does not support, or a layer that the
    /// model does not have.
    pub fn open(
        network: &Network,
        built_in: &BuiltInModel,
        folder: &Path,
        data: Data,
    ) -> Result<Self, String> {
        let path = folder.join(&built_in.model);
        let sample = data.first();
        let labels = match &data.fed.correctness {
            CorrectnessRule::Labels(labels) => labels.clone(),
            CorrectnessRule::Agreement(_) => Vec::new(),
        };
        let [_, full, confirmation] = data.sets.clone();
        let mut engine = Self::new(&path, data.fed, data.sets)?;
        let of = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let objects: Vec<String> = network.objects().into_iter().flatten().collect();
        engine.accept(&path, &objects).map_err(|problem| of(&problem))?;
        let problems = engine.wrong_sizes(network);
        if !problems.is_empty() {
            return Err(of(&problems.join("; ")));
        }
        let held_out = if built_in.validation.is_some() { VALIDATION } else { HELD_OUT };
        for (set, files) in [(&full, SEARCHED), (&confirmation, held_out)] {
            engine.check_chance(&labels, set, &files).map_err(|problem| of(&problem))?;
        }
        if network.objective == Objective::Latency {
            engine.speed =
                Some(Speed::new(Model::read(&path).map_err(|error| of(&error))?, sample));
        }
        Ok(engine)
    }

    /// Checks the layers, the sizes and the labels of a descriptor whose `system` is this engine.
    /// Another system may have layers of its own.
    ///
    /// # Errors
    /// Those of [`Engine::open`].
    pub fn check_system(
        network: &Network,
        built_in: &BuiltInModel,
        folder: &Path,
        data: &Data,
    ) -> Result<(), String> {
        let operand = built_in.system.as_deref().and_then(|system| system.strip_prefix("tuned:"));
        let spec = operand.and_then(|operand| tuned::parse(operand).ok());
        let is_engine = spec.is_some_and(|spec| {
            spec.model.as_deref() == Some(Path::new("{model}")) && spec.lengths.is_none()
        });
        if is_engine {
            Self::open(network, built_in, folder, data.clone())?;
        }
        Ok(())
    }

    /// Returns the engine for chains if it supports the model, else the engine for graphs.
    ///
    /// # Errors
    /// A model that cannot be read, or that neither engine supports.
    pub fn new(path: &Path, fed: GraphSamples, sets: [Vec<usize>; 3]) -> Result<Self, String> {
        let of = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let model = Model::read(path).map_err(|error| of(&error))?;
        check_scores(&model, &fed.correctness).map_err(|problem| of(&problem))?;
        if let ([input], None, CorrectnessRule::Labels(labels)) =
            (&fed.inputs[..], &fed.lengths, &fed.correctness)
            && is_alike(&model, &input.dims)
        {
            let samples = Samples { values: input.values.clone(), labels: labels.clone() };
            if let Ok(chain) = ChainEvaluator::new(&model, samples, sets.clone()) {
                return Ok(Self::of_shape(Shape::Chain(Box::new(chain))));
            }
        }
        let graph = GraphEvaluator::new(&model, fed, sets).map_err(|error| of(&error))?;
        Ok(Self::of_shape(Shape::Graph(Box::new(graph))))
    }

    fn of_shape(shape: Shape) -> Self {
        Self { shape, speed: None, shared: None, names: LayerNames::default() }
    }

    /// Prepares for objects with either name of their layers.
    ///
    /// # Errors
    /// The model at `path` lacks an object, or two of the names mean the same object.
    pub(super) fn accept(&mut self, path: &Path, objects: &[String]) -> Result<(), String> {
        let known = self.objects();
        if objects.iter().all(|object| known.contains(object)) {
            return Ok(());
        }
        let model = Model::read(path).map_err(|error| error.to_string())?;
        self.names = LayerNames::new(&model);
        let mut problems = Vec::new();
        let mut taken: HashMap<String, &str> = HashMap::new();
        for object in objects {
            let found = self.names.objects(object, &known);
            if found.is_empty() {
                problems.push(self.absence_of(object));
            }
            for name in found {
                if let Some(other) = taken.insert(name, object) {
                    problems.push(format!("`{object}` and `{other}` are the same numbers"));
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    /// Returns whether the model has an object, by either name of its layer.
    pub fn has_object(&self, object: &str) -> bool {
        !self.names.objects(object, &self.objects()).is_empty()
    }

    /// Returns why an object cannot have a format, as a sentence without a period.
    pub fn absence_of(&self, object: &str) -> String {
        let layer = object.rsplit_once('.').map_or(object, |(layer, _)| layer);
        if self.unused_layers().iter().any(|unused| unused == layer) {
            return format!(
                "the first output of the model does not depend on `{object}`, so that no accuracy shows \
                 the effect of its format; remove it"
            );
        }
        let known = self.objects();
        let near = similar(object, known.iter().map(String::as_str));
        let near = near.map(|near| format!("; the nearest is `{near}`"));
        format!("there is no object `{object}`{}", near.unwrap_or_default())
    }

    /// Returns what is wrong with numbers of weights in the descriptor. A size of 0 leaves an object
    /// out of the search.
    fn wrong_sizes(&self, network: &Network) -> Vec<String> {
        let wrong = |layer: &Layer| {
            let sizes = layer.parts.iter().map(|name| self.weights(name).map(<[f32]>::len));
            let found = sizes.sum::<Option<usize>>()? as u64;
            let stated = layer.weight_size;
            (stated > 0 && stated != found).then(|| {
                format!(
                    "`wgt_size` of `{}` is {stated}, but the model has {found} weights there; `dyno tune \
                     profile` prints the sizes of a model",
                    layer.name
                )
            })
        };
        network.layers.iter().filter_map(wrong).collect()
    }

    /// Rejects labels of a set that FLOAT(32) predicts no better than chance.
    fn check_chance(
        &mut self,
        labels: &[usize],
        set: &[usize],
        files: &SetFiles,
    ) -> Result<(), String> {
        if labels.is_empty() || set.is_empty() {
            return Ok(());
        }
        let part = &set[..set.len().min(MOST_PREDICTED)];
        let predictions = self.predictions(part)?;
        let labels: Vec<usize> = part.iter().map(|at| labels[*at]).collect();
        let Some(found) = Chance::new(&predictions, &labels) else { return Ok(()) };
        if found.is_exceeded() {
            return Ok(());
        }
        let is_one_class = labels.windows(2).all(|pair| pair[0] == pair[1]);
        let SetFiles { what, labels, samples } = files;
        if let Some(at) = predictions.iter().position(|class| *class == NO_CLASS) {
            return Err(answer_with_nan(part[at], samples));
        }
        let few = if found.samples < FEW_SAMPLES { FEW } else { "" };
        if is_one_class && few.is_empty() {
            return Err(format!("{}. {ONE_CLASS}", no_better(&found, what)));
        }
        let order = format!("Compare the order of `{labels}` with that of `{samples}`");
        Err(format!("{}. {order}, and both with the model{few}", no_better(&found, what)))
    }

    /// Returns the classes of some samples in FLOAT(32).
    pub(super) fn predictions(&mut self, samples: &[usize]) -> Result<Vec<usize>, String> {
        match &mut self.shape {
            Shape::Chain(chain) => chain.predictions(samples).map_err(|error| error.to_string()),
            Shape::Graph(graph) => Ok(graph.predictions(samples)),
        }
    }

    /// Returns the share of the samples whose answers in FLOAT(32) agree with one and the same answer.
    /// `None` with labels.
    pub(super) fn constant_share(&self) -> Option<f64> {
        match &self.shape {
            Shape::Chain(_) => None,
            Shape::Graph(graph) => graph.constant_share(),
        }
    }

    /// Returns all objects that can have a format.
    pub fn objects(&self) -> Vec<String> {
        match &self.shape {
            Shape::Chain(chain) => chain.objects(),
            Shape::Graph(graph) => graph.objects(),
        }
    }

    /// Returns the names of the layers on which the first output does not depend.
    pub fn unused_layers(&self) -> Vec<String> {
        match &self.shape {
            Shape::Chain(_) => Vec::new(),
            Shape::Graph(graph) => graph.unused_layers(),
        }
    }

    /// Returns profiles of the layers with weights.
    ///
    /// # Errors
    /// A sample or a weight is NaN.
    pub fn profile(&mut self) -> Result<Vec<Layer>, String> {
        match &mut self.shape {
            Shape::Chain(chain) => chain.profile().map_err(|error| error.to_string()),
            Shape::Graph(graph) => Ok(graph.profile()),
        }
    }

    /// Returns the weights of a layer, by either of its names.
    pub fn weights(&self, layer: &str) -> Option<&[f32]> {
        let object = self.names.objects(&format!("{layer}.weight"), &self.objects());
        let layer = object.first()?.strip_suffix(".weight")?;
        match &self.shape {
            Shape::Chain(chain) => chain.weights(layer),
            Shape::Graph(graph) => graph.weights(layer),
        }
    }

    /// Shares evaluations with other jobs.
    #[must_use]
    pub fn with_shared(self, shared: Option<SharedEvaluations>) -> Self {
        Self { shared, ..self }
    }

    /// Imports measurements of an earlier part of the job.
    pub fn recall(&mut self, journal: &Journal) {
        if let Some(speed) = &mut self.speed {
            speed.recall(journal);
        }
    }

    /// Evaluates trials in sequence, each with all threads.
    pub fn evaluate(
        &mut self,
        trials: &[Trial],
        interrupt: &Interrupt,
    ) -> Vec<Result<Evaluation, Stop>> {
        let known = self.objects();
        let is_asked = || interrupt.is_asked();
        let one = |trial: &Trial| {
            if interrupt.is_asked() {
                return Err(Stop::Interrupted);
            }
            if let (Trial::AGAIN, Some(speed)) = (trial.number, &self.speed) {
                let latency_ns = Some(speed.again_ns(&trial.assignment, interrupt)?);
                return Ok(Evaluation { latency_ns, ..Evaluation::from_accuracy(0.0) });
            }
            let clock = Clock::start();
            let shared = self.shared.as_ref().and_then(|shared| shared.find(trial));
            if let (Some(found), None) = (shared, &self.speed) {
                return Ok(found);
            }
            let renamed = (!self.names.is_empty()).then(|| Trial {
                assignment: self.names.assignment(&trial.assignment, &known),
                ..trial.clone()
            });
            let renamed = renamed.as_ref().unwrap_or(trial);
            let found = match &mut self.shape {
                Shape::Chain(chain) => chain.evaluate(renamed, &is_asked)?,
                Shape::Graph(graph) => graph.evaluate(renamed, &is_asked)?,
            };
            let latency_ns = match &mut self.speed {
                Some(speed) => Some(speed.latency_ns(&trial.assignment, interrupt)?),
                None => None,
            };
            let found = Evaluation { seconds: clock.now() as f64 / 1e9, latency_ns, ..found };
            match &mut self.shared {
                Some(shared) if latency_ns.is_none() => {
                    shared.add(trial, &found).map_err(Stop::Failed)?;
                }
                _ => {}
            }
            Ok(found)
        };
        trials.iter().map(one).collect()
    }
}

/// Rejects labels for a first output with scores in several dimensions, as `dyno run` does: the position
/// of the largest number of all is no class.
pub(super) fn check_scores(model: &Model, correctness: &CorrectnessRule) -> Result<(), String> {
    let Some(port) = model.outputs.first() else { return Ok(()) };
    let dims = port.shape.as_deref().unwrap_or_default();
    let wide = dims.iter().skip(1).filter(|dim| dim.fixed() != Some(1)).count();
    if wide < 2 || !matches!(correctness, CorrectnessRule::Labels(_)) {
        return Ok(());
    }
    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
    Err(format!(
        "output `{}` [{}] has scores in several dimensions, which do not determine a single class; \
         expected one list of scores for each sample",
        port.name,
        dims.join(", ")
    ))
}

/// Returns whether samples of these dimensions have their numbers in the order of the model's input.
/// A list of numbers has, and axes of size 1 may be left out. Channels last are not channels first.
fn is_alike(model: &Model, dims: &[usize]) -> bool {
    let wide = |dims: &[usize]| dims.iter().copied().filter(|n| *n != 1).collect::<Vec<usize>>();
    let shape = model.inputs.first().and_then(|port| port.shape.as_deref()).unwrap_or_default();
    let expected: Option<Vec<usize>> = shape.iter().skip(1).map(Dim::fixed).collect();
    let (found, expected) = (wide(dims), expected.map(|dims| wide(&dims)));
    expected.is_none_or(|expected| found == expected || found.len() < 2 || expected.len() < 2)
}

/// Returns the files of a descriptor: the model, then its samples with their labels, and the
/// validation set.
fn files_of(built_in: &BuiltInModel) -> Vec<&str> {
    let validation = built_in.validation.iter().flatten().map(String::as_str);
    built_in.files().into_iter().chain(validation).collect()
}

/// Checks that the files of a descriptor exist, relative to `folder`.
///
/// # Errors
/// The first one that does not.
pub fn check_files(built_in: &BuiltInModel, folder: &Path) -> Result<(), Failure> {
    Failure::check_files(files_of(built_in).into_iter().map(|file| folder.join(file)))
}

/// Returns names and SHA-256 of the files of a descriptor, which a job depends on besides its
/// settings: the model with its external weights, the samples, the validation set, and the files and
/// the code of `system`.
///
/// # Errors
/// A file that cannot be read.
pub fn hashes(built_in: &BuiltInModel, folder: &Path) -> Result<Value, String> {
    let entry = |name: &str, sha256: String| json!({"name": name, "sha256": sha256});
    let mut found = Vec::new();
    found.push(entry(&built_in.model, model_hash(&folder.join(&built_in.model))?));
    for name in files_of(built_in).into_iter().skip(1) {
        found.push(entry(name, file_hash(&folder.join(name))?));
    }
    let spec = built_in.system.as_deref().unwrap_or_default();
    if let Ok((kind, operand)) = SystemKind::of_spec(spec) {
        let Resources { files, libraries, .. } = (kind.resources)(operand);
        // `{model}`, `{config}` and modules of Python are no files.
        for path in files.into_iter().chain(libraries).filter(|path| path.is_file()) {
            found.push(entry(&path.display().to_string(), model_hash(&path)?));
        }
    }
    Ok(found.into())
}

/// Returns the SHA-256 of a model, which covers files beside it with its weights.
///
/// # Errors
/// The file cannot be read.
pub fn model_hash(path: &Path) -> Result<String, String> {
    // The models of a `system` need not be ONNX files.
    dyno_equivalence::fingerprint(path).or_else(|_| file_hash(path))
}

/// Returns the SHA-256 of a file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn file_hash(path: &Path) -> Result<String, String> {
    let bytes =
        files::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(sha256(&bytes))
}

#[cfg(test)]
mod tests {
    use dyno_onnx::{Builder, Element, Weights};

    use super::*;

    #[test]
    fn channels_last_are_not_channels_first() {
        let mut net = Builder::new("net", Weights::seeded(1));
        let image = [Dim::symbol("N"), 3.into(), 8.into(), 1.into()];
        let x = net.input("x", Element::F32, &image);
        let y = net.node("Relu", &[&x], &[]).unwrap();
        net.output("y", &y).unwrap();
        let model = net.finish();
        let check = |dims: &[usize], expected: bool| {
            assert_eq!(is_alike(&model, dims), expected, "{dims:?}");
        };
        check(&[3, 8, 1], true);
        check(&[3, 8], true);
        check(&[24], true);
        check(&[8, 1, 3], false);
        check(&[8, 3], false);
    }
}
