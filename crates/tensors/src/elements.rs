//! Elements of tensors as numbers of Rust.

use std::borrow::Cow;
use std::ops::Range;

use half::{bf16, f16};

use crate::Element;

/// A type of Rust that [`Elements`] can hold.
pub trait Scalar: Copy + PartialOrd + Send + Sync + 'static {
    /// Its type as an element of tensors.
    const TYPE: Element;
    /// Wraps numbers.
    fn wrap(numbers: Cow<'_, [Self]>) -> Elements<'_>;
    /// Returns the numbers, if they are of this type.
    fn slice<'a>(elements: &'a Elements<'_>) -> Option<&'a [Self]>;
    /// Returns the numbers as a vector that can be changed, if they are of this type.
    fn vec_mut<'a>(elements: &'a mut Elements<'static>) -> Option<&'a mut Vec<Self>>;
    /// Returns the nearest `f64`; 0 or 1 for a boolean.
    fn to_f64(self) -> f64;
    /// Returns the integer, or `None` for a floating-point type.
    fn to_integer(self) -> Option<i64>;
    /// Appends numbers in little-endian order.
    fn write(all: &[Self], bytes: &mut Vec<u8>);
    /// Reads numbers in little-endian order; ignores the bytes behind the last whole number.
    fn read(bytes: &[u8]) -> Vec<Self>;
}

/// Evaluates an expression with the slice of elements, of any type.
///
/// ```
/// use dyno_tensors::{Elements, each_type};
///
/// let elements = Elements::U8(vec![1, 2].into());
/// assert_eq!(each_type!(&elements, all => all.len()), 2);
/// ```
#[macro_export]
macro_rules! each_type {
    ($elements:expr, $all:ident => $body:expr) => {
        match $elements {
            $crate::Elements::F32($all) => $body,
            $crate::Elements::F64($all) => $body,
            $crate::Elements::F16($all) => $body,
            $crate::Elements::BF16($all) => $body,
            $crate::Elements::I64($all) => $body,
            $crate::Elements::I32($all) => $body,
            $crate::Elements::I8($all) => $body,
            $crate::Elements::U8($all) => $body,
            $crate::Elements::Bool($all) => $body,
        }
    };
}

macro_rules! scalars {
    ($($variant:ident: $type:ty, $float:expr, $integer:expr, $write:expr, $read:expr;)+) => {
        /// Elements in row-major order, owned or borrowed.
        ///
        /// ```
        /// use dyno_tensors::{Element, Elements};
        ///
        /// let elements = Elements::read(Element::I8, &[1, 0xff]).unwrap();
        /// assert_eq!(elements, Elements::I8(vec![1, -1].into()));
        /// assert_eq!(elements.to_f64(), [1.0, -1.0]);
        /// ```
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "the names state it")]
        pub enum Elements<'a> {
            $($variant(Cow<'a, [$type]>),)+
        }

        impl Elements<'_> {
            /// Types that can be held.
            pub const TYPES: &'static [Element] = &[$(Element::$variant,)+];

            /// Reads elements in little-endian order; ignores the bytes behind the last whole element.
            ///
            /// Returns `None` for a type that is not one of [`Elements::TYPES`].
            pub fn read(element: Element, bytes: &[u8]) -> Option<Elements<'static>> {
                match element {
                    $(Element::$variant => {
                        Some(Scalar::wrap(Cow::Owned(<$type as Scalar>::read(bytes))))
                    })+
                    _ => None,
                }
            }
        }

        $(impl Scalar for $type {
            const TYPE: Element = Element::$variant;

            fn wrap(numbers: Cow<'_, [Self]>) -> Elements<'_> {
                Elements::$variant(numbers)
            }

            fn slice<'a>(elements: &'a Elements<'_>) -> Option<&'a [Self]> {
                match elements {
                    Elements::$variant(all) => Some(all),
                    _ => None,
                }
            }

            fn vec_mut<'a>(elements: &'a mut Elements<'static>) -> Option<&'a mut Vec<Self>> {
                match elements {
                    Elements::$variant(all) => Some(all.to_mut()),
                    _ => None,
                }
            }

            fn to_f64(self) -> f64 {
                let float: fn($type) -> f64 = $float;
                float(self)
            }

            fn to_integer(self) -> Option<i64> {
                let integer: fn($type) -> Option<i64> = $integer;
                integer(self)
            }

            fn write(all: &[Self], bytes: &mut Vec<u8>) {
                let write: fn($type) -> [u8; size_of::<$type>()] = $write;
                let start = bytes.len();
                bytes.resize(start + size_of_val(all), 0);
                // One loop without a check of room for each element becomes a copy.
                let (whole, _) = bytes[start..].as_chunks_mut::<{ size_of::<$type>() }>();
                for (place, element) in whole.iter_mut().zip(all) {
                    *place = write(*element);
                }
            }

            fn read(bytes: &[u8]) -> Vec<Self> {
                let read: fn([u8; size_of::<$type>()]) -> $type = $read;
                let (whole, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                whole.iter().map(|bytes| read(*bytes)).collect()
            }
        })+
    };
}

scalars! {
    F32: f32, f64::from, |_| None, |x| x.to_le_bytes(), f32::from_le_bytes;
    F64: f64, |x| x, |_| None, |x| x.to_le_bytes(), f64::from_le_bytes;
    F16: f16, f64::from, |_| None, |x| x.to_le_bytes(), f16::from_le_bytes;
    BF16: bf16, f64::from, |_| None, |x| x.to_le_bytes(), bf16::from_le_bytes;
    I64: i64, |x| x as f64, Some, |x| x.to_le_bytes(), i64::from_le_bytes;
    I32: i32, f64::from, |x| Some(x.into()), |x| x.to_le_bytes(), i32::from_le_bytes;
    I8: i8, f64::from, |x| Some(x.into()), |x| x.to_le_bytes(), i8::from_le_bytes;
    U8: u8, f64::from, |x| Some(x.into()), |x| [x], u8::from_le_bytes;
    Bool: bool, |x| u8::from(x).into(), |x| Some(x.into()), |x| [x.into()], |[byte]| byte != 0;
}

impl Elements<'static> {
    /// Returns an empty vector of this type, with the memory of the present elements if they are of this
    /// type, too.
    pub fn emptied<T: Scalar>(&mut self) -> &mut Vec<T> {
        if T::slice(self).is_none() {
            *self = T::wrap(Cow::Owned(Vec::new()));
        }
        let all = T::vec_mut(self).expect("they are of this type now");
        all.clear();
        all
    }

    /// Converts each to the nearest `f32`, in place where they are.
    pub fn into_f32(self) -> Vec<f32> {
        match self {
            Self::F32(all) => all.into_owned(),
            other => other.to_f32().into_owned(),
        }
    }
}

impl Elements<'_> {
    /// Returns the type of this name, if it is one of [`Elements::TYPES`].
    pub fn type_from_name(name: &str) -> Option<Element> {
        Element::from_name(name).filter(|element| Self::TYPES.contains(element))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        each_type!(self, all => all.len())
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns their type.
    pub fn element(&self) -> Element {
        fn type_of<T: Scalar>(_: &[T]) -> Element {
            T::TYPE
        }
        each_type!(self, all => type_of(all))
    }

    /// Returns the elements, if they are of this type.
    pub fn as_slice<T: Scalar>(&self) -> Option<&[T]> {
        T::slice(self)
    }

    /// Converts to owned elements; copies borrowed ones.
    pub fn into_owned(self) -> Elements<'static> {
        each_type!(self, all => Scalar::wrap(Cow::Owned(all.into_owned())))
    }

    /// Borrows the elements of a range.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn slice(&self, range: Range<usize>) -> Elements<'_> {
        each_type!(self, all => Scalar::wrap(Cow::Borrowed(&all[range])))
    }

    /// Copies rows of `length` elements by their indices, in this order.
    ///
    /// # Panics
    /// If an index is out of bounds.
    pub fn rows(&self, length: usize, rows: &[usize]) -> Elements<'static> {
        fn picked<T: Scalar>(all: &[T], length: usize, rows: &[usize]) -> Elements<'static> {
            let mut picked = Vec::with_capacity(length * rows.len());
            rows.iter().for_each(|row| picked.extend_from_slice(&all[row * length..][..length]));
            T::wrap(Cow::Owned(picked))
        }
        each_type!(self, all => picked(all, length, rows))
    }

    /// Converts each to the nearest `f32`; borrows elements that are of this type.
    pub fn to_f32(&self) -> Cow<'_, [f32]> {
        match self {
            Self::F32(all) => Cow::Borrowed(all),
            other => each_type!(other, all => all.iter().map(|x| x.to_f64() as f32).collect()),
        }
    }

    /// Converts each to `i64`; `None` for floating-point types.
    pub fn to_i64(&self) -> Option<Cow<'_, [i64]>> {
        match self {
            Self::I64(all) => Some(Cow::Borrowed(all)),
            other => each_type!(other, all => all.iter().map(|x| x.to_integer()).collect()),
        }
    }

    /// Converts each to `f64`: exact except for integers beyond 2^53.
    pub fn to_f64(&self) -> Vec<f64> {
        each_type!(self, all => all.iter().map(|x| x.to_f64()).collect())
    }

    /// Appends the elements in little-endian order.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        each_type!(self, all => Scalar::write(all, bytes));
    }

    /// Returns the class that the elements predict: a single integer is the class itself; of several
    /// elements it is the index of the greatest, the first of equals. `None` without elements, for a
    /// single score, or if one is NaN, because scores with NaN have no order.
    pub fn class(&self) -> Option<i64> {
        fn class<T: Scalar>(all: &[T]) -> Option<i64> {
            if let [only] = all {
                return only.to_integer();
            }
            // Only NaN has no order to itself.
            if all.iter().any(|x| x.partial_cmp(x).is_none()) {
                return None;
            }
            let scores = all.iter().enumerate();
            let greatest = scores.reduce(|best, next| if next.1 > best.1 { next } else { best });
            greatest.map(|(index, _)| index as i64)
        }
        each_type!(self, all => class(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_a_class_or_scores() {
        assert_eq!(Elements::I64(vec![7].into()).class(), Some(7));
        assert_eq!(Elements::U8(vec![1, 9, 9].into()).class(), Some(1));
        assert_eq!(Elements::Bool(vec![false, true].into()).class(), Some(1));
        assert_eq!(Elements::I64(Vec::new().into()).class(), None);
    }

    #[test]
    fn floats_with_nan_have_no_class() {
        assert_eq!(Elements::F32(vec![f32::NAN, 1.0, 2.0].into()).class(), None);
        assert_eq!(Elements::F64(vec![f64::NAN].into()).class(), None);
        assert_eq!(Elements::F32(vec![0.7].into()).class(), None, "one score has no greatest");
        assert_eq!(Elements::F32(vec![f32::NEG_INFINITY, 1.0, 2.0, 2.0].into()).class(), Some(2));
        let halves = [f16::NEG_INFINITY, f16::from_f32(-3.0)];
        assert_eq!(Elements::F16(halves.to_vec().into()).class(), Some(1));
        // 1 + 2^-40 is 1 in f32.
        assert_eq!(Elements::F64(vec![1.0, 1.0 + 2_f64.powi(-40)].into()).class(), Some(1));
    }

    #[test]
    fn elements_of_all_types_are_written_in_little_endian_order() {
        let bytes = |elements: Elements<'_>| {
            let mut bytes = Vec::new();
            elements.write(&mut bytes);
            let element = elements.element();
            assert_eq!(Elements::read(element, &bytes).as_ref(), Some(&elements));
            assert_eq!(bytes.len(), elements.len() * element.size());
            assert_eq!(Elements::type_from_name(element.name()), Some(element));
            bytes
        };
        assert_eq!(bytes(Elements::F16(vec![f16::ONE].into())), [0x00, 0x3c]);
        assert_eq!(bytes(Elements::BF16(vec![bf16::ONE].into())), [0x80, 0x3f]);
        assert_eq!(bytes(Elements::I8(vec![-1].into())), [0xff]);
        assert_eq!(bytes(Elements::Bool(vec![true, false].into())), [1, 0]);
        assert_eq!(bytes(Elements::I32(vec![258].into())), [2, 1, 0, 0]);
    }

    #[test]
    fn types_without_numbers_in_rust_are_not_held() {
        assert_eq!(Elements::read(Element::F8E4M3, &[0]), None);
        assert_eq!(Elements::type_from_name("uint16"), None);
    }

    #[test]
    fn elements_convert_to_the_common_types() {
        let halves = Elements::BF16(vec![bf16::from_f32(0.5)].into());
        assert_eq!((&*halves.to_f32(), halves.to_i64()), (&[0.5][..], None));
        let integers = Elements::I8(vec![-3, 4].into());
        assert_eq!(integers.to_i64().as_deref(), Some(&[-3, 4][..]));
        assert_eq!(halves.into_f32(), [0.5]);
        assert_eq!(integers.slice(1..2).to_f64(), [4.0]);
        assert_eq!(integers.rows(1, &[1, 1, 0]).to_f64(), [4.0, 4.0, -3.0]);
        let mut scratch = Elements::U8(Vec::with_capacity(9).into());
        scratch.emptied::<u8>().push(1);
        assert!(scratch.emptied::<u8>().capacity() >= 9 && scratch.is_empty());
        scratch.emptied::<i64>().push(5);
        assert_eq!(scratch, Elements::I64(vec![5].into()));
    }
}
