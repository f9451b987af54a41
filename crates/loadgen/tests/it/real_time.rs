//! real_time
