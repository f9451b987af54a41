//! The C interface of the engine of recurrent networks: what `include/dyno_rnn.h` declares, over
//! [`dyno_rnn::engine`].
//!
//! Every export catches panics, checks its pointers and sizes, returns a result code and leaves a
//! text for the calling thread. Types are named as in the header, which is generated from this crate;
//! their documentation is what C programs read.
#![expect(unsafe_code, reason = "pointers of C programs; this crate is the fence around them")]
#![expect(non_camel_case_types, reason = "types and codes have their names of the header")]

mod error;
mod model;
