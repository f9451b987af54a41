//! Tunes the number formats of networks: how trials are evaluated, and what is told of them.

mod built_in;
mod closed;
mod cpp;
mod data;
mod document;
mod evaluator;
mod external;
mod plot;
mod runs;
mod speed;
mod summary;

pub use built_in::{Engine, hashes};
pub use closed::{Closed, Provenance, Target};
pub use cpp::cpp_types;
pub use data::{Data, Split, fed};
pub use document::{Document, SCHEMA_VERSION, document};
pub use evaluator::Evaluator;
pub use external::{Program, Running, program};
pub use plot::{Curve, Histogram, PLOT_SCHEMA_VERSION, Plot, histogram, plot};
pub use runs::Runs;
pub use summary::{best_file, remarks};
