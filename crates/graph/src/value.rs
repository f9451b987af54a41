//! Values: typed arrays whose copies share their memory.

use std::borrow::Cow;
use std::sync::Arc;

use dyno_tensors::{Element, Elements};
use half::{bf16, f16};

/// Maximum size of a value in bytes.
pub const MAX_BYTES: usize = 1 << 33;

/// A dense array in row-major order. A copy of a value shares its elements.
///
/// ```
/// use dyno_graph::Value;
///
/// let value = Value::new(vec![2, 2], vec![1.0_f32, 2.0, 3.0, 4.0])?;
/// assert_eq!((value.dims(), value.as_slice::<f32>().unwrap()[2]), (&[2, 2][..], 3.0));
/// assert_eq!(value.as_slice::<i64>(), None);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    dims: Vec<usize>,
    data: Data,
}

macro_rules! numbers {
    ($($variant:ident: $type:ty;)+) => {
        /// Elements of a value.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Data {
            $($variant(Arc<Vec<$type>>),)+
        }

        impl Data {
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(all) => all.len(),)+ }
            }

            pub fn element(&self) -> Element {
                match self { $(Self::$variant(_) => Element::$variant,)+ }
            }

            /// Returns the number of elements for which there is memory.
            pub fn capacity(&self) -> usize {
                match self { $(Self::$variant(all) => all.capacity(),)+ }
            }

            /// Returns whether no other value shares the elements.
            pub fn is_unshared(&self) -> bool {
                match self { $(Self::$variant(all) => Arc::strong_count(all) == 1,)+ }
            }
        }

        $(impl Number for $type {
            const TYPE: Element = Element::$variant;
        }

        impl private::Storage for $type {
            fn wrap(all: Vec<Self>) -> Data {
                Data::$variant(Arc::new(all))
            }

            fn slice(data: &Data) -> Option<&[Self]> {
                match data {
                    Data::$variant(all) => Some(all),
                    _ => None,
                }
            }

            fn unshared(data: &mut Data) -> Option<&mut [Self]> {
                match data {
                    Data::$variant(all) => Arc::get_mut(all).map(Vec::as_mut_slice),
                    _ => None,
                }
            }

            fn take(data: Data) -> Option<Vec<Self>> {
                match data {
                    Data::$variant(all) => {
                        Some(Arc::try_unwrap(all).unwrap_or_else(|shared| shared.to_vec()))
                    }
                    _ => None,
                }
            }
        })+
    };
}

mod private {
    use super::Data;

    /// Conversions between vectors and the elements of values.
    pub trait Storage: Sized {
        fn wrap(all: Vec<Self>) -> Data;
        fn slice(data: &Data) -> Option<&[Self]>;
        fn unshared(data: &mut Data) -> Option<&mut [Self]>;
        fn take(data: Data) -> Option<Vec<Self>>;
    }
}

/// A type of elements that a value can have.
pub trait Number:
    private::Storage + Copy + Default + PartialOrd + std::fmt::Debug + Send + Sync + 'static
{
    /// The type as an element of tensors.
    const TYPE: Element;
}

numbers! {
    F32: f32;
    F64: f64;
    I64: i64;
    I32: i32;
    I8: i8;
    U8: u8;
    Bool: bool;
}

/// Evaluates an expression with the slice of elements, of any type.
macro_rules! each {
    ($value:expr, $all:ident => $body:expr) => {
        match $value.data() {
            $crate::value::Data::F32($all) => $body,
            $crate::value::Data::F64($all) => $body,
            $crate::value::Data::I64($all) => $body,
            $crate::value::Data::I32($all) => $body,
            $crate::value::Data::I8($all) => $body,
            $crate::value::Data::U8($all) => $body,
            $crate::value::Data::Bool($all) => $body,
        }
    };
}
pub(crate) use each;

/// Evaluates an expression with the slice of elements, of any type but bool.
macro_rules! each_number {
    ($value:expr, $all:ident => $body:expr) => {
        match $value.data() {
            $crate::value::Data::F32($all) => $body,
            $crate::value::Data::F64($all) => $body,
            $crate::value::Data::I64($all) => $body,
            $crate::value::Data::I32($all) => $body,
            $crate::value::Data::I8($all) => $body,
            $crate::value::Data::U8($all) => $body,
            $crate::value::Data::Bool(_) => Err("expected numbers, found bool".to_owned()),
        }
    };
}
pub(crate) use each_number;

impl Value {
    /// Returns a value of these dimensions.
    ///
    /// # Errors
    /// The number of elements does not fit the dimensions.
    pub fn new<T: Number>(dims: impl Into<Vec<usize>>, all: Vec<T>) -> Result<Self, String> {
        let dims = dims.into();
        if dims.iter().try_fold(1_usize, |product, n| product.checked_mul(*n)) != Some(all.len()) {
            return Err(format!("expected {dims:?} elements, found {}", all.len()));
        }
        Ok(Self { dims, data: T::wrap(all) })
    }

    /// Returns a value without dimensions.
    pub fn scalar<T: Number>(number: T) -> Self {
        Self { dims: Vec::new(), data: T::wrap(vec![number]) }
    }

    /// Returns a list of integers, such as a shape.
    pub fn list(all: Vec<i64>) -> Self {
        Self { dims: vec![all.len()], data: private::Storage::wrap(all) }
    }

    /// Returns a value with the elements of a tensor. Numbers of 16 bits become `f32`.
    ///
    /// # Errors
    /// The number of elements does not fit the dimensions.
    pub fn from_elements(dims: &[usize], elements: Elements<'_>) -> Result<Self, String> {
        match elements {
            Elements::F32(all) => Self::new(dims, all.into_owned()),
            Elements::F64(all) => Self::new(dims, all.into_owned()),
            Elements::I64(all) => Self::new(dims, all.into_owned()),
            Elements::I32(all) => Self::new(dims, all.into_owned()),
            Elements::I8(all) => Self::new(dims, all.into_owned()),
            Elements::U8(all) => Self::new(dims, all.into_owned()),
            Elements::Bool(all) => Self::new(dims, all.into_owned()),
            halves @ (Elements::F16(_) | Elements::BF16(_)) => {
                Self::new(dims, halves.to_f32().into_owned())
            }
        }
    }

    /// Returns the elements as those of a tensor of type `element`, which is the value's own or, for
    /// `f32`, a type of 16 bits to which they are rounded. Returns `None` for other types.
    pub fn elements(&self, element: Element) -> Option<Elements<'_>> {
        Some(match (&self.data, element) {
            (Data::F32(all), Element::F32) => Elements::F32(Cow::Borrowed(all)),
            (Data::F32(all), Element::F16) => {
                Elements::F16(all.iter().map(|x| f16::from_f32(*x)).collect())
            }
            (Data::F32(all), Element::BF16) => {
                Elements::BF16(all.iter().map(|x| bf16::from_f32(*x)).collect())
            }
            (Data::F64(all), Element::F64) => Elements::F64(Cow::Borrowed(all)),
            (Data::I64(all), Element::I64) => Elements::I64(Cow::Borrowed(all)),
            (Data::I32(all), Element::I32) => Elements::I32(Cow::Borrowed(all)),
            (Data::I8(all), Element::I8) => Elements::I8(Cow::Borrowed(all)),
            (Data::U8(all), Element::U8) => Elements::U8(Cow::Borrowed(all)),
            (Data::Bool(all), Element::Bool) => Elements::Bool(Cow::Borrowed(all)),
            _ => return None,
        })
    }

    /// Returns the dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the type of the elements.
    pub fn element(&self) -> Element {
        self.data.element()
    }

    /// Returns the elements, if they are of this type.
    pub fn as_slice<T: Number>(&self) -> Option<&[T]> {
        T::slice(&self.data)
    }

    pub(crate) fn data(&self) -> &Data {
        &self.data
    }

    pub(crate) fn into_data(self) -> Data {
        self.data
    }

    /// Returns whether a number is NaN.
    pub(crate) fn has_nan(&self) -> bool {
        // Without an early end, compilers make vectors of the loop.
        each!(self, all => all.iter().fold(false, |found, x| found | is_nan(*x)))
    }

    /// Returns the elements, or an error that names both types.
    pub(crate) fn all<T: Number>(&self) -> Result<&[T], String> {
        self.as_slice().ok_or_else(|| format!("expected {}, found {}", T::TYPE, self.element()))
    }

    /// Returns the elements, if they are of this type and no other value shares them.
    pub(crate) fn unshared<T: Number>(&mut self) -> Option<&mut [T]> {
        T::unshared(&mut self.data)
    }

    /// Returns the elements as a vector, without a copy if no other value shares them.
    pub(crate) fn into_vec<T: Number>(self) -> Result<Vec<T>, String> {
        let found = self.element();
        T::take(self.data).ok_or_else(|| format!("expected {}, found {found}", T::TYPE))
    }

    /// Returns the value with other dimensions.
    pub(crate) fn reshaped(self, dims: Vec<usize>) -> Result<Self, String> {
        let count = count(&dims, 1)?;
        if count != self.len() {
            return Err(format!("cannot give {:?} the dimensions {dims:?}", self.dims));
        }
        Ok(Self { dims, data: self.data })
    }

    /// Returns integers as `i64`.
    pub(crate) fn integers(&self) -> Result<Cow<'_, [i64]>, String> {
        match &self.data {
            Data::I64(all) => Ok(Cow::Borrowed(all)),
            Data::I32(all) => Ok(all.iter().map(|x| i64::from(*x)).collect()),
            Data::I8(all) => Ok(all.iter().map(|x| i64::from(*x)).collect()),
            Data::U8(all) => Ok(all.iter().map(|x| i64::from(*x)).collect()),
            _ => Err(format!("expected integers, found {}", self.element())),
        }
    }

    /// Returns the only element of an integer or boolean value.
    pub(crate) fn integer(&self) -> Result<i64, String> {
        if let Some([only]) = self.as_slice::<bool>() {
            return Ok((*only).into());
        }
        match *self.integers()? {
            [only] => Ok(only),
            ref all => Err(format!("expected one integer, found {}", all.len())),
        }
    }
}

/// Returns the number of elements of these dimensions.
///
/// # Errors
/// They would take more than [`MAX_BYTES`], with `size` bytes for each element.
pub(crate) fn count(dims: &[usize], size: usize) -> Result<usize, String> {
    let product = dims.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
    let bytes = product.and_then(|count| count.checked_mul(size));
    let bytes = bytes.filter(|bytes| *bytes <= MAX_BYTES);
    let bytes =
        bytes.ok_or_else(|| format!("a value of {dims:?} elements exceeds {MAX_BYTES} bytes"))?;
    // An allocation that fails ends the process. Large ones are tried first.
    if bytes > TRIED_BYTES && Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
        return Err(format!(
            "a value of {dims:?} elements does not fit into memory: {bytes} bytes"
        ));
    }
    Ok(product.unwrap_or(0))
}

/// Bytes from which an allocation is tried before it is made.
const TRIED_BYTES: usize = 1 << 24;

/// Returns a vector of default elements for these dimensions.
pub(crate) fn zeros<T: Number>(dims: &[usize]) -> Result<Vec<T>, String> {
    Ok(vec![T::default(); count(dims, size_of::<T>())?])
}

/// Returns whether a number is NaN, the only one that is not equal to itself.
pub(crate) fn is_nan<T: PartialOrd + Copy>(x: T) -> bool {
    x.partial_cmp(&x).is_none()
}

/// Resolves an axis, which counts from the end if it is negative.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let from_end = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(from_end)
        .ok()
        .filter(|axis| *axis < rank)
        .ok_or_else(|| format!("axis {axis} is out of range for {rank} dimensions"))
}

/// Returns the distance between neighbors along each axis, in elements.
pub(crate) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for at in (1..dims.len()).rev() {
        strides[at - 1] = strides[at] * dims[at].max(1);
    }
    strides
}
