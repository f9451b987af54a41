//! `dyno init`: writes a `dyno.toml`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::effect::needs_of;
use dyno_experiment::options::{FILE_VERSION, KEYS, SWEEP_KEYS};
use dyno_loadgen::settings::{FIELDS, TestSettings};
use dyno_results::write::to_named;

use crate::exit::Exit;
use crate::{output, render};

/// Where the file goes.
#[derive(Debug, Args)]
pub struct Init {
    /// The file to write
    #[arg(default_value = "dyno.toml")]
    path: PathBuf,
    /// Write every key and setting as a comment, with its default
    #[arg(long)]
    all: bool,
    /// Write a run of a server of language models
    #[arg(long, conflicts_with = "all")]
    llm: bool,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

impl Init {
    /// Writes the file.
    ///
    /// # Errors
    /// The file exists already, or cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        if self.path.exists() && !self.force {
            let problem = format!("{} exists", self.path.display());
            return Err(Failure::set_up(problem).hint("use --force to overwrite it"));
        }
        let text = match (self.all, self.llm) {
            (true, _) => every_key(),
            (_, true) => of_server(),
            _ => short(),
        };
        to_named(&self.path, text).map_err(|error| Failure::unwritable(&self.path, &error))?;
        output::say(format_args!(
            "wrote {}; run it with: dyno run --config {0}",
            self.path.display()
        ));
        Ok(Exit::Valid)
    }
}

/// Columns of comments.
const WIDTH: usize = 78;

fn comment(text: &mut String, words: &str) {
    for line in render::wrap(words, WIDTH, 0) {
        let _ = writeln!(text, "# {line}");
    }
}

/// Returns a file that runs as it is.
fn short() -> String {
    format!(
        r#"# dyno run --config dyno.toml; all keys: dyno init --all
version = {FILE_VERSION}

[run]
system = "digits"           # or "onnx:model.onnx", "openai:http://localhost:8000"; dyno info systems
scenario = ["Server"]       # SingleStream, MultiStream, Server, Offline
duration = "10s"
require = ["p99<=10ms"]     # dyno exits with 1 if the run misses a limit

[settings]
server_target_qps = 200     # queries per second
"#
    )
}

/// Returns a file that runs if a server of language models listens.
fn of_server() -> String {
    format!(
        r#"# dyno run --config dyno.toml; all keys: dyno init --all
version = {FILE_VERSION}

[run]
# Keys follow the URL, such as ,model=NAME or ,token-env=VARIABLE.
system = "http://localhost:8000,input=512,output=128"
max_concurrency = 8         # requests in flight; or a rate, such as qps = 4
num_prompts = 1000          # or duration = "60s"
# dyno exits with 1 if the run misses a limit.
require = ["ttft.p99<=500ms", "errors<=0.1%"]
"#
    )
}

/// Returns a file with every key, commented out, and its default.
fn every_key() -> String {
    let mut text = String::new();
    comment(
        &mut text,
        "A run of Dyno. Keys that are commented out have their defaults. Every key is also a flag: \
         --run.system null, --settings.server_target_qps 100. An unknown key is an error.",
    );
    let _ = writeln!(text, "version = {FILE_VERSION}\n\n[run]");
    let mut group = "";
    for key in KEYS {
        if group != key.group {
            group = key.group;
            let _ = writeln!(text, "\n# {group}");
        }
        text.push('\n');
        let needs = match needs_of(key.name) {
            needs if needs.is_empty() => needs,
            needs => format!(" Needs {}.", needs.replace('`', "")),
        };
        comment(&mut text, &format!("{}. Default: {}.{needs}", key.help, key.default));
        let value = if key.value.is_empty() { "true".into() } else { format!("{:?}", key.value) };
        let _ = writeln!(text, "# {} = {value}", key.name.replace('-', "_"));
    }
    text.push('\n');
    comment(
        &mut text,
        "Settings of every scenario. Values in ns and ms may be written as \"10s\". The defaults \
         here are those of the reference; the profile and the built-in table override them.",
    );
    text += "[settings]\n";
    let defaults = TestSettings::default();
    for field in FIELDS.iter().filter(|field| !matches!(field.name, "scenario" | "mode")) {
        text.push('\n');
        comment(&mut text, field.help);
        let value = dyno_results::effective::toml_value(field.kind, &(field.get)(&defaults));
        let unit =
            if field.unit.is_empty() { String::new() } else { format!("  # {}", field.unit) };
        let _ = writeln!(text, "# {} = {value}{unit}", field.name);
    }
    text += "\n# Settings of one scenario, which override those above.\n\
             # [scenario.Server]\n# server_target_qps = 100\n\n";
    comment(
        &mut text,
        "Several tenants that share the system, each with its own trace, settings and verdict.",
    );
    text += "# [[tenants]]\n# name = \"interactive\"\n# [tenants.settings]\n\
             # server_target_qps = 100\n\n";
    comment(&mut text, "Axes and options of dyno sweep; quote keys that contain a dot.");
    text += "# [sweep]\n";
    for (name, value, default, what) in SWEEP_KEYS.iter().filter(|(name, ..)| !of_tables(name)) {
        comment(&mut text, &format!("{}: {what}.", value.replace('`', "")));
        let value = match (*default, *value) {
            ("", "TIME") => "\"TIME\"",
            ("", "N") => "20",
            ("", value) => value,
            (default, _) => default,
        };
        let _ = writeln!(text, "# {name} = {value}");
    }
    text += "# [sweep.over]\n# batch = [1, 2, 4]\n\
             # \"settings.server_target_qps\" = \"100..400:x2\"\n\
             # [[sweep.exclude]]\n# batch = [1]\n\
             # [[sweep.points]]\n# batch = 4\n# name = \"batched\"\n# operations = 1.2e9\n";
    text
}

/// Whether a key of `[sweep]` is shown in the example instead.
fn of_tables(name: &str) -> bool {
    matches!(name, "over" | "exclude" | "points")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_explains_every_key_and_setting() {
        let text = every_key();
        for name in
            FIELDS.iter().map(|field| field.name).filter(|n| *n != "scenario" && *n != "mode")
        {
            assert!(text.contains(&format!("# {name} = ")), "{name}");
        }
        for (name, ..) in SWEEP_KEYS {
            let is_there = [format!("# {name} = "), format!("sweep.{name}]")];
            assert!(is_there.iter().any(|line| text.contains(line)), "{name}");
        }
        assert!(text.lines().all(|line| line.len() <= WIDTH + 40), "lines fit a screen");
        assert!(text.contains("# min_duration_ms = 10000  # ms\n"), "units are beside values");
        let is_key =
            |line: &&str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        for line in text.lines().filter_map(|line| line.strip_prefix("# ")).filter(is_key) {
            assert!(line.parse::<toml::Table>().is_ok(), "{line}");
        }
    }
}
