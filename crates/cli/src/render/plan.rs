//! The plan of a run, which `--dry-run` prints: as lines, and as JSON.

use std::fmt::Write as _;

use dyno_experiment::options::{Options, Requirement, is_open};
use dyno_experiment::system::System;
use dyno_experiment::test::PlannedTest;
use dyno_loadgen::clock::SECOND;
use dyno_loadgen::plan::SampleChoice;
use dyno_loadgen::settings::{Arrivals, Field, Origin, Scenario, Settings, TestMode};
use dyno_results::summary::{DISCLAIMER, InputShape, NO_BOUND, mode_name};
use dyno_results::units::{self, duration};
use serde_json::{Map, Value, json};

use super::wrap;

/// Returns the plan as text.
pub fn text(options: &Options, system: &System, tests: &[PlannedTest]) -> String {
    let mut text = format!(
        "system {}, {} samples, {} time, profile {}\n",
        system.spec,
        system.library_size().total,
        time(system),
        options.profile().name()
    );
    let shapes = system.shapes();
    if !shapes.is_empty() {
        let shapes: Vec<String> = shapes.iter().map(InputShape::text).collect();
        let _ = writeln!(text, "sample {}", shapes.join(", "));
    }
    for remark in options.rules_remarks() {
        wrap(&remark, 80, 2).iter().for_each(|line| text.extend([line, "\n"]));
    }
    for scenario in options.scenarios() {
        let of_scenario: Vec<&PlannedTest> =
            tests.iter().filter(|t| t.scenario == scenario).collect();
        let lengths: Vec<String> = of_scenario.iter().map(|test| length(test)).collect();
        let _ = writeln!(text, "\n{scenario}: {}", lengths.join(", "));
        let Some(test) = of_scenario.last() else { continue };
        for requirement in requirements(options, test) {
            let _ = writeln!(text, "  requires {requirement}");
        }
        for tenant in &test.tenants {
            if let Some(name) = &tenant.name {
                let _ = writeln!(text, "  tenant {name}");
            }
            settings(&mut text, options, test, &tenant.settings);
            if tenant.plan.ramp > 0 {
                let ramp = duration(tenant.plan.ramp.cast_signed());
                let _ = writeln!(text, "  a ramp of {ramp} before the measured part");
            }
        }
    }
    if options.run.is_dry && system.remote().is_some() {
        text += "\nThe server was not contacted. The run asks it for what it accepts.\n";
    }
    let total = tests.iter().map(PlannedTest::expected).fold(0, u64::saturating_add);
    let total = match i64::try_from(total).unwrap_or(i64::MAX) {
        // The numbers of queries end the tests.
        0 => String::new(),
        least => format!(", at least {} in total", duration(least)),
    };
    let is_scored = tests.iter().any(|test| test.mode == TestMode::AccuracyOnly);
    let scored = if is_scored { "; accuracy tests take as long as the system needs" } else { "" };
    let tests = units::counted(tests.len() as u64, "test", "tests");
    let _ = writeln!(text, "\n{tests}{total}{scored}");
    text
}

/// Returns the plan as JSON.
pub fn json(options: &Options, system: &System, tests: &[PlannedTest]) -> Value {
    let tests: Vec<Value> = tests.iter().map(|test| test_json(options, test)).collect();
    json!({
        "official": false,
        "disclaimer": DISCLAIMER,
        "system": system.spec,
        "samples": system.library_size().total,
        "shapes": system.shapes(),
        "time": time(system),
        "profile": options.profile().name(),
        "remarks": options.rules_remarks(),
        "tests": tests,
    })
}

fn test_json(options: &Options, test: &PlannedTest) -> Value {
    let tenants = test.tenants.iter().map(|tenant| {
        let settings = chosen(options, test, &tenant.settings);
        let settings = settings.map(|(field, value, origin)| {
            let setting = json!({
                "value": value, "unit": field.unit, "origin": origin.to_string(),
            });
            (field.name.to_owned(), setting)
        });
        json!({
            "name": tenant.name,
            "settings": settings.collect::<Map<String, Value>>(),
            "probed": probed(test, &tenant.settings),
            "ramp_ns": tenant.plan.ramp,
        })
    });
    let samples = test.tenants.iter().map(|tenant| tenant.plan.accuracy_sample_count).max();
    json!({
        "scenario": test.scenario.name(),
        "mode": mode_name(test.mode),
        "least_duration_ns": test.expected(),
        "accuracy_samples": samples.filter(|_| test.mode == TestMode::AccuracyOnly),
        "requirements": requirements(options, test),
        "tenants": tenants.collect::<Vec<Value>>(),
    })
}

/// Returns how the time of a run passes.
fn time(system: &System) -> &'static str {
    if system.is_simulated() { "virtual" } else { "real" }
}

/// Returns the limits of `--require` that a test must keep.
fn requirements(options: &Options, test: &PlannedTest) -> Vec<String> {
    if test.mode == TestMode::AccuracyOnly {
        return Vec::new();
    }
    let all = options.run.requirements.iter();
    all.filter(|required| required.is_for(test.scenario)).map(Requirement::written).collect()
}

/// Returns the settings that were chosen, with their values and origins.
fn chosen<'a>(
    options: &'a Options,
    test: &'a PlannedTest,
    settings: &'a Settings,
) -> impl Iterator<Item = (&'static Field, String, &'a Origin)> {
    let rows = settings.rows().filter(move |(field, _, origin)| {
        !matches!(origin, Origin::Default | Origin::BuiltIn { .. })
            && !matches!(field.name, "scenario" | "mode")
            && dyno_results::effective::is_relevant(field.name, test.scenario)
    });
    rows.map(move |(field, value, origin)| {
        let is_no_bound = value == NO_BOUND.to_string();
        let value = options.run.shown_value(field.name, value);
        (field, if is_no_bound { "none".into() } else { value }, origin)
    })
}

/// Adds the settings that were chosen and those that are still open.
fn settings(text: &mut String, options: &Options, test: &PlannedTest, settings: &Settings) {
    for (field, value, origin) in chosen(options, test, settings) {
        let value = if value == "none" { value } else { super::with_unit(field, &value) };
        let _ = writeln!(text, "  {} = {value}  ({origin})", field.name);
    }
    if let Some(rate) = probed(test, settings) {
        let _ = writeln!(text, "  {rate} is determined by a short probe before the run");
    }
}

/// Returns the rate that a short probe determines before the run, if any.
fn probed(test: &PlannedTest, settings: &Settings) -> Option<&'static str> {
    let rate = match test.scenario {
        Scenario::Server => "server_target_qps",
        Scenario::Offline => "offline_expected_qps",
        Scenario::SingleStream | Scenario::MultiStream => return None,
    };
    let has_rate = test.scenario != Scenario::Server || has_rate(settings);
    let is_sent_at_rate = test.mode != TestMode::AccuracyOnly || test.scenario == Scenario::Server;
    (is_sent_at_rate && is_open(settings, rate) && has_rate).then_some(rate)
}

/// Returns whether the arrivals of Server have a rate.
fn has_rate(settings: &Settings) -> bool {
    !matches!(settings.values.server_arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_))
}

fn length(test: &PlannedTest) -> String {
    if test.mode == TestMode::AccuracyOnly {
        let samples = test.tenants.iter().map(|t| t.plan.accuracy_sample_count).max();
        let samples = units::counted(samples.unwrap_or(0), "sample", "samples");
        return format!("accuracy ({samples})");
    }
    let least = test.expected();
    let at_least = (least > 0).then(|| format!("at least {:.1} s", least as f64 / SECOND as f64));
    let clauses: Vec<String> = at_least.into_iter().chain(length_of_queries(test)).collect();
    let name = mode_name(test.mode);
    if clauses.is_empty() { name.to_string() } else { format!("{name} ({})", clauses.join("; ")) }
}

/// Returns a clause about the time that the minimum number of queries takes at the rate of Server; `None` if it
/// is within the minimum duration or not known.
fn length_of_queries(test: &PlannedTest) -> Option<String> {
    let is_known = test.scenario == Scenario::Server && test.mode == TestMode::PerformanceOnly;
    let at_rate = test.tenants.iter().filter(|tenant| {
        let (plan, settings) = (&tenant.plan, &tenant.settings);
        let is_counted = plan.sessions.is_none() && plan.choice != SampleChoice::Unique;
        is_known && is_counted && has_rate(settings) && probed(test, settings).is_none()
    });
    let lengths = at_rate.filter_map(|tenant| {
        let queries = tenant.plan.min_query_count;
        let ns = queries as f64 / tenant.plan.target_qps * SECOND as f64;
        (ns > tenant.plan.min_duration as f64).then_some((queries, ns))
    });
    let (queries, ns) = lengths.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let queries = units::counted(queries, "query takes", "queries take");
    Some(format!("{queries} about {} at this rate", duration(ns as i64)))
}
