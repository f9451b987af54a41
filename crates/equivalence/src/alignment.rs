//! Alignment: maps each number of a model's weight to the corresponding number of the reference.

use super::numbers::Numbers;

/// Arrangement of the reference's numbers in the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Arrangement {
    /// Dimension `axes[i]` of the reference is dimension i of the model, which may be longer.
    Axes(Vec<usize>),
    /// Same order, different shape.
    Flat,
    /// Like `Axes`, but only a part of the model's weight that begins at `start` along a dimension:
    /// one layer of the model replaces several layers of the reference.
    Part { axes: Vec<usize>, axis: usize, start: usize },
    /// Without the first slice along a dimension: 1 of 1001 classes.
    WithoutFirst(usize),
    /// The counts differ, or the arrangement is unknown.
    Other,
}

/// Positions in the model with the corresponding positions in the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    /// Dimensions of the model.
    shape: Vec<usize>,
    /// Distance of the reference's numbers along each dimension.
    strides: Vec<usize>,
    /// Number of reference slices along each dimension.
    limits: Vec<usize>,
    /// Position of the first number in the reference.
    first: usize,
    /// Distance of the model's numbers along each dimension.
    own_strides: Vec<usize>,
    /// Position of the first number in the model.
    own_first: usize,
}

impl Alignment {
    /// Returns the alignment of two shapes; `None` if the numbers do not correspond.
    pub fn from_shapes(
        arrangement: &Arrangement,
        theirs: &[usize],
        ours: &[usize],
    ) -> Option<Self> {
        let len = |shape: &[usize]| shape.iter().product::<usize>();
        let own_strides = self::strides(ours);
        let strides = strides(theirs);
        let ours = ours.to_vec();
        let own_first = 0;
        Some(match arrangement {
            Arrangement::Axes(axes) => {
                let limits: Vec<usize> = axes.iter().map(|&axis| theirs[axis]).collect();
                let is_within = limits.iter().zip(&ours).all(|(limit, own)| limit <= own);
                if !is_within || limits.len() != ours.len() {
                    return None;
                }
                let strides = axes.iter().map(|&axis| strides[axis]).collect();
                Self { shape: ours, strides, limits, first: 0, own_strides, own_first }
            }
            Arrangement::Part { axes, axis, start } => {
                let limits: Vec<usize> = axes.iter().map(|&axis| theirs[axis]).collect();
                let end = |at: usize| limits[at] + if at == *axis { *start } else { 0 };
                if limits.len() != ours.len() || (0..ours.len()).any(|at| end(at) > ours[at]) {
                    return None;
                }
                let strides = axes.iter().map(|&axis| strides[axis]).collect();
                let own_first = start * own_strides[*axis];
                Self { shape: limits.clone(), strides, limits, first: 0, own_strides, own_first }
            }
            Arrangement::Flat if len(theirs) == len(&ours) => {
                let all = len(theirs);
                let shape = vec![all];
                let limits = vec![all];
                let own_strides = vec![1];
                Self { shape, strides: vec![1], limits, first: 0, own_strides, own_first }
            }
            Arrangement::WithoutFirst(axis) => {
                let first = strides[*axis];
                let limits = ours.clone();
                Self { limits, shape: ours, strides, first, own_strides, own_first }
            }
            Arrangement::Flat | Arrangement::Other => return None,
        })
    }

    /// Whether the model has more positions than the reference has numbers.
    pub fn is_padded(&self) -> bool {
        self.limits != self.shape
    }

    /// Returns the model's position of number `index`, and the reference's; `None` for padding.
    pub fn place(&self, index: usize) -> (usize, Option<usize>) {
        let mut rest = index;
        let mut from = self.first;
        let mut own = self.own_first;
        let mut is_theirs = true;
        for axis in (0..self.shape.len()).rev() {
            let at = rest % self.shape[axis];
            rest /= self.shape[axis];
            is_theirs &= at < self.limits[axis];
            from += at * self.strides[axis];
            own += at * self.own_strides[axis];
        }
        (own, is_theirs.then_some(from))
    }

    /// Iterates over the model's positions with those of the reference, in order.
    pub fn places(&self) -> Places<'_> {
        let left = self.len();
        let own = self.own_first;
        Places { alignment: self, at: vec![0; self.shape.len()], from: self.first, own, left }
    }

    /// Number of the model's numbers.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Iterator over all positions that needs no division.
pub struct Places<'a> {
    alignment: &'a Alignment,
    at: Vec<usize>,
    from: usize,
    own: usize,
    left: usize,
}

impl Iterator for Places<'_> {
    type Item = (usize, Option<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let is_theirs = self.at.iter().zip(&self.alignment.limits).all(|(at, limit)| at < limit);
        let place = (self.own, is_theirs.then_some(self.from));
        for axis in (0..self.at.len()).rev() {
            self.at[axis] += 1;
            self.from += self.alignment.strides[axis];
            self.own += self.alignment.own_strides[axis];
            if self.at[axis] < self.alignment.shape[axis] {
                break;
            }
            self.from -= self.alignment.strides[axis] * self.alignment.shape[axis];
            self.own -= self.alignment.own_strides[axis] * self.alignment.shape[axis];
            self.at[axis] = 0;
        }
        Some(place)
    }
}

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for at in (0..shape.len().saturating_sub(1)).rev() {
        strides[at] = strides[at + 1] * shape[at + 1];
    }
    strides
}

/// A weight of the reference and its counterpart, number by number.
pub struct Sides<'a> {
    pub theirs: &'a Numbers<'a>,
    pub own: &'a Numbers<'a>,
    pub alignment: &'a Alignment,
}

impl Sides<'_> {
    /// Iterates over the model's positions with the reference's number and the model's; padding
    /// corresponds to 0.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, f32, f32)> {
        let theirs = |place: Option<usize>| place.map_or(0.0, |place| self.theirs.value(place));
        let places = self.alignment.places();
        places.map(move |(index, place)| (index, theirs(place), self.own.value(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(arrangement: &Arrangement, theirs: &[usize], ours: &[usize]) -> Vec<Option<usize>> {
        let alignment = Alignment::from_shapes(arrangement, theirs, ours).unwrap();
        let all: Vec<_> = alignment.places().collect();
        let each: Vec<_> = (0..all.len()).map(|index| alignment.place(index)).collect();
        assert_eq!(all, each);
        all.into_iter().map(|(_, place)| place).collect()
    }

    #[test]
    fn dimensions_change_places() {
        let some = |places: &[usize]| places.iter().map(|&at| Some(at)).collect::<Vec<_>>();
        let turned = Arrangement::Axes(vec![1, 0]);
        assert_eq!(places(&turned, &[2, 3], &[3, 2]), some(&[0, 3, 1, 4, 2, 5]));
        assert_eq!(places(&Arrangement::Flat, &[2, 2], &[4]), some(&[0, 1, 2, 3]));
        assert_eq!(places(&Arrangement::WithoutFirst(1), &[2, 3], &[2, 2]), some(&[1, 2, 4, 5]));
        let same = Arrangement::Axes(vec![0, 1]);
        let short = [2, 1];
        let padded = [Some(0), None, Some(1), None, None, None];
        assert_eq!(places(&same, &short, &[3, 2]), padded);
        assert_eq!(Alignment::from_shapes(&same, &[3, 2], &short), None);
    }

    #[test]
    fn a_part_has_places_of_its_own() {
        let part = |start: usize| Arrangement::Part { axes: vec![1, 0], axis: 1, start };
        let places = |start: usize| {
            let alignment = Alignment::from_shapes(&part(start), &[2, 3], &[3, 5])?;
            Some(alignment.places().map(|(own, theirs)| (own, theirs.unwrap())).collect::<Vec<_>>())
        };
        // Rows of the reference are columns 2 and 3 of the model.
        let expected = [(2, 0), (3, 3), (7, 1), (8, 4), (12, 2), (13, 5)];
        assert_eq!(places(2).unwrap(), expected);
        assert_eq!(places(4), None, "it ends beyond the model's");
    }
}
