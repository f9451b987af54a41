//! Runs in virtual time with faults, each judged by the oracle.
//!
//! A [`Case`] is drawn from a seed and a number. [`play`](play::play) plays it through Dyno's
//! session, record, metrics and verdict. The [oracle](crate::oracle) compares what the simulated
//! system wrote down with what Dyno reports.

pub mod case;
pub mod late_client;
pub mod law;
pub mod play;
pub mod shrink;
pub mod system;

use case::{Case, Fault, Simplification};
use play::{Client, play, report};

use crate::oracle::{self, Finding, judge};
use crate::spread::spread;

/// Outcome of one case.
#[derive(Debug)]
pub enum CaseResult {
    /// Dyno rejects the settings.
    Refused,
    /// The run was played and judged.
    Judged {
        /// Whether Dyno called it VALID.
        is_valid: bool,
        /// Faults that happened, by [`Fault`].
        injected: [u64; Fault::ALL.len()],
        /// Contradictions; none if Dyno is right.
        findings: Vec<Finding>,
    },
}

/// Every this many cases, both drivers play a case without a faulty client and must record the same.
const COMPARED: u64 = 8;

/// Plays and judges a case.
#[must_use]
pub fn check(case: &Case) -> CaseResult {
    let client = if case.has_faulty_client() { Client::Late } else { Client::Prompt };
    let Some(played) = play(case, client) else { return CaseResult::Refused };
    let reported = report(&played.run);
    let mut findings = judge(&played.settings, &played.observed, &reported);
    if client == Client::Prompt && case.index.is_multiple_of(COMPARED) {
        let other = play(case, Client::Late);
        let same = other.is_some_and(|other| {
            (&other.run.record, other.run.ended, other.run.finished_at)
                == (&played.run.record, played.run.ended, played.run.finished_at)
        });
        if !same {
            findings.push(Finding {
                field: "record",
                expected: "the same record from both drivers".into(),
                reported: format!("different records; the run ended by {:?}", played.run.ended),
                rule: "a driver has no rule (ARCHITECTURE.md, invariant 9)",
            });
        }
    }
    findings.extend(internal_findings(&played));
    CaseResult::Judged { is_valid: reported.is_valid, injected: played.injected, findings }
}

/// Returns contradictions between the record and what the system observed.
fn internal_findings(played: &play::SimulatedRun) -> Option<Finding> {
    let record = &played.run.record;
    let own = played.observed.queries.iter().flat_map(|q| q.samples.iter().map(|s| s.1));
    let differs = !own.eq(record.indices.iter().map(|&index| u64::from(index)));
    differs.then(|| Finding {
        field: "indices",
        expected: "the samples that the system received".into(),
        reported: "others".into(),
        rule: "a record holds what was issued",
    })
}

/// Counts over many cases.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Runs played and judged.
    pub runs: u64,
    /// Cases whose settings Dyno rejects.
    pub refused: u64,
    /// Runs that Dyno called VALID.
    pub valid: u64,
    /// Faults that happened, by [`Fault`].
    pub injected: [u64; Fault::ALL.len()],
    /// Runs with at least one such fault.
    pub runs_with: [u64; Fault::ALL.len()],
    /// Failing cases: their number and what is wrong, at most [`MOST_FAILURES`].
    pub failures: Vec<(u64, Vec<Finding>)>,
    /// Number of failing cases.
    pub failed: u64,
}

/// Most failures that a [`Tally`] holds.
pub const MOST_FAILURES: usize = 50;

impl Tally {
    fn add(&mut self, index: u64, result: CaseResult) {
        let CaseResult::Judged { is_valid, injected, findings } = result else {
            self.refused += 1;
            return;
        };
        self.runs += 1;
        self.valid += u64::from(is_valid);
        for (kind, count) in injected.into_iter().enumerate() {
            self.injected[kind] += count;
            self.runs_with[kind] += u64::from(count > 0);
        }
        if !findings.is_empty() {
            self.failed += 1;
            if self.failures.len() < MOST_FAILURES {
                self.failures.push((index, findings));
            }
        }
    }

    fn join(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.refused += other.refused;
        self.valid += other.valid;
        self.failed += other.failed;
        for kind in 0..self.injected.len() {
            self.injected[kind] += other.injected[kind];
            self.runs_with[kind] += other.runs_with[kind];
        }
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|(index, _)| *index);
        self.failures.truncate(MOST_FAILURES);
        self
    }
}

/// Plays and judges `runs` cases of a seed on `threads` threads. `progress` receives the number of
/// finished cases now and then.
#[must_use]
pub fn check_many(seed: u64, runs: u64, threads: usize, progress: &(dyn Fn(u64) + Sync)) -> Tally {
    const PROGRESS_EVERY: u64 = 64;
    let add = |tally: &mut Tally, index: u64| {
        let case = Case::draw(seed, index, &Simplification::default());
        tally.add(index, check(&case));
        if index.is_multiple_of(PROGRESS_EVERY) {
            progress(index);
        }
    };
    spread(0..runs, threads, add, Tally::join)
}

/// Returns the findings of the oracle on a report, for tests that alter the report.
#[must_use]
pub fn findings_of(played: &play::SimulatedRun, reported: &oracle::RunReport) -> Vec<Finding> {
    judge(&played.settings, &played.observed, reported)
}
