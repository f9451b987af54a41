//! Types whose layout C programs know, and views of what their pointers lead to.

use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;
use std::path::Path;
use std::{slice, str};

use dyno_loadgen::sut::{AsResponse, QuerySample, ResponseId};

use crate::error::{Error, dyno_result};
use crate::panic;

/// One sample of a query. The layout is that of `mlperf::QuerySample`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_query_sample {
    /// To be handed back with the response; never 0.
    pub id: u64,
    /// Position in the library.
    pub index: u64,
}

// The two are one type on either side of the boundary.
const _: () = {
    assert!(size_of::<dyno_query_sample>() == size_of::<QuerySample>());
    assert!(align_of::<dyno_query_sample>() == align_of::<QuerySample>());
    assert!(offset_of!(dyno_query_sample, id) == offset_of!(QuerySample, id));
    assert!(offset_of!(dyno_query_sample, index) == offset_of!(QuerySample, index));
};

/// The answer to one sample. The layout is that of `mlperf::QuerySampleResponse`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_response {
    /// The id of the sample.
    pub id: u64,
    /// What the accuracy log gets, byte for byte. Read during the call only, and
    /// only if the response is logged. May be NULL if `size` is 0.
    pub data: *const c_void,
    /// Bytes.
    pub size: usize,
    /// Output tokens; 0 where there are none.
    pub n_tokens: i64,
}

impl AsResponse for dyno_response {
    #[inline]
    fn id(&self) -> ResponseId {
        ResponseId(self.id)
    }

    #[inline]
    fn data(&self) -> &[u8] {
        if self.data.is_null() || self.size > isize::MAX as usize {
            return &[];
        }
        // SAFETY: not NULL and no longer than an object can be (just checked);
        // who completes a response vouches for its payload until the call ends.
        unsafe { slice::from_raw_parts(self.data.cast(), self.size) }
    }

    #[inline]
    fn tokens(&self) -> i64 {
        self.n_tokens
    }
}

#[cold]
fn bad_pointer(text: String) -> Error {
    Error::new(dyno_result::DYNO_ERROR_POINTER, text)
}

/// What a handle or a struct of the caller's leads to.
///
/// # Safety
/// `pointer` is NULL or leads to a `T` that nobody changes while `'a` lasts.
pub unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Error> {
    // SAFETY: the caller vouches for whatever is not NULL.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// As [`shared`], to be changed.
///
/// # Safety
/// `pointer` is NULL or leads to a `T` that nobody else uses while `'a` lasts.
pub unsafe fn exclusive<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Error> {
    // SAFETY: the caller vouches for whatever is not NULL.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

pub fn null(name: &str) -> Error {
    bad_pointer(format!("`{name}` is NULL"))
}

/// Checks that `count` values of type `T` can lie at `pointer`. None may lie
/// anywhere.
#[inline]
pub fn check_array<T>(pointer: *const T, count: usize, name: &str) -> Result<(), Error> {
    if (!pointer.is_null() && pointer.is_aligned() && count <= most::<T>()) || count == 0 {
        return Ok(());
    }
    Err(bad_array(pointer, count, name))
}

/// Values of type `T` that an object can have.
const fn most<T>() -> usize {
    isize::MAX as usize / size_of::<T>()
}

#[cold]
fn bad_array<T>(pointer: *const T, count: usize, name: &str) -> Error {
    bad_pointer(if pointer.is_null() {
        format!("`{name}` is NULL, but its count is {count}")
    } else if count <= most::<T>() {
        format!("`{name}` is not aligned to {} bytes", align_of::<T>())
    } else {
        format!("`{name}` cannot have {count} elements: that is more than memory can hold")
    })
}

/// The caller's array.
///
/// # Safety
/// If `count` is not 0 and `pointer` is neither NULL nor misaligned, it leads to
/// `count` values that nobody changes while `'a` lasts.
#[inline]
pub unsafe fn array<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Error> {
    check_array(pointer, count, name)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: neither NULL nor misaligned nor too long (just checked); the
    // caller vouches for the values.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// As [`array`], to be changed.
///
/// # Safety
/// As [`array`], and nobody else uses the values while `'a` lasts.
#[inline]
pub unsafe fn array_mut<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T], Error> {
    check_array(pointer, count, name)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: neither NULL nor misaligned nor too long (just checked); the
    // caller vouches for the values.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, count) })
}

/// The bytes of a C string, without the NUL.
///
/// # Safety
/// `pointer` is NULL or leads to a string that ends with NUL and that nobody
/// changes while `'a` lasts.
pub unsafe fn bytes<'a>(pointer: *const c_char, name: &str) -> Result<&'a [u8], Error> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL; the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// A C string that must be UTF-8.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Error> {
    // SAFETY: the caller vouches for the string.
    let bytes = unsafe { bytes(pointer, name) }?;
    str::from_utf8(bytes).map_err(|error| {
        let lossy = String::from_utf8_lossy(bytes);
        let at = error.valid_up_to();
        Error::new(
            dyno_result::DYNO_ERROR_TEXT,
            format!("`{name}` is not UTF-8 from byte {at} on: `{lossy}`; give it as UTF-8"),
        )
    })
}

/// A C string that names a file; any bytes where the system allows them.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path, Error> {
    #[cfg(unix)]
    {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        // SAFETY: the caller vouches for the string.
        unsafe { bytes(pointer, name) }.map(|bytes| Path::new(OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    // SAFETY: the caller vouches for the string.
    unsafe { text(pointer, name) }.map(Path::new)
}

/// Frees a handle.
///
/// # Safety
/// `pointer` is NULL or came from `Box::into_raw` and is used by nobody any more.
pub unsafe fn free<T>(pointer: *mut T) {
    panic::caught((), || {
        if !pointer.is_null() {
            // SAFETY: not NULL; the caller vouches for the rest.
            drop(unsafe { Box::from_raw(pointer) });
        }
        Ok(())
    });
}
