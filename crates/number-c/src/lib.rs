//! The C interface of `dyno_number`, as declared by `include/dyno_number.h`.
//! `include/dyno_number.hpp` wraps it as the thesis' class `Number`.
//!
//! Every exported function catches panics, checks its pointers and sizes, returns a result code, and
//! stores an error message for the calling thread. Types have the names of the header, which is
//! generated from this crate together with their documentation.
#![expect(unsafe_code, reason = "pointers of C programs; this crate is the fence around them")]
#![expect(non_camel_case_types, reason = "types and codes have their names of the header")]

mod dictionary;
mod error;
mod format;
