//! The summary of a run in a box, and the plan of a run in lines.

use std::fmt::Write as _;

use dyno_loadgen::settings::{Origin, Scenario, Settings, TestMode};

use super::{Alignment, Color, Frame, count, duration, painted};
use crate::environment::VERSION;
use crate::measure::{Test, mode_name};
use crate::options::{Options, is_open};
use crate::outcome::{Outcome, seconds};
use crate::report;
use crate::summary::{DISCLAIMER, Run};
use crate::system::System;

/// What people paste into issues.
pub fn summary(run: &Run, is_colored: bool) -> String {
    let title = format!("dyno {VERSION}, {}, profile {}", run.system, run.profile);
    let mut frame = Frame::new(&title, DISCLAIMER);
    let measured: Vec<&Outcome> =
        run.outcomes.iter().filter(|outcome| outcome.performance.is_some()).collect();
    if !measured.is_empty() {
        performance_table(&mut frame, &measured, is_colored);
        frame.rule();
    }
    let scored: Vec<&Outcome> =
        run.outcomes.iter().filter(|outcome| outcome.accuracy.is_some()).collect();
    if !scored.is_empty() {
        accuracy_lines(&mut frame, &scored, is_colored);
        frame.rule();
    }
    for outcome in run.outcomes.iter().filter(|outcome| !outcome.is_valid()) {
        frame.line(&format!("{} {}:", outcome.title(), outcome.verdict()), 2);
        for reason in &outcome.reasons {
            frame.line(&format!("  {reason}"), 2);
        }
    }
    for note in run.outcomes.iter().flat_map(|outcome| &outcome.notes).chain(&run.remarks) {
        frame.line(note, 2);
    }
    let color = if run.is_valid() { Color::Good } else { Color::Bad };
    frame.line(&format!("Verdict: {}", painted(run.verdict(), color, is_colored)), 2);
    frame.finish()
}

fn verdict(outcome: &Outcome, is_colored: bool) -> String {
    let color = if outcome.is_valid() { Color::Good } else { Color::Bad };
    painted(outcome.verdict(), color, is_colored)
}

fn performance_table(frame: &mut Frame, outcomes: &[&Outcome], is_colored: bool) {
    let mut rows = vec![
        ["", "result", "p50", "p90", "p99", "lag p99", "verdict"].map(str::to_string).to_vec(),
    ];
    for outcome in outcomes {
        let performance = outcome.performance.as_ref().expect("filtered by it");
        let [p50, p90, p99] = performance.percentiles().map(duration);
        let lag = performance.metrics.client_lag.filter(|_| outcome.scenario == Scenario::Server);
        let name = match &outcome.tenant {
            Some(tenant) => format!("{} {tenant}", outcome.scenario),
            None => outcome.scenario.to_string(),
        };
        rows.push(vec![
            name,
            performance.headline(&outcome.plan).text,
            p50,
            p90,
            p99,
            lag.map_or_else(|| "-".into(), |lag| duration(lag.percentiles[4])),
            verdict(outcome, is_colored),
        ]);
    }
    use Alignment::{Left, Right};
    frame.table(&[Left, Right, Right, Right, Right, Right, Left], &rows);
}

/// One line, if all scenarios agree, as they do for a deterministic model.
fn accuracy_lines(frame: &mut Frame, outcomes: &[&Outcome], is_colored: bool) {
    let line = |outcome: &Outcome| {
        let accuracy = outcome.accuracy.as_ref().expect("filtered by it");
        let result = match accuracy.score {
            Some(score) => format!("top-1 {score}"),
            None => format!("{} samples answered, not scored: no labels", accuracy.answered),
        };
        let target = accuracy.target.map(|target| format!(", target {:.2} %", target * 100.0));
        let verdict = verdict(outcome, is_colored);
        format!("{result}{}  {verdict}", target.unwrap_or_default())
    };
    let first = line(outcomes[0]);
    if outcomes.iter().all(|outcome| line(outcome) == first) {
        let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.scenario.name()).collect();
        let in_all =
            if names.len() > 1 { format!(" in {} tests", names.len()) } else { String::new() };
        frame.line(&format!("Accuracy{in_all}: {first}"), 2);
        return;
    }
    for outcome in outcomes {
        frame.line(&format!("{}: {}", outcome.title(), line(outcome)), 2);
    }
}

/// What `--dry-run` prints.
pub fn plan(options: &Options, system: &System, tests: &[Test]) -> String {
    let mut text = format!(
        "system {}, {} samples, {} time, profile {}\n",
        system.spec,
        system.library_size().total,
        if system.is_simulated() { "virtual" } else { "real" },
        options.profile().name()
    );
    for scenario in options.scenarios() {
        let of_scenario: Vec<&Test> = tests.iter().filter(|t| t.scenario == scenario).collect();
        let lengths: Vec<String> = of_scenario.iter().map(|test| length(test)).collect();
        let _ = writeln!(text, "\n{scenario}: {}", lengths.join(", "));
        let Some(test) = of_scenario.last() else { continue };
        for tenant in &test.tenants {
            if let Some(name) = &tenant.name {
                let _ = writeln!(text, "  tenant {name}");
            }
            settings(&mut text, test, &tenant.settings);
        }
    }
    let total: u64 = tests.iter().map(Test::expected).sum();
    let _ = writeln!(
        text,
        "\n{} tests, at least {} in all; accuracy tests take what the system takes",
        tests.len(),
        duration(i64::try_from(total).unwrap_or(i64::MAX))
    );
    text
}

/// What somebody chose, and what is still open.
fn settings(text: &mut String, test: &Test, settings: &Settings) {
    for (field, value, origin) in settings.rows() {
        let is_chosen = !matches!(origin, Origin::Default | Origin::BuiltIn { .. });
        let is_of_run = matches!(field.name, "scenario" | "mode");
        if is_chosen && !is_of_run && report::is_relevant(field.name, test.scenario) {
            let value = format!("{value} {}", field.unit);
            let _ = writeln!(text, "  {} = {}  ({origin})", field.name, value.trim_end());
        }
    }
    let rate = match test.scenario {
        Scenario::Server => "server_target_qps",
        Scenario::Offline => "offline_expected_qps",
        Scenario::SingleStream | Scenario::MultiStream => return,
    };
    if test.mode != TestMode::AccuracyOnly && is_open(settings, rate) {
        let _ = writeln!(text, "  {rate} is left to a short probe before the run");
    }
}

fn length(test: &Test) -> String {
    match test.mode {
        TestMode::AccuracyOnly => {
            let samples = test.tenants.iter().map(|t| t.plan.accuracy_sample_count).max();
            format!("accuracy ({} samples)", count(samples.unwrap_or(0)))
        }
        _ => format!("{} (at least {:.1} s)", mode_name(test.mode), seconds(test.expected())),
    }
}
