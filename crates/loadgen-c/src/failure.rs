//! Failures of callbacks.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::abi;
use crate::error::{Error, dyno_result};
use crate::test::LOADGEN;

/// First failure of a callback in one test.
#[derive(Debug, Default)]
pub struct Failure {
    first: OnceLock<(&'static str, Reason)>,
}

/// How a callback failed.
#[derive(Debug, Clone, Copy)]
pub enum Reason {
    /// It returned this code instead of 0.
    Code(c_int),
    /// It returned an invalid pointer.
    Pointer(&'static str),
}

/// Callback that returns the name of a system or a library.
pub type Name = Option<unsafe extern "C" fn(context: *mut c_void) -> *const c_char>;

impl Failure {
    /// Records the failure and aborts the test. Only the first failure is kept, because it causes the
    /// later ones.
    #[cold]
    pub fn note(&self, callback: &'static str, reason: Reason) {
        if self.first.set((callback, reason)).is_ok() {
            // Fails between two runs; no callback follows in any case.
            let _ = LOADGEN.abort();
        }
    }

    /// Records a failure if the code is not 0.
    #[inline]
    pub fn check(&self, callback: &'static str, code: c_int) {
        if code != 0 {
            self.note(callback, Reason::Code(code));
        }
    }

    /// Returns whether a callback has failed. No callback may be called after that.
    #[inline]
    pub fn is_noted(&self) -> bool {
        self.first.get().is_some()
    }

    /// Returns a copy of the name from the caller's function; empty if it or an earlier callback
    /// failed.
    pub fn name(&self, name: Name, context: *mut c_void) -> String {
        if self.is_noted() {
            return String::new();
        }
        let name = name.expect("systems and libraries without this function are refused");
        // SAFETY: the function and its context come from one struct of the caller.
        let name = unsafe { name(context) };
        // SAFETY: NULL or a C string, by the contract of the function; copied at once.
        match unsafe { abi::bytes(name, "name") } {
            Ok(name) => String::from_utf8_lossy(name).into_owned(),
            Err(_) => {
                self.note("name", Reason::Pointer("NULL"));
                String::new()
            }
        }
    }

    /// Returns the failure as the result of the test.
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
