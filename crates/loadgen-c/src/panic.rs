//! No panic crosses into C.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, dyno_result};

/// The code for what `call` returned.
///
/// A panic leaves no handle half changed: calls change a handle in one step,
/// after whatever may fail.
#[inline]
pub fn result(call: impl FnOnce() -> Result<(), Error>) -> dyno_result {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => dyno_result::DYNO_OK,
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
    Error::new(
        dyno_result::DYNO_ERROR_INTERNAL,
        format!("the load generator panicked: {text}; please report this with the calls before it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    use crate::error::dyno_last_error;

    fn last_error() -> &'static str {
        // SAFETY: a C string of this thread, which has no further error in a test.
        unsafe { CStr::from_ptr(dyno_last_error()) }.to_str().unwrap()
    }

    #[test]
    fn a_panic_is_a_result_with_its_text() {
        assert_eq!(last_error(), "");
        let code = result(|| panic!("index {} of {}", 3, 2));
        assert_eq!(code, dyno_result::DYNO_ERROR_INTERNAL);
        assert!(last_error().contains("panicked: index 3 of 2"), "{}", last_error());
    }

    #[test]
    fn a_panic_where_there_is_no_result_is_the_value_of_errors() {
        assert_eq!(caught(7, || panic!("no\0text")), 7);
        assert!(last_error().contains("panicked: no\u{fffd}text"), "{}", last_error());
    }
}
