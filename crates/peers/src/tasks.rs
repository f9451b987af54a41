//! `bench/tasks`: time of scoring beside the Python libraries, on the same log in the same run, and the
//! overhead of Dyno over ONNX Runtime alone. Prints one JSON line per figure.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::bench::{Bench, FigureOptions};
use crate::figure::{Better, Figure, Rounds};
use crate::groups::metrics::{Cases, differences, score_with_dyno};
use crate::{cargo, folder};

const ROUNDS: usize = 3;

/// The first of the figures that the bench `ort` of `dyno-sut` prints.
const ORT_OVERHEAD: &str = "tasks.ort_overhead_percent";

/// Prints the wanted figures.
///
/// # Errors
/// Dyno does not build, a case cannot be written, or the digits differ: the time of a wrong result
/// means nothing.
pub fn run(root: &Path, options: &FigureOptions) -> Result<ExitCode> {
    let bench = Bench::new(root, "tasks", options)?;
    if bench.wants(ORT_OVERHEAD) {
        ort_overhead(&bench, options)?;
    }
    // The group `metrics` of comparisons uses the same libraries.
    let libraries = cargo::target_folder(root)?.join("peers/metrics");
    folder::create(&libraries)?;
    let Some(cases) = bench.or_skip("metric", Cases::install(root, &libraries)) else {
        return Ok(ExitCode::SUCCESS);
    };
    // A quick run is no measurement, and tests have built the debug program.
    let dyno = if bench.quick { cargo::debug_dyno(root)? } else { cargo::release_dyno(root)? };
    for case in cases.list()? {
        let name = format!("metric.{}", case.case);
        if !bench.wants(&name) {
            continue;
        }
        let folder = bench.folder.join("cases").join(&case.case);
        eprintln!("{name}: making the log");
        cases.write(&case, &folder, if bench.quick { case.quick } else { case.full })?;
        let mut rounds = Rounds::default();
        for _ in 0..if bench.quick { 1 } else { ROUNDS } {
            let (figures, seconds) = score_with_dyno(&dyno, &folder)?;
            let peer = cases.score(&case, &folder)?;
            let wrong = differences(&peer.figures, &figures);
            if !wrong.is_empty() {
                bail!("{name}: {}", wrong.join("; "));
            }
            rounds.ours.push(seconds);
            rounds.peer.push(peer.seconds);
        }
        println!("{}", Figure { name: &name, unit: "s", better: Better::Lower }.line(&rounds));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the overhead of Dyno over ONNX Runtime. The bench finds the library itself, and reports
/// when it is missing.
fn ort_overhead(bench: &Bench<'_>, options: &FigureOptions) -> Result<()> {
    let mut command = cargo::command(bench.root);
    command.args(["bench", "--quiet", "--package", "dyno-sut", "--bench", "ort", "--"]);
    command.args(options.to_arguments());
    if !command.status().context("cannot start cargo")?.success() {
        bail!("cargo bench --package dyno-sut --bench ort failed");
    }
    Ok(())
}
