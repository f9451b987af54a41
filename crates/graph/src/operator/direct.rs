//! Convolutions of images with channels first, by weights as they are in the file.

use dyno_kernels::{Isa, LANES, Phases, WindowRows, convolve, split};

use super::sliding::Axis;
use crate::buffers::Buffers;
use crate::value::{Value, count};

/// Planes of a multiple of this many numbers are copied, since the same places of all of them fall
/// into the same few lines of the caches.
const ALIASED: usize = 1 << 10;
/// Numbers between copied planes, if they would be aliased.
const GAP: usize = 1 << 4;

/// Convolution of images of one size.
pub(super) struct DirectConvolution {
    windows: WindowRows,
    axes: [Axis; 3],
    channels: usize,
    /// Places of the rows in a copied plane.
    rows: Vec<[usize; 2]>,
    /// Numbers of a plane, and of a phase of it.
    plane: usize,
    volume: usize,
    /// Phases of the last axis.
    phases: usize,
    /// The image with padding; empty if it is read in place.
    copied: Vec<f32>,
}

/// Returns the phases of an axis, and the numbers of a phase.
fn phases(axis: Axis) -> (usize, usize) {
    let reach = (axis.kernel - 1) * axis.dilation + 1;
    (axis.stride.min(reach), axis.padded().div_ceil(axis.stride))
}

/// Returns whether windows next to each other fill most of the vectors that compute their sums.
pub(super) fn fills_vectors(axes: &[Axis; 3]) -> bool {
    let [z, y, x] = *axes;
    let is_long = x.windows >= LANES || 4 * x.windows >= 3 * phases(x).1;
    is_long && z.windows * y.windows * x.windows >= LANES
}

impl DirectConvolution {
    pub fn new(buffers: &Buffers, channels: usize, axes: &[Axis; 3]) -> Result<Self, String> {
        let [(nz, qz), (ny, qy), (nx, qx)] = axes.map(phases);
        let [z, y, x] = *axes;
        let volume = count(&[qz, qy, qx], size_of::<f32>())?;
        let plane = count(&[volume, nz, ny, nx], size_of::<f32>())?;
        let is_aliased = plane.is_multiple_of(ALIASED) && channels > 1;
        let plane = if is_aliased { plane + GAP } else { plane };
        let is_plain = axes.iter().all(|axis| axis.stride == 1 && axis.padded() == axis.size);
        let mut copied = Vec::new();
        if !is_plain || is_aliased {
            copied = buffers.room(&[channels, plane])?;
            copied.resize(channels * plane, 0.0);
        }
        let row = |z: usize, y: usize, [step_z, step_y]: [usize; 2]| {
            let phase = z % step_z * ny + y % step_y;
            phase * nx * volume + (z / step_z * qy + y / step_y) * qx
        };
        let mut distances = Vec::new();
        for channel in 0..channels {
            for (i, j) in (0..z.kernel).flat_map(|i| (0..y.kernel).map(move |j| (i, j))) {
                let row = row(i * z.dilation, j * y.dilation, [z.stride, y.stride]);
                distances.extend((0..x.kernel).map(|at| {
                    let at = at * x.dilation;
                    channel * plane + row + at % x.stride * volume + at / x.stride
                }));
            }
        }
        let lines = (0..z.windows).flat_map(|z| (0..y.windows).map(move |y| (z, y)));
        let starts: Vec<usize> = lines.map(|(z, y)| (z * qy + y) * qx).collect();
        let is_dense = starts.iter().enumerate().all(|(at, start)| *start == at * x.windows);
        let windows = if is_dense {
            WindowRows::new(distances, vec![0], starts.len() * x.windows)
        } else {
            WindowRows::new(distances, starts, x.windows)
        };
        let places =
            (0..z.size).flat_map(|i| (0..y.size).map(move |j| (i + z.before, j + y.before)));
        let rows = places.enumerate().filter(|(_, (i, j))| i % z.stride < nz && j % y.stride < ny);
        let rows = rows.map(|(at, (i, j))| [at, row(i, j, [z.stride, y.stride])]).collect();
        Ok(Self { windows, axes: *axes, channels, rows, plane, volume, phases: nx, copied })
    }

    /// Stores the memory of the copied image.
    pub fn release(self, buffers: &Buffers) {
        if let Ok(value) = Value::new(vec![self.copied.len()], self.copied) {
            buffers.store(value);
        }
    }

    /// Computes the sums of all windows of an image with filters, and the bias of each.
    pub fn run(
        &mut self,
        isa: Isa,
        image: &[f32],
        filters: (&[f32], Option<&[f32]>),
        to: &mut [f32],
    ) {
        if self.copied.is_empty() {
            return convolve(isa, &self.windows, image, filters, to);
        }
        let x = self.axes[2];
        let phases = Phases {
            width: x.size,
            before: x.before,
            step: x.stride,
            copied: self.phases,
            apart: self.volume,
            rows: &self.rows,
        };
        for channel in 0..self.channels {
            let size = image.len() / self.channels;
            let to = &mut self.copied[channel * self.plane..];
            split(isa, &phases, &image[channel * size..][..size], to);
        }
        convolve(isa, &self.windows, &self.copied, filters, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters as wide as the image have one window in each row, and the vectors one useful sum.
    #[test]
    fn narrow_rows_and_small_images_do_not_fill_vectors() {
        let axis = |size, kernel, pad, windows| Axis {
            size,
            kernel,
            stride: 1,
            dilation: 1,
            before: pad,
            after: pad,
            windows,
        };
        let one = axis(1, 1, 0, 1);
        for (y, x, expected) in [
            (axis(50, 3, 0, 48), axis(300, 300, 0, 1), false),
            (axis(50, 3, 0, 48), axis(40, 39, 0, 2), false),
            (axis(3, 1, 0, 3), axis(5, 1, 0, 5), false),
            (axis(4, 1, 0, 4), axis(4, 1, 0, 4), true),
            (axis(7, 3, 1, 7), axis(7, 3, 1, 7), true),
            (axis(500, 3, 1, 500), axis(1, 1, 0, 1), true),
            (one, axis(40, 25, 0, 16), true),
            (one, axis(39, 25, 0, 15), false),
        ] {
            assert_eq!(fills_vectors(&[one, y, x]), expected, "{y:?} {x:?}");
        }
    }
}
