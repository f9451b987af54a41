//! Axes of values: which axis of a sequence each dimension of a value counts, and how operators
//! that only move numbers change that.
//!
//! A dimension counts a product of axes, the slowest first, as after a `Reshape` that joins
//! directions and units. Two values have the same numbers in the same order if their axes are the
//! same. Sizes are numbers or symbols of the file; a statement about symbols holds for every size.

use std::collections::HashMap;

use dyno_onnx::Dim;

/// Number of an axis.
pub type Axis = usize;

/// Axes of each dimension of a value. Axes of size 1 are left out: they do not affect the order of
/// numbers.
pub type Dims = Vec<Vec<Axis>>;

/// A product of an integer and of symbolic sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub number: i64,
    /// Symbols in ascending order, each as often as it is a factor.
    pub symbols: Vec<usize>,
}

impl Count {
    /// Returns a count without symbols.
    pub fn fixed(number: i64) -> Self {
        Self { number, symbols: Vec::new() }
    }

    /// Returns the product of two counts, or `None` if it exceeds an integer.
    pub fn times(&self, other: &Self) -> Option<Self> {
        let number = self.number.checked_mul(other.number)?;
        let mut symbols = [&self.symbols[..], &other.symbols].concat();
        symbols.sort_unstable();
        Some(Self { number, symbols })
    }

    /// Returns the quotient, or `None` if it is not a count.
    fn divided_by(&self, other: &Self) -> Option<Self> {
        let mut symbols = self.symbols.clone();
        for symbol in &other.symbols {
            symbols.remove(symbols.iter().position(|own| own == symbol)?);
        }
        let is_whole = other.number != 0 && self.number.checked_rem(other.number)? == 0;
        is_whole.then(|| Self { number: self.number / other.number, symbols })
    }
}

/// Sizes of all axes.
#[derive(Default)]
pub struct Axes {
    sizes: Vec<Count>,
    symbols: Vec<String>,
    /// Index of each symbol in `symbols`, without those called `?`.
    known: HashMap<String, usize>,
}

impl Axes {
    /// Adds an axis of this size. Returns the axes of a dimension that counts it: none for size 1.
    pub fn add(&mut self, size: &Dim) -> Vec<Axis> {
        let size = match size {
            Dim::Fixed(1) => return Vec::new(),
            Dim::Fixed(n) => Count::fixed(i64::try_from(*n).unwrap_or(i64::MAX)),
            Dim::Symbol(name) => {
                let next = self.symbols.len();
                let symbol = match name.as_str() {
                    // Sizes without a name may differ.
                    "?" => next,
                    _ => *self.known.entry(name.clone()).or_insert(next),
                };
                if symbol == next {
                    self.symbols.push(name.clone());
                }
                Count { number: 1, symbols: vec![symbol] }
            }
        };
        self.sizes.push(size);
        vec![self.sizes.len() - 1]
    }

    /// Returns the size of a dimension, or `None` if it exceeds an integer.
    pub fn size(&self, dim: &[Axis]) -> Option<Count> {
        dim.iter().try_fold(Count::fixed(1), |size, axis| size.times(&self.sizes[*axis]))
    }

    /// Formats the sizes of dimensions, such as `[T, 2, N, 4]`.
    pub fn format(&self, dims: &Dims) -> String {
        let one = |dim: &Vec<Axis>| self.size(dim).map_or("?".to_owned(), |size| self.text(&size));
        format!("[{}]", dims.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    /// Formats a count, such as `2*N`.
    pub fn text(&self, count: &Count) -> String {
        let mut parts: Vec<String> =
            count.symbols.iter().map(|symbol| self.symbols[*symbol].clone()).collect();
        if count.number != 1 || parts.is_empty() {
            parts.insert(0, count.number.to_string());
        }
        parts.join("*")
    }

    /// Returns the dimensions after a `Reshape` to `target`, or `None` if it is not certain that
    /// each new dimension counts whole axes. `keeps_zero` is the attribute `allowzero`.
    pub fn reshape(&self, dims: &Dims, target: &[Count], keeps_zero: bool) -> Option<Dims> {
        let size = |(at, count): (usize, &Count)| -> Option<Option<Count>> {
            match (count.number, &count.symbols[..]) {
                (0, []) if !keeps_zero => self.size(dims.get(at)?).map(Some),
                (-1, []) => Some(None),
                (1.., _) => Some(Some(count.clone())),
                _ => None,
            }
        };
        let sizes: Vec<Option<Count>> =
            target.iter().enumerate().map(size).collect::<Option<_>>()?;
        let known =
            sizes.iter().flatten().try_fold(Count::fixed(1), |all, size| all.times(size))?;
        if sizes.iter().filter(|size| size.is_none()).count() > 1 {
            return None;
        }
        let axes = dims.concat();
        let rest = self.size(&axes)?.divided_by(&known)?;
        let mut left = &axes[..];
        let mut found = Dims::new();
        for size in &sizes {
            let size = size.as_ref().unwrap_or(&rest);
            let count =
                (0..=left.len()).find(|count| self.size(&left[..*count]).as_ref() == Some(size));
            let (dim, others) = left.split_at(count?);
            found.push(dim.to_vec());
            left = others;
        }
        left.is_empty().then_some(found)
    }
}

/// Returns the index of an axis attribute, which counts from the end if negative.
fn index(axis: i64, rank: usize) -> Option<usize> {
    let at = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
    usize::try_from(at).ok().filter(|at| *at < rank)
}

/// Returns the dimensions in another order, by default the reverse.
pub fn transpose(dims: &Dims, order: Option<&[i64]>) -> Option<Dims> {
    let Some(order) = order else { return Some(dims.iter().rev().cloned().collect()) };
    let order: Vec<usize> = order.iter().map(|at| index(*at, dims.len())).collect::<Option<_>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let is_order = sorted.into_iter().eq(0..dims.len());
    is_order.then(|| order.into_iter().map(|at| dims[at].clone()).collect())
}

/// Returns the dimensions without those of `axes`, which must have size 1; without `axes`, without
/// all of size 1, if no other dimension can have that size.
pub fn squeeze(axes: &Axes, dims: &Dims, removed: Option<&[i64]>) -> Option<Dims> {
    let Some(removed) = removed else {
        let can_be_one =
            |dim: &Vec<Axis>| axes.size(dim).is_none_or(|size| size.number == 1 && !dim.is_empty());
        let is_certain = !dims.iter().any(can_be_one);
        return is_certain.then(|| dims.iter().filter(|dim| !dim.is_empty()).cloned().collect());
    };
    let removed: Vec<usize> =
        removed.iter().map(|at| index(*at, dims.len())).collect::<Option<_>>()?;
    let have_one = removed.iter().all(|at| dims[*at].is_empty());
    let kept = dims.iter().enumerate().filter(|(at, _)| !removed.contains(at));
    have_one.then(|| kept.map(|(_, dim)| dim.clone()).collect())
}

/// Returns the dimensions with others of size 1 at `added`.
pub fn unsqueeze(dims: &Dims, added: &[i64]) -> Option<Dims> {
    let rank = dims.len().checked_add(added.len())?;
    let mut added: Vec<usize> = added.iter().map(|at| index(*at, rank)).collect::<Option<_>>()?;
    added.sort_unstable();
    if added.windows(2).any(|pair| pair[0] == pair[1]) {
        return None;
    }
    let mut found = dims.clone();
    added.iter().for_each(|at| found.insert(*at, Vec::new()));
    Some(found)
}

/// Returns two dimensions: the ones before `axis`, and the others.
pub fn flatten(dims: &Dims, axis: i64) -> Option<Dims> {
    let rank = i64::try_from(dims.len()).ok()?;
    let at = if axis < 0 { axis.checked_add(rank)? } else { axis };
    let at = usize::try_from(at).ok().filter(|at| *at <= dims.len())?;
    let (before, after) = dims.split_at(at);
    Some(vec![before.concat(), after.concat()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str) -> Dim {
        Dim::symbol(name)
    }

    /// Dimensions T, 2, N and 4.
    fn outputs(axes: &mut Axes) -> Dims {
        [symbol("T"), 2.into(), symbol("N"), 4.into()].iter().map(|dim| axes.add(dim)).collect()
    }

    fn counts(numbers: &[i64]) -> Vec<Count> {
        numbers.iter().map(|number| Count::fixed(*number)).collect()
    }

    #[test]
    fn directions_join_units_only_after_a_transpose() {
        let mut axes = Axes::default();
        let dims = outputs(&mut axes);
        let turned = transpose(&dims, Some(&[0, 2, 1, 3])).unwrap();
        let joined = axes.reshape(&turned, &counts(&[0, 0, -1]), false).unwrap();
        assert_eq!(joined, [vec![0], vec![2], vec![1, 3]]);
        assert_eq!(axes.format(&joined), "[T, N, 8]");
        for target in [&[0, -1, 8][..], &[6, 6, 8], &[-1, -1, 8], &[0, 0, 0, 0, 0]] {
            assert_eq!(axes.reshape(&dims, &counts(target), false), None, "{target:?}");
        }
        assert_eq!(axes.reshape(&dims, &counts(&[0, 0, 0, 0]), true), None);
    }

    #[test]
    fn an_axis_is_not_cut() {
        let mut axes = Axes::default();
        let dims: Dims = [6, 6, 4].iter().map(|n| axes.add(&Dim::Fixed(*n))).collect();
        assert_eq!(axes.reshape(&dims, &counts(&[3, 6, 8]), false), None);
        assert_eq!(axes.reshape(&dims, &counts(&[2, 18, 4]), false), None);
        let flat = axes.reshape(&dims, &counts(&[36, 1, 4]), false).unwrap();
        assert_eq!(flat, [vec![0, 1], vec![], vec![2]]);
    }

    #[test]
    fn sizes_that_may_be_one_are_not_squeezed() {
        let mut axes = Axes::default();
        let dims: Dims =
            [symbol("T"), 1.into(), 3.into()].iter().map(|dim| axes.add(dim)).collect();
        assert_eq!(squeeze(&axes, &dims, None), None);
        assert_eq!(squeeze(&axes, &dims, Some(&[0])), None);
        assert_eq!(squeeze(&axes, &dims, Some(&[-2])), Some(vec![vec![0], vec![1]]));
        assert_eq!(unsqueeze(&[vec![0]].into(), &[0, 2]), Some(vec![vec![], vec![0], vec![]]));
        assert_eq!(unsqueeze(&[vec![0]].into(), &[0, 0]), None);
        assert_eq!(flatten(&dims, -1), Some(vec![vec![0], vec![1]]));
        assert_eq!(flatten(&dims, i64::MIN), None);
    }

    #[test]
    fn unnamed_sizes_are_not_equal() {
        let mut axes = Axes::default();
        let dims: Dims = [symbol("?"), symbol("?")].iter().map(|dim| axes.add(dim)).collect();
        assert_ne!(axes.size(&dims[0]), axes.size(&dims[1]));
        let named: Dims = [symbol("N"), symbol("N")].iter().map(|dim| axes.add(dim)).collect();
        assert_eq!(axes.size(&named[0]), axes.size(&named[1]));
    }
}
