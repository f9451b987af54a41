//! Examples of the commands, which their help shows.

use std::fmt::Write as _;

use clap::Command;

/// Lines to type, and what they do.
type Examples = [(&'static str, &'static str)];

/// Examples by command.
const EXAMPLES: &[(&str, &Examples)] = &[
    (
        "run",
        &[
            ("dyno run", "the built-in model: accuracy and speed in the four MLPerf scenarios"),
            (
                "dyno run model.onnx --scenario server --qps 100 --require 'p99<=50ms'",
                "an ONNX model at a rate, with a limit that sets the exit code",
            ),
            ("dyno run http://localhost:8000 --max-concurrency 16", "a server of language models"),
        ],
    ),
    (
        "probe",
        &[
            ("dyno probe http://localhost:8000", "the kind of server, and its answer"),
            ("dyno probe model.onnx --json", "inputs and outputs of a model, for programs"),
            ("dyno probe http://localhost:8000 --queries 10", "ten requests, to see a cold start"),
        ],
    ),
    (
        "search",
        &[
            (
                "dyno search model.onnx --limit 'p99<=20ms'",
                "the highest rate whose p99 is at most 20 ms",
            ),
            (
                "dyno search http://localhost:8000 --limit 'ttft.p95<=500ms' --limit 'tpot.p95<=50ms'",
                "the highest rate of a server that keeps two limits",
            ),
            (
                "dyno search --system model:exponential=2ms,servers=8 --limit 'p99<=20ms'",
                "a simulated system, in virtual time",
            ),
        ],
    ),
    (
        "sweep",
        &[
            (
                "dyno sweep http://localhost:8000 --over max-concurrency=1,2,4,8,16",
                "latency and throughput by concurrency",
            ),
            (
                "dyno sweep model.onnx --over batch=1,8,32 --over threads=1,2",
                "six configurations of a model",
            ),
            ("dyno sweep --resume runs/TIME-sweep-NAME", "continue a sweep that was interrupted"),
        ],
    ),
    (
        "compare",
        &[
            ("dyno compare runs/before runs/after", "two runs; exit code 1 if the second is worse"),
            (
                "dyno compare --with aiperf http://localhost:8000 --max-concurrency 8",
                "Dyno and aiperf in turn on one server",
            ),
            (
                "dyno compare --interleave 5 a.toml b.toml",
                "measure two configurations in turn, five times each",
            ),
        ],
    ),
    (
        "report",
        &[
            ("dyno report runs/TIME-NAME", "write the HTML page of a run again"),
            ("dyno report runs/before runs/after --out both.html", "one page of two runs"),
            (
                "dyno report --submission tree --round v5.1 --csv tables",
                "the tables of a submission tree",
            ),
        ],
    ),
    (
        "export",
        &[
            ("dyno export runs/TIME-NAME --format csv", "every record as a row"),
            ("dyno export runs/TIME-NAME --format junit", "the verdicts as tests, for CI"),
            ("dyno export runs/TIME-NAME --format prometheus", "the figures for a push gateway"),
        ],
    ),
    (
        "task",
        &[
            ("dyno task list", "all tasks and the state of their data"),
            ("dyno task run g2p", "accuracy against its target, then speed"),
            ("dyno task score --help", "metrics that score the answers of any accuracy run"),
        ],
    ),
    (
        "fetch",
        &[
            ("dyno fetch g2p", "model and data of one task"),
            ("dyno fetch g2p silero-vad", "models and data of two tasks"),
            ("dyno fetch --help", "where files are stored"),
        ],
    ),
    (
        "audit",
        &[
            ("dyno audit TEST04 -- --system onnx:model.onnx", "run the audit for cached results"),
            (
                "dyno audit TEST01 --benchmark resnet50 -- --system onnx:model.onnx",
                "with the rules of a benchmark",
            ),
            ("dyno audit config TEST04", "print the audit.config for a LoadGen harness"),
        ],
    ),
    (
        "package",
        &[
            (
                "dyno package tree runs/a runs/b --division open --submitter Me --system s1 --suite edge",
                "a submission tree from two runs",
            ),
            ("dyno check tree --round v5.1", "then validate it"),
            (
                "dyno package tree runs/c --division open --submitter Me --system s1 --suite edge --describe s.toml",
                "add a run, with the fields that Dyno cannot capture",
            ),
        ],
    ),
    (
        "check",
        &[
            ("dyno check submission --round v5.1", "by the rules of the round"),
            ("dyno check submission --compat v5.1", "as the official checker of that round"),
            ("dyno check --explain result.twice", "what a finding means, and its source"),
        ],
    ),
    (
        "rnn",
        &[
            ("dyno rnn explain lstm:64x128", "the plan of a layer and its predicted time"),
            ("dyno rnn explain model.onnx", "the layers of a model, and how they are verified"),
            ("dyno rnn hwbench", "what this machine computes and reads per second"),
        ],
    ),
    (
        "tune",
        &[
            (
                "dyno tune profile model.onnx --samples x.npy > model.toml",
                "write the descriptor of a model",
            ),
            ("dyno tune run model.toml --out tuned", "search the formats"),
            ("dyno tune plot model.toml --out widths.html", "draw accuracy against width"),
        ],
    ),
    (
        "npu",
        &[
            ("dyno npu layers RN", "times of the layers of ResNet-50"),
            ("dyno npu run RN BB", "two networks that share one accelerator"),
            ("dyno npu sweep --help", "a grid of settings, with heat maps"),
        ],
    ),
    (
        "serve",
        &[
            ("dyno serve --system onnx:model.onnx", "a model on 127.0.0.1:8000"),
            (
                "dyno serve --system tokens:first=20ms,each=5ms",
                "a server of words, to try a client",
            ),
            (
                "dyno serve --system onnx:model.onnx --http 0.0.0.0:8000 --grpc 0.0.0.0:8001",
                "HTTP and gRPC on all addresses",
            ),
        ],
    ),
    (
        "worker",
        &[
            (
                "dyno run http://gpu:8000 --remote-workers 2 --listen 0.0.0.0:7700",
                "on the first machine, then on two others, each with the same DYNO_WORKER_TOKEN:",
            ),
            ("dyno worker --join first:7700 --allow hosts:gpu", "join its runs"),
            ("dyno worker --help", "what a worker may read and send"),
        ],
    ),
    (
        "launch",
        &[
            (
                "dyno launch --on local --workers 2 -- run http://gpu:8000 --qps 200",
                "a run with two workers on this machine",
            ),
            (
                "dyno launch --on slurm --workers 8 -- sweep --config dyno.toml",
                "a Slurm job whose 8 workers share the load of each point",
            ),
            (
                "dyno launch --on k8s --image dyno:0.2 --dry-run -- run --config dyno.toml",
                "print the manifests",
            ),
        ],
    ),
    (
        "init",
        &[
            ("dyno init", "write dyno.toml with the most used keys"),
            ("dyno init --llm", "the same for a server of language models"),
            ("dyno run --config dyno.toml", "run it"),
        ],
    ),
    (
        "info",
        &[
            ("dyno info systems openai", "what --system openai:URL accepts"),
            ("dyno info metrics", "the figures of a run, and their definitions"),
            ("dyno info exit-codes", "for scripts and CI"),
        ],
    ),
    (
        "selftest",
        &[
            ("dyno selftest", "timer, scheduler and load generator of this machine"),
            ("dyno selftest --json", "for programs"),
            ("dyno selftest --source .", "compare the build with the sources in this checkout"),
        ],
    ),
    (
        "completions",
        &[
            ("dyno completions bash > ~/.local/share/bash-completion/completions/dyno", "bash"),
            ("dyno completions zsh > ~/.zfunc/_dyno", "zsh, if ~/.zfunc is in $fpath"),
            ("dyno completions fish > ~/.config/fish/completions/dyno.fish", "fish"),
        ],
    ),
    (
        "man",
        &[
            ("dyno man | man -l -", "read dyno(1)"),
            ("dyno man ~/.local/share/man/man1", "install all pages"),
            ("dyno man pages", "write all pages to a directory"),
        ],
    ),
];

/// Adds the examples to the help of each command.
pub fn with_examples(dyno: Command) -> Command {
    EXAMPLES.iter().fold(dyno, |dyno, (name, examples)| {
        dyno.mut_subcommand(name, |command| {
            let mut text = match command.get_after_help() {
                Some(notes) => format!("{notes}\n\nExamples:"),
                None => "Examples:".to_owned(),
            };
            for (line, meaning) in *examples {
                let _ = write!(text, "\n  {line}\n      {meaning}");
            }
            command.after_help(text)
        })
    })
}

/// Removes notes and examples, for the help of `-h`.
pub fn without_notes(dyno: Command) -> Command {
    let names: Vec<String> =
        dyno.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.iter().fold(dyno, |dyno, name| {
        dyno.mut_subcommand(name, |command| {
            command.after_help(format!("dyno {name} --help also shows notes and examples."))
        })
    })
}

/// Joins the lines of each paragraph of the notes, which clap wraps to the width of the terminal.
pub fn with_joined_notes(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command =
        names.iter().fold(command, |command, name| command.mut_subcommand(name, with_joined_notes));
    match command.get_after_help().map(|notes| joined(&notes.to_string())) {
        Some(notes) => command.after_help(notes),
        None => command,
    }
}

fn joined(notes: &str) -> String {
    let mut text = String::new();
    let mut last = "";
    for (number, line) in notes.lines().enumerate() {
        if number > 0 {
            text.push(if continues(last, line) { ' ' } else { '\n' });
        }
        text += line;
        last = line;
    }
    text
}

/// Width to which the notes are wrapped in the sources, and the shortest line that was wrapped.
const WRAPPED: std::ops::RangeInclusive<usize> = 70..=100;

/// Returns whether a line of notes continues the paragraph of the line before it. Examples, lists
/// and tables are indented or have columns.
fn continues(last: &str, line: &str) -> bool {
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.contains("  ");
    if !is_prose(last) || !is_prose(line) || last.ends_with(':') {
        return false;
    }
    let columns = last.chars().count();
    let word = line.split(' ').next().map_or(0, |word| word.chars().count());
    let is_full = columns + 1 + word > *WRAPPED.end();
    if last.ends_with('.') {
        is_full && !line.starts_with("Exit codes:") && !line.starts_with("Example")
    } else {
        columns >= *WRAPPED.start()
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::super::{Dyno, command_line};
    use super::*;

    #[test]
    fn every_command_has_three_examples() {
        let dyno = command_line();
        for command in dyno.get_subcommands().filter(|command| command.get_name() != "help") {
            let examples = EXAMPLES.iter().find(|(name, _)| *name == command.get_name());
            assert!(examples.is_some_and(|(_, all)| all.len() == 3), "{}", command.get_name());
        }
    }

    #[test]
    fn examples_are_correct_command_lines() {
        for (line, _) in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
            let typed = line.split(['>', '|']).next().unwrap_or(line);
            // Where an operator of a limit was cut, the value has an open quote.
            let typed = if typed.contains('\'') { line } else { typed };
            let words =
                typed.split_whitespace().map(|word| word.replace('\'', "").into()).collect();
            if let Err(error) = Dyno::read(words) {
                assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{line}: {error}");
            }
        }
    }

    /// A line that was wrapped cannot be copied.
    #[test]
    fn examples_fit_into_a_line_of_the_help() {
        for (line, _) in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
            assert!(line.chars().count() <= 98, "{line}");
        }
    }

    #[test]
    fn paragraphs_of_notes_are_wrapped_once() {
        let (full, end) = (format!("{}only", "word ".repeat(18)), "you know.");
        let rest = "\nExit codes: 0 written\n\nExamples:\n  dyno run\n      the model";
        assert_eq!(joined(&format!("{full}\n{end}{rest}")), format!("{full} {end}{rest}"));
        let table =
            "bash:  source <(dyno completions bash), which is longer than seventy columns\nzsh:  x";
        assert_eq!(joined(table), table);
        // A line of the narrow help ends inside a paragraph only where the terminal does.
        let dyno = with_joined_notes(command_line());
        let mut package = dyno.find_subcommand("package").unwrap().clone().term_width(80);
        let help = package.render_long_help().to_string();
        assert!(!help.contains("\nyou know are marked"), "{help}");
        assert!(help.contains("\nExit codes: 0 written") && help.contains("\nExamples:\n  dyno"));
    }

    #[test]
    fn the_short_help_has_no_notes() {
        let short = without_notes(command_line());
        let help = short.find_subcommand("run").unwrap().clone().render_help().to_string();
        assert!(!help.contains("Examples:") && help.contains("dyno run --help"), "{help}");
    }
}
