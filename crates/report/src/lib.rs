//! HTML reports of runs, searches and sweeps.
//!
//! A report is one file without references to others. It is a function of the documents of
//! [`dyno_results`]; [`page`], [`plot`] and [`words`] are for the pages of other documents.
//!
//! ```
//! use dyno_report::plot::{Axis, Chart, Format, Ink, Point, Shape, figure};
//!
//! let rates = [100.0, 400.0];
//! let x = Axis::linear("queries per second", Format::Rate, rates.into_iter());
//! let y = Axis::log("p99 latency", Format::Time, [2e6, 9e6].into_iter());
//! let points = vec![Point::new(100.0, 2e6), Point::new(400.0, 9e6)];
//! let chart = Chart::new("Latency by throughput", x, y).with("p99", Ink::A, Shape::Line, points);
//! assert!(figure(&chart).starts_with("<figure class=\"chart\">"));
//! ```
#![forbid(unsafe_code)]

mod accelerator;
mod answers;
mod charts;
mod client;
mod limit;
mod load;
mod many;
mod observer;
mod one;
pub mod page;
mod pareto;
pub mod plot;
mod searched;
mod section;
mod server;
mod stopping;
pub mod timeline;
pub mod words;

use std::io;
use std::path::{Path, PathBuf};

use dyno_results::collection::Collection;
use dyno_results::contents::Contents;
use dyno_results::records::{self, Keep};
use dyno_results::write::replace;
use dyno_results::{series, summary};
use thiserror::Error;

/// File name of a report.
pub const FILE: &str = "report.html";

/// Returns the page of a finished run for its run directory. `kept` is the selection of raw
/// records that the run writes; links to files that it does not write are left out.
pub fn html(run: &summary::Run, series: &series::Run, kept: Keep) -> String {
    let records = run.tests.iter().map(|test| format!("{}/{}", test.folder, records::FILE));
    let absent: Vec<String> = records.filter(|_| kept == Keep::Nothing).collect();
    one::html(&one::RunPage { run, series, missing: &[], is_in_directory: true, absent: &absent })
}

/// Returns the page of one or several runs. `home` is the folder in which the page will be
/// written; links to reports of runs are relative to it.
///
/// ```no_run
/// use std::path::{Path, PathBuf};
///
/// use dyno_results::collection::Collection;
///
/// let runs = Collection::read(&[PathBuf::from("runs/sweep")]);
/// let html = dyno_report::html_of(&runs, Path::new("runs/sweep"));
/// assert!(html.starts_with("<!doctype html>"));
/// ```
///
/// # Panics
/// If there is neither a run nor a search.
pub fn html_of(several: &Collection, home: &Path) -> String {
    match &several.members[..] {
        [only] if several.sweeps.is_empty() && several.searches.is_empty() => {
            let Contents { run, series, missing, path, absent } = &only.contents;
            let missing = [&several.problems[..], &missing[..]].concat();
            let is_in_directory = is_same(path, home);
            one::html(&one::RunPage { run, series, missing: &missing, is_in_directory, absent })
        }
        members => {
            let is_empty = members.is_empty() && several.searches.is_empty();
            assert!(!is_empty, "a report shows something");
            many::html(several, home)
        }
    }
}

/// Error of writing a page.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    /// Path of the page.
    pub path: PathBuf,
    /// Error of the operating system.
    pub source: io::Error,
}

/// Writes the page of a search or a sweep into its directory and returns its path; `None` if
/// the directory has no run yet.
///
/// # Errors
/// If the page cannot be written.
pub fn write_inside(directory: &Path) -> Result<Option<PathBuf>, WriteError> {
    let several = Collection::read(&[directory.to_path_buf()]);
    if several.members.is_empty() && several.searches.is_empty() {
        return Ok(None);
    }
    let path = directory.join(FILE);
    if let Err(source) = replace(&path, html_of(&several, directory)) {
        return Err(WriteError { path, source });
    }
    Ok(Some(path))
}

fn is_same(a: &Path, b: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    absolute(a).is_some_and(|a| absolute(b) == Some(a))
}
