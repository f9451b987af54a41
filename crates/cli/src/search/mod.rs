//! A search: the highest load that keeps several limits at once, found by many
//! short runs and confirmed by a full one. How it searches is
//! [`dyno_loadgen::search`]; here its runs are played and its state is kept.

mod asked;
mod disturbed;
mod job;
pub mod limits;
mod load;
mod screen;
mod state;

pub use asked::Ask;
pub use job::{Job, prepare};
pub use load::Load;
pub use screen::{headline, nearest, plan, result};
pub use state::{FILE, Phase, Point, Purpose, SCHEMA_VERSION, State};
