//! What becomes of run directories.

mod machine;
mod trees;
mod truncate;
