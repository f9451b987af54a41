//! Files of `safetensors`: eight bytes with the length of a header, the header as JSON,
//! and the elements of all tensors.
//!
//! Source: "Format" in the documentation of the package safetensors.

use std::collections::BTreeMap;
use std::fmt;

use dyno_onnx::{Element, Tensor, Values};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What stands in the header beside tensors.
const REMARKS: &str = "__metadata__";

/// Why bytes are no such file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SafetensorsError {
    /// The header is longer than the file.
    Ended {
        /// Bytes of the file.
        bytes: usize,
    },
    /// The header is no JSON of the format.
    Header(String),
    /// A tensor is of a type that is not read.
    Element {
        /// Its name.
        name: String,
        /// Its type.
        found: String,
    },
    /// A tensor has not the bytes that its shape and its type ask for, or not in the file.
    Bytes {
        /// Its name.
        name: String,
        /// Its dimensions.
        shape: Vec<u64>,
        /// Its first byte and the one behind its last, behind the header.
        offsets: [u64; 2],
        /// Bytes behind the header.
        of: usize,
    },
    /// Tensors share bytes, which the format forbids: a small file might hold any number.
    Shared,
}

impl fmt::Display for SafetensorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { bytes } => {
                write!(f, "expected a header of safetensors, found the end after {bytes} bytes")
            }
            Self::Header(why) => {
                write!(f, "expected dtype, shape and data_offsets of each tensor, found {why}")
            }
            Self::Element { name, found } => write!(
                f,
                "tensor '{name}': expected whole bytes of numbers, such as F32, found {found}"
            ),
            Self::Bytes { name, shape, offsets: [begin, end], of } => write!(
                f,
                "tensor '{name}': expected the bytes of shape {shape:?}, found {begin} to {end} of \
                 {of}"
            ),
            Self::Shared => f.write_str("expected tensors side by side, found some that overlap"),
        }
    }
}

impl std::error::Error for SafetensorsError {}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The tensors by their names.
///
/// # Errors
/// [`SafetensorsError`] if the bytes are another file, or a part of one.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, SafetensorsError> {
    let ended = || SafetensorsError::Ended { bytes: bytes.len() };
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(ended)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| ended())?;
    let (header, data) = rest.split_at_checked(length).ok_or_else(ended)?;
    let malformed = |error: serde_json::Error| SafetensorsError::Header(error.to_string());
    let header: BTreeMap<String, &RawValue> = serde_json::from_slice(header).map_err(malformed)?;
    let (mut tensors, mut left) = (BTreeMap::new(), data.len());
    for (name, entry) in header {
        if name == REMARKS {
            continue;
        }
        let entry: Entry = serde_json::from_str(entry.get())
            .map_err(|error| SafetensorsError::Header(format!("'{name}': {error}")))?;
        let tensor = tensor(name, entry, data)?;
        left = left.checked_sub(tensor.1).ok_or(SafetensorsError::Shared)?;
        tensors.insert(tensor.0.name.clone(), tensor.0);
    }
    Ok(tensors)
}

/// A tensor and how many bytes it has.
fn tensor(name: String, entry: Entry, data: &[u8]) -> Result<(Tensor, usize), SafetensorsError> {
    let Entry { dtype, shape, data_offsets: offsets } = entry;
    let Some(element) = element(&dtype) else {
        return Err(SafetensorsError::Element { name, found: dtype });
    };
    let dimensions: Option<Vec<usize>> = shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let expected = dimensions.as_ref().and_then(|dimensions| {
        dimensions.iter().try_fold(element.size(), |product, &n| product.checked_mul(n))
    });
    let place = offsets.map(|offset| usize::try_from(offset).unwrap_or(usize::MAX));
    let part = data.get(place[0]..place[1]).filter(|part| Some(part.len()) == expected);
    let (Some(part), Some(dimensions)) = (part, dimensions) else {
        return Err(SafetensorsError::Bytes { name, shape, offsets, of: data.len() });
    };
    let values = Values::Bytes(part.to_vec());
    Ok((Tensor { name, element, shape: dimensions, values }, part.len()))
}

fn element(dtype: &str) -> Option<Element> {
    Some(match dtype {
        "F64" => Element::F64,
        "F32" => Element::F32,
        "F16" => Element::F16,
        "BF16" => Element::BF16,
        "I64" => Element::I64,
        "I32" => Element::I32,
        "I16" => Element::I16,
        "I8" => Element::I8,
        "U64" => Element::U64,
        "U32" => Element::U32,
        "U16" => Element::U16,
        "U8" => Element::U8,
        "BOOL" => Element::Bool,
        _ => return None,
    })
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
        let tensors = read(&whole()).unwrap();
        let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((tensors["a"].integers(), &tensors["a"].shape[..]), (Some(vec![3]), &[1][..]));
        assert_eq!(
            (tensors["b"].floats(), &tensors["b"].shape[..]),
            (Some(vec![1.0, 2.0]), &[1, 2][..])
        );
    }

    #[test]
    fn a_part_of_a_file_is_none() {
        let whole = whole();
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        let error = read(&whole[..7]).unwrap_err().to_string();
        assert_eq!(error, "expected a header of safetensors, found the end after 7 bytes");
        let error = read(&whole[..whole.len() - 1]).unwrap_err().to_string();
        assert!(error.ends_with("bytes of shape [1, 2], found 8 to 16 of 15"), "{error}");
    }

    #[test]
    fn headers_that_lie_are_refused_before_anything_is_allocated() {
        let refused = |header: &str, data: &[u8]| read(&file(header, data)).unwrap_err();
        let of = |dtype: &str, shape: &str, offsets: &str| {
            refused(&format!(r#"{{"x":{}}}"#, entry(dtype, shape, offsets)), &[0; 8])
        };
        let most = u64::MAX.to_string();
        let bytes = |error| matches!(error, SafetensorsError::Bytes { .. });
        assert!(bytes(of("F32", &format!("[{most}, {most}]"), "[0, 8]")));
        assert!(bytes(of("F32", &format!("[0, {most}]"), "[0, 8]")));
        assert!(bytes(of("F32", "[2]", "[8, 0]")));
        assert!(bytes(of("F32", "[2]", &format!("[0, {most}]"))));
        assert!(bytes(of("F32", "[2]", "[1, 9]")));
        assert!(bytes(of("F32", "[3]", "[0, 8]")));
        assert!(matches!(of("F8_E4M3", "[8]", "[0, 8]"), SafetensorsError::Element { .. }));
        assert!(matches!(of("F32", "[-2]", "[0, 8]"), SafetensorsError::Header(_)));
        let twice = entry("F32", "[2]", "[0, 8]");
        let error = refused(&format!(r#"{{"x":{twice},"y":{twice}}}"#), &[0; 8]);
        assert_eq!(error, SafetensorsError::Shared);
        for header in ["", "[]", "{", r#"{"x":1}"#, r#"{"x":{}}"#, "\u{0}"] {
            assert!(matches!(refused(header, &[]), SafetensorsError::Header(_)), "{header}");
        }
        assert!(read(&[0xff; 64]).is_err(), "a header of 2^64 bytes");
        let deep = format!(r#"{{"x":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(&file(&deep, &[])).is_err());
    }
}
