//! Versions of a network, of which each batch is computed in one: the same network in fewer bits, or a smaller one.
//!
//! What the thesis leaves to future work, as we read it. Slack decides: a batch is computed in the most accurate version
//! with which all that is on the NPU would be done by the time it is due, and if there is none in the one that is done
//! first. A floor bounds it: the mean accuracy of all answers so far is never below it, so that answers of the
//! better versions pay for those of the others.
//!
//! Here fewer bits make fetches shorter and nothing else, so that only a network that waits for the memory gains from
//! them; a smaller network is computed sooner as well.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::pass::Pass;
use crate::profile::Picos;

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkVersion {
    /// Such as its bits.
    pub name: String,
    /// Of its answers, in any unit in which more is better.
    pub accuracy: f64,
    /// Of batches of 1, 2, and so on.
    pub passes: Vec<Arc<Pass>>,
}

/// Why versions cannot be offered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum VersionError {
    /// There is none.
    None,
    /// Some are for larger batches than others.
    Batches {
        /// Which is not for as many as the first.
        name: String,
    },
    /// An accuracy is no number.
    NotANumber {
        /// Of which.
        name: String,
    },
    /// Even the most accurate is below the floor.
    BelowFloor {
        /// What is asked for.
        floor: f64,
        /// What there is at best.
        best: f64,
    },
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("there is no version; give at least one"),
            Self::Batches { name } => {
                write!(
                    f,
                    "version `{name}` is for other batches than the first; make all for the same"
                )
            }
            Self::NotANumber { name } => write!(f, "the accuracy of version `{name}` is no number"),
            Self::BelowFloor { floor, best } => write!(
                f,
                "no mix of versions has a mean accuracy of {floor}: the most accurate has {best}; lower the floor"
            ),
        }
    }
}

impl std::error::Error for VersionError {}

/// All versions of a network, and what has been answered in each.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionSet {
    /// The most accurate first; at least one.
    all: Vec<NetworkVersion>,
    floor: f64,
    /// By how much answers so far are above the floor, in all. At least 0.
    credit: f64,
    /// Answers of each.
    answers: Vec<u64>,
}

impl VersionSet {
    /// Versions whose answers have at least this accuracy in the mean.
    ///
    /// # Errors
    /// No versions, versions for different batches, or a floor that none reaches.
    pub fn new(mut all: Vec<NetworkVersion>, floor: f64) -> Result<Self, VersionError> {
        let batches = all.first().ok_or(VersionError::None)?.passes.len();
        for version in &all {
            let name = version.name.clone();
            if version.passes.len() != batches || batches == 0 {
                return Err(VersionError::Batches { name });
            }
            if !version.accuracy.is_finite() {
                return Err(VersionError::NotANumber { name });
            }
        }
        all.sort_by(|a, b| b.accuracy.total_cmp(&a.accuracy));
        let best = all[0].accuracy;
        if best < floor || floor.is_nan() {
            return Err(VersionError::BelowFloor { floor, best });
        }
        Ok(Self { answers: vec![0; all.len()], all, floor, credit: 0.0 })
    }

    /// The pass of a batch of `requests` that is due then, in the version that is chosen; `ends` says when a pass would
    /// be computed.
    pub(crate) fn begin(
        &mut self,
        requests: usize,
        due: Picos,
        ends: impl Fn(&Pass) -> Picos,
    ) -> Arc<Pass> {
        let count = requests as f64;
        let is_paid =
            |at: &usize| self.credit + count * (self.all[*at].accuracy - self.floor) >= 0.0;
        let ends = |at: usize| ends(&self.all[at].passes[requests - 1]);
        let in_time = (0..self.all.len()).filter(is_paid).find(|&at| ends(at) <= due);
        // Of those that are done as soon, the most accurate; the best of all is always paid for.
        let soonest = || (0..self.all.len()).filter(is_paid).min_by_key(|&at| ends(at));
        let chosen = in_time.or_else(soonest).unwrap_or(0);
        // Rounding must not make a debt of what is paid exactly.
        let credit = self.credit + count * (self.all[chosen].accuracy - self.floor);
        self.credit = credit.max(0.0);
        self.answers[chosen] += requests as u64;
        Arc::clone(&self.all[chosen].passes[requests - 1])
    }

    /// All of them, the most accurate first, each with the answers that it gave.
    pub fn answers(&self) -> impl Iterator<Item = (&NetworkVersion, u64)> {
        self.all.iter().zip(self.answers.iter().copied())
    }

    /// The mean of all answers; none before the first.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        let count: u64 = self.answers.iter().sum();
        let sum: f64 =
            self.answers().map(|(version, answers)| version.accuracy * answers as f64).sum();
        (count > 0).then(|| sum / count as f64)
    }
}
