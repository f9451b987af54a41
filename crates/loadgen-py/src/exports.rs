//! Functions for C++ libraries of a harness that complete the samples of a test in Python. They are
//! called by Dyno's library for C and C++ with which such a library is linked.
#![expect(unsafe_code, reason = "pointers that programs in C++ vouch for")]

use std::ffi::c_void;
use std::slice;

use dyno_loadgen::sut::{AsResponse, ResponseId};

use crate::LOADGEN;

/// Response with the layout of `mlperf::QuerySampleResponse`.
#[repr(C)]
#[derive(Debug)]
pub struct ForeignResponse {
    id: u64,
    data: *const u8,
    size: usize,
    tokens: i64,
}

impl AsResponse for ForeignResponse {
    fn id(&self) -> ResponseId {
        ResponseId(self.id)
    }

    fn data(&self) -> &[u8] {
        if self.data.is_null() || self.size > isize::MAX as usize {
            return &[];
        }
        // SAFETY: the caller guarantees that the payload is valid until the call ends.
        unsafe { slice::from_raw_parts(self.data, self.size) }
    }

    fn tokens(&self) -> i64 {
        self.tokens
    }
}

/// Function that provides the payload of a response that is logged.
type Fetch = unsafe extern "C" fn(context: *mut c_void, response: *mut ForeignResponse);

/// Completes samples, and returns whether a test is running.
///
/// # Safety
/// `responses` is NULL or a valid array of `count`, which is the caller's own during the call if there is a
/// `fetch`; `fetch` and `context` belong together.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_module_complete(
    responses: *mut ForeignResponse,
    count: usize,
    fetch: Option<Fetch>,
    context: *mut c_void,
) -> bool {
    if responses.is_null() {
        return false;
    }
    let Some(fetch) = fetch else {
        // SAFETY: not NULL (just checked); the caller guarantees the rest. The array may be constant.
        let responses = unsafe { slice::from_raw_parts(responses, count) };
        return LOADGEN.complete_in_run(responses).is_some();
    };
    // SAFETY: not NULL (just checked); the caller guarantees the rest.
    let responses = unsafe { slice::from_raw_parts_mut(responses, count) };
    // SAFETY: the caller guarantees it.
    let mut fetch = |response: &mut ForeignResponse| unsafe { fetch(context, response) };
    LOADGEN.complete_fetching_in_run(responses, &mut fetch).is_some()
}

/// Reports first tokens, and returns whether a test is running.
///
/// # Safety
/// `responses` is NULL or a valid array of `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_module_first_token(
    responses: *const ForeignResponse,
    count: usize,
) -> bool {
    if responses.is_null() {
        return false;
    }
    // SAFETY: not NULL (just checked); the caller guarantees the rest.
    let responses = unsafe { slice::from_raw_parts(responses, count) };
    LOADGEN.first_token_in_run(responses).is_some()
}
