//! Figures of the Python interface: one script, with our module and with the reference's.

use anyhow::Result;

use super::Bench;
use super::sides::{Program, Sides};
use crate::figure::{Better, Figure};
use crate::groups::WHEEL;
use crate::venv::Venv;
use crate::{cargo, folder, wheel};

const SCRIPT: &str = "crates/peers/dropin/harness.py";

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
/// The reference has no buffers; it is fastest with numbers.
const BUFFER: [Figure; 2] = [
    lower("dropin.python.buffer_us", "us/sample, ours in buffers, the wheel's issued as numbers"),
    lower("dropin.python.buffer_test_us", "us/sample, whole test"),
];

/// Prints the wanted figures.
pub fn figures(bench: &Bench) -> Result<()> {
    let all = [SINGLE_STREAM].into_iter().chain(OFFLINE).chain(FAST).chain(BUFFER);
    if !all.into_iter().any(|figure| bench.wants(figure.name)) {
        return Ok(());
    }
    let Some(sides) = bench.or_skip("the figures of Python", modules(bench)?) else {
        return Ok(());
    };
    let single = format!("scenario=single interface=list queries={}", bench.queries(100_000));
    sides.figures(bench, &[SINGLE_STREAM], |program| {
        Ok(vec![program.run_test(&single)?.per_sample("run_ns") / 1e3])
    })?;
    let offline = format!("scenario=offline queries={}", bench.queries(1_000_000));
    for (figures, ours, wheel) in
        [(OFFLINE, "list", "list"), (FAST, "fast", "fast"), (BUFFER, "buffer", "fast")]
    {
        sides.figures(bench, &figures, |program| {
            let interface = if program.is_ours { ours } else { wheel };
            let measurement = program.run_test(&format!("{offline} interface={interface}"))?;
            Ok(["run_ns", "wall_ns"].map(|key| measurement.per_sample(key) / 1e3).to_vec())
        })?;
    }
    Ok(())
}

/// Returns the script with either module. The inner error names what this machine lacks.
fn modules(bench: &Bench) -> Result<Result<Sides, String>> {
    let wheels = match wheel::build(bench.root, &wheel::LOADGEN)? {
        Ok(wheels) => wheels,
        Err(missing) => return Ok(Err(missing)),
    };
    let side = |is_ours, venv: Venv| {
        venv.eval("import mlperf_loadgen")?;
        let script = bench.root.join(SCRIPT).into();
        Ok(Program { is_ours, call: vec![venv.python().get_program().to_owned(), script] })
    };
    // The group `loadgen` of comparisons uses the same environments.
    let folder = cargo::target_folder(bench.root)?.join("peers/loadgen");
    folder::create(&folder)?;
    let ours = Venv::with_wheel(&folder, &wheels, wheel::LOADGEN.package);
    let peer = Venv::with_packages(&folder, WHEEL);
    let sides = ours.and_then(|venv| side(true, venv)).and_then(|ours| {
        let peer = side(false, peer?)?;
        Ok(Sides { ours, peer })
    });
    Ok(sides)
}
