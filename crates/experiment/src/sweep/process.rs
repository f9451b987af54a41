//! Runs a point in a separate process: a crash or a leak there neither ends the sweep nor slows
//! down the next point.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_sut::process_group;

use crate::LIFELINE;

/// Exit codes of `dyno run`.
pub mod exit_code {
    /// Every result is valid.
    pub const VALID: i32 = 0;
    /// A result is INVALID or UNDECIDED.
    pub const INVALID: i32 = 1;
    /// Something is missing, or the system failed a first probe.
    pub const SET_UP: i32 = 3;
    /// The system failed most answers.
    pub const ABORTED: i32 = 4;
}

/// The outcome of a process.
#[derive(Debug)]
pub struct ProcessOutcome {
    /// Exit status.
    pub status: ExitStatus,
    /// Last lines on stderr.
    pub said: Vec<String>,
    /// Whether it was asked to end.
    pub is_cut: bool,
    /// Duration, ns.
    pub took: Nanos,
}

/// Interval at which the process and Ctrl-C are checked.
const GLANCE: Duration = Duration::from_millis(200);

/// Time after which a process that was asked to end is killed, ns.
const GRACE: Nanos = 10 * SECOND;

/// Time for the last lines of a process that has ended, ns.
const LAST_LINES: Nanos = SECOND;

/// Maximum number of lines of stderr that are kept.
const LINES_KEPT: usize = 40;

/// Maximum length of a line, bytes.
const LINE_BYTES: u64 = 10_000;

/// Runs this program with these arguments. `look_on` is called regularly with the elapsed time, and
/// returns whether the process should end.
///
/// The process runs in its own process group, so that only this process receives Ctrl-C. It
/// forwards the interrupt by closing the standard input of the process, which also happens if this
/// process is killed.
///
/// # Errors
/// The process cannot be started or waited for.
pub fn run(
    arguments: &[String],
    folder: &Path,
    look_on: &mut dyn FnMut(Nanos) -> bool,
) -> io::Result<ProcessOutcome> {
    let clock = Clock::start();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).current_dir(folder).env(LIFELINE, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    process_group::separate(&mut command);
    let mut child = command.spawn()?;
    let mut lifeline = child.stdin.take();
    let stderr = child.stderr.take().expect("stderr is a pipe");
    let lines = listen(stderr).inspect_err(|_| {
        // It has just begun. If it cannot be ended, it ends with its standard input.
        let _ = child.kill();
        let _ = child.wait();
    })?;
    let (mut said, mut cut_at) = (Vec::new(), None);
    loop {
        match lines.recv_timeout(GLANCE) {
            Ok(line) => keep(&mut said, line),
            // Usually the process ended.
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if child.try_wait()?.is_some() {
            break;
        }
        let now = clock.now();
        if look_on(now) && cut_at.is_none() {
            lifeline = None;
            cut_at = Some(now);
        }
        kill_if_stubborn(&mut child, cut_at, now)?;
    }
    let status = child.wait()?;
    drop(lifeline);
    // Another process may hold its stderr open, and write to it without an end.
    let end = clock.now().saturating_add(LAST_LINES);
    while clock.now() < end
        && let Ok(line) = lines.recv_timeout(GLANCE)
    {
        keep(&mut said, line);
    }
    Ok(ProcessOutcome { status, said, is_cut: cut_at.is_some(), took: clock.now() })
}

fn keep(said: &mut Vec<String>, line: String) {
    said.push(line);
    if said.len() > LINES_KEPT {
        said.remove(0);
    }
}

fn kill_if_stubborn(child: &mut Child, cut_at: Option<Nanos>, now: Nanos) -> io::Result<()> {
    match cut_at {
        Some(at) if now.saturating_sub(at) > GRACE => child.kill(),
        _ => Ok(()),
    }
}

/// Returns the lines of a process until it closes its stderr.
fn listen(stderr: ChildStderr) -> io::Result<mpsc::Receiver<String>> {
    let (sender, lines) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let mut reader = BufReader::new(stderr);
        loop {
            let mut line = Vec::new();
            match reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(1..) => {}
                _ => return,
            }
            let line = String::from_utf8_lossy(&line).trim_end().to_string();
            if sender.send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(lines)
}

/// Waits and calls `look_on` meanwhile.
pub fn pause(length: Nanos, look_on: &mut dyn FnMut(Nanos) -> bool) {
    let clock = Clock::start();
    // The sender never sends: receiving with a timeout is a wait.
    let (_sender, never) = mpsc::channel::<()>();
    loop {
        let now = clock.now();
        if now >= length || look_on(now) {
            return;
        }
        let _ = never.recv_timeout(GLANCE.min(Duration::from_nanos(length - now)));
    }
}
