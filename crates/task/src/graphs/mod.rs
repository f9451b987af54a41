//! The graphs of the benchmarks, built layer by layer.
