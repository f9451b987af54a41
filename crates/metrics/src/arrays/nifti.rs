//! Reader of label volumes in NIfTI-1 files, plain or compressed.
//!
//! Source: `nifti1.h` of the NIfTI data format working group: a header of 348 bytes, and voxels
//! from `vox_offset` on, with the first axis the fastest. Scaling follows NiBabel.

use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use dyno_tensors::files;
use flate2::read::MultiGzDecoder;

use super::super::DataError;
use super::super::payload::Element;

const HEADER: usize = 348;

/// Maximum number of voxels. Larger volumes are rejected, since a small compressed file can unpack
/// to any size.
const MAX_VOXELS: usize = 1 << 30;

/// Bytes of a read; a multiple of the size of every element.
const CHUNK: usize = 1 << 16;

/// An open volume file. Voxels are read on demand.
pub struct Volume {
    path: PathBuf,
    /// Voxels along each axis; the first axis is the fastest in the file.
    pub shape: [usize; 3],
    element: Element,
    is_big_endian: bool,
    /// Factor and summand that scale voxels; `None` without scaling.
    scaling: Option<(f64, f64)>,
    voxels: Box<dyn Read>,
}

/// Header of a file.
struct Header<'a> {
    bytes: &'a [u8; HEADER],
    is_big_endian: bool,
}

impl Header<'_> {
    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes: [u8; N] = self.bytes[at..at + N].try_into().expect("N bytes are N bytes");
        if self.is_big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn int16(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.number(at))
    }

    fn float(&self, at: usize) -> f64 {
        f64::from(f32::from_le_bytes(self.number(at)))
    }

    /// Returns the voxels along three axes; `None` if the file has another axis of more than one
    /// voxel.
    fn shape(&self) -> Option<[usize; 3]> {
        let axes = usize::try_from(self.int16(40)).ok().filter(|axes| (1..=7).contains(axes))?;
        let mut shape = [1; 3];
        for axis in 0..axes {
            let voxels = usize::try_from(self.int16(42 + 2 * axis)).ok().filter(|n| *n > 0)?;
            match shape.get_mut(axis) {
                Some(length) => *length = voxels,
                None if voxels > 1 => return None,
                None => {}
            }
        }
        let voxels = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n))?;
        (voxels <= MAX_VOXELS).then_some(shape)
    }

    fn element(&self) -> Option<Element> {
        Some(match self.int16(70) {
            2 => Element::U8,
            4 => Element::I16,
            8 => Element::I32,
            16 => Element::F32,
            64 => Element::F64,
            256 => Element::I8,
            1024 => Element::I64,
            _ => return None,
        })
    }
}

impl Volume {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read or is not a volume of labels.
    ///
    /// ```
    /// use dyno_metrics::arrays::nifti::Volume;
    ///
    /// let mut bytes = vec![0; 352];
    /// bytes[..4].copy_from_slice(&348_i32.to_le_bytes());
    /// // One axis of two voxels, unsigned bytes, which begin at byte 352.
    /// bytes[40..44].copy_from_slice(&[1, 0, 2, 0]);
    /// bytes[70] = 2;
    /// bytes[108..112].copy_from_slice(&352_f32.to_le_bytes());
    /// bytes[344..348].copy_from_slice(b"n+1\0");
    /// bytes.extend([0, 3]);
    /// let file = tempfile::NamedTempFile::new().unwrap();
    /// std::fs::write(&file, bytes).unwrap();
    ///
    /// let volume = Volume::open(file.path()).unwrap();
    /// assert_eq!(volume.shape, [2, 1, 1]);
    /// let mut labels = Vec::new();
    /// volume.labels(|part| labels.extend_from_slice(part)).unwrap();
    /// assert_eq!(labels, [0, 3]);
    /// ```
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let unreadable = |error: io::Error| DataError::unreadable(path, &error);
        let mut file = BufReader::with_capacity(CHUNK, files::open(path).map_err(unreadable)?);
        let mut magic = Vec::new();
        file.by_ref().take(2).read_to_end(&mut magic).map_err(unreadable)?;
        let is_compressed = magic == [0x1f, 0x8b];
        let file = Cursor::new(magic).chain(file);
        let voxels: Box<dyn Read> =
            if is_compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        Self::parse(path, voxels)
    }

    fn parse(path: &Path, mut file: Box<dyn Read>) -> Result<Self, DataError> {
        let unreadable = |error: io::Error| DataError::unreadable(path, &error);
        let other =
            |expected: &str, found: String| Err(DataError::malformed(path, None, expected, found));
        let mut bytes = Vec::new();
        file.by_ref().take(HEADER as u64).read_to_end(&mut bytes).map_err(unreadable)?;
        let header: Option<&[u8; HEADER]> = bytes.as_slice().try_into().ok();
        let size = i32::to_le_bytes(HEADER as i32);
        let is_header = |bytes: &&[u8; HEADER]| {
            bytes[344..] == *b"n+1\0"
                && (bytes[..4] == size || bytes[..4].iter().rev().eq(size.iter()))
        };
        let Some(bytes) = header.filter(is_header) else {
            return other("a volume in a single NIfTI-1 file", "another file".to_owned());
        };
        let header = Header { bytes, is_big_endian: bytes[..4] != size };
        let Some(shape) = header.shape() else {
            let found: Vec<i16> = (0..8).map(|at| header.int16(40 + 2 * at)).collect();
            let expected = format!("dim of three axes with {MAX_VOXELS} voxels at most");
            return other(&expected, format!("{found:?}"));
        };
        let Some(element) = header.element() else {
            let expected = "datatype 2, 4, 8, 16, 64, 256 or 1024: integers or floats";
            return other(expected, header.int16(70).to_string());
        };
        let (offset, slope, inter) = (header.float(108), header.float(112), header.float(116));
        let gap = (offset as u64).saturating_sub(HEADER as u64);
        io::copy(&mut file.by_ref().take(gap), &mut io::sink()).map_err(unreadable)?;
        let is_scaled = slope.is_finite() && slope != 0.0;
        if is_scaled && !inter.is_finite() {
            return other("a finite scl_inter", inter.to_string());
        }
        Ok(Self {
            path: path.to_owned(),
            shape,
            element,
            is_big_endian: header.is_big_endian,
            scaling: (is_scaled && (slope, inter) != (1.0, 0.0)).then_some((slope, inter)),
            voxels: file,
        })
    }

    /// Calls `take` with consecutive labels, in the order of the file.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read or has fewer voxels than its header declares.
    pub fn labels(mut self, mut take: impl FnMut(&[u8])) -> Result<(), DataError> {
        let size = self.element.size();
        let mut left = self.shape.iter().product::<usize>() * size;
        let mut chunk = vec![0; CHUNK.min(left)];
        let mut labels = Vec::with_capacity(chunk.len() / size);
        while left > 0 {
            let chunk = &mut chunk[..CHUNK.min(left)];
            self.voxels
                .read_exact(chunk)
                .map_err(|error| DataError::unreadable(&self.path, &error))?;
            left -= chunk.len();
            if self.element == Element::U8 && self.scaling.is_none() {
                take(chunk);
                continue;
            }
            if self.is_big_endian {
                chunk.chunks_exact_mut(size).for_each(<[u8]>::reverse);
            }
            labels.clear();
            labels.extend(chunk.chunks_exact(size).map(|bytes| {
                let value = self.element.real(bytes);
                // NumPy's cast: fractions are truncated, and values above 255 wrap.
                self.scaling.map_or(value, |(slope, inter)| value * slope + inter) as i64 as u8
            }));
            take(&labels);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(in super::super) mod tests {
    use std::io::Write as _;

    use super::super::npy::tests::written;
    use super::*;

    /// Returns a file with voxels of a datatype, in big-endian or little-endian numbers.
    pub(in super::super::super) fn file(
        shape: &[i16],
        datatype: i16,
        scaling: [f32; 2],
        voxels: &[u8],
        is_big_endian: bool,
    ) -> Vec<u8> {
        let mut header = vec![0; 352];
        let mut put = |at: usize, bytes: &[u8]| {
            let bytes = bytes.iter().copied();
            let bytes: Vec<u8> =
                if is_big_endian { bytes.rev().collect() } else { bytes.collect() };
            header[at..at + bytes.len()].copy_from_slice(&bytes);
        };
        put(0, &348_i32.to_le_bytes());
        put(40, &(shape.len() as i16).to_le_bytes());
        for (axis, voxels) in shape.iter().enumerate() {
            put(42 + 2 * axis, &voxels.to_le_bytes());
        }
        put(70, &datatype.to_le_bytes());
        put(108, &352_f32.to_le_bytes());
        put(112, &scaling[0].to_le_bytes());
        put(116, &scaling[1].to_le_bytes());
        header[344..348].copy_from_slice(b"n+1\0");
        header.extend_from_slice(voxels);
        header
    }

    fn labels(name: &str, bytes: &[u8]) -> Result<([usize; 3], Vec<u8>), String> {
        let volume = Volume::open(&written(name, bytes)).map_err(|error| error.to_string())?;
        let (shape, mut labels) = (volume.shape, Vec::new());
        volume.labels(|some| labels.extend_from_slice(some)).map_err(|error| error.to_string())?;
        Ok((shape, labels))
    }

    #[test]
    fn labels_are_scaled_and_cut_in_both_orders_of_bytes_plain_or_compressed() {
        let little = file(&[3, 1], 4, [0.5, 1.0], &[0, 0, 3, 0, 255, 255], false);
        let big = file(&[3, 1], 4, [0.5, 1.0], &[0, 0, 0, 3, 255, 255], true);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&little).unwrap();
        for (name, bytes) in [("a", little), ("b", big), ("c", gzip.finish().unwrap())] {
            // Scaled values: 1, 2.5 and 0.5.
            assert_eq!(labels(name, &bytes), Ok(([3, 1, 1], vec![1, 2, 0])), "{name}");
        }
        let floats = [2.9_f32, 1.0].map(f32::to_le_bytes).concat();
        let unscaled = file(&[2, 1, 1, 1], 16, [f32::NAN, f32::NAN], &floats, false);
        assert_eq!(labels("d", &unscaled), Ok(([2, 1, 1], vec![2, 1])));
    }

    #[test]
    fn what_is_no_volume_is_refused_with_the_reason() {
        let plain = |shape: &[i16], datatype| file(shape, datatype, [0.0; 2], &[0; 8], false);
        let problem = |name: &str, bytes: &[u8]| labels(name, bytes).unwrap_err();
        assert!(problem("n1", b"").contains("NIfTI-1 file, found another file"));
        assert!(problem("n2", &[0x1f, 0x8b, 8, 0]).contains("n2: "));
        assert!(problem("n3", &plain(&[2, 2, 2, 2], 2)).contains("dim of three axes"));
        assert!(problem("n4", &plain(&[32_767, 32_767, 32_767], 2)).contains("dim of three axes"));
        assert!(problem("n5", &plain(&[2, -2, 2], 2)).contains("found [3, 2, -2, 2, 0"));
        assert!(problem("n6", &plain(&[2, 2, 2], 128)).ends_with("found 128"));
        assert!(problem("n7", &plain(&[3, 3, 3], 2)).contains("fill"), "voxels are missing");
    }
}
