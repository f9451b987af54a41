//! Reader of NumPy's array files as references.
//!
//! References may be larger than memory, in Fortran order or without a header. Their elements
//! become 64-bit numbers.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use dyno_tensors::files;
use dyno_tensors::npy::{Header, NpyError};

use super::super::DataError;
use super::super::payload::{ELEMENTS, Element, append_reals};

/// Bytes of a read; a multiple of the size of every element.
const CHUNK: usize = 1 << 16;

/// An open array file. Elements are read on demand.
pub struct Npy {
    path: PathBuf,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Type of the elements.
    pub element: Element,
    is_fortran: bool,
    /// Offset of the first element, in bytes.
    offset: u64,
    file: BufReader<File>,
}

/// A matrix of real numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Number of columns.
    pub columns: usize,
    /// Elements, row by row.
    pub values: Vec<f64>,
}

impl Matrix {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Returns a row.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub fn row(&self, at: usize) -> &[f64] {
        &self.values[at * self.columns..][..self.columns]
    }
}

impl Npy {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read, is not an array, or has another length than its
    /// header declares.
    ///
    /// ```
    /// use dyno_metrics::arrays::npy::Npy;
    ///
    /// let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }";
    /// let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    /// bytes.extend((header.len() as u16).to_le_bytes());
    /// bytes.extend(header.bytes());
    /// bytes.extend([1, 0, 2, 0, 3, 0, 4, 0]);
    /// let file = tempfile::NamedTempFile::new().unwrap();
    /// std::fs::write(&file, bytes).unwrap();
    ///
    /// let matrix = Npy::open(file.path()).unwrap().matrix().unwrap();
    /// assert_eq!(matrix.row(1), [3.0, 4.0]);
    /// ```
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let unreadable = |error: io::Error| DataError::unreadable(path, &error);
        let file = files::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut file = BufReader::with_capacity(CHUNK, file);
        let other =
            |expected: &str, found: String| Err(DataError::malformed(path, None, expected, found));
        let header = match Header::read(&mut file).map_err(unreadable)? {
            Ok(header) => header,
            Err(NpyError::Header(text)) => {
                return other("descr, fortran_order and shape in the header", text);
            }
            Err(_) => return other("an array that numpy.save wrote", "another file".to_owned()),
        };
        let Some(element) = header.element().filter(|element| ELEMENTS.contains(element)) else {
            let expected = "elements that are integers or floats, little-endian, of up to 64 bits: \
                            array.astype(...)";
            return other(expected, header.code);
        };
        let Header { shape, is_fortran, start, .. } = header;
        let offset = start as u64;
        let bytes = element.bytes_of_shape(&shape);
        if bytes.is_none_or(|bytes| offset.checked_add(bytes as u64) != Some(length)) {
            let found = format!("{} bytes", length.saturating_sub(offset));
            return other(&format!("{shape:?} of {}", element.name()), found);
        }
        Ok(Self { path: path.to_owned(), shape, element, is_fortran, offset, file })
    }

    /// Opens a file that has a header, or only elements of the type `element`.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read, or ends within an element.
    pub(crate) fn open_or_raw(path: &Path, element: Element) -> Result<Self, DataError> {
        let unreadable = |error: io::Error| DataError::unreadable(path, &error);
        let mut file = BufReader::with_capacity(CHUNK, files::open(path).map_err(unreadable)?);
        let header = Header::read(&mut file).map_err(unreadable)?;
        if !matches!(header, Err(NpyError::NotNpy)) {
            return Self::open(path);
        }
        let length = file.get_ref().metadata().map_err(unreadable)?.len();
        let size = element.size() as u64;
        if !length.is_multiple_of(size) {
            let expected = format!("numpy.save's array, or a multiple of {size} bytes");
            return Err(DataError::malformed(path, None, expected, format!("{length} bytes")));
        }
        file.rewind().map_err(unreadable)?;
        let shape = vec![(length / size) as usize];
        Ok(Self { path: path.to_owned(), shape, element, is_fortran: false, offset: 0, file })
    }

    /// Calls `take` with each element, in the order of the file.
    fn each(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), DataError> {
        let size = self.element.size();
        self.chunks(|chunk| chunk.chunks_exact(size).for_each(&mut take))
    }

    /// Calls `take` with consecutive elements, in the order of the file.
    fn chunks(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), DataError> {
        let size = self.element.size();
        let mut left = self.shape.iter().product::<usize>() * size;
        let mut chunk = vec![0; CHUNK.min(left)];
        while left > 0 {
            let chunk = &mut chunk[..CHUNK.min(left)];
            self.file
                .read_exact(chunk)
                .map_err(|error| DataError::unreadable(&self.path, &error))?;
            take(chunk);
            left -= chunk.len();
        }
        Ok(())
    }

    /// Reads an array of one or two dimensions as a matrix. One dimension becomes a row.
    ///
    /// # Errors
    /// [`DataError`] if the array has more dimensions or cannot be read.
    pub fn matrix(mut self) -> Result<Matrix, DataError> {
        let (rows, columns) = match self.shape[..] {
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            _ => {
                let found = format!("{:?}", self.shape);
                return Err(DataError::malformed(&self.path, None, "one or two dimensions", found));
            }
        };
        let element = self.element;
        let mut values = Vec::with_capacity(rows * columns);
        self.chunks(|chunk| append_reals(element, chunk, &mut values))?;
        if self.is_fortran {
            values = transposed(&values, columns, rows);
        }
        Ok(Matrix { columns, values })
    }

    /// Reads an array of any dimensions as classes, row by row.
    ///
    /// # Errors
    /// [`DataError`] if the array is in Fortran order, has a number outside 0 to 255, or cannot be
    /// read.
    pub fn bytes(mut self) -> Result<Vec<u8>, DataError> {
        let element = self.element;
        if self.is_fortran {
            let expected = "rows one after the other: numpy.ascontiguousarray(array)";
            return Err(DataError::malformed(&self.path, None, expected, "columns"));
        }
        let (mut values, mut other) = (Vec::new(), None);
        self.each(|bytes| {
            let whole = whole(element, bytes);
            let class = u8::try_from(whole);
            if class.is_err() {
                other.get_or_insert(whole);
            }
            values.extend(class);
        })?;
        match other {
            None => Ok(values),
            Some(other) => {
                let (expected, found) = ("classes from 0 to 255", other.to_string());
                Err(DataError::malformed(&self.path, None, expected, found))
            }
        }
    }

    /// Returns the number of elements of an array with one dimension.
    fn count(&self) -> Result<usize, DataError> {
        // A matrix with a single column or row is accepted.
        if self.shape.iter().filter(|n| **n != 1).count() > 1 {
            let found = format!("{:?}", self.shape);
            return Err(DataError::malformed(&self.path, None, "one dimension", found));
        }
        Ok(self.shape.iter().product())
    }

    /// Reads an array of one dimension as integers. NaN becomes the minimum.
    ///
    /// # Errors
    /// [`DataError`] if the array has more dimensions or cannot be read.
    pub fn wholes(mut self) -> Result<Vec<i64>, DataError> {
        let (count, element) = (self.count()?, self.element);
        let mut values = Vec::with_capacity(count);
        self.each(|bytes| values.push(whole(element, bytes)))?;
        Ok(values)
    }

    /// Reads the elements at `positions` as integers. Only these are held in memory, so that the
    /// file may be larger.
    ///
    /// # Errors
    /// [`DataError`] if the array has more than one dimension, lacks a position, or cannot be read.
    pub(crate) fn wholes_at(mut self, positions: &[i64]) -> Result<Vec<i64>, DataError> {
        let (count, size) = (self.count()?, self.element.size());
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(positions.len());
        for (at, position) in positions.iter().enumerate() {
            let place = usize::try_from(*position).ok().filter(|place| *place < count);
            let Some(place) = place else {
                let expected = format!("element {position}");
                let found = format!("{count} elements");
                return Err(DataError::malformed(&self.path, None, expected, found));
            };
            order.push((place, at));
        }
        order.sort_unstable();
        let unreadable = |error: io::Error| DataError::unreadable(&self.path, &error);
        self.file.seek(SeekFrom::Start(self.offset)).map_err(unreadable)?;
        let (mut values, mut bytes, mut next) = (vec![0; positions.len()], [0; 8], 0);
        let mut value = 0;
        for (place, at) in order {
            // Positions may repeat.
            if place >= next {
                self.file.seek_relative(((place - next) * size) as i64).map_err(unreadable)?;
                self.file.read_exact(&mut bytes[..size]).map_err(unreadable)?;
                (value, next) = (whole(self.element, &bytes[..size]), place + 1);
            }
            values[at] = value;
        }
        Ok(values)
    }
}

/// Transposes a matrix with `rows` rows.
fn transposed(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    // Squares keep the cache lines of several columns in use at a time.
    const EDGE: usize = 32;
    let mut out = vec![0.0; values.len()];
    for top in (0..rows).step_by(EDGE) {
        for left in (0..columns).step_by(EDGE) {
            for column in left..(left + EDGE).min(columns) {
                for row in top..(top + EDGE).min(rows) {
                    out[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    out
}

/// Returns an element as an integer. NaN becomes the minimum, as in PyTorch.
fn whole(element: Element, bytes: &[u8]) -> i64 {
    match element {
        Element::F16 | Element::F32 | Element::F64 if element.real(bytes).is_nan() => i64::MIN,
        _ => element.whole(bytes),
    }
}

#[cfg(test)]
pub(in super::super) mod tests {
    use tempfile::TempPath;

    use super::*;

    /// Returns a file as `numpy.save` writes it.
    pub(in super::super::super) fn file(descr: &str, shape: &str, body: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}   \n");
        let length = (header.len() as u16).to_le_bytes();
        [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), body].concat()
    }

    /// Writes a file whose name ends with `name`. Dropping the path deletes it.
    pub(in super::super::super) fn written(name: &str, bytes: &[u8]) -> TempPath {
        let path = tempfile::Builder::new().suffix(name).tempfile().unwrap().into_temp_path();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn matrices_are_read_row_by_row_whatever_the_order_of_the_file() {
        let rows = file("<f4", "(2, 3)", &bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let text = file("<f4", "(2, 3)", &bytes(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
        let at = text.windows(5).position(|found| found == b"False").unwrap();
        let columns = [&text[..at], b"True ", &text[at + 5..]].concat();
        for (name, bytes) in [("rows.npy", rows), ("columns.npy", columns)] {
            let matrix = Npy::open(&written(name, &bytes)).unwrap().matrix().unwrap();
            assert_eq!(matrix.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "{name}");
            assert_eq!((matrix.rows(), matrix.row(1)), (2, &[4.0, 5.0, 6.0][..]));
        }
    }

    #[test]
    fn elements_are_picked_with_a_header_or_without() {
        let body = bytes(&[7.0, f32::NAN, 9.0]);
        let with = written("with.npy", &file("<f4", "(3,)", &body));
        let without = written("without.npy", &body);
        for path in [with, without] {
            let open = || Npy::open_or_raw(&path, Element::F32).unwrap();
            assert_eq!(open().wholes_at(&[2, 0, 2, 1]), Ok(vec![9, 7, 9, i64::MIN]));
            for position in [3, -1] {
                let error = open().wholes_at(&[position]).unwrap_err().to_string();
                assert!(
                    error.ends_with(&format!("element {position}, found 3 elements")),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_the_reason() {
        let problem = |name: &str, bytes: &[u8]| {
            let opened = Npy::open(&written(name, bytes)).map(|npy| npy.shape);
            opened.unwrap_err().to_string()
        };
        assert!(problem("a", b"PK\x03\x04").contains("numpy.save wrote, found another file"));
        assert!(problem("b", &file("<f4", "3", &[0; 12])).contains("shape in the header"));
        assert!(problem("c", &file(">f4", "(3,)", &[0; 12])).ends_with("found >f4"));
        let short = problem("d", &file("<f4", "(3,)", &[0; 11]));
        assert!(short.ends_with("expected [3] of float32, found 11 bytes"), "{short}");
        let huge = problem("e", &file("<f4", "(99999999999, 99999999999)", &[]));
        assert!(huge.ends_with("found 0 bytes"), "{huge}");
        assert!(problem("f", b"\x93NUMPY\x02\x00\xff\xff\xff\xff").contains("numpy.save"));
        assert!(problem("g", b"\x93NUMPY\x01\x00").contains("fill"), "a header that ends");
    }
}
