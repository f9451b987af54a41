//! What all libraries for C programs share: views of what their pointers lead to, panics that become
//! results, and the text of each thread's last error.
//!
//! Result codes, handles and exports are each library's own: C knows them by their names.
#![expect(unsafe_code, reason = "pointers of C programs; this crate looks at them for all others")]

mod failure;
mod pointer;

pub use failure::{Failure, caught, last_error, message, result};
pub use pointer::{
    Bad, array, array_mut, bytes, check_array, exclusive, free, null, path, put, shared, text,
};
