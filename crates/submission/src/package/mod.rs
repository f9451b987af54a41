//! What turns run directories into a submission: accuracy logs cut to the size that
//! a submission may have, and trees in the layout of a round.
//!
//! [`package`] finds the tests in the run directories, says which result each is part
//! of by the rules of the division, and writes the tree.

mod accelerators;
mod capture;
mod describe;
mod doubts;
mod error;
mod kept;
mod plan;
mod runs;
mod truncate;
mod user_conf;
mod whole;
mod write;

use std::path::{Path, PathBuf};

pub use capture::{Fields, capture};
pub use describe::{Description, MARKER, ToFill};
pub use error::{Conflict, PackageError};
pub use runs::{AuditFiles, Found, Part, Quality, Test, find};
pub use truncate::{
    ELLIPSIS, Hash, KEPT_BYTES, LIMIT_BYTES, TruncateError, Truncation, hash_in, truncate,
    truncate_folder,
};
pub use user_conf::user_conf;

use crate::entry::DivisionFolder;
use crate::facts::detail;
use crate::layout::{DETAIL, RESULTS};
use crate::tree::Tree;
use dyno_rules::{Round, Scenario, Suite};

/// A category of the rules: whether what was measured can be bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// Everything in it can be bought or rented.
    Available,
    /// Will be available in the next round.
    Preview,
    /// Research, development or internal.
    Rdi,
}

impl Availability {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Available, Self::Preview, Self::Rdi];

    /// As a system description writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Preview => "preview",
            Self::Rdi => "rdi",
        }
    }
}

/// Whether results are written that were not run, but follow from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Infer {
    /// Only what was run is written.
    Nothing,
    /// Of an edge system MultiStream from SingleStream, and Offline from SingleStream or
    /// from MultiStream; for the lower target of a benchmark those of the high one.
    Missing,
}

/// What is to be packaged, and as what.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The round.
    pub round: &'a Round,
    /// The division.
    pub division: DivisionFolder,
    /// Who submits.
    pub submitter: String,
    /// Name of the system's folder.
    pub system: String,
    /// Name of the model's folder.
    pub benchmark: String,
    /// The official model that an own one of the open division stands for.
    pub stands_for: Option<String>,
    /// The suite.
    pub suite: Suite,
    /// The category.
    pub availability: Availability,
    /// What is inferred.
    pub infer: Infer,
    /// What the machine says of itself, from [`capture`].
    pub captured: Fields,
    /// What the submitter says.
    pub description: Description,
    /// The run directories.
    pub runs: Vec<PathBuf>,
}

/// A package that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packaged {
    /// The results: scenario, and what it was inferred from if it was.
    pub results: Vec<(Scenario, Option<Scenario>)>,
    /// Those that are there for the lower target of the benchmark as well: its name, and
    /// the scenario.
    pub lower: Vec<(String, Scenario)>,
    /// What somebody must fill in, in what was written and in what was there.
    pub to_fill: Vec<ToFill>,
    /// What will keep a result from counting, in words.
    pub doubts: Vec<String>,
    /// What may be a slip of the pen, in words.
    pub notes: Vec<String>,
    /// Files that were there and stayed as they were, relative to the root.
    pub kept: Vec<PathBuf>,
    /// Files that were there, in which a mark was replaced.
    pub completed: Vec<PathBuf>,
}

/// Writes the results of run directories to a submission tree: a new one, or one that
/// has others already. A tree never has part of a result.
///
/// # Errors
/// What the runs lack, or is in the way; nothing is written then.
pub fn package(asked: &Asked<'_>, out: &Path) -> Result<Packaged, PackageError> {
    let mut names = vec![
        ("submitter", &asked.submitter),
        ("system", &asked.system),
        ("benchmark", &asked.benchmark),
    ];
    names.extend(asked.stands_for.as_ref().map(|name| ("benchmark", name)));
    for (of, name) in names {
        let is_bad = name.is_empty()
            || name.starts_with('.')
            || name.contains(|c: char| c.is_whitespace() || c.is_control() || "/\\".contains(c));
        if is_bad {
            return Err(PackageError::BadName { of, name: name.clone() });
        }
    }
    check_place(out, &asked.runs)?;
    let benchmark = plan::benchmark(asked)?;
    let found = find(&asked.runs)?;
    let measured = plan::results(asked, benchmark, &found)?;
    let mut notes = notes(&asked.description);
    let mut doubts = doubts::of_runs(asked.round, &found);
    doubts.extend(doubts::of_audits(asked.division, benchmark, &measured, &mut notes));
    let inferred =
        |result: &plan::Planned<'_>| (result.scenario != result.run).then_some(result.run);
    let results = measured.iter().map(|result| (result.scenario, inferred(result))).collect();
    notes.extend(other_seeds(asked.round, out));
    let copies = copies(asked, &measured, out, &mut notes);
    let lower = copies.iter().map(|copy| (copy.model.clone(), copy.scenario)).collect();
    let written = write::write(asked, benchmark, &[measured, copies].concat(), out)?;
    notes.extend(written.notes);
    let write::Written { to_fill, kept, completed, .. } = written;
    Ok(Packaged { results, lower, to_fill, doubts, notes, kept, completed })
}

/// Checks that a tree may be or become one: a new folder, or one that has no runs.
///
/// # Errors
/// It is a file, or a run, or has one of these in it.
pub fn check_place(tree: &Path, runs: &[PathBuf]) -> Result<(), PackageError> {
    if tree.exists() && !tree.is_dir() {
        return Err(PackageError::NoFolder { path: tree.to_owned() });
    }
    let of_run = ["summary.json", "audit.json", DETAIL];
    let is_run = of_run.iter().any(|file| tree.join(file).is_file());
    let within = if is_run { Some(tree) } else { None };
    let within =
        within.or_else(|| runs.iter().map(PathBuf::as_path).find(|run| is_within(run, tree)));
    match within {
        None => Ok(()),
        Some(run) => Err(PackageError::RunsInTree { tree: tree.to_owned(), run: run.to_owned() }),
    }
}

/// Whether a folder is the other or lies below it.
fn is_within(folder: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(folder).zip(real(other)).is_some_and(|(folder, other)| folder.starts_with(other))
}

/// The results that are to be written for the lower target as well. What the tree has of
/// it stays.
fn copies<'f>(
    asked: &Asked<'_>,
    measured: &[plan::Planned<'f>],
    out: &Path,
    notes: &mut Vec<String>,
) -> Vec<plan::Planned<'f>> {
    let Some(lower) = plan::lower_target(asked) else { return Vec::new() };
    let (high, low) = (&asked.benchmark, &lower.name);
    let is_missing = |copy: &plan::Planned<'_>| !out.join(write::result(asked, copy)).exists();
    let mut copies = plan::copies(asked, lower, measured);
    copies.retain(is_missing);
    if !copies.is_empty() && asked.infer == Infer::Nothing {
        notes.push(format!(
            "what reaches the target of `{high}` may be submitted as `{low}`, too: --infer \
             writes both"
        ));
        copies.clear();
    }
    copies
}

/// That a tree has results of another round, if its first one has other seeds.
fn other_seeds(round: &Round, out: &Path) -> Option<String> {
    let tree = Tree::walk(out).ok()?;
    let is_result = |path: &Path| path.iter().any(|part| part == RESULTS);
    let mut logs = tree
        .top()
        .descendants()
        .filter(|node| node.is_file() && node.text() == DETAIL && is_result(&node.path()));
    let of = |log| detail::read(Some(log)).ok()?.whole("effective_qsl_rng_seed");
    let (log, seed) = logs.find_map(|log| Some((log, of(log)?)))?;
    // Audits with other seeds lie beside results from v6.0 on.
    let is_known = seed == round.seeds.qsl || round.test05_seeds.is_some_and(|of| of.qsl == seed);
    let (path, round) = (log.path(), round.version);
    (!is_known).then(|| {
        format!(
            "{} has not the seeds of {round}: are its results of another round?",
            path.display()
        )
    })
}

fn notes(description: &Description) -> Vec<String> {
    let unknown = |(field, near)| {
        format!("no round has the field `{field}` of a system; `{near}` is one that they have")
    };
    describe::unknown(&description.system).map(unknown).collect()
}
