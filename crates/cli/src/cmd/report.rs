//! `dyno report`: the page of a run again, or one page of several.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::report::{self, Found};

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Report {
    /// Run directories, or folders with run directories below them
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Where the page goes [default: report.html in the run directory; in the current folder if
    /// there are several runs]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Of a run that was interrupted, or whose files are damaged, the page says what is missing and shows
the rest.
Exit codes: 0 a page was written, 3 there was nothing to show.";

impl Report {
    /// Writes the page.
    ///
    /// # Errors
    /// If there is nothing to show, or the page cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let mut found = Vec::new();
        let mut problems = Vec::new();
        for directory in self.directories.iter().flat_map(|path| report::directories(path)) {
            match Found::read(&directory) {
                Ok(run) => found.push(run),
                Err(missing) => problems.extend(missing),
            }
        }
        for problem in found.iter().flat_map(|found| &found.missing).chain(&problems) {
            eprintln!("warning: {problem}");
        }
        let (page, default) = match &found[..] {
            [] => {
                return Err(Failure::set_up("there is nothing to show")
                    .hint("name a run directory, such as one below runs, or a folder of them"));
            }
            [one] => {
                let default = one.path.join(report::FILE);
                let is_inside = self.out.as_deref().is_none_or(|out| is_within(out, &one.path));
                (report::html_of(one, is_inside), default)
            }
            several => (report::html_of_several(several, &problems), PathBuf::from(report::FILE)),
        };
        let out = self.out.unwrap_or(default);
        std::fs::write(&out, page).map_err(|error| {
            Failure::set_up(format!("cannot write {}: {error}", out.display()))
                .hint("choose another file with --out")
        })?;
        eprintln!("report: {}", out.display());
        Ok(Exit::Valid)
    }
}

/// Whether a file stands in this folder itself, so that its links lead somewhere.
fn is_within(file: &Path, folder: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    let parent = absolute(file).and_then(|file| file.parent().map(Path::to_path_buf));
    parent.is_some() && parent == absolute(folder)
}
