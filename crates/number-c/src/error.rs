//! Result codes, and the last error message of each thread.

use std::ffi::{CStr, c_char, c_int};

use dyno_number::{FormatError, NanError};

/// Result code of a function. The numbers never change; later versions may add some.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_number_result {
    /// Success.
    DYNO_NUMBER_OK = 0,
    /// A pointer is NULL, not aligned, or its count is too large.
    DYNO_NUMBER_ERROR_POINTER = 1,
    /// A text is not UTF-8.
    DYNO_NUMBER_ERROR_TEXT = 2,
    /// The format, rounding or overflow does not exist.
    DYNO_NUMBER_ERROR_FORMAT = 3,
    /// A file is missing or unreadable, or a line of it is wrong.
    DYNO_NUMBER_ERROR_FILE = 4,
    /// A number is NaN, which the format cannot represent.
    DYNO_NUMBER_ERROR_NAN = 5,
    /// An array is too short.
    DYNO_NUMBER_ERROR_SIZE = 6,
    /// A bug of this library.
    DYNO_NUMBER_ERROR_INTERNAL = 7,
}

use dyno_number_result::{
    DYNO_NUMBER_ERROR_FILE, DYNO_NUMBER_ERROR_FORMAT, DYNO_NUMBER_ERROR_INTERNAL,
    DYNO_NUMBER_ERROR_NAN, DYNO_NUMBER_ERROR_POINTER, DYNO_NUMBER_ERROR_SIZE,
    DYNO_NUMBER_ERROR_TEXT, DYNO_NUMBER_OK,
};

/// Message of each code, in the order of the codes.
const ALL: [(dyno_number_result, &CStr); 8] = [
    (DYNO_NUMBER_OK, c"it worked"),
    (DYNO_NUMBER_ERROR_POINTER, c"a pointer is NULL, not aligned, or its count is too large"),
    (DYNO_NUMBER_ERROR_TEXT, c"a text is not UTF-8"),
    (DYNO_NUMBER_ERROR_FORMAT, c"there is no such format, rounding or overflow"),
    (DYNO_NUMBER_ERROR_FILE, c"a file cannot be read, or a line of it is wrong"),
    (DYNO_NUMBER_ERROR_NAN, c"a number is NaN, which the format has not"),
    (DYNO_NUMBER_ERROR_SIZE, c"an array is too short"),
    (DYNO_NUMBER_ERROR_INTERNAL, c"a defect of this library"),
];

dyno_c_border::error_type!(dyno_number_result, "the library", {
    ok: DYNO_NUMBER_OK,
    pointer: DYNO_NUMBER_ERROR_POINTER,
    text: DYNO_NUMBER_ERROR_TEXT,
    internal: DYNO_NUMBER_ERROR_INTERNAL,
});

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        Self::new(DYNO_NUMBER_ERROR_FORMAT, error.to_string())
    }
}

impl From<NanError> for Error {
    fn from(error: NanError) -> Self {
        Self::new(DYNO_NUMBER_ERROR_NAN, error.to_string())
    }
}

/// Returns the text of the calling thread's last error: what was wrong, where, and what to do.
/// Empty if there was none; successful calls leave it unchanged. Valid until the thread's next
/// error or end.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_number_last_error() -> *const c_char {
    dyno_c_border::last_error()
}

/// Returns one line about a result code, never NULL. For the error of a specific call see
/// `dyno_number_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_number_result_message(code: c_int) -> *const c_char {
    dyno_c_border::message(ALL.map(|(known, line)| (known as c_int, line)), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_result_with_its_text() {
        assert_eq!(result(|| panic!("code {} of {}", 3, 2)), DYNO_NUMBER_ERROR_INTERNAL);
        // SAFETY: a C string of this thread. It stays valid, because no further error follows.
        let text = unsafe { CStr::from_ptr(dyno_number_last_error()) }.to_string_lossy();
        assert!(text.contains("panicked: code 3 of 2"), "{text}");
        assert_eq!(caught(7, || panic!("{}", 1)), 7);
    }
}
