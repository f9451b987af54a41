//! Files for people that a run leaves behind.

mod effective;

pub use effective::{effective_toml, toml_value};

/// stub
pub fn html(_run: &crate::summary::Run) -> String {
    String::new()
}
