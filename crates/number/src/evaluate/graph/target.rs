//! What formats are given to: weights, and what they are multiplied with.

use std::collections::HashMap;
use std::sync::Arc;

use dyno_kernels::{Isa, WindowWeights};

use super::super::stage::{Held, Layout, Ready, Scratch, Stage};
use crate::assignment::Assignment;
use crate::codec::{Conversion, NanError};
use crate::format::Format;
use crate::network::LayerKind;

/// Packed weights that are kept, in bytes.
const PACKED_BYTES: usize = 1 << 30;

/// Weights with their formats' names. Nodes that share the weights share them.
#[derive(Debug)]
pub(super) struct Target {
    pub name: String,
    pub kind: LayerKind,
    /// In the order of the file: what is read as it is, without a product, is this.
    pub weights: Vec<f32>,
    /// Products that nodes make with them. Empty where nodes read them as they are.
    pub stages: Vec<Stage>,
}

impl Target {
    /// What assignments call the weights and the inputs.
    pub fn names(&self) -> [String; 2] {
        [format!("{}.weight", self.name), format!("{}.input", self.name)]
    }

    pub fn formats(&self, assignment: &Assignment) -> [Format; 2] {
        self.names().map(|name| assignment.format(&name))
    }

    /// The place of a product among those of the target; one that is there already is not made again.
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

/// A target in two formats.
#[derive(Debug)]
pub(super) struct Prepared {
    ready: Vec<Ready>,
    /// Weights that are read as they are.
    pub weights: Arc<Vec<f32>>,
    pub input: Format,
}

impl Prepared {
    /// Of numbers that are widened from codes already: those of each product, or those that are read as they are.
    pub fn of(ready: Vec<Ready>, weights: Vec<f32>, input: Format) -> Self {
        Self { ready, weights: Arc::new(weights), input }
    }

    /// With the instructions of another set, where it multiplies by panels.
    pub fn on(&mut self, isa: Isa) {
        self.ready.iter_mut().for_each(|ready| ready.isa = isa);
    }
}

/// Weights as trials before have left them.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// By target, product, format, and how whole numbers are held.
    ordered: HashMap<(usize, usize, Format, Option<Held>), Arc<WindowWeights>>,
    plain: HashMap<(usize, Format), Arc<Vec<f32>>>,
    bytes: usize,
}

impl Packed {
    /// All targets in their formats.
    ///
    /// # Errors
    /// A weight is NaN, and its format has none.
    pub fn prepared(
        &mut self,
        targets: &[Target],
        formats: impl Fn(&Target) -> [Format; 2],
    ) -> Result<Vec<Prepared>, NanError> {
        if self.bytes > PACKED_BYTES {
            *self = Self::default();
        }
        targets.iter().enumerate().map(|(at, of)| self.one(at, of, formats(of))).collect()
    }

    fn one(&mut self, at: usize, of: &Target, formats: [Format; 2]) -> Result<Prepared, NanError> {
        let mut ready = Vec::new();
        for (place, stage) in of.stages.iter().enumerate() {
            let product = stage.product.as_ref().expect("stages of targets have products");
            let layout = Layout::new(product, stage.input, formats);
            let key = (at, place, formats[0], layout.held());
            let weights = match self.ordered.get(&key) {
                Some(known) => Arc::clone(known),
                None => {
                    let new = Arc::new(layout.pack(product)?);
                    self.bytes += new.bytes();
                    self.ordered.insert(key, Arc::clone(&new));
                    new
                }
            };
            ready.push(Ready { layout, weights, isa: Isa::best() });
        }
        let weights = match of.stages.is_empty() {
            true => self.plain(at, of, formats[0])?,
            false => Arc::default(),
        };
        Ok(Prepared { ready, weights, input: formats[1] })
    }

    fn plain(&mut self, at: usize, of: &Target, format: Format) -> Result<Arc<Vec<f32>>, NanError> {
        if let Some(known) = self.plain.get(&(at, format)) {
            return Ok(Arc::clone(known));
        }
        let mut weights = of.weights.clone();
        if format != Format::F32 {
            format.quantise_slice(&mut weights, Conversion::default())?;
        }
        self.bytes += size_of_val(&weights[..]);
        let weights = Arc::new(weights);
        self.plain.insert((at, format), Arc::clone(&weights));
        Ok(weights)
    }
}

/// What was seen of a target's inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub max: f32,
    /// 0 where nothing was below.
    pub min: f32,
    pub values: u64,
    pub macs: u64,
}

impl Seen {
    /// With what another one saw.
    pub fn join(&mut self, other: Self) {
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
        self.values += other.values;
        self.macs += other.macs;
    }
}

/// What steps work with.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub targets: &'a [Target],
    pub prepared: &'a [Prepared],
    pub scratch: &'a mut Scratch,
    /// A place a target, if somebody asks.
    pub seen: Option<&'a mut [Seen]>,
}

impl Context<'_> {
    /// The product of values with a target's weights.
    ///
    /// # Errors
    /// A value is NaN, and the format has none.
    pub fn product(
        &mut self,
        target: usize,
        stage: usize,
        values: &[f32],
    ) -> Result<Vec<f32>, NanError> {
        self.see(target, values, 0);
        self.product_again(target, stage, values)
    }

    /// The product of values that the target was fed before, with other weights: they count once.
    ///
    /// # Errors
    /// A value is NaN, and the format has none.
    pub fn product_again(
        &mut self,
        target: usize,
        stage: usize,
        values: &[f32],
    ) -> Result<Vec<f32>, NanError> {
        let of = &self.targets[target].stages[stage];
        let images = values.len() / of.input.len().max(1);
        let rows = images * of.output.pixels();
        let weights = of.product.as_ref().map_or(0, |product| product.weights.len());
        self.see(target, &[], rows as u64 * weights as u64);
        let mut to = Vec::with_capacity(images * of.output.len());
        of.run(Some(&self.prepared[target].ready[stage]), values, &mut to, self.scratch)?;
        Ok(to)
    }

    /// Keeps in mind what a target is fed.
    pub fn see(&mut self, target: usize, values: &[f32], macs: u64) {
        if let Some(seen) = self.seen.as_deref_mut() {
            let seen = &mut seen[target];
            seen.max = values.iter().fold(seen.max, |max, x| max.max(x.abs()));
            seen.min = values.iter().fold(seen.min, |min, x| min.min(*x));
            seen.values += values.len() as u64;
            seen.macs += macs;
        }
    }
}
