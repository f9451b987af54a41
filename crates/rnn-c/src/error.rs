//! Result codes, and the text of the last error of each thread.

use std::ffi::{CStr, c_char, c_int};

use dyno_rnn::engine::EngineError;
use dyno_rnn::model::ModelError;

/// Result code of a function. The numbers never change; later versions may add some.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_rnn_result {
    /// Success.
    DYNO_RNN_OK = 0,
    /// A pointer is NULL, not aligned, or its count is too large.
    DYNO_RNN_ERROR_POINTER = 1,
    /// A text is not UTF-8.
    DYNO_RNN_ERROR_TEXT = 2,
    /// An option has an invalid value.
    DYNO_RNN_ERROR_OPTION = 3,
    /// A file is missing or unreadable, or the text names neither a file nor a layer.
    DYNO_RNN_ERROR_FILE = 4,
    /// A file has no recurrent layers, or layers that do not form a chain.
    DYNO_RNN_ERROR_MODEL = 5,
    /// An array has the wrong size, or a length exceeds the steps.
    DYNO_RNN_ERROR_SIZE = 6,
    /// A batch cannot be planned or run.
    DYNO_RNN_ERROR_RUN = 7,
    /// A bug of this library.
    DYNO_RNN_ERROR_INTERNAL = 8,
}

use dyno_rnn_result::{
    DYNO_RNN_ERROR_FILE, DYNO_RNN_ERROR_INTERNAL, DYNO_RNN_ERROR_MODEL, DYNO_RNN_ERROR_OPTION,
    DYNO_RNN_ERROR_POINTER, DYNO_RNN_ERROR_RUN, DYNO_RNN_ERROR_SIZE, DYNO_RNN_ERROR_TEXT,
    DYNO_RNN_OK,
};

/// All codes, in the order of their numbers.
const ALL: [(dyno_rnn_result, &CStr); 9] = [
    (DYNO_RNN_OK, c"it worked"),
    (DYNO_RNN_ERROR_POINTER, c"a pointer is NULL, not aligned, or its count is too large"),
    (DYNO_RNN_ERROR_TEXT, c"a text is not UTF-8"),
    (DYNO_RNN_ERROR_OPTION, c"an option has a value that it cannot have"),
    (DYNO_RNN_ERROR_FILE, c"there is no such file, or it cannot be read"),
    (DYNO_RNN_ERROR_MODEL, c"a file has no recurrent layers that can be run together"),
    (DYNO_RNN_ERROR_SIZE, c"an array has not the numbers that it should"),
    (DYNO_RNN_ERROR_RUN, c"a batch cannot be planned or run"),
    (DYNO_RNN_ERROR_INTERNAL, c"a defect of the engine"),
];

dyno_c_border::error_type!(dyno_rnn_result, "the engine", {
    ok: DYNO_RNN_OK,
    pointer: DYNO_RNN_ERROR_POINTER,
    text: DYNO_RNN_ERROR_TEXT,
    internal: DYNO_RNN_ERROR_INTERNAL,
});

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        let code = match error {
            ModelError::Neither(_) | ModelError::Unreadable { .. } | ModelError::Format(_) => {
                DYNO_RNN_ERROR_FILE
            }
            _ => DYNO_RNN_ERROR_MODEL,
        };
        Self::new(code, error.to_string())
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        let code = match error {
            EngineError::Plan(_) => DYNO_RNN_ERROR_RUN,
            _ => DYNO_RNN_ERROR_SIZE,
        };
        Self::new(code, error.to_string())
    }
}

/// Returns the text of the calling thread's last error: what was wrong, where, and what to do.
/// Empty if there was none; successful calls leave it unchanged. Valid until the thread's next
/// error or end.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_rnn_last_error() -> *const c_char {
    dyno_c_border::last_error()
}

/// Returns one line about a result code, never NULL. For the error of a specific call see
/// `dyno_rnn_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_rnn_result_message(code: c_int) -> *const c_char {
    dyno_c_border::message(ALL.map(|(known, line)| (known as c_int, line)), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_result_with_its_text() {
        assert_eq!(result(|| panic!("row {} of {}", 3, 2)), DYNO_RNN_ERROR_INTERNAL);
        // SAFETY: a C string of this thread, valid because this test has no further error.
        let text = unsafe { CStr::from_ptr(dyno_rnn_last_error()) }.to_string_lossy();
        assert!(text.contains("panicked: row 3 of 2"), "{text}");
        assert_eq!(caught(7, || panic!("{}", 1)), 7);
    }

    #[test]
    fn a_panic_of_a_worker_of_the_thread_team_is_a_result_and_no_abort() {
        let mut team = dyno_kernels::Team::with_workers(3);
        for share in 0..team.workers() {
            let code = result(|| {
                team.run(&|worker| assert!(worker != share, "share {share} fails"));
                Ok(())
            });
            assert_eq!(code, DYNO_RNN_ERROR_INTERNAL);
            // SAFETY: a C string of this thread, valid until its next error.
            let text = unsafe { CStr::from_ptr(dyno_rnn_last_error()) }.to_string_lossy();
            assert!(text.contains(&format!("panicked: share {share} fails")), "{text}");
        }
    }
}
