//! `dyno man`: the manual pages, one for each command.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, bold, roman};
use dyno_experiment::Failure;
use dyno_results::write::{create_folder, to_named};

use super::{VARIABLES, command_line, command_names};

use crate::exit::Exit;
use crate::output;

/// Where to.
#[derive(Debug, Args)]
#[command(after_help = "To read one: dyno man | man -l -
To install them: dyno man ~/.local/share/man/man1")]
pub struct Man {
    /// Write dyno.1 and a page for each command into this directory, instead of dyno.1 on stdout
    folder: Option<PathBuf>,
}

/// Files that the program reads and writes.
const FILES: [(&str, &str); 6] = [
    ("dyno.toml", "the configuration of --config; `dyno init` writes one that explains itself"),
    ("runs/TIME-NAME/", "the directory of a run, unless --out names another one"),
    ("summary.json", "in it: the results for programs"),
    ("report.html", "in it: the results for people, self-contained"),
    ("effective.toml", "in it: every setting and where its value came from"),
    ("SCENARIO/MODE/mlperf_log_*", "in it: the four logs of each test, as LoadGen writes them"),
];

impl Man {
    /// Writes the pages.
    ///
    /// # Errors
    /// A page cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let mut dyno = command_line();
        // Gives subcommands their full names, such as `dyno-run`.
        dyno.build();
        // clap's own subcommand has no page.
        let dyno = dyno.mut_subcommand("help", |help| help.hide(true));
        let Some(folder) = self.folder else {
            return output::print(render(&dyno)).map(|()| Exit::Valid);
        };
        if let Some(name) = folder.to_str().filter(|name| command_names().contains(name)) {
            let problem = format!("`{name}` is a command; expected a folder for all pages");
            return Err(Failure::usage(problem)
                .hint(format!("dyno {name} --help shows its flags; ./{name} is a folder")));
        }
        let written = create_folder(&folder).and_then(|()| {
            let below = visible_subcommands(&dyno)
                .chain(visible_subcommands(&dyno).flat_map(visible_subcommands));
            for command in std::iter::once(&dyno).chain(below) {
                let name = format!("{}.1", page_name(command));
                to_named(&folder.join(name), render(command))?;
            }
            Ok(())
        });
        written.map_err(|error| {
            Failure::set_up(format!("cannot write pages to {}: {error}", folder.display()))
        })?;
        output::say(format_args!("wrote the pages to {}", folder.display()));
        Ok(Exit::Valid)
    }
}

/// Returns the visible subcommands.
fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// Returns the name of a page, such as `dyno-run`.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_string()
}

fn render(command: &Command) -> Vec<u8> {
    let name = page_name(command);
    let manual = format!("dyno {}", env!("CARGO_PKG_VERSION"));
    // The command is built already, and its own name lacks the prefix.
    let page = Page::new(command.clone()).title(name.to_uppercase()).source(&manual).manual("Dyno");
    let mut text = Vec::new();
    let sections = page
        .render_title(&mut text)
        .and_then(|()| page.render_name_section(&mut text))
        .and_then(|()| page.render_synopsis_section(&mut text))
        .and_then(|()| page.render_description_section(&mut text))
        .and_then(|()| page.render_options_section(&mut text))
        .and_then(|()| {
            if command.has_subcommands() {
                page.render_subcommands_section(&mut text)
            } else {
                Ok(())
            }
        })
        .and_then(|()| additional_sections(command).to_writer(&mut text));
    sections.expect("writing to memory does not fail");
    text
}

/// Returns the sections that clap cannot generate.
fn additional_sections(command: &Command) -> Roff {
    let mut roff = Roff::default();
    if let Some(notes) = command.get_after_help() {
        roff.control("SH", ["NOTES"]).control("nf", []);
        roff.text([roman(notes.to_string())]).control("fi", []);
    }
    let mut list = |heading: &str, rows: Vec<(String, &str)>| {
        roff.control("SH", [heading]);
        for (term, text) in rows {
            roff.control("TP", []).text([bold(term)]).text([roman(text)]);
        }
    };
    let codes = Exit::ALL.map(|exit| (exit.code().to_string(), exit.meaning()));
    list("EXIT STATUS", codes.into());
    list("ENVIRONMENT", VARIABLES.iter().map(|(name, what)| (name.to_string(), *what)).collect());
    list("FILES", FILES.map(|(name, what)| (name.to_string(), what)).into());
    let others = if command.has_subcommands() {
        visible_subcommands(command).map(|command| format!("{}(1)", page_name(command))).collect()
    } else {
        vec!["dyno(1)".to_string()]
    };
    roff.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
    roff
}
