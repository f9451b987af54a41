//! Text for terminals: numbers with units, and boxes.

pub mod audit;
mod box_drawing;
pub mod compare;
mod console;
mod details;
mod distributions;
pub mod github;
pub mod plan;
pub mod round;
pub mod search;
pub mod sweep;
pub mod tune;

pub use box_drawing::{Alignment, Frame, wrap};
pub use console::summary;

use dyno_loadgen::settings::Field;
use dyno_results::summary::Verdict;

use crate::terminal;

/// Returns a value of a setting with its unit, unless the name ends with the unit.
pub fn with_unit(field: &Field, value: &str) -> String {
    let is_named = field.name.rsplit('_').next() == Some(field.unit);
    if is_named || field.unit.is_empty() { value.into() } else { format!("{value} {}", field.unit) }
}

/// Whether stdout shows colors.
pub fn is_colored() -> bool {
    terminal::is_colored(&std::io::stdout())
}

/// Returns text in a color if colors are enabled.
pub fn painted(text: &str, color: Color, is_colored: bool) -> String {
    if !is_colored {
        return text.to_string();
    }
    format!("\x1b{}{text}\x1b{END_OF_COLOR}", color.code())
}

/// Sequence after an escape that ends a color.
pub const END_OF_COLOR: &str = "[0m";

/// The colors of a verdict.
#[derive(Debug, Clone, Copy)]
pub enum Color {
    /// Valid or better.
    Good,
    /// Invalid or worse.
    Bad,
    /// Undecided.
    Open,
}

impl Color {
    /// All colors.
    pub const ALL: [Self; 3] = [Self::Good, Self::Bad, Self::Open];

    /// Returns the sequence after an escape that begins the color.
    pub fn code(self) -> &'static str {
        match self {
            Self::Good => "[32m",
            Self::Bad => "[31m",
            Self::Open => "[33m",
        }
    }

    /// Returns the color for the word of a verdict.
    pub fn of_verdict(word: &str) -> Self {
        match word {
            _ if word == Verdict::Valid.name() => Self::Good,
            _ if word == Verdict::Undecided.name() => Self::Open,
            _ => Self::Bad,
        }
    }
}
