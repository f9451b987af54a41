//! Errors at the border to C. A panic becomes an error with a message, so that none unwinds into C.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Error type of a library, with the result codes of that library.
pub trait Failure: Sized {
    /// Result code that the functions of the library return.
    type Code;
    /// The code for success.
    const OK: Self::Code;

    /// Returns the error for a panic with this text, which is a bug of the library.
    fn defect(panic: &str) -> Self;

    /// Returns the code, and a text that states what was wrong, where, and what to do.
    fn told(self) -> (Self::Code, Cow<'static, str>);
}

/// Defines the error type of a library, and functions that run its calls: `result` returns the result
/// code, `caught` the value or a substitute. Arguments: the type of the codes, the name of the library
/// in messages, and four codes.
#[macro_export]
macro_rules! error_type {
    ($code:ident, $library:literal, {
        ok: $ok:expr, pointer: $pointer:expr, text: $text:expr, internal: $internal:expr $(,)?
    }) => {
        /// Error of a call.
        #[derive(Debug)]
        pub struct Error {
            pub code: $code,
            /// What is wrong, where, and what to do.
            pub text: ::std::borrow::Cow<'static, str>,
        }

        impl Error {
            pub fn new(code: $code, text: impl Into<::std::borrow::Cow<'static, str>>) -> Self {
                Self { code, text: text.into() }
            }
        }

        impl $crate::Failure for Error {
            type Code = $code;
            const OK: $code = $ok;

            fn defect(panic: &str) -> Self {
                let advice = "please report this with the calls before it";
                Self::new($internal, format!("{} panicked: {panic}; {advice}", $library))
            }

            fn told(self) -> ($code, ::std::borrow::Cow<'static, str>) {
                (self.code, self.text)
            }
        }

        impl From<$crate::Bad> for Error {
            fn from(bad: $crate::Bad) -> Self {
                match bad {
                    $crate::Bad::Pointer(text) => Self::new($pointer, text),
                    $crate::Bad::Text(text) => Self::new($text, text),
                }
            }
        }

        /// Runs `call`, stores its error and returns its result code.
        #[inline]
        pub fn result(call: impl FnOnce() -> Result<(), Error>) -> $code {
            $crate::result(call)
        }

        /// Returns the value of `call`; after an error, stores it and returns `otherwise`.
        pub fn caught<T>(otherwise: T, call: impl FnOnce() -> Result<T, Error>) -> T {
            $crate::caught(otherwise, call)
        }
    };
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs `call` and returns its result code. The text of an error is stored for the calling thread.
///
/// A panic leaves no handle in an intermediate state: calls change a handle in one step, after
/// everything that can fail.
#[inline]
pub fn result<F: Failure>(call: impl FnOnce() -> Result<(), F>) -> F::Code {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => F::OK,
        Ok(Err(failure)) => report(failure),
        Err(payload) => report(defect::<F>(&*payload)),
    }
}

/// Runs `call` and returns its value, or `otherwise` after an error, whose text is stored for the
/// calling thread.
pub fn caught<T, F: Failure>(otherwise: T, call: impl FnOnce() -> Result<T, F>) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(payload) => defect(&*payload),
    };
    report(failure);
    otherwise
}

#[cold]
fn report<F: Failure>(failure: F) -> F::Code {
    let (code, text) = failure.told();
    let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| last.replace(text));
    code
}

#[cold]
fn defect<F: Failure>(payload: &(dyn Any + Send)) -> F {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    F::defect(text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text"))
}

/// Returns the text of the calling thread's last error; empty if there was none. Valid until the
/// thread's next error or end.
pub fn last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns one line about a result code among all codes of a library, never NULL.
pub fn message(
    all: impl IntoIterator<Item = (c_int, &'static CStr)>,
    code: c_int,
) -> *const c_char {
    let known = all.into_iter().find(|(known, _)| *known == code);
    known.map_or(c"unknown result code", |(_, message)| message).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(String);

    impl Failure for Text {
        type Code = i32;
        const OK: i32 = 0;

        fn defect(panic: &str) -> Self {
            Self(format!("it panicked: {panic}"))
        }

        fn told(self) -> (i32, Cow<'static, str>) {
            (7, self.0.into())
        }
    }

    fn last() -> String {
        // SAFETY: a C string of this thread, which has no further error before it is copied.
        unsafe { CStr::from_ptr(last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_is_a_result_with_its_text() {
        assert_eq!(last(), "");
        assert_eq!(result::<Text>(|| panic!("index {} of {}", 3, 2)), 7);
        assert_eq!(last(), "it panicked: index 3 of 2");
        assert_eq!(result::<Text>(|| Ok(())), 0);
        assert_eq!(last(), "it panicked: index 3 of 2", "success leaves it");
    }

    #[test]
    fn an_error_where_there_is_no_result_is_the_value_of_errors() {
        assert_eq!(caught::<_, Text>(1, || panic!("no\0text")), 1);
        assert_eq!(last(), "it panicked: no\u{fffd}text");
        assert_eq!(caught(1, || Err(Text("wrong".into()))), 1);
        assert_eq!(last(), "wrong");
        assert_eq!(caught::<_, Text>(1, || Ok(2)), 2);
    }

    #[test]
    fn codes_have_a_line_each() {
        let said = |code| {
            // SAFETY: a C string that is part of the program.
            unsafe { CStr::from_ptr(message([(0, c"it worked")], code)) }.to_str()
        };
        assert_eq!(said(0), Ok("it worked"));
        assert_eq!(said(99), Ok("unknown result code"));
    }
}
