//! What two tests must have in common for a comparison to mean anything.

use dyno_results::summary::{self, Data, Plan};
use dyno_results::{foreign, units};

use super::source::Played;

use crate::failure::Failure;
use crate::outcome::plan_of;
use crate::run::Prepared;
use crate::test::{Test, TestTenant};

/// What a test was, or is to be, played with.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// Such as `Server`.
    pub scenario: String,
    /// If it has a name.
    pub tenant: Option<String>,
    /// What another tool calls it, if there are several of the scenario.
    pub name: Option<String>,
    /// What it runs on; without a name if another tool does not tell.
    pub data: Data,
    /// What its settings mean.
    pub plan: Plan,
}

impl Conditions {
    /// Of a test that is over.
    pub fn of(test: &summary::Test) -> Self {
        Self {
            scenario: test.scenario.clone(),
            tenant: test.tenant.clone(),
            name: None,
            data: test.data.clone(),
            plan: test.plan.clone(),
        }
    }

    /// Of tests that are to be played.
    pub fn planned(prepared: &Prepared, tests: &[Test]) -> Vec<Self> {
        let library = &prepared.system.library;
        let data = Data {
            name: library.name().into(),
            total: library.total_sample_count() as u64,
            performance: library.performance_sample_count() as u64,
            shapes: prepared.system.shapes(),
        };
        let of = |test: &Test, tenant: &TestTenant| Self {
            scenario: test.scenario.name().into(),
            tenant: tenant.name.clone(),
            name: None,
            data: data.clone(),
            plan: plan_of(&tenant.plan, &tenant.settings),
        };
        tests
            .iter()
            .flat_map(|test| test.tenants.iter().map(move |t| (test, t)))
            .map(|(test, tenant)| of(test, tenant))
            .collect()
    }

    /// Of a test of another tool.
    pub fn foreign(test: &foreign::Test, is_only: bool) -> Self {
        Self {
            scenario: test.scenario.clone(),
            tenant: None,
            name: (!is_only).then(|| test.title.clone()),
            data: test.data.clone(),
            plan: test.plan.clone(),
        }
    }

    /// Such as `Server` or `Server of tenant a`.
    pub fn title(&self) -> String {
        match (&self.tenant, &self.name) {
            (None, None) => self.scenario.clone(),
            (None, Some(name)) => format!("{}, {name}", self.scenario),
            (Some(name), _) => format!("{} of tenant {name}", self.scenario),
        }
    }

    /// Whether it tells what it was run on, and with it its bounds.
    fn is_told(&self) -> bool {
        !self.data.name.is_empty()
    }
}

/// A condition that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Of the test, and of what.
    pub what: String,
    /// Of the baseline.
    pub baseline: String,
    /// Of the candidate.
    pub candidate: String,
    /// Whether `--force` compares nevertheless.
    pub may_be_forced: bool,
}

/// A bound of a plan.
type Bound = fn(&Plan) -> Option<u64>;

const BOUNDS: [(&str, Bound); 3] = [
    ("latency bound", |plan| plan.latency_bound_ns),
    ("bound of the first token", |plan| plan.first_token_bound_ns),
    ("bound of the time per token", |plan| plan.time_per_output_token_bound_ns),
];

/// What differs between two tests of one scenario.
pub fn of_tests(a: &Conditions, b: &Conditions) -> Vec<Difference> {
    let time = |ns: Option<u64>| ns.map_or("none".into(), |ns| units::duration(ns.cast_signed()));
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
    let mut found = Vec::new();
    let mut compare = |what: &str, baseline: String, candidate: String, may_be_forced| {
        if baseline != candidate {
            let what = format!("{}: {what}", a.title());
            found.push(Difference { what, baseline, candidate, may_be_forced });
        }
    };
    let (of_a, of_b) = (&a.plan, &b.plan);
    if a.is_told() && b.is_told() {
        compare("data set", a.data.name.clone(), b.data.name.clone(), false);
        let size = |test: &Conditions| format!("{} samples", units::count(test.data.total));
        compare("size of the data set", size(a), size(b), false);
        let loaded = |test: &Conditions| format!("{} samples", units::count(test.data.performance));
        compare("performance set", loaded(a), loaded(b), true);
        let percentile = |p: f64| units::percentile(p);
        compare(
            "target percentile",
            percentile(of_a.percentile),
            percentile(of_b.percentile),
            true,
        );
        for (what, of) in BOUNDS {
            compare(what, time(of(of_a)), time(of(of_b)), true);
        }
    }
    if a.scenario == "Server" {
        let rate = |qps: f64| format!("{}/s", units::rate(qps));
        compare("arrival rate", rate(of_a.target_qps), rate(of_b.target_qps), true);
        compare("arrivals", text(&of_a.arrivals), text(&of_b.arrivals), true);
    }
    // The one query of Offline holds as many samples as the test lasts.
    if a.scenario != "Offline" {
        let samples = |n: u64| n.to_string();
        let (of_a, of_b) = (of_a.samples_per_query, of_b.samples_per_query);
        compare("samples in a query", samples(of_a), samples(of_b), true);
    }
    found
}

/// What differs between two runs as a whole.
pub fn of_runs(a: &Played, b: &Played) -> Option<Difference> {
    (a.time != b.time).then(|| Difference {
        what: "time".into(),
        baseline: a.time.clone(),
        candidate: b.time.clone(),
        may_be_forced: false,
    })
}

/// What a reader should know of two runs that are compared all the same.
pub fn remarks(a: &Played, b: &Played) -> Vec<String> {
    let mut remarks = Vec::new();
    let pairs = [("machines", &a.machine, &b.machine), ("builds", &a.build, &b.build)];
    for (what, of_a, of_b) in pairs {
        // Other tools do not tell.
        if of_a != of_b && !of_a.is_empty() && !of_b.is_empty() {
            remarks.push(format!("the {what} differ: {of_a} against {of_b}"));
        }
    }
    remarks.extend(a.remarks.iter().chain(&b.remarks).cloned());
    remarks
}

/// What differs, a line each.
fn lines(differences: &[Difference]) -> Vec<String> {
    let line = |d: &Difference| format!("{}: {} against {}", d.what, d.baseline, d.candidate);
    let mut lines: Vec<String> = differences.iter().map(line).collect();
    lines.dedup();
    lines
}

/// Refuses sides whose conditions differ; what is forced is a remark.
///
/// # Errors
/// What differs, and whether that can be forced.
pub fn refuse(found: Vec<Difference>, is_forced: bool) -> Result<Vec<String>, Failure> {
    let (forced, refused): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|difference| is_forced && difference.may_be_forced);
    if refused.is_empty() {
        let lines = lines(&forced);
        return Ok(lines.into_iter().map(|line| format!("forced in spite of {line}")).collect());
    }
    let may_be_forced = refused.iter().all(|difference| difference.may_be_forced);
    let mut problems = vec!["the runs cannot be compared: their conditions differ".to_string()];
    problems.extend(lines(&refused));
    let failure = Failure::usages(problems);
    Err(match may_be_forced {
        true => failure.hint("--force compares them all the same, and says so"),
        false => failure.hint("play both sides with the same data, in the same kind of time"),
    })
}
