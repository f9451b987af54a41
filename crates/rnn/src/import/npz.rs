//! Files of `numpy.savez`: arrays by name.

use std::collections::BTreeMap;
use std::io::Cursor;

use dyno_tensors::npy::{Npy, NpyError};
use dyno_tensors::npz::read_entries;

use super::{Array, ImportError};

/// The arrays of a file.
#[derive(Clone, Debug)]
pub struct Npz(BTreeMap<String, Array>);

impl Npz {
    /// Reads the bytes of a file. Entries that are no arrays of floating-point numbers are left out.
    ///
    /// # Errors
    /// They are not of this format.
    pub fn new(bytes: &[u8]) -> Result<Self, ImportError> {
        let mut arrays = BTreeMap::new();
        let entries = read_entries(Cursor::new(bytes));
        for (entry, array) in entries.map_err(|error| ImportError::Format(error.to_string()))? {
            let Some(name) = entry.strip_suffix(".npy") else { continue };
            match array {
                Ok(Npy { shape, elements }) if elements.element().is_real() => {
                    arrays.insert(name.to_owned(), Array { shape, numbers: elements.into_f32() });
                }
                Ok(_) | Err(NpyError::Element(_) | NpyError::BigEndian(_)) => {}
                Err(problem) => {
                    return Err(ImportError::Format(format!(
                        "expected an archive that numpy.savez wrote: array '{name}': {problem}"
                    )));
                }
            }
        }
        Ok(Self(arrays))
    }

    /// Returns the array of that name.
    pub fn array(&self, name: &str) -> Option<Array> {
        self.0.get(name).cloned()
    }
}
