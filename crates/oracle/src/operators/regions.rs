//! RoiAlign.

use super::{Operator, operator};
use crate::call::{Call, size_of};
use crate::fault::{Fault, fault};
use crate::tensor::Tensor;

const ROI_ALIGN: &[&str] = &[
    "coordinate_transformation_mode",
    "mode",
    "output_height",
    "output_width",
    "sampling_ratio",
    "spatial_scale",
];

pub(super) const OPERATORS: &[Operator] = &[operator("RoiAlign", 10, 3, ROI_ALIGN, roi_align)];

/// Interpolates between four pixels. More than one pixel outside of the image there is 0.
fn bilinear(plane: &[f64], [height, width]: [usize; 2], y: f64, x: f64) -> f64 {
    if y < -1.0 || y > height as f64 || x < -1.0 || x > width as f64 {
        return 0.0;
    }
    let near = |place: f64, size: usize| {
        let place = place.clamp(0.0, (size - 1) as f64);
        let low = place.floor() as usize;
        (low, (low + 1).min(size - 1), place - place.floor())
    };
    let ((top, bottom, down), (left, right, along)) = (near(y, height), near(x, width));
    let row =
        |row: usize| plane[row * width + left] * (1.0 - along) + plane[row * width + right] * along;
    row(top) * (1.0 - down) + row(bottom) * down
}

/// Returns the places of the points of all cells along one axis of `size` pixels.
fn places(
    call: &Call<'_>,
    [start, end]: [f64; 2],
    [cells, size]: [usize; 2],
    least: f64,
) -> Result<Vec<f64>, Fault> {
    let cell = (end - start).max(least) / cells as f64;
    let ratio = call.integer("sampling_ratio", 0)?;
    let points = if ratio > 0 {
        size_of(ratio)?
    } else {
        // Rounding may decide between two numbers of points.
        call.note_choice(cell, cell.round());
        cell.ceil().clamp(0.0, 1e12) as usize
    };
    call.spend_product(&[cells, points])?;
    let all = (0..cells).flat_map(|index| (0..points).map(move |point| (index, point)));
    let place = |(index, point): (usize, usize)| {
        start + (index as f64 + (point as f64 + 0.5) / points as f64) * cell
    };
    let places: Vec<f64> = all.map(place).collect();
    // Rounding may decide whether a point near the last place that counts is 0.
    for place in &places {
        call.note_choice(*place, -1.0);
        call.note_choice(*place, size as f64);
    }
    Ok(places)
}

fn roi_align(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (image, regions, images) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (&[batch, channels, height, width], &[count, 4]) = (image.shape(), regions.shape()) else {
        return fault(format!("an image {:?} with regions {:?}", image.shape(), regions.shape()));
    };
    let images = images.as_integers()?;
    let [rows, columns] = [call.integer("output_height", 1)?, call.integer("output_width", 1)?];
    let (rows, columns) = (size_of(rows)?, size_of(columns)?);
    if images.len() != count || [height, width, rows, columns].contains(&0) {
        return fault(format!("an image {:?} with regions {:?}", image.shape(), regions.shape()));
    }
    if call.text("mode", "avg")? != "avg" {
        return fault("attribute \"mode\" is not supported");
    }
    let default = if call.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    // Regions without a shift have at least one pixel.
    let (shift, least) = match call.text("coordinate_transformation_mode", default)?.as_str() {
        "half_pixel" => (0.5, f64::NEG_INFINITY),
        "output_half_pixel" => (0.0, 1.0),
        other => {
            return fault(format!("coordinate_transformation_mode {other:?} is not supported"));
        }
    };
    let scale = call.float("spatial_scale", 1.0)?;
    let shape = [count, channels, rows, columns];
    call.spend_shape(&shape)?;
    let (from, corners) = (image.as_floats()?, regions.as_floats()?);
    if corners.iter().any(|corner| !corner.is_finite()) {
        return fault("a corner of a region is infinite or NaN");
    }
    let mut values = Vec::new();
    for (region, index) in images.iter().enumerate() {
        let index = size_of(*index)?;
        if index >= batch {
            return fault(format!("image {index} of {batch}"));
        }
        let corner = |at: usize| corners[region * 4 + at] * scale - shift;
        let y = places(call, [corner(1), corner(3)], [rows, height], least)?;
        let x = places(call, [corner(0), corner(2)], [columns, width], least)?;
        call.spend_product(&[channels, y.len(), x.len()])?;
        values.extend(averages(
            from,
            [channels, height, width],
            index,
            [(&y[..], rows), (&x[..], columns)],
        ));
    }
    Ok(vec![Tensor::of_floats(image.element(), &shape, values)?])
}

/// Returns the averages of the points of each cell, for all channels of an image. The points are those of
/// all cells along both axes.
fn averages(
    from: &[f64],
    [channels, height, width]: [usize; 3],
    image: usize,
    [(y, rows), (x, columns)]: [(&[f64], usize); 2],
) -> Vec<f64> {
    let (down, right) = (y.len() / rows, x.len() / columns);
    let mut values = Vec::new();
    for channel in 0..channels {
        let plane = &from[(image * channels + channel) * height * width..][..height * width];
        for cell in 0..rows * columns {
            let y = &y[cell / columns * down..][..down];
            let x = &x[cell % columns * right..][..right];
            let points = y.iter().flat_map(|y| x.iter().map(move |x| (*y, *x)));
            let sum: f64 = points.map(|(y, x)| bilinear(plane, [height, width], y, x)).sum();
            values.push(sum / (down * right).max(1) as f64);
        }
    }
    values
}
