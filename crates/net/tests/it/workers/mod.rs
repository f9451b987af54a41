//! Runs that workers share, over loopback.

mod frames;
mod one_result;
mod rig;
mod trouble;
