//! Completion of samples. It allocates nothing, takes no lock and makes no system call, unless a
//! response is logged or the issuing thread sleeps.

use std::ffi::c_void;

use dyno_loadgen::drop_in::NoRunError;

use crate::abi::{self, dyno_response};
use crate::error::{Error, dyno_result, result};
use crate::test::LOADGEN;

/// Completes samples, in any order and from any thread; the time is read once,
/// on entry. Payloads are copied if the responses are logged. `responses` must
/// be aligned as C aligns the struct.
///
/// An id that is unknown or complete already changes nothing, and is an error of
/// the test, counted in its detail log. `DYNO_ERROR_NOT_RUNNING` if no run is
/// on; that is counted in the detail log of the next test.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_complete(
    responses: *const dyno_response,
    count: usize,
) -> dyno_result {
    result(|| {
        // SAFETY: C passes an array of this length that is valid during the call.
        let responses = unsafe { abi::array(responses, count, "responses") }?;
        LOADGEN.complete(responses).map_err(not_running)
    })
}

/// As `dyno_complete`, for payloads that are expensive to bring: `fetch` is
/// called for each response that is logged, after its time was noted and before
/// its payload is read, and may change `data` and `size`. The payload is read
/// before the next call, which may reuse its memory. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_complete_fetching(
    responses: *mut dyno_response,
    count: usize,
    fetch: Option<unsafe extern "C" fn(context: *mut c_void, response: *mut dyno_response)>,
    context: *mut c_void,
) -> dyno_result {
    result(|| {
        // SAFETY: C passes an array of this length that is its own during the call.
        let responses = unsafe { abi::array_mut(responses, count, "responses") }?;
        let Some(fetch) = fetch else {
            return LOADGEN.complete(responses).map_err(not_running);
        };
        // SAFETY: the function and its context belong together; the response is
        // one of the caller's.
        let mut fetch = |response: &mut dyno_response| unsafe { fetch(context, response) };
        LOADGEN.complete_fetching(responses, &mut fetch).map_err(not_running)
    })
}

/// Reports the first tokens of samples, before their completion. The payload is
/// that of the first token; `n_tokens` is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_first_token(
    responses: *const dyno_response,
    count: usize,
) -> dyno_result {
    result(|| {
        // SAFETY: C passes an array of this length that is valid during the call.
        let responses = unsafe { abi::array(responses, count, "responses") }?;
        LOADGEN.first_token(responses).map_err(not_running)
    })
}

#[cold]
fn not_running(error: NoRunError) -> Error {
    Error::new(dyno_result::DYNO_ERROR_NOT_RUNNING, error.to_string())
}
