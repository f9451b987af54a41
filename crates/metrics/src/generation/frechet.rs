//! Fréchet distance of two normal distributions, one of which is given by samples.
//!
//! Source: Dowson and Landau, "The Fréchet distance between multivariate normal distributions"
//! (1982). Means and covariances (divided by n - 1) of features of images are those of Heusel et
//! al. (2017).

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis};

use super::linear::{cholesky, dot, eigenvalues, part};
use crate::parallel;

/// A normal distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Normal {
    mean: Vec<f64>,
    /// Trace of the covariance.
    trace: f64,
    /// Lower triangular factor of the covariance.
    factor: Array2<f64>,
}

impl Normal {
    /// Creates a distribution from its mean and its covariance, row by row. Returns `None` if the
    /// matrix is not a covariance. O(n^3).
    ///
    /// # Panics
    /// Panics if the covariance does not have n^2 elements.
    ///
    /// ```
    /// use dyno_metrics::generation::Normal;
    ///
    /// let normal = Normal::new(vec![0.0], vec![1.0]).unwrap();
    /// // Samples with mean 5 and variance 2.
    /// let distance = normal.distance(vec![4.0, 6.0]);
    /// assert!((distance - (25.0 + (2.0_f64.sqrt() - 1.0).powi(2))).abs() < 1e-12);
    /// assert!(Normal::new(vec![0.0], vec![-1.0]).is_none());
    /// ```
    pub fn new(mean: Vec<f64>, covariance: Vec<f64>) -> Option<Self> {
        let covariance = Array2::from_shape_vec((mean.len(), mean.len()), covariance);
        let covariance = covariance.expect("a covariance has a row and a column for each mean");
        let trace = covariance.diag().sum();
        Some(Self { mean, trace, factor: cholesky(covariance)? })
    }

    /// Returns the number of elements in a sample.
    pub fn dimensions(&self) -> usize {
        self.mean.len()
    }

    /// Returns the squared distance to the distribution of samples, given row by row; NaN for fewer
    /// than two samples.
    ///
    /// The trace of the square root of the product of both covariances is the sum of the singular
    /// values of X L. L is a factor of one covariance. X holds the samples minus their mean,
    /// divided by the root of n - 1. This way neither a product of covariances nor the root of a
    /// matrix is computed.
    pub fn distance(&self, samples: Vec<f64>) -> f64 {
        let d = self.dimensions();
        let n = samples.len().checked_div(d).unwrap_or(0);
        if n < 2 {
            return f64::NAN;
        }
        let mut samples = Array2::from_shape_vec((n, d), samples).expect("samples are whole rows");
        let mean = samples.sum_axis(Axis(0)) / n as f64;
        samples -= &mean;
        let share = ((n - 1) as f64).recip();
        let all = samples.as_slice().expect("samples are row by row");
        let trace = dot(all, all) * share;
        let apart: f64 =
            mean.iter().zip(&self.mean).map(|(one, other)| (one - other).powi(2)).sum();
        let mut product = times_factor(&samples, &self.factor);
        drop(samples);
        // The columns of the factor become smaller from left to right. Eigenvalues are computed
        // from the last row on, and the least of them keep their digits if the greatest rows come
        // last. The roots of the least suffer most from rounding.
        for row in product.as_slice_mut().expect("it is row by row").chunks_exact_mut(d) {
            row.reverse();
        }
        let square = if n < d { square(&product.view()) } else { square(&product.t()) };
        drop(product);
        let mut values = eigenvalues(square);
        // Samples minus their mean sum to zero. With so few rows one eigenvalue is zero but for
        // rounding, and the root of the rounding error would be far greater.
        if n <= d {
            values.sort_unstable_by(f64::total_cmp);
            values.remove(0);
        }
        let common: f64 = values.iter().map(|value| (value * share).max(0.0).sqrt()).sum();
        apart + trace + self.trace - 2.0 * common
    }
}

/// Columns that are multiplied at a time. A triangle is divided into strips for all processors. The
/// order of sums does not depend on the number of processors.
const STRIP: usize = 256;

/// Multiplies samples by a lower triangular matrix.
fn times_factor(samples: &Array2<f64>, factor: &Array2<f64>) -> Array2<f64> {
    let (n, d) = samples.dim();
    let mut product = Array2::zeros((n, d));
    let mut strips: Vec<_> = product.axis_chunks_iter_mut(Axis(1), STRIP).enumerate().collect();
    parallel::for_each(&mut strips, |(at, strip)| {
        let (start, end) = (*at * STRIP, *at * STRIP + strip.ncols());
        let factor = part(factor.view(), start..d, start..end);
        general_mat_mul(1.0, &part(samples.view(), 0..n, start..d), &factor, 0.0, strip);
    });
    product
}

/// Returns the lower triangle of a matrix times its transpose.
fn square(matrix: &ArrayView2<f64>) -> Array2<f64> {
    let (n, columns) = matrix.dim();
    let mut square = Array2::zeros((n, n));
    let mut strips: Vec<_> = square.axis_chunks_iter_mut(Axis(0), STRIP).enumerate().collect();
    parallel::for_each(&mut strips, |(at, strip)| {
        let (start, end) = (*at * STRIP, *at * STRIP + strip.nrows());
        let rows = part(matrix.view(), start..end, 0..columns);
        let above = part(matrix.view(), 0..end, 0..columns);
        let mut to = part(strip.view_mut(), 0..end - start, 0..end);
        general_mat_mul(1.0, &rows, &above.t(), 0.0, &mut to);
    });
    drop(strips);
    square
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_along_the_axes_are_apart_as_points_are() {
        let normal = Normal::new(vec![1.0, 2.0], vec![4.0, 0.0, 0.0, 9.0]).unwrap();
        let samples = vec![1.0, 2.0, 1.0, -2.0, -1.0, 2.0, -1.0, -2.0];
        let deviations = [(4.0_f64 / 3.0).sqrt(), (16.0_f64 / 3.0).sqrt()];
        let expected = 1.0 + 4.0 + (2.0 - deviations[0]).powi(2) + (3.0 - deviations[1]).powi(2);
        assert!((normal.distance(samples) - expected).abs() < 1e-12);
    }

    #[test]
    fn samples_have_no_distance_from_their_own_distribution_however_alike_their_axes_are() {
        // Products of unlike numbers: the least eigenvalue is about 10^-12 of the greatest.
        const DIMENSIONS: usize = 96;
        const SAMPLES: usize = 400;
        let mut state = 1_u64;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let mut matrix = |rows, columns| Array2::from_shape_simple_fn((rows, columns), &mut number);
        let mixing = matrix(DIMENSIONS, DIMENSIONS);
        let mixing = mixing.dot(&matrix(DIMENSIONS, DIMENSIONS)).dot(&mixing);
        let samples = matrix(SAMPLES, DIMENSIONS).dot(&mixing);
        let mean = samples.mean_axis(Axis(0)).unwrap();
        let centered = &samples - &mean;
        let covariance = centered.t().dot(&centered) / (SAMPLES - 1) as f64;
        let trace = covariance.diag().sum();
        let (covariance, _) = covariance.into_raw_vec_and_offset();
        let normal = Normal::new(mean.to_vec(), covariance).unwrap();
        let distance = normal.distance(samples.into_raw_vec_and_offset().0);
        assert!(distance.abs() < 1e-12 * trace, "{distance:e} of {trace}");
    }

    #[test]
    fn fewer_samples_than_dimensions_have_a_distance_and_one_has_none() {
        // Two samples at distance 1: variance 1/2 along the first axis, none along the others.
        let samples = || vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let covariance = vec![8.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let normal = Normal::new(vec![0.5, 0.0, 0.0], covariance).unwrap();
        assert!((normal.distance(samples()) - (8.0 + 0.5 - 2.0 * 2.0 + 2.0)).abs() < 1e-12);
        assert!(normal.distance(samples()[..3].to_vec()).is_nan());
        assert!(normal.distance(Vec::new()).is_nan());
    }
}
