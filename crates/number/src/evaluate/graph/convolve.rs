//! Layouts of images, and convolutions in groups.

use super::super::stage::{Shape, Sliding};
use super::step::StepError;
use super::target::Context;
use super::tensor::{Mismatch, Tensor, zeros};
use crate::codec::Conversion;
use crate::format::Format;

/// Images of shape `[N, channels, rows, columns]` or `[N, channels, columns]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Images {
    count: usize,
    has_rows: bool,
}

impl Images {
    /// Returns the dimensions of as many images of another shape.
    pub fn dims(self, shape: Shape) -> Vec<usize> {
        let Shape { height, width, channels } = shape;
        if self.has_rows {
            vec![self.count, channels, height, width]
        } else {
            vec![self.count, channels, width]
        }
    }
}

/// Checks that a tensor consists of images of the given shape.
///
/// # Errors
/// The tensor has other dimensions.
pub(super) fn image(x: &Tensor, shape: Shape) -> Result<Images, Mismatch> {
    let Shape { height, width, channels } = shape;
    match x.dims[..] {
        [count, c, h, w] if [c, h, w] == [channels, height, width] => {
            Ok(Images { count, has_rows: true })
        }
        [count, c, w] if [c, 1, w] == [channels, height, width] => {
            Ok(Images { count, has_rows: false })
        }
        _ => Err(format!("is fed {:?}, not {channels} x {height} x {width}", x.dims)),
    }
}

/// Reorders from channel, row, column to row, column, channel.
pub(super) fn to_pixels(values: &[f32], shape: Shape) -> Vec<f32> {
    turned(values, shape.channels, shape.pixels())
}

/// Reorders from row, column, channel to channel, row, column.
pub(super) fn of_pixels(values: &[f32], shape: Shape) -> Vec<f32> {
    turned(values, shape.pixels(), shape.channels)
}

/// Transposes matrices of `rows` x `columns` elements.
fn turned(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    if rows == 1 || columns == 1 {
        return values.to_vec();
    }
    let mut to = Vec::with_capacity(values.len());
    for matrix in values.chunks_exact(rows * columns) {
        for column in 0..columns {
            to.extend(matrix[column..].iter().step_by(columns));
        }
    }
    to
}

/// A convolution in groups of channels, or with dilations: computed row by row, tap by tap.
#[derive(Debug)]
pub(super) struct GroupedConvolution {
    pub groups: usize,
    pub sliding: Sliding,
    pub dilations: [usize; 2],
    pub input: Shape,
    pub output: Shape,
    pub bias: Option<Vec<f32>>,
}

impl GroupedConvolution {
    pub fn run(
        &self,
        target: usize,
        x: &Tensor,
        context: &mut Context<'_>,
    ) -> Result<Tensor, StepError> {
        let images = image(x, self.input)?;
        let prepared = &context.prepared[target];
        let weights = std::sync::Arc::clone(&prepared.weights);
        let format = prepared.input;
        let macs = weights.len() * self.output.pixels() * images.count;
        context.record(target, &x.values, macs as u64);
        let mut quantised = Vec::new();
        let mut values = &x.values[..];
        if format != Format::F32 {
            quantised.extend_from_slice(values);
            format.quantise_slice(&mut quantised, Conversion::default())?;
            values = &quantised;
        }
        let mut to = zeros(&[images.count, self.output.len()])?;
        if let Some(bias) = &self.bias {
            let channels = to.chunks_exact_mut(self.output.pixels()).zip(bias.iter().cycle());
            channels.for_each(|(channel, bias)| channel.fill(*bias));
        }
        let image =
            values.chunks_exact(self.input.len()).zip(to.chunks_exact_mut(self.output.len()));
        image.for_each(|(from, to)| self.convolve(from, &weights, to));
        Ok(Tensor::new(images.dims(self.output), to))
    }

    fn convolve(&self, from: &[f32], weights: &[f32], to: &mut [f32]) {
        let (each_in, each_out) =
            (self.input.channels / self.groups, self.output.channels / self.groups);
        let [rows, columns] = self.sliding.kernel;
        let taps = rows * columns;
        for (output, to) in to.chunks_exact_mut(self.output.pixels()).enumerate() {
            let group = output / each_out;
            for channel in 0..each_in {
                let at = (group * each_in + channel) * self.input.pixels();
                let from = &from[at..at + self.input.pixels()];
                for tap in 0..taps {
                    let weight = weights[(output * each_in + channel) * taps + tap];
                    self.add(from, [tap / columns, tap % columns], weight, to);
                }
            }
        }
    }

    /// Adds one tap of a channel, times its weight.
    fn add(&self, from: &[f32], tap: [usize; 2], weight: f32, to: &mut [f32]) {
        let Sliding { strides, pads, .. } = self.sliding;
        let width = self.input.width;
        let out = self.output.width;
        let reach = |axis: usize| tap[axis] * self.dilations[axis];
        for (y, to) in to.chunks_exact_mut(out).enumerate() {
            let Some(row) = (y * strides[0] + reach(0)).checked_sub(pads[0]) else { continue };
            if row >= self.input.height {
                continue;
            }
            let from = &from[row * width..][..width];
            // First output column whose tap is inside the image, and the end of such columns.
            let first = pads[1].saturating_sub(reach(1)).div_ceil(strides[1]);
            let end = (width + pads[1]).saturating_sub(reach(1)).div_ceil(strides[1]).min(out);
            if first >= end {
                continue;
            }
            let start = first * strides[1] + reach(1) - pads[1];
            let inputs = from[start..].iter().step_by(strides[1]);
            to[first..end].iter_mut().zip(inputs).for_each(|(to, x)| *to += weight * x);
        }
    }
}
