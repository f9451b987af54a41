//! Files of `numpy.savez`: an archive of arrays by name.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use thiserror::Error;
use zip::ZipArchive;

use crate::npy::{Npy, NpyError};

/// Bytes to which all entries of an archive may unpack together.
pub const LARGEST: u64 = 1 << 30;

/// Why a file is no archive of arrays.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NpzError {
    /// It cannot be read, is no archive, or unpacks to more than [`LARGEST`]. Holds the reason.
    #[error("expected an archive that numpy.savez wrote: {0}")]
    Archive(String),
    /// An entry is no array.
    #[error("array {name}: {problem}")]
    Array {
        /// Its name, without `.npy`.
        name: String,
        /// What is wrong.
        problem: NpyError,
    },
}

/// Reads all entries of an archive, by their names in it, such as `bias.npy`.
///
/// An entry that is no array does not prevent others from being read.
///
/// # Errors
/// [`NpzError::Archive`].
pub fn read_entries(
    file: impl Read + Seek,
) -> Result<BTreeMap<String, Result<Npy, NpyError>>, NpzError> {
    read_limited(file, LARGEST)
}

/// Reads entries that unpack to `limit` bytes at most.
fn read_limited(
    file: impl Read + Seek,
    limit: u64,
) -> Result<BTreeMap<String, Result<Npy, NpyError>>, NpzError> {
    let failed = |why: &dyn std::fmt::Display| NpzError::Archive(why.to_string());
    let mut archive = ZipArchive::new(file).map_err(|error| failed(&error))?;
    let (mut entries, mut left) = (BTreeMap::new(), limit);
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| failed(&error))?;
        let name = entry.name().map_err(|error| failed(&error))?.into_owned();
        let mut bytes = Vec::new();
        entry
            .take(left + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| failed(&format_args!("{}: {error}", array_name(&name))))?;
        left = left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| failed(&format_args!("it unpacks to more than {} MiB", limit >> 20)))?;
        entries.insert(name, Npy::parse(&bytes));
    }
    Ok(entries)
}

/// Reads an archive all of whose entries are arrays, by their names without `.npy`.
///
/// # Errors
/// [`NpzError`].
///
/// ```no_run
/// use std::fs::File;
///
/// let arrays = dyno_tensors::npz::read(File::open("weights.npz")?)?;
/// println!("{:?}", arrays["bias"].shape);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(file: impl Read + Seek) -> Result<BTreeMap<String, Npy>, NpzError> {
    let array = |(name, array): (String, Result<Npy, NpyError>)| {
        let name = array_name(&name).to_owned();
        match array {
            Ok(array) => Ok((name, array)),
            Err(problem) => Err(NpzError::Array { name, problem }),
        }
    };
    read_entries(file)?.into_iter().map(array).collect()
}

fn array_name(entry: &str) -> &str {
    entry.strip_suffix(".npy").unwrap_or(entry)
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;
    use crate::Elements;

    fn archive(parts: &[(&str, &[u8])]) -> Cursor<Vec<u8>> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in parts {
            archive.start_file(*name, SimpleFileOptions::default()).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap()
    }

    #[test]
    fn arrays_are_read_by_their_names() {
        let header =
            b"\x93NUMPY\x01\0\x3a\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
        let bytes = [&header[..], &1.0_f32.to_le_bytes(), &2.0_f32.to_le_bytes()].concat();
        let arrays = read(archive(&[("bias.npy", &bytes)])).unwrap();
        assert_eq!(arrays["bias"].elements, Elements::F32(vec![1.0, 2.0].into()));
        let error = read(archive(&[("readme", b"no array")])).unwrap_err().to_string();
        assert_eq!(error, "array readme: not a .npy file; write it with numpy.save");
        let entries = read_entries(archive(&[("b.npy", &bytes), ("readme", b"no array")])).unwrap();
        assert!(entries["b.npy"].is_ok() && entries["readme"].is_err());
        assert!(matches!(read(Cursor::new(b"no archive")), Err(NpzError::Archive(_))));
    }

    #[test]
    fn archives_that_unpack_to_more_than_the_limit_are_refused() {
        // Zeros shrink a thousandfold. Each entry is within the limit, both are not.
        let zeros = vec![0; 3 << 19];
        let file = archive(&[("a.npy", &zeros), ("b.npy", &zeros)]);
        assert!(file.get_ref().len() < 1 << 14);
        assert!(read_limited(file.clone(), 3 << 20).is_ok());
        let error = read_limited(file, 2 << 20).unwrap_err().to_string();
        assert!(error.ends_with("it unpacks to more than 2 MiB"), "{error}");
    }
}
