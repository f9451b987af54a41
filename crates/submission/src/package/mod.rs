//! Packages run directories as a submission: truncates accuracy logs and writes trees in the
//! layout of a round.
//!
//! [`package`] is the entry point. It finds the tests in the run directories, assigns them to
//! results by the rules of the division, and writes the tree.
//!
//! ```
//! use dyno_submission::package::Description;
//!
//! let text = r#"[system]
//! host_memory_capacity = "512 GB"
//! [measurement]
//! retraining = "no""#;
//! let description = Description::read(text).unwrap();
//! assert_eq!(description.system["host_memory_capacity"], "512 GB");
//! assert!(Description::read("[systems]").is_err());
//! ```

mod accelerators;
mod capture;
mod completeness;
mod describe;
mod doubts;
mod error;
mod existing;
mod plan;
mod runs;
mod truncate;
mod user_conf;
mod write;

use std::fs;
use std::path::{Path, PathBuf};

pub use capture::{Fields, capture};
pub use describe::{Description, MARKER, MissingField};
pub use error::{Conflict, PackageError};
pub use runs::{AuditFiles, Quality, RunContents, TestPart, TestRun, find};
pub use truncate::{
    ELLIPSIS, Hash, KEPT_BYTES, LIMIT_BYTES, TruncateError, Truncation, hash_in, is_truncated,
    truncate, truncate_folder,
};
pub use user_conf::user_conf;

use crate::entry::DivisionFolder;
use crate::facts::detail;
use crate::layout::{DETAIL, RESULTS};
use crate::tree::Tree;
pub use dyno_rules::Availability;
use dyno_rules::{Round, RuleScenario, Suite};

/// Whether to write results that were not run but can be inferred from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Infer {
    /// Write only results that were run.
    Nothing,
    /// For an edge system, infer MultiStream from SingleStream, and Offline from SingleStream or
    /// MultiStream. For a benchmark with a high target, also write the results of its lower
    /// target.
    Missing,
}

/// Input of [`package()`]: what to package, and its place in the submission.
#[derive(Debug, Clone)]
pub struct PackageRequest<'a> {
    /// Round.
    pub round: &'a Round,
    /// Division.
    pub division: DivisionFolder,
    /// Name of the submitter's folder.
    pub submitter: String,
    /// Name of the system's folder.
    pub system: String,
    /// Name of the model's folder.
    pub benchmark: String,
    /// Official model that a custom model of the open division stands for.
    pub stands_for: Option<String>,
    /// Suite.
    pub suite: Suite,
    /// Availability category.
    pub availability: Availability,
    /// Results to infer.
    pub infer: Infer,
    /// Properties of the machine, from [`capture()`].
    pub captured: Fields,
    /// Fields and pages that the submitter provides.
    pub description: Description,
    /// Run directories.
    pub runs: Vec<PathBuf>,
}

/// Result of packaging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageSummary {
    /// Results: scenario, and the scenario from which it was inferred, if any.
    pub results: Vec<(RuleScenario, Option<RuleScenario>)>,
    /// Results that were also written for the benchmark's lower target: its name and the
    /// scenario.
    pub lower: Vec<(String, RuleScenario)>,
    /// Fields that the submitter must fill in, in new and in existing files.
    pub missing_fields: Vec<MissingField>,
    /// Reasons for which results may not count, as sentences.
    pub doubts: Vec<String>,
    /// Possible mistakes, as sentences.
    pub notes: Vec<String>,
    /// Existing files that were not changed, relative to the root.
    pub kept: Vec<PathBuf>,
    /// Existing files in which markers were replaced.
    pub completed: Vec<PathBuf>,
}

/// Writes the results of run directories to a new or existing submission tree. The tree never
/// contains part of a result.
///
/// # Errors
/// Fails if runs are incomplete or files are in the way. Nothing is written then.
pub fn package(request: &PackageRequest<'_>, out: &Path) -> Result<PackageSummary, PackageError> {
    let mut names = vec![
        ("submitter", &request.submitter),
        ("system", &request.system),
        ("benchmark", &request.benchmark),
    ];
    names.extend(request.stands_for.as_ref().map(|name| ("benchmark", name)));
    for (kind, name) in names {
        let is_bad = name.is_empty()
            || name.starts_with('.')
            || name.contains(|c: char| c.is_whitespace() || c.is_control() || "/\\".contains(c));
        if is_bad {
            return Err(PackageError::BadName { kind, name: name.clone() });
        }
    }
    check_place(out, &request.runs)?;
    let benchmark = plan::benchmark(request)?;
    let found = find(&request.runs)?;
    let measured = plan::results(request, benchmark, &found)?;
    let mut notes = notes(&request.description);
    let mut doubts = doubts::run_doubts(request.round, benchmark, &found);
    let (round, division) = (request.round, request.division);
    doubts.extend(doubts::audit_doubts(round, division, benchmark, &measured, &mut notes));
    let inferred =
        |result: &plan::PlannedResult<'_>| (result.scenario != result.run).then_some(result.run);
    let results = measured.iter().map(|result| (result.scenario, inferred(result))).collect();
    notes.extend(other_seeds(request.round, out));
    let copies = copies(request, &measured, out, &mut notes);
    let lower = copies.iter().map(|copy| (copy.model.clone(), copy.scenario)).collect();
    let written = write::write(request, benchmark, &[measured, copies].concat(), out)?;
    notes.extend(written.notes);
    let write::WriteSummary { missing_fields, kept, completed, .. } = written;
    Ok(PackageSummary { results, lower, missing_fields, doubts, notes, kept, completed })
}

/// Checks that a folder can be a tree: it is new, or contains no runs.
///
/// # Errors
/// Fails if it is a file or a run, or contains one of `runs`.
pub fn check_place(tree: &Path, runs: &[PathBuf]) -> Result<(), PackageError> {
    if tree.exists() && !tree.is_dir() {
        return Err(PackageError::NoFolder { path: tree.to_owned() });
    }
    let run_files = ["summary.json", "audit.json", DETAIL];
    let is_run = run_files.iter().any(|file| tree.join(file).is_file());
    let within = if is_run { Some(tree) } else { None };
    let within =
        within.or_else(|| runs.iter().map(PathBuf::as_path).find(|run| is_within(run, tree)));
    match within {
        None => Ok(()),
        Some(run) => Err(PackageError::RunsInTree { tree: tree.to_owned(), run: run.to_owned() }),
    }
}

/// Whether a folder equals the other or is below it.
fn is_within(folder: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(folder).zip(real(other)).is_some_and(|(folder, other)| folder.starts_with(other))
}

/// Returns the results to write for the lower target as well. Results that the tree already has
/// are omitted.
fn copies<'f>(
    request: &PackageRequest<'_>,
    measured: &[plan::PlannedResult<'f>],
    out: &Path,
    notes: &mut Vec<String>,
) -> Vec<plan::PlannedResult<'f>> {
    let Some(lower) = plan::lower_target(request) else { return Vec::new() };
    let (high, low) = (&request.benchmark, &lower.name);
    let is_missing =
        |copy: &plan::PlannedResult<'_>| !out.join(write::result(request, copy)).exists();
    let mut copies = plan::copies(request, lower, measured);
    copies.retain(is_missing);
    if !copies.is_empty() && request.infer == Infer::Nothing {
        notes.push(format!(
            "a result that reaches the target of `{high}` may also be submitted as `{low}`; \
             --infer writes both"
        ));
        copies.clear();
    }
    copies
}

/// Returns a note if the first result of the tree has seeds of another round.
fn other_seeds(round: &Round, out: &Path) -> Option<String> {
    let division = |name| sorted_folders(&out.join(name));
    let submitters = ["closed", "network", "open"].into_iter().flat_map(division);
    let (log, seed) =
        submitters.into_iter().find_map(|folder| first_seed(&folder.join(RESULTS)))?;
    // From v6.0, audits with other seeds are in the same folder as results.
    let is_known =
        seed == round.seeds.qsl || round.test05_seeds.is_some_and(|seeds| seeds.qsl == seed);
    let (path, round) = (log.strip_prefix(out).unwrap_or(&log).display(), round.version);
    (!is_known).then(|| {
        format!("{path} does not have the seeds of {round}; its results may be of another round")
    })
}

/// Returns the first detail log below a folder that has a seed, and the seed. Stops there, because
/// a tree may have hundreds of thousands of files.
fn first_seed(folder: &Path) -> Option<(PathBuf, u64)> {
    let log = folder.join(DETAIL);
    if log.is_file() {
        let tree = Tree::walk(folder).ok()?;
        let detail = detail::read(tree.top().file(DETAIL)).ok()?;
        return Some((log, detail.whole("effective_qsl_rng_seed")?));
    }
    sorted_folders(folder).iter().find_map(|folder| first_seed(folder))
}

/// Returns the folders in a folder by name, without links.
fn sorted_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

fn notes(description: &Description) -> Vec<String> {
    let unknown =
        |(field, near)| format!("no round has the system field `{field}`; the nearest is `{near}`");
    describe::unknown(&description.system).map(unknown).collect()
}
