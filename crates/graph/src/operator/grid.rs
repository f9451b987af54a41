//! `GridSample`: pixels of an image at the places that a grid names.

use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Value, zeros};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if name(reader) != ("", "GridSample") {
        return Ok(None);
    }
    let mode = match reader.text("mode", "linear")? {
        "linear" | "bilinear" => Mode::Linear,
        "nearest" => Mode::Nearest,
        "cubic" | "bicubic" => Mode::Cubic,
        other => return Err(format!("mode '{other}' is not supported")),
    };
    let padding = match reader.text("padding_mode", "zeros")? {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => return Err(format!("padding_mode '{other}' is not supported")),
    };
    let sampler = Sampler { mode, padding, aligns_corners: reader.flag("align_corners")? };
    reader.expect_rank(0, 4)?;
    one(move |frame| sampler.sample(frame.input(0)?, frame.input(1)?))
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// Pixels outside of the image.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    /// The nearest pixel inside.
    Border,
    /// Mirrored pixels.
    Reflection,
}

#[derive(Clone, Copy)]
struct Sampler {
    mode: Mode,
    padding: Padding,
    /// Whether -1 and 1 are the centers of the outermost pixels, instead of their outer edges.
    aligns_corners: bool,
}

impl Sampler {
    fn sample(self, image: &Value, grid: &Value) -> Result<Value, String> {
        let (&[batch, channels, height, width], &[_, rows, columns, 2]) =
            (image.dims(), grid.dims())
        else {
            let found = (image.dims(), grid.dims());
            return Err(format!(
                "expected an image and a grid of two coordinates, found {found:?}"
            ));
        };
        if grid.dims()[0] != batch || height == 0 || width == 0 {
            return Err(format!("expected a grid for {:?}, found {:?}", image.dims(), grid.dims()));
        }
        let (from, places) = (image.all::<f32>()?, grid.all::<f32>()?);
        let dims = [batch, channels, rows, columns];
        let mut to = zeros::<f32>(&dims)?;
        let (plane, count) = (height * width, rows * columns);
        for at in 0..batch * count {
            let (row, point) = (at / count, at % count);
            let x = self.parts(places[at * 2], width);
            let y = self.parts(places[at * 2 + 1], height);
            for channel in 0..channels {
                let image = &from[(row * channels + channel) * plane..][..plane];
                let mut sum = 0.0;
                for (line, by) in y.into_iter().flatten() {
                    for (pixel, bx) in x.into_iter().flatten() {
                        sum += image[line * width + pixel] * by * bx;
                    }
                }
                to[(row * channels + channel) * count + point] = sum;
            }
        }
        Value::new(dims, to)
    }

    /// Returns the neighbors of a coordinate on an axis of `size` pixels, with their shares. Pixels of
    /// zeros, and those that the mode does not read, are missing.
    fn parts(self, coordinate: f32, size: usize) -> [Option<(usize, f32)>; 4] {
        let pixels = size as f32;
        let (least, most) =
            if self.aligns_corners { (0.0, pixels - 1.0) } else { (-0.5, pixels - 0.5) };
        let place = least + (coordinate + 1.0) / 2.0 * (most - least);
        let place = if self.mode == Mode::Nearest { place.round_ties_even() } else { place };
        let place = match self.padding {
            // A cubic place outside keeps its distances to pixels, as in ONNX Runtime and PyTorch.
            _ if self.mode == Mode::Cubic => place,
            Padding::Border => place.clamp(0.0, pixels - 1.0),
            Padding::Reflection => reflected(place, least, most),
            Padding::Zeros => place,
        };
        let first = place.floor();
        let t = place - first;
        let shares = match self.mode {
            Mode::Nearest => [None, Some(1.0), None, None],
            Mode::Linear => [None, Some(1.0 - t), Some(t), None],
            Mode::Cubic => cubic(t).map(Some),
        };
        let pixel = |at: usize| self.index(first + at as f32 - 1.0, [least, most], size);
        std::array::from_fn(|at| shares[at].and_then(|share| Some((pixel(at)?, share))))
    }

    /// Returns the index of a pixel that may be outside.
    fn index(self, pixel: f32, [least, most]: [f32; 2], size: usize) -> Option<usize> {
        let last = size as f32 - 1.0;
        let inside = match self.padding {
            Padding::Zeros => pixel,
            Padding::Border => pixel.clamp(0.0, last),
            Padding::Reflection => reflected(pixel, least, most).clamp(0.0, last),
        };
        // False for NaN, too.
        (0.0..=last).contains(&inside).then_some(inside as usize)
    }
}

/// Returns a coordinate that is mirrored at two borders until it is between them.
fn reflected(place: f32, least: f32, most: f32) -> f32 {
    let range = most - least;
    if range <= 0.0 {
        return least;
    }
    let turns = (place - least).rem_euclid(2.0 * range);
    least + if turns > range { 2.0 * range - turns } else { turns }
}

/// Returns the shares of four pixels for a place at the fraction `t` between the inner two.
fn cubic(t: f32) -> [f32; 4] {
    const A: f32 = -0.75;
    let near = |t: f32| ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0;
    let far = |t: f32| A * (((t - 5.0) * t + 8.0) * t - 4.0);
    [far(1.0 + t), near(t), near(1.0 - t), far(2.0 - t)]
}
