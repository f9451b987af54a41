//! `cargo xtask task-table`: results of every task that needs no file of the user, in its scenarios, as
//! the page `docs/reference/task-results.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use crate::bench::{self, Bench};
use crate::folder;
use crate::groups::tasks::{Profile, Program, Task};

/// Path of the page.
const PAGE: &str = "docs/reference/task-results.md";

const SCENARIOS: [&str; 4] = ["SingleStream", "MultiStream", "Server", "Offline"];

/// Text before the tables.
const HEAD: &str = "\
# Results of tasks

`cargo xtask task-table --write` writes this page. It fetches each real task and creates each shape task in a
separate cache, and runs it with `dyno task run` in its scenarios, in a release build. Real tasks have labels and a
target. Shape tasks have the real graph of a benchmark with seeded weights and random samples, and therefore figures
of speed only. No figure is an official MLPerf result. Figures that are not VALID are in italics. Most of them are
of large graphs on few cores, which answer too few queries in the time of a test. If a hundred queries take more
than 15 s, a test has fewer and cannot be VALID.
";

/// Options of `cargo xtask task-table`.
#[derive(Debug, Args)]
pub struct Options {
    /// Tasks to run; all when none is named
    #[arg(value_name = "TASK")]
    names: Vec<String>,
    /// Write the page into docs/reference/task-results.md
    #[arg(long)]
    write: bool,
}

/// Runs the wanted tasks and prints the page; with `--write` also writes it.
///
/// # Errors
/// Dyno does not build, or a run fails.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let Options { names, write } = options;
    let bench = Bench::new(root, "peers/tasks", &bench::FigureOptions::default())?;
    let cache = bench.folder.join("table-cache");
    folder::remove(&cache)?;
    // Results of a killed run would stop the next one.
    folder::remove(&bench.folder.join("out"))?;
    let program = match Program::build(&bench, Profile::Release, cache) {
        Ok(program) => program,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let mut rows = Vec::new();
    for task in program.tasks()? {
        if task.tier == "official" || !(names.is_empty() || names.contains(&task.name)) {
            continue;
        }
        eprintln!("{}", task.name);
        let summary = run_task(&program, &task);
        rows.push(Row { task, summary });
    }
    let page = page(&rows);
    print!("{page}");
    if *write {
        fs::write(root.join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Row {
    task: Task,
    /// Summary of the run, or why it is missing.
    summary: Result<Value, String>,
}

fn run_task(program: &Program, task: &Task) -> Result<Value, String> {
    if !task.fits() {
        return Err("its weights do not fit".into());
    }
    let run = |args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        program.summary(task, &args).map_err(|error| format!("{error:#}"))
    };
    let text = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
    if task.tier == "real" {
        program.fetch(task)?;
        return run(&text(&["--duration", "5s"]));
    }
    let mut once = text(&["--mode", "performance", "--scenario", "SingleStream"]);
    once.extend(text(&["--duration", "1ms"]));
    once.extend(at_most("SingleStream", 1));
    let once = run(&once)?;
    let latency = test(&once, "SingleStream", "performance");
    let latency = latency.and_then(|test| test["result"]["value"].as_f64());
    let mut args = text(&["--mode", "performance", "--duration", "5s"]);
    args.extend(limits(latency.unwrap_or_default()));
    run(&args)
}

/// Time limit for the queries of a test, in ns: large graphs would take an hour for the hundred
/// queries that the rules demand.
const LONGEST: f64 = 15e9;

/// Returns settings that keep each test within [`LONGEST`], for a task with this latency per sample,
/// in ns; empty if no test takes longer.
fn limits(latency: f64) -> Vec<String> {
    // Samples per query.
    let scenarios = [("SingleStream", 1.0), ("MultiStream", 8.0), ("Server", 1.0)];
    let too_long = scenarios.into_iter().filter(|(_, samples)| latency * 100.0 * samples > LONGEST);
    let limit =
        |(scenario, samples)| at_most(scenario, ((LONGEST / (latency * samples)) as u64).max(1));
    too_long.flat_map(limit).collect()
}

/// Returns settings of a test with exactly so many queries.
fn at_most(scenario: &str, queries: u64) -> Vec<String> {
    let set = |key: &str| ["--set".to_owned(), format!("{scenario}.{key}={queries}")];
    ["min_query_count", "max_query_count"].iter().flat_map(|key| set(key)).collect()
}

fn page(rows: &[Row]) -> String {
    let mut page = HEAD.to_owned();
    if let Some(summary) = rows.iter().find_map(|row| row.summary.as_ref().ok()) {
        let environment = &summary["environment"];
        let date = summary["started_at"].as_str().unwrap_or_default();
        let _ = writeln!(
            page,
            "\n{}, {} cores, {} {}; {}; dyno {}.",
            environment["processor"].as_str().unwrap_or_default(),
            environment["cores"],
            environment["os"].as_str().unwrap_or_default(),
            environment["kernel"].as_str().unwrap_or_default(),
            date.split('T').next().unwrap_or_default(),
            environment["dyno_version"].as_str().unwrap_or_default(),
        );
    }
    let of_tier = |tier: &'static str| rows.iter().filter(move |row| row.task.tier == tier);
    page.push_str("\n## Real tasks\n\n| task | quality | target | verdict |");
    for scenario in SCENARIOS {
        let _ = write!(page, " {scenario} |");
    }
    page.push_str("\n| --- | --- | --- | --- |");
    page.push_str(&" ---: |".repeat(SCENARIOS.len()));
    page.push('\n');
    for row in of_tier("real") {
        let _ = write!(page, "| {} |", row.task.name);
        match &row.summary {
            Ok(summary) => {
                page.push_str(&quality(summary));
                for scenario in SCENARIOS {
                    let _ = write!(page, " {} |", headline(summary, scenario));
                }
                page.push('\n');
            }
            Err(why) => {
                let _ = writeln!(page, " {} | | | | | | |", cell(why));
            }
        }
    }
    page.push_str("\n## Shape tasks\n\n| task | parameters | operations a sample |");
    for scenario in SCENARIOS {
        let _ = write!(page, " {scenario} |");
    }
    page.push_str(" operations/s, Offline |\n| --- | ---: | ---: |");
    page.push_str(&" ---: |".repeat(SCENARIOS.len() + 1));
    page.push('\n');
    for row in of_tier("shape") {
        let count = |n: Option<u64>| n.map_or("–".into(), |n| scaled(n as f64));
        let (parameters, operations) = (count(row.task.parameters), count(row.task.operations));
        let _ = write!(page, "| {} | {parameters} | {operations} |", row.task.name);
        match &row.summary {
            Ok(summary) => {
                for scenario in SCENARIOS {
                    let _ = write!(page, " {} |", headline(summary, scenario));
                }
                let rate = test(summary, "Offline", "performance")
                    .and_then(|test| test["result"]["value"].as_f64());
                let done = rate.zip(row.task.operations).map(|(rate, n)| rate * n as f64);
                let _ = writeln!(page, " {} |", done.map_or("–".into(), scaled));
            }
            Err(why) => {
                let _ = writeln!(page, " {} | | | | |", cell(why));
            }
        }
    }
    page
}

/// Returns text for a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn test<'a>(summary: &'a Value, scenario: &str, mode: &str) -> Option<&'a Value> {
    let tests = summary["tests"].as_array()?;
    tests.iter().find(|test| test["scenario"] == scenario && test["mode"] == mode)
}

/// Returns the cells of metric, target and verdict: those of the first accuracy test that is not VALID,
/// else of the first.
fn quality(summary: &Value) -> String {
    let tests = summary["tests"].as_array().map_or(&[][..], Vec::as_slice);
    let mut accuracy_tests: Vec<&Value> =
        tests.iter().filter(|test| test["accuracy"]["value"].is_number()).collect();
    accuracy_tests.sort_by_key(|test| test["verdict"] == "VALID");
    let Some(test) = accuracy_tests.first() else { return " – | – | – |".into() };
    let accuracy = &test["accuracy"];
    let shown = |key: &str| match accuracy[key].as_f64() {
        Some(value) if accuracy["unit"] == "share" => format!("{:.2} %", value * 100.0),
        Some(value) => format!("{value:.4}"),
        None => "–".into(),
    };
    let side = if accuracy["lower_is_better"] == true { "at most" } else { "at least" };
    format!(
        " {} {} | {side} {} | {} |",
        accuracy["metric"].as_str().unwrap_or_default(),
        shown("value"),
        shown("target"),
        test["verdict"].as_str().unwrap_or_default(),
    )
}

/// Returns the result of a performance test, in italics unless it is VALID.
fn headline(summary: &Value, scenario: &str) -> String {
    let Some(test) = test(summary, scenario, "performance") else { return "–".into() };
    let result = &test["result"];
    let Some(value) = result["value"].as_f64() else { return "*none*".into() };
    let shown = match result["unit"].as_str() {
        Some("ns") => duration(value),
        Some(unit) => format!("{} {unit}", scaled(value)),
        None => scaled(value),
    };
    if test["verdict"] == "VALID" { shown } else { format!("*{shown}*") }
}

fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.3} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.3} ms", ns / 1e6),
        ns => format!("{:.3} s", ns / 1e9),
    }
}

/// Returns up to four significant digits with an SI prefix.
fn scaled(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    match PREFIXES.into_iter().find(|(from, _)| value >= *from) {
        Some((from, prefix)) => format!("{:.2}{prefix}", value / from),
        None if value >= 10.0 => format!("{value:.1}"),
        None => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_tests_of_slow_graphs_are_shortened() {
        assert_eq!(limits(1e6), [""; 0]);
        let both =
            ["--set", "MultiStream.min_query_count=18", "--set", "MultiStream.max_query_count=18"];
        assert_eq!(limits(1e8), both);
        let all = limits(4e9);
        assert_eq!(all.len(), 12);
        assert_eq!(
            all[1..4],
            ["SingleStream.min_query_count=3", "--set", "SingleStream.max_query_count=3"]
        );
        assert_eq!(all[7], "MultiStream.max_query_count=1");
    }

    #[test]
    fn a_row_has_the_worst_accuracy_and_marks_invalid_results() {
        let accuracy = |value: f64, verdict: &str| {
            json!({"scenario": "Offline", "mode": "accuracy", "verdict": verdict, "accuracy": {
                "metric": "per", "value": value, "target": 0.1, "unit": "share",
                "lower_is_better": true}})
        };
        let speed = |scenario: &str, verdict: &str, value: f64, unit: &str| {
            json!({"scenario": scenario, "mode": "performance", "verdict": verdict,
                "result": {"value": value, "unit": unit}})
        };
        let summary = json!({"tests": [
            accuracy(0.09, "VALID"),
            accuracy(0.11, "INVALID"),
            speed("SingleStream", "INVALID", 2_500_000.0, "ns"),
            speed("Offline", "VALID", 12_345.6, "samples/s"),
        ]});
        assert_eq!(quality(&summary), " per 11.00 % | at most 10.00 % | INVALID |");
        let shown = SCENARIOS.map(|scenario| headline(&summary, scenario));
        assert_eq!(shown, ["*2.500 ms*", "–", "–", "12.35 k samples/s"]);
    }
}
