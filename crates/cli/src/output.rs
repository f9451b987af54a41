//! Output to stdout and stderr. Errors of results on stdout are reported; errors of messages on
//! stderr are ignored, so that they never disturb a measurement.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_experiment::{Failure, Watch};
use dyno_loadgen::message::is_control;

use crate::render::{Color, END_OF_COLOR};
use crate::terminal;

/// Messages held back while the terminal shows a full screen; `None` at other times.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Writes a document, such as JSON, to stdout as it is. A reader that closes the pipe early is not an
/// error.
///
/// # Errors
/// Stdout cannot be written for another reason, such as a full disk.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_ref()).and_then(|()| stdout.flush());
    written.or_else(|error| of_stdout(&error))
}

/// Writes a text for readers to stdout. Only our own colors control the terminal, and nothing is a command
/// of a workflow: the text may hold texts of servers and of files of others.
///
/// # Errors
/// As [`print`].
pub fn show(text: impl AsRef<str>) -> Result<(), Failure> {
    let text = inert(&readable(text.as_ref()));
    print(terminal::drawn(&text, &io::stdout()).as_bytes())
}

/// Writes a result to stdout: JSON as it is, and a text for readers like [`show`].
///
/// # Errors
/// As [`print`].
pub fn print_or_show(text: impl AsRef<str>, is_json: bool) -> Result<(), Failure> {
    if is_json { print(text.as_ref()) } else { show(text) }
}

/// Maps an error of stdout to the failure of a command.
///
/// # Errors
/// Any error other than a closed pipe.
pub fn of_stdout(error: &io::Error) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::set_up(format!("cannot write to stdout: {error}"))
            .hint("redirect it to a disk with free space, or remove the redirection")),
    }
}

/// Writes a message to stderr without characters that control the terminal and without commands of a
/// workflow, or holds it back while a full screen is shown. Adds a newline if it lacks one. Errors are
/// ignored.
pub fn say(text: impl Display) {
    let mut text = inert(&plain(&text.to_string()));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match &mut *held_messages() {
        Some(held) => held.push(text),
        // One write per message, because several processes may share the terminal.
        None => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Returns a message without characters that control the terminal, such as those of a server. Line ends
/// and tabs are kept.
pub fn plain(text: &str) -> String {
    let is_obeyed = |c: char| is_control(c) && !matches!(c, '\n' | '\t');
    text.replace(is_obeyed, "\u{fffd}")
}

/// Returns a text with a character before each `::` that begins a line, and within each `##[`, because a
/// workflow of GitHub executes such commands of an output.
fn inert(text: &str) -> String {
    let is_command = |line: &str| line.trim_start().starts_with("::");
    text.replace("##[", "##\u{fffd}[")
        .split_inclusive('\n')
        .map(|line| if is_command(line) { format!("\u{fffd}{line}") } else { line.to_owned() })
        .collect()
}

/// Returns a text like [`plain`], with the colors of [`crate::render::painted`].
fn readable(text: &str) -> String {
    let parts: Vec<&str> = text.split('\u{1b}').collect();
    // A color counts only if the next sequence ends it.
    let begins = |at: usize| {
        let is_color = Color::ALL.iter().any(|color| parts[at].starts_with(color.code()));
        is_color && parts.get(at + 1).is_some_and(|next| next.starts_with(END_OF_COLOR))
    };
    let mut shown = plain(parts[0]);
    for (at, part) in parts.iter().enumerate().skip(1) {
        let is_ours = begins(at) || (at > 1 && begins(at - 1));
        shown.push(if is_ours { '\u{1b}' } else { '\u{fffd}' });
        shown += &plain(part);
    }
    shown
}

/// Holds back messages from now on.
pub fn hold() {
    held_messages().get_or_insert_default();
}

/// Writes the messages held back, and stops holding them back.
pub fn release() {
    let texts = held_messages().take();
    texts.into_iter().flatten().for_each(say);
}

fn held_messages() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an observer that shows only messages, on stderr.
pub fn console() -> Arc<dyn Watch> {
    Arc::new(Console)
}

/// An observer that shows only messages, on stderr.
#[derive(Debug, Clone, Copy)]
pub struct Console;

impl Watch for Console {
    fn say(&self, sentence: &str) {
        say(sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::painted;

    #[test]
    fn only_our_colors_reach_the_terminal() {
        let ours = painted("VALID", Color::Good, true);
        assert_eq!(readable(&ours), ours);
        let foreign = "\u{1b}[31ma\u{202e}\r\u{7}\u{9b}2J\n";
        let shown = "\u{fffd}[31ma\u{fffd}\u{fffd}\u{fffd}\u{fffd}2J\n";
        assert_eq!(readable(foreign), shown);
        assert_eq!(readable(&format!("{foreign}{ours}{foreign}")), format!("{shown}{ours}{shown}"));
        // A color that does not end, and an end without a color.
        assert_eq!(readable("a\u{1b}[0m\u{1b}[32m"), "a\u{fffd}[0m\u{fffd}[32m");
    }

    #[test]
    fn no_text_is_a_command_of_a_workflow() {
        let text = "a ::b\n::error::c\n \t::stop-commands::d\n";
        assert_eq!(inert(text), "a ::b\n\u{fffd}::error::c\n\u{fffd} \t::stop-commands::d\n");
        assert_eq!([inert(""), inert("::a"), inert("a\n")], ["", "\u{fffd}::a", "a\n"]);
        assert_eq!(inert("a ##[error]b"), "a ##\u{fffd}[error]b");
    }
}
