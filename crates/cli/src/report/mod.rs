//! Files for people that a run leaves behind.

mod charts;
mod effective;
mod found;
mod one;
mod page;
mod plot;
mod rebuilt;
mod section;
mod stopping;
mod words;

pub use effective::{effective_toml, is_relevant, toml_value};
pub use found::{Found, directories};

use crate::{series, summary};

/// The name of a report.
pub const FILE: &str = "report.html";

/// The report of a run that stands in its directory.
pub fn html(run: &summary::Run, series: &series::Run) -> String {
    one::html(&one::Shown { run, series, missing: &[], is_in_directory: true })
}

/// The report of what is left of a run.
pub fn html_of(found: &Found, is_in_directory: bool) -> String {
    let Found { run, series, missing, .. } = found;
    one::html(&one::Shown { run, series, missing, is_in_directory })
}

/// The report of several runs.
pub fn html_of_several(found: &[Found], problems: &[String]) -> String {
    let _ = problems;
    html_of(&found[0], false)
}
