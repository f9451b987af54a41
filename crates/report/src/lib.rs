//! HTML reports of runs, searches and sweeps.
//!
//! A report is one file without references to others. It is a function of the documents of
//! [`dyno_results`]; [`page`], [`plot`] and [`words`] are for the pages of other documents.
#![forbid(unsafe_code)]

mod accelerator;
mod answers;
mod charts;
mod client;
mod many;
mod observer;
mod one;
pub mod page;
mod pareto;
pub mod plot;
mod searched;
mod section;
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

/// The name of a report.
pub const FILE: &str = "report.html";

/// The report of a run that has just been made, and kept these of its records, as it
/// will stand in its directory.
pub fn html(run: &summary::Run, series: &series::Run, kept: Keep) -> String {
    let records = run.tests.iter().map(|test| format!("{}/{}", test.folder, records::FILE));
    let absent: Vec<String> = records.filter(|_| kept == Keep::Nothing).collect();
    one::html(&one::RunPage { run, series, missing: &[], is_in_directory: true, absent: &absent })
}

/// The report of one or several runs, as it will stand in the folder `home`.
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

/// A page that cannot be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    /// Its file.
    pub path: PathBuf,
    /// The reason of the operating system.
    pub source: io::Error,
}

/// Writes the page of a search or a sweep into its directory; none if nothing of
/// it has been run.
///
/// # Errors
/// If it cannot be written.
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
