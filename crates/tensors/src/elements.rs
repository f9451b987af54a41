//! Elements of tensors: what types there are, and rows of them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A type that elements can have.
pub trait Element: Copy + PartialOrd + Send + Sync + 'static {
    /// Which one it is.
    const TYPE: ElementType;
    /// Rows of it.
    fn wrap(elements: Cow<'_, [Self]>) -> Elements<'_>;
    /// The elements, if they are of this type.
    fn of<'a>(elements: &'a Elements<'_>) -> Option<&'a [Self]>;
    /// The same, to be changed.
    fn of_mut<'a>(elements: &'a mut Elements<'static>) -> Option<&'a mut Vec<Self>>;
    /// The nearest `f64`; 0 or 1 for a boolean.
    fn to_f64(self) -> f64;
    /// The integer that it is; `None` for floating point.
    fn to_integer(self) -> Option<i64>;
    /// Appends elements in little-endian order.
    fn write(all: &[Self], bytes: &mut Vec<u8>);
    /// Reads elements in little-endian order; bytes that are no whole one are left.
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! element_types {
    ($($variant:ident: $type:ty, $name:literal, $integer:expr, $write:expr, $read:expr;)+) => {
        /// Type of a tensor's elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum ElementType {
            $($variant,)+
        }

        impl ElementType {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// As NumPy calls it, such as `float32`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        /// Elements, row by row: the owner's own, or borrowed from it.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum Elements<'a> {
            $($variant(Cow<'a, [$type]>),)+
        }

        $(impl Element for $type {
            const TYPE: ElementType = ElementType::$variant;

            fn wrap(elements: Cow<'_, [Self]>) -> Elements<'_> {
                Elements::$variant(elements)
            }

            fn of<'a>(elements: &'a Elements<'_>) -> Option<&'a [Self]> {
                match elements {
                    Elements::$variant(all) => Some(all),
                    _ => None,
                }
            }

            fn of_mut<'a>(elements: &'a mut Elements<'static>) -> Option<&'a mut Vec<Self>> {
                match elements {
                    Elements::$variant(all) => Some(all.to_mut()),
                    _ => None,
                }
            }

            fn to_f64(self) -> f64 {
                // Booleans and the types of 16 bits have no `as`.
                element_types!(@f64 $variant self)
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
                for (to, element) in whole.iter_mut().zip(all) {
                    *to = write(*element);
                }
            }

            fn read(bytes: &[u8]) -> Vec<Self> {
                let read: fn([u8; size_of::<$type>()]) -> $type = $read;
                let (whole, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                whole.iter().map(|bytes| read(*bytes)).collect()
            }
        })+

        /// Evaluates an expression with the slice of elements, whatever their type.
        macro_rules! each_type {
            ($elements:expr, $all:ident => $body:expr) => {
                match $elements {
                    $($crate::tensors::Elements::$variant($all) => $body,)+
                }
            };
        }

        /// Evaluates an expression in which `$T` is the Rust type of an element type.
        macro_rules! with_type {
            ($element:expr, $T:ident => $body:expr) => {
                match $element {
                    $($crate::tensors::ElementType::$variant => { type $T = $type; $body })+
                }
            };
        }
    };
    (@f64 Bool $value:expr) => { f64::from(u8::from($value)) };
    (@f64 I64 $value:expr) => { $value as f64 };
    (@f64 $variant:ident $value:expr) => { f64::from($value) };
}

element_types! {
    F32: f32, "float32", |_| None, |x| x.to_le_bytes(), f32::from_le_bytes;
    F64: f64, "float64", |_| None, |x| x.to_le_bytes(), f64::from_le_bytes;
    F16: half::f16, "float16", |_| None, |x| x.to_le_bytes(), half::f16::from_le_bytes;
    Bf16: half::bf16, "bfloat16", |_| None, |x| x.to_le_bytes(), half::bf16::from_le_bytes;
    I64: i64, "int64", Some, |x| x.to_le_bytes(), i64::from_le_bytes;
    I32: i32, "int32", |x| Some(x.into()), |x| x.to_le_bytes(), i32::from_le_bytes;
    I8: i8, "int8", |x| Some(x.into()), |x| x.to_le_bytes(), i8::from_le_bytes;
    U8: u8, "uint8", |x| Some(x.into()), |x| [x], u8::from_le_bytes;
    Bool: bool, "bool", |x| Some(x.into()), |x| [x.into()], |[byte]| byte != 0;
}

pub(crate) use {each_type, with_type};

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ElementType {
    /// The type of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|element| element.name() == name)
    }

    /// Whether it is a floating-point type.
    #[must_use]
    pub fn is_real(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::Bf16)
    }

    /// Bytes of one element.
    #[must_use]
    pub fn size(self) -> usize {
        with_type!(self, T => size_of::<T>())
    }

    /// Reads elements in little-endian order; bytes that are no whole one are left.
    #[must_use]
    pub fn read(self, bytes: &[u8]) -> Elements<'static> {
        with_type!(self, T => Element::wrap(Cow::Owned(<T as Element>::read(bytes))))
    }
}

impl Elements<'static> {
    /// No elements of this type, with the memory of those that there were if they were
    /// of this type, too.
    pub fn emptied<T: Element>(&mut self) -> &mut Vec<T> {
        if T::of(self).is_none() {
            *self = T::wrap(Cow::Owned(Vec::new()));
        }
        let all = T::of_mut(self).expect("they are of this type now");
        all.clear();
        all
    }
}

impl Elements<'_> {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        each_type!(self, all => all.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        fn of<T: Element>(_: &[T]) -> ElementType {
            T::TYPE
        }
        each_type!(self, all => of(all))
    }

    /// The elements, if they are of this type.
    #[must_use]
    pub fn of<T: Element>(&self) -> Option<&[T]> {
        T::of(self)
    }

    /// The same, owned: copied where they were borrowed.
    #[must_use]
    pub fn into_owned(self) -> Elements<'static> {
        each_type!(self, all => Element::wrap(Cow::Owned(all.into_owned())))
    }

    /// Some of them, borrowed.
    ///
    /// # Panics
    /// If the range reaches beyond them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Elements<'_> {
        each_type!(self, all => Element::wrap(Cow::Borrowed(&all[range])))
    }

    /// Rows of so many elements by their numbers, in this order, copied.
    ///
    /// # Panics
    /// If there is no row of a number.
    #[must_use]
    pub fn rows(&self, length: usize, rows: &[usize]) -> Elements<'static> {
        fn picked<T: Element>(all: &[T], length: usize, rows: &[usize]) -> Elements<'static> {
            let mut picked = Vec::with_capacity(length * rows.len());
            rows.iter().for_each(|row| picked.extend_from_slice(&all[row * length..][..length]));
            T::wrap(Cow::Owned(picked))
        }
        each_type!(self, all => picked(all, length, rows))
    }

    /// Each as `f32`, whatever its type: borrowed where it is, else the nearest.
    #[must_use]
    pub fn to_f32(&self) -> Cow<'_, [f32]> {
        match self {
            Self::F32(all) => Cow::Borrowed(all),
            other => each_type!(other, all => all.iter().map(|x| x.to_f64() as f32).collect()),
        }
    }

    /// Each as `i64`; `None` for floating point.
    #[must_use]
    pub fn to_i64(&self) -> Option<Cow<'_, [i64]>> {
        match self {
            Self::I64(all) => Some(Cow::Borrowed(all)),
            other => each_type!(other, all => all.iter().map(|x| x.to_integer()).collect()),
        }
    }

    /// Each as `f64`: exact for all but integers beyond 2^53.
    #[must_use]
    pub fn to_f64(&self) -> Vec<f64> {
        each_type!(self, all => all.iter().map(|x| x.to_f64()).collect())
    }

    /// Appends them in little-endian order.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        each_type!(self, all => Element::write(all, bytes));
    }

    /// The class that they tell: a single integer is the class itself; of several
    /// elements it is the position of the greatest, the first one of equals. NaN is
    /// never greatest.
    #[must_use]
    pub fn class(&self) -> i64 {
        fn class<T: Element>(all: &[T]) -> i64 {
            if let [only] = all
                && let Some(class) = only.to_integer()
            {
                return class;
            }
            // Only NaN has no order to itself.
            let is_number = |x: &T| x.partial_cmp(x).is_some();
            let numbers = all.iter().enumerate().filter(|(_, x)| is_number(x));
            let greatest = numbers.reduce(|best, next| if next.1 > best.1 { next } else { best });
            greatest.map_or(0, |(at, _)| at as i64)
        }
        each_type!(self, all => class(all))
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn integers_are_a_class_or_scores() {
        assert_eq!(Elements::I64(vec![7].into()).class(), 7);
        assert_eq!(Elements::U8(vec![1, 9, 9].into()).class(), 1);
        assert_eq!(Elements::Bool(vec![false, true].into()).class(), 1);
    }

    #[test]
    fn the_greatest_of_floats_is_no_nan() {
        assert_eq!(Elements::F32(vec![f32::NAN, 1.0, 2.0, 2.0].into()).class(), 2);
        assert_eq!(Elements::F64(vec![f64::NAN].into()).class(), 0);
        let halves = [f16::NEG_INFINITY, f16::from_f32(-3.0)];
        assert_eq!(Elements::F16(halves.to_vec().into()).class(), 1);
        // 1 + 2^-40 is 1 in f32.
        assert_eq!(Elements::F64(vec![1.0, 1.0 + 2_f64.powi(-40)].into()).class(), 1);
    }

    #[test]
    fn elements_of_all_types_are_written_in_little_endian_order() {
        let bytes = |elements: Elements<'_>| {
            let mut bytes = Vec::new();
            elements.write(&mut bytes);
            let element = elements.element();
            assert_eq!(element.read(&bytes), elements);
            assert_eq!(bytes.len(), elements.len() * element.size());
            assert_eq!(ElementType::named(element.name()), Some(element));
            bytes
        };
        assert_eq!(bytes(Elements::F16(vec![f16::ONE].into())), [0x00, 0x3c]);
        assert_eq!(bytes(Elements::Bf16(vec![bf16::ONE].into())), [0x80, 0x3f]);
        assert_eq!(bytes(Elements::I8(vec![-1].into())), [0xff]);
        assert_eq!(bytes(Elements::Bool(vec![true, false].into())), [1, 0]);
        assert_eq!(bytes(Elements::I32(vec![258].into())), [2, 1, 0, 0]);
    }

    #[test]
    fn elements_convert_to_the_common_types() {
        let halves = Elements::Bf16(vec![bf16::from_f32(0.5)].into());
        assert_eq!((&*halves.to_f32(), halves.to_i64()), (&[0.5][..], None));
        let integers = Elements::I8(vec![-3, 4].into());
        assert_eq!(integers.to_i64().as_deref(), Some(&[-3, 4][..]));
        assert_eq!(integers.slice(1..2).to_f64(), [4.0]);
        assert_eq!(integers.rows(1, &[1, 1, 0]).to_f64(), [4.0, 4.0, -3.0]);
        let mut scratch = Elements::U8(Vec::with_capacity(9).into());
        scratch.emptied::<u8>().push(1);
        assert!(scratch.emptied::<u8>().capacity() >= 9 && scratch.is_empty());
        scratch.emptied::<i64>().push(5);
        assert_eq!(scratch, Elements::I64(vec![5].into()));
    }
}
