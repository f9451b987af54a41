//! Chores of the repository: `cargo xtask tidy`, `book`, `peers`, `screenshots`,
//! `install-c`, `wheel`, `release`, `fuzz`, `report`, `rnn`, `npu`, `tune`, `tasks`, `task-table`, `witness` and `dropin`.
//!
//! Depends on no other crate of the workspace, so that it runs when they do
//! not compile.
#![forbid(unsafe_code)]

mod bench;
mod book;
mod dropin;
mod fuzz;
mod install_c;
mod npu;
mod peers;
mod release;
mod report;
mod rnn;
mod screenshots;
mod task_table;
mod tasks;
mod tidy;
mod tune;
mod wheel;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy                     checks the tree: edges between crates, sizes, names, leftovers
  house                    counts lines, functions, names, import cycles and examples of each crate
  book                     builds docs/ into target/book and checks its links (installs mdBook
                           from crates.io once)
  peers [GROUP] [--quick] [--strict]
                           compares with peers from other registries (needs python3 and PyPI)
                           groups: book, browser, fuzz, graphs, images, interop, loadgen,
                           metrics, net, number, onnx, ray, release, rnn, tasks, tune, witness;
                           all when none is named
                           --quick: a part of the cases, without book and fuzz unless named; --strict: what is skipped fails, too
  witness [RUNS | second [RUNS] | load [SECONDS]]
                           what `bench/truth` runs: disturbs RUNS runs (300) of the release build,
                           and judges their verdicts by the clock of a server; has a second, independent
                           witness do that (120 runs, needs root); or measures how late it
                           issues, and what that takes from a program next to it
  screenshots [PART]...    writes pictures: report, those of the book and those that
                           `peers browser` compares with (needs chromium, python3 and PyPI);
                           tui, `dyno run --tui` on a pseudo terminal (Linux)
  install-c PREFIX         installs the C and C++ libraries below PREFIX, the drop-in for LoadGen
                           and the engine of recurrent networks: include, lib, pkg-config and
                           CMake packages (needs a C++ compiler, $CXX or c++)
  wheel                    builds the Python wheels dyno-loadgen and dyno-rnn into target/wheels
                           (needs python3 and PyPI)
  release [--quick] [--target TRIPLE]... [--reproducible]
                           makes what users install in target/release-artifacts/VERSION, and
                           checks it (needs git, python3 and PyPI); --quick: for this machine
                           alone, as tests do; --reproducible: builds twice and compares
  release --check FOLDER   checks what such a command made
  fuzz [--seconds N] [TARGET]...
                           feeds every reader of files with made-up input, 60 s each, and fails
                           if one panics or hangs (needs a C++ compiler)
  report [--quick] [PART OF A NAME]...
                           what `bench/report` runs: search, comparison, installation, report
  rnn [--quick] [PART OF A NAME]...
                           what `bench/rnn` runs: recurrent layers beside PyTorch, ONNX Runtime and
                           OpenVINO
  tune [--quick] [PART OF A NAME]...
                           what `bench/tune` runs: number formats of LeNet and of a perceptron
  npu [--quick] [PART OF A NAME]...
                           what `bench/npu` runs: schedulers of multi-tenant accelerators
  tune study [--quick] [--write]
                           tables: rules and searches of the tuner side by side, and the thesis'
                           beside ours; --write: into docs/reference/tune-study.md
  tasks [--quick] [PART OF A NAME]...
                           what `bench/tasks` runs: accuracy logs scored beside Python's libraries
  task-table [--write] [TASK]...
                           runs every task that needs no file of the user in its scenarios (needs
                           python3 and PyPI); --write: into docs/reference/task-results.md
  dropin [--quick] [PART OF A NAME]...
                           what `bench/dropin` runs: costs of the drop-in, one JSON line a figure
";

fn main() -> anyhow::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(&root()),
        ["house"] => tidy::house::run(&root()),
        ["book"] => book::run(&root()),
        ["wheel"] => wheel::run(&root()),
        ["peers", rest @ ..] => peers::run(&root(), rest),
        ["witness", runs @ ..] => peers::witness::bench(&root(), runs),
        ["screenshots", parts @ ..] => screenshots::run(&root(), parts),
        ["install-c", prefix] if !prefix.starts_with('-') => install_c::run(&root(), prefix),
        ["release", rest @ ..] => release::run(&root(), rest),
        ["fuzz", rest @ ..] => fuzz::run(&root(), rest),
        ["report", rest @ ..] => report::run(&root(), rest),
        ["tasks", rest @ ..] => tasks::run(&root(), rest),
        ["rnn", rest @ ..] => rnn::run(&root(), rest),
        ["npu", rest @ ..] => npu::run(&root(), rest),
        ["tune", rest @ ..] => tune::run(&root(), rest),
        ["task-table", rest @ ..] => task_table::run(&root(), rest),
        ["dropin", rest @ ..] => dropin::run(&root(), rest),
        [] | ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => {
            eprint!("there is no command '{}'\n\n{USAGE}", other.join(" "));
            Ok(ExitCode::from(2))
        }
    }
}

/// The root of the repository. That of the checkout which runs this, where cargo
/// says so: two of them may share a target folder, and so this program.
fn root() -> PathBuf {
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = crate_folder.ancestors().nth(2);
    root.expect("the crate lies two folders below the root").to_path_buf()
}
