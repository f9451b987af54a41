//! Time of `dyno report` for an existing run.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Bench, milliseconds, print};
use crate::figure::median;
use crate::folder;

pub const NAME: &str = "report.render_ms";

/// Queries of the run.
const QUERIES: u64 = 1_000_000;
const QUERIES_QUICK: u64 = 20_000;

/// Goal for the time.
const GOAL_MS: f64 = 2_000.0;

const ROUNDS: usize = 5;

/// Prints the figure if it is wanted.
pub fn figure(bench: &Bench, program: &Path) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let queries = if bench.quick { QUERIES_QUICK } else { QUERIES };
    let out = bench.folder.join("run");
    folder::remove(&out)?;
    // Half of the load that the system sustains, in virtual time: only the report is measured.
    let mut run = Command::new(program);
    run.args(["run", "--system", "model:exponential=1ms,servers=8", "--scenario", "Server"]);
    run.args(["--settings.server_target_qps", "4000", "--settings.min_duration_ms", "1"]);
    run.args(["--settings.min_query_count", &queries.to_string()]);
    // Otherwise the report reads a sample of the records.
    run.args(["--records", "all", "--out"]).arg(&out);
    milliseconds(run.current_dir(&bench.folder))?;
    let rounds = if bench.quick { 1 } else { ROUNDS };
    let report = || milliseconds(Command::new(program).arg("report").arg(&out));
    let time = median(&(0..rounds).map(|_| report()).collect::<Result<Vec<_>>>()?);
    let unit = format!("ms for a run of {queries} queries; the peer is the goal");
    let goal = (!bench.quick).then_some(GOAL_MS);
    print(NAME, time, goal, goal.map(|goal| goal / time), &unit);
    Ok(())
}
