//! A sweep: many runs that differ in the values of a few axes, as one job that
//! can be ended and resumed.

mod state;

pub use state::{FILE, PointState, Sweep};
