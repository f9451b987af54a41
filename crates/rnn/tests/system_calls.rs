//! Calls of the engine make no system calls: a process in which a system call is fatal survives.
//!
//! Such a filter (seccomp) exists on Linux only. Where it is refused, the test reports that it checked
//! nothing.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyno_kernels::{Isa, Precision, Tanh, Team, WaitPolicy};
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

/// Environment variable of the child process of this test, which runs under the filter.
const FENCED: &str = "DYNO_RNN_FENCED";
const REFUSED: &str = "refused";
const LIVED: &str = "lived";

#[cfg(target_arch = "x86_64")]
mod number {
    pub const WRITE: i64 = 1;
    pub const SCHED_YIELD: i64 = 24;
    pub const CLOCK_GETTIME: i64 = 228;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub const WRITE: i64 = 64;
    pub const SCHED_YIELD: i64 = 124;
    pub const CLOCK_GETTIME: i64 = 113;
}

/// Ends the process at any system call except these: writes to stdout, for the result of the test,
/// and the calls of a worker that waits for a preempted one, because no call of the engine causes
/// them.
fn fence() -> BpfProgram {
    let stdout = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 1)
        .expect("a condition that the crate knows");
    let told = SeccompRule::new(vec![stdout]).expect("one condition");
    let rules = BTreeMap::from([
        (number::WRITE, vec![told]),
        (number::SCHED_YIELD, Vec::new()),
        (number::CLOCK_GETTIME, Vec::new()),
    ]);
    let arch = std::env::consts::ARCH.try_into().expect("an architecture of the crate");
    SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)
        .and_then(TryInto::try_into)
        .expect("a filter of three rules")
}

fn tell(word: &str) {
    let mut stdout = std::io::stdout();
    let told = stdout.write_all(format!("\n{word}\n").as_bytes()).and_then(|()| stdout.flush());
    told.expect("the test reads");
}

fn sequence(precision: Precision, rows: usize, units: usize) -> Sequence {
    let (inputs, width) = (24, 40);
    let weights = Weights {
        input: vec![0.1; 4 * width * inputs],
        state: vec![-0.1; 4 * width * width],
        input_bias: vec![0.1; 4 * width],
        state_bias: vec![0.2; 4 * width],
    };
    let layer = Layer::new(Cell::Lstm, inputs, width, Directions::Forward, vec![weights])
        .expect("weights of this size");
    let choice = Choice { precision, tanh: Tanh::Fitted98, chunk: 4, sides: 1, rows, units };
    Sequence::new(&layer, 2, &choice, Isa::best()).expect("a plan that holds")
}

/// Returns when the worker has run a job and the thread of the test harness sleeps. Threads make system
/// calls when they start or start another one, and a team does not wait for a worker that starts.
fn settle(team: &mut Team) {
    let (caller, has_worked) = (std::thread::current().id(), AtomicBool::new(false));
    let note = |_: usize| {
        has_worked.fetch_or(std::thread::current().id() != caller, Ordering::Relaxed);
    };
    while !has_worked.load(Ordering::Relaxed) {
        team.run(&note);
    }
    let is_awake = |task: std::io::Result<std::fs::DirEntry>| {
        let status = task.and_then(|task| std::fs::read_to_string(task.path().join("status")));
        !status.expect("threads that stay").contains("\nState:\tS")
    };
    let tasks = || std::fs::read_dir("/proc/self/task").expect("Linux lists threads");
    // This thread and the worker, which spins, stay awake.
    while tasks().map(is_awake).filter(|is_awake| *is_awake).count() > 2 {
        std::thread::yield_now();
    }
}

/// In the child: calls, the filter, the same calls; with `breaks` including a system call.
fn inside(breaks: bool) {
    // Idle workers sleep after a while, but here they are never idle that long.
    let mut team = Team::new(&[None], WaitPolicy { spin: Duration::from_secs(600) });
    settle(&mut team);
    let (input, mut output) = (vec![0.5; 9 * 2 * 24], vec![0.0; 9 * 2 * 40]);
    let mut sequences = Vec::new();
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        sequences.extend([(1, 1), (1, 2), (2, 1)].map(|(r, u)| sequence(precision, r, u)));
    }
    let mut run = || {
        for sequence in &mut sequences {
            for _ in 0..20 {
                sequence.run(&mut team, &input, &mut output).expect("sizes that fit");
                sequence.run_on(&mut team, &input, &mut output).expect("sizes that fit");
            }
        }
    };
    run();
    // Its buffer is allocated here.
    tell("begins");
    if apply_filter_all_threads(&fence()).is_err() {
        return tell(REFUSED);
    }
    run();
    if breaks {
        let _ = std::fs::metadata("/");
    }
    tell(LIVED);
    // From here on, a system call ends the process.
}

#[test]
fn calls_make_no_system_call() {
    if let Some(how) = std::env::var_os(FENCED) {
        return inside(how == "breaks");
    }
    let said = |how: &str| {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args(["--exact", "calls_make_no_system_call", "--nocapture"])
            .env(FENCED, how)
            .stderr(Stdio::null())
            .output()
            .expect("this program starts again");
        String::from_utf8_lossy(&child.stdout).into_owned()
    };
    let calls = said("lives");
    if calls.contains(REFUSED) {
        println!("skipped: this system lets no process fence itself in (seccomp)");
        return;
    }
    assert!(calls.contains(LIVED), "a call of the engine made a system call: {calls}");
    let broken = said("breaks");
    assert!(broken.contains("begins") && !broken.contains(LIVED), "the fence holds: {broken}");
}
