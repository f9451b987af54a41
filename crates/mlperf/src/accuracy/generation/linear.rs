//! What the Fréchet distance needs of linear algebra: a triangular factor of a
//! covariance, and the eigenvalues of a symmetric matrix.
//!
//! Source: Golub and Van Loan, "Matrix Computations": Cholesky's factorisation, blocked;
//! Householder's reduction to a tridiagonal matrix; its eigenvalues by the implicit QL
//! method. Products are `ndarray`'s.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayBase, ArrayViewMut2, Axis, Ix2, RawData, Slice};

use crate::parallel;

/// Columns that are factored before the rest is brought up to date.
const BLOCK: usize = 64;

/// A negative pivot is the error of rounding up to so many times what a zero may be.
const NEGATIVE: f64 = 1e6;

/// Rotations after which an eigenvalue is taken as it is; some 2 are needed of each.
const MOST_ROTATIONS: usize = 60;

/// Lower triangular L with L times its transpose equal to a symmetric matrix that has
/// no negative eigenvalues; none if it has. O(n^3).
///
/// Only the lower triangle is read. A matrix that is singular has columns of zeros.
#[must_use]
pub fn cholesky(mut matrix: Array2<f64>) -> Option<Array2<f64>> {
    let n = matrix.nrows();
    let greatest = matrix.diag().iter().fold(0.0_f64, |most, value| most.max(*value));
    let least = greatest * n as f64 * f64::EPSILON;
    for start in (0..n).step_by(BLOCK) {
        let end = (start + BLOCK).min(n);
        for column in start..end {
            let pivot = matrix[(column, column)]
                - dot(row(&matrix, column, start..column), row(&matrix, column, start..column));
            if !pivot.is_finite() || pivot < -NEGATIVE * least {
                return None;
            }
            let scale = if pivot <= least { 0.0 } else { pivot.sqrt().recip() };
            let own: Vec<f64> = row(&matrix, column, start..column).to_vec();
            matrix[(column, column)] = pivot * scale;
            for below in column + 1..n {
                let found = matrix[(below, column)] - dot(row(&matrix, below, start..column), &own);
                matrix[(below, column)] = found * scale;
            }
        }
        let (left, right) = matrix.view_mut().split_at(Axis(1), end);
        let panel = part(left, end..n, start..end);
        subtract_square(&panel, part(right, end..n, 0..n - end));
    }
    for (at, mut row) in matrix.rows_mut().into_iter().enumerate() {
        row.iter_mut().skip(at + 1).for_each(|value| *value = 0.0);
    }
    Some(matrix)
}

/// Takes the product of a panel and its transpose from the lower triangle of a matrix.
fn subtract_square(panel: &ArrayViewMut2<f64>, mut matrix: ArrayViewMut2<f64>) {
    // By strips, so that little is computed of the upper triangle.
    const STRIP: usize = 256;
    let columns = panel.ncols();
    let mut strips: Vec<_> = matrix.axis_chunks_iter_mut(Axis(0), STRIP).enumerate().collect();
    parallel::each(&mut strips, |(at, strip)| {
        let (start, end) = (*at * STRIP, *at * STRIP + strip.nrows());
        let rows = part(panel.view(), start..end, 0..columns);
        let above = part(panel.view(), 0..end, 0..columns);
        let mut to = part(strip.view_mut(), 0..end - start, 0..end);
        general_mat_mul(-1.0, &rows, &above.t(), 1.0, &mut to);
    });
}

/// A part of a matrix.
pub(super) fn part<S: RawData>(
    mut matrix: ArrayBase<S, Ix2>,
    rows: Range<usize>,
    columns: Range<usize>,
) -> ArrayBase<S, Ix2> {
    matrix.slice_axis_inplace(Axis(0), Slice::from(rows));
    matrix.slice_axis_inplace(Axis(1), Slice::from(columns));
    matrix
}

/// A part of a row.
fn row(matrix: &Array2<f64>, at: usize, columns: Range<usize>) -> &[f64] {
    let columns_of_all = matrix.ncols();
    let all = matrix.as_slice().expect("matrices here are row by row");
    &all[at * columns_of_all..][columns]
}

/// In eight sums, which the compiler puts in vectors.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let (ones, rest) = one.as_chunks::<8>();
    let (others, other_rest) = other.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (one, other) in ones.iter().zip(others) {
        for at in 0..8 {
            sums[at] += one[at] * other[at];
        }
    }
    let rest: f64 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f64>() + rest
}

/// The eigenvalues of a symmetric matrix, in no order. O(n^3).
///
/// Only the lower triangle is read.
#[must_use]
pub fn eigenvalues(matrix: Array2<f64>) -> Vec<f64> {
    let (mut diagonal, mut beside) = tridiagonal(matrix);
    ql(&mut diagonal, &mut beside);
    diagonal
}

/// Diagonal and first subdiagonal, ended by 0, of a tridiagonal matrix with the same
/// eigenvalues.
///
/// A reflection takes away the last row but for two elements. What it does to the rows
/// above is done together with the product that the next reflection needs, so that the
/// matrix passes once through the processor for each row.
fn tridiagonal(mut matrix: Array2<f64>) -> (Vec<f64>, Vec<f64>) {
    let n = matrix.nrows();
    let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n]);
    // The last reflection v, and w with which A becomes A - v w' - w v'.
    let (mut v, mut w) = (vec![0.0; n], vec![0.0; n]);
    for last in (0..n).rev() {
        let all = matrix.as_slice_mut().expect("matrices here are row by row");
        let (above, own) = all.split_at_mut(last * n);
        let own = &mut own[..=last];
        update(own, &v, &w, last);
        diagonal[last] = own[last];
        if last == 0 {
            break;
        }
        let (next, reflected) = reflection(&own[..last]);
        beside[last - 1] = reflected;
        let product = reflected_product(above, n, &v, &w, &next);
        let half = 0.5 * dot(&product, &next);
        w = product.iter().zip(&next).map(|(product, next)| product - half * next).collect();
        v = next;
    }
    (diagonal, beside)
}

/// Rows of a triangle that are a piece of work; fewer are not worth a thread.
const PIECE: usize = 256;

/// Pieces at most. As many however many processors there are: sums depend on it.
const PIECES: usize = 8;

/// Rows, each of `n` elements up to the diagonal, less their part of v w' + w v'; and the
/// product of the symmetric matrix that they then are with `vector`.
fn reflected_product(rows: &mut [f64], n: usize, v: &[f64], w: &[f64], vector: &[f64]) -> Vec<f64> {
    let count = vector.len();
    let pieces = (count / PIECE).clamp(1, PIECES);
    let (mut rest, mut first, mut work) = (rows, 0, Vec::with_capacity(pieces));
    for piece in 1..=pieces {
        // Of a triangle, equal parts.
        let end = (count as f64 * (piece as f64 / pieces as f64).sqrt()).round() as usize;
        let (own, after) = rest.split_at_mut((end - first) * n);
        work.push((first, own, vec![0.0; end]));
        (rest, first) = (after, end);
    }
    parallel::each(&mut work, |(first, rows, product)| {
        for (at, row) in (*first..).zip(rows.chunks_exact_mut(n)) {
            let row = &mut row[..=at];
            update(row, v, w, at);
            let (before, own) = row.split_at_mut(at);
            product[at] +=
                own[0] * vector[at] + both(before, &vector[..at], vector[at], &mut product[..at]);
        }
    });
    let mut sum = vec![0.0; count];
    for (_, _, product) in &work {
        sum.iter_mut().zip(product).for_each(|(sum, product)| *sum += product);
    }
    sum
}

/// A row less its part of v w' + w v'.
fn update(row: &mut [f64], v: &[f64], w: &[f64], at: usize) {
    let (of_v, of_w) = (v[at], w[at]);
    for ((value, v), w) in row.iter_mut().zip(v).zip(w) {
        *value -= of_v * w + of_w * v;
    }
}

/// The product of a row and a vector; adds the row times a factor to another vector.
fn both(row: &[f64], vector: &[f64], factor: f64, sums: &mut [f64]) -> f64 {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += factor * value;
    }
    dot(row, vector)
}

/// The vector v, of length root two or of zeros, for which I - v v' makes all elements
/// but the last zero; and what the last becomes.
fn reflection(row: &[f64]) -> (Vec<f64>, f64) {
    let (last, before) = row.split_last().expect("rows that are reflected have elements");
    let scale = row.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    if before.iter().all(|value| *value == 0.0) {
        return (vec![0.0; row.len()], *last);
    }
    let norm = scale * row.iter().map(|value| (value / scale).powi(2)).sum::<f64>().sqrt();
    let norm = norm.copysign(*last);
    // v = u * sqrt(2) / |u| with u = row + norm * e; |u|^2 = 2 norm (norm + last).
    let length = (norm * (norm + last)).sqrt();
    let mut vector: Vec<f64> = row.iter().map(|value| value / length).collect();
    vector[row.len() - 1] = (last + norm) / length;
    (vector, -norm)
}

/// Turns the diagonal of a tridiagonal matrix into its eigenvalues. O(n^2).
fn ql(diagonal: &mut [f64], beside: &mut [f64]) {
    for first in 0..diagonal.len() {
        for _ in 0..MOST_ROTATIONS {
            let is_small = |at: &usize| {
                let of = diagonal[*at].abs() + diagonal[at + 1].abs();
                beside[*at].abs() <= f64::EPSILON * of
            };
            let last = (first..diagonal.len() - 1).find(is_small).unwrap_or(diagonal.len() - 1);
            if last == first {
                break;
            }
            rotate(diagonal, beside, first, last);
        }
    }
}

/// One step of the method on a part of the matrix, with Wilkinson's shift.
fn rotate(diagonal: &mut [f64], beside: &mut [f64], first: usize, last: usize) {
    let shift = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
    let root = shift.hypot(1.0).copysign(shift);
    let mut next = diagonal[last] - diagonal[first] + beside[first] / (shift + root);
    let (mut sine, mut cosine, mut moved) = (1.0, 1.0, 0.0);
    for at in (first..last).rev() {
        let (of_sine, of_cosine) = (sine * beside[at], cosine * beside[at]);
        let length = of_sine.hypot(next);
        beside[at + 1] = length;
        if length == 0.0 {
            diagonal[at + 1] -= moved;
            beside[last] = 0.0;
            return;
        }
        (sine, cosine) = (of_sine / length, next / length);
        next = diagonal[at + 1] - moved;
        let change = (diagonal[at] - next) * sine + 2.0 * cosine * of_cosine;
        moved = sine * change;
        diagonal[at + 1] = next + moved;
        next = cosine * change - of_cosine;
    }
    diagonal[first] -= moved;
    beside[first] = next;
    beside[last] = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of rounding, in matrices of a hundred rows.
    const TOLERANCE: f64 = 1e-10;

    /// The covariance of a random walk: min(i, j).
    fn walk(n: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, n), |(row, column)| (row.min(column) + 1) as f64)
    }

    #[test]
    fn the_factor_of_a_random_walk_is_a_triangle_of_ones() {
        for n in [1, BLOCK, 2 * BLOCK + 7] {
            let factor = cholesky(walk(n)).unwrap();
            for ((row, column), value) in factor.indexed_iter() {
                let expected = if column <= row { 1.0 } else { 0.0 };
                assert!((value - expected).abs() < TOLERANCE, "{n}: {row} {column}: {value}");
            }
        }
    }

    #[test]
    fn the_factor_of_a_singular_matrix_has_zeros_and_an_indefinite_one_has_none() {
        let factor = cholesky(Array2::from_elem((3, 3), 4.0)).unwrap();
        assert_eq!(factor, ndarray::arr2(&[[2.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 0.0, 0.0]]));
        assert_eq!(cholesky(ndarray::arr2(&[[1.0, 2.0], [2.0, 1.0]])), None);
        assert_eq!(cholesky(ndarray::arr2(&[[f64::NAN]])), None);
    }

    #[test]
    fn the_eigenvalues_of_a_random_walk_are_those_of_the_string() {
        // 1 / (2 - 2 cos((2k - 1) pi / (2n + 1))) for k from 1 to n.
        for n in [1, 2, 30, 131] {
            let mut found = eigenvalues(walk(n));
            found.sort_unstable_by(|one, other| other.total_cmp(one));
            for (at, found) in found.iter().enumerate() {
                let angle = (2 * at + 1) as f64 * std::f64::consts::PI / (2 * n + 1) as f64;
                let expected = (2.0 - 2.0 * angle.cos()).recip();
                assert!((found / expected - 1.0).abs() < TOLERANCE, "{n}: {found} {expected}");
            }
        }
    }

    #[test]
    fn what_is_diagonal_or_no_number_ends() {
        let mut found = eigenvalues(Array2::from_diag(&ndarray::arr1(&[3.0, 0.0, -1.0])));
        found.sort_unstable_by(f64::total_cmp);
        assert_eq!(found, [-1.0, 0.0, 3.0]);
        assert!(
            eigenvalues(Array2::from_elem((4, 4), f64::NAN)).iter().any(|value| value.is_nan())
        );
    }
}
