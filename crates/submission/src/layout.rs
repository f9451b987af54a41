//! Folder layouts of a submission: one for v0.5, one up to v5.1, one from v6.0.

use dyno_rules::Version;

/// Layout of a submitter's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// v0.5: like `Apart`, with `audit/` instead of `compliance/`.
    First,
    /// Up to v5.1: `measurements/` and `compliance/` next to `results/`; code in `code/`.
    Apart,
    /// From v6.0: all files of a result in one folder below `results/`; code in `src/`.
    Together,
}

impl Layout {
    /// Returns the layout of a round.
    ///
    /// ```
    /// use dyno_submission::layout::Layout;
    ///
    /// let layout = Layout::for_round("v5.1".parse().unwrap());
    /// assert_eq!(layout.compliance(), "compliance");
    /// ```
    pub fn for_round(version: Version) -> Self {
        if version >= Version::new(6, 0) {
            Self::Together
        } else if version > Version::new(0, 5) {
            Self::Apart
        } else {
            Self::First
        }
    }

    /// Returns the submitter's folder that holds the code.
    pub fn code(self) -> &'static str {
        match self {
            Self::First | Self::Apart => "code",
            Self::Together => "src",
        }
    }

    /// Returns the submitter's folder that holds descriptions of measurements, by system, model
    /// and scenario.
    pub fn measurements(self) -> &'static str {
        match self {
            Self::First | Self::Apart => "measurements",
            Self::Together => RESULTS,
        }
    }

    /// Returns the submitter's folder that holds audits, by system, model and scenario.
    pub fn compliance(self) -> &'static str {
        match self {
            Self::First => "audit",
            Self::Apart => "compliance",
            Self::Together => RESULTS,
        }
    }
}

/// Submitter's folder that holds results, by system, model and scenario.
pub const RESULTS: &str = "results";
/// Submitter's folder that holds descriptions of systems.
pub const SYSTEMS: &str = "systems";
/// Name of the detail log in the folder of a run.
pub const DETAIL: &str = "mlperf_log_detail.txt";
/// Name of the summary in the folder of a run.
pub const SUMMARY: &str = "mlperf_log_summary.txt";
/// Name of the accuracy log in the folder of a run.
pub const ACCURACY_LOG: &str = "mlperf_log_accuracy.json";
/// Name of the output of the accuracy script, in the folder `accuracy`.
pub(crate) const ACCURACY_TEXT: &str = "accuracy.txt";
