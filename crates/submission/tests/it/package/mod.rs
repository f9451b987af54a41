//! Tests of packaging.

mod audited;
mod kept;
mod lower;
mod machine;
mod powered;
mod trees;
mod truncate;
