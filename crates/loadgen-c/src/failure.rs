//! What happens when a callback says that it failed.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::abi;
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

/// A callback that names a system or a library.
pub type Name = Option<unsafe extern "C" fn(context: *mut c_void) -> *const c_char>;

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

    /// A copy of the name that the caller's function returns; "" if it or an
    /// earlier callback has failed.
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
