//! The reference pages of the book, made from the tables that the program works
//! with. A test compares them with what is checked in; `UPDATE_EXPECT=1 cargo
//! test -p dyno reference` writes them.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory};
use dyno_loadgen::settings::{FIELDS, TestSettings};

use crate::cmd::{Dyno, METRICS, VARIABLES};
use crate::exit::Exit;
use crate::options::KEYS;
use crate::system::SYSTEMS;

/// Says at the head of a page where it comes from.
const MADE: &str = "<!-- Made from the code: UPDATE_EXPECT=1 cargo test -p dyno reference -->\n\n";

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

/// Names beside texts.
fn definitions(head: [&str; 2], rows: impl Iterator<Item = (String, String)>) -> String {
    let mut text = format!("| {} | {} |\n| --- | --- |\n", head[0], head[1]);
    for (name, what) in rows {
        let _ = writeln!(text, "| `{}` | {} |", name.replace('|', "\\|"), cell(&what));
    }
    text
}

fn commands() -> String {
    let mut dyno = Dyno::command();
    dyno.build();
    let mut text = format!(
        "# Commands and flags\n\n{MADE}`dyno COMMAND --help` prints the same, `dyno man` makes manual \
         pages of it, and `dyno completions SHELL` completes it. Results go to stdout, everything \
         else to stderr.\n\n"
    );
    for command in dyno.get_subcommands().filter(|command| command.get_name() != "help") {
        write_command(&mut text, command);
    }
    text
}

fn write_command(text: &mut String, command: &Command) {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(
        text,
        "## dyno {}\n\n{}.\n\n`{usage}`\n\n",
        command.get_name(),
        about.trim_end_matches('.')
    );
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
}

/// How a flag is written, and what it does.
fn argument(arg: &clap::Arg) -> (String, String) {
    let mut name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => String::new(),
    };
    if arg.get_action().takes_values() {
        let value = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
        name = format!("{name} {value}").trim().to_string();
    }
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> =
        arg.get_possible_values().into_iter().filter(|v| !v.is_hide_set()).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let values: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        let _ = write!(help, ": {}", values.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|d| d.to_string_lossy()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        let _ = write!(help, " [default: {}]", defaults.join(", "));
    }
    (name, help)
}

fn configuration() -> String {
    let mut text = format!(
        "# Configuration\n\n{MADE}`dyno init` writes a `dyno.toml` that holds every key with its \
         default. The file says `version = 1`; an unknown key is an error that names the line and \
         the nearest key. Flags win over the environment, the environment over `dyno.toml`, that \
         over a `user.conf`, that over the profile, the built-in table and the defaults; an \
         `audit.config` overrides them all. The run directory's `effective.toml` tells for every \
         value who set it.\n\n\
         ## `[run]`\n\nEach key is a flag too, with hyphens for underscores: `batch_wait` is \
         `--batch-wait`.\n\n| key | value | what | default |\n| --- | --- | --- | --- |\n"
    );
    for key in KEYS {
        let value = if key.value.is_empty() { "true" } else { key.value };
        let _ = writeln!(
            text,
            "| `{}` | `{value}` | {} | {} |",
            key.name.replace('-', "_"),
            cell(key.help),
            cell(key.default)
        );
    }
    text += "\n## `[settings]`, `[scenario.NAME]`\n\nSettings of the load generator. A setting under \
             `[scenario.Server]` applies to Server only and wins over `[settings]`. Each is a flag \
             (`--settings.KEY VALUE`, `--set KEY=VALUE`, `--set Server.KEY=VALUE`) and a variable \
             (`DYNO_SETTINGS_KEY`) too. Values in ns and ms may be written as `\"10s\"`. Defaults are \
             the reference's; profile and built-in table come between.\n\n\
             | key | default | unit | what |\n| --- | --- | --- | --- |\n";
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
    text + "\n## `[[tenants]]`\n\nEach has a `name`, and `[tenants.settings]` with settings that it \
            alone has; see [several tenants](../tasks/tenants.md).\n"
}

fn systems() -> String {
    let rows = SYSTEMS.iter().map(|(name, what)| (name.to_string(), what.to_string()));
    format!("# Systems\n\n{MADE}What `--system` can name (`dyno info systems`).\n\n")
        + &definitions(["system", "what it is"], rows)
}

fn metrics() -> String {
    let mut text = format!(
        "# Metrics\n\n{MADE}What each figure is: formula and window (`dyno info metrics`).\n\n"
    );
    for (name, what) in METRICS {
        let _ = write!(text, "## {name}\n\n{}\n\n", what.replace('<', "&lt;"));
    }
    text.trim_end().to_string() + "\n"
}

fn exit_codes() -> String {
    let rows = Exit::ALL.map(|exit| (exit.code().to_string(), exit.meaning().to_string()));
    format!(
        "# Exit codes\n\n{MADE}The same for every command (`dyno info exit-codes`). Errors are on \
         stderr: lines that begin with `error:` say what is wrong, lines that begin with `hint:` what \
         to do.\n\n"
    ) + &definitions(["code", "meaning"], rows.into_iter())
}

fn environment() -> String {
    let rows = VARIABLES.iter().map(|(name, what)| (name.to_string(), what.to_string()));
    format!(
        "# Environment variables\n\n{MADE}No other variable changes what Dyno does (`dyno info environment`).\n\n"
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

/// A variable that nobody can look up surprises.
#[test]
fn every_variable_that_is_read_is_told() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![crates.join("cli/src"), crates.join("sut/src")];
    let mut read = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("the folder can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let source = std::fs::read_to_string(&path).unwrap_or_default();
                for call in ["env::var(\"", "env::var_os(\"", "variable(\""] {
                    let names =
                        source.split(call).skip(1).filter_map(|rest| rest.split('"').next());
                    read.extend(names.map(str::to_string));
                }
            }
        }
    }
    assert!(read.iter().any(|name| name == "NO_COLOR"), "{read:?}");
    // Of tests alone.
    read.retain(|name| name != "UPDATE_EXPECT");
    for name in read {
        assert!(VARIABLES.iter().any(|(told, _)| *told == name), "{name} is not in VARIABLES");
    }
}
