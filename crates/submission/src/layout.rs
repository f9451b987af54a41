//! Where the files of a result lie: the layouts up to v5.1, and the one from v6.0.

use dyno_rules::Version;

/// How a submitter's folder is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// v0.5: as the next, with `audit/` in place of `compliance/`.
    First,
    /// Up to v5.1: `measurements/` and `compliance/` beside `results/`, `code/`.
    Apart,
    /// From v6.0: all files of a result in one folder below `results/`, `src/`.
    Together,
}

impl Layout {
    /// The layout of a round.
    #[must_use]
    pub fn of(version: Version) -> Self {
        if version >= Version::new(6, 0) {
            Self::Together
        } else if version > Version::new(0, 5) {
            Self::Apart
        } else {
            Self::First
        }
    }

    /// Folder of a submitter that holds the code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::First | Self::Apart => "code",
            Self::Together => "src",
        }
    }

    /// Folder of a submitter below which lies, by system, model and scenario, what
    /// describes a measurement.
    #[must_use]
    pub fn measurements(self) -> &'static str {
        match self {
            Self::First | Self::Apart => "measurements",
            Self::Together => RESULTS,
        }
    }

    /// Folder of a submitter below which lie, by system, model and scenario, the
    /// audits.
    #[must_use]
    pub fn compliance(self) -> &'static str {
        match self {
            Self::First => "audit",
            Self::Apart => "compliance",
            Self::Together => RESULTS,
        }
    }
}

/// Folder of a submitter that holds the results, by system, model and scenario.
pub const RESULTS: &str = "results";
/// Folder of a submitter that holds the descriptions of the systems.
pub const SYSTEMS: &str = "systems";
/// Name of the detail log in the folder of a run.
pub const DETAIL: &str = "mlperf_log_detail.txt";
/// Name of the summary.
pub const SUMMARY: &str = "mlperf_log_summary.txt";
/// Name of the accuracy log.
pub const ACCURACY_LOG: &str = "mlperf_log_accuracy.json";
/// What the accuracy script said, in the folder `accuracy`.
pub const ACCURACY_TEXT: &str = "accuracy.txt";
