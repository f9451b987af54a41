//! `print_timestamps`: prints begin and end of a performance run on stdout.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::lock;
use crate::clock::{Clock, MILLISECOND, SECOND, WallTime};
use crate::run::RunStart;

/// Prints the lines that scripts of power meters wait for, if enabled.
#[derive(Debug, Clone)]
pub(super) struct Timestamps {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
enum State {
    /// Disabled.
    Off,
    /// No performance run is expected.
    Idle,
    /// A performance run comes next.
    Expected,
    /// A performance run began at this wall-clock time, with this clock.
    Begun(WallTime, Clock),
}

impl Timestamps {
    pub(super) fn new(print: bool) -> Self {
        let state = if print { State::Idle } else { State::Off };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Records that a run will begin.
    pub(super) fn expect(&self, beginning: RunStart<'_>) {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Off) {
            let accuracy = beginning.purpose == "accuracy";
            *state = if accuracy { State::Idle } else { State::Expected };
        }
    }

    /// Prints the begin or the end of a run. The spelling is that of the reference.
    pub(super) fn mark(&self, begins: bool) {
        let mut state = lock(&self.state);
        // Both clocks are read before a line is printed, which takes time.
        let (now, started) = (WallTime::now(), Clock::start());
        let seconds = now.unix_ns / SECOND;
        match (begins, &*state) {
            (true, State::Expected) => {
                let line =
                    format!("Loadgen :: Perf mode start. system_clock Timestamp = {seconds}\n");
                print(&mut io::stdout(), &line);
                *state = State::Begun(now, started);
            }
            (false, State::Begun(begin, clock)) => {
                let monotonic = clock.now();
                let wall = now.unix_ns.saturating_sub(begin.unix_ns);
                let ratio = monotonic as f64 / wall as f64;
                let lines = format!(
                    "Loadgen :: Perf mode stop. systme_clock Timestamp = {seconds}\n\
                     Loadgen :: PerfClock Perf duration = {}ms\n\
                     Loadgen :: system_clock Perf duration = {}ms\n\
                     Loadgen :: PerfClock/system_clock ratio = {ratio:.4}\n",
                    monotonic / MILLISECOND,
                    wall / MILLISECOND
                );
                print(&mut io::stdout(), &lines);
                *state = State::Idle;
            }
            _ => {}
        }
    }
}

/// Prints lines and ignores errors: `println!` would panic on a closed stdout and lose the run.
fn print(out: &mut dyn Write, lines: &str) {
    let _ = out.write_all(lines.as_bytes());
}
