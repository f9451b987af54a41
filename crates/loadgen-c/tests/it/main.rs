//! The C interface, from C.

mod header;
