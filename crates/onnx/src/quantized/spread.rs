//! Parameters along one axis of a tensor.

/// Index of the parameter of each element: one for all, one for each step along an axis, or one for
/// each block on the axis.
pub struct Spread {
    /// Elements within a step of the axis, steps of the axis, and elements of a block on it.
    inner: usize,
    along: usize,
    block: usize,
    is_one: bool,
    has_blocks: bool,
}

impl Spread {
    /// Returns the indices of `count` parameters for a tensor. `block` is 0 without blocks. `None`
    /// if the parameters do not fit.
    pub fn new(shape: &[usize], axis: i64, block: usize, count: usize) -> Option<Self> {
        if count == 1 {
            let (inner, along) = (1, 1);
            return Some(Self { inner, along, block: 1, is_one: true, has_blocks: false });
        }
        let rank = i64::try_from(shape.len()).ok()?;
        let axis = if axis < 0 { axis + rank } else { axis };
        let axis = usize::try_from(axis).ok().filter(|axis| *axis < shape.len())?;
        let inner: usize = shape[axis + 1..].iter().product();
        let along = shape[axis];
        let has_blocks = block > 0;
        let expected = if has_blocks {
            let outer: usize = shape[..axis].iter().product();
            outer * along.div_ceil(block) * inner
        } else {
            along
        };
        (count == expected && inner * along > 0).then_some(Self {
            inner,
            along,
            block: block.max(1),
            is_one: false,
            has_blocks,
        })
    }

    /// Returns the index of the parameter of an element.
    pub fn index_of(&self, element: usize) -> usize {
        if self.is_one {
            return 0;
        }
        let step = element / self.inner % self.along;
        if !self.has_blocks {
            return step;
        }
        let outer = element / self.inner / self.along;
        let blocks = self.along.div_ceil(self.block);
        (outer * blocks + step / self.block) * self.inner + element % self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(shape: &[usize], axis: i64, block: usize, count: usize) -> Option<Vec<usize>> {
        let spread = Spread::new(shape, axis, block, count)?;
        Some((0..shape.iter().product()).map(|at| spread.index_of(at)).collect())
    }

    #[test]
    fn parameters_follow_their_axis() {
        assert_eq!(indices(&[2, 2], 0, 0, 1), Some(vec![0; 4]));
        assert_eq!(indices(&[2, 3], 0, 0, 2), Some(vec![0, 0, 0, 1, 1, 1]));
        assert_eq!(indices(&[2, 3], -1, 0, 3), Some(vec![0, 1, 2, 0, 1, 2]));
        assert_eq!(indices(&[2, 3], 1, 0, 2), None);
        assert_eq!(indices(&[2, 3], 2, 0, 2), None);
    }

    /// Blocks of 2 on an axis of 3: the last one is shorter.
    #[test]
    fn blocks_divide_their_axis() {
        assert_eq!(indices(&[2, 3], 1, 2, 4), Some(vec![0, 0, 1, 2, 2, 3]));
        assert_eq!(indices(&[3, 2], 0, 2, 4), Some(vec![0, 1, 0, 1, 2, 3]));
        assert_eq!(indices(&[3, 2], 0, 2, 3), None);
    }
}
