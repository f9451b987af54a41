//! Resizing with the results of OpenCV and of Pillow, which differ from each other.
//!
//! Sources of weights and rounding: `resize.cpp` of OpenCV's imgproc and `Resample.c` of Pillow.
//! Measured on three photographs and three pictures of noise at six sizes: `opencv-area`,
//! `pillow-bilinear` and `pillow-bicubic` equal OpenCV's and Pillow's bytes; `opencv-linear`
//! differs by 1 in 0.05 % of the bytes. For floats up to 255 it differs by 0.00002 from OpenCV's
//! scalar code and by 0.006 from its vectorized code; where a step then truncates to bytes, up to
//! 1.4 % of these differ by 1. As in Pillow 13, columns are filtered before rows if rows are
//! reduced more than twice as much as columns. Pillow before 13 always filters rows first, which
//! differs there by 1 or 2. `cargo xtask peers images` repeats the measurements.

use serde::Deserialize;

use super::Picture;

/// Interpolation of resizing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// OpenCV's `INTER_LINEAR`.
    OpencvLinear,
    /// OpenCV's `INTER_AREA`.
    OpencvArea,
    /// Pillow's `BILINEAR`, with antialiasing.
    PillowBilinear,
    /// Pillow's `BICUBIC`, with antialiasing.
    PillowBicubic,
}

/// Weighted sources of each value of a row or a column.
struct Taps<W> {
    /// First source and the weights from there on, for each value.
    sources: Vec<(usize, Vec<W>)>,
}

/// Resizes a picture of 8 bits.
///
/// ```
/// use dyno_task::image::Picture;
/// use dyno_task::image::resize::{Filter, bytes};
///
/// let picture = Picture { width: 2, height: 1, values: vec![10, 10, 10, 30, 30, 30] };
/// assert_eq!(bytes(&picture, 1, 1, Filter::OpencvArea).values, [20, 20, 20]);
/// ```
///
/// # Panics
/// Panics if a size is 0.
pub fn bytes(picture: &Picture<u8>, width: usize, height: usize, by: Filter) -> Picture<u8> {
    assert!(width > 0 && height > 0, "a picture has pixels");
    if (width, height) == (picture.width, picture.height) {
        return picture.clone();
    }
    match by {
        Filter::OpencvLinear => {
            let taps = |from, to| whole_taps(&linear(from, to));
            opencv_bytes(picture, &taps(picture.width, width), &taps(picture.height, height))
        }
        // OpenCV interpolates along both axes if one of them grows.
        Filter::OpencvArea if width > picture.width || height > picture.height => {
            let taps = |from, to| whole_taps(&enlarge(from, to));
            opencv_bytes(picture, &taps(picture.width, width), &taps(picture.height, height))
        }
        Filter::OpencvArea => {
            let real = Picture {
                width: picture.width,
                height: picture.height,
                values: picture.values.iter().map(|value| f32::from(*value)).collect(),
            };
            let output =
                apply_taps(&real, &area(picture.width, width), &area(picture.height, height));
            let exact = picture.width == 2 * width && picture.height == 2 * height;
            // The mean of four bytes is an integer sum; a half rounds up.
            let round =
                |value: f32| if exact { (value + 0.5).floor() } else { value.round_ties_even() };
            let values = output.values.iter().map(|value| round(*value) as u8).collect();
            Picture { width, height, values }
        }
        Filter::PillowBilinear => pillow(picture, width, height, 1.0, |x| (1.0 - x).max(0.0)),
        Filter::PillowBicubic => pillow(picture, width, height, 2.0, cubic),
    }
}

/// Resizes a picture of real numbers with OpenCV's `INTER_LINEAR`.
///
/// # Panics
/// Panics if a size is 0.
pub fn reals(picture: &Picture<f32>, width: usize, height: usize) -> Picture<f32> {
    assert!(width > 0 && height > 0, "a picture has pixels");
    apply_taps(picture, &linear(picture.width, width), &linear(picture.height, height))
}

fn pair(at: f32, from: usize) -> (usize, Vec<f32>) {
    let first = at.floor();
    if first < 0.0 {
        return (0, vec![1.0]);
    }
    if first as usize >= from - 1 {
        return (from - 1, vec![1.0]);
    }
    (first as usize, vec![1.0 - (at - first), at - first])
}

/// Returns the source pixels per pixel with OpenCV's rounding, which decides on which pixels others
/// fall.
fn opencv_scale(from: usize, to: usize) -> f64 {
    1.0 / (to as f64 / from as f64)
}

fn linear(from: usize, to: usize) -> Taps<f32> {
    let scale = opencv_scale(from, to);
    let sources = (0..to).map(|at| pair(((at as f64 + 0.5) * scale - 0.5) as f32, from)).collect();
    Taps { sources }
}

/// Returns the weights of `INTER_AREA` for enlargement.
fn enlarge(from: usize, to: usize) -> Taps<f32> {
    let scale = opencv_scale(from, to);
    let inverse = to as f64 / from as f64;
    let sources = (0..to).map(|at| {
        let first = (at as f64 * scale).floor();
        let part = ((at as f64 + 1.0) - (first + 1.0) * inverse) as f32;
        let part = if part <= 0.0 { 0.0 } else { part - part.floor() };
        let first = first as usize;
        if first + 1 >= from { (from - 1, vec![1.0]) } else { (first, vec![1.0 - part, part]) }
    });
    Taps { sources: sources.collect() }
}

/// Returns the weights of `INTER_AREA` for reduction: the fractions of the sources that a value
/// covers.
fn area(from: usize, to: usize) -> Taps<f32> {
    // Smaller fractions are rounding errors.
    const LEAST: f64 = 1e-3;
    let scale = opencv_scale(from, to);
    let sources = (0..to).map(|at| {
        let start = at as f64 * scale;
        let end = (at as f64 + 1.0) * scale;
        let width = scale.min(from as f64 - start);
        let first = (start.ceil() as usize).min(from - 1);
        let last = (end.floor() as usize).min(from - 1);
        let first = first.min(last);
        let mut weights = Vec::new();
        let mut begin = first;
        if first as f64 - start > LEAST {
            begin = first - 1;
            weights.push(((first as f64 - start) / width) as f32);
        }
        weights.extend((first..last).map(|_| (1.0 / width) as f32));
        if end - last as f64 > LEAST {
            weights.push(((end - last as f64).min(1.0).min(width) / width) as f32);
        }
        (begin, weights)
    });
    Taps { sources: sources.collect() }
}

fn apply_taps(picture: &Picture<f32>, columns: &Taps<f32>, rows: &Taps<f32>) -> Picture<f32> {
    let width = columns.sources.len();
    let height = rows.sources.len();
    let mut wide: Vec<f32> = Vec::with_capacity(picture.height * width * 3);
    for row in picture.values.chunks_exact(picture.width * 3) {
        for (first, weights) in &columns.sources {
            for channel in 0..3 {
                let sources = row[first * 3 + channel..].iter().step_by(3);
                wide.push(sources.zip(weights).map(|(value, weight)| value * weight).sum());
            }
        }
    }
    let mut values = vec![0_f32; width * height * 3];
    for ((first, weights), output) in rows.sources.iter().zip(values.chunks_exact_mut(width * 3)) {
        for (row, weight) in wide[first * width * 3..].chunks_exact(width * 3).zip(weights) {
            output.iter_mut().zip(row).for_each(|(output, value)| *output += value * weight);
        }
    }
    Picture { width, height, values }
}

/// Converts weights to OpenCV's integers for bytes, in units of 1/2048.
fn whole_taps(taps: &Taps<f32>) -> Taps<i32> {
    let whole = |weight: &f32| (weight * 2048.0).round_ties_even() as i32;
    let sources =
        taps.sources.iter().map(|(first, weights)| (*first, weights.iter().map(whole).collect()));
    Taps { sources: sources.collect() }
}

fn opencv_bytes(picture: &Picture<u8>, columns: &Taps<i32>, rows: &Taps<i32>) -> Picture<u8> {
    let width = columns.sources.len();
    let height = rows.sources.len();
    let mut wide = Vec::with_capacity(picture.height * width * 3);
    for row in picture.values.chunks_exact(picture.width * 3) {
        for (first, weights) in &columns.sources {
            for channel in 0..3 {
                let sources = row[first * 3 + channel..].iter().step_by(3);
                wide.push(sources.zip(weights).map(|(v, w)| i32::from(*v) * w).sum::<i32>());
            }
        }
    }
    let mut values = Vec::with_capacity(width * height * 3);
    for (first, weights) in &rows.sources {
        for at in 0..width * 3 {
            let row = |row: usize| wide[(first + row) * width * 3 + at] >> 4;
            let parts = weights.iter().enumerate().map(|(tap, weight)| (weight * row(tap)) >> 16);
            values.push(((parts.sum::<i32>() + 2) >> 2).clamp(0, 255) as u8);
        }
    }
    Picture { width, height, values }
}

/// Keys' cubic with a = -0.5.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    match x {
        x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}

/// Fractional bits of Pillow's weights.
const PILLOW_BITS: u32 = 22;

fn pillow_taps(from: usize, to: usize, support: f64, filter: fn(f64) -> f64) -> Taps<i32> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = support * stretch;
    let sources = (0..to).map(|at| {
        let center = (at as f64 + 0.5) * scale;
        let first = ((center - support + 0.5) as i64).max(0) as usize;
        let end = ((center + support + 0.5) as i64).max(0) as usize;
        let weights: Vec<f64> = (first..end.min(from))
            .map(|source| filter(((source as f64 - center + 0.5) / stretch).abs()))
            .collect();
        let sum: f64 = weights.iter().sum();
        let one = f64::from(1_u32 << PILLOW_BITS);
        (first, weights.iter().map(|weight| (weight / sum * one).round() as i32).collect())
    });
    Taps { sources: sources.collect() }
}

fn pillow(
    picture: &Picture<u8>,
    width: usize,
    height: usize,
    support: f64,
    filter: fn(f64) -> f64,
) -> Picture<u8> {
    let columns = pillow_taps(picture.width, width, support, filter);
    let rows = pillow_taps(picture.height, height, support, filter);
    // The order matters because values are rounded between the two.
    let (rows_go, columns_go) =
        (picture.height.saturating_sub(height), picture.width.saturating_sub(width));
    if rows_go > 2 * columns_go {
        pillow_across(&pillow_down(picture, &rows), &columns)
    } else {
        pillow_down(&pillow_across(picture, &columns), &rows)
    }
}

/// Returns the weighted sum of bytes.
fn pillow_byte<'a>(values: impl Iterator<Item = &'a u8>, weights: &[i32]) -> u8 {
    const HALF: i32 = 1 << (PILLOW_BITS - 1);
    let parts = values.zip(weights).map(|(value, weight)| i32::from(*value) * weight);
    (parts.fold(HALF, i32::wrapping_add) >> PILLOW_BITS).clamp(0, 255) as u8
}

fn pillow_across(picture: &Picture<u8>, columns: &Taps<i32>) -> Picture<u8> {
    let width = columns.sources.len();
    let height = picture.height;
    if width == picture.width {
        return picture.clone();
    }
    let mut values = Vec::with_capacity(height * width * 3);
    for row in picture.values.chunks_exact(picture.width * 3) {
        for (first, weights) in &columns.sources {
            for channel in 0..3 {
                let sources = row[first * 3 + channel..].iter().step_by(3);
                values.push(pillow_byte(sources, weights));
            }
        }
    }
    Picture { width, height, values }
}

fn pillow_down(picture: &Picture<u8>, rows: &Taps<i32>) -> Picture<u8> {
    let width = picture.width;
    let height = rows.sources.len();
    if height == picture.height {
        return picture.clone();
    }
    let mut values = Vec::with_capacity(width * height * 3);
    for (first, weights) in &rows.sources {
        for at in 0..width * 3 {
            let sources = picture.values[first * width * 3 + at..].iter().step_by(width * 3);
            values.push(pillow_byte(sources, weights));
        }
    }
    Picture { width, height, values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_opencv_and_pillow() {
        // cv2.resize and PIL.Image.resize of 5 x 4 pixels to 3 x 2, where value i is
        // (37 i i + 11 i) % 256.
        let values = (0..60_usize).map(|i| ((i * i * 37 + i * 11) % 256) as u8).collect();
        let picture = Picture { width: 5, height: 4, values };
        let cases = [
            (
                Filter::OpencvLinear,
                [
                    58, 138, 163, 141, 164, 133, 88, 183, 223, 121, 116, 101, 125, 64, 77, 122,
                    132, 174,
                ],
            ),
            (
                Filter::OpencvArea,
                [
                    65, 143, 166, 121, 169, 164, 85, 181, 224, 120, 113, 104, 130, 95, 108, 126,
                    139, 174,
                ],
            ),
            (
                Filter::PillowBilinear,
                [
                    79, 137, 160, 129, 167, 160, 95, 172, 218, 115, 125, 111, 132, 114, 116, 125,
                    138, 179,
                ],
            ),
            (
                Filter::PillowBicubic,
                [
                    78, 138, 162, 134, 175, 164, 91, 173, 222, 117, 123, 105, 135, 111, 113, 129,
                    136, 177,
                ],
            ),
        ];
        for (filter, expected) in cases {
            assert_eq!(bytes(&picture, 3, 2, filter).values, expected, "{filter:?}");
        }
    }

    #[test]
    fn columns_are_weighed_first_where_rows_go_twice_as_fast() {
        // PIL.Image.resize of version 13, 4 x 9 pixels of the same values to 5 x 3.
        let values = (0..108_usize).map(|i| ((i * i * 37 + i * 11) % 256) as u8).collect();
        let picture = Picture { width: 4, height: 9, values };
        let expected = [
            69, 142, 200, 86, 156, 188, 116, 142, 164, 138, 151, 149, 140, 210, 153, 137, 84, 112,
            88, 115, 114, 124, 117, 123, 149, 116, 130, 80, 141, 128, 91, 122, 128, 130, 74, 133,
            131, 124, 121, 115, 154, 104, 123, 68, 101,
        ];
        assert_eq!(bytes(&picture, 5, 3, Filter::PillowBicubic).values, expected);
    }

    #[test]
    fn pixels_that_fall_on_others_fall_as_in_opencv() {
        // cv2.resize of 57 stripes to 300 columns with INTER_AREA, columns 98 to 102.
        let values = (0..57).flat_map(|i| [i % 2 * 200; 3]).collect();
        let picture = Picture { width: 57, height: 1, values };
        let values = bytes(&picture, 300, 1, Filter::OpencvArea).values;
        assert_eq!(
            values.iter().step_by(3).skip(98).take(5).collect::<Vec<_>>(),
            [&0, &0, &0, &200, &200]
        );
    }
}
