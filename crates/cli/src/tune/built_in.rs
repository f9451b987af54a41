//! The built-in engine as the evaluator: a model and its samples, from files.

use std::path::{Path, PathBuf};

use dyno_loadgen::clock::Clock;
use dyno_number::Network;
use dyno_number::evaluate::graph::{Fed, Graph, Input, Right};
use dyno_number::evaluate::{Evaluator, Samples};
use dyno_number::network::{BuiltIn, Layer, Wanted};
use dyno_number::tune::samples::drawn;
use dyno_number::tune::{Evaluation, Stop, Trial};
use dyno_onnx::Model;
use dyno_sut::tensors::Npy;

use crate::interrupt::Interrupt;

/// A model in this process that is asked for accuracies.
#[derive(Debug)]
pub enum Engine {
    /// Layers one after the other, which are done together where that is faster.
    Chain(Box<Evaluator>),
    /// Anything else.
    Graph(Box<Graph>),
}

impl Engine {
    /// Reads the files of a descriptor, which lie where it lies.
    ///
    /// # Errors
    /// A file that cannot be read, a model that the engine cannot do, or a layer that the model has not.
    pub fn open(network: &Network, built_in: &BuiltIn, folder: &Path) -> Result<Self, String> {
        let path = folder.join(&built_in.model);
        let right = match &built_in.right {
            Wanted::Labels(file) => Right::Labels(labels(&folder.join(file))?),
            Wanted::Agreement(agreement) => Right::Agreement(*agreement),
        };
        let inputs: Vec<_> = built_in.samples.iter().map(|file| folder.join(file)).collect();
        let lengths = built_in.lengths.as_ref().map(|file| folder.join(file));
        let fed = fed(&inputs, lengths.as_deref(), right)?;
        let count = fed.count();
        let small = match count {
            0 => Vec::new(),
            _ => drawn(count, built_in.small_share, built_in.seed),
        };
        let engine = Self::new(&path, fed, [small, (0..count).collect(), Vec::new()])?;
        let objects = engine.objects();
        let known: Vec<&str> = objects.iter().map(String::as_str).collect();
        match &network.unknown_objects(&known)[..] {
            [] => Ok(engine),
            unknown => Err(format!("{}: {}", path.display(), unknown.join("; "))),
        }
    }

    /// The engine for chains if it can do the model; else that for graphs.
    ///
    /// # Errors
    /// A model that cannot be read, or that neither can do.
    pub fn new(path: &Path, fed: Fed, sets: [Vec<usize>; 3]) -> Result<Self, String> {
        let of = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let model = Model::read(path).map_err(|error| of(&error))?;
        if let ([input], None, Right::Labels(labels)) = (&fed.inputs[..], &fed.lengths, &fed.right)
        {
            let samples = Samples { values: input.values.clone(), labels: labels.clone() };
            if let Ok(chain) = Evaluator::new(&model, samples, sets.clone()) {
                return Ok(Self::Chain(Box::new(chain)));
            }
        }
        let graph = Graph::new(&model, fed, sets).map_err(|error| of(&error))?;
        Ok(Self::Graph(Box::new(graph)))
    }

    /// All objects that formats can be given to.
    pub fn objects(&self) -> Vec<String> {
        match self {
            Self::Chain(chain) => chain.objects(),
            Self::Graph(graph) => graph.objects(),
        }
    }

    /// The layers with weights, as they are measured.
    ///
    /// # Errors
    /// A sample or a weight is NaN.
    pub fn profile(&mut self) -> Result<Vec<Layer>, String> {
        match self {
            Self::Chain(chain) => chain.profile().map_err(|error| error.to_string()),
            Self::Graph(graph) => Ok(graph.profile()),
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
            let found = match self {
                Self::Chain(chain) => chain.evaluate(trial)?,
                Self::Graph(graph) => graph.evaluate(trial)?,
            };
            Ok(Evaluation { seconds: clock.now() as f64 / 1e9, ..found })
        };
        trials.iter().map(one).collect()
    }
}

/// Arrays of NumPy: samples of each input of a model, and how long they are.
///
/// # Errors
/// A file that cannot be read, or lengths that are no whole numbers.
pub fn fed(inputs: &[PathBuf], lengths: Option<&Path>, right: Right) -> Result<Fed, String> {
    let input = |path: &PathBuf| {
        let Npy { shape, elements } = array(path)?;
        let dims = shape.get(1..).unwrap_or_default().to_vec();
        Ok(Input { dims, values: elements.to_f32().into_owned() })
    };
    let inputs = inputs.iter().map(input).collect::<Result<_, String>>()?;
    Ok(Fed { inputs, lengths: lengths.map(labels).transpose()?, right })
}

/// An array of NumPy with whole numbers, one for each sample.
///
/// # Errors
/// A file that cannot be read, or numbers that are not whole.
pub fn labels(path: &Path) -> Result<Vec<usize>, String> {
    let wrong = || format!("{}: expected whole numbers of at least 0", path.display());
    let found = array(path)?;
    let found = found.elements.to_i64().ok_or_else(wrong)?;
    found.iter().map(|label| usize::try_from(*label).map_err(|_| wrong())).collect()
}

fn array(path: &Path) -> Result<Npy, String> {
    let bytes =
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Npy::parse(&bytes).map_err(|problem| format!("{}: {problem}", path.display()))
}
