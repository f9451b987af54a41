//! Files of `safetensors`: eight bytes with the length of a header, the header as JSON,
//! and the elements of all tensors.
//!
//! Source: "Format" in the documentation of the package safetensors.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::{Element, Elements};

/// Bytes of the longest header that is read, as in the package safetensors.
pub const LONGEST_HEADER: usize = 100_000_000;

/// Entry of the header that is no tensor.
const METADATA: &str = "__metadata__";

/// Types by their names in headers. Complex numbers and floats of 6 bits are left out.
const DTYPES: [(&str, Element); 19] = [
    ("F64", Element::F64),
    ("F32", Element::F32),
    ("F16", Element::F16),
    ("BF16", Element::BF16),
    ("I64", Element::I64),
    ("I32", Element::I32),
    ("I16", Element::I16),
    ("I8", Element::I8),
    ("U64", Element::U64),
    ("U32", Element::U32),
    ("U16", Element::U16),
    ("U8", Element::U8),
    ("BOOL", Element::Bool),
    ("F8_E4M3", Element::F8E4M3),
    ("F8_E4M3FNUZ", Element::F8E4M3Fnuz),
    ("F8_E5M2", Element::F8E5M2),
    ("F8_E5M2FNUZ", Element::F8E5M2Fnuz),
    ("F8_E8M0", Element::F8E8M0),
    ("F4", Element::F4E2M1),
];

/// The tensors of a file, which are borrowed from its bytes.
///
/// ```
/// use dyno_tensors::safetensors::Safetensors;
///
/// let header = br#"{"bias": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}"#;
/// let length = (header.len() as u64).to_le_bytes();
/// let file = [&length[..], header, &[0x00, 0x3c, 0x00, 0xc0]].concat();
///
/// let tensors = Safetensors::new(&file)?;
/// let bias = tensors.view("bias").unwrap();
/// assert_eq!(bias.shape, [2]);
/// assert_eq!(bias.elements().unwrap().to_f64(), [1.0, -2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Safetensors<'a> {
    tensors: BTreeMap<String, Result<View<'a>, String>>,
    metadata: BTreeMap<String, String>,
}

/// A tensor whose elements are borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<'a> {
    /// Type of the elements.
    pub element: Element,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Elements, little-endian, in row-major order; as many as the shape requires.
    pub bytes: &'a [u8],
}

impl View<'_> {
    /// Returns the elements as numbers, or `None` if [`Elements`] does not hold their type.
    pub fn elements(&self) -> Option<Elements<'static>> {
        Elements::read(self.element, self.bytes)
    }
}

/// Why bytes are no file of safetensors.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SafetensorsError {
    /// The header is longer than the file.
    #[error("expected a header of safetensors, found the end after {bytes} bytes")]
    Ended {
        /// Bytes of the file.
        bytes: usize,
    },
    /// The header is no JSON of the format, or longer than [`LONGEST_HEADER`].
    #[error("expected dtype, shape and data_offsets of each tensor, found {0}")]
    Header(String),
    /// A tensor is of a type that is not read.
    #[error("tensor '{name}': expected whole bytes of numbers, such as F32, found {found}")]
    Element {
        /// Its name.
        name: String,
        /// Its type.
        found: String,
    },
    /// A tensor does not have the bytes that its shape and type require, or not within the file.
    #[error(
        "tensor '{name}': expected the bytes of shape {shape:?}, found {} to {} of {available}",
        .offsets[0],
        .offsets[1]
    )]
    Bytes {
        /// Its name.
        name: String,
        /// Its dimensions.
        shape: Vec<u64>,
        /// Its first byte and the one behind its last, counted from the end of the header.
        offsets: [u64; 2],
        /// Bytes behind the header.
        available: usize,
    },
    /// Tensors share bytes, which the format forbids: a small file might hold any number.
    #[error("expected tensors side by side, found some that overlap")]
    Shared,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl<'a> Safetensors<'a> {
    /// Reads the header of a file.
    ///
    /// A tensor of a type that is not read does not prevent others from being read.
    ///
    /// # Errors
    /// [`SafetensorsError`] if the bytes are another file, or a part of one.
    pub fn new(bytes: &'a [u8]) -> Result<Self, SafetensorsError> {
        let ended = || SafetensorsError::Ended { bytes: bytes.len() };
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(ended)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| ended())?;
        let (header, data) = rest.split_at_checked(length).ok_or_else(ended)?;
        if length > LONGEST_HEADER {
            return Err(SafetensorsError::Header(format!("a header of {length} bytes")));
        }
        let malformed = |error: serde_json::Error| SafetensorsError::Header(error.to_string());
        let header: BTreeMap<String, &RawValue> =
            serde_json::from_slice(header).map_err(malformed)?;
        let (mut tensors, mut ranges) = (BTreeMap::new(), Vec::new());
        let mut metadata = BTreeMap::new();
        for (name, entry) in header {
            if name == METADATA {
                // Texts by the format; other files hold no options that anything reads.
                metadata = serde_json::from_str(entry.get()).unwrap_or_default();
                continue;
            }
            let entry: Entry = serde_json::from_str(entry.get())
                .map_err(|error| SafetensorsError::Header(format!("'{name}': {error}")))?;
            let [begin, end] = entry.data_offsets;
            if begin < end {
                ranges.push((begin, end));
            }
            let tensor = tensor(&name, entry, data)?;
            tensors.insert(name, tensor);
        }
        ranges.sort_unstable();
        if ranges.windows(2).any(|pair| pair[1].0 < pair[0].1) {
            return Err(SafetensorsError::Shared);
        }
        Ok(Self { tensors, metadata })
    }

    /// Returns the names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Returns a text of the header's metadata by its key.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Returns a tensor by its name; `None` if it is missing or of a type that is not read.
    pub fn view(&self, name: &str) -> Option<&View<'a>> {
        self.tensors.get(name)?.as_ref().ok()
    }

    /// Returns all tensors by their names.
    ///
    /// # Errors
    /// [`SafetensorsError::Element`] for the first tensor of a type that is not read.
    pub fn into_views(self) -> Result<BTreeMap<String, View<'a>>, SafetensorsError> {
        let view = |(name, tensor): (String, Result<View<'a>, String>)| match tensor {
            Ok(view) => Ok((name, view)),
            Err(found) => Err(SafetensorsError::Element { name, found }),
        };
        self.tensors.into_iter().map(view).collect()
    }
}

/// Returns a tensor, or the name of its type if that is not read.
fn tensor<'a>(
    name: &str,
    entry: Entry,
    data: &'a [u8],
) -> Result<Result<View<'a>, String>, SafetensorsError> {
    let Entry { dtype, shape, data_offsets: offsets } = entry;
    let element = DTYPES.iter().find(|(known, _)| *known == dtype).map(|(_, element)| *element);
    let Some(element) = element else { return Ok(Err(dtype)) };
    let dimensions: Option<Vec<usize>> = shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let expected = dimensions.as_ref().and_then(|shape| element.bytes_of_shape(shape));
    let [begin, end] = offsets.map(|offset| usize::try_from(offset).unwrap_or(usize::MAX));
    let part = data.get(begin..end).filter(|part| Some(part.len()) == expected);
    let (Some(bytes), Some(shape)) = (part, dimensions) else {
        let (name, available) = (name.to_owned(), data.len());
        return Err(SafetensorsError::Bytes { name, shape, offsets, available });
    };
    Ok(Ok(View { element, shape, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
    }

    fn entry(dtype: &str, shape: &str, offsets: &str) -> String {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
    }

    /// As `safetensors.numpy.save({"b": float32 [[1, 2]], "a": int64 [3]})` writes it.
    fn whole() -> Vec<u8> {
        let header = r#"{"__metadata__":{"format":"np"},"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}"#;
        file(
            header,
            &[&3_i64.to_le_bytes()[..], &1_f32.to_le_bytes(), &2_f32.to_le_bytes()].concat(),
        )
    }

    #[test]
    fn tensors_have_their_shapes_and_elements() {
        let whole = whole();
        let tensors = Safetensors::new(&whole).unwrap();
        assert_eq!((tensors.metadata("format"), tensors.metadata("a")), (Some("np"), None));
        assert_eq!(tensors.names().collect::<Vec<_>>(), ["a", "b"]);
        let [a, b] = ["a", "b"].map(|name| tensors.view(name).unwrap());
        assert_eq!((a.elements(), &a.shape[..]), (Some(Elements::I64(vec![3].into())), &[1][..]));
        let pair = Elements::F32(vec![1.0, 2.0].into());
        assert_eq!((b.elements(), &b.shape[..]), (Some(pair), &[1, 2][..]));
        assert_eq!(tensors.view("__metadata__"), None);
    }

    #[test]
    fn types_that_are_not_read_are_named_and_hide_no_others() {
        let header = format!(
            r#"{{"a":{},"b":{},"c":{}}}"#,
            entry("F6_E2M3", "[4]", "[0, 3]"),
            entry("F8_E4M3", "[1]", "[3, 4]"),
            entry("F4", "[3]", "[4, 6]")
        );
        let bytes = file(&header, &[7; 6]);
        let tensors = Safetensors::new(&bytes).unwrap();
        assert_eq!(tensors.view("a"), None);
        assert_eq!(tensors.view("b").map(|view| view.element), Some(Element::F8E4M3));
        assert_eq!(tensors.view("c").map(|view| view.bytes), Some(&[7, 7][..]));
        let error = tensors.into_views().unwrap_err().to_string();
        assert!(error.ends_with("whole bytes of numbers, such as F32, found F6_E2M3"), "{error}");
    }

    #[test]
    fn a_part_of_a_file_is_none() {
        let whole = whole();
        for end in 0..whole.len() {
            assert!(Safetensors::new(&whole[..end]).is_err(), "{end}");
        }
        let error = Safetensors::new(&whole[..7]).unwrap_err().to_string();
        assert_eq!(error, "expected a header of safetensors, found the end after 7 bytes");
        let error = Safetensors::new(&whole[..whole.len() - 1]).unwrap_err().to_string();
        assert!(error.ends_with("bytes of shape [1, 2], found 8 to 16 of 15"), "{error}");
    }

    #[test]
    fn headers_that_lie_are_refused_before_anything_is_allocated() {
        let refused =
            |header: &str, data: &[u8]| Safetensors::new(&file(header, data)).unwrap_err();
        let refused_entry = |dtype: &str, shape: &str, offsets: &str| {
            refused(&format!(r#"{{"x":{}}}"#, entry(dtype, shape, offsets)), &[0; 8])
        };
        let most = u64::MAX.to_string();
        let bytes = |error| matches!(error, SafetensorsError::Bytes { .. });
        assert!(bytes(refused_entry("F32", &format!("[{most}, {most}]"), "[0, 8]")));
        assert!(bytes(refused_entry("F32", &format!("[0, {most}]"), "[0, 8]")));
        assert!(bytes(refused_entry("F32", "[2]", "[8, 0]")));
        assert!(bytes(refused_entry("F32", "[2]", &format!("[0, {most}]"))));
        assert!(bytes(refused_entry("F32", "[2]", "[1, 9]")));
        assert!(bytes(refused_entry("F32", "[3]", "[0, 8]")));
        assert!(matches!(refused_entry("F32", "[-2]", "[0, 8]"), SafetensorsError::Header(_)));
        let twice = entry("F32", "[2]", "[0, 8]");
        let error = refused(&format!(r#"{{"x":{twice},"y":{twice}}}"#), &[0; 8]);
        assert_eq!(error, SafetensorsError::Shared);
        // Together, they are no longer than the data.
        let (one, other) = (entry("U8", "[3]", "[0, 3]"), entry("U8", "[3]", "[2, 5]"));
        let error = refused(&format!(r#"{{"x":{one},"y":{other}}}"#), &[0; 8]);
        assert_eq!(error, SafetensorsError::Shared);
        for header in ["", "[]", "{", r#"{"x":1}"#, r#"{"x":{}}"#, "\u{0}"] {
            assert!(matches!(refused(header, &[]), SafetensorsError::Header(_)), "{header}");
        }
        assert!(Safetensors::new(&[0xff; 64]).is_err(), "a header of 2^64 bytes");
        let deep = format!(r#"{{"x":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(Safetensors::new(&file(&deep, &[])).is_err());
    }
}
