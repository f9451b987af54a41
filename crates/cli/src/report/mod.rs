//! Files for people that a run leaves behind.

mod accelerator;
mod answers;
mod charts;
mod client;
mod effective;
mod found;
mod many;
mod members;
mod observer;
mod one;
mod page;
mod pareto;
mod plot;
mod plotted;
mod rebuilt;
mod results;
mod searched;
mod section;
mod stopping;
mod studied;
mod tuned;
mod words;

pub use effective::{FILE as EFFECTIVE, effective_toml, is_relevant, toml_value};
pub use members::Several;
pub use plotted::html as html_of_widths;
pub use results::html as html_of_results;
pub use studied::html as html_of_study;
pub use tuned::{Tuning, html as html_of_tuning};
pub use words::{division_and_why, escaped};

use std::path::{Path, PathBuf};

use dyno_results::records::{self, Keep};
use dyno_results::{series, summary};
use found::Found;

use crate::exit::Failure;
use crate::sweep::replace;

/// The name of a report.
pub const FILE: &str = "report.html";

/// The report of a run that has just been made, and kept these of its records, as it
/// will stand in its directory.
pub fn html(run: &summary::Run, series: &series::Run, kept: Keep) -> String {
    let records = run.tests.iter().map(|test| format!("{}/{}", test.folder, records::FILE));
    let absent: Vec<String> = records.filter(|_| kept == Keep::Nothing).collect();
    one::html(&one::Shown { run, series, missing: &[], is_in_directory: true, absent: &absent })
}

/// The report of one or several runs, as it will stand in the folder `home`.
///
/// # Panics
/// If there is neither a run nor a search.
pub fn html_of(several: &Several, home: &Path) -> String {
    match &several.members[..] {
        [only] if several.sweeps.is_empty() && several.searches.is_empty() => {
            let Found { run, series, missing, path, absent } = &only.found;
            let missing = [&several.problems[..], &missing[..]].concat();
            let is_in_directory = is_same(path, home);
            one::html(&one::Shown { run, series, missing: &missing, is_in_directory, absent })
        }
        members => {
            let is_empty = members.is_empty() && several.searches.is_empty();
            assert!(!is_empty, "a report shows something");
            many::html(several, home)
        }
    }
}

/// Writes the page of a search or a sweep into its directory; none if nothing of
/// it has been run.
///
/// # Errors
/// If it cannot be written.
pub fn write_inside(directory: &Path) -> Result<Option<PathBuf>, Failure> {
    let several = Several::read(&[directory.to_path_buf()]);
    if several.members.is_empty() && several.searches.is_empty() {
        return Ok(None);
    }
    let path = directory.join(FILE);
    replace(&path, html_of(&several, directory))
        .map_err(|error| Failure::set_up(format!("cannot write {}: {error}", path.display())))?;
    Ok(Some(path))
}

fn is_same(a: &Path, b: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    absolute(a).is_some_and(|a| absolute(b) == Some(a))
}
