//! Sources of models: layers in sequence, or a whole network that DeepCPU serves.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use dyno_rnn::engine::{Engine, EngineOptions};
use dyno_rnn::model::{Model, ModelError};
use dyno_rnn::{Directions, Layer};
use dyno_sut::rnn::{Runner, ServedNetwork, Stack};

use super::spec::Spec;
use crate::failure::Failure;

/// One model of a system.
pub enum Source {
    /// Layers of a file, or of a shape.
    Layers(Model),
    /// A network with random weights.
    Served(Arc<ServedNetwork>),
}

/// Returns the name of a network in the grammar of `rnn:`.
pub fn name(model: dyno_rnn::served::ServedModel) -> String {
    model.name().replace('_', "-")
}

impl Source {
    /// Opens the model of a name of the grammar.
    ///
    /// # Errors
    /// The model does not exist, or does not have these sizes.
    pub fn open(named: &str, spec: &Spec) -> Result<Self, Failure> {
        let hint = "dyno rnn explain shows how a model is executed; dyno info systems rnn shows the \
             syntax";
        let network = dyno_rnn::served::ServedModel::ALL.into_iter().find(|of| name(*of) == named);
        let Some(network) = network else {
            if spec.documents.is_some() {
                return Err(Failure::usage(format!("system rnn: {named} has no documents"))
                    .hint("documents=N is for text-similarity and reader"));
            }
            let model = Model::open(named).map_err(|error| match error {
                ModelError::Neither(_) => Failure::set_up(format!(
                    "system rnn: {error}, nor text-similarity, reader or bidaf"
                )),
                error => Failure::set_up(format!("system rnn: {error}")),
            });
            let model = model.map_err(|failure| failure.hint(hint))?;
            if let Some(rows) = model.rows() {
                return Err(Failure::set_up(format!(
                    "system rnn: {named} has different initial states or lengths for each of \
                     {rows} rows"
                ))
                .hint("samples form batches of any size; use the engine from Python or C"));
            }
            return Ok(Self::Layers(model));
        };
        if spec.lengths.is_some() {
            return Err(Failure::usage(format!("system rnn: samples of {named} have one length"))
                .hint("documents=N sets the number of documents per query"));
        }
        let mut sizes = network.paper();
        sizes.documents = spec.documents.unwrap_or(sizes.documents);
        let served = ServedNetwork::new(network, sizes);
        Ok(Self::Served(Arc::new(served.map_err(Failure::usage)?)))
    }

    /// Returns the number of inputs per step.
    pub fn inputs(&self) -> usize {
        match self {
            Self::Layers(model) => model.inputs(),
            Self::Served(_) => 1,
        }
    }

    /// Returns the number of outputs per answer.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Layers(model) => model.outputs(),
            Self::Served(served) => served.outputs(),
        }
    }

    /// Returns rows and steps of a call, if the name contains them; a network takes one query.
    pub fn shape(&self) -> Option<[usize; 2]> {
        match self {
            Self::Layers(model) => model.shape(),
            Self::Served(served) => Some([1, served.words()]),
        }
    }

    /// Returns a sentence about options that a file does not state.
    pub fn assumption(&self) -> Option<&str> {
        match self {
            Self::Layers(model) => model.assumption(),
            Self::Served(_) => None,
        }
    }

    /// Returns the first engine.
    ///
    /// # Errors
    /// A sentence with the problem.
    pub fn runner(&self, options: &EngineOptions) -> Result<Box<dyn Runner>, String> {
        match self {
            Self::Layers(model) => {
                let engine = Engine::new(model.clone(), options);
                Ok(Box::new(Stack::new(engine.map_err(|error| error.to_string())?)))
            }
            Self::Served(served) => served.runner(options),
        }
    }

    /// Returns the answer to a sequence in double precision; for layers the hidden state of the
    /// last layer after the last step of each direction.
    ///
    /// # Errors
    /// The sequence is not a sample of the model.
    pub fn oracle(&self, sequence: &[f32]) -> Result<Vec<f64>, String> {
        let model = match self {
            Self::Layers(model) => model,
            Self::Served(served) => return served.oracle(sequence),
        };
        let steps = model.steps(sequence.len() / model.inputs());
        let (outputs, width) = (model.oracle(sequence), model.outputs());
        if steps == 0 {
            return Err("the last layer has no steps, so it has no last state".to_owned());
        }
        let (first, end) = (&outputs[..width], &outputs[(steps - 1) * width..][..width]);
        let directions = model.layers().last().map_or(Directions::Forward, Layer::directions);
        let half = width / 2;
        Ok(match directions {
            Directions::Forward => end.to_vec(),
            Directions::Backward => first.to_vec(),
            Directions::Both => [&end[..half], &first[half..]].concat(),
        })
    }

    /// Hashes the model. Random models are identified by their name and the length of their
    /// samples.
    pub fn hash(&self, hasher: &mut impl Hasher) {
        let model = match self {
            Self::Layers(model) => model,
            Self::Served(served) => return (served.model().name(), served.words()).hash(hasher),
        };
        for layer in model.layers() {
            for of in layer.weights() {
                for numbers in [&of.input, &of.state, &of.input_bias, &of.state_bias] {
                    numbers.iter().for_each(|x| x.to_bits().hash(hasher));
                }
            }
            let (cell, directions) = (layer.cell(), layer.directions());
            format!("{cell:?} {directions:?} {:?};", layer.options()).hash(hasher);
        }
        model.hash_starts(hasher);
    }
}
