//! Accuracy of search and comparison on simulated systems with known results. The trials are examples
//! of `dyno-loadgen` that print one JSON line per figure.

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Bench, print};
use crate::cargo;
use crate::figure::Better;

/// An example and its figures.
struct Trials {
    example: &'static str,
    /// Arguments for enough trials to judge the figures.
    full: &'static [&'static str],
    /// Arguments for enough trials to show that it runs.
    quick: &'static [&'static str],
    goals: &'static [Goal],
}

/// A figure of an example and its limit.
struct Goal {
    name: &'static str,
    limit: f64,
    better: Better,
    unit: &'static str,
}

const TRIALS: [Trials; 2] = [
    Trials {
        example: "search_trials",
        full: &[],
        quick: &["1", "M/M/1, p99"],
        goals: &[
            Goal {
                name: "search.within_2_percent",
                limit: 0.95,
                better: Better::Higher,
                unit: "share of trials; the peer is the goal",
            },
            Goal {
                name: "search.time_against_plain",
                limit: 0.5,
                better: Better::Lower,
                unit: "of the time of plain bisection; the peer is the goal",
            },
        ],
    },
    Trials {
        example: "compare_trials",
        // Many trials, because the figure is the highest of many cases and chance raises it.
        full: &["--trials", "2000"],
        quick: &["--trials", "8"],
        goals: &[Goal {
            name: "compare.false_alarm_percent",
            limit: 5.0,
            better: Better::Lower,
            unit: "% of comparisons of equals, worst case; the peer is the goal",
        }],
    },
];

/// Prints the wanted figures.
pub fn figures(bench: &Bench) -> Result<()> {
    for trials in TRIALS {
        let mut wanted = trials.goals.iter().filter(|goal| bench.wants(goal.name)).peekable();
        if wanted.peek().is_none() {
            continue;
        }
        let printed = run_example(bench, &trials)?;
        for goal in wanted {
            let ours = value(&printed, goal.name)
                .with_context(|| format!("{} printed no {}", trials.example, goal.name))?;
            let ratio = match goal.better {
                Better::Lower => goal.limit / ours,
                Better::Higher => ours / goal.limit,
            };
            // A quick run has too few trials for the goal.
            let limit = (!bench.quick).then_some(goal.limit);
            print(goal.name, ours, limit, limit.map(|_| ratio), goal.unit);
        }
    }
    Ok(())
}

/// Runs an example and returns its output.
fn run_example(bench: &Bench, trials: &Trials) -> Result<String> {
    let mut cargo = cargo::command(bench.root);
    cargo.args(["run", "--quiet", "--release", "--package", "dyno-loadgen", "--example"]);
    cargo.arg(trials.example).arg("--").args(if bench.quick { trials.quick } else { trials.full });
    eprintln!("running {}", trials.example);
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{}: {}", trials.example, output.status);
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(!printed.trim().is_empty(), "{} printed nothing", trials.example);
    Ok(printed)
}

/// Returns the value of the line with this name.
fn value(printed: &str, name: &str) -> Option<f64> {
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["name"] == name).find_map(|line| line["value"].as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_among_other_lines() {
        let printed = "system a: 3 of 4\n{\"name\": \"a.b\", \"value\": 0.5}\n\
                       {\"name\":\"a.c\",\"value\":1,\"unit\":\"%\"}\n";
        assert_eq!(value(printed, "a.c"), Some(1.0));
        assert_eq!(value(printed, "a.b"), Some(0.5));
        assert_eq!(value(printed, "a.d"), None);
    }
}
