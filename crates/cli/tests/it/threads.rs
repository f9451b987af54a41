//! Systems that start no more threads: commands fail with a message, and never panic.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::{Folder, ProgramResult};

/// Runs the program as a user without other processes, who may have only so many. `None` where this process
/// cannot become another user.
fn with_processes(folder: &Folder, most: u32, arguments: &str) -> Option<ProgramResult> {
    // Tests run at the same time, and the limit counts all processes of a user.
    static USERS: AtomicU32 = AtomicU32::new(0);
    let user = 40_000 + std::process::id() % 400 * 50 + USERS.fetch_add(1, Ordering::Relaxed);
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--nproc={most}")).args(["setpriv", "--clear-groups"]);
    limited.args([format!("--reuid={user}"), format!("--regid={user}"), "./dyno".into()]);
    limited.args(arguments.split_whitespace()).current_dir(&folder.0).stdin(Stdio::null());
    let ran: ProgramResult = limited.output().ok()?.into();
    let is_refused = ["prlimit: ", "setpriv: "].iter().any(|tool| ran.stderr.starts_with(tool));
    (!is_refused).then_some(ran)
}

/// Returns a folder with the program, in which every user may write.
fn shared() -> Folder {
    let folder = Folder::new();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_dyno"), folder.0.join("dyno")).unwrap();
    folder
}

#[test]
fn a_run_that_gets_too_few_threads_says_so() {
    let folder = shared();
    let loads = [
        "--system digits --scenario single-stream",
        "--system null --scenario server --qps 100 --set server_num_issue_query_threads=2",
    ];
    for (at, load) in (0..16).zip(loads.into_iter().cycle()) {
        let most = 1 + at / 2;
        let run = format!("run {load} --mode performance --duration 100ms --out out-{at}");
        let Some(ran) = with_processes(&folder, most, &run) else {
            eprintln!("skipped: this process cannot become another user");
            return;
        };
        let text = format!("{most}: {:?} {}", ran.code, ran.stderr);
        assert!(matches!(ran.code, Some(0 | 1 | 3)), "{text}");
        assert!(!ran.stderr.contains("panicked"), "{text}");
        assert!(ran.code != Some(3) || ran.stderr.contains("error: "), "{text}");
    }
    // The second thread is that of the signals, and the third one accepts workers.
    let run = "run --system digits --scenario offline --remote-workers 1 --listen 127.0.0.1:0";
    let ran = with_processes(&folder, 2, run).unwrap().exits(3);
    assert!(ran.stderr.contains("error: cannot start a thread: "), "{}", ran.stderr);
}

#[test]
fn a_server_that_gets_too_few_threads_says_so() {
    let folder = shared();
    // Threads of the program, the signals, the model and the sockets, and one that waits for the end.
    for most in 1..=4 {
        let served = with_processes(&folder, most, "serve --system null --http 127.0.0.1:0");
        let Some(served) = served else {
            eprintln!("skipped: this process cannot become another user");
            return;
        };
        let served = served.exits(3);
        assert!(served.stderr.contains("error: "), "{most}: {}", served.stderr);
        assert!(!served.stderr.contains("panicked"), "{most}: {}", served.stderr);
    }
}

#[test]
fn a_simulation_without_further_threads_has_the_same_result() {
    let folder = shared();
    let sweep = "npu sweep IC BB --mapping kcpx+1:128 --passes 20 --rows seq=8..64:x2 --json \
                 --no-progress";
    let expected = folder.dyno(sweep).exits(0);
    // The second thread is that of the signals.
    let Some(alone) = with_processes(&folder, 2, sweep) else {
        eprintln!("skipped: this process cannot become another user");
        return;
    };
    assert_eq!(alone.exits(0).stdout, expected.stdout);
}
