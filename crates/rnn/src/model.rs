//! Models: chains of recurrent layers from a file, or with random weights.
//!
//! ```
//! use dyno_rnn::model::Model;
//! let model = Model::open("bigru:8x16")?;
//! assert_eq!((model.inputs(), model.outputs(), model.layers().len()), (8, 32, 1));
//! # Ok::<(), dyno_rnn::model::ModelError>(())
//! ```

mod axes;
mod chain;
mod file;
mod folded;
mod start;
mod weights;

use std::hash::Hasher;
use std::path::{Path, PathBuf};

use dyno_kernels::Activation;
use thiserror::Error;

use crate::import::ImportError;
use crate::layer::{Cell, Directions, Layer, Weights};
use crate::oracle;
pub(crate) use start::Start;

/// A chain of layers: each takes the outputs of the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    name: String,
    /// At least one layer.
    layers: Vec<Layer>,
    /// Constant states and lengths of each layer.
    starts: Vec<Start>,
    /// Rows and steps in the model's text, if any.
    shape: Option<[usize; 2]>,
    assumption: Option<String>,
    /// Input or output of a graph whose numbers are in another order than an engine's.
    rearranged: Option<String>,
}

/// Error of opening a model.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The text names neither a file nor a layer.
    #[error(
        "`{0}` is not a file, and not a layer such as lstm:256x256 or bigru:64x128x1x100 (inputs, \
         units, and optionally rows and steps; up to {MOST} each)"
    )]
    Neither(String),
    /// A file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Message of the system.
        why: String,
    },
    /// A file has an unsupported format.
    #[error("{}: expected an .onnx or .safetensors file", .0.display())]
    Format(PathBuf),
    /// A file contains an invalid layer.
    #[error("{}: {error}", path.display())]
    Import {
        /// Path of the file.
        path: PathBuf,
        /// Error of the layer.
        error: ImportError,
    },
    /// A file has no recurrent layer, or a model has no layers.
    #[error("{} has no recurrent layer", .0.display())]
    Empty(PathBuf),
    /// The graph of a file is not a chain of layers.
    #[error(
        "{}: `{name}` {why}; to run a layer alone, use FILE#LAYER with one of {}",
        path.display(), listed(layers)
    )]
    Broken {
        /// Path of the file.
        path: PathBuf,
        /// Node, input or output that breaks the chain.
        name: String,
        /// Description of what is wrong with it.
        why: String,
        /// Names of the layers.
        layers: Vec<String>,
    },
    /// Constants of two layers have different numbers of rows.
    #[error("{}: expected constant states or lengths for the same number of rows, found {} and {}", path.display(), rows[0], rows[1])]
    Rows {
        /// Path of the file.
        path: PathBuf,
        /// The numbers of rows.
        rows: [usize; 2],
    },
    /// The weights in a file do not determine the layer.
    #[error(
        "{}: {what} is not in the file; set it with FILE?{key}=VALUE, or with `{key}` in the \
         metadata of the file, where VALUE is {values}",
        path.display()
    )]
    Unstated {
        /// Path of the file.
        path: PathBuf,
        /// Description of the missing option.
        what: String,
        /// Name of the option.
        key: &'static str,
        /// Its values.
        values: &'static str,
    },
    /// An option after `?` is unknown, or has an unknown value.
    #[error("{}: option `{option}`: {expected}", path.display())]
    Option {
        /// Path of the file.
        path: PathBuf,
        /// The option.
        option: String,
        /// The expected options.
        expected: String,
    },
    /// The graph of a file takes or returns arrays in another order than an engine.
    #[error(
        "{name}: `{port}` is not an array of steps x rows x numbers, which the engine requires; \
         run a layer as FILE#LAYER"
    )]
    Rearranged {
        /// Name of the model.
        name: String,
        /// Input or output of the graph.
        port: String,
    },
    /// Several layers of a file have the requested name.
    #[error("{} has several recurrent layers `{name}`", path.display())]
    Ambiguous {
        /// Path of the file.
        path: PathBuf,
        /// Requested name.
        name: String,
    },
    /// A file has weights of several modules.
    #[error(
        "{} has several recurrent layers; select one with FILE#LAYER, from {}",
        path.display(), listed(layers)
    )]
    Several {
        /// Path of the file.
        path: PathBuf,
        /// Names of the layers.
        layers: Vec<String>,
    },
    /// The file has no layer with this name.
    #[error("{} has no recurrent layer `{name}`; it has {}", path.display(), listed(layers))]
    Unknown {
        /// Path of the file.
        path: PathBuf,
        /// Requested name.
        name: String,
        /// Names of the layers.
        layers: Vec<String>,
    },
    /// The input size of a layer differs from the output size of the layer before.
    #[error(
        "layer {layer} expects {inputs} numbers per step, but the previous layer returns {outputs}"
    )]
    Chain {
        /// Index of the layer, from 0.
        layer: usize,
        /// Numbers that it takes per step.
        inputs: usize,
        /// Numbers that the layer before puts out per step.
        outputs: usize,
    },
}

/// Maximum inputs, units, rows or steps of a generated layer; larger ones would have gigabytes of
/// weights.
const MOST: usize = 16_384;

/// Returns names as a list, of which a long one is cut.
fn listed(names: &[String]) -> String {
    /// Maximum names.
    const MOST: usize = 8;
    let mut text = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    text
}

impl Model {
    /// Returns a model of these layers.
    ///
    /// # Errors
    /// There is no layer, or a layer does not fit the outputs of the one before.
    pub fn from_layers(name: impl Into<String>, layers: Vec<Layer>) -> Result<Self, ModelError> {
        let name = name.into();
        if layers.is_empty() {
            return Err(ModelError::Empty(name.into()));
        }
        for (at, pair) in layers.windows(2).enumerate() {
            let outputs = pair[0].outputs();
            let inputs = pair[1].inputs();
            if outputs != inputs {
                return Err(ModelError::Chain { layer: at + 1, inputs, outputs });
            }
        }
        let starts = vec![Start::default(); layers.len()];
        Ok(Self { name, layers, starts, shape: None, assumption: None, rearranged: None })
    }

    /// Opens the model that `text` names: an `.onnx` or `.safetensors` file, one of its layers as
    /// `FILE#LAYER`, or a layer with random weights.
    ///
    /// The latter is `CELL:INPUTSxUNITS` or `CELL:INPUTSxUNITSxROWSxSTEPS` (E, H, B and T of
    /// DeepCPU's Table 1). `CELL` is `lstm`, `gru` or `rnn`, with the prefix `bi` for both
    /// directions. The random weights depend on the text only.
    ///
    /// The graph of an ONNX file must be a chain: each layer reads the outputs of the one before, as
    /// far as operators that only move numbers show, and all outputs of the graph are outputs or
    /// last states of the layers. Constant states and lengths of the file are kept. A layer that is
    /// named runs alone; states and lengths that the graph computes or reads from its inputs are
    /// then zeros and all steps, unless the caller passes others.
    ///
    /// In safetensors files, layers are found by the names that PyTorch modules or Keras layers give
    /// them. Options that the weights do not determine are stated in the metadata of the file or
    /// after its path, as in `FILE?nonlinearity=relu` or `FILE?nonlinearity=relu#LAYER`.
    ///
    /// # Errors
    /// `text` names no file or layer, or the file has no valid model.
    pub fn open(text: &str) -> Result<Self, ModelError> {
        let path = Path::new(text);
        if path.is_file() {
            return file::open(path, "", None);
        }
        let (file, layer) = match text.rsplit_once('#') {
            Some((file, layer)) => (file, Some(layer)),
            None => (text, None),
        };
        let (file, options) = match file.rsplit_once('?') {
            Some((before, options)) if !Path::new(file).is_file() => (before, options),
            _ => (file, ""),
        };
        if Path::new(file).is_file() {
            return file::open(Path::new(file), options, layer);
        }
        parse_synthetic(text).ok_or_else(|| ModelError::Neither(text.to_owned()))
    }

    /// Name of the model, as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Layers from the first to the last.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Numbers in the input of one step.
    pub fn inputs(&self) -> usize {
        self.layers[0].inputs()
    }

    /// Numbers in the output of one step.
    pub fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs()
    }

    /// Rows and steps in the model's text, if any.
    pub fn shape(&self) -> Option<[usize; 2]> {
        self.shape
    }

    /// Sentence about options that the file does not state and that have their usual values, if any.
    pub fn assumption(&self) -> Option<&str> {
        self.assumption.as_deref()
    }

    /// Checks that arrays for an engine are those of the graph in the file: steps x rows x inputs, and
    /// outputs of all steps. Callers that pass arrays instead of sequences would otherwise confuse
    /// the axes of a graph that has rows first.
    ///
    /// # Errors
    /// An input or output has its axes in another order, or is a last state.
    pub fn check_arrays(&self) -> Result<(), ModelError> {
        match &self.rearranged {
            None => Ok(()),
            Some(port) => {
                Err(ModelError::Rearranged { name: self.name.clone(), port: port.clone() })
            }
        }
    }

    /// Rows that every batch must have, if the file has other initial states or lengths for each
    /// row.
    pub fn rows(&self) -> Option<usize> {
        self.starts.iter().find_map(Start::rows)
    }

    /// Hashes the constant states and lengths of the file.
    pub fn hash_starts(&self, hasher: &mut impl Hasher) {
        self.starts.iter().for_each(|start| start.hash(hasher));
    }

    /// Returns the steps that the last layer runs of a sequence with `steps` steps: fewer if its
    /// length is a constant of the file.
    pub fn steps(&self, steps: usize) -> usize {
        let constant = self.starts.last().and_then(|start| start.length(0));
        constant.map_or(steps, |constant| constant.min(steps))
    }

    /// Returns the model without the weights of its layers.
    pub(crate) fn without_weights(&self) -> Self {
        Self {
            name: self.name.clone(),
            layers: self.layers.iter().map(Layer::without_weights).collect(),
            starts: self.starts.clone(),
            shape: self.shape,
            assumption: self.assumption.clone(),
            rearranged: self.rearranged.clone(),
        }
    }

    /// Constant states and lengths of each layer.
    pub(crate) fn starts(&self) -> &[Start] {
        &self.starts
    }

    /// Computes the last layer's outputs for one sequence in double precision, step by step, from
    /// the initial states of the file. If these differ by row, those of the first row apply.
    pub fn oracle(&self, sequence: &[f32]) -> Vec<f64> {
        let steps = sequence.len() / self.inputs();
        let mut input = sequence.to_vec();
        let mut outputs = Vec::new();
        for (layer, start) in self.layers.iter().zip(&self.starts) {
            let length = start.length(0).unwrap_or(steps).min(steps);
            let mut states = Vec::new();
            start.push_states(layer, 1, &mut states);
            let (hidden, cells) = states.split_at(layer.outputs());
            outputs = oracle::run(layer, 1, &input, &[length], [hidden, cells]).outputs;
            // Inputs of a layer are rounded to `f32`, as in any engine.
            input = outputs.iter().map(|x| *x as f32).collect();
        }
        outputs
    }
}

/// Parses a description such as `bigru:3x5` into a layer with random weights that are the same each
/// time; `None` for any other text.
fn parse_synthetic(text: &str) -> Option<Model> {
    let (cell, sizes) = text.split_once(':')?;
    let (directions, cell) = match cell.strip_prefix("bi") {
        Some(cell) => (Directions::Both, cell),
        None => (Directions::Forward, cell),
    };
    let cell = match cell {
        "lstm" => Cell::Lstm,
        "gru" => Cell::Gru,
        "rnn" => Cell::Rnn(Activation::Tanh),
        _ => return None,
    };
    let size = |text: &str| text.parse().ok().filter(|size| (1..=MOST).contains(size));
    let sizes: Vec<usize> = sizes.split('x').map(size).collect::<Option<_>>()?;
    let ([inputs, units], shape) = match sizes[..] {
        [inputs, units] => ([inputs, units], None),
        [inputs, units, rows, steps] => ([inputs, units], Some([rows, steps])),
        _ => return None,
    };
    let outputs = cell.gates() * units;
    let mut seed = SplitMix(0);
    // Range of PyTorch's initial weights.
    let bound = (units as f32).sqrt().recip();
    let mut numbers = |count: usize| (0..count).map(|_| seed.next() * bound).collect();
    let weights = (0..directions.count())
        .map(|_| Weights {
            input: numbers(outputs * inputs),
            state: numbers(outputs * units),
            input_bias: numbers(outputs),
            state_bias: numbers(outputs),
        })
        .collect();
    let layer = Layer::new(cell, inputs, units, directions, weights).ok()?;
    let layers = vec![layer];
    let starts = vec![Start::default()];
    Some(Model { name: text.to_owned(), layers, starts, shape, assumption: None, rearranged: None })
}

/// Random numbers in [-1, 1) from Steele, Lea and Flood's SplitMix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        // An `f32` holds 24 bits.
        ((bits ^ bits >> 31) >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_made_of_their_shapes() {
        let model = parse_synthetic("bigru:3x5").unwrap();
        assert_eq!((model.inputs(), model.outputs(), model.shape()), (3, 10, None));
        let paper = parse_synthetic("lstm:64x256x10x100").unwrap();
        assert_eq!((paper.inputs(), paper.outputs(), paper.shape()), (64, 256, Some([10, 100])));
        assert_eq!(parse_synthetic("lstm:64x256x10x100"), Some(paper));
        let wrong =
            ["lstm", "lstm:", "lstm:3", "lstm:0x4", "cnn:3x4", "lstm:3x99999999", "lstm:3x4x1"];
        for text in wrong {
            let error = Model::open(text).unwrap_err().to_string();
            assert!(error.contains("and not a layer such as lstm:256x256"), "{text}: {error}");
        }
    }

    #[test]
    fn layers_must_take_what_the_last_puts_out() {
        let layer = |text: &str| parse_synthetic(text).unwrap().layers[0].clone();
        let stacked =
            Model::from_layers("two", vec![layer("bilstm:3x5"), layer("gru:10x4")]).unwrap();
        assert_eq!((stacked.inputs(), stacked.outputs()), (3, 4));
        let wrong = Model::from_layers("two", vec![layer("lstm:3x5"), layer("gru:10x4")]);
        assert_eq!(wrong, Err(ModelError::Chain { layer: 1, inputs: 10, outputs: 5 }));
        assert!(matches!(Model::from_layers("none", Vec::new()), Err(ModelError::Empty(_))));
    }

    #[test]
    fn made_numbers_fill_their_range() {
        let mut seed = SplitMix(7);
        let numbers: Vec<f32> = (0..10_000).map(|_| seed.next()).collect();
        let mean = numbers.iter().sum::<f32>() / 1e4;
        assert!(numbers.iter().all(|x| (-1.0..1.0).contains(x)) && mean.abs() < 0.02, "{mean}");
        assert!(numbers.iter().any(|x| *x < -0.99) && numbers.iter().any(|x| *x > 0.99));
    }
}
