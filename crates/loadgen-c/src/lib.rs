//! C interface of the load generator [`dyno_loadgen::drop_in`], declared in
//! `include/dyno_loadgen.h`.
//!
//! Every export catches panics, checks its pointers, returns a result code, and stores an error text
//! for the calling thread. Types have the names of the header, which is generated from this crate
//! together with their documentation.
#![expect(unsafe_code, reason = "pointers of C programs; this crate is the fence around them")]
#![expect(non_camel_case_types, reason = "types and codes have their names of the header")]

mod abi;
mod completion;
mod error;
mod failure;
mod library;
mod log_settings;
mod module;
mod settings;
mod system;
mod test;
