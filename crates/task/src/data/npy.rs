//! Writes arrays in the format of `numpy.save`, for derived references.
//!
//! Source: "NPY format" of the NumPy reference, version 1.

use std::io::{self, Write};

use dyno_sut::tensors::{Element, ElementType};

/// Alignment of the elements, in bytes.
const ALIGNED: usize = 64;
/// Bytes before the header: magic, version and length.
const BEFORE: usize = 10;

/// Writes an array, row by row.
///
/// ```
/// let mut bytes = Vec::new();
/// dyno_task::data::npy::write(&mut bytes, &[2], &[1.0_f32, 2.0]).unwrap();
/// assert!(bytes.starts_with(b"\x93NUMPY"));
/// assert_eq!(bytes.len(), 128 + 2 * 4);
/// ```
///
/// # Errors
/// The file cannot be written.
pub fn write<T: Element>(to: &mut impl Write, shape: &[usize], all: &[T]) -> io::Result<()> {
    let element = match T::TYPE {
        ElementType::U8 => "|u1",
        ElementType::I64 => "<i8",
        ElementType::F32 => "<f4",
        other => unreachable!("references here are no {other}"),
    };
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let length = (BEFORE + header.len() + 1).next_multiple_of(ALIGNED) - BEFORE;
    to.write_all(b"\x93NUMPY\x01\x00")?;
    let short = u16::try_from(length).expect("arrays here have few dimensions");
    to.write_all(&short.to_le_bytes())?;
    writeln!(to, "{header:<0$}", length - 1)?;
    let mut bytes = Vec::with_capacity(std::mem::size_of_val(all));
    T::write(all, &mut bytes);
    to.write_all(&bytes)
}
