//! Types whose layout is part of the C interface, and access to the memory behind their pointers.

use std::ffi::c_void;
use std::mem::offset_of;
use std::slice;

pub use dyno_c_border::{
    array, array_mut, bytes, check_array, exclusive, null, path, shared, text,
};
use dyno_loadgen::sut::{AsResponse, QuerySample, ResponseId};

use crate::error::caught;

/// One sample of a query. The layout is that of `mlperf::QuerySample`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_query_sample {
    /// Identifies the sample in its response; never 0.
    pub id: u64,
    /// Index in the library.
    pub index: u64,
}

// Both types have the same layout.
const _: () = {
    assert!(size_of::<dyno_query_sample>() == size_of::<QuerySample>());
    assert!(align_of::<dyno_query_sample>() == align_of::<QuerySample>());
    assert!(offset_of!(dyno_query_sample, id) == offset_of!(QuerySample, id));
    assert!(offset_of!(dyno_query_sample, index) == offset_of!(QuerySample, index));
};

/// Response to one sample. The layout is that of `mlperf::QuerySampleResponse`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_response {
    /// Id of the sample.
    pub id: u64,
    /// Payload for the accuracy log. Read only during the call, and only if the
    /// response is logged. May be NULL if `size` is 0.
    pub data: *const c_void,
    /// Size of the payload in bytes.
    pub size: usize,
    /// Number of output tokens; 0 without tokens.
    pub n_tokens: i64,
}

impl AsResponse for dyno_response {
    #[inline]
    fn id(&self) -> ResponseId {
        ResponseId(self.id)
    }

    #[inline]
    fn data(&self) -> &[u8] {
        if self.data.is_null() || self.size > isize::MAX as usize {
            return &[];
        }
        // SAFETY: not NULL and no longer than an object can be (just checked);
        // the caller guarantees that the payload is valid until the call ends.
        unsafe { slice::from_raw_parts(self.data.cast(), self.size) }
    }

    #[inline]
    fn tokens(&self) -> i64 {
        self.n_tokens
    }
}

/// Frees a handle.
///
/// # Safety
/// `pointer` is NULL or came from `Box::into_raw`, and is not used afterwards.
pub unsafe fn free<T>(pointer: *mut T) {
    caught((), || {
        // SAFETY: the caller guarantees it.
        unsafe { dyno_c_border::free(pointer) };
        Ok(())
    });
}
