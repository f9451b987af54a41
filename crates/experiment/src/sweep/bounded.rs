//! Judges which points of a sweep keep a bound on the p99, with the confidence of `--require`.

use std::path::Path;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare::RISK;
use dyno_loadgen::compare::bound::{self, Finding};
use dyno_loadgen::settings::Scenario;
use dyno_results::records::{self, Records};
use dyno_results::summary::{self, RequirementFinding};
use dyno_results::sweep::{Row, Sweep, rows};

/// A bound on the p99, and which combinations keep it.
#[derive(Debug, Clone)]
pub struct BoundedSweep {
    /// The bound, ns.
    pub bound: Nanos,
    /// One entry per combination and scenario.
    pub rows: Vec<BoundedRow>,
}

/// Whether a combination keeps the bound in one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundedRow {
    /// Name of the combination.
    pub name: String,
    /// Scenario.
    pub scenario: String,
    /// Tenant, if it has a name.
    pub tenant: Option<String>,
    /// Met if every repeat is; missed also if a repeat is not VALID.
    pub finding: RequirementFinding,
    /// Further queries that would decide it, if it is undecided and the share over the bound stays.
    pub more_queries: Option<u64>,
}

impl BoundedSweep {
    /// Judges all combinations by the records of their runs. Each of the combinations of a scenario may be
    /// the one that passes, so they share the risk of error.
    pub fn judge(directory: &Path, sweep: &Sweep, bound: Nanos) -> Self {
        let mut all = rows(sweep);
        // A point without results has no scenario.
        all.retain(|row| !row.scenario.is_empty());
        let judged = |row: &Row| {
            let combinations = all.iter().filter(|other| is_of(other, row)).count();
            let risk = RISK / combinations as f64;
            let (finding, more_queries) = of_row(directory, sweep, row, bound, risk);
            let (name, scenario) = (row.name.clone(), row.scenario.clone());
            BoundedRow { name, scenario, tenant: row.tenant.clone(), finding, more_queries }
        };
        Self { bound, rows: all.iter().map(judged).collect() }
    }

    /// Returns whether a combination of each scenario and tenant keeps the bound.
    pub fn is_met(&self) -> bool {
        self.rows.iter().all(|row| {
            let is_same =
                |other: &&BoundedRow| other.scenario == row.scenario && other.tenant == row.tenant;
            let mut same = self.rows.iter().filter(is_same);
            same.any(|other| other.finding == RequirementFinding::Met)
        })
    }

    /// Returns the entry of a row.
    pub fn entry(&self, row: &Row) -> Option<&BoundedRow> {
        self.rows.iter().find(|found| {
            found.name == row.name && found.scenario == row.scenario && found.tenant == row.tenant
        })
    }
}

fn is_of(a: &Row, b: &Row) -> bool {
    a.scenario == b.scenario && a.tenant == b.tenant
}

/// Returns the worst finding of the repeats, and the most further queries that one needs.
fn of_row(
    directory: &Path,
    sweep: &Sweep,
    row: &Row,
    bound: Nanos,
    risk: f64,
) -> (RequirementFinding, Option<u64>) {
    if !row.is_valid() {
        return (RequirementFinding::Missed, None);
    }
    let (mut worst, mut more) = (RequirementFinding::Met, None);
    for point in sweep.points.iter().filter(|point| point.assignments == row.assignments) {
        let judgment = of_run(&directory.join(&point.folder), row, bound, risk);
        match judgment.as_ref().map(|judgment| judgment.finding) {
            Some(Finding::Met) => {}
            Some(Finding::Missed) => return (RequirementFinding::Missed, None),
            Some(Finding::Undecided) | None => {
                worst = RequirementFinding::Undecided;
                more = more.max(judgment.and_then(|judgment| judgment.more));
            }
        }
    }
    (worst, more)
}

/// Returns the judgment of a run; `None` without its records, and in Offline, where latencies grow with the
/// number of samples.
fn of_run(folder: &Path, row: &Row, bound: Nanos, risk: f64) -> Option<bound::Judgment> {
    if row.scenario == Scenario::Offline.name() {
        return None;
    }
    let run = summary::Run::read(folder).ok()?;
    let test = run.tests.iter().find(|test| {
        test.mode == "performance" && test.scenario == row.scenario && test.tenant == row.tenant
    })?;
    let records = Records::read(&folder.join(&test.folder).join(records::FILE)).ok()?;
    let latencies = records.observation().latency;
    if latencies.is_empty() {
        return None;
    }
    let mut judgment = bound::find_times(&latencies, ALLOWED, bound, risk);
    judgment.more = judgment.more.map(|more| more.saturating_mul(records.stride));
    Some(judgment)
}

/// Share of queries that may be over a bound on the p99.
const ALLOWED: f64 = 0.01;
