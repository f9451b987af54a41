//! Versions of a network: each batch is computed in one of them, for example in fewer bits or as a smaller network.
//!
//! This is our reading of what the thesis leaves to future work. The server computes a batch in the most accurate
//! version with which all work on the NPU would be done by the batch's deadline. Otherwise it takes the version
//! that is done first. The mean accuracy of all answers so far never falls below a floor, so answers of better versions
//! pay for those of the others.
//!
//! Fewer bits shorten the fetches, so memory-bound networks gain from them. They shorten computation only on an NPU whose
//! [`Arithmetic`](crate::arithmetic::Arithmetic) depends on bits. A smaller network also computes faster.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use thiserror::Error;

use crate::pass::Pass;
use crate::profile::Picos;

/// A version of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkVersion {
    /// Name of the version, such as its bits.
    pub name: String,
    /// Accuracy of the answers, in any unit in which higher is better.
    pub accuracy: f64,
    /// Passes of batches of 1, 2, and so on.
    pub passes: Vec<Arc<Pass>>,
}

/// Reason why versions cannot be offered.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum VersionError {
    /// There are no versions.
    #[error("expected at least one version")]
    None,
    /// The versions have different largest batches.
    #[error(
        "version `{name}` has different batches than the first version; use the same batches for \
         all"
    )]
    Batches {
        /// First version that differs from the first one.
        name: String,
    },
    /// An accuracy is not a finite number.
    #[error("the accuracy of version `{name}` is not a number")]
    NotANumber {
        /// Name of the version.
        name: String,
    },
    /// The most accurate version is below the floor.
    #[error(
        "no mix of versions reaches a mean accuracy of {floor}, because the most accurate has \
         {best}; lower the floor"
    )]
    BelowFloor {
        /// The requested floor.
        floor: f64,
        /// Accuracy of the best version.
        best: f64,
    },
}

/// All versions of a network, with the number of answers of each.
///
/// ```
/// use std::sync::Arc;
/// use dyno_npu::machine::{FetchStart, MachineLimits};
/// use dyno_npu::pass::Pass;
/// use dyno_npu::profile::{Block, NetworkProfile};
/// use dyno_npu::version::{NetworkVersion, VersionSet};
///
/// let limits = MachineLimits {
///     capacity: 100, depth: usize::MAX, switch: 0, ps_per_byte: 1.0,
///     fetch: FetchStart::Whole,
/// };
/// let version = |name: &str, accuracy, fetch| {
///     let blocks = vec![Block { compute: 5, fetch, bytes: fetch }];
///     let profile = NetworkProfile { blocks, ..NetworkProfile::default() };
///     let pass = Arc::new(Pass::new(&profile, limits).expect("the block takes time"));
///     NetworkVersion { name: name.to_owned(), accuracy, passes: vec![pass] }
/// };
/// let versions = VersionSet::new(vec![version("int8", 70.0, 25), version("fp16", 75.0, 50)], 72.0)?;
/// let best = versions.answers().next().map(|(version, _)| version.name.as_str());
/// assert_eq!(best, Some("fp16"));
/// # Ok::<(), dyno_npu::version::VersionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VersionSet {
    /// Most accurate first; at least one.
    all: Vec<NetworkVersion>,
    floor: f64,
    /// Sum of all answers' accuracy above the floor. At least 0.
    credit: f64,
    /// Answers of each version.
    answers: Vec<u64>,
}

impl VersionSet {
    /// Creates a set of versions. `floor` is the lower bound on the mean accuracy of the answers.
    ///
    /// # Errors
    /// Fails if there are no versions, their largest batches differ, an accuracy is not a finite number, or no version
    /// reaches the floor.
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

    /// Chooses a version for a batch of `requests` requests with this deadline, and returns its pass. `ends` returns
    /// when a pass would be computed.
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
        // Ties go to the most accurate version. The best version is always paid for.
        let soonest = || (0..self.all.len()).filter(is_paid).min_by_key(|&at| ends(at));
        let chosen = in_time.or_else(soonest).unwrap_or(0);
        // Rounding must not turn an exact payment into a debt.
        let credit = self.credit + count * (self.all[chosen].accuracy - self.floor);
        self.credit = credit.max(0.0);
        self.answers[chosen] += requests as u64;
        Arc::clone(&self.all[chosen].passes[requests - 1])
    }

    /// Returns all versions, most accurate first, with their numbers of answers.
    pub fn answers(&self) -> impl Iterator<Item = (&NetworkVersion, u64)> {
        self.all.iter().zip(self.answers.iter().copied())
    }

    /// Returns the mean accuracy of all answers; `None` before the first.
    pub fn accuracy(&self) -> Option<f64> {
        let count: u64 = self.answers.iter().sum();
        let sum: f64 =
            self.answers().map(|(version, answers)| version.accuracy * answers as f64).sum();
        (count > 0).then(|| sum / count as f64)
    }
}
