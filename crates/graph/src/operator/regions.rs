//! `RoiAlign`: averages of an image around points of regions.

use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Value, zeros};

/// Maximum numbers of points along one axis of a region, and of all its points, to bound the work.
const MOST_ALONG: usize = 1 << 20;
const MOST_POINTS: usize = 1 << 26;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if name(reader) != ("", "RoiAlign") {
        return Ok(None);
    }
    // The standard does not state whether the maximum is that of pixels or of points between them.
    if reader.text("mode", "avg")? != "avg" {
        return Err("a mode other than 'avg' is not supported".into());
    }
    let default = if reader.version < 16 { "output_half_pixel" } else { "half_pixel" };
    let is_shifted = match reader.text("coordinate_transformation_mode", default)? {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return Err(format!("coordinates '{other}' are not supported")),
    };
    let size = |name: &'static str, default: i64| -> Result<usize, String> {
        let found = reader.int(name, default)?;
        usize::try_from(found).map_err(|_| format!("expected a size in '{name}', found {found}"))
    };
    let aligner = Aligner {
        cells: [size("output_height", 1)?, size("output_width", 1)?],
        points: size("sampling_ratio", 0)?,
        scale: reader.float("spatial_scale", 1.0)?,
        is_shifted,
    };
    one(move |frame| aligner.align(frame.input(0)?, frame.input(1)?, frame.input(2)?))
}

struct Aligner {
    /// Rows and columns of the output.
    cells: [usize; 2],
    /// Points along each axis of a cell; with 0, about one for each pixel.
    points: usize,
    /// Pixels per unit of the regions.
    scale: f32,
    /// Whether 0 is the edge of the first pixel, instead of its center.
    is_shifted: bool,
}

/// Both pixels of an axis that are next to a point, with their shares. A point far outside has none.
type Neighbors = Option<[(usize, f32); 2]>;

impl Aligner {
    fn align(&self, image: &Value, regions: &Value, images: &Value) -> Result<Value, String> {
        let (&[batch, channels, height, width], &[count, 4]) = (image.dims(), regions.dims())
        else {
            let found = (image.dims(), regions.dims());
            return Err(format!("expected an image and regions of four numbers, found {found:?}"));
        };
        let images = images.integers()?;
        if images.len() != count {
            return Err(format!(
                "expected an image for each of {count} regions, found {}",
                images.len()
            ));
        }
        if height == 0 || width == 0 {
            return Err(format!("expected pixels, found an image of {:?}", image.dims()));
        }
        let (from, corners) = (image.all::<f32>()?, regions.all::<f32>()?);
        let [rows, columns] = self.cells;
        let dims = [count, channels, rows, columns];
        let mut to = zeros::<f32>(&dims)?;
        let shift = if self.is_shifted { 0.5 } else { 0.0 };
        for (region, index) in images.iter().enumerate() {
            let image = usize::try_from(*index).ok().filter(|image| *image < batch);
            let image =
                image.ok_or_else(|| format!("expected an image below {batch}, found {index}"))?;
            let corner = |at: usize| corners[region * 4 + at] * self.scale - shift;
            let down = self.points_of([corner(1), corner(3)], rows, height)?;
            let right = self.points_of([corner(0), corner(2)], columns, width)?;
            let [down_points, right_points]: [usize; 2] =
                [&down, &right].map(|cells| cells.iter().map(Vec::len).sum());
            if down_points.saturating_mul(right_points) > MOST_POINTS {
                return Err(format!(
                    "a region has {down_points} x {right_points} points, more than {MOST_POINTS}"
                ));
            }
            for channel in 0..channels {
                let plane = &from[(image * channels + channel) * height * width..];
                let start = (region * channels + channel) * rows * columns;
                for (row, down) in down.iter().enumerate() {
                    for (column, right) in right.iter().enumerate() {
                        to[start + row * columns + column] = average(plane, width, down, right);
                    }
                }
            }
        }
        Value::new(dims, to)
    }

    /// Returns the points of each cell of a region, along an axis of `size` pixels.
    fn points_of(
        &self,
        [start, end]: [f32; 2],
        cells: usize,
        size: usize,
    ) -> Result<Vec<Vec<Neighbors>>, String> {
        if !(start.is_finite() && end.is_finite()) {
            return Err(format!("expected finite regions, found one from {start} to {end}"));
        }
        let extent = if self.is_shifted { end - start } else { (end - start).max(1.0) };
        let cell = extent / cells as f32;
        let points = if self.points > 0 { self.points } else { cell.ceil().max(0.0) as usize };
        if points.saturating_mul(cells) > MOST_ALONG {
            return Err(format!(
                "a region from {start} to {end} has more than {MOST_ALONG} points along an axis"
            ));
        }
        let place = |index: usize, point: usize| {
            start + index as f32 * cell + (point as f32 + 0.5) * cell / points as f32
        };
        let all = |index: usize| {
            (0..points).map(|at| neighbors(place(index, at), size)).collect::<Vec<_>>()
        };
        Ok((0..cells).map(all).collect())
    }
}

/// Returns the pixels next to a place. Up to one pixel outside, the pixel at the edge counts.
fn neighbors(place: f32, size: usize) -> Neighbors {
    let last = size - 1;
    if !(-1.0..=size as f32).contains(&place) {
        return None;
    }
    let place = place.max(0.0);
    let low = (place as usize).min(last);
    let share = if low == last { 0.0 } else { place - low as f32 };
    Some([(low, 1.0 - share), ((low + 1).min(last), share)])
}

/// Returns the average of the points of a cell. Those outside of the image are 0.
fn average(plane: &[f32], width: usize, down: &[Neighbors], right: &[Neighbors]) -> f32 {
    let mut sum = 0.0;
    for (row, by) in down.iter().flatten().flatten() {
        for (column, bx) in right.iter().flatten().flatten() {
            sum += plane[row * width + column] * by * bx;
        }
    }
    sum / (down.len() * right.len()).max(1) as f32
}
