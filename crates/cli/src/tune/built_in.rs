//! The built-in engine as the evaluator: a model and its samples, from files.

use std::path::Path;

use dyno_loadgen::clock::Clock;
use dyno_number::Network;
use dyno_number::evaluate::{Evaluator, Samples};
use dyno_number::network::BuiltIn;
use dyno_number::tune::samples::drawn;
use dyno_number::tune::{Evaluation, Stop, Trial};
use dyno_onnx::Model;
use dyno_sut::tensors::Npy;
use serde_json::{Value, json};

use super::closed::sha256;
use crate::interrupt::Interrupt;

/// A model in this process that is asked for accuracies.
#[derive(Debug)]
pub struct Engine {
    evaluator: Evaluator,
}

impl Engine {
    /// Reads the files of a descriptor, which lie where it lies.
    ///
    /// # Errors
    /// A file that cannot be read, a model that the engine cannot do, or a layer that the model has not.
    pub fn open(network: &Network, built_in: &BuiltIn, folder: &Path) -> Result<Self, String> {
        let path = folder.join(&built_in.model);
        let of = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let model = Model::read(&path).map_err(|error| of(&error))?;
        let samples = samples(&folder.join(&built_in.samples), &folder.join(&built_in.labels))?;
        let count = samples.labels.len();
        let small = match count {
            0 => Vec::new(),
            _ => drawn(count, built_in.small_share, built_in.seed),
        };
        let sets = [small, (0..count).collect(), Vec::new()];
        let evaluator = Evaluator::new(&model, samples, sets).map_err(|error| of(&error))?;
        let objects = evaluator.objects();
        let known: Vec<&str> = objects.iter().map(String::as_str).collect();
        match &network.unknown_objects(&known)[..] {
            [] => Ok(Self { evaluator }),
            unknown => Err(of(&unknown.join("; "))),
        }
    }

    /// The weights of a layer, as the model has them.
    pub fn weights(&self, layer: &str) -> Option<&[f32]> {
        self.evaluator.weights(layer)
    }

    /// Evaluates trials, one after the other: each has all threads.
    pub fn evaluate(
        &mut self,
        trials: &[Trial],
        interrupt: &Interrupt,
    ) -> Vec<Result<Evaluation, Stop>> {
        let one = |trial: &Trial| {
            if interrupt.is_asked() {
                return Err(Stop::Interrupted);
            }
            let clock = Clock::start();
            let found = self.evaluator.evaluate(trial)?;
            Ok(Evaluation { seconds: clock.now() as f64 / 1e9, ..found })
        };
        trials.iter().map(one).collect()
    }
}

/// Names and SHA-256 of the files of a descriptor: what a job depends on beside its settings.
///
/// # Errors
/// A file that cannot be read.
pub fn hashes(built_in: &BuiltIn, folder: &Path) -> Result<Value, String> {
    let of = |name: &String| {
        let path = folder.join(name);
        let bytes = std::fs::read(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(json!({"name": name, "sha256": sha256(&bytes)}))
    };
    [&built_in.model, &built_in.samples, &built_in.labels].into_iter().map(of).collect()
}

/// Arrays of NumPy: samples as a model is fed, and their labels.
///
/// # Errors
/// A file that cannot be read, or labels that are no whole numbers.
pub fn samples(values: &Path, labels: &Path) -> Result<Samples, String> {
    let values = array(values)?.elements.to_f32().into_owned();
    let wrong = || format!("{}: expected whole numbers of at least 0", labels.display());
    let found = array(labels)?;
    let found = found.elements.to_i64().ok_or_else(wrong)?;
    let label = |label: &i64| usize::try_from(*label).map_err(|_| wrong());
    Ok(Samples { values, labels: found.iter().map(label).collect::<Result<_, _>>()? })
}

fn array(path: &Path) -> Result<Npy, String> {
    let bytes =
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Npy::parse(&bytes).map_err(|problem| format!("{}: {problem}", path.display()))
}
