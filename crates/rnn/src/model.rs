//! Models: recurrent layers that follow one another, out of a file or made up.
//!
//! ```
//! use dyno_rnn::model::Model;
//! let model = Model::open("bigru:8x16")?;
//! assert_eq!((model.inputs(), model.outputs(), model.layers().len()), (8, 32, 1));
//! # Ok::<(), dyno_rnn::model::ModelError>(())
//! ```

mod file;

use std::fmt;
use std::path::{Path, PathBuf};

use dyno_kernels::Activation;

use crate::import::ImportError;
use crate::layer::{Cell, Directions, Layer, Weights};
use crate::oracle;

/// Layers of which each takes what the last one puts out.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    name: String,
    /// At least one.
    layers: Vec<Layer>,
    /// Rows and steps that its text names.
    shape: Option<[usize; 2]>,
    left_out: Option<String>,
}

/// Why there is no model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelError {
    /// It is neither a file nor a shape.
    Neither(String),
    /// A file cannot be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// A file is of no format that is read.
    Format(PathBuf),
    /// A file holds something that is no layer.
    Import {
        /// Which.
        path: PathBuf,
        /// What it is.
        error: ImportError,
    },
    /// A file has no recurrent layer, or a model no layers.
    Empty(PathBuf),
    /// A file has several layers, of which none takes what another puts out.
    Several {
        /// Which.
        path: PathBuf,
        /// Names of its layers.
        layers: Vec<String>,
    },
    /// There is no layer of that name.
    Unknown {
        /// Which file.
        path: PathBuf,
        /// The name.
        name: String,
        /// Names of its layers.
        layers: Vec<String>,
    },
    /// A layer takes another number of inputs than the one before it puts out.
    Chain {
        /// Its place, from 0.
        layer: usize,
        /// What it takes.
        inputs: usize,
        /// What the last one puts out.
        outputs: usize,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Neither(text) => write!(
                f,
                "there is no file `{text}`, and it is no layer such as lstm:256x256 or \
                 bigru:64x128x1x100 (inputs, units, and if you like rows and steps; up to {MOST} each)"
            ),
            Self::Unreadable { path, why } => write!(f, "cannot read {}: {why}", path.display()),
            Self::Format(path) => {
                write!(f, "{}: expected a file .onnx or .safetensors", path.display())
            }
            Self::Import { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Empty(path) => write!(f, "{} has no recurrent layer", path.display()),
            Self::Several { path, layers } => write!(
                f,
                "{} has several recurrent layers that do not follow one another: name one as \
                 FILE#LAYER, of {}",
                path.display(),
                layers.join(", ")
            ),
            Self::Unknown { path, name, layers } => {
                let layers = layers.join(", ");
                write!(f, "{} has no recurrent layer `{name}`; it has {layers}", path.display())
            }
            Self::Chain { layer, inputs, outputs } => write!(
                f,
                "layer {layer} takes {inputs} numbers a step, the one before it puts out {outputs}"
            ),
        }
    }
}

impl std::error::Error for ModelError {}

/// The most inputs, units, rows or steps of a made layer: more have weights of gigabytes.
const MOST: usize = 16_384;

impl Model {
    /// A model of these layers.
    ///
    /// # Errors
    /// There is none, or one does not take what the last puts out.
    pub fn of(name: impl Into<String>, layers: Vec<Layer>) -> Result<Self, ModelError> {
        let name = name.into();
        if layers.is_empty() {
            return Err(ModelError::Empty(name.into()));
        }
        for (at, pair) in layers.windows(2).enumerate() {
            let (outputs, inputs) = (pair[0].outputs(), pair[1].inputs());
            if outputs != inputs {
                return Err(ModelError::Chain { layer: at + 1, inputs, outputs });
            }
        }
        Ok(Self { name, layers, shape: None, left_out: None })
    }

    /// What `text` names: a file `.onnx` or `.safetensors`, one of its layers as `FILE#LAYER`, or a layer
    /// of made-up weights by its shape, `CELL:INPUTSxUNITS` or `CELL:INPUTSxUNITSxROWSxSTEPS` (E, H, B
    /// and T of DeepCPU's Table 1) with `lstm`, `gru` or `rnn`, and `bi` before it for both directions.
    ///
    /// The layers of a file must follow one another. Of safetensors those are found that have their names
    /// from PyTorch's modules or from Keras' layers.
    ///
    /// # Errors
    /// There is no such thing, or it is no model.
    pub fn open(text: &str) -> Result<Self, ModelError> {
        let path = Path::new(text);
        if path.is_file() {
            return file::open(path, None);
        }
        if let Some((path, layer)) = text.rsplit_once('#')
            && Path::new(path).is_file()
        {
            return file::open(Path::new(path), Some(layer));
        }
        made(text).ok_or_else(|| ModelError::Neither(text.to_owned()))
    }

    /// As it was named.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From the first on.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Numbers of a step's input.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.layers[0].inputs()
    }

    /// Numbers of a step's output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs()
    }

    /// Rows and steps of a call, if its text names them.
    #[must_use]
    pub fn shape(&self) -> Option<[usize; 2]> {
        self.shape
    }

    /// What of the file is not run, as a sentence.
    #[must_use]
    pub fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// Outputs of the last layer for one sequence in double precision, step after step.
    #[must_use]
    pub fn oracle(&self, sequence: &[f32]) -> Vec<f64> {
        let steps = sequence.len() / self.inputs();
        let (mut input, mut outputs) = (sequence.to_vec(), Vec::new());
        for layer in &self.layers {
            outputs = oracle::run(layer, 1, &input, &[steps], [&[], &[]]).outputs;
            // What a layer takes is rounded once, as any engine's is.
            input = outputs.iter().map(|x| *x as f32).collect();
        }
        outputs
    }
}

/// A layer of made-up weights, the same ones each time.
fn made(text: &str) -> Option<Model> {
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
    let mut seed = Seeded(0);
    // The bound that PyTorch begins with.
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
    Some(Model { name: text.to_owned(), layers, shape, left_out: None })
}

/// Numbers in [-1, 1), by Steele, Lea and Flood's SplitMix64.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 24 bits are all that a number of 32 bits holds.
        ((bits ^ bits >> 31) >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_made_of_their_shapes() {
        let model = made("bigru:3x5").unwrap();
        assert_eq!((model.inputs(), model.outputs(), model.shape()), (3, 10, None));
        let paper = made("lstm:64x256x10x100").unwrap();
        assert_eq!((paper.inputs(), paper.outputs(), paper.shape()), (64, 256, Some([10, 100])));
        assert_eq!(made("lstm:64x256x10x100"), Some(paper));
        let wrong =
            ["lstm", "lstm:", "lstm:3", "lstm:0x4", "cnn:3x4", "lstm:3x99999999", "lstm:3x4x1"];
        for text in wrong {
            let error = Model::open(text).unwrap_err().to_string();
            assert!(error.contains("and it is no layer such as lstm:256x256"), "{text}: {error}");
        }
    }

    #[test]
    fn layers_must_take_what_the_last_puts_out() {
        let layer = |text: &str| made(text).unwrap().layers[0].clone();
        let stacked = Model::of("two", vec![layer("bilstm:3x5"), layer("gru:10x4")]).unwrap();
        assert_eq!((stacked.inputs(), stacked.outputs()), (3, 4));
        let wrong = Model::of("two", vec![layer("lstm:3x5"), layer("gru:10x4")]);
        assert_eq!(wrong, Err(ModelError::Chain { layer: 1, inputs: 10, outputs: 5 }));
        assert!(matches!(Model::of("none", Vec::new()), Err(ModelError::Empty(_))));
    }

    #[test]
    fn made_numbers_fill_their_range() {
        let mut seed = Seeded(7);
        let numbers: Vec<f32> = (0..10_000).map(|_| seed.next()).collect();
        let mean = numbers.iter().sum::<f32>() / 1e4;
        assert!(numbers.iter().all(|x| (-1.0..1.0).contains(x)) && mean.abs() < 0.02, "{mean}");
        assert!(numbers.iter().any(|x| *x < -0.99) && numbers.iter().any(|x| *x > 0.99));
    }
}
