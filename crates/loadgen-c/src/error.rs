//! Result codes, and the last error text of each thread.

use std::ffi::{CStr, c_char, c_int};

use dyno_loadgen::settings::SetError;

/// Result code of a function. The numbers never change; later versions may add
/// some.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_result {
    /// Success.
    DYNO_OK = 0,
    /// A pointer is NULL, not aligned, or its count is too large.
    DYNO_ERROR_POINTER = 1,
    /// A text is not UTF-8.
    DYNO_ERROR_TEXT = 2,
    /// No setting has this name.
    DYNO_ERROR_UNKNOWN_KEY = 3,
    /// The value is invalid for the setting.
    DYNO_ERROR_VALUE = 4,
    /// The caller's buffer is too small; it was not changed.
    DYNO_ERROR_CAPACITY = 5,
    /// A configuration file cannot be read (-2 or -ENOENT in the reference).
    DYNO_ERROR_CONFIG_UNREADABLE = 6,
    /// A configuration file has invalid lines; none of its keys is applied (-22 or
    /// -EINVAL in the reference).
    DYNO_ERROR_CONFIG_LINE = 7,
    /// A test is already running; a process runs one at a time.
    DYNO_ERROR_RUNNING = 8,
    /// No test is running: a completion came too late, or nothing can be aborted.
    DYNO_ERROR_NOT_RUNNING = 9,
    /// The logs cannot be opened or written.
    DYNO_ERROR_LOGS = 10,
    /// The settings or the library do not allow a test, such as a library without
    /// samples.
    DYNO_ERROR_SETTINGS = 11,
    /// A callback failed, and the test was aborted.
    DYNO_ERROR_CALLBACK = 12,
    /// A bug of this library.
    DYNO_ERROR_INTERNAL = 13,
}

use dyno_result::{
    DYNO_ERROR_CALLBACK, DYNO_ERROR_CAPACITY, DYNO_ERROR_CONFIG_LINE, DYNO_ERROR_CONFIG_UNREADABLE,
    DYNO_ERROR_INTERNAL, DYNO_ERROR_LOGS, DYNO_ERROR_NOT_RUNNING, DYNO_ERROR_POINTER,
    DYNO_ERROR_RUNNING, DYNO_ERROR_SETTINGS, DYNO_ERROR_TEXT, DYNO_ERROR_UNKNOWN_KEY,
    DYNO_ERROR_VALUE, DYNO_OK,
};

/// All codes, in the order of their numbers.
const ALL: [(dyno_result, &CStr); 14] = [
    (DYNO_OK, c"it worked"),
    (DYNO_ERROR_POINTER, c"a pointer is NULL, not aligned, or its count is too large"),
    (DYNO_ERROR_TEXT, c"a text is not UTF-8"),
    (DYNO_ERROR_UNKNOWN_KEY, c"no setting has this name"),
    (DYNO_ERROR_VALUE, c"a setting does not take this value"),
    (DYNO_ERROR_CAPACITY, c"the caller's buffer is too small"),
    (DYNO_ERROR_CONFIG_UNREADABLE, c"a configuration file cannot be read"),
    (DYNO_ERROR_CONFIG_LINE, c"a configuration file has bad lines"),
    (DYNO_ERROR_RUNNING, c"a test is running already"),
    (DYNO_ERROR_NOT_RUNNING, c"no run is on"),
    (DYNO_ERROR_LOGS, c"the logs cannot be opened or written"),
    (DYNO_ERROR_SETTINGS, c"the settings or the library allow no test"),
    (DYNO_ERROR_CALLBACK, c"a callback failed, and the test was aborted"),
    (DYNO_ERROR_INTERNAL, c"a defect of the load generator"),
];

dyno_c_border::error_type!(dyno_result, "the load generator", {
    ok: DYNO_OK,
    pointer: DYNO_ERROR_POINTER,
    text: DYNO_ERROR_TEXT,
    internal: DYNO_ERROR_INTERNAL,
});

impl From<SetError> for Error {
    fn from(error: SetError) -> Self {
        let code = match error {
            SetError::UnknownKey { .. } => DYNO_ERROR_UNKNOWN_KEY,
            _ => DYNO_ERROR_VALUE,
        };
        Self::new(code, error.to_string())
    }
}

/// Returns the text of the calling thread's last error: what was wrong, where,
/// and what to do. Empty if there was none; successful calls leave it unchanged.
/// Valid until the thread's next error or end.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_last_error() -> *const c_char {
    dyno_c_border::last_error()
}

/// Returns one line about a result code, never NULL. For the error of a specific
/// call see `dyno_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_result_message(code: c_int) -> *const c_char {
    dyno_c_border::message(ALL.map(|(known, line)| (known as c_int, line)), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_result_with_its_text() {
        assert_eq!(result(|| panic!("index {} of {}", 3, 2)), DYNO_ERROR_INTERNAL);
        // SAFETY: a C string of this thread, which has no further error in this test.
        let text = unsafe { CStr::from_ptr(dyno_last_error()) }.to_string_lossy();
        assert!(text.contains("panicked: index 3 of 2"), "{text}");
    }
}
