//! Conditions that two tests must share to be comparable.

use std::collections::BTreeMap;

use dyno_results::summary::{self, Data, Plan, Setting};
use dyno_results::{foreign, units};

use super::compared_run::ComparedRun;

use crate::failure::Failure;
use crate::options::are_stages;
use crate::outcome::{plan_of, settings};
use crate::run::PreparedRun;
use crate::test::{PlannedTest, TestTenant};

/// The conditions of a test that was played or will be played.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// Such as `Server`.
    pub scenario: String,
    /// Name of the tenant, if it has one.
    pub tenant: Option<String>,
    /// Name in the result of another tool, if this or another compared run has several tests of the
    /// scenario.
    pub name: Option<String>,
    /// The data set; its name is empty if another tool does not report it.
    pub data: Data,
    /// The plan that follows from the settings.
    pub plan: Plan,
    /// Length of the ramp before the measured part, ns; 0 without one, `None` if unknown.
    pub ramp_ns: Option<u64>,
    /// Settings that select the samples of the performance set, empty for a random selection; `None`
    /// if unknown.
    pub selection: Option<String>,
    /// Whether the run has an accuracy test of the scenario; `None` if unknown.
    pub has_accuracy: Option<bool>,
}

/// Settings that select the samples of queries.
const SELECTION: [&str; 4] = [
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "sample_concatenate_permutation",
];

/// Returns the settings that select samples, such as `performance_issue_same=true`.
fn selection(settings: &BTreeMap<String, Setting>) -> String {
    let set = SELECTION.iter().filter_map(|key| Some((key, &settings.get(*key)?.value)));
    let chosen = set.filter(|(_, value)| !matches!(value.as_str(), "false" | "0"));
    chosen.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

impl Conditions {
    /// Returns the conditions of a finished test.
    pub fn from_test(test: &summary::Test) -> Self {
        let excluded = test.metrics.as_ref().map(|metrics| metrics.excluded.as_ref());
        // Summaries of earlier versions have the size of the library in place of a smaller set.
        let chosen = test.settings.get("performance_sample_count_override");
        let chosen = chosen.and_then(|set| set.value.parse().ok()).filter(|count| *count > 0);
        let performance = chosen.unwrap_or(test.data.performance);
        Self {
            scenario: test.scenario.clone(),
            tenant: test.tenant.clone(),
            name: None,
            data: Data { performance, ..test.data.clone() },
            plan: test.plan.clone(),
            ramp_ns: excluded.map(|excluded| excluded.map_or(0, |excluded| excluded.ramp_ns)),
            selection: Some(selection(&test.settings)),
            has_accuracy: None,
        }
    }

    /// Returns the conditions of tests that will be played.
    pub fn planned(prepared: &PreparedRun, tests: &[PlannedTest]) -> Vec<Self> {
        let library = &prepared.system.library;
        let data = Data {
            name: library.name().into(),
            total: library.total_sample_count() as u64,
            performance: library.performance_sample_count() as u64,
            workload: prepared.system.workload.clone(),
            files: prepared.system.files.clone(),
            shapes: prepared.system.shapes(),
        };
        let stages = prepared.options.run.stages.as_ref();
        let of = |test: &PlannedTest, tenant: &TestTenant| {
            let mut plan = plan_of(&tenant.plan, &tenant.settings);
            if let (Some(stages), Some(arrivals)) = (stages, &mut plan.arrivals) {
                *arrivals = stages.arrivals_name();
            }
            Self {
                scenario: test.scenario.name().into(),
                tenant: tenant.name.clone(),
                name: None,
                data: Data { performance: tenant.plan.performance_sample_count, ..data.clone() },
                plan,
                ramp_ns: Some(tenant.plan.ramp),
                selection: Some(selection(&settings(&tenant.settings))),
                has_accuracy: None,
            }
        };
        tests
            .iter()
            .flat_map(|test| test.tenants.iter().map(move |t| (test, t)))
            .map(|(test, tenant)| of(test, tenant))
            .collect()
    }

    /// Returns the conditions of a test of another tool.
    pub fn foreign(test: &foreign::Test, is_only: bool) -> Self {
        Self {
            scenario: test.scenario.clone(),
            tenant: None,
            name: (!is_only).then(|| test.title.clone()),
            data: test.data.clone(),
            plan: test.plan.clone(),
            ramp_ns: None,
            selection: None,
            has_accuracy: None,
        }
    }

    /// Returns a title such as `Server` or `Server of tenant a`.
    pub fn title(&self) -> String {
        match (&self.tenant, &self.name) {
            (None, None) => self.scenario.clone(),
            (None, Some(name)) => format!("{}, {name}", self.scenario),
            (Some(name), _) => format!("{} of tenant {name}", self.scenario),
        }
    }

    /// Returns whether the data set, and with it the bounds, are known.
    fn is_told(&self) -> bool {
        !self.data.name.is_empty()
    }
}

/// A condition that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The test and the condition.
    pub what: String,
    /// Value of the baseline.
    pub baseline: String,
    /// Value of the candidate.
    pub candidate: String,
    /// Whether `--force` overrides the difference.
    pub may_be_forced: bool,
}

/// A bound of a plan.
type Bound = fn(&Plan) -> Option<u64>;

const BOUNDS: [(&str, Bound); 3] = [
    ("latency bound", |plan| plan.latency_bound_ns),
    ("bound of the first token", |plan| plan.first_token_bound_ns),
    ("bound of the time per token", |plan| plan.time_per_output_token_bound_ns),
];

fn time(ns: Option<u64>) -> String {
    ns.map_or("none".into(), units::bound)
}

/// Returns whether a number of requests in flight determines the arrivals, so that there is no rate.
fn is_closed_loop(plan: &Plan) -> bool {
    plan.arrivals.as_ref().is_some_and(|arrivals| arrivals.starts_with("concurrency"))
}

/// Returns the conditions of the arrivals of two Server tests, with the values of both. Arrivals that
/// another tool does not record are not compared.
fn of_arrivals(a: &Conditions, b: &Conditions) -> Vec<(&'static str, String, String)> {
    let has_stages = |plan: &Plan| are_stages(plan.arrivals.as_deref());
    let mut found = Vec::new();
    if let (Some(of_a), Some(of_b)) = (&a.plan.arrivals, &b.plan.arrivals) {
        // The rate of stages is that of the drawn arrivals, which depends on the seed. Their plan is
        // the stages themselves.
        let have_stages = has_stages(&a.plan) && has_stages(&b.plan);
        if !have_stages && !is_closed_loop(&a.plan) && !is_closed_loop(&b.plan) {
            let rate = |plan: &Plan| format!("{}/s", units::rate(plan.target_qps));
            found.push(("arrival rate", rate(&a.plan), rate(&b.plan)));
        }
        found.push(("arrivals", of_a.clone(), of_b.clone()));
    }
    if let (Some(a), Some(b)) = (a.ramp_ns, b.ramp_ns) {
        let ramp = |ns: u64| time(Some(ns).filter(|&ns| ns > 0));
        found.push(("ramp", ramp(a), ramp(b)));
    }
    found
}

/// Returns whether two tests have the same known load.
pub fn have_same_load(a: &Conditions, b: &Conditions) -> bool {
    let is_known = |of: &Conditions| of.scenario != "Server" || of.plan.arrivals.is_some();
    let is_same = |(_, a, b): &(&str, String, String)| a == b;
    a.scenario == b.scenario
        && is_known(a)
        && is_known(b)
        && (a.scenario != "Server" || of_arrivals(a, b).iter().all(is_same))
}

/// Uses of files that do not change the samples.
const JUDGING: [&str; 2] = ["labels", "reference"];

/// Returns how the data sets of two tests are identified: by the contents of their files, or by
/// their names if a run of an earlier version, or data without files, has no hashes.
fn of_data(a: &Data, b: &Data) -> Vec<(&'static str, String, String)> {
    if a.files.is_empty() || b.files.is_empty() {
        return vec![("data set", a.name.clone(), b.name.clone())];
    }
    let samples = |data: &Data| -> Vec<(String, String)> {
        let files = data.files.iter().filter(|(name, _)| !JUDGING.contains(&name.as_str()));
        files.map(|(name, hash)| (name.clone(), hash.clone())).collect()
    };
    let (mut of_a, of_b) = (samples(a), samples(b));
    // The name of the only input may be omitted.
    if let ([(a, _)], [(b, _)]) = (&mut of_a[..], &of_b[..]) {
        a.clone_from(b);
    }
    let mut found = Vec::new();
    // The requests to servers contain these hashes.
    let are_servers = a.workload.is_some() && b.workload.is_some();
    if of_a != of_b && !are_servers {
        let text = |data: &Data, files: Vec<(String, String)>| {
            let hashes: Vec<String> = files.into_iter().map(|(_, hash)| hash).collect();
            format!("{} ({})", data.name, hashes.join(", "))
        };
        found.push(("data set", text(a, of_a), text(b, of_b)));
    }
    for what in JUDGING {
        if let (Some(of_a), Some(of_b)) = (a.files.get(what), b.files.get(what)) {
            found.push((what, of_a.clone(), of_b.clone()));
        }
    }
    found
}

/// Returns the dimensions of each input of samples without files, both in order of their size: two
/// models may name inputs and order axes differently. `None` if samples come from files, or are no
/// tensors.
fn dimensions(data: &Data) -> Option<String> {
    if !data.files.is_empty() || data.shapes.is_empty() {
        return None;
    }
    let mut inputs: Vec<Vec<u64>> = data.shapes.iter().map(|input| input.shape.clone()).collect();
    inputs.iter_mut().for_each(|shape| shape.sort_unstable());
    inputs.sort_unstable();
    let text = |shape: &Vec<u64>| shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
    Some(inputs.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// Returns the differences between two tests of one scenario.
pub fn of_tests(a: &Conditions, b: &Conditions) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |what: &str, baseline: String, candidate: String, may_be_forced| {
        if baseline != candidate {
            let what = format!("{}: {what}", a.title());
            found.push(Difference { what, baseline, candidate, may_be_forced });
        }
    };
    let (of_a, of_b) = (&a.plan, &b.plan);
    if a.is_told() && b.is_told() {
        for (what, baseline, candidate) in of_data(&a.data, &b.data) {
            compare(what, baseline, candidate, false);
        }
        if let (Some(of_a), Some(of_b)) = (dimensions(&a.data), dimensions(&b.data)) {
            compare("shapes of random samples", of_a, of_b, true);
        }
        let size = |test: &Conditions| format!("{} samples", units::count(test.data.total));
        compare("size of the data set", size(a), size(b), false);
        if let (Some(of_a), Some(of_b)) = (&a.data.workload, &b.data.workload) {
            let named =
                |keys: &str| if keys.is_empty() { "the defaults".into() } else { keys.to_owned() };
            compare("requests", named(of_a), named(of_b), true);
        }
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
    if let (Some(a), Some(b)) = (&a.selection, &b.selection) {
        let shown = |set: &str| String::from(if set.is_empty() { "random" } else { set });
        compare("selection of samples", shown(a), shown(b), true);
        // Of a repetition, the lowest run is compared.
        let repetition = |plan: &Plan| plan.repetition.clone().unwrap_or_else(|| "once".into());
        compare("repetition", repetition(of_a), repetition(of_b), true);
    }
    if a.scenario == "Server" {
        for (what, baseline, candidate) in of_arrivals(a, b) {
            compare(what, baseline, candidate, true);
        }
    }
    if let (Some(a), Some(b)) = (a.has_accuracy, b.has_accuracy) {
        let word = |has: bool| String::from(if has { "yes" } else { "none" });
        compare("accuracy test", word(a), word(b), true);
    }
    if a.scenario == "MultiStream" {
        compare("interval", time(of_a.interval_ns), time(of_b.interval_ns), true);
    }
    // The number of samples of the one Offline query follows from the length of the test.
    if a.scenario != "Offline" {
        let samples = |n: u64| n.to_string();
        let (of_a, of_b) = (of_a.samples_per_query, of_b.samples_per_query);
        compare("samples per query", samples(of_a), samples(of_b), true);
    }
    found
}

/// Returns the difference between the tests of two runs, from their titles. Tenants load the system
/// together, and a missing scenario may be the one that became worse.
pub fn of_titles(a: &[String], b: &[String]) -> Option<Difference> {
    let [a, b] = [a, b].map(|titles| {
        let mut titles = titles.to_vec();
        titles.sort();
        titles.join(", ")
    });
    (a != b).then(|| Difference {
        what: "tests".into(),
        baseline: a,
        candidate: b,
        may_be_forced: true,
    })
}

/// Returns the difference between two runs as a whole.
pub fn of_runs(a: &ComparedRun, b: &ComparedRun) -> Option<Difference> {
    (a.time != b.time).then(|| Difference {
        what: "time".into(),
        baseline: a.time.clone(),
        candidate: b.time.clone(),
        may_be_forced: false,
    })
}

/// Returns remarks on differences that do not prevent a comparison.
pub fn remarks(a: &ComparedRun, b: &ComparedRun) -> Vec<String> {
    let mut remarks = Vec::new();
    let pairs = [("machines", &a.machine, &b.machine), ("builds", &a.build, &b.build)];
    for (what, of_a, of_b) in pairs {
        // Other tools do not report these.
        if of_a != of_b && !of_a.is_empty() && !of_b.is_empty() {
            remarks.push(format!("different {what}: {of_a} and {of_b}"));
        }
    }
    remarks.extend(a.remarks.iter().chain(&b.remarks).cloned());
    remarks
}

/// Returns one line per difference.
fn lines(differences: &[Difference]) -> Vec<String> {
    let line = |d: &Difference| format!("{}: {} against {}", d.what, d.baseline, d.candidate);
    let mut lines: Vec<String> = differences.iter().map(line).collect();
    lines.dedup();
    lines
}

/// Rejects sides whose conditions differ. Returns a remark for each difference that `--force`
/// overrides.
///
/// # Errors
/// The differences, with a hint if `--force` can override them.
pub fn refuse(found: Vec<Difference>, is_forced: bool) -> Result<Vec<String>, Failure> {
    let (forced, refused): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|difference| is_forced && difference.may_be_forced);
    if refused.is_empty() {
        let lines = lines(&forced);
        return Ok(lines.into_iter().map(|line| format!("forced despite {line}")).collect());
    }
    let may_be_forced = refused.iter().all(|difference| difference.may_be_forced);
    let mut problems = vec!["the runs cannot be compared: their conditions differ".to_string()];
    problems.extend(lines(&refused));
    let failure = Failure::usages(problems);
    Err(if may_be_forced {
        failure.hint("--force compares them anyway, with a note")
    } else {
        failure.hint("run both sides with the same data, both in real or both in virtual time")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(name: &str, files: &[(&str, &str)]) -> Data {
        let files = files.iter().map(|(name, hash)| ((*name).into(), (*hash).into())).collect();
        Data { name: name.into(), files, ..Data::default() }
    }

    fn differ(a: &Data, b: &Data) -> Vec<&'static str> {
        let found = of_data(a, b).into_iter().filter(|(_, a, b)| a != b);
        found.map(|(what, _, _)| what).collect()
    }

    #[test]
    fn files_are_compared_by_their_bytes_and_by_name_without_hashes() {
        let first = data("x", &[("data", "1a"), ("labels", "2b")]);
        let none: [&str; 0] = [];
        assert_eq!(differ(&first, &data("y", &[("data", "1a"), ("labels", "2b")])), none);
        assert_eq!(differ(&first, &data("x", &[("data", "3c"), ("labels", "2b")])), ["data set"]);
        assert_eq!(differ(&first, &data("x", &[("data", "1a"), ("labels", "4d")])), ["labels"]);
        // A run without labels has the same samples, also if its input is named.
        assert_eq!(differ(&first, &data("x", &[("data ids", "1a")])), none);
        let two = data("x", &[("data a", "1a"), ("data b", "3c")]);
        assert_eq!(differ(&two, &data("x", &[("data a", "3c"), ("data b", "1a")])), ["data set"]);
        // A run of an earlier version.
        assert_eq!(differ(&first, &data("x", &[])), none);
        assert_eq!(differ(&first, &data("y", &[])), ["data set"]);
    }

    fn server(arrivals: Option<&str>, target_qps: f64) -> Conditions {
        Conditions {
            scenario: "Server".into(),
            tenant: None,
            name: None,
            data: Data::default(),
            plan: Plan { arrivals: arrivals.map(str::to_owned), target_qps, ..Plan::default() },
            ramp_ns: None,
            selection: None,
            has_accuracy: None,
        }
    }

    #[test]
    fn a_load_that_is_not_recorded_is_no_difference() {
        let poisson = server(Some("poisson"), 10.0);
        assert_eq!(of_tests(&server(None, 0.0), &poisson), []);
        assert!(!have_same_load(&server(None, 0.0), &poisson));
        let found = of_tests(&server(Some("poisson"), 20.0), &poisson);
        assert_eq!(found[0].what, "Server: arrival rate");
    }

    #[test]
    fn bounds_that_three_digits_do_not_tell_apart_differ() {
        let bounded = |bound| {
            let mut test = server(Some("poisson"), 10.0);
            test.data.name = "a set".into();
            test.plan.latency_bound_ns = Some(bound);
            test
        };
        assert_eq!(of_tests(&bounded(50_000_000), &bounded(50_000_000)), []);
        let found = of_tests(&bounded(50_000_000), &bounded(50_040_000));
        let shown: Vec<[&str; 2]> =
            found.iter().map(|of| [&*of.baseline, &*of.candidate]).collect();
        assert_eq!(shown, [["50.0 ms", "50.04 ms"]]);
    }

    #[test]
    fn a_fixed_concurrency_has_no_rate() {
        // The rates are defaults that mean nothing.
        let [ours, theirs] = [1.0, 0.0].map(|rate| server(Some("concurrency:8"), rate));
        assert_eq!(of_tests(&ours, &theirs), []);
        assert!(have_same_load(&ours, &theirs));
        let found = of_tests(&ours, &server(Some("poisson"), 10.0));
        let what: Vec<&str> = found.iter().map(|difference| &*difference.what).collect();
        assert_eq!(what, ["Server: arrivals"]);
    }
}
