//! Views of what the pointers of C programs lead to.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::{slice, str};

/// What is wrong with what a C program gave. The text names the argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bad {
    /// A pointer is NULL, not aligned, or its count is too large.
    Pointer(String),
    /// A text is not UTF-8.
    Text(String),
}

/// That an argument is NULL.
#[cold]
#[must_use]
pub fn null(name: &str) -> Bad {
    Bad::Pointer(format!("`{name}` is NULL"))
}

/// What a handle or a struct of the caller's leads to.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// `pointer` is NULL or leads to a `T` that no other code changes while `'a` lasts.
pub unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Bad> {
    // SAFETY: the caller vouches for whatever is not NULL.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// As [`shared`], to be changed.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// `pointer` is NULL or leads to a `T` that no other code uses while `'a` lasts.
pub unsafe fn exclusive<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Bad> {
    // SAFETY: the caller vouches for whatever is not NULL.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// Checks that `count` values of type `T` can lie at `pointer`. None may lie anywhere.
///
/// # Errors
/// It is NULL or not aligned, or they are more than memory can hold.
#[inline]
pub fn check_array<T>(pointer: *const T, count: usize, name: &str) -> Result<(), Bad> {
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
fn bad_array<T>(pointer: *const T, count: usize, name: &str) -> Bad {
    Bad::Pointer(if pointer.is_null() {
        format!("`{name}` is NULL, but its count is {count}")
    } else if count <= most::<T>() {
        format!("`{name}` is not aligned to {} bytes", align_of::<T>())
    } else {
        format!("`{name}` cannot have {count} elements: that is more than memory can hold")
    })
}

/// The caller's array.
///
/// # Errors
/// As [`check_array`].
///
/// # Safety
/// If `count` is not 0 and `pointer` is neither NULL nor misaligned, it leads to `count` values that no other code
/// changes while `'a` lasts.
#[inline]
pub unsafe fn array<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Bad> {
    check_array(pointer, count, name)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: neither NULL nor misaligned nor too long (just checked); the caller vouches for the values.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// As [`array`], to be changed.
///
/// # Errors
/// As [`check_array`].
///
/// # Safety
/// As [`array`], and no other code uses the values while `'a` lasts.
#[inline]
pub unsafe fn array_mut<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T], Bad> {
    check_array(pointer, count, name)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: neither NULL nor misaligned nor too long (just checked); the caller vouches for the values.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, count) })
}

/// Writes one value where the caller wants it.
///
/// # Errors
/// As [`check_array`].
///
/// # Safety
/// `to` is NULL or leads to a value that no other code uses.
pub unsafe fn put<T>(to: *mut T, name: &str, value: T) -> Result<(), Bad> {
    // SAFETY: the caller vouches for whatever is not NULL.
    let place = unsafe { array_mut(to, 1, name) }?;
    place[0] = value;
    Ok(())
}

/// The bytes of a C string, without the NUL.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// `pointer` is NULL or leads to a string that ends with NUL and that no other code changes while `'a` lasts.
pub unsafe fn bytes<'a>(pointer: *const c_char, name: &str) -> Result<&'a [u8], Bad> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL; the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// A C string that must be UTF-8.
///
/// # Errors
/// It is NULL, or something else.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Bad> {
    // SAFETY: the caller vouches for the string.
    let bytes = unsafe { bytes(pointer, name) }?;
    str::from_utf8(bytes).map_err(|error| {
        let (at, lossy) = (error.valid_up_to(), String::from_utf8_lossy(bytes));
        Bad::Text(format!("`{name}` is not UTF-8 from byte {at} on: `{lossy}`; give it as UTF-8"))
    })
}

/// A C string that names a file; any bytes where the system allows them.
///
/// # Errors
/// As [`text`].
///
/// # Safety
/// As [`bytes`].
pub unsafe fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path, Bad> {
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
/// `pointer` is NULL or came from `Box::into_raw` and is no longer used.
pub unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: not NULL; the caller vouches for the rest.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_pointers_are_told_by_the_name_of_their_argument() {
        let four = [1_u32, 2, 3, 4];
        let odd = four.as_ptr().cast::<u8>().wrapping_add(1).cast::<u32>();
        let bad = |text: &str| Err(Bad::Pointer(text.into()));
        assert_eq!(
            check_array(std::ptr::null::<u32>(), 2, "x"),
            bad("`x` is NULL, but its count is 2")
        );
        assert_eq!(check_array(std::ptr::null::<u32>(), 0, "x"), Ok(()));
        assert_eq!(check_array(odd, 2, "x"), bad("`x` is not aligned to 4 bytes"));
        let count = usize::MAX / 4;
        let many = format!("`x` cannot have {count} elements: that is more than memory can hold");
        assert_eq!(check_array(four.as_ptr(), count, "x"), bad(&many));
        // SAFETY: NULL is looked at, and the array is of this function.
        unsafe {
            assert_eq!(
                shared(std::ptr::null::<u32>(), "handle"),
                bad("`handle` is NULL").map(|()| &0)
            );
            assert_eq!(array(four.as_ptr(), 4, "x"), Ok(&four[..]));
        }
    }

    #[test]
    fn texts_are_utf8_and_paths_need_not_be() {
        let bytes = c"a\xff";
        // SAFETY: a C string that is part of the program.
        let (text, path) = unsafe { (text(bytes.as_ptr(), "key"), path(bytes.as_ptr(), "key")) };
        let told = "`key` is not UTF-8 from byte 1 on: `a\u{fffd}`; give it as UTF-8";
        assert_eq!(text, Err(Bad::Text(told.into())));
        assert_eq!(path.is_ok(), cfg!(unix));
    }
}
