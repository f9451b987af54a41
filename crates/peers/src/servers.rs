//! `bench/net` with the program as users have it: time to a first result, faults of servers that are
//! judged right, and the time to first token beside aiperf and the log of a server.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::bench::{Bench, FigureOptions};
use crate::cargo;
use crate::groups::witness;
use crate::venv::Venv;

/// Names of the figures.
const FIGURES: [&str; 3] = ["net.llm.first_result_seconds", "net.wire_modes_right", AGAINST_AIPERF];

/// The figure that needs aiperf and a C compiler.
const AGAINST_AIPERF: &str = "net.against_aiperf.ttft_error_ms";

/// The version that `bench/report` installs, too.
const AIPERF: &str = "aiperf==0.13.0";

/// Argument for a program that this machine does not have.
const MISSING: &str = "-";

/// Prints the wanted figures.
///
/// # Errors
/// Dyno does not build, or a run ends without a result.
pub fn run(root: &Path, options: &FigureOptions) -> Result<ExitCode> {
    let bench = Bench::new(root, "peers/servers", options)?;
    let wanted: Vec<&str> = FIGURES.into_iter().filter(|name| bench.wants(name)).collect();
    if wanted.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    // A quick run is no measurement, and tests have built the debug program.
    let dyno = if bench.quick { cargo::debug_dyno(root)? } else { cargo::release_dyno(root)? };
    let (mut server, mut aiperf) = (MISSING.into(), MISSING.into());
    if wanted.contains(&AGAINST_AIPERF) {
        let compiled = witness::compile(root, &bench.folder, "server.c")?;
        server = bench.or_skip(AGAINST_AIPERF, compiled).unwrap_or_else(|| MISSING.into());
        aiperf = installed(&bench)
            .map_or_else(|| MISSING.into(), |venv| venv.interpreter().with_file_name("aiperf"));
    }
    let mut python = Command::new("python3");
    python.arg("-B").arg(root.join("crates/peers/scripts/servers.py"));
    python.args([&dyno, &server, &aiperf, &bench.folder.join("runs")]);
    python.arg(if bench.quick { "quick" } else { "full" }).args(&wanted);
    let status = python.stdin(Stdio::null()).status().context("there is no python3")?;
    if !status.success() {
        bail!("the figures of servers end with {status}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns an environment with aiperf. A quick run installs none, because it is large.
fn installed(bench: &Bench<'_>) -> Option<Venv> {
    if bench.quick && !bench.folder.join("venv/bin/aiperf").exists() {
        bench.skip(AGAINST_AIPERF, "aiperf is not installed; run without --quick once");
        return None;
    }
    bench.or_skip(AGAINST_AIPERF, Venv::with_packages(&bench.folder, AIPERF))
}
