//! Convolutions: products of windows, with channels last, and packed weights.

use std::sync::OnceLock;

use dyno_kernels::{Isa, LANES, PlaneAxis, Windows, Words, convolve_planes};

use super::direct::{DirectConvolution, fills_vectors};
use super::product::{Operand, PackedMatrix};
use super::sliding::{Axis, Padding, Sliding};
use super::{layout, name, one};
use crate::buffers::Buffers;
use crate::node::{NodeReader, Operation};
use crate::session::Workspace;
use crate::value::{Number, Value, count, zeros};

/// Groups with fewer outputs would leave most of a panel empty.
const FEW_OUTPUTS: usize = 8;
/// Windows of so many numbers are multiplied with packed weights. This moves the image and the sums,
/// but leaves no vector partly empty.
const LONG: usize = 1 << 10;
/// Maximum rows of a window of the depthwise kernel, which lists those of each row of sums.
const MAX_WINDOW_ROWS: usize = 64;
/// Pixels and windows that are moved at a time: as many as a cache line has numbers.
const TILE: usize = 16;
/// Numbers of the windows that are copied at a time.
const COPIED: usize = 1 << 16;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator @ ("Conv" | "ConvTranspose")) = name(reader) else { return Ok(None) };
    let convolution = Convolution::read(reader)?;
    let Convolution { groups, .. } = convolution;
    if operator == "ConvTranspose" {
        return transposed(reader, convolution.sliding, groups);
    }
    let constant = match reader.constant(1) {
        Some(weights) => {
            reader.consume(1);
            Some(Filters::new(weights, groups)?)
        }
        None => None,
    };
    one(move |frame| {
        let packed;
        let filters = match &constant {
            Some(filters) => filters,
            None => {
                packed = Filters::new(frame.input(1)?, groups)?;
                &packed
            }
        };
        let bias = frame.get(2).map(|bias| bias.all::<f32>()).transpose()?;
        filters.convolve(frame.workspace, frame.input(0)?, bias, &convolution)
    })
}

/// Attributes of a convolution.
pub(super) struct Convolution {
    sliding: Sliding,
    groups: usize,
}

impl Convolution {
    pub fn read(reader: &NodeReader<'_>) -> Result<Self, String> {
        let groups = usize::try_from(reader.int("group", 1)?).ok().filter(|n| *n > 0);
        let groups = groups.ok_or("expected at least one group")?;
        Ok(Self { sliding: Sliding::read(reader)?, groups })
    }

    pub fn groups(&self) -> usize {
        self.groups
    }
}

/// Dimensions of a convolution's weights.
pub(super) struct FilterDims {
    pub groups: usize,
    /// Channels and filters of a group.
    pub channels: usize,
    pub outputs: usize,
    kernel: Vec<usize>,
}

impl FilterDims {
    pub fn new(weights: &Value, groups: usize) -> Result<Self, String> {
        let &[filters, channels, ref kernel @ ..] = weights.dims() else {
            return Err("expected weights of filters and channels".into());
        };
        if !filters.is_multiple_of(groups) || weights.is_empty() {
            return Err(format!("cannot divide {filters} filters into {groups} groups"));
        }
        Ok(Self { groups, channels, outputs: filters / groups, kernel: kernel.to_vec() })
    }

    /// Returns whether the products of a group are computed without packed weights.
    pub fn is_plain(&self) -> bool {
        self.groups > 1 && self.outputs < FEW_OUTPUTS
    }

    /// Returns whether windows have at most two axes, and not many rows.
    fn has_flat_windows(&self) -> bool {
        match self.kernel[..] {
            [_] => true,
            [rows, _] => rows <= MAX_WINDOW_ROWS,
            _ => false,
        }
    }

    /// Returns the weights of a filter.
    pub fn window(&self) -> usize {
        self.channels * self.kernel.iter().product::<usize>()
    }

    /// Returns the channels of a pixel, in whole words.
    fn whole_channels<T: Operand>(&self) -> usize {
        self.channels.next_multiple_of(T::PER_WORD)
    }

    /// Packs the filters of each group.
    fn pack_groups(&self, numbers: &[f32]) -> Vec<PackedMatrix> {
        let groups = numbers.chunks_exact(self.outputs * self.window());
        groups.map(|group| self.pack(group)).collect()
    }

    /// Packs the filters of a group, with the channels as the last axis.
    pub fn pack<T: Operand>(&self, group: &[f32]) -> PackedMatrix<T> {
        let places: usize = self.kernel.iter().product();
        let rest = self.whole_channels::<T>() - self.channels;
        let mut turned = Vec::with_capacity(group.len());
        for filter in group.chunks_exact(self.channels * places) {
            for at in 0..places {
                turned.extend((0..self.channels).map(|channel| filter[channel * places + at]));
                turned.extend(std::iter::repeat_n(0.0, rest));
            }
        }
        PackedMatrix::new(self.whole_channels::<T>() * places, &turned)
    }

    /// Convolves images with these dimensions. `compute` computes the outputs of a group: it receives
    /// the group, its channels of an image, its bias, and the place of its outputs, all of which it replaces.
    pub fn convolve<U, S: Number>(
        &self,
        buffers: &Buffers,
        (dims, from): (&[usize], &[U]),
        bias: Option<&[S]>,
        convolution: &Convolution,
        mut compute: impl FnMut(usize, &[U], &[Axis; 3], (Option<&[S]>, &mut [S])) -> Result<(), String>,
    ) -> Result<Value, String> {
        let &[images, channels, ref sizes @ ..] = dims else {
            return Err("expected channels".into());
        };
        if channels != self.channels * self.groups {
            let expected = self.channels * self.groups;
            return Err(format!("expected {expected} channels, found {channels}"));
        }
        let filters = self.outputs * self.groups;
        if bias.is_some_and(|bias| bias.len() != filters) {
            return Err(format!("expected {filters} biases"));
        }
        let axes = convolution.sliding.axes(sizes, Some(&self.kernel))?;
        let mut dims = vec![images, filters];
        dims.extend(axes[3 - sizes.len()..].iter().map(|axis| axis.windows));
        let mut to: Vec<S> = buffers.stale(&dims)?;
        let windows: usize = axes.iter().map(|axis| axis.windows).product();
        let input = self.channels * sizes.iter().product::<usize>();
        let output = self.outputs * windows;
        for at in 0..images * self.groups {
            let group = at % self.groups;
            let bias = bias.map(|bias| &bias[group * self.outputs..][..self.outputs]);
            let to = &mut to[at * output..][..output];
            compute(group, &from[at * input..][..input], &axes, (bias, to))?;
        }
        Value::new(dims, to)
    }

    /// Computes the bias and the products of all windows of an image. `convert` returns the number of an element;
    /// `padding` is the number around the image.
    pub fn add_packed<T: Operand, U: Copy>(
        &self,
        isa: Isa,
        (image, axes): (&[U], &[Axis; 3]),
        (padding, convert): (T, impl Fn(U) -> T),
        weights: &PackedMatrix<T>,
        (bias, to): (Option<&[T::Sum]>, &mut [T::Sum]),
    ) -> Result<(), String> {
        let windows = to.len() / self.outputs;
        for (filter, to) in to.chunks_exact_mut(windows.max(1)).enumerate() {
            to.fill(bias.map_or_else(Default::default, |bias| bias[filter]));
        }
        let channels = [self.channels, self.whole_channels::<T>()];
        let pixels = with_channels_last(image, channels, axes, padding, convert)?;
        packed(isa, &pixels, channels[1], axes, weights, to);
        Ok(())
    }
}

/// Bias of a group, and the place of its outputs.
type Output<'b, 't> = (Option<&'b [f32]>, &'t mut [f32]);

/// Weights of a convolution.
pub(super) struct Filters {
    dims: FilterDims,
    weights: Weights,
}

enum Weights {
    /// Filters x channels x kernel. The first image whose windows do not fill vectors packs them, too.
    Plain(Value, OnceLock<Vec<PackedMatrix>>),
    /// Packed filters of each group.
    Packed(Vec<PackedMatrix>),
    /// Filters x kernel; all planes of an image are one group.
    Planes(Value),
}

impl Filters {
    pub fn new(weights: &Value, groups: usize) -> Result<Self, String> {
        let dims = FilterDims::new(weights, groups)?;
        let numbers = weights.all::<f32>()?;
        if dims.is_plain() && dims.channels == 1 && dims.has_flat_windows() {
            let FilterDims { groups, outputs, kernel, .. } = dims;
            let dims =
                FilterDims { groups: 1, channels: groups, outputs: outputs * groups, kernel };
            return Ok(Self { dims, weights: Weights::Planes(weights.clone()) });
        }
        let weights = if dims.window() < LONG || dims.is_plain() {
            Weights::Plain(weights.clone(), OnceLock::new())
        } else {
            Weights::Packed(dims.pack_groups(numbers))
        };
        Ok(Self { dims, weights })
    }

    pub fn convolve(
        &self,
        workspace: &Workspace,
        value: &Value,
        bias: Option<&[f32]>,
        convolution: &Convolution,
    ) -> Result<Value, String> {
        let (isa, buffers) = (workspace.isa, &workspace.buffers);
        let value = (value.dims(), value.all::<f32>()?);
        match &self.weights {
            Weights::Planes(weights) => {
                let (weights, planes) = (weights.all::<f32>()?, self.dims.channels);
                let sums = |_: usize, image: &[f32], axes: &[Axis; 3], to: Output<'_, '_>| {
                    convolve_planes(isa, plane_axes(axes)?, (image, planes), (weights, to.0), to.1);
                    Ok(())
                };
                self.dims.convolve(buffers, value, bias, convolution, sums)
            }
            Weights::Plain(weights, packed) => {
                let size = self.dims.outputs * self.dims.window();
                let weights = weights.all::<f32>()?;
                let (channels, mut direct) = (self.dims.channels, None);
                let sums = |group: usize, image: &[f32], axes: &[Axis; 3], to: Output<'_, '_>| {
                    if !self.dims.is_plain() && !fills_vectors(axes) {
                        let groups = packed.get_or_init(|| self.dims.pack_groups(weights));
                        let image = (image, axes);
                        return self.dims.add_packed(isa, image, (0.0, |x| x), &groups[group], to);
                    }
                    let direct = match &mut direct {
                        Some(direct) => direct,
                        empty => empty.insert(DirectConvolution::new(buffers, channels, axes)?),
                    };
                    direct.run(isa, image, (&weights[group * size..][..size], to.0), to.1);
                    Ok(())
                };
                let found = self.dims.convolve(buffers, value, bias, convolution, sums);
                if let Some(direct) = direct {
                    direct.release(buffers);
                }
                found
            }
            Weights::Packed(groups) => {
                self.dims.convolve(buffers, value, bias, convolution, |group, image, axes, to| {
                    self.dims.add_packed(isa, (image, axes), (0.0, |x| x), &groups[group], to)
                })
            }
        }
    }
}

/// Returns the last two axes. A column becomes a row, whose windows fill vectors.
///
/// # Errors
/// Rows with padding, or the places of the rows of all windows, do not fit into memory.
fn plane_axes([_, y, x]: &[Axis; 3]) -> Result<[PlaneAxis; 2], String> {
    let [y, x] = if x.padded() == 1 { [x, y] } else { [y, x] };
    // The attributes of a single window may have any stride.
    let stride = |axis: &Axis| if axis.windows == 1 { 1 } else { axis.stride };
    let [y, x] = [y, x].map(|axis| Axis { stride: stride(axis), ..*axis });
    let phases = x.stride.min((x.kernel - 1) * x.dilation + 1);
    count(&[y.padded() + 1, x.padded() + 2 * phases * LANES], size_of::<f32>())?;
    count(&[y.windows, y.kernel], size_of::<usize>())?;
    Ok([y, x].map(|axis| {
        let Axis { size, kernel, stride, dilation, before, windows, .. } = axis;
        PlaneAxis { size, kernel, stride, dilation, before, windows }
    }))
}

/// Adds the products of all windows of an image, whose pixels have their channels next to each
/// other.
fn packed<T: Operand>(
    isa: Isa,
    pixels: &[T],
    channels: usize,
    axes: &[Axis; 3],
    weights: &PackedMatrix<T>,
    to: &mut [T::Sum],
) {
    let [_, height, width] = axes.map(|axis| axis.padded());
    let [z, y, x] = *axes;
    let total = z.windows * y.windows * x.windows;
    let start = |window: usize| {
        let (plane, at) = (window / (y.windows * x.windows), window % (y.windows * x.windows));
        let row = plane * z.stride * height + at / x.windows * y.stride;
        (row * width + at % x.windows * x.stride) * channels
    };
    let mut put = |first: usize, sums: &[T::Sum], width: usize| {
        for (tile, sums) in sums.chunks(TILE * width).enumerate() {
            let (first, rows) = (first + tile * TILE, sums.len() / width);
            for (output, to) in to.chunks_exact_mut(total).enumerate() {
                let to = to[first..][..rows].iter_mut();
                to.zip(sums.chunks_exact(width)).for_each(|(to, sums)| *to += sums[output]);
            }
        }
    };
    // Places of a window that follow each other at one distance.
    let runs = if z.kernel == 1 && (x.dilation == 1 || x.kernel == 1) {
        Some((y.kernel, x.kernel * channels, y.dilation * width * channels))
    } else if z.kernel == 1 && y.kernel == 1 {
        Some((x.kernel, channels, x.dilation * channels))
    } else {
        None
    };
    if let Some((runs, run, apart)) = runs {
        let (starts, run): (Vec<usize>, _) = ((0..total).map(start).collect(), run / T::PER_WORD);
        let windows = Windows { words: T::words(pixels), starts: &starts, runs, run, apart };
        weights.each_block(isa, &windows, put);
        return;
    }
    let k = z.kernel * y.kernel * x.kernel * channels;
    let rows = (COPIED / k).clamp(1, total.max(1));
    let (starts, run): (Vec<usize>, _) = ((0..rows).map(|row| row * k).collect(), k / T::PER_WORD);
    let mut copied = Vec::with_capacity(rows * k);
    for first in (0..total).step_by(rows) {
        copied.clear();
        let count = rows.min(total - first);
        for window in first..first + count {
            for (i, j, l) in places(axes) {
                let row = i * z.dilation * height + j * y.dilation;
                let at = start(window) + (row * width + l * x.dilation) * channels;
                copied.extend_from_slice(&pixels[at..][..channels]);
            }
        }
        let starts = &starts[..count];
        let windows = Windows { words: T::words(&copied), starts, runs: 1, run, apart: 0 };
        weights.each_block(isa, &windows, |block, sums, width| put(first + block, sums, width));
    }
}

/// Places of a window.
pub(super) fn places(axes: &[Axis; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    let [z, y, x] = axes.map(|axis| axis.kernel);
    (0..z * y * x).map(move |at| (at / (y * x), at / x % y, at % x))
}

/// Returns an image with padding, and with the channels of each pixel next to each other: those of
/// the image, and `padding` as further ones up to `step`.
fn with_channels_last<U: Copy, T: Copy>(
    image: &[U],
    [channels, step]: [usize; 2],
    axes: &[Axis; 3],
    padding: T,
    convert: impl Fn(U) -> T,
) -> Result<Vec<T>, String> {
    let padded = axes.map(|axis| axis.padded());
    let size = count(&[padded[0], padded[1], padded[2], step], size_of::<T>())?;
    let mut pixels = vec![padding; size];
    let sizes = axes.map(|axis| axis.size);
    let plane = sizes.iter().product::<usize>();
    // Without padding, a plane is one row.
    let [depth, height, width] = if padded == sizes { [1, 1, plane] } else { sizes };
    for row in 0..depth * height {
        let (z, y) = (row / height + axes[0].before, row % height + axes[1].before);
        let start = ((z * padded[1] + y) * padded[2] + axes[2].before) * step;
        let to = &mut pixels[start..][..width * step];
        for (tile, to) in to.chunks_mut(TILE * step).enumerate() {
            let first = row * width + tile * TILE;
            for channel in 0..channels {
                let from = &image[channel * plane + first..][..to.len() / step];
                let to = to[channel..].iter_mut().step_by(step);
                to.zip(from).for_each(|(to, x)| *to = convert(*x));
            }
        }
    }
    Ok(pixels)
}

fn transposed(
    reader: &NodeReader<'_>,
    sliding: Sliding,
    groups: usize,
) -> Result<Option<Operation>, String> {
    let (extra, shape) = (reader.sizes("output_padding")?, reader.sizes("output_shape")?);
    let pack = move |weights: &Value| -> Result<TransposedFilters, String> {
        let &[channels, outputs, ref kernel @ ..] = weights.dims() else {
            return Err("expected weights of channels and filters".into());
        };
        let all = weights.all::<f32>()?;
        if !channels.is_multiple_of(groups) || all.is_empty() {
            return Err(format!("cannot divide {channels} channels into {groups} groups"));
        }
        let channels = channels / groups;
        let columns = outputs * kernel.iter().product::<usize>();
        let group = |numbers: &[f32]| -> Result<PackedMatrix, String> {
            let matrix = Value::new(vec![channels, columns], numbers.to_vec())?;
            Ok(PackedMatrix::new(channels, layout::transposed(&matrix, None)?.all()?))
        };
        let parts = all.chunks_exact(channels * columns).map(group).collect::<Result<_, _>>()?;
        let dims = FilterDims { groups, channels, outputs, kernel: kernel.to_vec() };
        Ok(TransposedFilters { dims, groups: parts })
    };
    let constant = reader.constant(1).map(&pack).transpose()?;
    if constant.is_some() {
        reader.consume(1);
    }
    one(move |frame| {
        let isa = frame.workspace.isa;
        let packed;
        let filters = match &constant {
            Some(filters) => filters,
            None => {
                packed = pack(frame.input(1)?)?;
                &packed
            }
        };
        let bias = frame.get(2).map(|bias| bias.all::<f32>()).transpose()?;
        let value = frame.input(0)?;
        let axes = spread(&sliding, value, filters, (extra.as_deref(), shape.as_deref()))?;
        filters.spread(isa, value, bias, &axes)
    })
}

/// Returns the axes of a transposed convolution: `size` is that of its output, `windows` of its input.
fn spread(
    sliding: &Sliding,
    value: &Value,
    filters: &TransposedFilters,
    (extra, shape): (Option<&[usize]>, Option<&[usize]>),
) -> Result<Vec<Axis>, String> {
    let &[_, _, ref sizes @ ..] = value.dims() else { return Err("expected channels".into()) };
    let rank = filters.dims.kernel.len();
    let fits = |given: Option<&[usize]>| given.is_none_or(|given| given.len() == rank);
    if sizes.len() != rank || !fits(extra) || !fits(shape) {
        return Err(format!("expected {rank} spatial axes"));
    }
    let mut axes = Vec::new();
    for (at, numbers) in sliding.numbers(&filters.dims.kernel)?.into_iter().enumerate() {
        let [kernel, stride, dilation, before, after] = numbers;
        let extra = extra.map_or(0, |extra| extra[at]);
        let reach = (kernel - 1).checked_mul(dilation).ok_or("sizes overflow")?;
        let last = sizes[at].checked_sub(1).ok_or("expected elements")?.checked_mul(stride);
        let whole = last.and_then(|n| n.checked_add(reach + 1)?.checked_add(extra));
        let whole = whole.ok_or("sizes overflow")?;
        let asked = match (shape, sliding.padding()) {
            (Some(shape), _) => Some(shape[at]),
            (None, Padding::SameUpper | Padding::SameLower) => sizes[at].checked_mul(stride),
            _ => None,
        };
        let (before, after) = match asked {
            Some(asked) => padding_for(asked, whole, sliding.padding())?,
            None if sliding.padding() == Padding::None => (0, 0),
            None => (before, after),
        };
        let size = asked.or_else(|| whole.checked_sub(before.checked_add(after)?));
        let size = size.ok_or("padding exceeds the output")?;
        count(&[size, 4], 1)?;
        axes.push(Axis { size, kernel, stride, dilation, before, after, windows: sizes[at] });
    }
    Ok(axes)
}

/// Returns the padding of an output of `asked` elements, when all windows cover `whole` ones.
///
/// # Errors
/// The output exceeds the windows. The standard halves the negative padding, without a rule for the
/// rounding. Its test `convtranspose_output_shape` shows that one element more is at the end, unless
/// the padding is `SAME_UPPER`.
fn padding_for(asked: usize, whole: usize, padding: Padding) -> Result<(usize, usize), String> {
    let beyond = asked.saturating_sub(whole);
    if beyond > usize::from(padding != Padding::SameUpper) {
        return Err(format!(
            "the standard does not define an output of {asked} elements if windows cover {whole}"
        ));
    }
    let total = whole.saturating_sub(asked);
    let less = total / 2;
    Ok(if padding == Padding::SameUpper { (less, total - less) } else { (total - less, less) })
}

/// Weights of a transposed convolution.
struct TransposedFilters {
    dims: FilterDims,
    /// Packed filters of each group.
    groups: Vec<PackedMatrix>,
}

impl TransposedFilters {
    /// Computes a transposed convolution: each element of the input adds a window to the output.
    fn spread(
        &self,
        isa: Isa,
        value: &Value,
        bias: Option<&[f32]>,
        own: &[Axis],
    ) -> Result<Value, String> {
        let (images, found) = (value.dims()[0], value.dims()[1]);
        let FilterDims { groups, channels, outputs, .. } = self.dims;
        let filters = outputs * groups;
        if found != channels * groups {
            return Err(format!("expected {} channels, found {found}", channels * groups));
        }
        if let Some(bias) = bias.filter(|bias| bias.len() != filters) {
            return Err(format!("expected {filters} biases, found {}", bias.len()));
        }
        let mut axes =
            [Axis { size: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0, windows: 1 };
                3];
        axes[3 - own.len()..].copy_from_slice(own);
        let mut dims = vec![images, filters];
        dims.extend(own.iter().map(|axis| axis.size));
        let mut to: Vec<f32> = zeros(&dims)?;
        let plane: usize = axes.iter().map(|axis| axis.size).product();
        let total: usize = axes.iter().map(|axis| axis.windows).product();
        let grouped = value.clone().reshaped(vec![images * groups, channels, total])?;
        let pixels = layout::transposed(&grouped, Some(&[0, 2, 1]))?;
        let pixels = pixels.all::<f32>()?;
        let starts: Vec<usize> = (0..total).map(|at| at * channels).collect();
        let window: usize = axes.iter().map(|axis| axis.kernel).product();
        for (at, to) in to.chunks_exact_mut((outputs * plane).max(1)).enumerate() {
            let group = at % groups;
            if let Some(bias) = bias {
                let bias = &bias[group * outputs..];
                to.chunks_exact_mut(plane.max(1)).zip(bias).for_each(|(to, bias)| to.fill(*bias));
            }
            let weights = &self.groups[group];
            let words = Words::F32(&pixels[at * total * channels..][..total * channels]);
            let windows = Windows { words, starts: &starts, runs: 1, run: channels, apart: 0 };
            weights.each_block(isa, &windows, |first, sums, width| {
                for (row, sums) in sums.chunks_exact(width).enumerate() {
                    add_window(first + row, &sums[..outputs * window], &axes, to);
                }
            });
        }
        Value::new(dims, to)
    }
}

/// Adds a window of filters x kernel numbers to filters x output.
pub(super) fn add_window(window: usize, sums: &[f32], axes: &[Axis; 3], to: &mut [f32]) {
    let [z, y, x] = *axes;
    let index =
        [window / (y.windows * x.windows), window / x.windows % y.windows, window % x.windows];
    let kernel = z.kernel * y.kernel * x.kernel;
    for (at, (i, j, l)) in places(axes).enumerate() {
        let (Some(i), Some(j), Some(l)) = (z.at(index[0], i), y.at(index[1], j), x.at(index[2], l))
        else {
            continue;
        };
        let place = (i * y.size + j) * x.size + l;
        let to = to.iter_mut().skip(place).step_by(z.size * y.size * x.size);
        to.zip(sums.iter().skip(at).step_by(kernel)).for_each(|(to, sum)| *to += sum);
    }
}
