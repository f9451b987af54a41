//! Arrays as files hold them.

pub mod npy;
