//! Tunes the number formats of networks: how trials are evaluated, and what is told of them.

mod built_in;
mod closed;
mod document;
mod external;
mod line;
mod summary;

pub use built_in::{Engine, fed};
pub use closed::{Closed, Provenance, Target};
pub use document::document;
pub use external::{Program, Running};
pub use line::Line;
pub use summary::{best_file, remarks, summary};
