//! A program with processes of its own, which all end when it is stopped.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_sut::process_group::{self, GroupSignal, RunningGroup};

use crate::failure::Failure;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself.
    Exited(ExitStatus),
    /// It was stopped because the user wanted that.
    Interrupted,
    /// It was stopped after its time.
    OutOfTime,
}

/// Interval at which the process and the interrupt are checked.
const GLANCE: Duration = Duration::from_millis(50);

/// Time that a program gets to end after SIGINT, ns.
const GRACE: Nanos = 5 * SECOND;

/// Runs a program with its output in a file, for at most `limit` ns. It has its own process group, so
/// that Ctrl-C reaches only this process, which stops the whole group.
///
/// # Errors
/// The program cannot be started, or the file cannot be written.
pub fn run(
    command: &mut Command,
    log: &Path,
    limit: Nanos,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Ending, Failure> {
    let cannot = |error: std::io::Error| Failure::set_up(format!("{}: {error}", log.display()));
    let file = std::fs::File::create(log).map_err(cannot)?;
    let errors = file.try_clone().map_err(cannot)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    process_group::separate(command);
    let name = command.get_program().to_string_lossy().into_owned();
    let fails = |error: std::io::Error| Failure::set_up(format!("{name} cannot run: {error}"));
    let mut child = command.spawn().map_err(fails)?;
    let _running = RunningGroup::register(&child);
    let clock = Clock::start();
    loop {
        if let Some(status) = child.try_wait().map_err(fails)? {
            return Ok(Ending::Exited(status));
        }
        let is_late = clock.now() > limit;
        if is_late || is_interrupted() {
            stop(&mut child);
            return Ok(if is_late { Ending::OutOfTime } else { Ending::Interrupted });
        }
        pause();
    }
}

/// Waits for [`GLANCE`]: the sender never sends.
fn pause() {
    let (_sender, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(GLANCE);
}

/// Ends a program and the processes that it started.
fn stop(child: &mut Child) {
    process_group::signal(child, GroupSignal::Interrupt);
    let clock = Clock::start();
    while clock.now() < GRACE && matches!(child.try_wait(), Ok(None)) {
        pause();
    }
    process_group::signal(child, GroupSignal::Kill);
    let _ = child.kill();
    // It has ended, or cannot be ended.
    let _ = child.wait();
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Runs a script of the shell. Returns how it ended, and its output.
    fn ending(script: &str, limit: Nanos, is_interrupted: bool) -> (Ending, String) {
        let name = format!("dyno-process-{}-{limit}-{is_interrupted}", std::process::id());
        let log = std::env::temp_dir().join(name);
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let ending = run(&mut command, &log, limit, &|| is_interrupted).expect("sh starts");
        let output = std::fs::read_to_string(&log).expect("it was written");
        std::fs::remove_file(log).expect("it was written");
        (ending, output)
    }

    #[test]
    fn output_is_kept_and_programs_that_take_too_long_are_stopped() {
        let (ended, said) = ending("echo out; echo err >&2; exit 3", 60 * SECOND, false);
        assert!(matches!(ended, Ending::Exited(status) if status.code() == Some(3)), "{ended:?}");
        assert_eq!(said, "out\nerr\n");
        assert_eq!(ending("exec sleep 60", 0, false).0, Ending::OutOfTime);
        assert_eq!(ending("exec sleep 60", 60 * SECOND, true).0, Ending::Interrupted);
    }
}
