//! A chain of layers whose weights are held as codes: what an [`Evaluator`](super::super::Evaluator) evaluates.

use std::sync::Arc;

use dyno_kernels::Isa;
use dyno_onnx::Model;

use super::super::stage::{Layout, Product, Ready, Scratch, Shape, Stage};
use super::super::{BLOCK, by_pixels, names, read};
use super::{PackedError, PackedLayer, known, widened};
use crate::codec::NanError;
use crate::config::Dictionary;
use crate::format::Format;

/// A chain in its formats.
#[derive(Debug)]
pub(super) struct Chain {
    stages: Vec<Stage>,
    ready: Vec<Option<Ready>>,
}

impl Chain {
    /// A model whose objects have these formats, and FLOAT(32) where they have none; with its layers.
    ///
    /// # Errors
    /// The model is no such chain, or it has not the objects of `formats`.
    pub fn new(
        model: &Model,
        formats: &Dictionary,
    ) -> Result<(Self, Vec<PackedLayer>), PackedError> {
        let mut stages = read::stages(model).map_err(PackedError::Network)?;
        let products = stages.iter().filter_map(|stage| stage.product.as_ref());
        known(formats, &products.flat_map(names).collect::<Vec<_>>())?;
        let (mut ready, mut layers) = (Vec::new(), Vec::new());
        for stage in &mut stages {
            let Some(product) = &mut stage.product else {
                ready.push(None);
                continue;
            };
            let of = names(product).map(|name| formats.format(&name));
            let (made, layer) = packed(product, stage.input, of)
                .map_err(|cause| PackedError::Nan { layer: product.name.clone(), cause })?;
            ready.push(Some(made));
            layers.push(layer);
        }
        Ok((Self { stages, ready }, layers))
    }

    /// With the instructions of another set.
    pub fn on(&mut self, isa: Isa) {
        self.ready.iter_mut().flatten().for_each(|ready| ready.isa = isa);
    }

    /// Of a sample.
    pub fn input(&self) -> Shape {
        self.stages[0].input
    }

    /// Scores of a sample.
    pub fn outputs(&self) -> usize {
        self.stages[self.stages.len() - 1].output.len()
    }

    /// Scores of whole samples, one after the other.
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
        Ok(())
    }
}

/// The weights of a product as codes, and what the kernels read; the product keeps neither.
fn packed(
    product: &mut Product,
    input: Shape,
    [weight, activation]: [Format; 2],
) -> Result<(Ready, PackedLayer), NanError> {
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
    Ok((Ready { layout, weights: Arc::new(weights), isa: Isa::best() }, layer))
}
