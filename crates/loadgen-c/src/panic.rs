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
