//! Query sample library with callbacks of the caller.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};

use crate::abi::{self, null};
use crate::error::caught;
use crate::failure::Failure;

/// Callbacks of a sample library. All must be set. They are called outside the
/// timed part, by the thread that called `dyno_start_test`. They must return:
/// they may not throw, use `longjmp` or end their thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_library_callbacks {
    /// First argument of each callback.
    pub context: *mut c_void,
    /// Returns the name for the logs, which is copied. Bytes that are not UTF-8 are
    /// replaced.
    pub name: Option<unsafe extern "C" fn(context: *mut c_void) -> *const c_char>,
    /// Returns the number of samples in the library (>= 1).
    pub total_sample_count: Option<unsafe extern "C" fn(context: *mut c_void) -> usize>,
    /// Returns the number of samples that fit in memory at once (>= 1).
    pub performance_sample_count: Option<unsafe extern "C" fn(context: *mut c_void) -> usize>,
    /// Loads samples into memory; an index may occur several times. Returns 0 for
    /// success. Any other value aborts the test.
    pub load: Option<
        unsafe extern "C" fn(context: *mut c_void, samples: *const u64, count: usize) -> c_int,
    >,
    /// Releases loaded samples. Returns the same values as `load`.
    pub unload: Option<
        unsafe extern "C" fn(context: *mut c_void, samples: *const u64, count: usize) -> c_int,
    >,
}

/// Sample library.
pub struct dyno_library {
    callbacks: dyno_library_callbacks,
}

/// Creates a library from callbacks, which are copied. Returns NULL after an
/// error.
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

/// Frees a library; NULL is allowed. A running test keeps it until it ends.
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

/// Callbacks of the caller in one test. Name and counts are cached, because they must not change
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
