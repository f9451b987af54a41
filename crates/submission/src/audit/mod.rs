//! The audits of the rules: which runs they ask for, and what the logs of those
//! runs say.
//!
//! [`plan()`] says which runs with which changed settings an audit takes in a
//! round; [`verify()`] reads the logs and judges. Each verdict is given twice:
//! *official* is what the scripts of the round say, with their errors, and
//! *corrected* what they set out to find. A script that passes what it should
//! not is the reason for most audits that mean nothing.

mod data;
mod entropy;
mod evidence;
mod folder;
mod plan;
mod quality;
pub(crate) mod ratio;
pub(crate) mod reason;
mod score;
mod text;
mod tokens;
mod verify;

use std::fmt;

use dyno_loadgen::settings::nearest;

pub use data::{DTYPES, baseline_log};
pub use dyno_tensors::Element;
pub use evidence::{Evidence, Played};
pub use folder::{Submitted, write_folder};
pub use plan::{Needs, Plan, PlannedRun, Unplanned, plan};
pub use quality::{Accuracies, Accuracy, metrics_in};
pub use reason::{Reason, Side};
pub use verify::verify;

/// An audit of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// `TEST01`: answers of a performance run are those of the accuracy run.
    Test01,
    /// `TEST03`: another data set is not slower.
    Test03,
    /// `TEST04-A` and `TEST04-B`: one sample over and over is not faster than each once.
    Test04Pair,
    /// `TEST04`: one sample over and over is not faster than the submission.
    Test04,
    /// `TEST05`: other seeds are not slower.
    Test05,
    /// `TEST06`: tokens that are counted are tokens that are there.
    Test06,
    /// `TEST07`: the quality of a whole performance run.
    Test07,
    /// `TEST08`: TEST01 for a recommender whose samples have names of their own.
    Test08,
    /// `TEST09`: answers are as long as those of the reference.
    Test09,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Test01,
        Self::Test03,
        Self::Test04Pair,
        Self::Test04,
        Self::Test05,
        Self::Test06,
        Self::Test07,
        Self::Test08,
        Self::Test09,
    ];

    /// As the rules write it; of the pair, its first half.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Test01 => "TEST01",
            Self::Test03 => "TEST03",
            Self::Test04Pair => "TEST04-A",
            Self::Test04 => "TEST04",
            Self::Test05 => "TEST05",
            Self::Test06 => "TEST06",
            Self::Test07 => "TEST07",
            Self::Test08 => "TEST08",
            Self::Test09 => "TEST09",
        }
    }

    /// What it is for, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Test01 => "accuracy in performance mode",
            Self::Test03 => "custom data set",
            Self::Test04Pair => "caching: each sample once, against one sample over and over",
            Self::Test04 => "caching: one sample over and over, against the submission",
            Self::Test05 => "other seeds",
            Self::Test06 => "consistency of tokens",
            Self::Test07 => "quality of a whole performance run",
            Self::Test08 => "accuracy in performance mode, of a streaming recommender",
            Self::Test09 => "length of answers",
        }
    }

    /// The audit of that name, in any case; both halves of the pair name it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("TEST04-B") {
            return Some(Self::Test04Pair);
        }
        Self::ALL.into_iter().find(|test| test.name().eq_ignore_ascii_case(name))
    }

    /// The name that is nearest to one that there is no audit of.
    #[must_use]
    pub fn nearest(name: &str) -> &'static str {
        let upper = name.to_ascii_uppercase();
        nearest(&upper, Self::ALL.iter().map(|test| test.name())).unwrap_or("TEST01")
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an audit, or a part of it, comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It found nothing.
    Passed,
    /// What it found; at least one.
    Failed(Vec<Reason>),
}

impl Verdict {
    /// Passed if there is no reason against it.
    #[must_use]
    pub fn of(reasons: Vec<Reason>) -> Self {
        if reasons.is_empty() { Self::Passed } else { Self::Failed(reasons) }
    }

    /// Whether it passed.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        *self == Self::Passed
    }

    /// What was found.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Passed => &[],
            Self::Failed(reasons) => reasons,
        }
    }
}

/// A number that a verdict rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is, such as `reference score`.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// Its unit; empty for counts.
    pub unit: &'static str,
}

/// A file that the official scripts would have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Relative to the folder of the audit.
    pub path: &'static str,
    /// What is in it.
    pub text: String,
}

/// One question that an audit asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What is compared, such as `answers` or `score`.
    pub name: &'static str,
    /// By what the script sets out to find.
    pub corrected: Verdict,
    /// By what the script does.
    pub official: Verdict,
    /// What both rest on.
    pub figures: Vec<Figure>,
    /// Where the answer is written for a submission.
    pub file: Option<TextFile>,
}

impl Part {
    /// A question without an answer, and a file that says so.
    fn failed(name: &'static str, path: &'static str, reason: &Reason) -> Self {
        let verdict = || Verdict::Failed(vec![reason.clone()]);
        let file = Some(TextFile { path, text: format!("{}\n", text::verdict(false)) });
        Self { name, corrected: verdict(), official: verdict(), figures: Vec::new(), file }
    }
}

/// What an audit found.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditResult {
    /// The audit.
    pub test: Test,
    /// Its questions.
    pub parts: Vec<Part>,
    /// Worth knowing; changes nothing.
    pub notes: Vec<String>,
}

impl AuditResult {
    /// What the audit comes to.
    #[must_use]
    pub fn corrected(&self) -> Verdict {
        Verdict::of(self.parts.iter().flat_map(|part| part.corrected.reasons()).cloned().collect())
    }

    /// What the scripts of the round make of it.
    #[must_use]
    pub fn official(&self) -> Verdict {
        Verdict::of(self.parts.iter().flat_map(|part| part.official.reasons()).cloned().collect())
    }

    /// Whether nothing was found, by either reading.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.parts.iter().all(|part| part.corrected.is_passed() && part.official.is_passed())
    }
}
