//! Heap and system calls per completion: the slope between two tests that differ only in their
//! number of samples.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Bench;
use super::sides::{Logs, Program, Sides};
use crate::figure::{Better, Figure};
use crate::shell;

/// Folder of the counting programs, which the tests of the C interface use too.
const COUNTERS: &str = "crates/loadgen-c/tests/c";

/// Samples of the smaller and of the larger test.
const SAMPLES: [u32; 2] = [20_000, 220_000];

/// Slopes are rounded to this: larger logs need a few calls more for memory mappings, which no
/// completion causes.
const RESOLUTION: f64 = 0.001;

/// Completions within the issue of one query, of a late query and of all queries at once, and in a
/// thread of their own.
const TESTS: &[&str] = &[
    "scenario=single",
    "scenario=server qps=1e9",
    "scenario=offline batch=1",
    "scenario=offline batch=1 system=holding",
];

const ALLOCATIONS: Figure = Figure {
    name: "dropin.allocations_per_completion",
    unit: "heap calls, worst of four tests",
    better: Better::Lower,
};

const SYSTEM_CALLS: Figure = Figure {
    name: "dropin.syscalls_per_completion",
    unit: "system calls, worst of four tests",
    better: Better::Lower,
};

pub fn is_wanted(bench: &Bench) -> bool {
    bench.wants(ALLOCATIONS.name) || bench.wants(SYSTEM_CALLS.name)
}

/// Prints the wanted figures.
pub fn figures(bench: &Bench, sides: &Sides) -> Result<()> {
    let counted = bench.folder.join("counted.txt");
    let preloaded = ["-shared", "-fPIC", "-ldl"];
    if let Some(counter) = counter(bench, ALLOCATIONS, "count_allocations.c", &preloaded) {
        sides.figures(bench, &[ALLOCATIONS], |program| {
            worst_slope(program, &counted, |mut command| {
                command.env("LD_PRELOAD", &counter).env("COUNT_ALLOCATIONS_TO", &counted);
                command
            })
        })?;
    }
    if let Some(counter) = counter(bench, SYSTEM_CALLS, "count_syscalls.c", &[]) {
        let tracing = |command: Command| {
            let mut tracer = Command::new(&counter);
            tracer.arg(&counted).arg(command.get_program()).args(command.get_args());
            tracer
        };
        if let Err(why) = calls(&mut tracing(Command::new("true")), &counted) {
            bench.skip(SYSTEM_CALLS.name, &format!("{why:#}"));
            return Ok(());
        }
        sides.figures(bench, &[SYSTEM_CALLS], |program| worst_slope(program, &counted, tracing))?;
    }
    Ok(())
}

/// Compiles the counter of a figure; `None` if the figure is not wanted or nothing compiles.
fn counter(bench: &Bench, figure: Figure, source: &str, arguments: &[&str]) -> Option<PathBuf> {
    if !bench.wants(figure.name) {
        return None;
    }
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let counter = bench.folder.join(source).with_extension("counter");
    let mut command = Command::new(compiler);
    command.args(["-O2", "-o"]).arg(&counter).arg(bench.root.join(COUNTERS).join(source));
    match shell::output(command.args(arguments)) {
        Ok(_) => Some(counter),
        Err(why) => {
            bench.skip(figure.name, &format!("{why:#}"));
            None
        }
    }
}

/// Runs a command and returns the number of calls that its counter wrote to the file `counted`.
fn calls(command: &mut Command, counted: &Path) -> Result<u64> {
    // Otherwise the count of an earlier command could be taken for this one's.
    let _ = fs::remove_file(counted);
    shell::output(command)?;
    let text = fs::read_to_string(counted).context("nothing was counted")?;
    let numbers = text.lines().map(|line| line.rsplit(' ').next().unwrap_or(line).parse());
    match numbers.collect::<Result<Vec<u64>, _>>()?[..] {
        [calls] => Ok(calls),
        // Some machines need a system call to read the clock.
        [calls, clock_reads] => Ok(calls - clock_reads),
        _ => bail!("the counter wrote {text:?}"),
    }
}

/// Returns the highest slope of all tests, in calls per sample. `counting` wraps a command so that
/// its calls are counted.
fn worst_slope(
    program: &Program,
    counted: &Path,
    counting: impl Fn(Command) -> Command,
) -> Result<Vec<f64>> {
    let logs = Logs::new()?;
    let mut worst = 0.0_f64;
    for test in TESTS {
        let count = |samples| {
            let command = program.command(&format!("{test} queries={samples}"), &logs.0);
            calls(&mut counting(command), counted)
        };
        let more = count(SAMPLES[1])?.abs_diff(count(SAMPLES[0])?);
        worst = worst.max(more as f64 / f64::from(SAMPLES[1] - SAMPLES[0]));
    }
    Ok(vec![(worst / RESOLUTION).round() * RESOLUTION])
}
