//! Completion of samples. It does not allocate, lock or call the system, unless a response is logged
//! or the issuing thread sleeps.

use std::ffi::c_void;

use dyno_loadgen::drop_in::NoRunError;

use crate::abi::{self, dyno_response};
use crate::error::{Error, dyno_result, result};
use crate::test::LOADGEN;

/// Completes samples, in any order and from any thread. The clock is read once,
/// on entry. Payloads are copied if the responses are logged. `responses` must
/// have the alignment of the struct in C.
///
/// An unknown id, or one that is already complete, is ignored and counted as an
/// error in the detail log. If no test is running, the call returns
/// `DYNO_ERROR_NOT_RUNNING` and is counted in the detail log of the next test.
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

/// Like `dyno_complete`, for payloads that are expensive to provide. For each
/// response that is logged, `fetch` is called after the clock is read and before
/// the payload is read; it may change `data` and `size`. The payload is read
/// before the next call, so its memory can be reused. `fetch` may be NULL.
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
/// the first token; `n_tokens` is ignored.
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
