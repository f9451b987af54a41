//! C interface of the RNN engine [`dyno_rnn::engine`], declared in `include/dyno_rnn.h`.
//!
//! Every export catches panics, checks its pointers and sizes, returns a result code, and stores an
//! error text for the calling thread. Types have the names of the header, which is generated from
//! this crate together with their documentation.
#![expect(unsafe_code, reason = "pointers of C programs; this crate is the fence around them")]
#![expect(non_camel_case_types, reason = "types and codes have their names of the header")]

mod error;
mod model;
