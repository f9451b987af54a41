//! Pages of documents other than runs: results of a submission, number formats.

mod plotted;
mod results;
mod tuned;

pub use plotted::html as html_of_widths;
pub use results::html as html_of_results;
pub use tuned::{Tuning, html as html_of_tuning};
