//! `dyno report`: writes the page of a run, of several runs, or the tables of a submission.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use dyno_experiment::{Failure, files};
use dyno_results::collection::Collection;
use dyno_results::summary;
use dyno_results::write::{create_folder, replace, to_named};
use dyno_rules::Round;
use dyno_submission::check::{Options, Program, check, published};
use dyno_submission::results::{Ids, Results};
use dyno_submission::table::Row;

use crate::exit::Exit;
use crate::{output, render};

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Report {
    /// Run directories, searches, sweeps, or directories that contain run directories
    #[arg(value_name = "DIR", required_unless_present = "submission")]
    directories: Vec<PathBuf>,
    /// Output file [default: report.html in DIR; in the working directory for several directories and
    /// for a submission]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the tables of a submission tree: the results that dyno check accepts
    #[arg(long, value_name = "TREE", conflicts_with = "directories", requires = "round")]
    submission: Option<PathBuf>,
    /// Round of the submission, such as v5.1
    #[arg(long, requires = "submission")]
    round: Option<String>,
    /// Take every result whose run is VALID by its own log, without the checks: for published trees
    #[arg(long, requires = "submission")]
    published: bool,
    /// Also write a CSV file for each table into this directory
    #[arg(long, value_name = "FOLDER", requires = "submission")]
    csv: Option<PathBuf>,
    /// Also write all tables as JSON
    #[arg(long, value_name = "FILE", requires = "submission")]
    json: Option<PathBuf>,
    /// Numbers of the systems, which stay the same over the drafts of a round; created if missing
    #[arg(long, value_name = "FILE", requires = "submission")]
    ids: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
For a run that was interrupted, or whose files are damaged, the page shows the results that exist and
lists those that are missing.
Exit codes: 0 a page was written, 3 no results were found.";

/// Returns what to pass instead of paths without results.
fn advice(paths: &[PathBuf]) -> String {
    let Some(file) = paths.iter().find(|path| path.is_file()) else {
        return "pass a run directory, such as runs/NAME, or a folder that contains run directories"
            .into();
    };
    let folder = file.parent().filter(|folder| folder.join(summary::FILE).is_file());
    match folder {
        Some(folder) if folder.as_os_str().is_empty() => {
            "pass the run directory: dyno report .".into()
        }
        Some(folder) => format!("pass the run directory: dyno report {}", folder.display()),
        None => format!(
            "a report shows runs of Dyno; for results of other tools use dyno compare RUN {}",
            file.display()
        ),
    }
}

impl Report {
    /// Writes the page.
    ///
    /// # Errors
    /// There is nothing to show, or the page cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let is_page =
            |ending: &OsStr| ["html", "htm"].iter().any(|known| ending.eq_ignore_ascii_case(known));
        if let Some(out) = &self.out
            && (out.as_os_str() == "-" || out.extension().is_some_and(|ending| !is_page(ending)))
        {
            let problem = format!("expected a name that ends in .html, found {}", out.display());
            return Err(Failure::usage(format!("--out: {problem}"))
                .hint("dyno export writes the other formats"));
        }
        if let (Some(tree), Some(round)) = (&self.submission, &self.round) {
            return self.submission(tree, round);
        }
        let several = Collection::read(&self.directories);
        let missing = several.members.iter().flat_map(|member| &member.contents.missing);
        for problem in several.problems.iter().chain(missing) {
            output::say(format_args!("warning: {problem}"));
        }
        if several.members.is_empty() && several.searches.is_empty() {
            return Err(Failure::set_up("no results found").hint(advice(&self.directories)));
        }
        let is_named = self.out.is_some();
        let out = match (self.out, &self.directories[..], &several.members[..]) {
            (Some(out), ..) => out,
            // The report of a single run, sweep, search or folder of runs lies inside its directory.
            (None, [_], [only]) if several.searches.is_empty() && several.sweeps.is_empty() => {
                only.contents.path.join(dyno_report::FILE)
            }
            (None, [directory], _) => directory.join(dyno_report::FILE),
            (None, ..) => PathBuf::from(dyno_report::FILE),
        };
        let home = out.parent().filter(|home| !home.as_os_str().is_empty());
        let page = dyno_report::html_of(&several, home.unwrap_or(Path::new(".")));
        // The folder may be that of someone else, and its `report.html` a link or a pipe.
        let written = if is_named { to_named(&out, page) } else { replace(&out, page) };
        written.map_err(|error| {
            Failure::unwritable(&out, &error).hint("choose another file with --out")
        })?;
        output::say(format_args!("report: {}", out.display()));
        Ok(Exit::Valid)
    }

    /// Writes the tables of a submission.
    fn submission(&self, tree: &Path, round: &str) -> Result<Exit, Failure> {
        let round = Round::named(round).map_err(Failure::usage)?;
        let rows = self.rows(tree, round)?;
        let mut ids = self.read_ids()?;
        let results = Results::from_rows(&rows, round, &mut ids);
        for sentence in &results.notices {
            output::say(format_args!("warning: {sentence}"));
        }
        if results.sheets.is_empty() {
            let why = if rows.is_empty() {
                "all results are rejected"
            } else {
                "no result belongs to a table"
            };
            return Err(Failure::set_up(format!("{why}, so there are no tables")).hint(format!(
                "dyno check {} --round {} explains why",
                tree.display(),
                round.version
            )));
        }
        if let Some(folder) = &self.csv {
            for sheet in &results.sheets {
                let name = format!("{}.csv", sheet.name().replace(" - ", "-"));
                write(&folder.join(name), &sheet.csv())?;
            }
        }
        let json = |value: &serde_json::Value| format!("{value:#}\n");
        if let Some(path) = &self.json {
            write(path, &json(&results.json()))?;
        }
        if let Some(path) = &self.ids {
            write(path, &json(&serde_json::json!(ids)))?;
        }
        let real = fs::canonicalize(tree).unwrap_or_else(|_| tree.to_path_buf());
        let name = real.file_name().map_or_else(|| "submission".into(), |n| n.to_string_lossy());
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from(dyno_report::FILE));
        write(&out, &crate::pages::html_of_results(&results, &name))?;
        output::show(render::round::text(&results))?;
        output::say(format_args!("report: {}", out.display()));
        Ok(Exit::Valid)
    }

    /// Returns the rows of the results that count.
    fn rows(&self, tree: &Path, round: &'static Round) -> Result<Vec<Row>, Failure> {
        let failure = |error| Failure::set_up(error).hint("pass a submission tree");
        if self.published {
            let published = published(tree, round).map_err(failure)?;
            for sentence in &published.notices {
                output::say(format_args!("warning: {sentence}"));
            }
            return Ok(published.rows);
        }
        let checked = check(tree, round, &Options::new(Program::Strict)).map_err(failure)?;
        let (valid, all) = (checked.valid(), checked.results.len());
        if valid < all {
            output::say(format_args!(
                "{} of {all} results are rejected; dyno check explains why",
                all - valid
            ));
        }
        Ok(checked.rows)
    }

    fn read_ids(&self) -> Result<Ids, Failure> {
        let Some(path) = self.ids.as_ref().filter(|path| path.exists()) else {
            return Ok(Ids::new());
        };
        let refused = |problem: String| {
            Failure::set_up(format!("cannot read {}: {problem}", path.display()))
                .hint("expected a JSON object of unique ids and their numbers")
        };
        let bytes = files::read(path).map_err(|error| refused(error.to_string()))?;
        let ids: Ids =
            serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
        let mut known = BTreeMap::new();
        for (name, &number) in &ids {
            if number > MOST_IDS {
                return Err(refused(format!("`{name}` has the number {number}")));
            }
            if let Some(other) = known.insert(number, name) {
                return Err(refused(format!("`{other}` and `{name}` both have {number}")));
            }
        }
        Ok(ids)
    }
}

/// Largest number of a system; those in use have four digits.
const MOST_IDS: u64 = 999_999_999;

/// Writes a file and creates its folder.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), create_folder);
    made.and_then(|()| to_named(path, text))
        .map_err(|error| Failure::unwritable(path, &error).hint("choose another file"))
}
