//! Pages of documents that are not a run's: the results of a submission, number formats, studies.

mod plotted;
mod results;
mod studied;
mod tuned;

pub use plotted::html as html_of_widths;
pub use results::html as html_of_results;
pub use studied::html as html_of_study;
pub use tuned::{Tuning, html as html_of_tuning};
