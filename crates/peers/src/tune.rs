//! `bench/tune`: the bench `tune` of `dyno-number` on MNIST, ONNX Runtime beside its packed networks, Intel
//! Neural Compressor beside `dyno tune`, on MNIST and on networks that others trained, and ten models of our
//! own whose answers ONNX Runtime judges. `tune study` writes tables of rules and searches.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::bench::{self, Bench};
use crate::groups::number::install_weights;
use crate::groups::tune::mnist;
use crate::venv::Venv;
use crate::{cargo, folder, shell};

/// The page into which `tune study --write` writes its tables.
const PAGE: &str = "docs/reference/tune-study.md";
/// The tables are between this line and the last line of the page.
const MARK: &str = "<!-- tables of `cargo xtask tune study` -->\n";

/// The peer, whose later releases do not support ONNX, with versions that it works with.
const PEER: &str =
    "neural-compressor==2.6 onnx==1.16.2 onnxruntime==1.18.1 numpy==1.26.4 six==1.17.0";
const AGAINST: &str = "tune.against_peer_seconds";

/// Networks that others trained.
const NETS: [&str; 2] = ["g2p", "minilm"];
/// Figures that compare each network with its peers.
const NET_FIGURES: [&str; 6] = [
    "peer_seconds",
    "peer_default_seconds",
    "peer_whole_seconds",
    "peer_bits",
    "runtime_dynamic_bits",
    "runtime_static_bits",
];
/// Figures that compare each packed network with ONNX Runtime.
const NET_RUNTIME: [&str; 2] = ["runtime_ms.f32", "runtime_ms.tuned"];
/// A figure that takes minutes: the peer tries as often as it may.
const STATIC: &str = "peer_static_seconds";

/// Figures of ten generated models.
const OWN: [&str; 2] = ["tune.own_models_confirmed", "tune.qdq_roundtrip_models"];

/// The runtime that quantizes and executes models beside our packed networks.
const RUNTIME: &str = "onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6";
const BESIDE: &str = "tune.lenet.against_runtime_us";

/// Options of `cargo xtask tune`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Options {
    #[command(flatten)]
    figures: bench::FigureOptions,
    #[command(subcommand)]
    tables: Option<Tables>,
}

#[derive(Debug, Subcommand)]
enum Tables {
    /// Print tables: rules and searches of the tuner side by side, and the thesis' beside ours
    Study {
        #[command(flatten)]
        options: bench::FigureOptions,
        /// Write the tables into docs/reference/tune-study.md
        #[arg(long)]
        write: bool,
    },
}

/// Prints the wanted figures, or the tables of `study`.
///
/// # Errors
/// Dyno does not build, or a program fails.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    if let Some(Tables::Study { options, write }) = &options.tables {
        return study(&Bench::new(root, "tune", options)?, *write);
    }
    let bench = Bench::new(root, "tune", &options.figures)?;
    if OWN.iter().any(|figure| bench.wants(figure)) {
        own_models(&bench)?;
    }
    if !bench.names_only(&[&NETS[..], &OWN[..], &["own_models", "qdq"][..]].concat()) {
        if !has_data(&bench)? {
            return Ok(ExitCode::SUCCESS);
        }
        mnist_figures(&bench)?;
    }
    against_nets(&bench)?;
    beside_nets(&bench)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the figures of LeNet and of the perceptron.
fn mnist_figures(bench: &Bench<'_>) -> Result<()> {
    // The figures of peers need only the model that the bench writes.
    if !bench.names_only(&["against"]) || !bench.folder.join("lenet.onnx").is_file() {
        let mut command = bench_command(bench)?;
        print(bench, command.args(bench.only()))?;
    }
    if bench.wants(BESIDE) {
        beside_runtime(bench)?;
    }
    if bench.wants(AGAINST) {
        against_peer(bench)?;
    }
    Ok(())
}

/// Tunes ten generated models, and lets ONNX Runtime judge the answers.
fn own_models(bench: &Bench<'_>) -> Result<()> {
    let Some(venv) = bench.or_skip(OWN[0], runtime(bench)?) else { return Ok(()) };
    let mut build = cargo::command(bench.root);
    build.args(["build", "--quiet", "--release", "--package", "dyno-number", "--example", "qdq"]);
    shell::run(&mut build)?;
    let example = cargo::target_folder(bench.root)?.join("release/examples/qdq");
    let mut script = venv.script(&bench.root.join("crates/peers/scripts/ten_models.py"));
    script.arg(cargo::release_dyno(bench.root)?).arg(example).arg(&bench.folder);
    print(bench, script.args(bench.quick.then_some("--quick")))
}

/// Measures packed networks and ONNX Runtime in turn.
fn beside_runtime(bench: &Bench<'_>) -> Result<()> {
    let Some(venv) = bench.or_skip(BESIDE, runtime(bench)?) else { return Ok(()) };
    let mut peer = venv.script(&bench.root.join("crates/peers/scripts/packed.py"));
    peer.arg(cargo::bench_program(bench.root, "dyno-number", "tune")?).arg(&bench.folder);
    print(bench, peer.args(bench.quick.then_some("--quick")))
}

/// Measures the peer and `dyno tune` in turn.
fn against_peer(bench: &Bench<'_>) -> Result<()> {
    let Some(venv) = bench.or_skip(AGAINST, peer(bench)?) else { return Ok(()) };
    print(bench, &mut script(bench, &venv, "against.py")?)
}

/// Measures the peer and `dyno tune` in turn on networks that others trained.
fn against_nets(bench: &Bench<'_>) -> Result<()> {
    let asks_static = |net: &str| bench.names(&net_figure(net, STATIC));
    let nets = nets(bench, |net| asks_static(net) || wants_any(bench, net, &NET_FIGURES));
    let is_static = nets.iter().any(|net| asks_static(net));
    compare_nets(bench, &nets, peer, "against_nets.py", is_static.then_some("--static"))
}

/// Measures these networks, packed, and ONNX Runtime in turn.
fn beside_nets(bench: &Bench<'_>) -> Result<()> {
    let nets = nets(bench, |net| wants_any(bench, net, &NET_RUNTIME));
    compare_nets(bench, &nets, runtime, "packed_nets.py", None)
}

fn net_figure(net: &str, figure: &str) -> String {
    format!("tune.{net}.against_{figure}")
}

fn wants_any(bench: &Bench<'_>, net: &str, figures: &[&str]) -> bool {
    figures.iter().any(|figure| bench.wants(&net_figure(net, figure)))
}

/// Returns the wanted networks, in a quick run without the large one.
fn nets(bench: &Bench<'_>, is_wanted: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut nets: Vec<&str> = NETS.into_iter().filter(|net| is_wanted(net)).collect();
    if bench.quick && nets.contains(&"minilm") {
        bench.skip("minilm", "it takes minutes, and the run is quick");
        nets.retain(|net| *net != "minilm");
    }
    nets
}

/// Runs a script about networks in the environment of a peer and prints the wanted lines. `more` is a
/// further argument of the script.
fn compare_nets(
    bench: &Bench<'_>,
    nets: &[&str],
    peer: fn(&Bench<'_>) -> Result<Result<Venv, String>>,
    script: &str,
    more: Option<&str>,
) -> Result<()> {
    if nets.is_empty() {
        return Ok(());
    }
    let venv = peer(bench)?.and_then(|venv| install_weights(&venv).map(|()| venv));
    let Some(venv) = bench.or_skip(&nets.join(" and "), venv) else { return Ok(()) };
    print(bench, self::script(bench, &venv, script)?.args(more).args(nets))
}

/// Returns an environment with ONNX Runtime. The inner error names what this machine lacks.
fn runtime(bench: &Bench<'_>) -> Result<Result<Venv, String>> {
    let folder = bench.folder.join("runtime");
    folder::create(&folder)?;
    Ok(Venv::with_packages(&folder, RUNTIME))
}

/// Returns an environment with the peer. The inner error names what this machine lacks.
fn peer(bench: &Bench<'_>) -> Result<Result<Venv, String>> {
    let folder = bench.folder.join("peer");
    folder::create(&folder)?;
    Ok(Venv::with_packages(&folder, PEER))
}

/// Returns a command of a script, with the arguments that all scripts take: `dyno` and a folder.
fn script(bench: &Bench<'_>, venv: &Venv, name: &str) -> Result<Command> {
    let mut command = venv.script(&bench.root.join("crates/peers/scripts").join(name));
    command.arg(cargo::release_dyno(bench.root)?).arg(&bench.folder);
    command.args(bench.quick.then_some("--quick"));
    Ok(command)
}

/// Prints the wanted lines of a program.
fn print(bench: &Bench<'_>, command: &mut Command) -> Result<()> {
    shell::each_value(command, |line| {
        if line["name"].as_str().is_some_and(|name| bench.wants(name)) {
            println!("{line}");
        }
        Ok(())
    })
}

/// Prints tables of rules and searches side by side, in Markdown, and writes them into the page if
/// `writes`.
fn study(bench: &Bench<'_>, writes: bool) -> Result<ExitCode> {
    if !has_data(bench)? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut tables = String::new();
    // Each row is shown at once, because the study takes long.
    shell::each_line(bench_command(bench)?.arg("--study"), |line| {
        println!("{line}");
        tables.push_str(line);
        tables.push('\n');
        Ok(())
    })?;
    if writes {
        let path = bench.root.join(PAGE);
        let page = fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
        let (head, rest) =
            page.split_once(MARK).with_context(|| format!("{PAGE} has no {MARK}"))?;
        let last = rest.trim_end().lines().last().unwrap_or_default();
        fs::write(&path, format!("{head}{MARK}\n{tables}{last}\n"))
            .with_context(|| format!("cannot write {PAGE}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether MNIST is available; reports on stderr why not.
fn has_data(bench: &Bench<'_>) -> Result<bool> {
    Ok(bench.or_skip("tune", mnist(bench.root, &bench.folder)?).is_some())
}

fn bench_command(bench: &Bench<'_>) -> Result<Command> {
    let mut command = Command::new(cargo::bench_program(bench.root, "dyno-number", "tune")?);
    command.arg("--bench").arg(&bench.folder).args(bench.quick.then_some("--quick"));
    Ok(command)
}
