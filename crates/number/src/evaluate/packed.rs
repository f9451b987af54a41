//! A network whose weights are held in the bits of their formats, ready to be executed.
//!
//! It is what an [`Evaluator`](super::Evaluator) evaluates, without its samples: the same stages by the same
//! kernels, so that its scores are the evaluator's to the last bit. Weights are held as packed codes, and
//! widened once to what the kernels read: bytes where a layer's two formats allow it, `f32` elsewhere.

mod file;

use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;

use dyno_kernels::Isa;
use dyno_onnx::Model;

pub use self::file::{FileError, PackedFile, PackedTensor, Source};
use super::read;
use super::stage::{Layout, Path, Product, Ready, Scratch, Shape, Stage};
use super::{BLOCK, EvaluateError, by_pixels, names};
use crate::codec::{Conversion, NanError};
use crate::config::Dictionary;
use crate::descriptor::nearest;
use crate::format::Format;
use crate::pack::{pack, unpack};

/// A network in its formats.
#[derive(Debug)]
pub struct Packed {
    stages: Vec<Stage>,
    ready: Vec<Option<Ready>>,
    layers: Vec<PackedLayer>,
    input: String,
    is_list: bool,
}

/// A layer with products.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedLayer {
    /// Of the layer: its objects are `NAME.weight` and `NAME.input`.
    pub name: String,
    /// Of its weights.
    pub weight: Format,
    /// Of what it multiplies them by.
    pub activation: Format,
    /// How its products are made, and why.
    pub path: Path,
    /// Codes of its weights, output by output, without a gap between them.
    pub codes: Vec<u8>,
    /// How many weights these are.
    pub weights: usize,
    /// Bytes that the kernels read instead of the codes: widened, with zeros to whole vectors of outputs.
    pub widened_bytes: usize,
    /// Products of a sample.
    pub macs: usize,
}

/// Why a network cannot be executed in formats.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PackedError {
    /// The file is no model that reads.
    Model(String),
    /// The engine cannot do the model.
    Network(EvaluateError),
    /// Formats are given to objects that the model has not: a sentence each, with the nearest name.
    Unknown(Vec<String>),
    /// A weight is NaN, and its format has none.
    Nan {
        /// Of which layer.
        layer: String,
        /// Which format, and where.
        cause: NanError,
    },
}

impl fmt::Display for PackedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(what) => f.write_str(what),
            Self::Network(error) => error.fmt(f),
            Self::Unknown(sentences) => f.write_str(&sentences.join("; ")),
            Self::Nan { layer, cause } => write!(f, "weights of {layer}: {cause}"),
        }
    }
}

impl std::error::Error for PackedError {}

/// Memory of a thread that executes networks; what it holds is of the last call.
#[derive(Debug, Default)]
pub struct Workspace {
    scratch: Scratch,
    from: Vec<f32>,
    to: Vec<f32>,
    scores: Vec<f32>,
}

impl Packed {
    /// Reads an ONNX file: a chain of nodes as [`Evaluator::new`](super::Evaluator::new) has it.
    ///
    /// # Errors
    /// The file does not read, the engine cannot do it, or it has not the objects of `formats`.
    pub fn read(path: &FilePath, formats: &Dictionary) -> Result<Self, PackedError> {
        let model = Model::read(path).map_err(|error| PackedError::Model(error.to_string()))?;
        Self::new(&model, formats)
    }

    /// A model whose objects have these formats, and FLOAT(32) where they have none.
    ///
    /// # Errors
    /// The engine cannot do the model, or it has not the objects of `formats`.
    pub fn new(model: &Model, formats: &Dictionary) -> Result<Self, PackedError> {
        let stages = read::stages(model).map_err(PackedError::Network)?;
        let objects: Vec<String> =
            stages.iter().filter_map(|stage| stage.product.as_ref()).flat_map(names).collect();
        let known: Vec<&str> = objects.iter().map(String::as_str).collect();
        let unknown = formats.iter().filter(|(object, _)| !known.contains(object));
        let unknown: Vec<String> = unknown
            .map(|(object, _)| {
                format!("there is no object `{object}`{}", nearest(object, known.iter().copied()))
            })
            .collect();
        if !unknown.is_empty() {
            return Err(PackedError::Unknown(unknown));
        }
        let (mut ready, mut layers) = (Vec::new(), Vec::new());
        for stage in &stages {
            let Some(product) = &stage.product else {
                ready.push(None);
                continue;
            };
            let [weight, activation] = names(product).map(|name| formats.format(&name));
            let (made, layer) = packed(product, stage.input, [weight, activation])
                .map_err(|cause| PackedError::Nan { layer: product.name.clone(), cause })?;
            ready.push(Some(made));
            layers.push(layer);
        }
        let port = model.inputs.first();
        Ok(Self {
            input: port.map(|port| port.name.clone()).unwrap_or_default(),
            is_list: port
                .and_then(|port| port.shape.as_ref())
                .is_some_and(|shape| shape.len() == 2),
            stages,
            ready,
            layers,
        })
    }

    /// The same with the instructions of another set.
    #[must_use]
    pub fn on(mut self, isa: Isa) -> Self {
        self.ready.iter_mut().flatten().for_each(|ready| ready.isa = isa);
        self
    }

    /// The layers with products, in order.
    #[must_use]
    pub fn layers(&self) -> &[PackedLayer] {
        &self.layers
    }

    /// What the model calls its input, and its shape for one sample: channels, rows and columns, or numbers.
    #[must_use]
    pub fn input(&self) -> (&str, Vec<usize>) {
        let Shape { height, width, channels } = self.stages[0].input;
        let shape = if self.is_list { vec![channels] } else { vec![channels, height, width] };
        (&self.input, shape)
    }

    /// Scores of a sample.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.stages[self.stages.len() - 1].output.len()
    }

    /// Bytes of the packed weights of all layers.
    #[must_use]
    pub fn packed_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.codes.len()).sum()
    }

    /// Scores of samples that lie as the model is fed, one after the other.
    ///
    /// # Errors
    /// A value is NaN, and its format has none.
    ///
    /// # Panics
    /// The numbers are no whole number of samples.
    pub fn run<'a>(
        &self,
        samples: &[f32],
        workspace: &'a mut Workspace,
    ) -> Result<&'a [f32], NanError> {
        let shape = self.stages[0].input;
        assert_eq!(samples.len() % shape.len(), 0, "whole samples");
        let Workspace { scratch, from, to, scores } = workspace;
        scores.clear();
        for block in samples.chunks(BLOCK * shape.len()) {
            from.clear();
            match shape.channels == 1 || shape.pixels() == 1 {
                true => from.extend_from_slice(block),
                false => from.extend(by_pixels(block, shape)),
            }
            for (stage, ready) in self.stages.iter().zip(&self.ready) {
                stage.run(ready.as_ref(), from, to, scratch)?;
                std::mem::swap(from, to);
            }
            scores.extend_from_slice(from);
        }
        Ok(scores)
    }
}

/// The weights of a product as codes, and what the kernels read: made of the codes, not of the model.
fn packed(
    product: &Product,
    input: Shape,
    [weight, activation]: [Format; 2],
) -> Result<(Ready, PackedLayer), NanError> {
    let layout = Layout::new(product, input, [weight, activation]);
    let codes = weight.encode_slice(&product.weights, Conversion::default())?;
    let codes = pack(&codes, weight.bits());
    let count = product.weights.len();
    let read = unpack(&codes, weight.bits(), count).unwrap_or_default();
    let panels = layout.panels(product.output.channels, weight.decode_slice(&read));
    let layer = PackedLayer {
        name: product.name.clone(),
        weight,
        activation,
        path: layout.path(),
        codes,
        weights: count,
        widened_bytes: panels.bytes(),
        macs: count * product.output.pixels(),
    };
    Ok((Ready { layout, panels: Arc::new(panels), isa: Isa::best() }, layer))
}
