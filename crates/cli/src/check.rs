//! Terminal output of `dyno check`: fits a submission tree of any size on one screen.

pub mod explain;
pub mod selection;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use dyno_results::units::{self, count};
use dyno_rules::Version;
use dyno_submission::check::causes::{Cause, Errors};
use dyno_submission::check::{CheckReport, Outcome, Program, Skip, catalogue};
use dyno_submission::finding::{Finding, Severity};

use crate::render::{Color, painted, wrap};

/// Most findings shown on a screen, so that the header and the verdict fit, too.
const SHOWN: usize = 12;
/// Most findings shown for one subject on a screen.
const SHOWN_OF_ONE: usize = 3;
/// Most submitters named for one kind of errors.
const SHOWN_SUBMITTERS: usize = 5;
const WIDTH: usize = 80;

/// How many findings are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// At most [`SHOWN`] findings.
    Screen,
    /// Every finding.
    All,
}

/// The report of a checked tree.
pub struct CheckSummary<'a> {
    /// Root folder of the tree.
    pub tree: &'a Path,
    /// Round of the rules that apply.
    pub round: Version,
    /// Rules that the check follows: Dyno's own, or those of an official checker.
    pub program: Program,
    /// Results of the check.
    pub checked: &'a CheckReport,
    /// How many findings are shown.
    pub extent: Extent,
    /// Whether the text contains color codes.
    pub is_colored: bool,
}

impl CheckSummary<'_> {
    /// Returns the text of the report.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let by = match self.program {
            Program::Strict => "by the rules".to_owned(),
            Program::Mono => "as the official checker in one file (v5.1.1)".to_owned(),
            Program::Tag(checker) => format!("as the official checker of {checker}"),
            Program::Modular => "as the official checker in modules (v6.1)".to_owned(),
        };
        let _ = writeln!(text, "{}: {} {by}", self.tree.display(), self.round);
        let _ = writeln!(text, "{}\n", self.counts());
        self.causes(&mut text);
        self.findings(&mut text);
        let _ = writeln!(text, "{}", self.verdict());
        text
    }

    fn counts(&self) -> String {
        let checked = self.checked;
        let is_invalid = |outcome: &&Outcome| **outcome == Outcome::Invalid;
        let invalid = checked.results.values().filter(is_invalid).count();
        let counted = |severity: Severity| {
            let count = checked.findings.iter().filter(|f| f.severity == severity).count();
            format!("{count} {}{}", severity.name(), units::plural_ending(count as u64))
        };
        format!(
            "{} valid, {invalid} not; {}, {}, {} in {} files and folders",
            checked.valid(),
            counted(Severity::Error),
            counted(Severity::Warning),
            counted(Severity::Note),
            count(checked.entries as u64),
        )
    }

    /// Appends the kinds of errors of a tree with more results than fit a screen, those that reject
    /// whole parts of it first.
    fn causes(&self, text: &mut String) {
        if self.checked.results.len() <= SHOWN {
            return;
        }
        let causes = Errors::new(self.checked).causes(self.checked);
        for cause in causes.iter().take(SHOWN) {
            let results = units::counted(cause.results as u64, "result", "results");
            let errors = units::counted(cause.findings as u64, "error", "errors");
            let _ = writeln!(text, "{results} rejected by {errors}: {}", cause.check);
            let mut where_to: Vec<String> = cause
                .submitters
                .iter()
                .take(SHOWN_SUBMITTERS)
                .map(|(submitter, count)| format!("{} {count}", safe(submitter)))
                .collect();
            if cause.submitters.len() > SHOWN_SUBMITTERS {
                where_to.push(format!("{} more", cause.submitters.len() - SHOWN_SUBMITTERS));
            }
            if cause.is_root() {
                let first = safe(&cause.first.to_string_lossy());
                where_to.insert(0, format!("{first} rejects all results below: {}", remedy(cause)));
            }
            for line in wrap(&where_to.join(", "), WIDTH - 2, 2) {
                let _ = writeln!(text, "  {line}");
            }
        }
        if !causes.is_empty() {
            text.push('\n');
        }
    }

    /// Appends the findings, most severe subject first, then the fixes of the findings shown.
    fn findings(&self, text: &mut String) {
        let groups = groups(&self.checked.findings, self.extent);
        let (most, most_of_one) = match self.extent {
            Extent::Screen => (SHOWN, SHOWN_OF_ONE),
            Extent::All => (usize::MAX, usize::MAX),
        };
        let (mut shown, mut shown_count): (Vec<&Finding>, usize) = (Vec::new(), 0);
        for group in &groups {
            if shown.len() >= most {
                break;
            }
            let _ = writeln!(text, "{}", group.subjects[0]);
            match (self.extent, group.subjects.len() - 1) {
                (_, 0) => {}
                (Extent::Screen, alike) => {
                    let _ = writeln!(text, "and {alike} more with the same findings");
                }
                (Extent::All, _) => {
                    group.subjects[1..].iter().for_each(|subject| *text += &format!("{subject}\n"));
                }
            }
            let some = most_of_one.min(most - shown.len()).min(group.findings.len());
            for finding in &group.findings[..some] {
                self.finding(finding, text);
                shown.push(finding);
            }
            shown_count += some * group.subjects.len();
            let left = group.findings.len() - some;
            if left > 0 {
                let more = units::counted(left as u64, "more finding", "more findings");
                let _ = writeln!(text, "  and {more}");
            }
        }
        let left = self.checked.findings.len() - shown_count;
        if left > 0 {
            let hidden = units::counted_with_verb(left as u64, "finding", "findings");
            let _ = writeln!(text, "{hidden} not shown; --all shows them");
        }
        fixes_of(&shown, text);
    }

    fn finding(&self, finding: &Finding, text: &mut String) {
        let severity = match finding.severity {
            Severity::Error => painted("error", Color::Bad, self.is_colored),
            severity => severity.name().to_owned(),
        };
        let mut place = below(&finding.path);
        if let Some(line) = finding.line {
            let _ = write!(place, ":{line}");
        }
        let place = if place.is_empty() { place } else { format!(" {place}") };
        let _ = writeln!(text, "  {severity}[{}]{place}", finding.check);
        let mut message = finding.message.clone();
        if let Some(expected) = &finding.expected {
            let _ = write!(message, "; expected {expected}");
        }
        for line in wrap(&safe(&message), WIDTH - 4, 2) {
            let _ = writeln!(text, "    {line}");
        }
    }

    fn verdict(&self) -> String {
        let valid = self.checked.is_valid();
        let (word, color) = if valid { ("VALID", Color::Good) } else { ("INVALID", Color::Bad) };
        let word = painted(word, color, self.is_colored);
        let why = if self.checked.results.is_empty() {
            ": no results"
        } else if self.checked.crashes && self.program != Program::Strict {
            ": the official program crashes"
        } else {
            ""
        };
        format!("{word}{why} (judged by Dyno, not by MLCommons)")
    }
}

/// Returns how to fix a cause, with the flag that skips its check.
fn remedy(cause: &Cause) -> String {
    let check = catalogue::ALL.iter().find(|check| check.id == cause.check);
    let mend = check.map_or("", |check| check.mend);
    match cause.check {
        "tree.root_files" => format!("{mend}, or pass --{}", Skip::RootFiles.name()),
        "submitter.calibration" => format!("{mend}, or pass --{}", Skip::Calibration.name()),
        _ => mend.to_owned(),
    }
}

/// Appends how to fix the findings shown, once for each check.
fn fixes_of(shown: &[&Finding], text: &mut String) {
    let fixes: BTreeMap<&str, &str> =
        shown.iter().map(|finding| (finding.check, finding.mend.as_str())).collect();
    if fixes.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nHow to fix");
    for (check, mend) in fixes {
        for line in wrap(&format!("{check}: {mend}"), WIDTH - 2, 2) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text.push('\n');
}

/// Findings that one subject, or several subjects, have in common.
struct Group<'a> {
    subjects: Vec<String>,
    /// Most severe first.
    findings: Vec<&'a Finding>,
}

/// Groups findings by subject and merges subjects with equal findings; most severe first.
/// With [`Extent::All`], findings are equal only if their lines and expected values are, too.
fn groups(findings: &[Finding], extent: Extent) -> Vec<Group<'_>> {
    let mut by_subject: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        by_subject.entry(subject(&finding.path)).or_default().push(finding);
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut known = BTreeMap::new();
    for (subject, mut findings) in by_subject {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let alike = |f: &&Finding| {
            let detail = (extent == Extent::All).then(|| (f.line, f.expected.clone()));
            (f.check, below(&f.path), f.message.clone(), detail)
        };
        let key: Vec<_> = findings.iter().map(alike).collect();
        match known.get(&key) {
            Some(at) => {
                let group: &mut Group<'_> = &mut groups[*at];
                group.subjects.push(subject);
            }
            None => {
                known.insert(key, groups.len());
                groups.push(Group { subjects: vec![subject], findings });
            }
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.findings[0].severity));
    groups
}

/// Returns the subject of a path: the result that contains it, else its system or submitter.
fn subject(path: &Path) -> String {
    let parts = parts(path);
    let names: Vec<&str> = parts.iter().map(String::as_str).collect();
    match names[..] {
        [] => "the tree".to_owned(),
        [
            division,
            submitter,
            "results" | "measurements" | "compliance" | "audit",
            ref rest @ ..,
        ] if !rest.is_empty() => {
            let parts: Vec<&str> = rest.iter().take(3).copied().collect();
            format!("{division}/{submitter}: {}", parts.join(" / "))
        }
        [division, submitter, "systems", file] => {
            format!("{division}/{submitter}: {}", file.trim_end_matches(".json"))
        }
        [division, submitter, ..] => format!("{division}/{submitter}"),
        [only] => only.to_owned(),
    }
}

/// Returns the part of a path that its subject does not name.
fn below(path: &Path) -> String {
    let parts = parts(path);
    let first = match (parts.get(2).map(String::as_str), parts.len()) {
        (Some("results"), 4..) => 6,
        (_, 0 | 1) => 1,
        _ => 2,
    };
    parts.get(first..).unwrap_or_default().join("/")
}

fn parts(path: &Path) -> Vec<String> {
    path.iter().map(|part| safe(&part.to_string_lossy())).collect()
}

/// Replaces control characters, so that file names cannot control the terminal.
pub fn safe(text: &str) -> String {
    dyno_net::trouble::printable(text).into_owned()
}
