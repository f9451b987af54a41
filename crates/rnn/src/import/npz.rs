//! Files of `numpy.savez`: arrays by name.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use half::f16;
use zip::ZipArchive;

use super::{Array, ImportError};

/// Bytes beyond those of any layer's arrays, which a small archive may claim.
const LARGEST: u64 = 1 << 30;

/// The arrays of a file.
#[derive(Clone, Debug)]
pub struct Npz(BTreeMap<String, Array>);

impl Npz {
    /// Reads the bytes of a file. What is no array of floating-point numbers is left out.
    ///
    /// # Errors
    /// They are not of this format.
    pub fn new(bytes: &[u8]) -> Result<Self, ImportError> {
        let format =
            |why: String| ImportError::Format(format!("expected an archive of numpy.savez: {why}"));
        let mut archive =
            ZipArchive::new(Cursor::new(bytes)).map_err(|error| format(error.to_string()))?;
        let mut arrays = BTreeMap::new();
        let mut left = LARGEST;
        for at in 0..archive.len() {
            let file = archive.by_index(at).map_err(|error| format(error.to_string()))?;
            let name = file.name().map_err(|error| format(error.to_string()))?.into_owned();
            let Some(name) = name.strip_suffix(".npy").map(str::to_owned) else { continue };
            let mut bytes = Vec::new();
            file.take(left + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| format(error.to_string()))?;
            let too_large = || format(format!("it unpacks to more than {LARGEST} bytes"));
            left = left.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
            let cut = || format(format!("array '{name}' is cut off, or of another format"));
            if let Some(array) = npy(&bytes).ok_or_else(cut)? {
                arrays.insert(name, array);
            }
        }
        Ok(Self(arrays))
    }

    /// An array of that name.
    #[must_use]
    pub fn array(&self, name: &str) -> Option<Array> {
        self.0.get(name).cloned()
    }
}

/// An array of `numpy.lib.format`, if it is of floating-point numbers; nothing if it is malformed.
fn npy(bytes: &[u8]) -> Option<Option<Array>> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return None,
    };
    let header = std::str::from_utf8(rest.get(..length)?).ok()?;
    let data = &rest[length..];
    // A dictionary as Python writes it.
    let behind = |key: &str| Some(header.split_once(key)?.1.trim_start_matches([':', ' ']));
    let kind = behind("'descr'")?.strip_prefix('\'')?.split_once('\'')?.0;
    let by_column = behind("'fortran_order'")?.starts_with("True");
    let dims = behind("'shape'")?.strip_prefix('(')?.split_once(')')?.0.split(',');
    let dims = dims.map(str::trim).filter(|dim| !dim.is_empty()).map(str::parse);
    let shape: Vec<usize> = dims.collect::<Result<_, _>>().ok()?;
    let size = match kind {
        "<f2" => 2,
        "<f4" => 4,
        "<f8" => 8,
        _ => return Some(None),
    };
    let count = shape.iter().try_fold(1_usize, |count, dim| count.checked_mul(*dim))?;
    let data = data.get(..count.checked_mul(size)?)?;
    let numbers: Vec<f32> = match size {
        2 => data.as_chunks::<2>().0.iter().map(|two| f16::from_le_bytes(*two).to_f32()).collect(),
        4 => data.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
        _ => {
            let eights = data.as_chunks::<8>().0.iter();
            eights.map(|eight| f64::from_le_bytes(*eight) as f32).collect()
        }
    };
    let numbers = if by_column { by_row(&numbers, &shape) } else { numbers };
    Some(Some(Array { shape, numbers }))
}

/// Numbers whose first index goes fastest, as numbers whose last does.
fn by_row(numbers: &[f32], shape: &[usize]) -> Vec<f32> {
    let place = |mut at: usize| {
        // Indices from the last axis on, each worth the product of the axes before it.
        let mut worth: usize = shape.iter().product();
        let mut place = 0;
        for dim in shape.iter().rev() {
            worth /= dim;
            place += at % dim * worth;
            at /= dim;
        }
        place
    };
    (0..numbers.len()).map(|at| numbers[place(at)]).collect()
}
