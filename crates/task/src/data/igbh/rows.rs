//! Rows of an array that is larger than memory, read from disk.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use dyno_tensors::Element;
use dyno_tensors::npy::{Header, NpyError};

use crate::data::FileError;

/// Upper bound of the length of a NumPy header, in bytes.
const LONGEST_HEAD: u64 = 1 << 12;
/// Features of a node in files without a header: papers and authors of the two largest sizes are
/// raw float32.
const FEATURES: usize = 1024;

/// A two-dimensional array in a file.
#[derive(Debug)]
pub(crate) struct FeatureRows {
    pub path: PathBuf,
    file: File,
    /// Offset of the first element, in bytes.
    start: u64,
    pub count: usize,
    pub width: usize,
    /// `float16` or `float32`.
    pub element: Element,
}

impl FeatureRows {
    /// Opens the file and reads its header, if it has one.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let mut file = dyno_tensors::files::open(path).map_err(FileError::unreadable(path))?;
        let length = file.metadata().map_err(FileError::unreadable(path))?.len();
        let mut head = Vec::new();
        let read = file.by_ref().take(LONGEST_HEAD).read_to_end(&mut head);
        read.map_err(FileError::unreadable(path))?;
        let raw = |length: u64| (length / (FEATURES as u64 * 4)) as usize;
        let (start, shape, element) = if head.starts_with(b"\x93NUMPY") {
            let wrong = |why: NpyError| FileError::new(path, "rows of features", why);
            let head = Header::parse(&head).map_err(wrong)?;
            let element = head.row_major_element().map_err(wrong)?;
            (head.start as u64, head.shape, element)
        } else {
            (0, vec![raw(length), FEATURES], Element::F32)
        };
        let (count, width) = match (&shape[..], element) {
            (&[count, width], Element::F32 | Element::F16)
                if width > 0 && width.checked_mul(element.size()).is_some() =>
            {
                (count, width)
            }
            _ => {
                let expected = "rows of float32 or float16";
                return Err(FileError::new(path, expected, format!("{element} {shape:?}")));
            }
        };
        let rows = Self { path: path.to_owned(), file, start, count, width, element };
        let end = (count as u64).saturating_mul(rows.row_bytes() as u64).saturating_add(start);
        if end != length {
            return Err(FileError::new(path, format!("{end} bytes"), length));
        }
        // Numbers of nodes have 32 bits.
        if u32::try_from(count).is_err() {
            return Err(FileError::new(path, "nodes below 4,294,967,296", count));
        }
        Ok(rows)
    }

    /// Returns the size of a row in bytes.
    pub(crate) fn row_bytes(&self) -> usize {
        self.width * self.element.size()
    }

    /// Reads a row into `into`.
    ///
    /// # Errors
    /// The read fails; the message names the file.
    pub(crate) fn read(&self, row: u32, into: &mut [u8]) -> Result<(), String> {
        let at = self.start + u64::from(row) * self.row_bytes() as u64;
        let failed = |error: io::Error| format!("{}: row {row}: {error}", self.path.display());
        read_at(&self.file, into, at).map_err(failed)
    }
}

#[cfg(unix)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, into, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (into, at) = (&mut into[read..], at + read as u64),
        }
    }
    Ok(())
}
