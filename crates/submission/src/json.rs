//! Findings and results as one JSON document with a published schema, for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::check::{CheckReport, Outcome, Program, Provenance};
use crate::finding::{Finding, Severity};
use dyno_rules::Round;

/// Value of `schema`.
pub const SCHEMA: &str = "dyno/check";
/// Value of `schema_version`. Keys may be added within a version; none is removed.
pub const SCHEMA_VERSION: u32 = 1;

/// A checked submission tree.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    /// Which document this is.
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// Its version.
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// Round of the rules, such as `v5.1`.
    pub round: String,
    /// Judge: `strict` applies the rules; `mono`, `modular`, or a tag such as `v4.1` reproduces
    /// an official checker.
    pub program: String,
    /// Whether the tree has results and no errors.
    pub valid: bool,
    /// Number of valid results.
    pub valid_results: usize,
    /// Number of files and folders in the tree.
    pub entries: usize,
    /// Number of findings of each severity: `error`, `warning`, `note`.
    pub counts: BTreeMap<&'static str, usize>,
    /// Results, and parts that an official program skipped, in the order of their paths.
    pub results: Vec<ResultEntry>,
    /// Findings, in the order of the tree.
    pub findings: Vec<FindingEntry>,
}

/// A result.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultEntry {
    /// Its folder, relative to the tree.
    pub path: String,
    /// Whether it counts.
    pub valid: bool,
    /// Metric of a valid result, in the unit of the table of results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<f64>,
}

/// A finding of a check.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingEntry {
    /// Id of the check, such as `performance.seeds`.
    pub check: &'static str,
    /// `error`: the result does not count; `warning`: probably a mistake; `note`.
    pub severity: &'static str,
    /// File or folder, relative to the tree; empty for the tree itself.
    pub path: String,
    /// Line, from 1; missing without a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Description of the problem.
    pub message: String,
    /// Expected value, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// How to fix it.
    pub mend: String,
    /// Rule or official program that requires it; missing for Dyno's own checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
}

impl Document {
    /// Creates the document of a checked tree.
    pub fn from_check(checked: &CheckReport, round: &Round, program: Program) -> Self {
        let results = checked.results.iter().map(|(path, outcome)| ResultEntry {
            path: path.to_string_lossy().into_owned(),
            valid: matches!(outcome, Outcome::Valid { .. }),
            metric: match outcome {
                Outcome::Valid { metric } => Some(*metric).filter(|metric| metric.is_finite()),
                Outcome::Invalid => None,
            },
        });
        let mut counts: BTreeMap<&'static str, usize> =
            [Severity::Error, Severity::Warning, Severity::Note].map(|s| (s.name(), 0)).into();
        for finding in &checked.findings {
            *counts.entry(finding.severity.name()).or_default() += 1;
        }
        Self {
            schema: SCHEMA,
            schema_version: SCHEMA_VERSION,
            round: round.version.to_string(),
            program: name(program),
            valid: checked.is_valid(),
            valid_results: checked.valid(),
            entries: checked.entries,
            counts,
            results: results.collect(),
            findings: checked.findings.iter().map(FindingEntry::from_finding).collect(),
        }
    }

    /// Writes the document as indented JSON with a final newline.
    ///
    /// # Errors
    /// Fails if the writer fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

impl FindingEntry {
    fn from_finding(finding: &Finding) -> Self {
        Self {
            check: finding.check,
            severity: finding.severity.name(),
            path: finding.path.to_string_lossy().into_owned(),
            line: finding.line,
            message: finding.message.clone(),
            expected: finding.expected.clone(),
            mend: finding.mend.clone(),
            source: Provenance::of_check(finding.check).and_then(Provenance::source),
        }
    }
}

/// Returns the name of a program, as the flag accepts it.
pub(super) fn name(program: Program) -> String {
    match program {
        Program::Strict => "strict".to_owned(),
        Program::Mono => "mono".to_owned(),
        Program::Tag(checker) => checker.to_string(),
        Program::Modular => "modular".to_owned(),
    }
}
