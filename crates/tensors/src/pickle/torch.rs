//! Files of `torch.save`: an archive of a pickle and of storages, or, before version
//! 1.6, pickles with the storages behind them.

use std::collections::HashMap;
use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::machine::{Machine, Object};
use super::{PickleError, PickleProblem, Value, arrays};
use crate::Element;

/// First object of an older file, after two bytes of protocol: a number of ten bytes.
const MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// Reads what a file of `torch.save` holds, such as a dictionary of weights by name.
///
/// Entries of the archive may unpack to as many bytes as the file has.
///
/// # Errors
/// [`PickleError`] if it is malformed or names code.
pub fn weights(file: &[u8]) -> Result<Value, PickleError> {
    if file.get(2..).is_some_and(|rest| rest.starts_with(MAGIC)) {
        return older(file);
    }
    let refused = |why: String| PickleError { at: 0, problem: PickleProblem::Archive(why) };
    let mut archive = ZipArchive::new(Cursor::new(file)).map_err(|why| refused(why.to_string()))?;
    let names: Result<Vec<String>, _> =
        archive.file_names().map(|name| name.map(std::borrow::Cow::into_owned)).collect();
    let names = names.map_err(|why| refused(why.to_string()))?;
    let root = names.iter().find_map(|name| name.strip_suffix("data.pkl"));
    let root = root.ok_or_else(|| refused("there is no data.pkl".to_owned()))?.to_owned();
    let mut parts = HashMap::new();
    // torch.save stores without compression: more than the file itself is a bomb.
    let mut left = file.len() as u64;
    for name in names {
        let Some(key) = name.strip_prefix(&root) else { continue };
        let part = archive.by_name(&name).map_err(|why| refused(why.to_string()))?;
        let mut bytes = Vec::new();
        part.take(left + 1).read_to_end(&mut bytes).map_err(|why| refused(why.to_string()))?;
        left = left
            .checked_sub(bytes.len() as u64)
            .ok_or(PickleError { at: 0, problem: PickleProblem::TooLarge })?;
        parts.insert(key.to_owned(), bytes);
    }
    if parts.get("byteorder").is_some_and(|order| order != b"little") {
        return Err(refused("its numbers are big-endian".to_owned()));
    }
    let machine = Machine::run(&parts["data.pkl"])?;
    let storage = |(name, bytes)| {
        let (name, bytes): (&String, &Vec<u8>) = (name, bytes);
        Some((name.strip_prefix("data/")?.to_owned(), bytes.as_slice()))
    };
    arrays::unfold(&machine, file.len(), &parts.iter().filter_map(storage).collect())
}

/// Reads a file of PyTorch before 1.6.
///
/// It has the magic, the version, the system, the object, the keys of its storages, and the storages
/// with their lengths.
fn older(file: &[u8]) -> Result<Value, PickleError> {
    let mut at = 0;
    let mut next = || -> Result<(usize, Machine<'_>), PickleError> {
        let start = at;
        let machine = Machine::run(&file[start..])
            .map_err(|error| PickleError { at: start + error.at, ..error })?;
        at += machine.at;
        Ok((at, machine))
    };
    for _ in 0..3 {
        next()?;
    }
    let (_, object) = next()?;
    let (mut at, keys) = next()?;
    let wrong = |at, what| PickleError { at, problem: PickleProblem::Expected(what) };
    let sizes: HashMap<&str, Element> = object
        .objects
        .iter()
        .filter_map(|object| match object {
            Object::Storage { key, element } => Some((&**key, *element)),
            _ => None,
        })
        .collect();
    let keys = arrays::unfold(&keys, file.len(), &arrays::Storages::new())?;
    let mut storages = HashMap::new();
    for key in keys.values().ok_or(wrong(at, "a list of keys"))? {
        let Value::Text(key) = key else { return Err(wrong(at, "a key")) };
        let element = sizes.get(&**key).ok_or(wrong(at, "a key of a storage"))?;
        let length = file.get(at..).and_then(|rest| rest.first_chunk::<8>());
        let count = u64::from_le_bytes(*length.ok_or(wrong(at, "the length of a storage"))?);
        let bytes = usize::try_from(count).ok().and_then(|n| n.checked_mul(element.size()));
        let storage = bytes.and_then(|bytes| file[at + 8..].get(..bytes));
        let storage = storage.ok_or(wrong(at, "a storage of the length that is said"))?;
        at += 8 + storage.len();
        storages.insert(key.to_string(), storage);
    }
    arrays::unfold(&object, file.len(), &storages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.save(torch.arange(1., 5.).view(2, 2).t(), file)`, the pickle of the tensor.
    const TENSOR: &[u8] = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage\
        ctorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04NtQK\0K\x02K\x02\x86K\x01K\x02\x86\x89\
        ccollections\nOrderedDict\n)RtR.";

    fn file(length: u64) -> Vec<u8> {
        let numbers: Vec<u8> =
            [1_f32, 2.0, 3.0, 4.0].iter().flat_map(|n| n.to_le_bytes()).collect();
        let before = [b"\x80\x02", MAGIC, b"\x80\x02M\xe9\x03.", b"\x80\x02}."].concat();
        let keys = b"\x80\x02]X\x01\0\0\x000a.";
        [&before, TENSOR, keys, &length.to_le_bytes(), &numbers].concat()
    }

    #[test]
    fn tensors_are_given_row_by_row_whatever_their_strides() {
        let Value::Array(array) = weights(&file(4)).unwrap() else { panic!("a tensor") };
        let numbers: Vec<f32> =
            array.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!((&array.shape[..], &numbers[..]), (&[2, 2][..], &[1.0, 3.0, 2.0, 4.0][..]));
    }

    #[test]
    fn a_storage_that_is_not_there_is_an_error_at_its_byte() {
        let (whole, short) = (file(4), file(5));
        let error = weights(&short).unwrap_err();
        assert_eq!((error.at, error.to_string().contains("storage")), (whole.len() - 24, true));
        for end in 0..whole.len() {
            assert!(weights(&whole[..end]).is_err(), "{end}");
        }
    }
}
