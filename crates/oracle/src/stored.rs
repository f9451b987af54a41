//! Tensors as files store them: in typed fields, in raw bytes, and in files beside the model.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};

use prost::Message;

use crate::call::sizes_of;
use crate::element::{Element, from_bfloat, from_half, to_half};
use crate::fault::{Fault, OracleError, fault};
use crate::proto::{SparseTensorProto, TensorProto};
use crate::tensor::{Tensor, Values, element_count, position};

/// Value of `TensorProto.data_location` for data in another file.
const EXTERNAL: i32 = 1;

/// Reads a tensor. `folder` is that of the model, `None` for a model of bytes.
pub(crate) fn read(proto: &TensorProto, folder: Option<&Path>) -> Result<Tensor, Fault> {
    let Some(element) = Element::from_code(proto.data_type.into()) else {
        return fault(format!("elements of type {} are not supported", proto.data_type));
    };
    let sizes: Result<Vec<usize>, _> = proto.dims.iter().map(|size| (*size).try_into()).collect();
    let Ok(shape) = sizes else { return fault(format!("negative size in {:?}", proto.dims)) };
    let count = element_count(&shape)?;
    let values = if proto.data_location == EXTERNAL {
        let bytes = (count * element.bits()).div_ceil(8);
        decode(element, count, &external(proto, folder, bytes)?)?
    } else if let Some(raw) = &proto.raw_data {
        decode(element, count, raw)?
    } else {
        typed(element, count, proto)?
    };
    Tensor::new(element, &shape, values)
}

/// Reads a sparse tensor, whose elements that are not stored are 0.
pub(crate) fn read_sparse(
    proto: &SparseTensorProto,
    folder: Option<&Path>,
) -> Result<Tensor, Fault> {
    let (Some(values), Some(indices)) = (&proto.values, &proto.indices) else {
        return fault("a sparse tensor has values and indices");
    };
    let (values, indices) = (read(values, folder)?, read(indices, folder)?);
    let shape = sizes_of(&proto.dims)?;
    let count = element_count(&shape)?;
    // An index is one number in row-major order, or one number for each dimension.
    let sizes = if indices.rank() == 1 { vec![count] } else { shape.clone() };
    if sizes.is_empty() || indices.count() != values.count() * sizes.len() {
        return fault("a sparse tensor has an index for each value");
    }
    // The number of the value at each position. The last one is the added zero.
    let mut numbers = vec![values.count(); count];
    for (number, index) in indices.as_integers()?.chunks_exact(sizes.len()).enumerate() {
        let index = sizes_of(index)?;
        if index.iter().zip(&sizes).any(|(at, size)| at >= size) {
            return fault(format!("index {index:?} lies outside of a sparse tensor of {shape:?}"));
        }
        let number = std::mem::replace(&mut numbers[position(&index, &sizes)], number);
        if number != values.count() {
            return fault("two values of a sparse tensor have one index");
        }
    }
    let zero = match values.values() {
        Values::Floats(_) => Values::Floats(vec![0.0]),
        Values::Integers(_) => Values::Integers(vec![0]),
    };
    let zero = Tensor::new(values.element(), &[1], zero)?;
    values.followed_by(&zero)?.picked(&shape, &numbers)
}

impl Tensor {
    /// Reads a serialized `TensorProto`, as the files of ONNX's test data sets are. Returns its name, too.
    ///
    /// # Errors
    /// The bytes are no tensor, or its elements are not supported.
    pub fn from_bytes(bytes: &[u8]) -> Result<(String, Tensor), OracleError> {
        let proto = TensorProto::decode(bytes)
            .map_err(|error| OracleError::Input(format!("not a tensor: {error}")))?;
        Ok((proto.name.clone(), read(&proto, None)?))
    }

    /// Returns the tensor as a serialized `TensorProto`. Floats are rounded to their type.
    pub fn to_bytes(&self, name: &str) -> Vec<u8> {
        write(self, name).encode_to_vec()
    }
}

/// Makes the message of a tensor, with the field that the standard assigns to its type.
pub(crate) fn write(tensor: &Tensor, name: &str) -> TensorProto {
    let element = tensor.element();
    let mut proto = TensorProto {
        dims: tensor.shape().iter().map(|size| *size as i64).collect(),
        data_type: element.code(),
        name: name.to_owned(),
        ..TensorProto::default()
    };
    match tensor.values() {
        Values::Floats(values) => {
            let words = values.iter().map(|value| element.round(*value));
            match element {
                Element::Float64 => proto.double_data = words.collect(),
                Element::Float32 => proto.float_data = words.map(|value| value as f32).collect(),
                Element::BFloat16 => {
                    let bits = words.map(|value| ((value as f32).to_bits() >> 16) as i32);
                    proto.int32_data = bits.collect();
                }
                _ => proto.int32_data = words.map(|value| to_half(value).into()).collect(),
            }
        }
        Values::Integers(values) => match element {
            Element::Int64 => proto.int64_data.clone_from(values),
            Element::UInt32 | Element::UInt64 => {
                proto.uint64_data = values.iter().map(|value| *value as u64).collect();
            }
            Element::Int4 | Element::UInt4 => {
                let half = |value: &i64| (*value & 15) as i32;
                let pair = |pair: &[i64]| half(&pair[0]) | pair.get(1).map_or(0, half) << 4;
                proto.int32_data = values.chunks(2).map(pair).collect();
            }
            _ => proto.int32_data = values.iter().map(|value| *value as i32).collect(),
        },
    }
    proto
}

/// Reads little-endian numbers. Of the two numbers of 4 bits in a byte, the first one is the lower half.
fn decode(element: Element, count: usize, bytes: &[u8]) -> Result<Values, Fault> {
    if element.bits() == 4 {
        if bytes.len() != count.div_ceil(2) {
            return fault(format!("{} bytes for {count} numbers of 4 bits", bytes.len()));
        }
        let halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
        return numbers(element, halves.take(count).map(u64::from));
    }
    let size = element.bits() / 8;
    if !bytes.len().is_multiple_of(size) {
        return fault(format!("{} bytes are no whole numbers of type {element}", bytes.len()));
    }
    let words = bytes
        .chunks_exact(size)
        .map(|chunk| chunk.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte)));
    numbers(element, words)
}

/// Makes numbers of their bits.
fn numbers(element: Element, words: impl Iterator<Item = u64>) -> Result<Values, Fault> {
    Ok(match element {
        Element::Float32 => {
            Values::Floats(words.map(|word| f32::from_bits(word as u32).into()).collect())
        }
        Element::Float64 => Values::Floats(words.map(f64::from_bits).collect()),
        Element::Float16 => Values::Floats(words.map(|word| from_half(word as u16)).collect()),
        Element::BFloat16 => Values::Floats(words.map(|word| from_bfloat(word as u16)).collect()),
        Element::UInt64 => {
            let values: Result<Vec<i64>, _> = words.map(i64::try_from).collect();
            match values {
                Ok(values) => Values::Integers(values),
                Err(_) => return fault("values of uint64 from 2⁶³ are not supported"),
            }
        }
        _ => Values::Integers(words.map(|word| element.wrap(word as i64)).collect()),
    })
}

/// Reads the field that the standard assigns to the type.
fn typed(element: Element, count: usize, proto: &TensorProto) -> Result<Values, Fault> {
    Ok(match element {
        // Each number of the field is a byte.
        Element::Int4 | Element::UInt4 => {
            let bytes: Vec<u8> = proto.int32_data.iter().map(|value| *value as u8).collect();
            return decode(element, count, &bytes);
        }
        Element::Float32 => {
            Values::Floats(proto.float_data.iter().map(|value| f64::from(*value)).collect())
        }
        Element::Float64 => Values::Floats(proto.double_data.clone()),
        Element::Int64 => Values::Integers(proto.int64_data.clone()),
        Element::UInt32 | Element::UInt64 => {
            return numbers(element, proto.uint64_data.iter().copied());
        }
        _ => return numbers(element, proto.int32_data.iter().map(|value| *value as u64)),
    })
}

/// Reads data from a regular file inside the folder of the model.
fn external(proto: &TensorProto, folder: Option<&Path>, bytes: usize) -> Result<Vec<u8>, Fault> {
    let Some(folder) = folder else {
        return fault("external data need the folder of the model, not only its bytes");
    };
    let entry = |key: &str| {
        proto.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    };
    let number = |key: &str, default: u64| match entry(key).map(str::parse) {
        None => Ok(default),
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => fault(format!("{key:?} of external data is no number")),
    };
    let Some(location) = entry("location") else {
        return fault("external data without a location");
    };
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(location).components().all(inside) {
        return fault(format!("external data {location:?} lie outside of the model's folder"));
    }
    let path = folder.join(location);
    let unreadable = |error: std::io::Error| {
        Fault::Reason(format!("cannot read external data {}: {error}", path.display()))
    };
    // A link may lead out of the folder; a pipe or a device may never end.
    let root = folder.canonicalize().map_err(unreadable)?;
    let resolved = path.canonicalize().map_err(unreadable)?;
    if !resolved.starts_with(&root) || !resolved.is_file() {
        return fault(format!("external data {location:?} are no file in the model's folder"));
    }
    let length = number("length", bytes as u64)?;
    if length != bytes as u64 {
        return fault(format!("external data of {length} bytes for a tensor of {bytes}"));
    }
    let mut file = File::open(&resolved).map_err(unreadable)?;
    file.seek(SeekFrom::Start(number("offset", 0)?)).map_err(unreadable)?;
    let mut data = Vec::new();
    file.take(length).read_to_end(&mut data).map_err(unreadable)?;
    if data.len() != bytes {
        return fault(format!("external data {location:?} end after {} bytes", data.len()));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_tensor_has_zeros_beside_its_values() {
        let values = Tensor::floats(Element::Float32, &[2], vec![1.5, -2.0]).unwrap();
        let sparse = |shape: &[usize], indices: &[i64]| {
            let indices = Tensor::integers(Element::Int64, shape, indices.to_vec()).unwrap();
            let (values, indices) = (Some(write(&values, "w")), Some(write(&indices, "")));
            read_sparse(&SparseTensorProto { values, indices, dims: vec![2, 3] }, None)
        };
        let numbers = vec![0.0, 1.5, 0.0, 0.0, 0.0, -2.0];
        let expected = Tensor::floats(Element::Float32, &[2, 3], numbers).unwrap();
        assert_eq!(sparse(&[2], &[1, 5]).ok().as_ref(), Some(&expected));
        assert_eq!(sparse(&[2, 2], &[0, 1, 1, 2]).ok().as_ref(), Some(&expected));
        for indices in [[1, 1], [1, 6], [-1, 5]] {
            assert!(sparse(&[2], &indices).is_err(), "{indices:?}");
        }
        assert!(sparse(&[1], &[1]).is_err());
    }
}
