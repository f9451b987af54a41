//! Largest numbers of windows of two by two pixels: the pool of nearly all convolutional networks.

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};

/// Pixels of an image, row by row, and the windows that slide over it.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    /// Pixel after pixel.
    pub numbers: &'a [f32],
    /// Numbers from a pixel to the next; the first of them are its channels.
    pub stride: usize,
    /// Of a pixel.
    pub channels: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Pixels from a window to the next, down and to the right.
    pub steps: [usize; 2],
    /// Windows, down and to the right.
    pub windows: [usize; 2],
}

/// Writes the largest of the four pixels of each window, channel by channel, window after window. Of two numbers
/// of which one is NaN, the one that comes first in the window is taken; so is the first of two zeros.
///
/// # Panics
/// A window reaches beyond the numbers, or `to` has not a number for each channel of each window.
pub fn largest_of_four(isa: Isa, pixels: &Pixels<'_>, to: &mut [f32]) {
    let Pixels { numbers, stride, channels, width, steps, windows } = *pixels;
    let last = |at: usize| windows[at].saturating_sub(1).checked_mul(steps[at])?.checked_add(1);
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
        let Pixels { numbers, stride, channels, width, steps, windows } = *self.pixels;
        let mut to = self.to;
        for y in 0..windows[0] {
            for x in 0..windows[1] {
                let first = (y * steps[0] * width + x * steps[1]) * stride;
                let places = [0, stride, width * stride, (width + 1) * stride];
                let four = places.map(|place| &numbers[first + place..][..channels]);
                let (window, rest) = to.split_at_mut(channels);
                to = rest;
                for at in (0..channels).step_by(LANES) {
                    let count = (channels - at).min(LANES);
                    // SAFETY: each of the four, and the window, has `count` numbers from `at` on; sixteen are read
                    // or written where there are as many.
                    unsafe {
                        let [a, b, c, d] = four.map(|pixel| {
                            let from = pixel.as_ptr().add(at);
                            if count == LANES { s.load(from) } else { s.load_first(from, count) }
                        });
                        let largest = s.max(d, s.max(c, s.max(b, a)));
                        let to = window.as_mut_ptr().add(at);
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
            channels in 1_usize..40, gap in 0_usize..9, width in 2_usize..9, height in 2_usize..9,
            steps in prop::array::uniform2(1_usize..4), seed in 0_usize..1000,
        ) {
            let stride = channels + gap;
            let special = [f32::NAN, -0.0, 0.0, f32::NEG_INFINITY];
            let number = |at: usize| match (at * 31 + seed) % 37 {
                part @ 0..4 => special[part],
                part => (part * 7 % 17) as f32 - 9.0,
            };
            let numbers: Vec<f32> = (0..stride * width * height).map(number).collect();
            let windows = [(height - 2) / steps[0] + 1, (width - 2) / steps[1] + 1];
            let pixels = Pixels { numbers: &numbers, stride, channels, width, steps, windows };
            for isa in Isa::all() {
                let mut to = vec![7.0; windows[0] * windows[1] * channels];
                largest_of_four(isa, &pixels, &mut to);
                for (at, found) in to.iter().enumerate() {
                    let (window, channel) = (at / channels, at % channels);
                    let first = [window / windows[1] * steps[0], window % windows[1] * steps[1]];
                    let of = |[down, right]: [usize; 2]| {
                        numbers[((first[0] + down) * width + first[1] + right) * stride + channel]
                    };
                    let greater = |a: f32, b: f32| if b > a { b } else { a };
                    let four = [[0, 0], [0, 1], [1, 0], [1, 1]].map(of);
                    let expected = four[1..].iter().fold(four[0], |a, b| greater(a, *b));
                    prop_assert_eq!(found.to_bits(), expected.to_bits(), "{} {}", at, isa);
                }
            }
        }
    }

    #[test]
    fn windows_beyond_the_numbers_are_refused() {
        let numbers = [0.0; 4 * 3 * 2];
        let is_refused = |windows, width, room| {
            let pixels =
                Pixels { numbers: &numbers, stride: 2, channels: 2, width, steps: [1, 1], windows };
            let run = || largest_of_four(Isa::scalar(), &pixels, &mut vec![0.0; room]);
            std::panic::catch_unwind(run).is_err()
        };
        assert!(!is_refused([3, 2], 3, 12));
        assert!(
            is_refused([3, 3], 3, 18) && is_refused([4, 2], 3, 16) && is_refused([3, 2], 3, 11)
        );
        assert!(is_refused([usize::MAX, 2], 3, 12) && !is_refused([0, 2], 3, 0));
    }
}
