//! A chain of layers with packed weights, as [`ChainEvaluator`](super::super::ChainEvaluator)
//! evaluates it.

use std::sync::Arc;

use dyno_kernels::Isa;
use dyno_onnx::{Model, in_floats};

use super::super::stage::{Layout, PreparedProduct, Product, Scratch, Shape, Stage};
use super::super::{BLOCK, by_pixels, names, read};
use super::{PackedError, PackedLayer, known, widened};
use crate::codec::NanError;
use crate::config::Dictionary;
use crate::format::Format;

/// A chain in its formats.
#[derive(Debug)]
pub(super) struct Chain {
    stages: Vec<Stage>,
    ready: Vec<Option<PreparedProduct>>,
    /// Dimensions of the answer to one sample.
    answer: Vec<usize>,
}

impl Chain {
    /// Packs the weights of a model and returns the chain with its layers. Objects without an entry
    /// in `formats` are FLOAT(32).
    ///
    /// # Errors
    /// The model is not a chain, or it does not have the objects of `formats`.
    pub fn new(
        model: &Model,
        formats: &Dictionary,
    ) -> Result<(Self, Vec<PackedLayer>), PackedError> {
        let (mut stages, answer) = read::stages(&in_floats(model)).map_err(PackedError::Network)?;
        let products = stages.iter().filter_map(|stage| stage.product.as_ref());
        known(formats, &products.flat_map(names).collect::<Vec<_>>())?;
        let mut ready = Vec::new();
        let mut layers = Vec::new();
        for stage in &mut stages {
            let Some(product) = &mut stage.product else {
                ready.push(None);
                continue;
            };
            let formats = names(product).map(|name| formats.format(&name));
            let (made, layer) = packed(product, stage.input, formats)
                .map_err(|cause| PackedError::Nan { layer: product.name.clone(), cause })?;
            ready.push(Some(made));
            layers.push(layer);
        }
        Ok((Self { stages, ready, answer }, layers))
    }

    /// Multiplies with the given instruction set.
    pub fn set_isa(&mut self, isa: Isa) {
        self.ready.iter_mut().flatten().for_each(|ready| ready.isa = isa);
    }

    /// Returns the shape of a sample.
    pub fn input(&self) -> Shape {
        self.stages[0].input
    }

    /// Returns the dimensions of the answer to one sample.
    pub fn answer(&self) -> &[usize] {
        &self.answer
    }

    /// Computes the scores of samples, one after the other.
    ///
    /// # Errors
    /// A value is NaN, and its format has none.
    pub fn run(
        &self,
        samples: &[f32],
        scratch: &mut Scratch,
        [from, to]: [&mut Vec<f32>; 2],
        scores: &mut Vec<f32>,
    ) -> Result<(), NanError> {
        let shape = self.input();
        scores.clear();
        for block in samples.chunks(BLOCK * shape.len()) {
            from.clear();
            if shape.channels == 1 || shape.pixels() == 1 {
                from.extend_from_slice(block);
            } else {
                from.extend(by_pixels(block, shape));
            }
            for (stage, ready) in self.stages.iter().zip(&self.ready) {
                stage.run(ready.as_ref(), from, to, scratch)?;
                std::mem::swap(from, to);
            }
            scores.extend_from_slice(from);
        }
        Ok(())
    }
}

/// Packs the weights of a product and prepares what the kernels read. The product keeps no weights.
fn packed(
    product: &mut Product,
    input: Shape,
    [weight, activation]: [Format; 2],
) -> Result<(PreparedProduct, PackedLayer), NanError> {
    let layout = Layout::new(product, input, [weight, activation]);
    let numbers = std::mem::take(&mut product.weights);
    let (codes, widened) = widened(weight, &numbers)?;
    let weights = layout.ordered(product.output.channels, widened);
    let layer = PackedLayer {
        name: product.name.clone(),
        weight,
        activation,
        path: layout.path(),
        codes,
        weights: numbers.len(),
        widened_bytes: weights.bytes(),
        macs: numbers.len() * product.output.pixels(),
    };
    Ok((PreparedProduct { layout, weights: Arc::new(weights), isa: Isa::best() }, layer))
}
