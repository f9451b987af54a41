//! Targets: weights that have a format, and the products with them.

use std::collections::HashMap;
use std::sync::Arc;

use dyno_kernels::{Isa, WindowWeights};

use super::super::stage::{IntegerWidth, Layout, PreparedProduct, Scratch, Stage};
use super::step::StepError;
use super::tensor::room;
use crate::assignment::Assignment;
use crate::codec::{Conversion, NanError};
use crate::format::Format;
use crate::network::LayerKind;

/// Limit of the cached weights, in bytes.
const PACKED_BYTES: usize = 1 << 30;

/// Weights with the name of their layer. Nodes that share weights share a target.
#[derive(Debug)]
pub(super) struct Target {
    pub name: String,
    pub kind: LayerKind,
    /// Weights in the order of the file, for uses without a product.
    pub weights: Vec<f32>,
    /// Products with the weights; empty if nodes only read the weights.
    pub stages: Vec<Stage>,
}

impl Target {
    /// Returns the names of the weights and the input.
    pub fn names(&self) -> [String; 2] {
        [format!("{}.weight", self.name), format!("{}.input", self.name)]
    }

    pub fn formats(&self, assignment: &Assignment) -> [Format; 2] {
        self.names().map(|name| assignment.format(&name))
    }

    /// Removes the weights, also from the products.
    pub fn drop_weights(&mut self) {
        self.weights = Vec::new();
        let products = self.stages.iter_mut().filter_map(|stage| stage.product.as_mut());
        products.for_each(|product| product.weights = Vec::new());
    }

    /// Returns the index of a product among those of the target; adds it if there is no equal one.
    pub fn stage(&mut self, stage: Stage) -> usize {
        let is_same = |known: &Stage| {
            let (Some(a), Some(b)) = (&known.product, &stage.product) else { return false };
            let plain = known.after.is_empty() && stage.after.is_empty();
            let alike =
                known.input == stage.input && a.output == b.output && a.sliding == b.sliding;
            plain && alike && a.weights == b.weights
        };
        self.stages.iter().position(is_same).unwrap_or_else(|| {
            self.stages.push(stage);
            self.stages.len() - 1
        })
    }
}

/// A target in the formats of its weights and its input.
#[derive(Debug)]
pub(super) struct PreparedGraph {
    ready: Vec<PreparedProduct>,
    /// Weights for uses without a product.
    pub weights: Arc<Vec<f32>>,
    pub input: Format,
}

impl PreparedGraph {
    /// Creates a target from widened codes: the products, or the weights for uses without a
    /// product.
    pub fn new(ready: Vec<PreparedProduct>, weights: Vec<f32>, input: Format) -> Self {
        Self { ready, weights: Arc::new(weights), input }
    }

    /// Multiplies with the given instruction set.
    pub fn set_isa(&mut self, isa: Isa) {
        self.ready.iter_mut().for_each(|ready| ready.isa = isa);
    }
}

/// Cache of weights in their formats.
#[derive(Debug, Default)]
pub(super) struct WeightCache {
    /// By target, product, format and width of integers.
    ordered: HashMap<(usize, usize, Format, Option<IntegerWidth>), Arc<WindowWeights>>,
    plain: HashMap<(usize, Format), Arc<Vec<f32>>>,
    bytes: usize,
}

impl WeightCache {
    /// Prepares all targets in their formats.
    ///
    /// # Errors
    /// A weight is NaN, and its format has none.
    pub fn prepared(
        &mut self,
        targets: &[Target],
        formats: impl Fn(&Target) -> [Format; 2],
    ) -> Result<Vec<PreparedGraph>, NanError> {
        if self.bytes > PACKED_BYTES {
            *self = Self::default();
        }
        targets
            .iter()
            .enumerate()
            .map(|(at, target)| self.one(at, target, formats(target)))
            .collect()
    }

    fn one(
        &mut self,
        at: usize,
        target: &Target,
        formats: [Format; 2],
    ) -> Result<PreparedGraph, NanError> {
        let mut ready = Vec::new();
        for (place, stage) in target.stages.iter().enumerate() {
            let product = stage.product.as_ref().expect("stages of targets have products");
            let layout = Layout::new(product, stage.input, formats);
            let key = (at, place, formats[0], layout.integer_width());
            let weights = match self.ordered.get(&key) {
                Some(known) => Arc::clone(known),
                None => {
                    let new = Arc::new(layout.pack(product)?);
                    self.bytes += new.bytes();
                    self.ordered.insert(key, Arc::clone(&new));
                    new
                }
            };
            ready.push(PreparedProduct { layout, weights, isa: Isa::best() });
        }
        let weights = if target.stages.is_empty() {
            self.plain(at, target, formats[0])?
        } else {
            Arc::default()
        };
        Ok(PreparedGraph { ready, weights, input: formats[1] })
    }

    fn plain(
        &mut self,
        at: usize,
        target: &Target,
        format: Format,
    ) -> Result<Arc<Vec<f32>>, NanError> {
        if let Some(known) = self.plain.get(&(at, format)) {
            return Ok(Arc::clone(known));
        }
        let mut weights = target.weights.clone();
        if format != Format::F32 {
            format.quantise_slice(&mut weights, Conversion::default())?;
        }
        self.bytes += size_of_val(&weights[..]);
        let weights = Arc::new(weights);
        self.plain.insert((at, format), Arc::clone(&weights));
        Ok(weights)
    }
}

/// Statistics of a target's inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct InputStats {
    pub max: f32,
    /// At most 0.
    pub min: f32,
    pub values: u64,
    pub macs: u64,
}

impl InputStats {
    /// Adds other statistics.
    pub fn join(&mut self, other: Self) {
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
        self.values += other.values;
        self.macs += other.macs;
    }
}

/// State of an execution.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub targets: &'a [Target],
    pub prepared: &'a [PreparedGraph],
    pub scratch: &'a mut Scratch,
    /// One entry per target, if statistics are collected.
    pub stats: Option<&'a mut [InputStats]>,
}

impl Context<'_> {
    /// Computes the product of values with a target's weights.
    ///
    /// # Errors
    /// A value is NaN, and the format has none, or the product is too large.
    pub fn product(
        &mut self,
        target: usize,
        stage: usize,
        values: &[f32],
    ) -> Result<Vec<f32>, StepError> {
        self.record(target, values, 0);
        self.product_again(target, stage, values)
    }

    /// Computes another product of values that the target multiplied before. Statistics count these
    /// values once.
    ///
    /// # Errors
    /// A value is NaN, and the format has none, or the product is too large.
    pub fn product_again(
        &mut self,
        target: usize,
        stage: usize,
        values: &[f32],
    ) -> Result<Vec<f32>, StepError> {
        let product = &self.targets[target].stages[stage];
        let images = values.len() / product.input.len().max(1);
        let rows = images * product.output.pixels();
        let weights = product.product.as_ref().map_or(0, |product| product.weights.len());
        self.record(target, &[], rows as u64 * weights as u64);
        let mut to = room(&[images, product.output.len()])?;
        product.run(Some(&self.prepared[target].ready[stage]), values, &mut to, self.scratch)?;
        Ok(to)
    }

    /// Adds the input of a target to the statistics.
    pub fn record(&mut self, target: usize, values: &[f32], macs: u64) {
        if let Some(stats) = self.stats.as_deref_mut() {
            let stats = &mut stats[target];
            stats.max = values.iter().fold(stats.max, |max, x| max.max(x.abs()));
            stats.min = values.iter().fold(stats.min, |min, x| min.min(*x));
            stats.values += values.len() as u64;
            stats.macs += macs;
        }
    }
}
