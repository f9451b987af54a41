//! Memory that Python programs pass: addresses and buffers.
#![expect(unsafe_code, reason = "addresses that Python programs vouch for")]

use std::slice;

use dyno_loadgen::sut::ResponseId;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Address and size of an answer in the memory of the process.
#[derive(Debug, Clone, Copy)]
pub struct Payload {
    address: *const u8,
    size: usize,
}

// SAFETY: only an address; the program decides which threads may read it.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

impl Payload {
    /// Returns the payload at an address of the program, which must stay valid until its call
    /// returns.
    pub fn at(address: u64, size: u64) -> Self {
        let address = std::ptr::with_exposed_provenance(address as usize);
        Self { address, size: size as usize }
    }

    /// Returns address and size.
    pub fn address(self) -> (u64, u64) {
        (self.address.expose_provenance() as u64, self.size as u64)
    }

    /// Returns the bytes; none at address 0, or of a size that no memory has.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        if self.address.is_null() || self.size == 0 || self.size > isize::MAX as usize {
            return &[];
        }
        // SAFETY: the program vouches for what it passes, as the interface demands.
        unsafe { slice::from_raw_parts(self.address, self.size) }
    }
}

/// Contiguous Python buffer, which is pinned until this is dropped.
#[derive(Debug)]
pub struct ContiguousBuffer(PyUntypedBuffer);

impl ContiguousBuffer {
    /// Returns the buffer of `object`, called `name` in error messages.
    ///
    /// # Errors
    /// `TypeError` if `object` has no buffer, or one of Python objects; `ValueError` if it is not
    /// contiguous.
    pub fn from_object(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object).map_err(|_| {
            PyTypeError::new_err(format!(
                "{name}: expected a buffer, such as a numpy array, an array.array or a memoryview"
            ))
        })?;
        // In a format, names of fields are between colons.
        let mut types = buffer.format().to_bytes().split(|byte| *byte == b':').step_by(2);
        if types.any(|part| part.contains(&b'O')) {
            return Err(PyTypeError::new_err(format!(
                "{name}: expected numbers or bytes, not an array of Python objects, whose addresses \
                 are no answers"
            )));
        }
        if !buffer.is_c_contiguous() {
            return Err(pyo3::exceptions::PyValueError::new_err(format!(
                "{name}: expected a C-contiguous buffer; numpy.ascontiguousarray makes one"
            )));
        }
        Ok(Self(buffer))
    }

    /// Returns the length of the first dimension; 1 for a scalar.
    pub fn rows(&self) -> usize {
        self.0.shape().first().copied().unwrap_or(1)
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len_bytes()
    }

    /// Returns `size` bytes from `begin` on, which must be within the buffer.
    pub fn payload(&self, begin: usize, size: usize) -> Payload {
        assert!(
            begin.checked_add(size).is_some_and(|end| end <= self.bytes()),
            "beyond the buffer"
        );
        Payload { address: self.0.buf_ptr().cast::<u8>().cast_const().wrapping_add(begin), size }
    }
}

/// Buffer of 64-bit integers.
#[derive(Debug)]
pub struct Words(ContiguousBuffer);

impl Words {
    /// Returns the buffer of `object`, called `name` in error messages. Signed and unsigned
    /// integers are accepted: ids have no sign, and token counts are below 2^63.
    ///
    /// # Errors
    /// `TypeError` if `object` has no buffer of 64-bit integers.
    pub fn from_object(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = ContiguousBuffer::from_object(name, object)?;
        let format = buffer.0.format().to_string_lossy();
        let order = if cfg!(target_endian = "little") { '<' } else { '>' };
        let kind = format.trim_start_matches(['@', '=', order]);
        // An empty buffer may have any address.
        let is_aligned = buffer.bytes() == 0 || buffer.0.buf_ptr().cast::<u64>().is_aligned();
        if !matches!(kind, "q" | "Q" | "l" | "L" | "n" | "N")
            || buffer.0.item_size() != size_of::<u64>()
            || !is_aligned
        {
            return Err(PyTypeError::new_err(format!(
                "{name}: expected a buffer of 64-bit integers, not of items of {} bytes and \
                 format '{format}'",
                buffer.0.item_size()
            )));
        }
        Ok(Self(buffer))
    }

    /// Returns the integers.
    #[inline]
    pub fn get(&self) -> &[u64] {
        let (address, n) = (self.0.0.buf_ptr().cast::<u64>(), self.0.0.item_count());
        if n == 0 {
            return &[];
        }
        // SAFETY: the buffer is held, lies in one piece, is aligned and has `n`
        // items of 8 bytes. The program must not write to it during the call,
        // as with any function that reads a buffer.
        unsafe { slice::from_raw_parts(address, n) }
    }

    /// Returns the integers as ids.
    #[inline]
    pub fn ids(&self) -> &[ResponseId] {
        let words = self.get();
        // SAFETY: `ResponseId` is a transparent `u64`.
        unsafe { slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
    }
}

/// Returns whether `object` can be indexed by position and is not text: the condition of the
/// reference for a list.
pub fn is_sequence(object: &Bound<'_, PyAny>) -> bool {
    use pyo3::types::{PyBytes, PyString};
    // SAFETY: a live object, and the thread is attached.
    let indexed = unsafe { ffi::PySequence_Check(object.as_ptr()) } != 0;
    indexed && !object.is_instance_of::<PyString>() && !object.is_instance_of::<PyBytes>()
}
