//! Runs that workers share, over loopback.

mod attacks;
mod frames;
mod one_result;
mod rig;
mod trouble;
