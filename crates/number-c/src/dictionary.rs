//! The Number configuration file.

use std::ffi::c_char;

use dyno_c_border::{free, put, shared, text};
use dyno_number::Dictionary;

use crate::error::{
    Error, caught, dyno_number_result, dyno_number_result::DYNO_NUMBER_ERROR_FILE, result,
};
use crate::format::dyno_number_format;

/// Formats of a Number configuration file, by object name.
pub struct dyno_number_dictionary(Dictionary);

/// Reads a Number configuration file. Returns NULL if the file is missing or a line of it is wrong.
/// Free the dictionary with `dyno_number_dictionary_free`.
///
/// # Safety
/// `path` is NULL or ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_dictionary_open(
    path: *const c_char,
) -> *mut dyno_number_dictionary {
    caught(std::ptr::null_mut(), || {
        // SAFETY: the caller vouches for it.
        let path = unsafe { text(path, "path") }?;
        let wrong = |what: String| Error::new(DYNO_NUMBER_ERROR_FILE, format!("{path}: {what}"));
        let file = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let read = file.parse().map_err(|error| wrong(format!("{error}")))?;
        Ok(Box::into_raw(Box::new(dyno_number_dictionary(read))))
    })
}

/// Writes the format of an object; F32 if the file does not contain its name.
///
/// # Safety
/// `dictionary` is NULL or came from `dyno_number_dictionary_open`, `name` is NULL or ends with NUL,
/// `format` is NULL or points to writable memory for a format.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_dictionary_format(
    dictionary: *const dyno_number_dictionary,
    name: *const c_char,
    format: *mut dyno_number_format,
) -> dyno_number_result {
    result(|| {
        // SAFETY: the caller vouches for all three.
        unsafe {
            let dictionary = shared(dictionary, "dictionary")?;
            let found = dictionary.0.format(text(name, "name")?);
            Ok(put(format, "format", dyno_number_format::from_format(found))?)
        }
    })
}

/// Frees a dictionary. NULL is allowed.
///
/// # Safety
/// `dictionary` is NULL or came from `dyno_number_dictionary_open`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_dictionary_free(dictionary: *mut dyno_number_dictionary) {
    caught((), || {
        // SAFETY: the caller vouches that it was made by `dyno_number_dictionary_open`.
        unsafe { free(dictionary) };
        Ok(())
    });
}
