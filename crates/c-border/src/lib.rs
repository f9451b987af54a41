//! Shared parts of the libraries for C programs: checked access through pointers, panics as result
//! codes, and the text of each thread's last error.
//!
//! Each library defines its own result codes, handles and exports, because C identifies them by name.
#![expect(unsafe_code, reason = "pointers of C programs; this crate looks at them for all others")]

mod failure;
mod pointer;
mod symbol;

pub use failure::{Failure, caught, last_error, message, result};
pub use pointer::{
    Bad, array, array_mut, bytes, check_array, exclusive, free, null, path, put, shared, text,
};
pub use symbol::exported;
