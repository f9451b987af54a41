//! The simulations in small, and whether the oracle can fail.

mod coverage;
mod framing;
mod mutation;
mod real_time;
mod searches;
mod simulate;
mod streams;
mod workers;
