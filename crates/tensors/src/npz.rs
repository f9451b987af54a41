//! Files of `numpy.savez`: an archive of arrays by name.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use dyno_sut::tensors::{Npy, NpyProblem};
use zip::ZipArchive;

/// More than the arrays of any model that is read here take uncompressed, in bytes.
const LARGEST: u64 = 1 << 30;

/// Why a file is no archive of arrays.
#[derive(Debug)]
#[non_exhaustive]
pub enum NpzError {
    /// It cannot be read, or is no archive.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The message of whoever reads.
        why: String,
    },
    /// Something in it is no array.
    Array {
        /// The file.
        path: PathBuf,
        /// Within the archive.
        name: String,
        /// What is wrong.
        problem: NpyProblem,
    },
}

impl fmt::Display for NpzError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => {
                let path = path.display();
                write!(f, "{path}: expected an archive that numpy.savez wrote: {why}")
            }
            Self::Array { path, name, problem } => {
                write!(f, "{}: array {name}: {problem}", path.display())
            }
        }
    }
}

impl std::error::Error for NpzError {}

/// All arrays of a file.
///
/// # Errors
/// [`NpzError`]; also of archives that unpack to more than a gigabyte.
pub fn read(path: &Path) -> Result<BTreeMap<String, Npy>, NpzError> {
    let unreadable = |why: String| NpzError::Unreadable { path: path.to_owned(), why };
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut archive = ZipArchive::new(file).map_err(|error| unreadable(error.to_string()))?;
    let mut arrays = BTreeMap::new();
    let mut left = LARGEST;
    for at in 0..archive.len() {
        let part = archive.by_index(at).map_err(|error| unreadable(error.to_string()))?;
        let name = part.name().map_err(|error| unreadable(error.to_string()))?;
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let mut bytes = Vec::new();
        part.take(left + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(format!("{name}: {error}")))?;
        left = left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| unreadable(format!("it unpacks to more than {} MiB", LARGEST >> 20)))?;
        let array = Npy::parse(&bytes).map_err(|problem| NpzError::Array {
            path: path.to_owned(),
            name: name.clone(),
            problem,
        })?;
        arrays.insert(name, array);
    }
    Ok(arrays)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use dyno_sut::tensors::Elements;
    use tempfile::{NamedTempFile, TempPath};
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn written(parts: &[(&str, &[u8])]) -> TempPath {
        let file = NamedTempFile::new().unwrap();
        let mut archive = ZipWriter::new(file.reopen().unwrap());
        for (name, bytes) in parts {
            archive.start_file(*name, SimpleFileOptions::default()).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap();
        file.into_temp_path()
    }

    #[test]
    fn arrays_are_read_by_their_names() {
        let header =
            b"\x93NUMPY\x01\0\x3a\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
        let bytes = [&header[..], &1.0_f32.to_le_bytes(), &2.0_f32.to_le_bytes()].concat();
        let path = written(&[("bias.npy", &bytes)]);
        let arrays = read(&path).unwrap();
        assert_eq!(arrays["bias"].elements, Elements::F32(vec![1.0, 2.0].into()));
        let path = written(&[("readme", b"no array")]);
        let error = read(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("array readme: not a .npy file; write it with numpy.save"),
            "{error}"
        );
        std::fs::write(&path, b"no archive").unwrap();
        assert!(matches!(read(&path), Err(NpzError::Unreadable { .. })));
    }
}
