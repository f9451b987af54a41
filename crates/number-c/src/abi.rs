//! Views of what the pointers of C programs lead to.

use std::ffi::{CStr, c_char};
use std::{slice, str};

use crate::error::{Error, dyno_number_result};

fn bad(text: String) -> Error {
    Error::new(dyno_number_result::DYNO_NUMBER_ERROR_POINTER, text)
}

pub fn null(name: &str) -> Error {
    bad(format!("`{name}` is NULL"))
}

/// What a handle or a struct of the caller's leads to.
///
/// # Safety
/// `pointer` is NULL or leads to a `T` that nobody changes while `'a` lasts.
pub unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Error> {
    // SAFETY: the caller vouches for whatever is not NULL.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// Checks that `count` values of type `T` can lie at `pointer`. None may lie anywhere.
fn check<T>(pointer: *const T, count: usize, name: &str) -> Result<(), Error> {
    let most = isize::MAX as usize / size_of::<T>();
    if count == 0 || (!pointer.is_null() && pointer.is_aligned() && count <= most) {
        return Ok(());
    }
    Err(bad(if pointer.is_null() {
        format!("`{name}` is NULL, but its count is {count}")
    } else if count <= most {
        format!("`{name}` is not aligned to {} bytes", align_of::<T>())
    } else {
        format!("`{name}` cannot have {count} elements: that is more than memory can hold")
    }))
}

/// The caller's array.
///
/// # Safety
/// If `count` is not 0 and `pointer` is neither NULL nor misaligned, it leads to
/// `count` values that nobody changes while `'a` lasts.
pub unsafe fn array<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Error> {
    check(pointer, count, name)?;
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
pub unsafe fn array_mut<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T], Error> {
    check(pointer, count, name)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: neither NULL nor misaligned nor too long (just checked); the
    // caller vouches for the values.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, count) })
}

/// A C string that must be UTF-8.
///
/// # Safety
/// `pointer` is NULL or leads to a string that ends with NUL and that nobody
/// changes while `'a` lasts.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Error> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL; the caller vouches for the rest.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    str::from_utf8(bytes).map_err(|error| {
        let (at, lossy) = (error.valid_up_to(), String::from_utf8_lossy(bytes));
        let text = format!("`{name}` is not UTF-8 from byte {at} on: `{lossy}`; give it as UTF-8");
        Error::new(dyno_number_result::DYNO_NUMBER_ERROR_TEXT, text)
    })
}
