//! How long the report of a run takes, from the files of the run.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Bench, median, milliseconds, print};

pub const NAME: &str = "report.render_ms";

/// Queries of the run.
const QUERIES: u64 = 1_000_000;
const QUERIES_QUICK: u64 = 20_000;

/// What it may take.
const GOAL_MS: f64 = 2_000.0;

const ROUNDS: usize = 5;

/// Prints it, if it is wanted.
pub fn figure(bench: &Bench, program: &Path) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let queries = if bench.quick { QUERIES_QUICK } else { QUERIES };
    let out = bench.folder.join("run");
    if out.exists() {
        fs::remove_dir_all(&out).context("cannot remove the run of before")?;
    }
    // Half of what it can bear, in virtual time: what is measured is the report.
    let mut run = Command::new(program);
    run.args(["run", "--system", "model:exponential=1ms,servers=8", "--scenario", "Server"]);
    run.args(["--settings.server_target_qps", "4000", "--settings.min_duration_ms", "1"]);
    run.args(["--settings.min_query_count", &queries.to_string()]);
    // Otherwise the report reads a sample of them.
    run.args(["--records", "all", "--out"]).arg(&out);
    milliseconds(run.current_dir(&bench.folder))?;
    let rounds = if bench.quick { 1 } else { ROUNDS };
    let report = || milliseconds(Command::new(program).arg("report").arg(&out));
    let took = median((0..rounds).map(|_| report()).collect::<Result<_>>()?);
    let unit = format!("ms for a run of {queries} queries; the peer is the goal");
    let goal = (!bench.quick).then_some(GOAL_MS);
    print(NAME, took, goal, goal.map(|goal| goal / took), &unit);
    Ok(())
}
