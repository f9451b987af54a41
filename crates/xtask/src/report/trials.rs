//! Whether search and comparison hold what they promise, on simulated systems
//! whose truth is known. The trials are examples of `dyno-loadgen`, which print
//! a JSON line a figure.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Bench, print};

/// An example, and what it prints.
struct Trials {
    example: &'static str,
    /// Enough to say something.
    full: &'static [&'static str],
    /// Enough to show that it runs.
    quick: &'static [&'static str],
    promises: &'static [Promise],
}

/// A figure of an example, and what it must be.
struct Promise {
    name: &'static str,
    goal: f64,
    better: Better,
    unit: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Better {
    Lower,
    Higher,
}

const TRIALS: [Trials; 2] = [
    Trials {
        example: "search_trials",
        full: &[],
        quick: &["1", "M/M/1, p99"],
        promises: &[
            Promise {
                name: "search.within_2_percent",
                goal: 0.95,
                better: Better::Higher,
                unit: "share of trials; the peer is the goal",
            },
            Promise {
                name: "search.time_against_plain",
                goal: 0.5,
                better: Better::Lower,
                unit: "of the time of plain bisection; the peer is the goal",
            },
        ],
    },
    Trials {
        example: "compare_trials",
        // The worst of many cases is as high as chance makes the highest of them.
        full: &["--trials", "2000"],
        quick: &["--trials", "8"],
        promises: &[Promise {
            name: "compare.false_alarm_percent",
            goal: 5.0,
            better: Better::Lower,
            unit: "% of comparisons of equals, worst case; the peer is the goal",
        }],
    },
];

/// Prints the figures that are wanted.
pub fn figures(bench: &Bench) -> Result<()> {
    for trials in TRIALS {
        if !trials.promises.iter().any(|promise| bench.wants(promise.name)) {
            continue;
        }
        let printed = printed(bench, &trials)?;
        for promise in trials.promises.iter().filter(|promise| bench.wants(promise.name)) {
            let ours = value(&printed, promise.name)
                .with_context(|| format!("{} printed no {}", trials.example, promise.name))?;
            let ratio = match promise.better {
                Better::Lower => promise.goal / ours,
                Better::Higher => ours / promise.goal,
            };
            // Too few trials to hold them against the goal.
            let goal = (!bench.quick).then_some(promise.goal);
            print(promise.name, ours, goal, goal.map(|_| ratio), promise.unit);
        }
    }
    Ok(())
}

/// What an example prints.
fn printed(bench: &Bench, trials: &Trials) -> Result<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "dyno-loadgen", "--example"]);
    cargo.arg(trials.example).arg("--").args(if bench.quick { trials.quick } else { trials.full });
    eprintln!("running {}", trials.example);
    let output = cargo.current_dir(bench.root).stderr(Stdio::inherit()).output();
    let output = output.context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{}: {}", trials.example, output.status);
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(!printed.trim().is_empty(), "{} printed nothing", trials.example);
    Ok(printed)
}

/// Of the line that has this name.
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
