//! `dyno report`: the page of a run again, or one page of several.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::report::{self, Several};

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Report {
    /// Run directories, searches, sweeps, or folders with run directories below them
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Where the page goes [default: report.html in DIR; in the current folder if there are
    /// several]
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
        let several = Several::read(&self.directories);
        let missing = several.members.iter().flat_map(|member| &member.found.missing);
        for problem in several.problems.iter().chain(missing) {
            output::say(format_args!("warning: {problem}"));
        }
        if several.members.is_empty() && several.searches.is_empty() {
            return Err(Failure::set_up("there is nothing to show")
                .hint("name a run directory, such as one below runs, or a folder of them"));
        }
        let out = match (self.out, &self.directories[..], &several.members[..]) {
            (Some(out), ..) => out,
            // A single run, a sweep, a search, or a folder of runs has its report inside.
            (None, [_], [only]) if several.searches.is_empty() && several.sweeps.is_empty() => {
                only.found.path.join(report::FILE)
            }
            (None, [directory], _) => directory.join(report::FILE),
            (None, ..) => PathBuf::from(report::FILE),
        };
        let home = out.parent().filter(|home| !home.as_os_str().is_empty());
        let page = report::html_of(&several, home.unwrap_or(Path::new(".")));
        std::fs::write(&out, page).map_err(|error| {
            Failure::set_up(format!("cannot write {}: {error}", out.display()))
                .hint("choose another file with --out")
        })?;
        output::say(format_args!("report: {}", out.display()));
        Ok(Exit::Valid)
    }
}
