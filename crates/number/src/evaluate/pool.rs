//! Pooling layers of chains: the pixels of each window are combined.

use dyno_kernels::{Isa, Pixels, largest};

use super::stage::{Shape, Sliding, greater};

/// Windows that slide over an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pool {
    pub sliding: Sliding,
    pub input: Shape,
    pub output: Shape,
}

impl Pool {
    /// Computes the largest number of each window.
    pub fn largest(&self, from: &[f32], stride: usize, to: &mut [f32]) {
        let Shape { height, width, channels } = self.input;
        let Sliding { kernel, strides, pads } = self.sliding;
        let windows = [self.output.height, self.output.width];
        let reach = |at: usize| (windows[at] - 1) * strides[at] + kernel[at];
        // The kernel drops NaN unless it is the first of a window.
        let has_nan = from.iter().fold(false, |has_nan, x| has_nan | x.is_nan());
        // Windows that reach beyond the image, due to padding or rounding up, have fewer pixels.
        if has_nan || pads != [0; 4] || reach(0) > height || reach(1) > width {
            // Of equal numbers, the first one counts.
            let greater = |a, b| greater(b, a);
            return self.run(from, stride, to, greater, |_, _| 1.0);
        }
        let images = from.chunks_exact(height * width * stride);
        for (numbers, to) in images.zip(to.chunks_exact_mut(self.output.len())) {
            let window = kernel;
            let steps = strides;
            let pixels = Pixels { numbers, stride, channels, width, window, steps, windows };
            largest(Isa::best(), &pixels, to);
        }
    }

    /// Combines the pixels of each window with `join`, and divides by `count`. The arguments of
    /// `count` are the number of pixels in the image, and with padding.
    pub fn run(
        &self,
        from: &[f32],
        stride: usize,
        to: &mut [f32],
        join: impl Fn(f32, f32) -> f32,
        count: impl Fn(usize, usize) -> f32,
    ) {
        let Shape { height, width, channels } = self.input;
        let Sliding { kernel, strides, pads } = self.sliding;
        let range = |at: usize, axis: usize, size: usize| {
            let first = at * strides[axis];
            let end = (first + kernel[axis]).saturating_sub(pads[axis]).min(size);
            first.saturating_sub(pads[axis]).min(end)..end
        };
        // Positions beyond the padding do not count.
        let padded = |at: usize, axis: usize, size: usize| {
            (size + pads[axis] + pads[axis + 2] - at * strides[axis]).min(kernel[axis])
        };
        let images = from.chunks_exact(height * width * stride);
        for (from, to) in images.zip(to.chunks_exact_mut(self.output.len())) {
            let pixel = |y: usize, x: usize| &from[(y * width + x) * stride..][..channels];
            for (y, to) in to.chunks_exact_mut(self.output.width * channels).enumerate() {
                let (rows, padded_rows) = (range(y, 0, height), padded(y, 0, height));
                for (x, to) in to.chunks_exact_mut(channels).enumerate() {
                    let columns = range(x, 1, width);
                    let found = rows.len() * columns.len();
                    if found > 0 {
                        to.copy_from_slice(pixel(rows.start, columns.start));
                        let all = rows.clone().flat_map(|y| columns.clone().map(move |x| (y, x)));
                        for (y, x) in all.skip(1) {
                            to.iter_mut()
                                .zip(pixel(y, x))
                                .for_each(|(to, from)| *to = join(*to, *from));
                        }
                    } else {
                        to.fill(0.0);
                    }
                    let count = count(found, padded_rows * padded(x, 1, width));
                    if found > 0 && count != 1.0 {
                        to.iter_mut().for_each(|to| *to /= count);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two windows of 1 x 2 pixels with one channel, with and without padding.
    #[test]
    fn the_maximum_of_a_window_with_nan_is_nan() {
        for pads in [[0; 4], [0, 0, 0, 1]] {
            let pool = Pool {
                sliding: Sliding { kernel: [1, 2], strides: [1, 2], pads },
                input: Shape { height: 1, width: 4, channels: 1 },
                output: Shape { height: 1, width: 2, channels: 1 },
            };
            for numbers in [[f32::NAN, 1.0, 4.0, 3.0], [1.0, f32::NAN, 3.0, 4.0]] {
                let mut to = [0.0; 2];
                pool.largest(&numbers, 1, &mut to);
                assert!(to[0].is_nan() && to[1] == 4.0, "{to:?} of {numbers:?}, {pads:?}");
            }
        }
    }
}
