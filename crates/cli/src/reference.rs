//! Reference pages of the book, generated from the tables that the program works with. A test
//! compares them with the files in docs; `UPDATE_EXPECT=1 cargo test -p dyno reference` writes
//! them.

mod rounds;

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;
use dyno_experiment::effect::needs_of;
use dyno_experiment::options::{KEYS, SWEEP_KEYS};
use dyno_experiment::system::SYSTEMS;
use dyno_loadgen::settings::{FIELDS, TestSettings};
use dyno_rules::OneFileChecker;
use dyno_submission::check::{Program, Provenance, catalogue};
use dyno_submission::finding::Severity;

use crate::cmd::{METRICS, VARIABLES, command_line};
use crate::exit::Exit;
use crate::schema::Document;

/// Comment at the head of a generated page.
const MADE: &str = "<!-- Made from the code: UPDATE_EXPECT=1 cargo test -p dyno reference -->\n\n";

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

/// Returns a table of names and texts.
fn definitions(head: [&str; 2], rows: impl Iterator<Item = (String, String)>) -> String {
    let mut text = format!("| {} | {} |\n| --- | --- |\n", head[0], head[1]);
    for (name, what) in rows {
        let _ = writeln!(text, "| `{}` | {} |", name.replace('|', "\\|"), cell(&what));
    }
    text
}

fn commands() -> String {
    let mut dyno = command_line();
    dyno.build();
    let mut text = format!(
        "# Commands and flags\n\n{MADE}`dyno COMMAND --help` prints the same text. `dyno man` \
         writes manual pages. `dyno completions SHELL` writes completions. Results go to stdout, \
         all other output to stderr.\n\n"
    );
    for command in dyno.get_subcommands().filter(|command| command.get_name() != "help") {
        write_command(&mut text, command, "dyno");
    }
    text
}

/// Appends a command below `parent`, then its subcommands.
fn write_command(text: &mut String, command: &Command, parent: &str) {
    let name = format!("{parent} {}", command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "## {name}\n\n{}.\n\n`{usage}`\n\n", about.trim_end_matches('.'));
    let rows = command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
    let rows: Vec<(String, String)> = rows.map(argument).collect();
    if !rows.is_empty() {
        *text += &definitions(["flag", "what it does"], rows.into_iter());
        text.push('\n');
    }
    if let Some(notes) = command.get_after_help() {
        for line in notes.to_string().lines() {
            let _ = writeln!(text, "> {}  ", cell(line));
        }
        text.push('\n');
    }
    for below in command.get_subcommands() {
        write_command(text, below, &name);
    }
}

/// Returns a command and all of its subcommands, recursively.
fn with_all_below(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().flat_map(with_all_below);
    std::iter::once(command).chain(below).collect()
}

/// Returns the syntax and the description of a flag.
fn argument(arg: &clap::Arg) -> (String, String) {
    let mut name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => {
            let aliases = arg.get_visible_aliases().unwrap_or_default();
            let names: Vec<&str> = std::iter::once(long).chain(aliases).collect();
            format!("--{}", names.join(", --"))
        }
        (Some(short), None) => format!("-{short}"),
        (None, None) => String::new(),
    };
    if arg.get_action().takes_values() {
        let value = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
        name = if arg.is_require_equals_set() {
            format!("{name}[={value}]")
        } else {
            format!("{name} {value}").trim().to_string()
        };
    }
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> =
        arg.get_possible_values().into_iter().filter(|v| !v.is_hide_set()).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let values: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        let _ = write!(help, ": {}", values.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|d| d.to_string_lossy()).collect();
    let is_shown = arg.get_action().takes_values() && !arg.is_hide_default_value_set();
    if !defaults.is_empty() && is_shown {
        let _ = write!(help, " [default: {}]", defaults.join(", "));
    }
    (name, help)
}

fn configuration() -> String {
    let mut text = format!(
        "# Configuration\n\n{MADE}`dyno init --all` writes a `dyno.toml` with every key and its \
         default. The file has `version = 1`. An unknown key is an error that states the line and \
         a similar key, if there is one. Dyno reads no file without `--config FILE`. Precedence, from high to low: \
         `audit.config`, flags, environment variables, the file of `--config`, `user.conf`, the \
         round of `--round`, the profile, the built-in table, defaults. `effective.toml` in the \
         run directory states the origin of every value.\n\n## `[run]`\n\nEach key is also a flag, with hyphens for underscores: \
         `batch_wait` is `--batch-wait`. Paths in `dyno.toml`, including `out`, are relative to \
         that file; paths in flags are relative to the working directory. The FILE of `system` is \
         always relative to the working directory; use `model` for a model beside the file. \
         `system` may also be the URL of a server, such as `http://localhost:8000,model=NAME`, as \
         in `dyno run URL`. A key without effect in the whole run is an error; the last column states what a key \
         needs.\n\n| key | value | what | default | needs |\n| --- | --- | --- | --- | --- |\n"
    );
    for key in KEYS {
        let value = if key.value.is_empty() { "true" } else { key.value };
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {} | {} | {} |",
            key.name.replace('-', "_"),
            value.replace('|', "\\|"),
            cell(key.help),
            cell(key.default),
            cell(&needs_of(key.name))
        );
    }
    text += "\n## `[settings]`, `[scenario.NAME]`\n\nSettings of the load generator. A setting \
         under `[scenario.Server]` applies to Server only and overrides `[settings]`. Each \
         setting is also a flag (`--settings.KEY VALUE`, `--set KEY=VALUE`, `--set \
         Server.KEY=VALUE`) and an environment variable (`DYNO_SETTINGS_KEY`). Values in ns and \
         ms may be written as `\"10s\"`. Defaults are those of LoadGen; the profile and the \
         built-in table override them.\n\n| key | default | unit | what |\n| --- | --- | --- | \
         --- |\n";
    let defaults = TestSettings::default();
    for field in FIELDS.iter().filter(|field| !matches!(field.name, "scenario" | "mode")) {
        let help = match field.kind.trim() {
            "a number" | "a whole number" | "true or false" => field.help.to_string(),
            kind => format!("{} ({kind})", field.help),
        };
        let default = (field.get)(&defaults);
        let (name, unit) = (field.name, field.unit);
        let _ = writeln!(text, "| `{name}` | {default} | {unit} | {} |", cell(&help));
    }
    text += "\n## `[[tenants]]`\n\nEach tenant has a `name`, and its own settings in \
         `[tenants.settings]`; see [several tenants](../tasks/tenants.md).\n\n## \
         `[sweep]`\n\nKeys of `dyno sweep`; see [many variants](../tasks/sweep.md). Flags \
         override the file. A TIME is a string such as `\"2s\"`.\n\n| key | value | what | \
         default |\n| --- | --- | --- | --- |\n";
    for (name, value, default, what) in SWEEP_KEYS {
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let _ = writeln!(text, "| `{name}` | {} | {} | {default} |", cell(value), cell(what));
    }
    text
}

fn systems() -> String {
    let rows = SYSTEMS.into_iter().map(|kind| (kind.grammar(), kind.help.to_string()));
    format!("# Systems\n\n{MADE}Values of `--system` (`dyno info systems`).\n\n")
        + &definitions(["system", "what it is"], rows)
}

fn metrics() -> String {
    let mut text =
        format!("# Metrics\n\n{MADE}Formula and window of each figure (`dyno info metrics`).\n\n");
    for metric in METRICS {
        let _ =
            write!(text, "## {}\n\n{}\n\n", metric.name, metric.description().replace('<', "&lt;"));
        let keys: Vec<String> = metric.keys.iter().map(|key| format!("`{key}`")).collect();
        let _ = write!(text, "In `summary.json`: {}.\n\n", keys.join(", "));
    }
    text.trim_end().to_string() + "\n"
}

fn exit_codes() -> String {
    let rows = Exit::ALL.map(|exit| (exit.code().to_string(), exit.meaning().to_string()));
    format!(
        "# Exit codes\n\n{MADE}Every command uses these codes (`dyno info exit-codes`). Errors go \
         to stderr: lines that begin with `error:` state the problem, and lines that begin with \
         `hint:` state the remedy.\n\n"
    ) + &definitions(["code", "meaning"], rows.into_iter())
}

/// Returns every check of a submission, with its severity in each program.
fn checks() -> String {
    let mut text = format!(
        "# Checks of a submission\n\n{MADE}Checks of [`dyno check`](../tasks/check.md), and the \
         severity of each check in the rules and in the two official checkers (`--compat mono`, \
         `--compat modular`). An error rejects a result; `-` means that a program does not check. \
         Ids are stable. They appear in findings, in `--json` \
         ([schema](../schema/check.schema.json)) and in `--sarif`. In the rules a check applies \
         from the round in the last column. A check without a written source is a warning, or an \
         error with `--forensic`.\n\n| check | condition | rules | mono | modular | fix | source \
         | from |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for check in catalogue::ALL {
        let grave = |program| check.severity(program).map_or("-", Severity::name);
        let [rules, mono, modular] = [Program::Strict, Program::Mono, Program::Modular].map(grave);
        let (title, mend) = (cell(check.title), cell(check.mend));
        let (source, since) = source_of(check.id);
        let _ = writeln!(
            text,
            "| `{}` | {title} | {rules} | {mono} | {modular} | {mend} | {source} | {since} |",
            check.id
        );
    }
    text += "\n## Power\n\nChecks of the power working group. The official program stops at the \
         first warning in PTDaemon's log, and reads its tolerance in milliseconds as seconds. It \
         therefore misses later problems. The rules do not.\n\n";
    text += &definitions(["check", "condition"], power_checks());
    text += "\n## The single-file checker, by tag\n\nDifferences of the official checker in early \
         tags; `--compat TAG`, such as `--compat v4.1`, reproduces them. A source is a tag and a \
         line of the program in mlcommons/inference.\n\n| difference | tags | source |\n| --- | \
         --- | --- |\n";
    for difference in OneFileChecker::differences() {
        let (what, tags) = (cell(&difference.what), difference.tags);
        let _ = writeln!(text, "| {what} | {tags} | {} |", difference.source);
    }
    text
}

/// Returns where a check comes from, and the first round in which it holds.
fn source_of(id: &str) -> (String, String) {
    match Provenance::of_check(id) {
        Some(Provenance::Cited { source, since, warns_before, until }) => {
            let before = if warns_before { " (a warning before)" } else { "" };
            let until = until.map(|until| format!(" to {until} (a warning after)"));
            (cell(source), format!("{since}{before}{}", until.unwrap_or_default()))
        }
        Some(Provenance::Own) | None => ("Dyno".to_owned(), "-".to_owned()),
    }
}

fn power_checks() -> impl Iterator<Item = (String, String)> {
    dyno_submission::power::CHECKS.iter().map(|(id, what)| ((*id).to_owned(), (*what).to_owned()))
}

fn environment() -> String {
    let rows = VARIABLES.iter().map(|(name, what)| (name.to_string(), what.to_string()));
    format!(
        "# Environment variables\n\n{MADE}Dyno reads no other variable, except those that an option \
         names, such as `token-env=NAME` (`dyno info environment`).\n\n"
    ) + &definitions(["variable", "what it does"], rows)
}

#[test]
fn the_reference_pages_are_those_of_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let pages = [
        ("commands.md", commands()),
        ("configuration.md", configuration()),
        ("systems.md", systems()),
        ("metrics.md", metrics()),
        ("exit-codes.md", exit_codes()),
        ("environment.md", environment()),
        ("rounds.md", rounds::rounds()),
        ("checks.md", checks()),
    ];
    for (name, text) in pages {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &text).expect("the page can be written");
        }
        let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            checked_in == text,
            "docs/reference/{name} is not up to date: UPDATE_EXPECT=1 cargo test -p dyno reference"
        );
    }
}

/// Every figure of the summary must have a formula.
#[test]
fn every_number_of_a_summary_has_its_formula() {
    let schema: serde_json::Value = serde_json::from_str(Document::Summary.schema()).unwrap();
    let mut missing = Vec::new();
    for definition in ["Metrics", "Rates", "TokenRates", "Goodput", "Headline", "Accuracy"] {
        let properties =
            schema["$defs"][definition]["properties"].as_object().expect("it is there");
        let has_formula =
            |key: &&String| METRICS.iter().any(|metric| metric.keys.contains(&key.as_str()));
        missing.extend(
            properties
                .keys()
                .filter(|key| !has_formula(key))
                .map(|key| format!("{definition}.{key}")),
        );
    }
    assert!(missing.is_empty(), "not in METRICS: {missing:?}");
}

/// Every environment variable that the code reads must be documented.
#[test]
fn every_variable_that_is_read_is_told() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders =
        ["cli", "experiment", "sut"].map(|name| crates.join(name).join("src")).to_vec();
    let mut read = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("the folder can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let source = std::fs::read_to_string(&path).unwrap_or_default();
                for call in ["env::var(\"", "env::var_os(\"", "variable(\"", " given(\""] {
                    let names =
                        source.split(call).skip(1).filter_map(|rest| rest.split('"').next());
                    read.extend(names.map(str::to_string));
                }
            }
        }
    }
    for known in ["HOME", "NO_COLOR", "CONDA_PREFIX"] {
        assert!(read.iter().any(|name| name == known), "{read:?}");
    }
    // Read by tests only.
    read.retain(|name| name != "UPDATE_EXPECT");
    for name in read {
        assert!(
            VARIABLES.iter().any(|(variable, _)| *variable == name),
            "{name} is not in VARIABLES"
        );
    }
}

/// Returns every page for readers, with its path.
fn pages() -> Vec<(std::path::PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("the folder can be listed").path();
            if path.is_dir() { folders.push(path) } else { paths.push(path) }
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let read = |path: &std::path::PathBuf| std::fs::read_to_string(path).expect("a page reads");
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Returns the text between backticks in running text.
fn spans(page: &str) -> Vec<String> {
    let (mut is_fenced, mut paragraphs) = (false, vec![String::new()]);
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        match paragraphs.last_mut() {
            Some(paragraph) if !(is_fenced || is_fence || line.is_empty()) => {
                *paragraph += line;
                paragraph.push(' ');
            }
            _ => paragraphs.push(String::new()),
        }
    }
    let spans_of = |paragraph: &String| -> Vec<String> {
        paragraph.split('`').skip(1).step_by(2).map(str::to_string).collect()
    };
    paragraphs.iter().flat_map(spans_of).collect()
}

/// Flags on pages that belong to examples, not to `dyno`.
const OF_EXAMPLES: [&str; 1] = ["--designs"];

/// Returns the problem of a command or flag in running text.
fn misnamed(dyno: &Command, span: &str) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    // Flags after a bare `--` belong to another program.
    let own = words.iter().take_while(|word| **word != "--");
    let flags = own.filter_map(|word| word.strip_prefix("--"));
    let flags = flags.map(|flag| flag.split(['=', ',', '[']).next().unwrap_or(flag));
    let is_of = |command: &Command, flag: &str| {
        let is_setting = |key: &str| FIELDS.iter().any(|field| field.name == key);
        match flag.split_once('.') {
            Some(("settings", key)) => key == "KEY" || is_setting(key),
            Some(("run", key)) => KEYS.iter().any(|known| known.name == key),
            _ => command.get_arguments().any(|arg| {
                let aliases = arg.get_visible_aliases().unwrap_or_default();
                arg.get_long() == Some(flag) || aliases.contains(&flag)
            }),
        }
    };
    match words[..] {
        ["dyno", name, ..] if !name.chars().all(char::is_uppercase) => {
            let Some(command) = dyno.find_subcommand(name) else {
                let is_own = name.strip_prefix("--").is_some_and(|flag| is_of(dyno, flag));
                return (!is_own).then(|| format!("`{span}`: there is no command {name}"));
            };
            let below = words.get(2).and_then(|name| command.find_subcommand(name));
            let command = below.unwrap_or(command);
            let mut flags = flags;
            let flag = flags.find(|flag| !is_of(command, flag))?;
            Some(format!("`{span}`: dyno {name} has no flag --{flag}"))
        }
        [first, ..] if OF_EXAMPLES.contains(&first) => None,
        [first, ..] if first.len() > 2 && first.starts_with("--") => {
            let mut flags = flags;
            let all = with_all_below(dyno);
            let known = |flag: &&str| all.iter().any(|command| is_of(command, flag));
            flags.find(|flag| !known(flag)).map(|flag| format!("`{span}`: no command has --{flag}"))
        }
        _ => None,
    }
}

#[test]
fn pages_name_commands_and_flags_that_exist() {
    let mut dyno = command_line();
    dyno.build();
    let mut found = Vec::new();
    // The comparison names flags of other tools.
    for (path, page) in pages().into_iter().filter(|(path, _)| !path.ends_with("comparison.md")) {
        let wrong = spans(&page).into_iter().filter_map(|span| misnamed(&dyno, &span));
        found.extend(wrong.map(|wrong| format!("{}: {wrong}", path.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let bad = ["dyno rum", "dyno run --qsp 5", "--sytem null", "--settings.server_qps 5"];
    for span in bad {
        assert!(misnamed(&dyno, span).is_some(), "{span}");
    }
    let page = "a `dyno run` b\n```sh\ndyno `x`\n```\n`--qps\n5` c\n";
    assert_eq!(spans(page), ["dyno run", "--qps 5"]);
}
