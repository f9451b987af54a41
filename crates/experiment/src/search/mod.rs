//! A search: the highest load that keeps several limits at once, found by many
//! short runs and confirmed by a full one. How it searches is
//! [`dyno_loadgen::search`]; here its runs are played and its state is kept.

mod asked;
mod disturbed;
mod job;
mod line;

pub use asked::Ask;
pub use job::{Job, prepare};
