//! Output to stdout and stderr. Errors of results on stdout are reported; errors of messages on
//! stderr are ignored, so that they never disturb a measurement.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_experiment::{Failure, Watch};
use dyno_net::trouble::is_control;

/// Messages held back while the terminal shows a full screen; `None` at other times.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Writes a result to stdout. A reader that closes the pipe early is not an error.
///
/// # Errors
/// Stdout cannot be written for another reason, such as a full disk.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_ref()).and_then(|()| stdout.flush());
    written.or_else(|error| of_stdout(&error))
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

/// Writes a message to stderr, or holds it back while a full screen is shown. Adds a newline if it
/// lacks one. Errors are ignored.
pub fn say(text: impl Display) {
    let mut text = text.to_string();
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
        say(plain(sentence));
    }
}
