//! System under test with callbacks of the caller.

use std::ffi::{c_char, c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use std::{ptr, slice};

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{QuerySample, ResponseId, SampleMemory, SystemUnderTest};

use crate::abi::{self, check_array, dyno_query_sample, null};
use crate::error::{Error, caught, dyno_result};
use crate::failure::{Failure, Reason};

/// Callbacks of a system under test. All but the last two must be set.
///
/// Callbacks of type `int` return 0 for success. Any other value aborts the test:
/// only `release_samples` is called after it, and `dyno_start_test` returns
/// `DYNO_ERROR_CALLBACK`. Callbacks must return: they may not throw, use
/// `longjmp` or end their thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_system_callbacks {
    /// First argument of each callback.
    pub context: *mut c_void,
    /// Returns the name for the logs, which is copied. Bytes that are not UTF-8 are
    /// replaced.
    pub name: Option<unsafe extern "C" fn(context: *mut c_void) -> *const c_char>,
    /// Issues the samples of one query, or of several queries if they are
    /// coalesced. Called by the thread that called `dyno_start_test`, or by the
    /// registered issue threads. `samples` is valid during the call.
    pub issue: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            samples: *const dyno_query_sample,
            count: usize,
        ) -> c_int,
    >,
    /// Called after the last query of a run. The system must now process samples
    /// that it has held back to fill a batch.
    pub flush: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
    /// Optional. Provides memory for `count` samples, for systems that need them in
    /// their own container. `issue` then receives that memory, except for coalesced
    /// queries with more than `count` samples. Called before a run, once for each
    /// thread that issues.
    pub acquire_samples:
        Option<unsafe extern "C" fn(context: *mut c_void, count: usize) -> *mut dyno_query_sample>,
    /// Releases the memory from `acquire_samples`. Set if and only if that is set.
    pub release_samples:
        Option<unsafe extern "C" fn(context: *mut c_void, samples: *mut dyno_query_sample)>,
}

/// System under test.
pub struct dyno_system {
    callbacks: dyno_system_callbacks,
}

/// Creates a system from callbacks, which are copied. Returns NULL after an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_system_new(
    callbacks: *const dyno_system_callbacks,
) -> *mut dyno_system {
    caught(ptr::null_mut(), || {
        // SAFETY: C passes NULL or a struct that is valid during the call.
        let callbacks = *unsafe { abi::shared(callbacks, "callbacks") }?;
        let required = [
            ("name", callbacks.name.is_some()),
            ("issue", callbacks.issue.is_some()),
            ("flush", callbacks.flush.is_some()),
        ];
        if let Some((missing, _)) = required.iter().find(|(_, set)| !set) {
            return Err(null(&format!("callbacks->{missing}")).into());
        }
        if callbacks.acquire_samples.is_some() != callbacks.release_samples.is_some() {
            return Err(Error::new(
                dyno_result::DYNO_ERROR_POINTER,
                "of `acquire_samples` and `release_samples` one is NULL; set both or none",
            ));
        }
        Ok(Box::into_raw(Box::new(dyno_system { callbacks })))
    })
}

/// Frees a system; NULL is allowed. A running test keeps it until it ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_system_free(system: *mut dyno_system) {
    // SAFETY: C passes NULL or what `dyno_system_new` returned, once.
    unsafe { abi::free(system) };
}

impl dyno_system {
    /// Returns the system for one test, whose callbacks record failures in `failure`.
    pub fn under_test(&self, failure: Arc<Failure>) -> CallbackSystem {
        CallbackSystem { callbacks: self.callbacks, name: OnceLock::new(), failure }
    }
}

/// Callbacks of the caller in one test.
pub struct CallbackSystem {
    callbacks: dyno_system_callbacks,
    name: OnceLock<String>,
    failure: Arc<Failure>,
}

// SAFETY: the header demands functions that may be called from any thread with
// this context; nothing else here is shared.
unsafe impl Send for CallbackSystem {}
// SAFETY: as for Send.
unsafe impl Sync for CallbackSystem {}

const SET: &str = "dyno_system_new refuses systems without this function";

impl SystemUnderTest for CallbackSystem {
    fn name(&self) -> &str {
        self.name.get_or_init(|| self.failure.name(self.callbacks.name, self.callbacks.context))
    }

    fn issue(&self, samples: &[QuerySample], _: &Responder) {
        if self.failure.is_noted() {
            return;
        }
        let issue = self.callbacks.issue.expect(SET);
        // SAFETY: the function and its context belong together; the two types of
        // samples have one layout (abi).
        let code = unsafe { issue(self.callbacks.context, samples.as_ptr().cast(), samples.len()) };
        self.failure.check("issue", code);
    }

    fn flush(&self) {
        if self.failure.is_noted() {
            return;
        }
        let flush = self.callbacks.flush.expect(SET);
        // SAFETY: the function and its context belong together.
        let code = unsafe { flush(self.callbacks.context) };
        self.failure.check("flush", code);
    }

    fn sample_memory(&self, samples: usize) -> SampleMemory {
        let reserved = || Box::new(vec![UNISSUED; samples]);
        let (Some(acquire), Some(release)) =
            (self.callbacks.acquire_samples, self.callbacks.release_samples)
        else {
            return reserved();
        };
        if self.failure.is_noted() {
            return reserved();
        }
        let context = self.callbacks.context;
        // SAFETY: the function and its context belong together.
        let first = unsafe { acquire(context, samples) };
        if check_array(first, samples.max(1), "samples").is_err() {
            self.failure.note("acquire_samples", Reason::Pointer("NULL or misaligned memory"));
            return reserved();
        }
        for at in 0..samples {
            // SAFETY: `first` leads to memory for this many samples, by the
            // contract of `acquire_samples`.
            let sample = unsafe { first.add(at) };
            // SAFETY: as above; the memory need not be initialized before.
            unsafe { sample.cast::<QuerySample>().write(UNISSUED) };
        }
        Box::new(CallersMemory { first, samples, context, release })
    }
}

const UNISSUED: QuerySample = QuerySample { id: ResponseId(0), index: 0 };

/// Samples in memory that the caller provides.
struct CallersMemory {
    first: *mut dyno_query_sample,
    samples: usize,
    context: *mut c_void,
    release: unsafe extern "C" fn(context: *mut c_void, samples: *mut dyno_query_sample),
}

// SAFETY: the memory has this one owner until it is released, and the header
// demands that `release_samples` may be called from any thread.
unsafe impl Send for CallersMemory {}

impl Deref for CallersMemory {
    type Target = [QuerySample];

    fn deref(&self) -> &[QuerySample] {
        // SAFETY: `sample_memory` initialized this many samples, which have the
        // layout of `QuerySample` (abi), and nothing else uses them until they are released.
        unsafe { slice::from_raw_parts(self.first.cast(), self.samples) }
    }
}

impl DerefMut for CallersMemory {
    fn deref_mut(&mut self) -> &mut [QuerySample] {
        // SAFETY: as in `deref`.
        unsafe { slice::from_raw_parts_mut(self.first.cast(), self.samples) }
    }
}

impl Drop for CallersMemory {
    fn drop(&mut self) {
        // SAFETY: `acquire_samples` returned this pointer for this context, and
        // it is given back once.
        unsafe { (self.release)(self.context, self.first) };
    }
}
