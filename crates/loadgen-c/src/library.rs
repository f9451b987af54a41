//! The query sample library that calls the caller's functions.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};

use crate::abi::{self, null};
use crate::error::caught;
use crate::failure::Failure;

/// What a library of samples does. All must be set. Called by the thread that
/// called `dyno_start_test`, outside the timed part. Each function must
/// return: none may throw, jump out or end its thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_library_callbacks {
    /// Handed to each function as it is.
    pub context: *mut c_void,
    /// A name for the logs, which is copied. Bytes that are not UTF-8 are replaced.
    pub name: Option<unsafe extern "C" fn(context: *mut c_void) -> *const c_char>,
    /// Samples in the library (>= 1).
    pub total_sample_count: Option<unsafe extern "C" fn(context: *mut c_void) -> usize>,
    /// Samples that fit in memory at once (>= 1).
    pub performance_sample_count: Option<unsafe extern "C" fn(context: *mut c_void) -> usize>,
    /// Brings these samples into memory; positions may repeat. Returns 0, or
    /// anything else if it failed, which aborts the test.
    pub load: Option<
        unsafe extern "C" fn(context: *mut c_void, samples: *const u64, count: usize) -> c_int,
    >,
    /// Releases samples that were loaded. Returns as `load`.
    pub unload: Option<
        unsafe extern "C" fn(context: *mut c_void, samples: *const u64, count: usize) -> c_int,
    >,
}

/// A library of samples.
pub struct dyno_library {
    callbacks: dyno_library_callbacks,
}

/// Makes a library of these functions, which are copied. NULL after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_library_new(
    callbacks: *const dyno_library_callbacks,
) -> *mut dyno_library {
    caught(ptr::null_mut(), || {
        // SAFETY: C passes NULL or a struct that is valid during the call.
        let callbacks = *unsafe { abi::shared(callbacks, "callbacks") }?;
        let required = [
            ("name", callbacks.name.is_some()),
            ("total_sample_count", callbacks.total_sample_count.is_some()),
            ("performance_sample_count", callbacks.performance_sample_count.is_some()),
            ("load", callbacks.load.is_some()),
            ("unload", callbacks.unload.is_some()),
        ];
        if let Some((missing, _)) = required.iter().find(|(_, set)| !set) {
            return Err(null(&format!("callbacks->{missing}")).into());
        }
        Ok(Box::into_raw(Box::new(dyno_library { callbacks })))
    })
}

/// Frees a library; NULL is allowed. A test that runs with it goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_library_free(library: *mut dyno_library) {
    // SAFETY: C passes NULL or what `dyno_library_new` returned, once.
    unsafe { abi::free(library) };
}

impl dyno_library {
    /// Returns the library for one test, whose callbacks record failures in `failure`.
    pub fn in_test(&self, failure: Arc<Failure>) -> CallbackLibrary {
        CallbackLibrary {
            callbacks: self.callbacks,
            name: OnceLock::new(),
            total: OnceLock::new(),
            performance: OnceLock::new(),
            failure,
        }
    }
}

/// The caller's functions in one test. Name and counts are cached, because they must not change
/// during a test.
pub struct CallbackLibrary {
    callbacks: dyno_library_callbacks,
    name: OnceLock<String>,
    total: OnceLock<usize>,
    performance: OnceLock<usize>,
    failure: Arc<Failure>,
}

// SAFETY: the functions are called by the thread that runs the test only; what
// other threads may do with a shared reference is read the cached answers.
unsafe impl Sync for CallbackLibrary {}

const SET: &str = "dyno_library_new refuses libraries without this function";

type Transfer =
    Option<unsafe extern "C" fn(context: *mut c_void, samples: *const u64, count: usize) -> c_int>;

impl CallbackLibrary {
    fn transfer(&self, callback: &'static str, function: Transfer, samples: &[SampleIndex]) {
        if self.failure.is_noted() {
            return;
        }
        let samples: Vec<u64> = samples.iter().map(|&sample| u64::from(sample)).collect();
        let function = function.expect(SET);
        // SAFETY: the function and its context belong together (dyno_library_new).
        let code = unsafe { function(self.callbacks.context, samples.as_ptr(), samples.len()) };
        self.failure.check(callback, code);
    }

    fn count(
        &self,
        known: &OnceLock<usize>,
        function: Option<unsafe extern "C" fn(context: *mut c_void) -> usize>,
    ) -> usize {
        // SAFETY: the function and its context belong together (dyno_library_new).
        *known.get_or_init(|| unsafe { function.expect(SET)(self.callbacks.context) })
    }
}

impl SampleLibrary for CallbackLibrary {
    fn name(&self) -> &str {
        self.name.get_or_init(|| self.failure.name(self.callbacks.name, self.callbacks.context))
    }

    fn total_sample_count(&self) -> usize {
        self.count(&self.total, self.callbacks.total_sample_count)
    }

    fn performance_sample_count(&self) -> usize {
        self.count(&self.performance, self.callbacks.performance_sample_count)
    }

    fn load(&self, samples: &[SampleIndex]) {
        self.transfer("load", self.callbacks.load, samples);
    }

    fn unload(&self, samples: &[SampleIndex]) {
        self.transfer("unload", self.callbacks.unload, samples);
    }
}
