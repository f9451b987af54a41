//! Chores of the repository, `cargo xtask COMMAND`: checks of the tree, releases, the book, fuzzing,
//! pictures. The benchmarks and comparisons of `dyno-peers` are commands, too.
//!
//! Depends on no crate of the workspace but `dyno-peers`, which depends on none, so that it runs when
//! the others do not compile.
#![forbid(unsafe_code)]

mod book;
mod fuzz;
mod groups;
mod release;
mod screenshots;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use dyno_peers::{bench, dropin, install_c, npu, report, rnn, task_table, tasks, tune, wheel};

/// Chores of the repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the tree: edges between crates, sizes, names, leftovers
    Tidy,
    /// Count lines, functions, names, import cycles, examples and unsafe code of each crate
    House,
    /// Build docs/ into target/book and check its links (installs mdBook from crates.io once)
    Book,
    /// Compare with peers from other registries (needs python3 and PyPI)
    Peers(dyno_peers::groups::Options),
    /// Print figures of `bench/truth`: disturb runs of the release build, and judge their verdicts by
    /// the clock of a server
    Witness(dyno_peers::groups::witness::Options),
    /// Write pictures: report, those of the book and those that `peers browser` compares with (needs
    /// chromium, python3 and PyPI); tui, `dyno run --tui` on a pseudo terminal (Linux)
    Screenshots(screenshots::Options),
    /// Install the C and C++ libraries below PREFIX, the drop-in for LoadGen and the engine of
    /// recurrent networks: include, lib, pkg-config and CMake packages (needs a C++ compiler, $CXX or
    /// c++)
    InstallC { prefix: PathBuf },
    /// Build the Python wheels dyno-loadgen and dyno-rnn into target/wheels (needs python3 and PyPI)
    Wheel,
    /// Build what users install in target/release-artifacts/VERSION, and check it (needs git, python3
    /// and PyPI)
    Release(release::Options),
    /// Run every reader of files on generated input, and fail if one panics or hangs (needs a C++
    /// compiler)
    Fuzz(fuzz::Options),
    /// Print figures of `bench/report`: search, comparison, installation, report
    Report(bench::FigureOptions),
    /// Print figures of `bench/rnn`: recurrent layers beside PyTorch, ONNX Runtime and OpenVINO
    Rnn(bench::FigureOptions),
    /// Print figures of `bench/tune`: number formats of LeNet and of a perceptron
    Tune(tune::Options),
    /// Print figures of `bench/npu`: schedulers of multi-tenant accelerators
    Npu(bench::FigureOptions),
    /// Print figures of `bench/tasks`: accuracy logs scored beside Python's libraries
    Tasks(bench::FigureOptions),
    /// Run every task that needs no file of the user in its scenarios (needs python3 and PyPI)
    TaskTable(task_table::Options),
    /// Print figures of `bench/dropin`: costs of the drop-in, one JSON line per figure
    Dropin(bench::FigureOptions),
}

fn main() -> anyhow::Result<ExitCode> {
    let root = &dyno_peers::cargo::root();
    let Some(command) = Arguments::parse().command else {
        Arguments::command().print_help()?;
        return Ok(ExitCode::SUCCESS);
    };
    match command {
        Command::Tidy => tidy::run(root),
        Command::House => tidy::house::run(root),
        Command::Book => book::run(root),
        Command::Peers(options) => dyno_peers::groups::run(root, &options, groups::ALL),
        Command::Witness(options) => dyno_peers::groups::witness::print_figures(root, &options),
        Command::Screenshots(options) => screenshots::run(root, &options),
        Command::InstallC { prefix } => install_c::run(root, &prefix),
        Command::Wheel => wheel::run(root),
        Command::Release(options) => release::run(root, &options),
        Command::Fuzz(options) => fuzz::run(root, &options),
        Command::Report(options) => report::run(root, &options, &release::WHEEL),
        Command::Rnn(options) => rnn::run(root, &options),
        Command::Tune(options) => tune::run(root, &options),
        Command::Npu(options) => npu::run(root, &options),
        Command::Tasks(options) => tasks::run(root, &options),
        Command::TaskTable(options) => task_table::run(root, &options),
        Command::Dropin(options) => dropin::run(root, &options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_lines_of_scripts_are_accepted() {
        Arguments::command().debug_assert();
        for line in [
            "",
            "peers",
            "peers --quick",
            "peers onnx tasks --strict",
            "witness",
            "witness 10",
            "witness second 3",
            "witness load 1",
            "screenshots tui",
            "install-c PREFIX",
            "release --check FOLDER",
            "release --target x86_64-unknown-linux-musl --reproducible",
            "fuzz settings --seconds 5",
            "report --quick search.within compare",
            "tune lenet --quick",
            "tune study --quick --write lenet",
            "task-table --write digits",
        ] {
            let words = ["cargo xtask"].into_iter().chain(line.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_ok(), "{line}");
        }
        for line in ["nothing", "npu --full", "fuzz --seconds 0", "release --quick --reproducible"]
        {
            let words = ["cargo xtask"].into_iter().chain(line.split_whitespace());
            let error = Arguments::try_parse_from(words).map(drop).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
