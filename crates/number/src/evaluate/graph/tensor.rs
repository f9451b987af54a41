//! Values of a graph, and operators that move or combine their numbers.
//!
//! Integers and booleans are `f32` as well. They are exact below 2^24, and the models here do not
//! exceed that.

use std::sync::Arc;

use dyno_kernels::{Isa, Rows, mix};

use super::super::stage::greater;

/// Numbers in row-major order, as in ONNX.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub dims: Vec<usize>,
    pub values: Arc<Vec<f32>>,
}

/// Sentence that describes an input that does not fit.
pub(super) type Mismatch = String;

/// Maximum number of elements of a value that is larger than those it is made of, to bound its memory.
const LARGEST: usize = 1 << 31;

/// Returns the number of elements; `None` on overflow.
fn counted(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1_usize, |count, n| count.checked_mul(*n))
}

/// Returns the number of elements of a value that fits into memory.
fn bounded(dims: &[usize]) -> Result<usize, Mismatch> {
    let count = counted(dims).filter(|count| *count <= LARGEST);
    count.ok_or_else(|| format!("makes a value of {dims:?} numbers, which exceeds {LARGEST}"))
}

/// Returns room for the numbers of a value. An allocation that fails would end the process.
pub(super) fn room(dims: &[usize]) -> Result<Vec<f32>, Mismatch> {
    let mut values = Vec::new();
    match values.try_reserve_exact(bounded(dims)?) {
        Ok(()) => Ok(values),
        Err(_) => Err(format!("makes a value of {dims:?} numbers, which does not fit into memory")),
    }
}

/// Returns the numbers of a value that are all 0.
pub(super) fn zeros(dims: &[usize]) -> Result<Vec<f32>, Mismatch> {
    let mut values = room(dims)?;
    values.resize(bounded(dims)?, 0.0);
    Ok(values)
}

impl Tensor {
    /// Creates a tensor.
    ///
    /// # Panics
    /// If the number of values is not the product of the dimensions.
    pub fn new(dims: Vec<usize>, values: Vec<f32>) -> Self {
        assert_eq!(dims.iter().product::<usize>(), values.len(), "a number for each place");
        Self { dims, values: Arc::new(values) }
    }

    /// Returns the numbers in other dimensions.
    pub fn with_dims(self, dims: Vec<usize>) -> Result<Self, Mismatch> {
        if counted(&dims) == Some(self.values.len()) {
            Ok(Self { dims, values: self.values })
        } else {
            Err(format!("makes {dims:?} of {:?}", self.dims))
        }
    }

    /// Returns the numbers, without a copy if they are not shared.
    pub fn into_values(self) -> Vec<f32> {
        Arc::try_unwrap(self.values).unwrap_or_else(|shared| shared.as_ref().clone())
    }

    /// Changes the numbers in place.
    pub fn each(self, change: impl Fn(&mut [f32])) -> Self {
        let dims = self.dims.clone();
        let mut values = self.into_values();
        change(&mut values);
        Self::new(dims, values)
    }

    /// Returns the numbers as counts, axes or indices. NaN becomes the least integer, which is no
    /// index, as in ONNX Runtime.
    pub fn integers(&self) -> Vec<i64> {
        self.values.iter().map(|x| if x.is_nan() { i64::MIN } else { *x as i64 }).collect()
    }

    /// Returns the index of an axis, which may be counted from the last.
    pub fn axis(&self, axis: i64) -> Result<usize, Mismatch> {
        place(axis, self.dims.len()).ok_or_else(|| format!("has no axis {axis} in {:?}", self.dims))
    }

    /// Returns the number of elements before an axis, along it, and within one step of it.
    pub fn around(&self, axis: usize) -> [usize; 3] {
        let (before, behind) = (&self.dims[..axis], &self.dims[axis + 1..]);
        [before.iter().product(), self.dims[axis], behind.iter().product()]
    }

    pub fn transposed(&self, order: &[usize]) -> Result<Self, Mismatch> {
        let rank = self.dims.len();
        let is_order = order.len() == rank && (0..rank).all(|axis| order.contains(&axis));
        if !is_order {
            return Err(format!("turns {:?} by {order:?}", self.dims));
        }
        let strides = strides(&self.dims);
        let dims: Vec<usize> = order.iter().map(|axis| self.dims[*axis]).collect();
        let steps: Vec<usize> = order.iter().map(|axis| strides[*axis]).collect();
        let mut values = Vec::with_capacity(self.values.len());
        rows(&dims, [&steps], |[start], [step], count| {
            if step == 1 {
                values.extend_from_slice(&self.values[start..start + count]);
            } else {
                values.extend((0..count).map(|at| self.values[start + at * step]));
            }
        });
        Ok(Self::new(dims, values))
    }

    /// Combines two tensors with broadcasting (ONNX, "Broadcasting").
    pub fn paired(self, other: &Self, combine: impl Fn(f32, f32) -> f32) -> Result<Self, Mismatch> {
        if self.dims == other.dims {
            let others = &other.values;
            let change = |values: &mut [f32]| {
                values.iter_mut().zip(others.iter()).for_each(|(x, y)| *x = combine(*x, *y));
            };
            return Ok(self.each(change));
        }
        let dims = broadcast(&self.dims, &other.dims)
            .ok_or_else(|| format!("pairs {:?} with {:?}", self.dims, other.dims))?;
        let steps = [&self.dims, &other.dims].map(|from| repeated(from, &dims));
        if dims == self.dims {
            // The first tensor keeps its dimensions, so it is changed in place.
            let change = |values: &mut [f32]| {
                rows(&dims, [&steps[0], &steps[1]], |[a, b], [_, step], count| {
                    let (x, y) = (&mut values[a..a + count], &other.values[b..]);
                    match step {
                        0 => x.iter_mut().for_each(|x| *x = combine(*x, y[0])),
                        _ => x.iter_mut().zip(y).for_each(|(x, y)| *x = combine(*x, *y)),
                    }
                });
            };
            return Ok(self.each(change));
        }
        let mut values = room(&dims)?;
        rows(&dims, [&steps[0], &steps[1]], |[a, b], steps, count| {
            let (x, y) = (&self.values[a..], &other.values[b..]);
            match steps {
                [1, 1] => values.extend(x[..count].iter().zip(y).map(|(x, y)| combine(*x, *y))),
                [1, 0] => values.extend(x[..count].iter().map(|x| combine(*x, y[0]))),
                [0, 1] => values.extend(y[..count].iter().map(|y| combine(x[0], *y))),
                [i, j] => values.extend((0..count).map(|at| combine(x[at * i], y[at * j]))),
            }
        });
        Ok(Self::new(dims, values))
    }

    /// Repeats the values along axes (`Expand`).
    pub fn expanded(self, dims: &[usize]) -> Result<Self, Mismatch> {
        let whole = Self::new(dims.to_vec(), zeros(dims)?);
        self.paired(&whole, |x, _| x)
    }

    /// Concatenates tensors along an axis.
    pub fn joined(parts: &[Self], axis: usize) -> Result<Self, Mismatch> {
        let first = &parts[0];
        let alike = |part: &Self| {
            part.dims.len() == first.dims.len()
                && part
                    .dims
                    .iter()
                    .zip(&first.dims)
                    .enumerate()
                    .all(|(at, (a, b))| at == axis || a == b)
        };
        if let Some(other) = parts.iter().find(|part| !alike(part)) {
            return Err(format!("joins {:?} and {:?}", first.dims, other.dims));
        }
        let [before, ..] = first.around(axis);
        let mut dims = first.dims.clone();
        dims[axis] = parts.iter().map(|part| part.dims[axis]).sum();
        let mut values = room(&dims)?;
        for at in 0..before {
            for part in parts {
                let [_, along, within] = part.around(axis);
                values.extend_from_slice(&part.values[at * along * within..][..along * within]);
            }
        }
        Ok(Self::new(dims, values))
    }

    /// Returns `count` steps of an axis: `first`, `first + by` and so on.
    pub fn sliced(&self, axis: usize, first: usize, by: i64, count: usize) -> Self {
        let place = |at: usize| (first as i64 + at as i64 * by) as usize;
        self.picked(axis, &(0..count).map(place).collect::<Vec<_>>())
    }

    /// Returns the given steps of an axis.
    ///
    /// # Panics
    /// If a step does not exist.
    fn picked(&self, axis: usize, places: &[usize]) -> Self {
        let [before, along, within] = self.around(axis);
        let mut dims = self.dims.clone();
        dims[axis] = places.len();
        let mut values = Vec::with_capacity(before * places.len() * within);
        for at in 0..before {
            for place in places {
                values.extend_from_slice(&self.values[(at * along + place) * within..][..within]);
            }
        }
        Self::new(dims, values)
    }

    /// Returns the steps of an axis that `indices` select. The dimensions of `indices` replace the
    /// axis (`Gather`).
    pub fn gathered(&self, axis: usize, indices: &Self) -> Result<Self, Mismatch> {
        let along = self.dims[axis];
        let checked = |index: &i64| {
            place(*index, along).ok_or_else(|| format!("has no place {index} of {along}"))
        };
        let places = indices.integers().iter().map(checked).collect::<Result<Vec<_>, _>>()?;
        let dims = [&self.dims[..axis], &indices.dims, &self.dims[axis + 1..]].concat();
        bounded(&dims)?;
        self.picked(axis, &places).with_dims(dims)
    }

    /// Reduces axes to their sum, mean, maximum or length. An empty list stands for all axes.
    pub fn reduced(&self, axes: &[usize], keeps: bool, how: Reduction) -> Result<Self, Mismatch> {
        let rank = self.dims.len();
        let is_reduced = |axis: &usize| axes.is_empty() || axes.contains(axis);
        let order: Vec<usize> = (0..rank)
            .filter(|axis| !is_reduced(axis))
            .chain((0..rank).filter(is_reduced))
            .collect();
        let count: usize =
            (0..rank).filter(is_reduced).map(|axis| self.dims[axis]).product::<usize>();
        let turned = if order.is_sorted() { self.clone() } else { self.transposed(&order)? };
        if count == 0 {
            return Err(format!("reduces {:?} to nothing", self.dims));
        }
        let values = turned.values.chunks_exact(count).map(|row| match how {
            Reduction::Sum => row.iter().sum(),
            Reduction::Mean => row.iter().sum::<f32>() / count as f32,
            Reduction::Max => row.iter().copied().fold(f32::NEG_INFINITY, greater),
            Reduction::Length => row.iter().map(|x| x * x).sum::<f32>().sqrt(),
        });
        let values = values.collect();
        let dims = (0..rank).filter_map(|axis| match (is_reduced(&axis), keeps) {
            (false, _) => Some(self.dims[axis]),
            (true, true) => Some(1),
            (true, false) => None,
        });
        Ok(Self::new(dims.collect(), values))
    }

    /// Multiplies matrices with broadcasting of the outer axes (`MatMul`). Sums are in the order of
    /// k.
    pub fn multiplied(&self, other: &Self) -> Result<Self, Mismatch> {
        let wrong = || format!("multiplies {:?} by {:?}", self.dims, other.dims);
        let [.., m, k] = self.dims[..] else { return Err(wrong()) };
        let [.., other_k, n] = other.dims[..] else { return Err(wrong()) };
        let outer = |tensor: &Self| tensor.dims[..tensor.dims.len() - 2].to_vec();
        let (a, b) = (outer(self), outer(other));
        let whole = broadcast(&a, &b).filter(|_| k == other_k).ok_or_else(wrong)?;
        let steps = [repeated(&a, &whole), repeated(&b, &whole)];
        let count: usize = whole.iter().product();
        let dims = [&whole[..], &[m, n]].concat();
        let mut values = zeros(&dims)?;
        let mut starts = Vec::with_capacity(count);
        rows(&whole, [&steps[0], &steps[1]], |[a, b], [i, j], count| {
            starts.extend((0..count).map(|at| (a + at * i, b + at * j)));
        });
        for (to, (a, b)) in values.chunks_exact_mut((m * n).max(1)).zip(starts) {
            let (x, y) = (&self.values[a * m * k..], &other.values[b * k * n..]);
            let rows = Rows::new(y, k, n, n);
            for (to, x) in to.chunks_exact_mut(n).zip(x.chunks_exact(k.max(1))) {
                mix(Isa::best(), x, rows, to);
            }
        }
        Ok(Self::new(dims, values))
    }
}

/// A reduction of several numbers to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    Sum,
    Mean,
    Max,
    /// The root of the sum of the squares.
    Length,
}

/// Converts an index that may be counted from the end; `None` if it is out of range.
pub(super) fn place(at: i64, count: usize) -> Option<usize> {
    let at = if at < 0 { at.checked_add(i64::try_from(count).ok()?)? } else { at };
    usize::try_from(at).ok().filter(|at| *at < count)
}

fn strides(dims: &[usize]) -> Vec<usize> {
    (0..dims.len()).map(|axis| dims[axis + 1..].iter().product()).collect()
}

fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |dims: &[usize], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis])
    };
    let dim = |axis| match (size(a, axis), size(b, axis)) {
        (x, y) if x == y || y == 1 => Some(x),
        (1, y) => Some(y),
        _ => None,
    };
    (0..rank).map(dim).collect()
}

/// Returns the strides of a value in the dimensions to which it is broadcast.
fn repeated(dims: &[usize], to: &[usize]) -> Vec<usize> {
    let strides = strides(dims);
    let missing = to.len() - dims.len();
    let step = |axis: usize| match axis.checked_sub(missing) {
        Some(axis) if dims[axis] != 1 => strides[axis],
        _ => 0,
    };
    (0..to.len()).map(step).collect()
}

/// Calls `row` for each row along the last axis: with its offsets in values of these strides, their
/// strides along the row, and its length.
fn rows<const N: usize>(
    dims: &[usize],
    steps: [&Vec<usize>; N],
    mut row: impl FnMut([usize; N], [usize; N], usize),
) {
    let Some((last, outer)) = dims.split_last() else {
        row([0; N], [1; N], 1);
        return;
    };
    if dims.contains(&0) {
        return;
    }
    let along = steps.map(|steps| steps[outer.len()]);
    let mut at = vec![0; outer.len()];
    let mut starts = [0; N];
    loop {
        row(starts, along, *last);
        let mut axis = outer.len();
        loop {
            let Some(next) = axis.checked_sub(1) else { return };
            axis = next;
            at[axis] += 1;
            starts.iter_mut().zip(&steps).for_each(|(start, steps)| *start += steps[axis]);
            if at[axis] < outer[axis] {
                break;
            }
            starts
                .iter_mut()
                .zip(&steps)
                .for_each(|(start, steps)| *start -= steps[axis] * at[axis]);
            at[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(dims: &[usize]) -> Tensor {
        let count = dims.iter().product::<usize>();
        Tensor::new(dims.to_vec(), (0..count).map(|at| at as f32).collect())
    }

    #[test]
    fn numbers_are_moved() {
        let x = numbered(&[2, 3, 2]);
        let turned = x.transposed(&[2, 0, 1]).unwrap();
        assert_eq!(turned.dims, [2, 2, 3]);
        assert_eq!(turned.values[..6], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(x.sliced(1, 2, -2, 2).values[..4], [4.0, 5.0, 0.0, 1.0]);
        let gathered = x.gathered(1, &Tensor::new(vec![1, 2], vec![-1.0, 0.0])).unwrap();
        assert_eq!((&gathered.dims[..], gathered.values[2]), (&[2, 1, 2, 2][..], 0.0));
        assert!(x.gathered(1, &Tensor::new(vec![], vec![3.0])).is_err());
        let joined = Tensor::joined(&[x.clone(), x.clone()], 1).unwrap();
        assert_eq!((&joined.dims[..], joined.values[6]), (&[2, 6, 2][..], 0.0));
        let mean = x.reduced(&[0, 2], true, Reduction::Mean).unwrap();
        assert_eq!((&mean.dims[..], &mean.values[..]), (&[1, 3, 1][..], &[3.5, 5.5, 7.5][..]));
        let sides = Tensor::new(vec![2, 2], vec![3.0, -4.0, -5.0, 12.0]);
        let lengths = sides.reduced(&[1], false, Reduction::Length).unwrap();
        assert_eq!((&lengths.dims[..], &lengths.values[..]), (&[2][..], &[5.0, 13.0][..]));
    }

    #[test]
    fn the_maximum_of_nan_is_nan() {
        let x = Tensor::new(vec![3, 2], vec![f32::NAN, 1.0, 1.0, f32::NAN, 2.0, 1.0]);
        let most = x.reduced(&[1], false, Reduction::Max).unwrap();
        assert!(most.values[0].is_nan() && most.values[1].is_nan(), "{most:?}");
        assert_eq!(most.values[2], 2.0);
        let all = Tensor::new(vec![2], vec![f32::NAN; 2]);
        assert!(all.reduced(&[], true, Reduction::Max).unwrap().values[0].is_nan());
    }

    #[test]
    fn values_that_exceed_memory_are_rejected() {
        let (row, column) = (numbered(&[1, 1 << 16]), numbered(&[1 << 16, 1]));
        let parts = vec![row.clone(); 1 << 16];
        for (operator, found) in [
            ("Add", row.clone().paired(&column, |x, _| x)),
            ("Concat", Tensor::joined(&parts, 0)),
            ("MatMul", column.multiplied(&row)),
            ("Gather", row.gathered(0, &Tensor::new(vec![1 << 16], vec![0.0; 1 << 16]))),
        ] {
            let error = found.err().unwrap_or_default();
            assert!(error.contains("[65536, 65536]"), "{operator}: {error}");
        }
    }

    #[test]
    fn nan_is_no_index() {
        let nan = Tensor::new(vec![1], vec![f32::NAN]);
        assert!(numbered(&[3]).gathered(0, &nan).is_err());
    }

    #[test]
    fn numbers_are_paired_with_those_that_are_repeated() {
        let (x, y) = (numbered(&[2, 1, 3]), numbered(&[4, 1]));
        let sum = x.clone().paired(&y, |x, y| 10.0 * x + y).unwrap();
        assert_eq!(sum.dims, [2, 4, 3]);
        assert_eq!(sum.values[13..16], [40.0, 50.0, 31.0]);
        assert!(x.clone().paired(&numbered(&[2]), |x, _| x).is_err());
        let one = Tensor::new(Vec::new(), vec![2.0]);
        let twice = x.clone().paired(&one, |x, y| x * y).unwrap();
        assert_eq!(twice.values[..], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let product = numbered(&[2, 2, 3]).multiplied(&numbered(&[3, 1])).unwrap();
        assert_eq!(
            (&product.dims[..], &product.values[..]),
            (&[2, 2, 1][..], &[5.0, 14.0, 23.0, 32.0][..])
        );
    }
}
