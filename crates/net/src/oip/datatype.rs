//! Types of elements, by the protocol's names.

use std::fmt;

use bytes::Bytes;
use dyno_tensors::{Element, Elements};

use super::{Tensor, elements_of};
use crate::trouble::{Kind, Trouble};

dyno_loadgen::named_enum! {
    /// Type of a tensor's elements.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Datatype {
        Bool = "BOOL",
        Uint8 = "UINT8",
        Uint16 = "UINT16",
        Uint32 = "UINT32",
        Uint64 = "UINT64",
        Int8 = "INT8",
        Int16 = "INT16",
        Int32 = "INT32",
        Int64 = "INT64",
        Fp16 = "FP16",
        Bf16 = "BF16",
        Fp32 = "FP32",
        Fp64 = "FP64",
        /// Strings of any bytes, each of its own length.
        Bytes = "BYTES",
    }
}

impl Datatype {
    /// Returns the type with this name.
    ///
    /// # Errors
    /// No type has this name; the message lists the known names.
    pub fn named(name: &str) -> Result<Self, Trouble> {
        Self::ALL.iter().copied().find(|datatype| datatype.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|datatype| datatype.name()).collect();
            let words = format!("unknown datatype '{name}'; expected one of {}", known.join(", "));
            Trouble::new(Kind::Malformed, words)
        })
    }

    /// Returns the size of an element in bytes, or `None` if each has its own length.
    pub fn size(self) -> Option<usize> {
        self.element().map(Element::size)
    }

    /// Returns the type of the elements as numbers, or `None` if they are strings.
    pub fn element(self) -> Option<Element> {
        Some(match self {
            Self::Bool => Element::Bool,
            Self::Uint8 => Element::U8,
            Self::Uint16 => Element::U16,
            Self::Uint32 => Element::U32,
            Self::Uint64 => Element::U64,
            Self::Int8 => Element::I8,
            Self::Int16 => Element::I16,
            Self::Int32 => Element::I32,
            Self::Int64 => Element::I64,
            Self::Fp16 => Element::F16,
            Self::Bf16 => Element::BF16,
            Self::Fp32 => Element::F32,
            Self::Fp64 => Element::F64,
            Self::Bytes => return None,
        })
    }

    /// Returns the type of these elements, or `None` if the protocol has no name for it.
    pub fn from_element(element: Element) -> Option<Self> {
        Self::ALL.iter().copied().find(|datatype| datatype.element() == Some(element))
    }

    /// Returns the type of the elements of a tensor of this process.
    pub fn from_elements(elements: &Elements<'_>) -> Self {
        Self::from_element(elements.element()).expect("the protocol has every type that is held")
    }

    /// Returns the protocol's names of the types that tensors of this process can have.
    pub fn names_held() -> String {
        let datatypes = Elements::TYPES.iter().filter_map(|element| Self::from_element(*element));
        datatypes.map(Self::name).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Tensor {
    /// Returns a tensor of elements that are already little-endian bytes.
    ///
    /// # Errors
    /// The bytes are not the elements of the shape.
    pub fn new(
        name: impl Into<String>,
        datatype: Datatype,
        shape: Vec<usize>,
        data: Bytes,
    ) -> Result<Self, Trouble> {
        let tensor = Self { name: name.into(), datatype, shape, data };
        let Some(elements) = elements_of(&tensor.shape) else {
            return Err(tensor.odd("more elements than a machine can hold"));
        };
        match datatype.size() {
            Some(size) if elements.checked_mul(size) == Some(tensor.data.len()) => Ok(tensor),
            Some(size) => {
                let found = tensor.data.len();
                Err(tensor.odd(&format!(
                    "{found} bytes, expected {elements} elements of {size} \
                     bytes"
                )))
            }
            None => match tensor.strings().count() {
                found if found != elements => {
                    Err(tensor.odd(&format!("{found} elements for a shape of {elements}")))
                }
                _ if tensor.strings().any(|string| string.is_none()) => {
                    Err(tensor.odd("an element that is longer than the bytes that follow"))
                }
                _ => Ok(tensor),
            },
        }
    }

    /// The elements of a tensor of [`Datatype::Bytes`]; `None` is one that is cut off, and the
    /// last.
    pub fn strings(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut rest: &[u8] = &self.data;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let cut = rest.split_first_chunk::<4>().and_then(|(length, after)| {
                after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
            });
            match cut {
                Some((string, after)) => {
                    rest = after;
                    Some(Some(string))
                }
                None => {
                    rest = &[];
                    Some(None)
                }
            }
        })
    }

    fn odd(&self, what: &str) -> Trouble {
        let Self { name, datatype, shape, .. } = self;
        Trouble::new(
            Kind::Malformed,
            format!("tensor '{name}' ({datatype}, shape {shape:?}): {what}"),
        )
    }
}
