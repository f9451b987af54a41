//! queueing
