//! GridSample of images.

use super::{Operator, operator};
use crate::call::Call;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, position};

pub(super) const OPERATORS: &[Operator] =
    &[operator("GridSample", 16, 2, &["align_corners", "mode", "padding_mode"], grid_sample)];

/// Mirrors a coordinate at the borders until it lies between them.
fn reflect(mut x: f64, low: f64, high: f64) -> f64 {
    if high <= low {
        return low;
    }
    // Whole periods are removed first, so that the loop ends soon.
    let period = 2.0 * (high - low);
    x -= (x / period).trunc() * period;
    while x < low || x > high {
        x = if x < low { 2.0 * low - x } else { 2.0 * high - x };
    }
    x
}

/// Returns the weight of a pixel at a distance from 0 to 2, by the cubic convolution with `a` = -0.75.
fn cubic_weight(t: f64) -> f64 {
    let a = -0.75;
    if t <= 1.0 {
        (a + 2.0) * t.powi(3) - (a + 3.0) * t.powi(2) + 1.0
    } else {
        a * t.powi(3) - 5.0 * a * t.powi(2) + 8.0 * a * t - 4.0 * a
    }
}

/// How a coordinate becomes a place, and a place outside becomes a pixel.
struct Sampler {
    mode: String,
    padding: String,
    aligns: bool,
}

impl Sampler {
    fn borders(&self, size: usize) -> (f64, f64) {
        if self.aligns { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64 - 0.5) }
    }

    /// Moves a coordinate from between -1 and 1 to between the borders.
    fn denormalized(&self, normal: f64, size: usize) -> f64 {
        let (low, high) = self.borders(size);
        low + (normal + 1.0) / 2.0 * (high - low)
    }

    /// Returns the place of a coordinate, inside of the borders if the padding asks for it.
    fn place(&self, normal: f64, size: usize) -> f64 {
        let (low, high) = self.borders(size);
        let x = self.denormalized(normal, size);
        let x = if self.mode == "nearest" { x.round_ties_even() } else { x };
        match self.padding.as_str() {
            "border" => x.clamp(0.0, size as f64 - 1.0),
            "reflection" => reflect(x, low, high),
            _ => x,
        }
    }

    /// Returns the pixel at a whole place; `None` outside of the image with `zeros`.
    fn pixel(&self, x: f64, size: usize) -> Option<usize> {
        let (low, high) = self.borders(size);
        let last = size as f64 - 1.0;
        let x = if self.padding == "reflection" { reflect(x, low, high) } else { x };
        let x = if self.padding == "zeros" { x } else { x.clamp(0.0, last) };
        (0.0..=last).contains(&x).then_some(x as usize)
    }

    /// Interpolates at a place, from the pixels that `at` returns for a row and a column.
    fn sample(&self, y: f64, x: f64, at: impl Fn(f64, f64) -> f64) -> f64 {
        let (left, top) = (x.floor(), y.floor());
        let (right, down) = (x - left, y - top);
        match self.mode.as_str() {
            "nearest" => at(y, x),
            "cubic" | "bicubic" => {
                let steps = [-1.0, 0.0, 1.0, 2.0];
                let weigh = |row: f64, column: f64| {
                    let weight = cubic_weight((row - y).abs()) * cubic_weight((column - x).abs());
                    at(row, column) * weight
                };
                let line = |row: f64| steps.map(|step| weigh(row, left + step)).iter().sum::<f64>();
                steps.map(|step| line(top + step)).iter().sum()
            }
            _ => {
                at(top, left) * (1.0 - down) * (1.0 - right)
                    + at(top, left + 1.0) * (1.0 - down) * right
                    + at(top + 1.0, left) * down * (1.0 - right)
                    + at(top + 1.0, left + 1.0) * down * right
            }
        }
    }
}

fn grid_sample(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (image, grid) = (call.input(0)?, call.input(1)?);
    let (&[batch, channels, height, width], &[rows_of_grid, rows, columns, 2]) =
        (image.shape(), grid.shape())
    else {
        return fault(format!("an image {:?} with a grid {:?}", image.shape(), grid.shape()));
    };
    if rows_of_grid != batch || height == 0 || width == 0 {
        return fault(format!("an image {:?} with a grid {:?}", image.shape(), grid.shape()));
    }
    let mode = call.text("mode", "linear")?;
    if !matches!(mode.as_str(), "linear" | "bilinear" | "nearest" | "cubic" | "bicubic") {
        return fault("attribute \"mode\" is not supported");
    }
    let padding = call.text("padding_mode", "zeros")?;
    if !matches!(padding.as_str(), "zeros" | "border" | "reflection") {
        return fault(format!("padding_mode {padding:?} is not supported"));
    }
    let sampler = Sampler { mode, padding, aligns: call.flag("align_corners", false)? };
    let shape = [batch, channels, rows, columns];
    call.spend_shape(&shape)?;
    let (from, places) = (image.as_floats()?, grid.as_floats()?);
    if places.iter().any(|x| !x.is_finite()) {
        return fault("a place of the grid is infinite or NaN");
    }
    let is_outside = |normal: f64, size: usize| {
        !(0.0..=size as f64 - 1.0).contains(&sampler.denormalized(normal, size))
    };
    let mut points = places.chunks_exact(2);
    if matches!(sampler.mode.as_str(), "cubic" | "bicubic")
        && sampler.padding == "border"
        && points.any(|point| is_outside(point[0], width) || is_outside(point[1], height))
    {
        // ONNX Runtime and the standard's reference implementation differ.
        return fault("the standard does not define a cubic place outside of the border");
    }
    let mut values = Vec::new();
    crate::tensor::for_each_index(&shape, |index| {
        let &[n, c, i, j] = index else { return };
        let start = position(&[n, i, j, 0], grid.shape());
        let (x, y) = (places[start], places[start + 1]);
        let at = |y: f64, x: f64| match (sampler.pixel(y, height), sampler.pixel(x, width)) {
            (Some(y), Some(x)) => from[position(&[n, c, y, x], image.shape())],
            _ => 0.0,
        };
        values.push(sampler.sample(sampler.place(y, height), sampler.place(x, width), at));
    });
    Ok(vec![Tensor::of_floats(image.element(), &shape, values)?])
}
