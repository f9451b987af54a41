//! Tensors: types of elements, arrays of them, and readers of the files that hold them.
#![forbid(unsafe_code)]
