//! Coverage: how often the intervals and verdicts that Dyno publishes are right, on data whose truth
//! is known in closed form.
//!
//! Each [`Case`] is repeated many times. A trial draws data, lets Dyno compute what it publishes,
//! and compares that with the truth, which [`law`] states without any code of Dyno.
//!
//! ```
//! use dyno_hardening::coverage::{Claim, cases, measure};
//!
//! let cases = cases();
//! let median = cases.iter().find(|case| case.claim == Claim::Holds).expect("some hold");
//! let observed = measure(median, 1, 50, 1);
//! assert_eq!(observed.trials(), 50);
//! assert!(observed.coverage() > 0.8);
//! ```

pub mod comparison;
pub mod counts;
pub mod early_stopping;
pub mod growth;
pub mod law;
pub mod peak;
pub mod requirement;
pub mod single_run;

pub use counts::{Counts, Trial};

use crate::rng::Stream;
use crate::spread::spread;

/// What is claimed of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The truth is contained at least as often as published.
    Holds,
    /// It is contained almost as often as published: at most [`SHORTFALL`] less often.
    Nearly,
    /// The statistics fail: the data break an assumption of theirs.
    Fails,
}

/// Largest shortfall of [`Claim::Nearly`].
pub const SHORTFALL: f64 = 0.03;

/// Deviations of the binomial limits at which a claim is contradicted: 1 of 2,000 cases by chance.
const CONTRADICTED: f64 = 3.29;

/// Deviations of the binomial limits in tables: 95 %.
pub const SHOWN: f64 = 1.959_964;

/// Work of one trial.
type Work = Box<dyn Fn(&mut Stream) -> Trial + Sync>;

/// An interval or verdict of Dyno on data of one kind.
pub struct Case {
    /// What Dyno publishes.
    pub statement: String,
    /// The data.
    pub data: String,
    /// Published probability of being right.
    pub nominal: f64,
    /// What is claimed.
    pub claim: Claim,
    work: Work,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} | {}", self.statement, self.data)
    }
}

impl Case {
    /// Returns a case.
    pub fn new(
        (statement, data): (impl Into<String>, impl Into<String>),
        nominal: f64,
        claim: Claim,
        work: impl Fn(&mut Stream) -> Trial + Sync + 'static,
    ) -> Self {
        let (statement, data) = (statement.into(), data.into());
        Self { statement, data, nominal, claim, work: Box::new(work) }
    }

    /// Returns whether counts contradict the claim of the case. [`Claim::Fails`] is contradicted by
    /// statistics that hold.
    pub fn is_contradicted(&self, observed: &Counts) -> bool {
        let (low, high) = observed.limits(CONTRADICTED);
        match self.claim {
            Claim::Holds => high < self.nominal,
            Claim::Nearly => high < self.nominal - SHORTFALL,
            Claim::Fails => low >= self.nominal,
        }
    }
}

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let mut all = single_run::cases();
    all.extend(requirement::cases());
    all.extend(early_stopping::cases());
    all.extend(comparison::cases());
    all.extend(peak::cases());
    all.extend(growth::cases());
    all
}

/// Returns the counts of `trials` trials of a case on `threads` threads. They depend only on the
/// seed and on the case.
pub fn measure(case: &Case, seed: u64, trials: u64, threads: usize) -> Counts {
    let seed = seed ^ fingerprint(&format!("{case:?}"));
    let add = |observed: &mut Counts, trial| {
        observed.add((case.work)(&mut Stream::new(seed, trial, 0)));
    };
    spread(0..trials, threads, add, Counts::join)
}

/// Returns a number for a text (FNV-1a), so that the draws of a case do not depend on other cases.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}
