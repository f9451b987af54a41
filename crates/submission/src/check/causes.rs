//! Why results do not count: errors by the result or the part of the tree that they concern.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{CheckReport, Outcome};
use crate::finding::{Finding, Severity};

/// Folders of a submitter with files of a result, by which files are sorted by system, model and
/// scenario.
const OF_RESULTS: [&str; 4] = ["results", "measurements", "compliance", "audit"];

/// Part of a tree: no name for all of it, then division, submitter, system, model, scenario.
type Part = Vec<String>;

/// A kind of error, and the results that it rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Id of the check.
    pub check: &'static str,
    /// Number of errors.
    pub findings: usize,
    /// Number of results that do not count and that an error concerns.
    pub results: usize,
    /// Number of these by division and submitter, most first.
    pub submitters: Vec<(String, usize)>,
    /// Path of the first error.
    pub first: std::path::PathBuf,
    /// Number of names in the largest part of the tree that an error rejects: 0 for all of it.
    scope: usize,
}

impl Cause {
    /// Whether an error rejects more than the results of one system.
    pub fn is_root(&self) -> bool {
        self.scope < 3
    }
}

/// Errors of a report by the part of the tree that they concern.
pub struct Errors<'a> {
    by_part: BTreeMap<Part, Vec<&'a Finding>>,
}

impl<'a> Errors<'a> {
    /// Sorts the errors of a report.
    pub fn new(report: &'a CheckReport) -> Self {
        let mut by_part: BTreeMap<Part, Vec<&Finding>> = BTreeMap::new();
        let is_error = |finding: &&Finding| finding.severity == Severity::Error;
        for finding in report.findings.iter().filter(is_error) {
            by_part.entry(part_of(&finding.path)).or_default().push(finding);
        }
        Self { by_part }
    }

    /// Returns the errors about a result and the parts of the tree that contain it, those about the
    /// largest part first.
    pub fn about(&self, result: &Path) -> Vec<&'a Finding> {
        let part = part_of(result);
        let parts = (0..=part.len()).map(move |names| part[..names].to_vec());
        parts.filter_map(|part| self.by_part.get(&part)).flatten().copied().collect()
    }

    /// Returns the kinds of errors: those that reject whole parts of the tree first, then those that
    /// concern most results.
    pub fn causes(&self, report: &CheckReport) -> Vec<Cause> {
        let mut causes: BTreeMap<&'static str, Cause> = BTreeMap::new();
        for (part, findings) in &self.by_part {
            for finding in findings {
                let cause = causes.entry(finding.check).or_insert_with(|| Cause {
                    check: finding.check,
                    findings: 0,
                    results: 0,
                    submitters: Vec::new(),
                    first: finding.path.clone(),
                    scope: part.len(),
                });
                cause.findings += 1;
                cause.scope = cause.scope.min(part.len());
            }
        }
        let mut by_submitter: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
        let invalid = report.results.iter().filter(|(_, outcome)| **outcome == Outcome::Invalid);
        for (path, _) in invalid {
            let kinds: BTreeSet<&str> =
                self.about(path).iter().map(|finding| finding.check).collect();
            let names: Vec<_> = path.iter().take(2).map(|name| name.to_string_lossy()).collect();
            for kind in kinds {
                let submitters = by_submitter.entry(kind).or_default();
                *submitters.entry(names.join("/")).or_default() += 1;
            }
        }
        for (kind, submitters) in by_submitter {
            let Some(cause) = causes.get_mut(kind) else { continue };
            cause.results = submitters.values().sum();
            cause.submitters = submitters.into_iter().collect();
            cause.submitters.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        }
        let mut causes: Vec<Cause> = causes.into_values().collect();
        causes.sort_by_key(|cause| {
            (if cause.is_root() { cause.scope } else { 3 }, std::cmp::Reverse(cause.results))
        });
        causes
    }
}

/// Returns the part of the tree that a path concerns.
fn part_of(path: &Path) -> Part {
    // Folders of scenarios are written in lower case in some rounds.
    let names: Part = path.iter().map(|name| name.to_string_lossy().to_lowercase()).collect();
    match names.get(2).map(String::as_str) {
        Some(folder) if OF_RESULTS.contains(&folder) => {
            let rest = names.iter().skip(3).take(3);
            names[..2].iter().chain(rest).cloned().collect()
        }
        Some("systems") => {
            let system = names.get(3).map(|file| file.trim_end_matches(".json").to_owned());
            names[..2].iter().cloned().chain(system).collect()
        }
        Some(_) => names[..2].to_vec(),
        // A file or a foreign folder beside the divisions concerns all of them.
        None if names.len() == 1 && !is_division(&names[0]) => Vec::new(),
        None => names,
    }
}

fn is_division(name: &str) -> bool {
    crate::entry::DivisionFolder::named(name).is_some()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn error(check: &'static str, path: &str) -> Finding {
        let (message, mend) = (String::new(), String::new());
        let path = PathBuf::from(path);
        Finding {
            check,
            severity: Severity::Error,
            path,
            line: None,
            message,
            expected: None,
            mend,
        }
    }

    #[test]
    fn causes_of_the_whole_tree_come_first_and_results_are_counted() {
        let result = |name: &str| PathBuf::from(format!("closed/{name}/Offline"));
        let report = CheckReport {
            findings: vec![
                error("performance.seeds", "closed/a/results/s/m/Offline/performance/run_1/log"),
                error("audit.test", "closed/a/compliance/s/m/Offline/TEST01"),
                error("tree.root_files", "run.sh"),
                error("system.fields", "closed/b/systems/s.json"),
            ],
            results: ["a/results/s/m", "b/results/s/m"]
                .map(|name| (result(name), Outcome::Invalid))
                .into(),
            rows: Vec::new(),
            crashes: false,
            entries: 0,
        };
        let errors = Errors::new(&report);
        let causes = errors.causes(&report);
        let found: Vec<_> = causes.iter().map(|cause| (cause.check, cause.results)).collect();
        assert_eq!(found[0], ("tree.root_files", 2));
        assert!(causes[0].is_root() && !causes[1].is_root());
        for one in [("performance.seeds", 1), ("audit.test", 1), ("system.fields", 1)] {
            assert!(found.contains(&one), "{one:?} in {found:?}");
        }
        let about = errors.about(&result("b/results/s/m"));
        let about: Vec<_> = about.iter().map(|finding| finding.check).collect();
        assert_eq!(about, ["tree.root_files", "system.fields"]);
    }
}
