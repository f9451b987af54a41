//! Readers of files with arrays and volumes.

pub mod nifti;
pub mod npy;
