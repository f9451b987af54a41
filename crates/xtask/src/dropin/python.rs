//! The figures of Python: one script, with our module and with the registry's.

use anyhow::{Context, Result};

use super::Bench;
use super::figure::{Better, Figure};
use super::sides::{Program, Sides};
use crate::peers::venv::Venv;
use crate::peers::{WHEEL, target_folder};
use crate::wheel;

const SCRIPT: &str = "crates/xtask/dropin/harness.py";

const fn lower(name: &'static str, unit: &'static str) -> Figure<'static> {
    Figure { name, unit, better: Better::Lower }
}

const SINGLE_STREAM: Figure = lower("dropin.python.single_stream_us", "us/query");
const OFFLINE: [Figure; 2] = [
    lower("dropin.python.offline_us", "us/sample, issued and completed as objects"),
    lower("dropin.python.offline_test_us", "us/sample, whole test"),
];
const FAST: [Figure; 2] = [
    lower("dropin.python.offline_fast_us", "us/sample, issued as numbers"),
    lower("dropin.python.offline_fast_test_us", "us/sample, whole test"),
];
/// The wheel knows no buffers: its best is what it is given as numbers.
const BUFFER: [Figure; 2] = [
    lower("dropin.python.buffer_us", "us/sample, ours in buffers, the wheel's issued as numbers"),
    lower("dropin.python.buffer_test_us", "us/sample, whole test"),
];

/// Prints the figures that are wanted.
pub fn figures(bench: &Bench) -> Result<()> {
    let all = [SINGLE_STREAM].into_iter().chain(OFFLINE).chain(FAST).chain(BUFFER);
    if !all.into_iter().any(|figure| bench.wants(figure.name)) {
        return Ok(());
    }
    let sides = match modules(bench)? {
        Ok(sides) => sides,
        Err(missing) => {
            bench.skip("the figures of Python", &missing);
            return Ok(());
        }
    };
    let single = format!("scenario=single interface=list queries={}", bench.queries(100_000));
    sides.figures(bench, &[SINGLE_STREAM], |program| {
        Ok(vec![program.play(&single)?.per_sample("run_ns") / 1e3])
    })?;
    let offline = format!("scenario=offline queries={}", bench.queries(1_000_000));
    for (figures, ours, wheel) in
        [(OFFLINE, "list", "list"), (FAST, "fast", "fast"), (BUFFER, "buffer", "fast")]
    {
        sides.figures(bench, &figures, |program| {
            let interface = if program.is_ours { ours } else { wheel };
            let measured = program.play(&format!("{offline} interface={interface}"))?;
            Ok(["run_ns", "wall_ns"].map(|key| measured.per_sample(key) / 1e3).to_vec())
        })?;
    }
    Ok(())
}

/// The script with either module; `Err` inside says what cannot be had here.
fn modules(bench: &Bench) -> Result<Result<Sides, String>> {
    let wheels = match wheel::build(bench.root, &wheel::LOADGEN)? {
        Ok(wheels) => wheels,
        Err(missing) => return Ok(Err(missing)),
    };
    let side = |is_ours, venv: Venv| {
        venv.ask("import mlperf_loadgen")?;
        let script = bench.root.join(SCRIPT).into();
        Ok(Program { is_ours, call: vec![venv.python().get_program().to_owned(), script] })
    };
    // The environments of the comparison with the peer.
    let folder = target_folder(bench.root)?.join("peers/loadgen");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let ours = Venv::with_ours(&folder, &wheels, wheel::LOADGEN.package);
    let peer = Venv::with(&folder, WHEEL);
    let sides = ours.and_then(|venv| side(true, venv)).and_then(|ours| {
        let peer = side(false, peer?)?;
        Ok(Sides { ours, peer })
    });
    Ok(sides)
}
