//! Arrays as `numpy.save` writes them, for references that are made here.
//!
//! Source: "NPY format" of the NumPy reference, version 1.

use std::io::{self, Write};

use dyno_sut::tensors::{Element, Scalar};

/// Elements begin at a multiple of this.
const ALIGNED: usize = 64;
/// Bytes before the header: magic, version and length.
const BEFORE: usize = 10;

/// Writes an array, row by row.
///
/// # Errors
/// Those of the file.
pub fn write<T: Scalar>(to: &mut impl Write, shape: &[usize], all: &[T]) -> io::Result<()> {
    let element = match T::TYPE {
        Element::U8 => "|u1",
        Element::I64 => "<i8",
        Element::F32 => "<f4",
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
