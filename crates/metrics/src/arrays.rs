//! Arrays and volumes as files hold them.

pub mod nifti;
pub mod npy;
