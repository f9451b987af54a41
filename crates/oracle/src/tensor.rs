//! Tensors: numbers in f64 or i64 whatever the element type, in row-major order.

use crate::element::Element;
use crate::fault::{Fault, fault};

/// Most elements of one tensor. More would exhaust the memory of the machine that verifies.
pub(crate) const MAX_ELEMENTS: usize = 1 << 27;

/// Numbers of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Numbers of floating-point types. They are not rounded to the type.
    Floats(Vec<f64>),
    /// Numbers of integer types and truth values.
    Integers(Vec<i64>),
}

/// A tensor: element type, shape and numbers in row-major order.
///
/// ```
/// use dyno_oracle::{Element, Tensor};
///
/// let tensor = Tensor::floats(Element::Float32, &[2, 1], vec![0.5, 1.5])?;
/// assert_eq!((tensor.shape(), tensor.element()), (&[2, 1][..], Element::Float32));
/// assert!(Tensor::integers(Element::UInt8, &[1], vec![256]).is_err());
/// # Ok::<(), dyno_oracle::OracleError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    element: Element,
    shape: Vec<usize>,
    values: Values,
}

impl Tensor {
    pub(crate) fn new(element: Element, shape: &[usize], values: Values) -> Result<Tensor, Fault> {
        let count = element_count(shape)?;
        let (length, is_float) = match &values {
            Values::Floats(values) => (values.len(), true),
            Values::Integers(values) => (values.len(), false),
        };
        if is_float != element.is_float() {
            return fault(format!("expected numbers of type {element}"));
        }
        if length != count {
            return fault(format!("expected {count} numbers for shape {shape:?}, found {length}"));
        }
        Ok(Tensor { element, shape: shape.to_vec(), values })
    }

    pub(crate) fn of_floats(
        element: Element,
        shape: &[usize],
        values: Vec<f64>,
    ) -> Result<Tensor, Fault> {
        Tensor::new(element, shape, Values::Floats(values))
    }

    /// Makes a tensor of integers; they wrap as the type does.
    pub(crate) fn of_integers(
        element: Element,
        shape: &[usize],
        mut values: Vec<i64>,
    ) -> Result<Tensor, Fault> {
        values.iter_mut().for_each(|value| *value = element.wrap(*value));
        if element == Element::UInt64 && values.iter().any(|value| *value < 0) {
            return fault("values of uint64 from 2⁶³ are not supported");
        }
        Tensor::new(element, shape, Values::Integers(values))
    }

    /// Makes a tensor of truth values.
    pub(crate) fn of_truths(
        shape: &[usize],
        values: impl Iterator<Item = bool>,
    ) -> Result<Tensor, Fault> {
        Tensor::of_integers(Element::Bool, shape, values.map(i64::from).collect())
    }

    /// Makes a vector of `int64`, such as a shape.
    pub(crate) fn of_indices(values: Vec<i64>) -> Result<Tensor, Fault> {
        Tensor::of_integers(Element::Int64, &[values.len()], values)
    }

    /// Returns a tensor of a floating-point type.
    ///
    /// # Errors
    /// The type is an integer type, or the number of values does not fit the shape.
    pub fn floats(
        element: Element,
        shape: &[usize],
        values: Vec<f64>,
    ) -> Result<Tensor, crate::OracleError> {
        Ok(Tensor::of_floats(element, shape, values)?)
    }

    /// Returns a tensor of an integer type or of truth values.
    ///
    /// # Errors
    /// The type is a floating-point type, a value lies outside of its range, or the number of values
    /// does not fit the shape.
    pub fn integers(
        element: Element,
        shape: &[usize],
        values: Vec<i64>,
    ) -> Result<Tensor, crate::OracleError> {
        let (low, high) = element.limits();
        if let Some(value) = values.iter().find(|value| !(low..=high).contains(value)) {
            return Ok(fault(format!("expected numbers of type {element}, found {value}"))?);
        }
        Ok(Tensor::new(element, shape, Values::Integers(values))?)
    }

    /// Returns the type of the elements.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Returns the sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the numbers in row-major order.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the numbers of a floating-point tensor.
    pub(crate) fn as_floats(&self) -> Result<&[f64], Fault> {
        match &self.values {
            Values::Floats(values) => Ok(values),
            Values::Integers(_) => fault(format!("expected floats, found {}", self.element)),
        }
    }

    /// Returns the numbers of a tensor of integers or truth values.
    pub(crate) fn as_integers(&self) -> Result<&[i64], Fault> {
        match &self.values {
            Values::Integers(values) => Ok(values),
            Values::Floats(_) => fault(format!("expected integers, found {}", self.element)),
        }
    }

    /// Returns the truth values of a tensor of type `bool`.
    pub(crate) fn as_truths(&self) -> Result<Vec<bool>, Fault> {
        if self.element != Element::Bool {
            return fault(format!("expected bool, found {}", self.element));
        }
        Ok(self.as_integers()?.iter().map(|value| *value != 0).collect())
    }

    /// Returns the numbers as f64, whatever the type.
    pub(crate) fn to_floats(&self) -> Vec<f64> {
        match &self.values {
            Values::Floats(values) => values.clone(),
            Values::Integers(values) => values.iter().map(|value| *value as f64).collect(),
        }
    }

    /// Returns the single number of a tensor of integers.
    pub(crate) fn as_integer(&self) -> Result<i64, Fault> {
        match self.as_integers()? {
            [value] => Ok(*value),
            values => fault(format!("expected one integer, found {}", values.len())),
        }
    }

    /// Returns the single number of a floating-point tensor.
    pub(crate) fn as_float(&self) -> Result<f64, Fault> {
        match self.as_floats()? {
            [value] => Ok(*value),
            values => fault(format!("expected one number, found {}", values.len())),
        }
    }

    /// Returns the same numbers in another shape.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Result<Tensor, Fault> {
        Tensor::new(self.element, shape, self.values.clone())
    }

    /// Returns a tensor whose element at each index is that of this tensor at the position that `source`
    /// returns for the index. Every operator that only moves elements is made of this.
    pub(crate) fn rearranged(
        &self,
        shape: &[usize],
        mut source: impl FnMut(&[usize]) -> usize,
    ) -> Result<Tensor, Fault> {
        let mut positions = Vec::with_capacity(element_count(shape)?);
        for_each_index(shape, |index| positions.push(source(index)));
        self.picked(shape, &positions)
    }

    /// Returns the elements at `positions` as a tensor of this shape.
    pub(crate) fn picked(&self, shape: &[usize], positions: &[usize]) -> Result<Tensor, Fault> {
        fn pick<T: Copy>(values: &[T], positions: &[usize]) -> Option<Vec<T>> {
            positions.iter().map(|position| values.get(*position).copied()).collect()
        }
        let values = match &self.values {
            Values::Floats(values) => pick(values, positions).map(Values::Floats),
            Values::Integers(values) => pick(values, positions).map(Values::Integers),
        };
        let Some(values) = values else { return fault("an index lies outside of the tensor") };
        Tensor::new(self.element, shape, values)
    }

    /// Returns the tensor repeated along dimensions of size 1 until it has the shape.
    pub(crate) fn broadcast(&self, shape: &[usize]) -> Result<Tensor, Fault> {
        let added = shape.len().checked_sub(self.rank());
        let fits = added.is_some_and(|added| {
            self.shape.iter().zip(&shape[added..]).all(|(own, wanted)| *own == 1 || own == wanted)
        });
        let Some(added) = added.filter(|_| fits) else {
            return fault(format!("shape {:?} does not broadcast to {shape:?}", self.shape));
        };
        self.rearranged(shape, |index| {
            let sizes = self.shape.iter();
            sizes.zip(&index[added..]).fold(0, |position, (size, index)| {
                position * size + if *size == 1 { 0 } else { *index }
            })
        })
    }

    /// Returns a vector of these elements of the tensor followed by those of `other`.
    pub(crate) fn followed_by(&self, other: &Tensor) -> Result<Tensor, Fault> {
        let values = match (&self.values, &other.values) {
            (Values::Floats(a), Values::Floats(b)) => Values::Floats([&a[..], b].concat()),
            (Values::Integers(a), Values::Integers(b)) => Values::Integers([&a[..], b].concat()),
            _ => return fault(format!("expected {}, found {}", self.element, other.element)),
        };
        Tensor::new(self.element, &[self.count() + other.count()], values)
    }
}

/// Returns the number of elements of a shape, which must not exceed [`MAX_ELEMENTS`].
pub(crate) fn element_count(shape: &[usize]) -> Result<usize, Fault> {
    let counted =
        shape.iter().filter(|size| **size > 0).try_fold(1usize, |all, size| all.checked_mul(*size));
    match counted {
        Some(count) if count <= MAX_ELEMENTS => Ok(if shape.contains(&0) { 0 } else { count }),
        _ => fault(format!("a tensor of shape {shape:?} is too large to verify")),
    }
}

/// Calls the function with each index of the shape, the last dimension fastest.
pub(crate) fn for_each_index(shape: &[usize], mut each: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        each(&index);
        let mut dimension = shape.len();
        loop {
            if dimension == 0 {
                return;
            }
            dimension -= 1;
            index[dimension] += 1;
            if index[dimension] < shape[dimension] {
                break;
            }
            index[dimension] = 0;
        }
    }
}

/// Returns the row-major position of an index.
pub(crate) fn position(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |position, (index, size)| position * size + index)
}

/// Returns the shape to which all shapes broadcast.
pub(crate) fn broadcast_shape(shapes: &[&[usize]]) -> Result<Vec<usize>, Fault> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut broadcast = vec![1; rank];
    for shape in shapes {
        for (wanted, size) in broadcast[rank - shape.len()..].iter_mut().zip(*shape) {
            if *wanted != *size && *wanted != 1 && *size != 1 {
                return fault(format!("shapes {shapes:?} do not broadcast to each other"));
            }
            if *wanted == 1 {
                *wanted = *size;
            }
        }
    }
    Ok(broadcast)
}

/// A tensor seen as `outer` × `size` × `inner` around one of its axes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes {
    pub outer: usize,
    pub size: usize,
    pub inner: usize,
}

impl Lanes {
    pub fn new(shape: &[usize], axis: usize) -> Lanes {
        let outer = shape[..axis].iter().product();
        Lanes { outer, size: shape[axis], inner: shape[axis + 1..].iter().product() }
    }

    /// Returns the positions along the axis of each lane.
    pub fn positions(self) -> impl Iterator<Item = Vec<usize>> {
        (0..self.outer).flat_map(move |outer| {
            (0..self.inner).map(move |inner| {
                (0..self.size).map(|step| (outer * self.size + step) * self.inner + inner).collect()
            })
        })
    }
}
