//! Flags and commands of other load generators and benchmarks, with what Dyno has instead: those of
//! vLLM bench, aiperf, genai-perf, guidellm, perf_analyzer, wrk, hey, oha, k6, ab, locust, vegeta,
//! trtexec, onnxruntime_perf_test, benchmark_app and the main.py of MLPerf.

mod tables;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use dyno_experiment::options::KEYS;
use dyno_loadgen::settings::similar;

use crate::cmd::command_names;
use tables::{FLAGS, FORMATS, NUMBER, SERVE_FLAGS, VERSION, WORDS};

/// Commands that measure a system.
const COMMANDS: [&str; 5] = ["run", "probe", "search", "sweep", "compare"];

/// Flags of `dyno run` that other commands that measure may lack.
const DISPLAY: [&str; 7] =
    ["--quiet", "-q", "--verbose", "-v", "--no-progress", "--tui", "--dry-run"];

/// Replaces the suggestion for an unknown flag, argument or command if other tools have it: names that
/// look alike often mean something else. `command` is the first argument of the program.
pub fn with_advice(mut error: Error, command: &str) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let advice = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            text(ContextKind::InvalidSubcommand).filter(|word| *word == command).and_then(of_word)
        }
        ErrorKind::UnknownArgument => {
            text(ContextKind::InvalidArg).and_then(|given| of_argument(given, command))
        }
        _ => None,
    };
    let Some(advice) = advice else {
        return without_failing_tip(error, command);
    };
    for kind in [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        // The usage shows the flag that was suggested.
        ContextKind::Usage,
    ] {
        error.remove(kind);
    }
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    error
}

/// Removes the tip to pass an unknown flag behind `--`, unless the command starts another one there.
fn without_failing_tip(mut error: Error, command: &str) -> Error {
    if error.kind() != ErrorKind::UnknownArgument || ["audit", "launch"].contains(&command) {
        return error;
    }
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().starts_with("to pass "));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

/// Returns the advice for a word in the place of the command.
fn of_word(word: &str) -> Option<String> {
    let has_port = word.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if word.contains("://") || has_port || is_onnx(word) {
        return Some(format!("use dyno run {word}"));
    }
    if word.to_ascii_lowercase().ends_with(".toml") {
        return Some(format!("use dyno run --config {word}"));
    }
    find(WORDS, word).or_else(|| {
        let name = similar(word, command_names().into_iter())?;
        Some(format!("a similar subcommand exists: '{name}'"))
    })
}

/// Returns the advice for a flag or another argument that a command does not have.
fn of_argument(given: &str, command: &str) -> Option<String> {
    let flag = match given.strip_prefix("--") {
        Some(name) => format!("--{}", name.to_ascii_lowercase().replace('_', "-")),
        None => given.to_owned(),
    };
    match command {
        _ if COMMANDS.contains(&command) && is_onnx(given) => Some(
            "a run has one target; use dyno sweep --over system=onnx:A.onnx,onnx:B.onnx".into(),
        ),
        "run" | "search" if given.parse::<f64>().is_ok() => Some(NUMBER.into()),
        "export" => {
            let format = flag.strip_prefix("--").filter(|name| FORMATS.contains(name))?;
            Some(format!("use --format {format}"))
        }
        "sweep" if is_key(given) => Some(format!("use --over {given}")),
        "run" | "probe" | "search" if is_key(given) => Some(of_key(given)),
        _ if COMMANDS.contains(&command) => find(FLAGS, &flag).or_else(|| {
            let is_of_run = DISPLAY.contains(&flag.as_str());
            is_of_run
                .then(|| format!("remove it: dyno {command} has no such flag, unlike dyno run"))
        }),
        "serve" if is_onnx(given) => Some(format!("use dyno serve --system onnx:{given}")),
        "serve" if !given.starts_with('-') => Some(format!("use dyno serve --system {given}")),
        "serve" => find(SERVE_FLAGS, &flag),
        "worker" if !given.starts_with('-') => Some(format!("use dyno worker --join {given}")),
        "launch" if !given.starts_with('-') => {
            Some("use dyno launch --on ENGINE -- COMMAND".into())
        }
        "init" | "man" if is_output(&flag) => {
            Some(format!("pass the path without a flag: dyno {command} PATH"))
        }
        "package" if is_output(&flag) => {
            Some("pass the folder of the tree without a flag: dyno package TREE RUN".into())
        }
        _ if command.starts_with('-') => of_flag_without_command(command, given),
        _ => None,
    }
}

/// Returns the advice for a flag in the place of the command: a flag of runs, or another form of `-V`.
fn of_flag_without_command(first: &str, given: &str) -> Option<String> {
    if first == "-v" {
        return Some(VERSION.into());
    }
    let flag = given.split('=').next().and_then(|name| name.strip_prefix("--"))?;
    let is_of_run = KEYS.iter().any(|key| key.name == flag) || flag == "config";
    is_of_run.then(|| format!("write the command first: dyno run --{flag}"))
}

/// Returns whether a flag of another command or tool names the file or folder to write.
fn is_output(flag: &str) -> bool {
    ["--out", "--output", "-o"].contains(&flag)
}

/// Returns whether an argument is a key with its value, such as `input=5`, and not a URL.
fn is_key(given: &str) -> bool {
    let key = given.split_once('=').map(|(key, _)| key);
    key.is_some_and(|key| !key.starts_with('-') && !key.contains('/'))
}

/// Returns the advice for a key after the target: it may be a flag, or belong to the URL.
fn of_key(given: &str) -> String {
    let of_url = format!("write keys after the target and a comma: http://HOST:PORT,{given}");
    match given.split_once('=') {
        Some((name, value)) if KEYS.iter().any(|key| key.name == name) => {
            format!("use --{name} {value}; for a key of a server, {of_url}")
        }
        _ => of_url,
    }
}

fn is_onnx(word: &str) -> bool {
    !word.starts_with('-') && word.to_ascii_lowercase().ends_with(".onnx")
}

fn find(table: &[(&str, &str)], name: &str) -> Option<String> {
    table.iter().find(|(known, _)| *known == name).map(|(_, advice)| (*advice).to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use dyno_experiment::system::SystemKind;

    use super::*;
    use crate::cmd::{Dyno, command_line};

    /// Returns the message for a wrong command line.
    fn read(arguments: &[&str]) -> String {
        Dyno::read(arguments.iter().map(OsString::from).collect()).unwrap_err().to_string()
    }

    /// Returns the message for a flag of `dyno run`.
    fn message(flag: &str) -> String {
        read(&["dyno", "run", "http://h:1", flag, "8"])
    }

    #[test]
    fn flags_of_other_tools_are_answered_with_those_of_dyno() {
        for (flag, expected) in [
            ("--rate", "use --request-rate RATE"),
            ("--input-len", "http://HOST:PORT,input=N"),
            ("--max-tokens", "http://HOST:PORT,max-tokens=N"),
            ("--api-key", "http://HOST:PORT,token-env=NAME"),
            ("--dataset-name", "use --data FILE"),
            ("-c", "use --max-concurrency N"),
            ("--target-qps", "use --request-rate RATE"),
            ("--device", "start a model server"),
            ("--provider", "start a model server"),
            ("--providers", "start a model server"),
            ("--port", "dyno run http://HOST:PORT"),
            ("--slo", "use --goodput ttft:200"),
            ("--version", "use dyno -V"),
            ("--batch-size", "use --batch N"),
            ("--batch_size", "use --batch N"),
            ("--max-batchsize", "use --batch N"),
            ("--endpoint", "http://HOST:PORT/v1/completions"),
            ("--model-path", "dyno run MODEL.onnx"),
            ("--loadEngine", "dyno run MODEL.onnx"),
            ("--mlperf_conf", "use --conf FILE"),
            ("--accuracy", "use --mode accuracy"),
            ("--concurrency-range", "dyno sweep --over max-concurrency=1,2,4"),
            ("--temperature", "temperature:=0"),
            ("--insecure", "insecure=true"),
            ("--run-time", "use --duration TIME"),
            ("--users", "use --max-concurrency N"),
            ("-n", "use --num-prompts N"),
            ("-m", "dyno run MODEL.onnx"),
            ("-o", "use --out DIR"),
            ("-z", "use --duration TIME"),
            ("-d", "use --duration TIME"),
            ("-t", "use --duration TIME"),
            ("-u", "pass the URL without a flag"),
            ("-b", "use --batch N"),
            ("--junit", "dyno export RUN --format junit"),
            ("--format", "dyno export RUN --format csv"),
            ("--report", "report.html"),
            ("--collect-metrics", "metrics=URL"),
            ("--shared-memory", "tensors in the request"),
            ("--no-color", "set NO_COLOR=1"),
            ("--markdown", "GITHUB_STEP_SUMMARY"),
            ("--force", "--out DIR selects a new one"),
            ("--overwrite", "--out DIR selects a new one"),
        ] {
            let message = message(flag);
            assert!(message.contains(&format!("unexpected argument '{flag}'")), "{message}");
            assert!(message.contains(expected) && !message.contains("Usage"), "{message}");
            assert!(!message.contains("similar") && !message.contains("'-- "), "{message}");
        }
        let own = message("--max-concurency");
        assert!(own.contains("a similar argument exists: '--max-concurrency'"), "{own}");
    }

    #[test]
    fn words_of_other_tools_are_answered_with_commands() {
        for (arguments, expected) in [
            (&["dyno", "model.onnx"][..], "use dyno run model.onnx"),
            (&["dyno", "http://h:1"][..], "use dyno run http://h:1"),
            (&["dyno", "h:1"][..], "use dyno run h:1"),
            (&["dyno", "a.toml"][..], "use dyno run --config a.toml"),
            (&["dyno", "loadtest"][..], "use dyno run: dyno run http://HOST:PORT"),
            (&["dyno", "bench", "serve"][..], "use dyno run: dyno run http://HOST:PORT"),
            (&["dyno", "serve", "m.onnx"][..], "use dyno serve --system onnx:m.onnx"),
            (&["dyno", "serve", "digits"][..], "use dyno serve --system digits"),
            (&["dyno", "serve", "--port", "8000"][..], "use --http HOST:PORT"),
            (&["dyno", "search", "digits", "--time", "5s"][..], "dyno search --max-time TIME"),
            (&["dyno", "--system", "null"][..], "write the command first: dyno run --system"),
            (&["dyno", "--config=a.toml"][..], "write the command first: dyno run --config"),
            (&["dyno", "-v"][..], "use dyno -V"),
            (&["dyno", "run", "http://h:1", "input=5"][..], "http://HOST:PORT,input=5"),
            (&["dyno", "run", "digits", "batch=4"][..], "use --batch 4;"),
            (&["dyno", "sweep", "digits", "batch=1,2"][..], "use --over batch=1,2"),
            (&["dyno", "run", "http://h:1", "-q", "10"][..], "a number needs a flag"),
            (&["dyno", "export", "runs/a", "--junit"][..], "use --format junit"),
            (&["dyno", "worker", "h:7700"][..], "use dyno worker --join h:7700"),
            (&["dyno", "launch", "slurm"][..], "use dyno launch --on ENGINE -- COMMAND"),
            (&["dyno", "init", "--out", "a.toml"][..], "without a flag: dyno init PATH"),
            (&["dyno", "man", "-o", "pages"][..], "without a flag: dyno man PATH"),
            (&["dyno", "package", "t", "r", "--out", "t"][..], "dyno package TREE RUN"),
            (&["dyno", "probe", "null", "--quiet"][..], "remove it: dyno probe has no such flag"),
        ] {
            let message = read(arguments);
            assert!(message.contains(expected) && !message.contains("Usage"), "{message}");
            assert!(!message.contains("similar") && !message.contains("'-- "), "{message}");
        }
        let unknown = read(&["dyno", "report", "runs/a", "--open"]);
        assert!(unknown.contains("'--open'") && !unknown.contains("'-- "), "{unknown}");
        let early = read(&["dyno", "--queries", "3", "probe", "null"]);
        assert!(early.contains("'probe --queries' exists"), "{early}");
        let behind = read(&["dyno", "audit", "TEST04", "--system", "null"]);
        assert!(behind.contains("use '-- --system'"), "{behind}");
        let second = read(&["dyno", "run", "http://h:1", "http://h:2?key=1"]);
        assert!(!second.contains("write keys"), "{second}");
        for (word, expected) in [("serch", "'search'"), ("rnu", "'run'")] {
            let own = read(&["dyno", word]);
            assert!(own.contains("similar subcommand") && own.contains(expected), "{own}");
        }
        let dyno = command_line();
        for (word, _) in WORDS {
            assert!(dyno.find_subcommand(word).is_none(), "{word}");
        }
    }

    #[test]
    fn advice_is_for_foreign_flags_and_names_our_own() {
        let dyno = command_line();
        let has = |command: &str, flag: &str| {
            let command = dyno.find_subcommand(command).unwrap();
            command.get_arguments().any(|arg| {
                let aliases = arg.get_visible_aliases().unwrap_or_default();
                let mut names = arg.get_long().into_iter().chain(aliases);
                names.any(|name| flag == format!("--{name}"))
                    || arg.get_short().is_some_and(|name| flag == format!("-{name}"))
            })
        };
        assert!(has("run", "--request-rate") && has("run", "-q"));
        for (command, table) in [("run", FLAGS), ("serve", SERVE_FLAGS)] {
            for (at, &(flag, advice)) in table.iter().enumerate() {
                assert!(!has(command, flag), "{flag}");
                assert!(table[..at].iter().all(|(other, _)| *other != flag), "{flag} is twice");
                // A setting is a flag, too; `--over` and `--join` belong to the command that is named.
                let is_known = |word: &str| {
                    has(command, word)
                        || word.starts_with("--settings.")
                        || ["--over", "--join", "--format", "--system", "--max-time"]
                            .contains(&word)
                };
                let named =
                    advice.split([' ', ',', ';', ':']).filter(|word| word.starts_with("--"));
                named.for_each(|named| assert!(is_known(named), "{flag}: {named}"));
                for target in advice.split("dyno run ").skip(1) {
                    let target = target.trim_start_matches('\'').split([' ', ',']).next();
                    let system = target.and_then(|target| target.split_once(':'));
                    let system = system.map_or("http", |(system, _)| system);
                    let is_url = ["http", "https"].contains(&system);
                    assert!(is_url || SystemKind::named(system).is_some(), "{flag}: {system}");
                }
            }
        }
    }
}
