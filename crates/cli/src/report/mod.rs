//! Files for people that a run leaves behind.

mod chart;
mod effective;
mod html;

pub use effective::{effective_toml, is_relevant, toml_value};
pub use html::html;
