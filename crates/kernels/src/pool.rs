//! Max pooling over windows of pixels, without padding.

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};

/// Pixels of an image, row by row, and the windows that slide over it.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    /// Numbers, pixel by pixel.
    pub numbers: &'a [f32],
    /// Numbers from one pixel to the next; the first of them are its channels.
    pub stride: usize,
    /// Channels of a pixel.
    pub channels: usize,
    /// Pixels in a row.
    pub width: usize,
    /// Size of a window in pixels, vertical and horizontal: at least 1.
    pub window: [usize; 2],
    /// Pixels from one window to the next, vertical and horizontal.
    pub steps: [usize; 2],
    /// Number of windows, vertical and horizontal.
    pub windows: [usize; 2],
}

/// Writes the maximum of each window, channel by channel, window by window. If either of two
/// numbers is NaN, the first in the window wins; the same holds for two zeros.
///
/// # Panics
/// A window is empty or exceeds the numbers, or `to` does not have one number per channel and
/// window.
///
/// ```
/// use dyno_kernels::{Isa, Pixels, largest};
///
/// // Two windows of 1 x 2 pixels with one channel.
/// let pixels = Pixels {
///     numbers: &[1.0, 4.0, 3.0, 2.0],
///     stride: 1,
///     channels: 1,
///     width: 4,
///     window: [1, 2],
///     steps: [1, 2],
///     windows: [1, 2],
/// };
/// let mut maxima = [0.0; 2];
/// largest(Isa::best(), &pixels, &mut maxima);
/// assert_eq!(maxima, [4.0, 3.0]);
/// ```
pub fn largest(isa: Isa, pixels: &Pixels<'_>, to: &mut [f32]) {
    let Pixels { numbers, stride, channels, width, window, steps, windows } = *pixels;
    assert!(!window.contains(&0), "a window has pixels");
    // The last pixel of the last window.
    let last = |at: usize| {
        windows[at].saturating_sub(1).checked_mul(steps[at])?.checked_add(window[at] - 1)
    };
    let pixel = last(0).and_then(|row| row.checked_mul(width)?.checked_add(last(1)?));
    let end = pixel.and_then(|pixel| pixel.checked_mul(stride)?.checked_add(channels));
    let is_empty = windows.contains(&0);
    assert!(is_empty || end.is_some_and(|end| end <= numbers.len()), "windows lie in the numbers");
    let all = windows[0].checked_mul(windows[1]).and_then(|all| all.checked_mul(channels));
    assert_eq!(Some(to.len()), all, "a number for each channel of each window");
    isa.run(Largest { pixels, to });
}

struct Largest<'a> {
    pixels: &'a Pixels<'a>,
    to: &'a mut [f32],
}

impl Kernel for Largest<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Pixels { numbers, stride, channels, width, window, steps, windows } = *self.pixels;
        let mut to = self.to;
        for y in 0..windows[0] {
            for x in 0..windows[1] {
                let first = (y * steps[0] * width + x * steps[1]) * stride;
                let (found, rest) = to.split_at_mut(channels);
                to = rest;
                for at in (0..channels).step_by(LANES) {
                    let count = (channels - at).min(LANES);
                    let load = |down: usize, right: usize| {
                        let pixel = first + (down * width + right) * stride + at;
                        let from = numbers[pixel..][..count].as_ptr();
                        // SAFETY: the slice has `count` numbers; sixteen are read only if `count`
                        // is sixteen.
                        unsafe {
                            if count == LANES { s.load(from) } else { s.load_first(from, count) }
                        }
                    };
                    let mut largest = load(0, 0);
                    for down in 0..window[0] {
                        for right in usize::from(down == 0)..window[1] {
                            largest = s.max(load(down, right), largest);
                        }
                    }
                    let to = found[at..][..count].as_mut_ptr();
                    // SAFETY: the slice has room for `count` numbers; sixteen are written only if
                    // `count` is sixteen.
                    unsafe {
                        match count {
                            LANES => s.store(to, largest),
                            _ => s.store_first(to, largest, count),
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_window_has_its_largest(
            channels in 1_usize..40, gap in 0_usize..9, width in 3_usize..9, height in 3_usize..9,
            window in prop::array::uniform2(1_usize..4), steps in prop::array::uniform2(1_usize..4),
            seed in 0_usize..1000,
        ) {
            let stride = channels + gap;
            let special = [f32::NAN, -0.0, 0.0, f32::NEG_INFINITY];
            let number = |at: usize| match (at * 31 + seed) % 37 {
                part @ 0..4 => special[part],
                part => (part * 7 % 17) as f32 - 9.0,
            };
            let numbers: Vec<f32> = (0..stride * width * height).map(number).collect();
            let windows =
                [(height - window[0]) / steps[0] + 1, (width - window[1]) / steps[1] + 1];
            let pixels =
                Pixels { numbers: &numbers, stride, channels, width, window, steps, windows };
            for isa in Isa::all() {
                let mut to = vec![7.0; windows[0] * windows[1] * channels];
                largest(isa, &pixels, &mut to);
                for (at, found) in to.iter().enumerate() {
                    let (place, channel) = (at / channels, at % channels);
                    let first = [place / windows[1] * steps[0], place % windows[1] * steps[1]];
                    let of = |(down, right): (usize, usize)| {
                        numbers[((first[0] + down) * width + first[1] + right) * stride + channel]
                    };
                    let greater = |a: f32, b: f32| if b > a { b } else { a };
                    let all = (0..window[0]).flat_map(|y| (0..window[1]).map(move |x| (y, x)));
                    let expected = all.map(of).reduce(greater).unwrap();
                    prop_assert_eq!(found.to_bits(), expected.to_bits(), "{} {}", at, isa);
                }
            }
        }
    }

    #[test]
    fn windows_beyond_the_numbers_are_refused() {
        let numbers = [0.0; 4 * 3 * 2];
        let is_refused = |windows, width, room| {
            let (window, steps) = ([2, 2], [1, 1]);
            let pixels =
                Pixels { numbers: &numbers, stride: 2, channels: 2, width, window, steps, windows };
            let run = || largest(Isa::scalar(), &pixels, &mut vec![0.0; room]);
            std::panic::catch_unwind(run).is_err()
        };
        assert!(!is_refused([3, 2], 3, 12));
        assert!(
            is_refused([3, 3], 3, 18) && is_refused([4, 2], 3, 16) && is_refused([3, 2], 3, 11)
        );
        assert!(is_refused([usize::MAX, 2], 3, 12) && !is_refused([0, 2], 3, 0));
    }
}
