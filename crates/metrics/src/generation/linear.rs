//! Linear algebra of the Fréchet distance: a triangular factor of a covariance, and the eigenvalues
//! of a symmetric matrix.
//!
//! Source: Golub and Van Loan, "Matrix Computations": blocked Cholesky factorization; Householder's
//! reduction to a tridiagonal matrix; its eigenvalues by the implicit QL method. Products are those
//! of `ndarray`.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayBase, ArrayViewMut2, Axis, Ix2, RawData, Slice};

use crate::parallel;

/// Columns that are factored before the remaining matrix is updated.
const BLOCK: usize = 64;

/// A negative pivot is a rounding error up to this multiple of the limit for zero.
const NEGATIVE: f64 = 1e6;

/// Maximum number of rotations for an eigenvalue. About 2 are needed.
const MAX_ROTATIONS: usize = 60;

/// Returns the lower triangular L whose product with its transpose is the symmetric matrix; `None`
/// if the matrix has a negative eigenvalue. O(n^3).
///
/// Only the lower triangle is read. The factor of a singular matrix has columns of zeros.
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

/// Subtracts the product of a panel and its transpose from the lower triangle of a matrix.
fn subtract_square(panel: &ArrayViewMut2<f64>, mut matrix: ArrayViewMut2<f64>) {
    // Strips avoid most of the upper triangle.
    const STRIP: usize = 256;
    let columns = panel.ncols();
    let mut strips: Vec<_> = matrix.axis_chunks_iter_mut(Axis(0), STRIP).enumerate().collect();
    parallel::for_each(&mut strips, |(at, strip)| {
        let (start, end) = (*at * STRIP, *at * STRIP + strip.nrows());
        let rows = part(panel.view(), start..end, 0..columns);
        let above = part(panel.view(), 0..end, 0..columns);
        let mut to = part(strip.view_mut(), 0..end - start, 0..end);
        general_mat_mul(-1.0, &rows, &above.t(), 1.0, &mut to);
    });
}

/// Returns a part of a matrix.
pub(super) fn part<S: RawData>(
    mut matrix: ArrayBase<S, Ix2>,
    rows: Range<usize>,
    columns: Range<usize>,
) -> ArrayBase<S, Ix2> {
    matrix.slice_axis_inplace(Axis(0), Slice::from(rows));
    matrix.slice_axis_inplace(Axis(1), Slice::from(columns));
    matrix
}

/// Returns a part of a row.
fn row(matrix: &Array2<f64>, at: usize, columns: Range<usize>) -> &[f64] {
    let columns_of_all = matrix.ncols();
    let all = matrix.as_slice().expect("matrices here are row by row");
    &all[at * columns_of_all..][columns]
}

/// Returns the dot product. Eight partial sums let the compiler use vectors.
pub fn dot(one: &[f64], other: &[f64]) -> f64 {
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

/// Returns the eigenvalues of a symmetric matrix, unordered. O(n^3).
///
/// Only the lower triangle is read.
pub fn eigenvalues(matrix: Array2<f64>) -> Vec<f64> {
    let (mut diagonal, mut beside) = tridiagonal(matrix);
    // Scales elements so that no square overflows.
    let scale = diagonal.iter().chain(&beside).fold(0.0_f64, |most, value| most.max(value.abs()));
    if scale > 0.0 && scale.is_finite() {
        diagonal.iter_mut().chain(&mut beside).for_each(|value| *value /= scale);
        ql(&mut diagonal, &mut beside);
        diagonal.iter_mut().for_each(|value| *value *= scale);
    }
    diagonal
}

/// Reflections that are computed before the remaining matrix is updated.
const PANEL: usize = 32;

/// Returns the diagonal and the first subdiagonal, followed by 0, of a tridiagonal matrix with
/// equal eigenvalues.
///
/// A reflection clears the last row except for two elements. A panel of reflections is applied to
/// the rows above as one product of matrices, so that each reflection only reads the matrix
/// (Dongarra, Hammarling and Sorensen, "Block reduction of matrices to condensed forms", 1989).
fn tridiagonal(mut matrix: Array2<f64>) -> (Vec<f64>, Vec<f64>) {
    let n = matrix.nrows();
    let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n]);
    let mut end = n;
    while end > 0 {
        let start = end.saturating_sub(PANEL);
        // Reflections v, and vectors w with which A becomes A - v w' - w v'.
        let mut panel: Vec<[Vec<f64>; 2]> = Vec::with_capacity(PANEL);
        for last in (start..end).rev() {
            let mut own = row(&matrix, last, 0..last + 1).to_vec();
            for [v, w] in &panel {
                subtract(&mut own, v[last], w);
                subtract(&mut own, w[last], v);
            }
            diagonal[last] = own[last];
            if last == 0 {
                break;
            }
            let (v, reflected) = reflection(&own[..last]);
            beside[last - 1] = reflected;
            let mut w = symmetric_product(&matrix, &v);
            for [before, product] in &panel {
                let (by_product, by_before) = (dot(&product[..last], &v), dot(&before[..last], &v));
                subtract(&mut w, by_product, before);
                subtract(&mut w, by_before, product);
            }
            let half = 0.5 * dot(&w, &v);
            subtract(&mut w, half, &v);
            panel.push([v, w]);
        }
        subtract_panel(&panel, &mut matrix, start);
        end = start;
    }
    (diagonal, beside)
}

/// Subtracts a multiple of the beginning of a vector.
fn subtract(from: &mut [f64], factor: f64, vector: &[f64]) {
    from.iter_mut().zip(vector).for_each(|(value, other)| *value -= factor * other);
}

/// Applies reflections to the lower triangle of the first rows of a matrix.
fn subtract_panel(panel: &[[Vec<f64>; 2]], matrix: &mut Array2<f64>, rows: usize) {
    const STRIP: usize = 128;
    let stacked = |order: [usize; 2]| {
        let all = order.iter().flat_map(|side| panel.iter().map(|pair| &pair[*side][..rows]));
        let all: Vec<f64> = all.flatten().copied().collect();
        Array2::from_shape_vec((2 * panel.len(), rows), all).expect("vectors are of these rows")
    };
    if rows == 0 {
        return;
    }
    let (left, right) = (stacked([0, 1]), stacked([1, 0]));
    let mut triangle = part(matrix.view_mut(), 0..rows, 0..rows);
    let mut strips: Vec<_> = triangle.axis_chunks_iter_mut(Axis(0), STRIP).enumerate().collect();
    parallel::for_each(&mut strips, |(at, strip)| {
        let (start, end) = (*at * STRIP, *at * STRIP + strip.nrows());
        let left = part(left.view(), 0..left.nrows(), start..end);
        let right = part(right.view(), 0..right.nrows(), 0..end);
        let mut to = part(strip.view_mut(), 0..end - start, 0..end);
        general_mat_mul(-1.0, &left.t(), &right, 1.0, &mut to);
    });
}

/// Minimum number of rows for a thread.
const PIECE: usize = 256;

/// Maximum number of pieces. It does not depend on the processors, since sums depend on it.
const PIECES: usize = 8;

/// Returns the product of a symmetric matrix and a vector. The first rows of `matrix`, as many as
/// the vector has elements, hold the lower triangle.
fn symmetric_product(matrix: &Array2<f64>, vector: &[f64]) -> Vec<f64> {
    let count = vector.len();
    let pieces = (count / PIECE).clamp(1, PIECES);
    // Divides the triangle into equal areas.
    let share = |piece: usize| {
        (count as f64 * (piece as f64 / pieces as f64).sqrt() / 4.0).round() as usize * 4
    };
    let bounds: Vec<usize> = (0..pieces).map(share).chain([count]).collect();
    let ranges: Vec<Range<usize>> = bounds.windows(2).map(|pair| pair[0]..pair[1]).collect();
    let products = parallel::map(&ranges, |rows| rows_product(matrix, rows.clone(), vector));
    let mut sum = vec![0.0; count];
    for product in &products {
        sum.iter_mut().zip(product).for_each(|(sum, product)| *sum += product);
    }
    sum
}

/// Returns the contribution of some rows and their mirrored columns to the product.
fn rows_product(matrix: &Array2<f64>, rows: Range<usize>, vector: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; rows.end];
    let mut first = rows.start;
    while first + 4 <= rows.end {
        let four: [&[f64]; 4] = std::array::from_fn(|at| row(matrix, first + at, 0..first));
        let factors: [f64; 4] = std::array::from_fn(|at| vector[first + at]);
        let found = multiply_four(four, &vector[..first], factors, &mut product[..first]);
        for (at, found) in found.into_iter().enumerate() {
            let place = first + at;
            product[place] += found;
            // The triangle of the four rows at the diagonal.
            let own = row(matrix, place, first..place + 1);
            for (column, value) in (first..place).zip(own) {
                product[place] += value * vector[column];
                product[column] += value * vector[place];
            }
            product[place] += own[at] * vector[place];
        }
        first += 4;
    }
    for place in first..rows.end {
        let own = row(matrix, place, 0..place + 1);
        let (before, product) = product.split_at_mut(place);
        for (sum, value) in before.iter_mut().zip(own) {
            *sum += value * vector[place];
        }
        product[0] += dot(own, &vector[..place + 1]);
    }
    product
}

/// Returns the products of four rows and a vector. Adds each row times its factor to `sums`.
fn multiply_four(
    rows: [&[f64]; 4],
    vector: &[f64],
    factors: [f64; 4],
    sums: &mut [f64],
) -> [f64; 4] {
    const LANES: usize = 4;
    let chunks = rows.map(|row| row.as_chunks::<LANES>());
    let (vectors, vector_rest) = vector.as_chunks::<LANES>();
    let (sum_chunks, sum_rest) = sums.as_chunks_mut::<LANES>();
    let mut found = [[0.0; LANES]; 4];
    let of_rows = chunks[0].0.iter().zip(chunks[1].0).zip(chunks[2].0.iter().zip(chunks[3].0));
    for ((((one, two), (three, four)), vector), sums) in of_rows.zip(vectors).zip(sum_chunks) {
        for lane in 0..LANES {
            let values = [one[lane], two[lane], three[lane], four[lane]];
            let mut sum = sums[lane];
            for at in 0..4 {
                found[at][lane] += values[at] * vector[lane];
                sum += values[at] * factors[at];
            }
            sums[lane] = sum;
        }
    }
    std::array::from_fn(|at| {
        let rest = chunks[at].1;
        for (sum, value) in sum_rest.iter_mut().zip(rest) {
            *sum += value * factors[at];
        }
        let rest: f64 = rest.iter().zip(vector_rest).map(|(one, other)| one * other).sum();
        found[at].iter().sum::<f64>() + rest
    })
}

/// Returns the vector v for which I - v v' clears all elements except the last, and the new value
/// of the last. The length of v is the root of 2, or 0.
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

/// Replaces the diagonal of a tridiagonal matrix by its eigenvalues. Elements must be at most 1 in
/// magnitude. O(n^2).
fn ql(diagonal: &mut [f64], beside: &mut [f64]) {
    for first in 0..diagonal.len() {
        for _ in 0..MAX_ROTATIONS {
            let is_small = |at: &usize| {
                let sum = diagonal[*at].abs() + diagonal[at + 1].abs();
                beside[*at].abs() <= f64::EPSILON * sum
            };
            let last = (first..diagonal.len() - 1).find(is_small).unwrap_or(diagonal.len() - 1);
            if last == first {
                break;
            }
            rotate(diagonal, beside, first, last);
        }
    }
}

/// Performs one step of the QL method on a part of the matrix, with Wilkinson's shift.
fn rotate(diagonal: &mut [f64], beside: &mut [f64], first: usize, last: usize) {
    let shift = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
    let root = shift.hypot(1.0).copysign(shift);
    let mut next = diagonal[last] - diagonal[first] + beside[first] / (shift + root);
    let (mut sine, mut cosine, mut moved) = (1.0, 1.0, 0.0);
    for at in (first..last).rev() {
        let (of_sine, of_cosine) = (sine * beside[at], cosine * beside[at]);
        let length = (of_sine * of_sine + next * next).sqrt();
        beside[at + 1] = length;
        if length == 0.0 {
            diagonal[at + 1] -= moved;
            beside[last] = 0.0;
            return;
        }
        let inverse = length.recip();
        (sine, cosine) = (of_sine * inverse, next * inverse);
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

    /// Rounding error in matrices of about a hundred rows.
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
