//! What `dyno check` shows: a tree of any size on one screen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use dyno_mlperf::finding::{Finding, Severity};
use dyno_mlperf::round::Version;
use dyno_mlperf::submission::check::{Checked, Outcome, Program};

use crate::render::{Color, count, painted, wrap};

/// Findings that fit a screen with what stands around them.
const SHOWN: usize = 12;
/// Of one result, this many.
const SHOWN_OF_ONE: usize = 3;
const WIDTH: usize = 80;

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A screen.
    Screen,
    /// Every finding.
    All,
}

/// A check of a tree to show.
pub struct Shown<'a> {
    /// The tree.
    pub tree: &'a Path,
    /// Its round.
    pub round: Version,
    /// Who judged.
    pub program: Program,
    /// What was found.
    pub checked: &'a Checked,
    /// How much is shown.
    pub extent: Extent,
    /// Whether colours are.
    pub is_colored: bool,
}

impl Shown<'_> {
    /// The text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let by = match self.program {
            Program::Strict => "by the rules",
            Program::Mono => "as the official checker in one file (v5.1.1)",
            Program::Modular => "as the official checker in modules (v6.1)",
        };
        let _ = writeln!(text, "{}: {} {by}", self.tree.display(), self.round);
        let _ = writeln!(text, "{}\n", self.counts());
        self.findings(&mut text);
        let _ = writeln!(text, "{}", self.verdict());
        text
    }

    fn counts(&self) -> String {
        let checked = self.checked;
        let is_invalid = |outcome: &&Outcome| **outcome == Outcome::Invalid;
        let invalid = checked.results.values().filter(is_invalid).count();
        let of = |severity| checked.findings.iter().filter(|f| f.severity == severity).count();
        let entries = count(checked.entries as u64);
        format!(
            "{} valid, {invalid} not; {} errors, {} warnings, {} notes in {entries} files and folders",
            checked.valid(),
            of(Severity::Error),
            of(Severity::Warning),
            of(Severity::Note),
        )
    }

    /// The gravest first, by what they are about; then how to mend them.
    fn findings(&self, text: &mut String) {
        let mut groups: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
        for finding in &self.checked.findings {
            groups.entry(subject(&finding.path)).or_default().push(finding);
        }
        let mut groups: Vec<(String, Vec<&Finding>)> = groups.into_iter().collect();
        for (_, findings) in &mut groups {
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        }
        groups.sort_by_key(|(_, findings)| std::cmp::Reverse(findings[0].severity));
        let (most, most_of_one) = match self.extent {
            Extent::Screen => (SHOWN, SHOWN_OF_ONE),
            Extent::All => (usize::MAX, usize::MAX),
        };
        let mut shown: Vec<&Finding> = Vec::new();
        for (subject, findings) in &groups {
            if shown.len() >= most {
                break;
            }
            let _ = writeln!(text, "{subject}");
            for finding in findings.iter().take(most_of_one.min(most - shown.len())) {
                self.finding(finding, subject, text);
                shown.push(finding);
            }
            let left = findings.len().saturating_sub(most_of_one);
            if left > 0 {
                let _ = writeln!(text, "  and {left} more of it");
            }
        }
        let left = self.checked.findings.len() - shown.len();
        if left > 0 {
            let _ = writeln!(text, "{left} findings are not shown; --all shows them");
        }
        mending(&shown, text);
    }

    fn finding(&self, finding: &Finding, subject: &str, text: &mut String) {
        let severity = match finding.severity {
            Severity::Error => painted("error", Color::Bad, self.is_colored),
            severity => severity.name().to_owned(),
        };
        let mut place = below(&finding.path, subject);
        if let Some(line) = finding.line {
            let _ = write!(place, ":{line}");
        }
        let place = if place.is_empty() { place } else { format!(" {place}") };
        let _ = writeln!(text, "  {severity}[{}]{place}", finding.check);
        let mut message = finding.message.clone();
        if let Some(expected) = &finding.expected {
            let _ = write!(message, "; expected {expected}");
        }
        for line in wrap(&message, WIDTH - 4, 2) {
            let _ = writeln!(text, "    {line}");
        }
    }

    fn verdict(&self) -> String {
        let valid = self.checked.is_valid();
        let (word, color) = if valid { ("VALID", Color::Good) } else { ("INVALID", Color::Bad) };
        let word = painted(word, color, self.is_colored);
        let why = if self.checked.results.is_empty() {
            ": there is no result"
        } else if self.checked.crashes && self.program != Program::Strict {
            ": the official program crashes"
        } else {
            ""
        };
        format!("{word}{why} (Dyno's word, not MLCommons')")
    }
}

/// How to mend what was shown, each check once.
fn mending(shown: &[&Finding], text: &mut String) {
    let mends: BTreeMap<&str, &str> =
        shown.iter().map(|finding| (finding.check, finding.mend.as_str())).collect();
    if mends.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nhow to mend");
    for (check, mend) in mends {
        for line in wrap(&format!("{check}: {mend}"), WIDTH - 2, 2) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text.push('\n');
}

/// What a path is about: a result where it lies in one, else its system or submitter.
fn subject(path: &Path) -> String {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let names: Vec<&str> = parts.iter().map(String::as_str).collect();
    match names[..] {
        [] => "the tree".to_owned(),
        [division, submitter, "results" | "measurements" | "compliance", ref rest @ ..] => {
            let of: Vec<&str> = rest.iter().take(3).copied().collect();
            format!("{division}/{submitter}: {}", of.join(" / "))
        }
        [division, submitter, "systems", file] => {
            format!("{division}/{submitter}: {}", file.trim_end_matches(".json"))
        }
        [division, submitter, ..] => format!("{division}/{submitter}"),
        [only] => only.to_owned(),
    }
}

/// A path without what the subject says already.
fn below(path: &Path, subject: &str) -> String {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let said = match parts.get(2).map(String::as_str) {
        Some("results") => 6,
        Some("measurements" | "compliance" | "systems") => return parts[2..].join("/"),
        _ if subject == "the tree" => 0,
        _ => 2,
    };
    parts.get(said..).unwrap_or_default().join("/")
}
