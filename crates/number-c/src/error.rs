//! Result codes, and the text of each thread's last error.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use dyno_number::{FormatError, NanError};

/// What a function returns. The numbers never change; later versions may add
/// some.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_number_result {
    /// It worked.
    DYNO_NUMBER_OK = 0,
    /// A pointer is NULL, not aligned, or its count is too large.
    DYNO_NUMBER_ERROR_POINTER = 1,
    /// A text is not UTF-8.
    DYNO_NUMBER_ERROR_TEXT = 2,
    /// There is no such format, rounding or overflow.
    DYNO_NUMBER_ERROR_FORMAT = 3,
    /// A file is not there or cannot be read, or a line of it is wrong.
    DYNO_NUMBER_ERROR_FILE = 4,
    /// A number is NaN, which the format has not.
    DYNO_NUMBER_ERROR_NAN = 5,
    /// An array is too short.
    DYNO_NUMBER_ERROR_SIZE = 6,
    /// A defect of this library.
    DYNO_NUMBER_ERROR_INTERNAL = 7,
}

use dyno_number_result::{
    DYNO_NUMBER_ERROR_FILE, DYNO_NUMBER_ERROR_FORMAT, DYNO_NUMBER_ERROR_INTERNAL,
    DYNO_NUMBER_ERROR_NAN, DYNO_NUMBER_ERROR_POINTER, DYNO_NUMBER_ERROR_SIZE,
    DYNO_NUMBER_ERROR_TEXT, DYNO_NUMBER_OK,
};

/// All codes, in the order of their numbers.
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

/// Why a call failed.
#[derive(Debug)]
pub struct Error {
    pub code: dyno_number_result,
    /// What was wrong, where, what to do.
    pub text: String,
}

impl Error {
    pub fn new(code: dyno_number_result, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Leaves the text for the calling thread and returns the code.
    fn report(self) -> dyno_number_result {
        let text = CString::new(self.text.replace('\0', "\u{fffd}")).unwrap_or_default();
        // A thread that is ending has no place for it any more.
        let _ = LAST.try_with(|last| last.replace(text));
        self.code
    }
}

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

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The code for what `call` returned.
pub fn result(call: impl FnOnce() -> Result<(), Error>) -> dyno_number_result {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => DYNO_NUMBER_OK,
        Ok(Err(error)) => error.report(),
        Err(payload) => defect(&*payload).report(),
    }
}

/// What `call` returned, or `otherwise` after an error.
pub fn caught<T>(otherwise: T, call: impl FnOnce() -> Result<T, Error>) -> T {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error,
        Err(payload) => defect(&*payload),
    };
    error.report();
    otherwise
}

fn defect(payload: &(dyn Any + Send)) -> Error {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no text");
    let text = format!("the library panicked: {text}; please report this with the calls before it");
    Error::new(DYNO_NUMBER_ERROR_INTERNAL, text)
}

/// The text of the calling thread's last error: what was wrong, where, and what
/// to do. "" if there was none; calls that succeed leave it as it is. Valid
/// until the thread's next error or end.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_number_last_error() -> *const c_char {
    let last = || Ok(LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr()));
    caught(c"".as_ptr(), last)
}

/// One line about a result code, never NULL. What was wrong in one call says
/// `dyno_number_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_number_result_message(code: c_int) -> *const c_char {
    let message = ALL.iter().find(|(known, _)| *known as c_int == code);
    message.map_or(c"unknown result code", |(_, message)| message).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_result_with_its_text() {
        assert_eq!(result(|| panic!("code {} of {}", 3, 2)), DYNO_NUMBER_ERROR_INTERNAL);
        // SAFETY: a C string of this thread, which has no further error in this test.
        let text = unsafe { CStr::from_ptr(dyno_number_last_error()) }.to_string_lossy();
        assert!(text.contains("panicked: code 3 of 2"), "{text}");
        assert_eq!(caught(7, || panic!("{}", 1)), 7);
    }
}
