//! Completions for a test that the Python module of this process runs.
//!
//! In the reference, response ids are addresses, so each copy of it completes the samples of any other.
//! Some harnesses start the test in Python and complete in a C++ library with a copy of its own. The
//! Python module exports the functions that are called here.

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use dyno_c_border::exported;

use crate::abi::dyno_response;

/// Function that provides a payload, and its context.
pub type Fetch = unsafe extern "C" fn(context: *mut c_void, response: *mut dyno_response);

type Complete = unsafe extern "C" fn(*mut dyno_response, usize, Option<Fetch>, *mut c_void) -> bool;
type FirstToken = unsafe extern "C" fn(*const dyno_response, usize) -> bool;

static COMPLETE: ModuleFunction = ModuleFunction::new(c"dyno_module_complete");
static FIRST_TOKEN: ModuleFunction = ModuleFunction::new(c"dyno_module_first_token");

/// A function of the module. Its address is kept once it is found: each search waits while another
/// thread loads a library, and the wait would count as latency.
struct ModuleFunction {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl ModuleFunction {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the address, or NULL if the process has not loaded the module.
    fn find(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = exported(self.name);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Completes samples, and returns whether the module runs a test.
///
/// # Safety
/// `responses` is an array of `count` that is the caller's own during the call if there is a `fetch`,
/// and valid otherwise. `fetch` and `context` belong together.
#[cold]
pub unsafe fn complete(
    responses: *mut dyno_response,
    count: usize,
    fetch: Option<Fetch>,
    context: *mut c_void,
) -> bool {
    let symbol = COMPLETE.find();
    if symbol.is_null() {
        return false;
    }
    // SAFETY: the module exports a function of this type under this name.
    let complete = unsafe { transmute::<*mut c_void, Complete>(symbol) };
    // SAFETY: the caller guarantees it.
    unsafe { complete(responses, count, fetch, context) }
}

/// Reports first tokens, and returns whether the module runs a test.
///
/// # Safety
/// `responses` is a valid array of `count`.
#[cold]
pub unsafe fn first_token(responses: *const dyno_response, count: usize) -> bool {
    let symbol = FIRST_TOKEN.find();
    if symbol.is_null() {
        return false;
    }
    // SAFETY: the module exports a function of this type under this name.
    let first_token = unsafe { transmute::<*mut c_void, FirstToken>(symbol) };
    // SAFETY: the caller guarantees it.
    unsafe { first_token(responses, count) }
}
