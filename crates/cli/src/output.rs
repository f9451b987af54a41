//! What goes to stdout and stderr: results, which may fail to be written, and
//! talk, which may not get in the way of a measurement.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_experiment::{Failure, Watch};

/// Talk that waits for the terminal; `None` if the terminal is the reader's.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Writes a result to stdout. A reader that closes the pipe has seen enough:
/// that is no error.
///
/// # Errors
/// If stdout takes it not for another reason, such as a full disk.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_ref()).and_then(|()| stdout.flush());
    written.or_else(|error| of_stdout(&error))
}

/// What an error of stdout means for a command.
///
/// # Errors
/// If it is more than a reader that has seen enough.
pub fn of_stdout(error: &io::Error) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::set_up(format!("cannot write to stdout: {error}"))
            .hint("send it to a file on a disk with room, or leave the redirection out")),
    }
}

/// Says a line, or several that end with a newline, on stderr; as soon as the
/// terminal is the reader's. Nobody listening is no reason to fail.
pub fn say(text: impl Display) {
    let mut text = text.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match &mut *held() {
        Some(held) => held.push(text),
        // In one piece, because several processes may talk to one terminal.
        None => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Holds back what is said from now on.
pub fn hold() {
    held().get_or_insert_default();
}

/// Says what was held back.
pub fn release() {
    let texts = held().take();
    texts.into_iter().flatten().for_each(say);
}

fn held() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an observer that shows sentences on stderr, and nothing of tests.
pub fn console() -> Arc<dyn Watch> {
    Arc::new(Console)
}

/// An observer that shows sentences on stderr, and nothing of tests.
#[derive(Debug, Clone, Copy)]
pub struct Console;

impl Watch for Console {
    fn say(&self, sentence: &str) {
        say(sentence);
    }
}
