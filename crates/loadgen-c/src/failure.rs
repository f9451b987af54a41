//! What happens when a callback says that it failed.

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::error::{Error, dyno_result};
use crate::test::LOADGEN;

/// The first failure of a callback in one test.
#[derive(Debug, Default)]
pub struct Failure {
    first: OnceLock<(&'static str, Reason)>,
}

/// What a callback said.
#[derive(Debug, Clone, Copy)]
pub enum Reason {
    /// Returned this in place of 0.
    Code(c_int),
    /// Returned a pointer that cannot be used.
    Pointer(&'static str),
}

impl Failure {
    /// Aborts the test. Later failures are consequences of the first.
    #[cold]
    pub fn note(&self, callback: &'static str, reason: Reason) {
        if self.first.set((callback, reason)).is_ok() {
            // Between two runs there is none to abort; no callback follows either way.
            let _ = LOADGEN.abort();
        }
    }

    /// Notes a code that is not 0.
    #[inline]
    pub fn judge(&self, callback: &'static str, code: c_int) {
        if code != 0 {
            self.note(callback, Reason::Code(code));
        }
    }

    /// Whether a callback has failed, so that no other may be called.
    #[inline]
    pub fn is_noted(&self) -> bool {
        self.first.get().is_some()
    }

    /// The failure as the result of the test.
    pub fn result(&self) -> Result<(), Error> {
        let Some((callback, reason)) = self.first.get() else { return Ok(()) };
        let what = match reason {
            Reason::Code(code) => format!("returned {code}"),
            Reason::Pointer(what) => format!("returned {what}"),
        };
        Err(Error::new(
            dyno_result::DYNO_ERROR_CALLBACK,
            format!(
                "the callback `{callback}` {what}; the test was aborted, no further callback was \
                 called, and its logs say so"
            ),
        ))
    }
}
