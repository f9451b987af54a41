//! Weights of a model: its tensors of floating-point numbers, and those of integers that the graph
//! scales to such.

use std::collections::{BTreeSet, HashSet};

use dyno_onnx::{Element, Model, ReadError, Tensor};

use super::flow::Flow;
use super::forms::{Quantization, TensorUses, is_float, uses};
use super::grain::{Affine, Layout};
use super::numbers::{Bytes, Numbers, Packing, packed};
use super::operators::ScaleKind;
use super::small::SmallFloat;

/// A weight, not decoded yet.
#[derive(Debug, Clone)]
pub struct Weight {
    /// Name in the model, without suffixes of quantizers.
    pub name: String,
    /// Name in the file.
    pub held_as: String,
    /// Type of its elements in the file.
    pub element: Element,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// First use: the operator and the index of its input.
    pub slot: (String, usize),
    /// Number of weights used before it.
    pub place: usize,
    /// Operators that change it before it meets data.
    pub through: BTreeSet<String>,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Plain,
    /// Codes with the tensors that describe them.
    Quantized(Quantization),
    /// Computed numbers, and the greatest of those that were summed in them.
    Computed(Vec<f32>, f32),
    /// A plain weight, each slice along the first dimension multiplied by a factor.
    Scaled(Vec<f32>),
}

/// Tensors of a model, and the weights among them.
pub struct Weights<'a> {
    /// The part of the graph that leads to an output.
    pub flow: Flow<'a>,
    /// Floating-point weights in the order of use.
    pub all: Vec<Weight>,
    /// Tensors used in a way that is not understood.
    pub unread: Vec<String>,
    /// Number of single-number tensors that are used.
    pub singles: u64,
}

impl<'a> Weights<'a> {
    /// Collects the weights of a model.
    pub fn from_model(model: &'a Model) -> Self {
        let flow = Flow::from_model(model);
        let TensorUses { all, unread } = uses(&flow);
        let mut weights = Self { flow, all: Vec::new(), unread, singles: 0 };
        for (place, used) in all.into_iter().enumerate() {
            let tensor = &weights.flow.tensors[&used.tensor];
            if tensor.elements() < 2 {
                weights.singles += tensor.elements();
                continue;
            }
            let shape = match used.by.as_ref().map(|by| by.kind) {
                Some(ScaleKind::Packed { rows, columns, .. }) => vec![rows, columns],
                _ => tensor.shape.clone(),
            };
            weights.all.push(Weight {
                name: base(&used.tensor).to_owned(),
                element: tensor.element,
                held_as: used.tensor,
                shape,
                slot: used.slot,
                place,
                through: used.through,
                source: used.by.map_or(Source::Plain, Source::Quantized),
            });
        }
        weights
    }

    /// Returns the numbers of a weight.
    ///
    /// # Errors
    /// A file beside the model cannot be read, or a tensor is truncated.
    pub fn numbers<'w>(&'w self, weight: &'w Weight) -> Result<Numbers<'w>, ReadError> {
        let shape = weight.shape.clone();
        let by = match &weight.source {
            Source::Computed(values, greatest) => {
                return Ok(Numbers::from_values(shape, values, *greatest));
            }
            Source::Plain => return Ok(Numbers::plain(shape, self.bytes(&weight.held_as)?)),
            Source::Scaled(factors) => {
                return Ok(Numbers::scaled(shape, self.bytes(&weight.held_as)?, factors));
            }
            Source::Quantized(by) => by,
        };
        let wrong = |reason: &str| ReadError::Tensor {
            name: weight.held_as.clone(),
            reason: reason.into(),
        };
        let tensor = self.tensor(&weight.held_as)?;
        let mut scales = self.plain(&by.scales[0])?;
        for name in &by.scales[1..] {
            scales = product(&scales, &self.plain(name)?)
                .ok_or_else(|| wrong("the scales of its two factors do not fit together"))?;
        }
        let (layout, packing) = layout(by, tensor, &shape, scales.len())
            .ok_or_else(|| wrong("its axis does not exist"))?;
        let zeros = match (&by.zero, by.kind) {
            (Some(zero), _) => self.zeros(zero, packing, layout)?,
            (None, ScaleKind::Packed { bits, .. }) => vec![(1_u32 << (bits - 1)) as f32],
            (None, _) => Vec::new(),
        };
        let range = match packing {
            Packing::Bits { bits, .. } => (0, (1 << bits) - 1),
            _ => limits(by.computed.unwrap_or(tensor.element)),
        };
        let small = SmallFloat::from_element(by.computed.unwrap_or(tensor.element));
        if let Some(small) = small {
            scales.iter_mut().for_each(|scale| *scale *= small.unit());
        }
        let affine = Affine { scales, zeros, layout, range, small };
        Numbers::codes(shape, Bytes::load(tensor)?, packing, affine)
            .ok_or_else(|| wrong("the number of its codes or scales is wrong"))
    }

    fn zeros(&self, name: &str, packing: Packing, layout: Layout) -> Result<Vec<f32>, ReadError> {
        let tensor = self.tensor(name)?;
        let bytes = Bytes::load(tensor)?;
        match (packing, layout) {
            // Packed like the codes; rows begin at byte boundaries.
            (Packing::Bits { bits, columns, .. }, Layout::Blocks { size, .. })
                if !is_float(tensor) =>
            {
                let blocks = columns.div_ceil(size);
                let row_bytes = (blocks * bits).div_ceil(8);
                let rows = bytes.all().len() / row_bytes.max(1);
                let zero = |at| f32::from(packed(bytes.all(), bits, blocks, row_bytes, at));
                Ok((0..rows * blocks).map(zero).collect())
            }
            _ => Ok(bytes.numbers()),
        }
    }

    /// Bytes of the scales and zero points of a weight.
    pub fn description(&self, weight: &Weight) -> u64 {
        let Source::Quantized(by) = &weight.source else { return 0 };
        let bytes = |name: &String| self.flow.tensors.get(name).map_or(0, |tensor| tensor.bytes());
        // Products of scales are counted with their factors.
        let of_scale = if let [scale] = &by.scales[..] { bytes(scale) } else { 0 };
        of_scale + by.zero.as_ref().map_or(0, bytes)
    }

    /// Bytes of a weight in the file.
    pub fn size(&self, weight: &Weight) -> u64 {
        self.flow.tensors.get(&weight.held_as).map_or(0, |tensor| tensor.bytes())
    }

    /// Returns the numbers of a tensor.
    ///
    /// # Errors
    /// Under the conditions of [`Weights::numbers`].
    pub fn plain(&self, name: &str) -> Result<Vec<f32>, ReadError> {
        Ok(self.bytes(name)?.numbers())
    }

    fn bytes(&self, name: &str) -> Result<Bytes<'_>, ReadError> {
        Bytes::load(self.tensor(name)?)
    }

    fn tensor(&self, name: &str) -> Result<&Tensor, ReadError> {
        let found = self.flow.tensors.get(name).map(|tensor| &**tensor);
        found.ok_or_else(|| ReadError::Tensor {
            name: name.to_owned(),
            reason: "the graph uses it, but the file does not contain it".into(),
        })
    }

    /// Removes unread tensors that are identical in both models.
    ///
    /// # Errors
    /// A file beside a model cannot be read.
    pub fn forget_same_unread(&mut self, other: &mut Self) -> Result<(), ReadError> {
        let mut same = (HashSet::new(), HashSet::new());
        for name in &self.unread {
            let tensor = self.tensor(name)?;
            let is_like =
                |other: &Tensor| (tensor.element, &tensor.shape) == (other.element, &other.shape);
            for twin in &other.unread {
                let found = other.tensor(twin)?;
                if is_like(found)
                    && !same.1.contains(twin)
                    && Bytes::load(tensor)?.all() == Bytes::load(found)?.all()
                {
                    same.0.insert(name.clone());
                    same.1.insert(twin.clone());
                    break;
                }
            }
        }
        self.unread.retain(|name| !same.0.contains(name));
        other.unread.retain(|name| !same.1.contains(name));
        Ok(())
    }

    /// Descriptions of tensors that are not understood, and the bits in which they may contain
    /// weights.
    pub fn not_read(&self) -> (Vec<String>, u64) {
        let tensor = |name: &String| {
            let tensor = &self.flow.tensors[name];
            format!("'{name}' ({} {:?})", tensor.element.name(), tensor.shape)
        };
        let bits = |name: &String| self.flow.tensors[name].bytes().saturating_mul(8);
        let all = self.unread.iter().map(tensor).chain(self.flow.hidden.iter().cloned());
        // Hidden data may have any size.
        let is_hidden = !self.flow.hidden.is_empty();
        let bits = self.unread.iter().map(bits).fold(0, u64::saturating_add);
        (all.collect(), if is_hidden { u64::MAX } else { bits })
    }

    /// Multiplies a plain weight by a factor for each slice along the first dimension.
    pub fn scale(&mut self, name: &str, factors: Vec<f32>) {
        let found = self.all.iter_mut().find(|weight| weight.held_as == name);
        if let Some(weight) = found.filter(|weight| matches!(weight.source, Source::Plain)) {
            weight.source = Source::Scaled(factors);
        }
    }

    /// Removes weights and inserts computed numbers in the place of the first.
    pub fn replace(&mut self, names: &[&str], bias: &str, values: Vec<f32>, greatest: f32) {
        let first = self.all.iter().find(|weight| names.contains(&weight.held_as.as_str()));
        let Some(first) = first.cloned() else { return };
        self.all.retain(|weight| !names.contains(&weight.held_as.as_str()));
        self.all.push(Weight {
            name: bias.to_owned(),
            held_as: bias.to_owned(),
            element: Element::F32,
            shape: vec![values.len()],
            slot: ("Conv".into(), 2),
            source: Source::Computed(values, greatest),
            ..first
        });
    }
}

/// Removes the suffixes of quantizers.
fn base(name: &str) -> &str {
    let ends = ["_quantized", "_quant", "_Q4", "_Q8"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

fn product(some: &[f32], others: &[f32]) -> Option<Vec<f32>> {
    let (one, several) = if some.len() == 1 { (some, others) } else { (others, some) };
    let [factor] = one else { return None };
    Some(several.iter().map(|value| value * factor).collect())
}

/// Returns the assignment of scales to codes, and the packing of codes; `None` if the axis does not
/// exist.
fn layout(
    by: &Quantization,
    tensor: &Tensor,
    shape: &[usize],
    scales: usize,
) -> Option<(Layout, Packing)> {
    let packing = if by.computed.is_some() { Packing::Rounded } else { Packing::Elements };
    let axis_of = |axis: i64| {
        let rank = shape.len() as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        usize::try_from(axis).ok().filter(|&axis| axis < shape.len())
    };
    let inner = |axis: usize| shape[axis + 1..].iter().product::<usize>();
    let layout = match by.kind {
        ScaleKind::Packed { rows, columns, block, bits } => {
            let row_bytes = columns.div_ceil(block) * (block * bits / 8);
            let is_whole = tensor.bytes() >= (rows * row_bytes) as u64;
            let packing = Packing::Bits { bits, columns, row_bytes };
            let layout = Layout::Blocks { len: columns, inner: 1, size: block };
            return is_whole.then_some((layout, packing));
        }
        _ if scales == 1 => Layout::Whole,
        ScaleKind::Axis(axis) => {
            let axis = axis_of(axis)?;
            Layout::Axis { len: shape[axis], inner: inner(axis) }
        }
        ScaleKind::FirstOrLast => Layout::Axis { len: *shape.first()?, inner: inner(0) },
        ScaleKind::Blocks { axis, size } => {
            let axis = axis_of(axis)?;
            Layout::Blocks { len: shape[axis], inner: inner(axis), size }
        }
        ScaleKind::Slices { len, inner } => Layout::Axis { len, inner },
    };
    Some((layout, packing))
}

fn limits(element: Element) -> (i64, i64) {
    match element {
        Element::I2 => (-2, 1),
        Element::U2 => (0, 3),
        Element::I4 => (-8, 7),
        Element::U4 => (0, 15),
        Element::I8 => (-128, 127),
        Element::U8 => (0, 255),
        Element::I16 => (-32_768, 32_767),
        Element::U16 => (0, 65_535),
        // Codes of floating-point numbers are clamped where they are computed.
        element if SmallFloat::from_element(element).is_some() => (0, 0),
        _ => (i64::from(i32::MIN), i64::from(i32::MAX)),
    }
}
