//! Completion of samples. It does not allocate, lock or call the system, unless a response is logged
//! or the issuing thread sleeps.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, dyno_response};
use crate::error::{Error, dyno_result, result};
use crate::module;
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
        let answers = unsafe { abi::array(responses, count, "responses") }?;
        let is_done = LOADGEN.complete_in_run(answers).is_some()
            // SAFETY: as above; without `fetch` nothing is changed.
            || unsafe { module::complete(responses.cast_mut(), count, None, ptr::null_mut()) };
        if is_done { Ok(()) } else { Err(not_running(count)) }
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
        let answers = unsafe { abi::array_mut(responses, count, "responses") }?;
        let done = if let Some(fetch) = fetch {
            // SAFETY: the function and its context belong together; the response is
            // one of the caller's.
            let mut fetch = |response: &mut dyno_response| unsafe { fetch(context, response) };
            LOADGEN.complete_fetching_in_run(answers, &mut fetch)
        } else {
            LOADGEN.complete_in_run(answers)
        };
        let is_done = done.is_some()
            // SAFETY: as above.
            || unsafe { module::complete(responses, count, fetch, context) };
        if is_done { Ok(()) } else { Err(not_running(count)) }
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
        let answers = unsafe { abi::array(responses, count, "responses") }?;
        let is_done = LOADGEN.first_token_in_run(answers).is_some()
            // SAFETY: as above.
            || unsafe { module::first_token(responses, count) };
        if is_done { Ok(()) } else { Err(not_running(count)) }
    })
}

#[cold]
fn not_running(samples: usize) -> Error {
    let error = LOADGEN.report_late(samples);
    Error::new(dyno_result::DYNO_ERROR_NOT_RUNNING, error.to_string())
}
