//! Progress of a run: hidden, a line on stderr, or a full screen.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use dyno_experiment::goals::Goals;
use dyno_experiment::test::PlannedTest;
use dyno_experiment::{Failure, TestResult, Watch};
use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_loadgen::drive::Glance;

use crate::live::{self, Live};
use crate::tui::{Screen, Wish};
use crate::{output, terminal};

/// The state of the run and its display.
#[derive(Debug)]
pub struct Progress {
    state: Mutex<ProgressState>,
}

#[derive(Debug)]
struct ProgressState {
    live: Live,
    display: Display,
}

#[derive(Debug)]
enum Display {
    Hidden,
    /// One line of text for each test, for logs.
    Titles,
    /// A line of text now and then, for the logs of jobs; holds a clock that began with the last one.
    Lines(Clock),
    /// A line that is overwritten.
    Line,
    Screen(Box<Screen>),
}

impl Progress {
    /// Returns a progress line if it is allowed: one that is overwritten if stderr is a terminal, else
    /// one every ten seconds.
    pub fn new(is_allowed: bool) -> Self {
        Self::with_display(match (is_allowed, terminal::redraws()) {
            (false, _) => Display::Hidden,
            (true, true) => Display::Line,
            (true, false) => Display::Lines(Clock::start()),
        })
    }

    /// Returns [`Progress::new`], but with a line of text for each test if stderr is not a terminal.
    pub fn verbose(is_allowed: bool) -> Self {
        let line = if is_allowed { Display::Line } else { Display::Titles };
        Self::with_display(if terminal::redraws() { line } else { Display::Titles })
    }

    /// Returns a full screen.
    ///
    /// # Errors
    /// Stderr is not a terminal that can show it.
    pub fn full_screen() -> Result<Self, Failure> {
        Ok(Self::with_display(Display::Screen(Box::new(Screen::open()?))))
    }

    fn with_display(display: Display) -> Self {
        Self { state: Mutex::new(ProgressState { live: Live::default(), display }) }
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles keys while `work` runs, also while logs are written: a full screen receives Ctrl-C as a key.
    pub fn with_keys<T>(&self, work: impl FnOnce() -> T) -> T {
        if !matches!(self.state().display, Display::Screen(_)) {
            return work();
        }
        std::thread::scope(|scope| {
            // Dropped when the work is done, which ends the listening thread.
            let (_working, is_over) = mpsc::channel::<()>();
            // Without a thread, keys have no effect.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
                while is_over.recv_timeout(KEYS) == Err(mpsc::RecvTimeoutError::Timeout) {
                    self.obey_keys();
                }
            });
            work()
        })
    }

    fn obey_keys(&self) {
        let mut state = self.state();
        let Display::Screen(screen) = &mut state.display else { return };
        let wish = screen.keys();
        drop(state);
        if let Some(Wish::Stop) = wish {
            crate::interrupt::signal();
        }
    }
}

impl Watch for Progress {
    fn say(&self, sentence: &str) {
        output::say(sentence);
    }

    fn step(&self, line: &str) {
        if !matches!(self.state().display, Display::Hidden) {
            output::say(line);
        }
    }

    fn wants_glances(&self) -> bool {
        matches!(self.state().display, Display::Line | Display::Lines(_) | Display::Screen(_))
    }

    fn plan(&self, heading: &str, tests: &[PlannedTest]) {
        self.state().live.plan(heading.into(), tests);
    }

    fn begin(&self, title: &str, goals: Goals) {
        let mut state = self.state();
        // A probe begins many times.
        if matches!(state.display, Display::Titles) && state.live.title != title {
            output::say(title);
        }
        state.live.begin(title, goals);
        state.draw();
    }

    fn remark(&self, remark: &str) {
        let mut state = self.state();
        state.live.remark = remark.into();
        state.draw();
    }

    fn saw(&self, glance: Option<&Glance>) {
        let mut state = self.state();
        if let Some(glance) = glance {
            state.live.saw(glance);
        }
        state.draw();
    }

    fn servers(&self, words: &str) {
        // The next glance draws it.
        self.state().live.servers = words.into();
    }

    fn clear(&self) {
        let mut state = self.state();
        match state.display {
            // A failed write must not fail the run.
            Display::Line => drop(write!(std::io::stderr(), "\r\x1b[2K")),
            _ => state.draw(),
        }
    }

    fn result(&self, result: TestResult) {
        let mut state = self.state();
        state.live.result(result);
        if matches!(state.display, Display::Screen(_)) {
            state.draw();
        }
    }
}

impl ProgressState {
    fn draw(&mut self) {
        match &mut self.display {
            Display::Hidden | Display::Titles => {}
            Display::Lines(clock) => {
                if clock.now() >= PERIOD_OF_LINES {
                    *clock = Clock::start();
                    output::say(live::line(&self.live, COLUMNS_OF_LINES));
                }
            }
            Display::Line => {
                let columns = terminal::size().map_or(COLUMNS, |(columns, _)| columns.into());
                let line = output::plain(&live::line(&self.live, columns));
                let line = terminal::drawn(&line, &std::io::stderr());
                // One write, to avoid flicker.
                drop(write!(std::io::stderr(), "{}", format_args!("\r{line}\x1b[K")));
            }
            Display::Screen(screen) => screen.draw(&self.live),
        }
    }
}

/// Interval of key checks: shorter than a person notices.
const KEYS: Duration = Duration::from_millis(50);

/// Time between the lines of a log.
const PERIOD_OF_LINES: Nanos = 10 * SECOND;

/// Columns of the lines of a log.
const COLUMNS_OF_LINES: usize = 100;

/// Columns of a terminal of unknown size.
const COLUMNS: usize = 80;
