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
    let is_nearest = match mode.as_str() {
        "linear" | "bilinear" => false,
        "nearest" => true,
        _ => return fault("attribute \"mode\" is not supported"),
    };
    let padding = call.text("padding_mode", "zeros")?;
    if !matches!(padding.as_str(), "zeros" | "border" | "reflection") {
        return fault(format!("padding_mode {padding:?} is not supported"));
    }
    let aligns = call.flag("align_corners", false)?;
    let borders = |size: usize| {
        if aligns { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64 - 0.5) }
    };
    // From -1 and 1 to the borders, and back into them.
    let place = |normal: f64, size: usize| {
        let (low, high) = borders(size);
        let x = low + (normal + 1.0) / 2.0 * (high - low);
        let x = if is_nearest { x.round_ties_even() } else { x };
        match padding.as_str() {
            "border" => x.clamp(0.0, size as f64 - 1.0),
            "reflection" => reflect(x, low, high),
            _ => x,
        }
    };
    let pixel = |x: f64, size: usize| {
        let (low, high) = borders(size);
        let last = size as f64 - 1.0;
        let x = if padding == "reflection" { reflect(x, low, high) } else { x };
        let x = if padding == "zeros" { x } else { x.clamp(0.0, last) };
        (0.0..=last).contains(&x).then_some(x as usize)
    };
    let shape = [batch, channels, rows, columns];
    call.spend_shape(&shape)?;
    let (from, places) = (image.as_floats()?, grid.as_floats()?);
    if places.iter().any(|x| !x.is_finite()) {
        return fault("a place of the grid is infinite or NaN");
    }
    let mut values = Vec::new();
    crate::tensor::for_each_index(&shape, |index| {
        let &[n, c, i, j] = index else { return };
        let start = position(&[n, i, j, 0], grid.shape());
        let (x, y) = (place(places[start], width), place(places[start + 1], height));
        let at = |y: f64, x: f64| match (pixel(y, height), pixel(x, width)) {
            (Some(y), Some(x)) => from[position(&[n, c, y, x], image.shape())],
            _ => 0.0,
        };
        let (left, top) = (x.floor(), y.floor());
        let (right, down) = (x - left, y - top);
        values.push(if is_nearest {
            at(y, x)
        } else {
            at(top, left) * (1.0 - down) * (1.0 - right)
                + at(top, left + 1.0) * (1.0 - down) * right
                + at(top + 1.0, left) * down * (1.0 - right)
                + at(top + 1.0, left + 1.0) * down * right
        });
    });
    Ok(vec![Tensor::of_floats(image.element(), &shape, values)?])
}
