//! Reference page of the rounds.

use std::fmt::Write as _;

use dyno_results::units::count;
use dyno_rules::{Benchmark, Round, RuleScenario, confidence};

use super::{MADE, cell};

use crate::cmd::words;

/// Returns `docs/reference/rounds.md`.
pub fn rounds() -> String {
    let mut text = format!(
        "# Rounds of MLPerf Inference\n\n{MADE}Values of `--round` and `--benchmark`. `dyno info \
         rules --round v5.1 resnet` prints one benchmark with all settings that a run uses; \
         `--json` prints them as JSON ([schema](../schema/rules.schema.json)). See [a run by the \
         rules](../tasks/rounds.md). The data and their sources are in \
         `crates/rules/rounds`.\n\n| round | published | benchmarks | minimum duration | audits \
         with their own seeds |\n| --- | --- | --- | --- | --- |\n"
    );
    let all: Vec<&Round> =
        Round::names().into_iter().filter_map(|name| Round::named(name).ok()).collect();
    for round in &all {
        let seconds = round.scenarios[&RuleScenario::Offline].min_duration_ms / 1000;
        let test05 = if round.test05_seeds.is_some() { "TEST05" } else { "" };
        let (version, published) = (round.version, &round.published);
        let benchmarks = round.benchmarks.len();
        let _ =
            writeln!(text, "| {version} | {published} | {benchmarks} | {seconds} s | {test05} |");
    }
    statistics(&mut text);
    asks(&mut text);
    for round in all.iter().rev() {
        of_round(&mut text, round);
    }
    text
}

fn statistics(text: &mut String) {
    *text += "\n## Queries for confidence\n\nQueries that rounds before early stopping required \
         to judge a percentile with 99 % confidence.\n\n| percentile | margin | queries | rounded \
         up |\n| --- | --- | --- | --- |\n";
    for row in confidence() {
        let (percentile, margin) = (row.percentile * 100.0, row.margin * 100.0);
        let (queries, rounded) = (count(row.queries), count(row.rounded));
        let _ = writeln!(text, "| {percentile:.0} % | {margin:.2} % | {queries} | {rounded} |");
    }
}

fn asks(text: &mut String) {
    let Some(newest) = Round::names().last().and_then(|name| Round::named(name).ok()) else {
        return;
    };
    let mut table = |title: &str, rows: &mut dyn Iterator<Item = (&str, &Vec<String>)>| {
        let _ = write!(text, "\n## {title}\n\n| name | requirements |\n| --- | --- |\n");
        for (name, asks) in rows {
            let _ = writeln!(text, "| `{name}` | {} |", cell(&asks.join("; ")));
        }
    };
    let mut divisions = newest
        .divisions
        .iter()
        .map(|(division, requirements)| (division.name(), &requirements.items));
    table("Divisions", &mut divisions);
    let mut categories = newest
        .availabilities
        .iter()
        .map(|(category, requirements)| (category.name(), &requirements.items));
    table("Availability", &mut categories);
    if let Some(network) = &newest.network {
        let _ = write!(
            text,
            "\nThe network division began with v2.1. Permitted fabrics: {}. Forbidden buses: {}. \
             Other fabrics need clearance first.\n",
            network.permitted.join(", "),
            network.forbidden.join(", ")
        );
    }
    let _ = write!(text, "\n## Datacenter systems\n\n");
    for ask in &newest.datacenter {
        let _ = writeln!(text, "- {}", cell(ask));
    }
    *text += "- from v2.1, the bandwidth that the result needs: elements per sample times bytes \
         per element times samples/s\n\n| benchmark | elements per sample |\n| --- | --- |\n";
    let mut requirements: Vec<(&str, String)> = Vec::new();
    for round in Round::names().into_iter().rev().filter_map(|name| Round::named(name).ok()) {
        for benchmark in &round.benchmarks {
            let needed = words::bandwidth(round, benchmark);
            let needed = needed.split(':').next().unwrap_or_default().to_string();
            let is_new = requirements.iter().all(|(name, _)| *name != benchmark.name);
            if !needed.is_empty() && is_new {
                requirements.push((&benchmark.name, needed));
            }
        }
    }
    for (name, needed) in requirements {
        let _ = writeln!(text, "| `{name}` | {needed} |");
    }
}

fn of_round(text: &mut String, round: &Round) {
    let _ = write!(text, "\n## {}\n\n", round.version);
    for (scenario, rules) in &round.scenarios {
        let _ =
            writeln!(text, "- {}: {}", scenario.name(), words::procedure(rules, rules.percentile));
    }
    *text += "\n| benchmark | task | data set | performance set | quality | suites | bounds | audits |\n\
              | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for benchmark in &round.benchmarks {
        let columns = [
            format!("`{}`", benchmark.name),
            benchmark.task.clone(),
            format!("{}, {} samples", benchmark.dataset.name, count(benchmark.dataset.samples)),
            words::performance_set(benchmark),
            benchmark.accuracy.iter().map(words::quality).collect::<Vec<_>>().join(", "),
            words::suites(benchmark),
            bounds(round, benchmark),
            benchmark.audits.join(", "),
        ];
        let columns: Vec<String> = columns.iter().map(|column| cell(column)).collect();
        let _ = writeln!(text, "| {} |", columns.join(" | "));
    }
}

fn bounds(round: &Round, benchmark: &Benchmark) -> String {
    let scenarios = benchmark.scenarios().into_iter();
    let bounds = scenarios.map(|scenario| (scenario, words::bound(round, benchmark, scenario)));
    let bounds = bounds.filter(|(_, bound)| !bound.is_empty());
    let bounds: Vec<String> =
        bounds.map(|(scenario, bound)| format!("{}: {bound}", scenario.name())).collect();
    bounds.join("; ")
}
