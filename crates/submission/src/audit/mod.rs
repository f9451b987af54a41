//! Audits (compliance tests) of the rules: their runs, and the verdict on the logs of those
//! runs.
//!
//! [`plan()`] returns the runs of an audit in a round, with the settings that differ from the
//! submission's. [`verify()`] reads the logs and judges them. Each verdict has two versions:
//! *official* is the result of the scripts of the round, including their errors, and *corrected*
//! is what the scripts are meant to check. An official script may pass a system that it should
//! fail.
//!
//! ```
//! use dyno_loadgen::settings::Scenario;
//! use dyno_rules::Round;
//! use dyno_submission::audit::{AuditTest, plan};
//!
//! let round = Round::named("v5.1").unwrap();
//! let plan = plan(AuditTest::Test01, round, Some("resnet"), Scenario::Offline).unwrap();
//! assert_eq!(plan.runs.len(), 1);
//! assert!(plan.needs.accuracy && plan.needs.performance);
//! ```

mod data;
mod entropy;
mod evidence;
mod folder;
mod plan;
mod quality;
pub(crate) mod ratio;
pub(crate) mod reason;
mod score;
mod selection;
mod text;
mod tokens;
mod verify;

use std::fmt;

use dyno_loadgen::settings::similar;

pub use data::{DTYPES, baseline_log};
pub use dyno_tensors::Element;
pub use evidence::{Evidence, RunFolder};
pub use folder::{AuditFolders, write_folder};
pub use plan::{AuditPlan, PlannedRun, RequiredRuns, UnavailableAudit, plan};
pub use quality::{Accuracies, Accuracy, metrics_in};
pub use reason::{Reason, Side};
pub use verify::verify;

dyno_loadgen::named_enum! {
    /// An audit of the rules.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum AuditTest {
        /// `TEST01`: answers of a performance run equal those of the accuracy run.
        Test01 = "TEST01",
        /// `TEST03`: a different data set is not slower.
        Test03 = "TEST03",
        /// `TEST04-A` and `TEST04-B`: issuing one sample repeatedly is not faster than issuing each
        /// sample once.
        Test04Pair = "TEST04-A",
        /// `TEST04`: issuing one sample repeatedly is not faster than the submission.
        Test04 = "TEST04",
        /// `TEST05`: different seeds are not slower.
        Test05 = "TEST05",
        /// `TEST06`: reported token counts match the answers.
        Test06 = "TEST06",
        /// `TEST07`: quality of a complete performance run.
        Test07 = "TEST07",
        /// `TEST08`: TEST01 for a recommender whose samples have their own names.
        Test08 = "TEST08",
        /// `TEST09`: answers have the length of the reference's.
        Test09 = "TEST09",
    }
}

impl AuditTest {
    /// Returns a short description.
    pub fn title(self) -> &'static str {
        match self {
            Self::Test01 => "accuracy in performance mode",
            Self::Test03 => "custom data set",
            Self::Test04Pair => "caching: each sample once, compared with one sample repeatedly",
            Self::Test04 => "caching: one sample repeatedly, compared with the submission",
            Self::Test05 => "other seeds",
            Self::Test06 => "consistency of tokens",
            Self::Test07 => "quality of a whole performance run",
            Self::Test08 => "accuracy in performance mode, of a streaming recommender",
            Self::Test09 => "length of answers",
        }
    }

    /// Returns the audit with this name, ignoring case. Both halves of the pair return the pair.
    pub fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("TEST04-B") {
            return Some(Self::Test04Pair);
        }
        Self::ALL.into_iter().find(|test| test.name().eq_ignore_ascii_case(name))
    }

    /// Whether the run of the audit is judged like that of the result, from v2.1 on.
    pub(crate) fn is_judged_as_run(self) -> bool {
        matches!(self, Self::Test01 | Self::Test04 | Self::Test05)
    }

    /// Returns the audit name that is closest to an unknown name; `None` if no name is similar.
    pub fn nearest(name: &str) -> Option<&'static str> {
        similar(name, Self::ALL.iter().map(|test| test.name()))
    }
}

impl fmt::Display for AuditTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Verdict on an audit or on one of its parts.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// No problem was found.
    Passed,
    /// Problems; at least one.
    Failed(Vec<Reason>),
}

impl Verdict {
    /// Returns `Passed` if there are no reasons to fail.
    pub fn from_reasons(reasons: Vec<Reason>) -> Self {
        if reasons.is_empty() { Self::Passed } else { Self::Failed(reasons) }
    }

    /// Whether the audit passed.
    pub fn is_passed(&self) -> bool {
        *self == Self::Passed
    }

    /// Returns the reasons for failing.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Passed => &[],
            Self::Failed(reasons) => reasons,
        }
    }
}

/// A number on which a verdict is based.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Name, such as `reference score`.
    pub name: &'static str,
    /// Value.
    pub value: f64,
    /// Unit; empty for counts.
    pub unit: &'static str,
}

/// A file that the official scripts would have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictFile {
    /// Path relative to the folder of the audit.
    pub path: &'static str,
    /// Content.
    pub text: String,
}

/// One comparison of an audit.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name of what is compared, such as `answers` or `score`.
    pub name: &'static str,
    /// Verdict by what the script is meant to check.
    pub corrected: Verdict,
    /// Verdict by what the script does.
    pub official: Verdict,
    /// Numbers on which both verdicts are based.
    pub figures: Vec<Figure>,
    /// File in which a submission records the verdict.
    pub file: Option<VerdictFile>,
}

impl Part {
    /// Creates a part that could not be compared, and a file that reports the failure.
    fn failed(name: &'static str, path: &'static str, reason: &Reason) -> Self {
        let verdict = || Verdict::Failed(vec![reason.clone()]);
        let file = Some(VerdictFile { path, text: format!("{}\n", text::verdict(false)) });
        Self { name, corrected: verdict(), official: verdict(), figures: Vec::new(), file }
    }
}

/// Result of an audit.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditResult {
    /// The audit.
    pub test: AuditTest,
    /// Comparisons.
    pub parts: Vec<Part>,
    /// Information for the user; does not affect the verdict.
    pub notes: Vec<String>,
}

impl AuditResult {
    /// Returns the verdict by what the scripts are meant to check.
    pub fn corrected(&self) -> Verdict {
        Verdict::from_reasons(
            self.parts.iter().flat_map(|part| part.corrected.reasons()).cloned().collect(),
        )
    }

    /// Returns the verdict of the round's scripts.
    pub fn official(&self) -> Verdict {
        Verdict::from_reasons(
            self.parts.iter().flat_map(|part| part.official.reasons()).cloned().collect(),
        )
    }

    /// Whether both verdicts of all parts are passed.
    pub fn is_passed(&self) -> bool {
        self.parts.iter().all(|part| part.corrected.is_passed() && part.official.is_passed())
    }
}
