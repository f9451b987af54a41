//! Stages of a network: a product, and the operators on its sums.
//!
//! Values of an image are ordered by row, pixel and channel, the last fastest. A window of a
//! convolution is then one run of numbers for each of its rows.

mod integer;

use std::sync::Arc;

use dyno_kernels::convert::Grid;
use dyno_kernels::{
    Isa, LANES, Panels, Precision, WindowWeights, Windows, Words, multiply_windows,
};

pub use self::integer::{FloatReason, ProductPath};

pub(super) use self::integer::IntegerWidth;
use self::integer::{IntegerProduct, IntegerWord};
use super::pool::Pool;
use crate::codec::{Conversion, NanError};
use crate::format::Format;
use crate::network::LayerKind;

/// Rows that are multiplied together, so that weights stay in a near cache.
const ROWS: usize = 64;

/// Shape of the values of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
}

impl Shape {
    pub fn len(self) -> usize {
        self.pixels() * self.channels
    }

    pub fn pixels(self) -> usize {
        self.height * self.width
    }
}

/// How a kernel moves over an image. Rows come first, then columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sliding {
    pub kernel: [usize; 2],
    pub strides: [usize; 2],
    /// Top, left, bottom, right.
    pub pads: [usize; 4],
}

/// Pixels of an output that any input may have.
const MOST_PIXELS: usize = 1 << 20;
/// Pixels of a greater output for each pixel of its input. A small file may ask for any padding,
/// and the output would not fit into memory.
const MOST_GROWTH: usize = 16;

/// Returns the rows and columns of an output, unless it is far greater than its input.
fn bounded(size: [usize; 2], input: Shape) -> Option<[usize; 2]> {
    let pixels = size[0].checked_mul(size[1])?;
    let most = input.pixels().saturating_mul(MOST_GROWTH).max(MOST_PIXELS);
    (pixels <= most).then_some(size)
}

impl Sliding {
    /// Returns the rows and columns of the output; `None` if the kernel does not fit, or the output
    /// is far greater than the input.
    pub fn over(&self, input: Shape) -> Option<[usize; 2]> {
        let places = |size: usize, at: usize| {
            let room = size.checked_add(self.pads[at])?.checked_add(self.pads[at + 2])?;
            (room.checked_sub(self.kernel[at])? / self.strides[at]).checked_add(1)
        };
        bounded([places(input.height, 0)?, places(input.width, 1)?], input)
    }

    /// Returns the rows and columns of a pool with `ceil_mode`: the last window may reach beyond
    /// the padding if it begins within the input or the padding before it.
    pub fn over_all(&self, input: Shape) -> Option<[usize; 2]> {
        let places = |size: usize, at: usize| {
            let begun = size.checked_add(self.pads[at])?;
            let room = begun.checked_add(self.pads[at + 2])?;
            let steps = room.checked_sub(self.kernel[at])?.div_ceil(self.strides[at]);
            steps.min(begun.checked_sub(1)? / self.strides[at]).checked_add(1)
        };
        bounded([places(input.height, 0)?, places(input.width, 1)?], input)
    }
}

/// A product and the operators after it. The first stage may have no product.
#[derive(Debug)]
pub(super) struct Stage {
    pub product: Option<Product>,
    pub after: Vec<PostOp>,
    pub input: Shape,
    pub output: Shape,
}

/// A convolution, or a fully connected layer, which is a convolution whose kernel is as large as
/// its input.
#[derive(Debug)]
pub(super) struct Product {
    pub name: String,
    /// Name of the weights in the model.
    pub tensor: String,
    pub kind: LayerKind,
    pub sliding: Sliding,
    /// Outputs x rows x columns x channels of the kernel.
    pub weights: Vec<f32>,
    /// Shape of the product's output.
    pub output: Shape,
}

/// An operator on sums.
#[derive(Debug, Clone)]
pub(super) enum PostOp {
    /// One number per channel.
    Bias(Vec<f32>),
    Relu,
    LeakyRelu(f32),
    Clip(f32, f32),
    MaxPool(Pool),
    AveragePool {
        pool: Pool,
        counts_padding: bool,
    },
    Softmax,
    /// Orders the values of an image of this shape by channel, row and pixel, as one list.
    ByChannels(Shape),
}

impl PostOp {
    /// Returns whether the operator is monotone and independent of the position. A maximum may then
    /// be taken before it.
    fn is_rising(&self) -> bool {
        match self {
            Self::Bias(_) | Self::Relu | Self::Clip(..) => true,
            Self::LeakyRelu(slope) => *slope >= 0.0,
            Self::MaxPool(_) | Self::AveragePool { .. } | Self::Softmax | Self::ByChannels(_) => {
                false
            }
        }
    }
}

impl Stage {
    /// Moves max pools before monotone operators, which then process fewer numbers. The result is
    /// equal, because rounding is monotone too.
    pub fn pool_first(&mut self) {
        for last in 1..self.after.len() {
            let mut at = last;
            while at > 0
                && matches!(self.after[at], PostOp::MaxPool(_))
                && self.after[at - 1].is_rising()
            {
                self.after.swap(at - 1, at);
                at -= 1;
            }
        }
    }
}

/// How a product is computed in the formats of its weights and inputs.
#[derive(Debug)]
pub(super) struct Layout {
    /// Offsets of the windows of as many images as are multiplied together, in numbers.
    starts: Vec<usize>,
    images: usize,
    runs: usize,
    /// Length of a run in numbers. Words of several numbers may reach beyond it.
    run: usize,
    apart: usize,
    integer: Result<IntegerProduct, FloatReason>,
    weight: Format,
    activation: Format,
    /// Parameters of the vector kernel that quantizes activations, if there is one.
    grid: Option<Grid>,
}

impl Layout {
    pub fn new(product: &Product, input: Shape, [weight, activation]: [Format; 2]) -> Self {
        let Sliding { kernel, strides, pads } = product.sliding;
        let padded = Shape {
            height: input.height + pads[0] + pads[2],
            width: input.width + pads[1] + pads[3],
            channels: input.channels,
        };
        let row = padded.width * padded.channels;
        let (mut run, mut runs) = (kernel[1] * padded.channels, kernel[0]);
        if run == row {
            (run, runs) = (run * runs, 1);
        }
        let steps = [strides[0] * row, strides[1] * padded.channels];
        let output = product.output;
        let images = (ROWS / output.pixels()).max(1);
        let start = |at: usize| {
            let (image, pixel) = (at / output.pixels(), at % output.pixels());
            let (y, x) = (pixel / output.width, pixel % output.width);
            image * padded.len() + y * steps[0] + x * steps[1]
        };
        Self {
            starts: (0..images * output.pixels()).map(start).collect(),
            images,
            runs,
            run,
            apart: row,
            integer: IntegerProduct::new([weight, activation], [runs, run]),
            weight,
            activation,
            grid: activation.grid(Conversion::default()),
        }
    }

    /// Returns the width of its integers, if it multiplies integers.
    pub fn integer_width(&self) -> Option<IntegerWidth> {
        self.integer.ok().map(|integer| integer.width)
    }

    /// Quantizes values to the format of activations, as integers.
    ///
    /// # Errors
    /// A value is NaN, and the format has none.
    fn narrowed<T: IntegerWord>(
        &self,
        unit: f32,
        values: &[f32],
        quantised: &mut Vec<f32>,
        to: &mut Vec<T>,
    ) -> Result<(), NanError> {
        to.resize(values.len(), T::ZERO);
        if let Some(grid) = &self.grid {
            return if T::all(Isa::best(), grid, unit, values, to) {
                self.activation.found_nan(values)
            } else {
                Ok(())
            };
        }
        quantised.clear();
        quantised.extend_from_slice(values);
        self.activation.quantise_slice(quantised, Conversion::default())?;
        to.iter_mut().zip(quantised).for_each(|(to, x)| *to = T::one(*x / unit));
        Ok(())
    }

    /// Returns how it multiplies.
    pub fn path(&self) -> ProductPath {
        match self.integer {
            Ok(IntegerProduct { width: IntegerWidth::Int8, .. }) => ProductPath::Bytes,
            Ok(IntegerProduct { width: IntegerWidth::Int16, .. }) => ProductPath::Int16,
            Err(reason) => ProductPath::F32(reason),
        }
    }

    /// Returns the weights in their format, in the order of the kernels.
    ///
    /// # Errors
    /// A weight is NaN, and the format has none.
    pub fn pack(&self, product: &Product) -> Result<WindowWeights, NanError> {
        let mut weights = product.weights.clone();
        if self.weight != Format::F32 {
            self.weight.quantise_slice(&mut weights, Conversion::default())?;
        }
        Ok(self.ordered(product.output.channels, weights))
    }

    /// Returns weights that are values of their format in the order of the kernels.
    pub fn ordered(&self, outputs: usize, mut weights: Vec<f32>) -> WindowWeights {
        let per_word = self.integer_width().map_or(1, IntegerWidth::per_word);
        if !self.run.is_multiple_of(per_word) {
            // Each run ends at a word boundary.
            let zeros = self.run.next_multiple_of(per_word) - self.run;
            let ended = |run: &[f32]| [run, &vec![0.0; zeros]].concat();
            weights = weights.chunks_exact(self.run).flat_map(ended).collect();
        }
        let k = weights.len() / outputs;
        let vectors = outputs.div_ceil(LANES).clamp(1, 4);
        let units = outputs.div_ceil(vectors * LANES) * LANES;
        let zeros = vec![0.0; k];
        let row = |vector: usize, unit: usize| {
            let output = (unit / LANES * vectors + vector) * LANES + unit % LANES;
            if output < outputs { &weights[output * k..][..k] } else { &zeros[..] }
        };
        match self.integer {
            Ok(IntegerProduct { width: IntegerWidth::Int8, units: [unit, _] }) => {
                Panels::pack_whole(vectors, units, k, unit, row).into()
            }
            Ok(IntegerProduct { width: IntegerWidth::Int16, units: [unit, _] }) => {
                WindowWeights::int16(vectors, units, k, unit, row)
            }
            Err(_) => Panels::pack(Precision::F32, vectors, units, k, row).into(),
        }
    }
}

/// A product with its weights in their format.
#[derive(Debug)]
pub(super) struct PreparedProduct {
    pub layout: Layout,
    pub weights: Arc<WindowWeights>,
    pub isa: Isa,
}

/// Memory of a thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    input: Vec<f32>,
    padded: Vec<f32>,
    bytes: [Vec<u8>; 2],
    int16: [Vec<i16>; 2],
    sums: Vec<f32>,
    pooled: Vec<f32>,
}

impl Stage {
    /// Computes the output of some images.
    ///
    /// # Errors
    /// A value is NaN, and its format has none.
    pub fn run(
        &self,
        ready: Option<&PreparedProduct>,
        from: &[f32],
        to: &mut Vec<f32>,
        scratch: &mut Scratch,
    ) -> Result<(), NanError> {
        to.clear();
        let images = ready.map_or(1, |ready| ready.layout.images);
        for group in from.chunks(images * self.input.len()) {
            let images = group.len() / self.input.len();
            let stride = match (&self.product, ready) {
                (Some(product), Some(ready)) => {
                    self.multiply(product, ready, group, scratch)?;
                    ready.weights.width()
                }
                _ => {
                    room(&mut scratch.sums, group.len()).copy_from_slice(group);
                    self.input.channels
                }
            };
            let (values, stride) = self.finish(stride, images, scratch);
            let channels = self.output.channels;
            if stride == channels {
                to.extend_from_slice(values);
                continue;
            }
            for pixel in values.chunks_exact(stride) {
                to.extend_from_slice(&pixel[..channels]);
            }
        }
        Ok(())
    }

    fn multiply(
        &self,
        product: &Product,
        ready: &PreparedProduct,
        group: &[f32],
        scratch: &mut Scratch,
    ) -> Result<(), NanError> {
        let images = group.len() / self.input.len();
        let Layout { runs, run, apart, activation, .. } = ready.layout;
        let pads = product.sliding.pads;
        let Scratch { input, padded, bytes, int16, sums, .. } = scratch;
        let (words, run) = match ready.layout.integer {
            Ok(IntegerProduct { width, units: [_, unit] }) => {
                let words = match width {
                    IntegerWidth::Int8 => {
                        let bytes = self.integers(ready, group, unit, pads, input, bytes)?;
                        Words::Bytes { bytes, unit }
                    }
                    IntegerWidth::Int16 => {
                        let numbers = self.integers(ready, group, unit, pads, input, int16)?;
                        Words::Int16 { numbers, unit }
                    }
                };
                (words, run.div_ceil(width.per_word()))
            }
            Err(_) => {
                let mut values = group;
                if activation != Format::F32 {
                    input.clear();
                    input.extend_from_slice(group);
                    activation.quantise_slice(input, Conversion::default())?;
                    values = input;
                }
                if pads != [0; 4] {
                    pad(values, self.input, pads, 0.0, padded);
                    values = padded;
                }
                (Words::F32(values), run)
            }
        };
        let rows = images * product.output.pixels();
        let sums = room(sums, rows * ready.weights.width());
        let windows = Windows { words, starts: &ready.layout.starts[..rows], runs, run, apart };
        multiply_windows(ready.isa, &windows, &ready.weights, sums);
        Ok(())
    }

    /// Returns the values of some images as integers, with padding around each image, and with as
    /// many zeros at the end as a word may reach beyond.
    fn integers<'a, T: IntegerWord>(
        &self,
        ready: &PreparedProduct,
        group: &[f32],
        unit: f32,
        pads: [usize; 4],
        quantised: &mut Vec<f32>,
        [numbers, padded]: &'a mut [Vec<T>; 2],
    ) -> Result<&'a [T], NanError> {
        ready.layout.narrowed(unit, group, quantised, numbers)?;
        if pads != [0; 4] {
            pad(numbers, self.input, pads, T::ZERO, padded);
            std::mem::swap(numbers, padded);
        }
        numbers.extend([T::ZERO; size_of::<u32>()]);
        Ok(numbers)
    }

    /// Applies the operators after the product to the sums of some images, whose pixels are
    /// `stride` apart. Returns the result and its stride.
    fn finish<'a>(
        &self,
        mut stride: usize,
        images: usize,
        scratch: &'a mut Scratch,
    ) -> (&'a [f32], usize) {
        let Scratch { sums, pooled, .. } = scratch;
        let mut pixels =
            self.product.as_ref().map_or(self.input, |product| product.output).pixels();
        for after in &self.after {
            let values = &mut sums[..images * pixels * stride];
            let pool = match after {
                PostOp::Bias(bias) => {
                    for pixel in values.chunks_exact_mut(stride) {
                        pixel.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
                    }
                    continue;
                }
                PostOp::Relu => {
                    values.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x });
                    continue;
                }
                PostOp::LeakyRelu(slope) => {
                    values.iter_mut().for_each(|x| *x = if *x < 0.0 { slope * *x } else { *x });
                    continue;
                }
                PostOp::Clip(least, most) => {
                    values.iter_mut().for_each(|x| *x = limited(*x, *least, *most));
                    continue;
                }
                PostOp::Softmax => {
                    let channels = self.output.channels;
                    values.chunks_exact_mut(stride).for_each(|row| softmax(&mut row[..channels]));
                    continue;
                }
                PostOp::ByChannels(shape) => {
                    by_channels(values, stride, *shape, room(pooled, images * shape.len()));
                    std::mem::swap(sums, pooled);
                    (stride, pixels) = (shape.len(), 1);
                    continue;
                }
                PostOp::MaxPool(pool) => {
                    let to = room(pooled, images * pool.output.len());
                    pool.largest(values, stride, to);
                    pool
                }
                PostOp::AveragePool { pool, counts_padding } => {
                    let to = room(pooled, images * pool.output.len());
                    let count = |inside: usize, padded: usize| {
                        let pixels = if *counts_padding { padded } else { inside };
                        pixels as f32
                    };
                    pool.run(values, stride, to, |sum, x| sum + x, count);
                    pool
                }
            };
            std::mem::swap(sums, pooled);
            (stride, pixels) = (pool.output.channels, pool.output.pixels());
        }
        (&sums[..images * pixels * stride], stride)
    }
}

/// Returns the first `numbers` elements of the memory, which are not cleared.
fn room(memory: &mut Vec<f32>, numbers: usize) -> &mut [f32] {
    if memory.len() < numbers {
        memory.resize(numbers, 0.0);
    }
    &mut memory[..numbers]
}

/// Copies images whose pixels are `stride` apart, ordered by channel, row and pixel.
fn by_channels(values: &[f32], stride: usize, shape: Shape, to: &mut [f32]) {
    let images = values.chunks_exact(shape.pixels() * stride);
    for (image, to) in images.zip(to.chunks_exact_mut(shape.len())) {
        for (channel, to) in to.chunks_exact_mut(shape.pixels()).enumerate() {
            to.iter_mut()
                .zip(image.chunks_exact(stride))
                .for_each(|(to, pixel)| *to = pixel[channel]);
        }
    }
}

/// Copies images with padding around each.
fn pad<T: Copy>(values: &[T], shape: Shape, pads: [usize; 4], zero: T, to: &mut Vec<T>) {
    let row = shape.width * shape.channels;
    let (left, right) = (pads[1] * shape.channels, pads[3] * shape.channels);
    let whole = left + row + right;
    to.clear();
    let zeros = |to: &mut Vec<T>, count: usize| to.resize(to.len() + count, zero);
    for image in values.chunks_exact(shape.len()) {
        zeros(to, pads[0] * whole);
        for row in image.chunks_exact(row) {
            zeros(to, left);
            to.extend_from_slice(row);
            zeros(to, right);
        }
        zeros(to, pads[2] * whole);
    }
}

/// Returns the greater number, or NaN if one of the two is: `f32::max` would drop it.
pub(super) fn greater(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// Returns the lesser number, or NaN if one of the two is.
pub(super) fn lesser(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

/// Returns the number, or the limit that it exceeds. NaN stays NaN.
pub(super) fn limited(x: f32, least: f32, most: f32) -> f32 {
    let x = if x < least { least } else { x };
    if x > most { most } else { x }
}

pub(super) fn softmax(row: &mut [f32]) {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}
