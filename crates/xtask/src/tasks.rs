//! What `bench/tasks` runs: how long scoring takes beside the Python libraries,
//! on the same log in the same run, and what ONNX Runtime loses through Dyno.
//! Prints one JSON line a figure.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::bench::Bench;
use crate::dropin::figure::{Better, Figure, Rounds};
use crate::peers::metrics::{Cases, differences, ours};
use crate::peers::{built_dyno, released_dyno, target_folder};

const ROUNDS: usize = 3;

/// The first of the figures that the benchmark `ort` of `dyno-sut` prints itself.
const ORT_OVERHEAD: &str = "tasks.ort_overhead_percent";

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// Dyno does not build, a case cannot be made, or the digits differ: figures of
/// speed of wrong results are none.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let bench = match Bench::asked(root, "tasks", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    if bench.wants(ORT_OVERHEAD) {
        ort_overhead(&bench, args)?;
    }
    // The libraries are those of `peers metrics`.
    let libraries = target_folder(root)?.join("peers").join("metrics");
    fs::create_dir_all(&libraries)
        .with_context(|| format!("cannot create {}", libraries.display()))?;
    let cases = match Cases::with(root, &libraries) {
        Ok(cases) => cases,
        Err(missing) => {
            bench.skip("metric", &missing);
            return Ok(ExitCode::SUCCESS);
        }
    };
    // What is small is no figure anyway, and tests have built that one.
    let dyno = if bench.quick { built_dyno(root)? } else { released_dyno(root)? };
    for case in cases.list()? {
        let name = format!("metric.{}", case.case);
        if !bench.wants(&name) {
            continue;
        }
        let folder = bench.folder.join("cases").join(&case.case);
        eprintln!("{name}: making the log");
        cases.make(&case, &folder, if bench.quick { case.quick } else { case.full })?;
        let mut rounds = Rounds::default();
        for _ in 0..if bench.quick { 1 } else { ROUNDS } {
            let (figures, seconds) = ours(&dyno, &folder)?;
            let peer = cases.peer(&case, &folder)?;
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

/// What ONNX Runtime loses through Dyno. The benchmark finds the library by itself,
/// and says that it is skipped where there is none.
fn ort_overhead(bench: &Bench<'_>, args: &[&str]) -> Result<()> {
    let mut command = Command::new(cargo());
    command.args(["bench", "--quiet", "--package", "dyno-sut", "--bench", "ort", "--"]);
    command.args(args).current_dir(bench.root);
    if !command.status().context("cannot start cargo")?.success() {
        bail!("cargo bench --package dyno-sut --bench ort failed");
    }
    Ok(())
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
