//! The built-in engine as the evaluator: a model and its samples, from files.

use std::path::Path;

use dyno_loadgen::clock::Clock;
use dyno_number::evaluate::Evaluator;
use dyno_number::network::BuiltIn;
use dyno_number::tune::{Evaluation, Journal, Stop, Subset, Trial};
use dyno_number::{Network, Objective};
use dyno_onnx::Model;
use serde_json::{Value, json};

use super::closed::sha256;
use super::data::Data;
use super::speed::Speed;
use crate::interrupt::Interrupt;

/// A model in this process that is asked for accuracies.
#[derive(Debug)]
pub struct Engine {
    evaluator: Evaluator,
    /// If the objective is a latency.
    speed: Option<Speed>,
}

impl Engine {
    /// Reads the model of a descriptor, which lies where that lies.
    ///
    /// # Errors
    /// A file that cannot be read, a model that the engine cannot do, or a layer that the model has not.
    pub fn open(
        network: &Network,
        built_in: &BuiltIn,
        folder: &Path,
        data: Data,
    ) -> Result<Self, String> {
        let path = folder.join(&built_in.model);
        let of = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let model = Model::read(&path).map_err(|error| of(&error))?;
        let first = data.of(Subset::Full);
        let size = first.values.len() / first.labels.len().max(1);
        let sample = first.values.into_iter().take(size).collect();
        let evaluator =
            Evaluator::new(&model, data.samples, data.sets).map_err(|error| of(&error))?;
        let objects = evaluator.objects();
        let known: Vec<&str> = objects.iter().map(String::as_str).collect();
        let is_speed = network.objective == Objective::Latency;
        match &network.unknown_objects(&known)[..] {
            [] => {
                let speed = is_speed.then(|| Speed::new(model, sample));
                Ok(Self { evaluator, speed })
            }
            unknown => Err(of(&unknown.join("; "))),
        }
    }

    /// The weights of a layer, as the model has them.
    pub fn weights(&self, layer: &str) -> Option<&[f32]> {
        self.evaluator.weights(layer)
    }

    /// Takes over what an earlier part of the job measured.
    pub fn recall(&mut self, journal: &Journal) {
        if let Some(speed) = &mut self.speed {
            speed.recall(journal);
        }
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
            let latency_ns = match &mut self.speed {
                Some(speed) => Some(speed.latency_ns(&trial.assignment).map_err(Stop::Failed)?),
                None => None,
            };
            Ok(Evaluation { seconds: clock.now() as f64 / 1e9, latency_ns, ..found })
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
