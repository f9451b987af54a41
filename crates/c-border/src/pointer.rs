//! Checked access to the memory behind pointers of C programs.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::{slice, str};

/// Invalid argument of a C program. The text names the argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bad {
    /// A pointer is NULL, not aligned, or its count is too large.
    Pointer(String),
    /// A text is not UTF-8.
    Text(String),
}

/// Returns the error for an argument that is NULL.
#[cold]
pub fn null(name: &str) -> Bad {
    Bad::Pointer(format!("`{name}` is NULL"))
}

/// Returns a reference to the target of a handle, or to a struct of the caller.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// `pointer` is NULL or points to a `T` that no other code changes during `'a`.
pub unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Bad> {
    // SAFETY: the caller vouches for whatever is not NULL.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// Returns a mutable reference; otherwise like [`shared`].
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// `pointer` is NULL or points to a `T` that no other code uses during `'a`.
pub unsafe fn exclusive<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Bad> {
    // SAFETY: the caller vouches for whatever is not NULL.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// Checks that `pointer` can point to `count` values of type `T`. Any pointer passes for a count of 0.
///
/// # Errors
/// `pointer` is NULL or not aligned, or the values exceed the address space.
#[inline]
pub fn check_array<T>(pointer: *const T, count: usize, name: &str) -> Result<(), Bad> {
    if (!pointer.is_null() && pointer.is_aligned() && count <= most::<T>()) || count == 0 {
        return Ok(());
    }
    Err(bad_array(pointer, count, name))
}

/// Maximum number of values of type `T` in one object.
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

/// Returns the array of the caller.
///
/// # Errors
/// The errors of [`check_array`].
///
/// # Safety
/// If `count` is not 0 and `pointer` is neither NULL nor misaligned, it points to `count` values that no
/// other code changes during `'a`.
#[inline]
pub unsafe fn array<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Bad> {
    check_array(pointer, count, name)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: neither NULL nor misaligned nor too long (just checked); the caller vouches for the values.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// Returns the array of the caller as a mutable slice.
///
/// # Errors
/// The errors of [`check_array`].
///
/// # Safety
/// The conditions of [`array`]; no other code uses the values during `'a`.
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

/// Writes a value to the memory of the caller.
///
/// # Errors
/// The errors of [`check_array`].
///
/// # Safety
/// `to` is NULL or points to a value that no other code uses.
pub unsafe fn put<T>(to: *mut T, name: &str, value: T) -> Result<(), Bad> {
    // SAFETY: the caller vouches for whatever is not NULL.
    let place = unsafe { array_mut(to, 1, name) }?;
    place[0] = value;
    Ok(())
}

/// Returns the bytes of a C string, without the NUL.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// `pointer` is NULL or points to a string that ends with NUL and that no other code changes during `'a`.
pub unsafe fn bytes<'a>(pointer: *const c_char, name: &str) -> Result<&'a [u8], Bad> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL; the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Returns a C string, which must be UTF-8.
///
/// # Errors
/// It is NULL or not UTF-8.
///
/// # Safety
/// The conditions of [`bytes`].
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Bad> {
    // SAFETY: the caller vouches for the string.
    let bytes = unsafe { bytes(pointer, name) }?;
    str::from_utf8(bytes).map_err(|error| {
        let (at, lossy) = (error.valid_up_to(), String::from_utf8_lossy(bytes));
        Bad::Text(format!("`{name}` is not UTF-8 from byte {at} on: `{lossy}`; give it as UTF-8"))
    })
}

/// Returns a C string as the path of a file. It may have any bytes that the system allows.
///
/// # Errors
/// The errors of [`text`].
///
/// # Safety
/// The conditions of [`bytes`].
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
/// `pointer` is NULL or came from `Box::into_raw`, and is not used afterwards.
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
