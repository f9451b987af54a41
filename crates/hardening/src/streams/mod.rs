//! Runs of text servers in virtual time: token streams, several tenants, and conversations, each judged
//! by an oracle from the documents.
//!
//! A [`Case`](case::Case) is drawn from a seed and a number. The simulated server answers with the bytes
//! of event streams, which the reader of Dyno's client reads. The [oracle] compares what the
//! server wrote down with the summary of Dyno.

pub mod answer;
pub mod case;
pub mod oracle;
pub mod play;
pub mod system;

use answer::Form;
use case::Case;
use play::{play, report};

use crate::oracle::Finding;
use crate::spread::spread;

/// Counts over many cases.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Runs played and judged.
    pub runs: u64,
    /// Cases whose settings Dyno rejects.
    pub refused: u64,
    /// Tenants of these runs.
    pub tenants: u64,
    /// Tenants with a VALID result.
    pub valid: u64,
    /// Tenants with conversations.
    pub conversations: u64,
    /// Answers by their [`Form`].
    pub injected: [u64; Form::ALL.len()],
    /// Failing cases, and what is wrong.
    pub failures: Vec<(u64, Vec<Finding>)>,
}

impl Tally {
    /// Plays and judges a case.
    pub fn add(&mut self, case: &Case) {
        let Some(run) = play(case) else {
            self.refused += 1;
            return;
        };
        self.runs += 1;
        let mut findings = Vec::new();
        for tenant in 0..case.tenants.len() {
            self.tenants += 1;
            self.conversations += u64::from(case.tenants[tenant].conversations.is_some());
            match report(&run, tenant) {
                Some(reported) => {
                    self.valid += u64::from(reported.is_valid);
                    let observed = &run.observed[tenant].requests;
                    findings.extend(oracle::judge(&run.settings[tenant], observed, &reported));
                }
                None => findings.push(Finding {
                    field: "result",
                    expected: "a result of each tenant".into(),
                    reported: format!("none of tenant {tenant}"),
                    rule: "tenants.md",
                }),
            }
        }
        for (sum, count) in self.injected.iter_mut().zip(run.injected) {
            *sum += count;
        }
        if !findings.is_empty() {
            self.failures.push((case.index, findings));
        }
    }

    fn join(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.refused += other.refused;
        self.tenants += other.tenants;
        self.valid += other.valid;
        self.conversations += other.conversations;
        for (sum, count) in self.injected.iter_mut().zip(other.injected) {
            *sum += count;
        }
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|(index, _)| *index);
        self
    }
}

/// Plays and judges these cases of a seed on `threads` threads.
#[must_use]
pub fn check_many(seed: u64, numbers: std::ops::Range<u64>, threads: usize) -> Tally {
    let add = |tally: &mut Tally, index| tally.add(&Case::draw(seed, index));
    spread(numbers, threads, add, Tally::join)
}
