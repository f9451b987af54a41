//! Who shows a run while it is on: nobody, a line on stderr, or a full screen.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use dyno_experiment::goals::Goals;
use dyno_experiment::test::Test;
use dyno_experiment::{Failure, TestResult, Watch};
use dyno_loadgen::drive::Glance;

use crate::live::{self, Live};
use crate::tui::{Screen, Wish};
use crate::{output, terminal};

/// What is known of the run, and who shows it.
#[derive(Debug)]
pub struct Progress {
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    live: Live,
    display: Display,
}

#[derive(Debug)]
enum Display {
    Nobody,
    /// One line of text a test, for logs.
    Titles,
    Line,
    Screen(Box<Screen>),
}

impl Progress {
    /// A line if stderr is a terminal, unless it is forbidden.
    pub fn new(is_allowed: bool) -> Self {
        Self::of(if is_allowed && terminal::redraws() { Display::Line } else { Display::Nobody })
    }

    /// As [`Progress::new`], with a line of text for each test where stderr is
    /// no terminal.
    pub fn verbose(is_allowed: bool) -> Self {
        let line = if is_allowed { Display::Line } else { Display::Titles };
        Self::of(if terminal::redraws() { line } else { Display::Titles })
    }

    /// A full screen.
    ///
    /// # Errors
    /// If stderr is no terminal that could show it.
    pub fn full_screen() -> Result<Self, Failure> {
        Ok(Self::of(Display::Screen(Box::new(Screen::open()?))))
    }

    fn of(display: Display) -> Self {
        Self { shown: Mutex::new(Shown { live: Live::default(), display }) }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what keys ask for, as long as the work goes on: also while logs are
    /// written, and Ctrl-C is a key of a full screen.
    pub fn with_keys<T>(&self, work: impl FnOnce() -> T) -> T {
        if !matches!(self.shown().display, Display::Screen(_)) {
            return work();
        }
        std::thread::scope(|scope| {
            // Dropped when the work is done, which ends the listening thread.
            let (_working, is_over) = mpsc::channel::<()>();
            scope.spawn(move || {
                while is_over.recv_timeout(KEYS) == Err(mpsc::RecvTimeoutError::Timeout) {
                    self.obey_keys();
                }
            });
            work()
        })
    }

    fn obey_keys(&self) {
        let mut shown = self.shown();
        let Display::Screen(screen) = &mut shown.display else { return };
        let wish = screen.keys();
        drop(shown);
        if let Some(Wish::Stop) = wish {
            crate::interrupt::ask();
        }
    }
}

impl Watch for Progress {
    fn say(&self, sentence: &str) {
        output::say(sentence);
    }

    fn wants_glances(&self) -> bool {
        matches!(self.shown().display, Display::Line | Display::Screen(_))
    }

    fn plan(&self, heading: &str, tests: &[Test]) {
        self.shown().live.plan(heading.into(), tests);
    }

    fn begin(&self, title: &str, goals: Goals) {
        let mut shown = self.shown();
        // A probe begins many times.
        if matches!(shown.display, Display::Titles) && shown.live.title != title {
            output::say(title);
        }
        shown.live.begin(title, goals);
        shown.draw();
    }

    fn remark(&self, remark: &str) {
        let mut shown = self.shown();
        shown.live.remark = remark.into();
        shown.draw();
    }

    fn saw(&self, glance: Option<&Glance>) {
        let mut shown = self.shown();
        if let Some(glance) = glance {
            shown.live.saw(glance);
        }
        shown.draw();
    }

    fn clear(&self) {
        let mut shown = self.shown();
        match shown.display {
            // What cannot be shown is not worth a failure.
            Display::Line => drop(write!(std::io::stderr(), "\r\x1b[2K")),
            _ => shown.draw(),
        }
    }

    fn result(&self, result: TestResult) {
        let mut shown = self.shown();
        shown.live.result(result);
        if matches!(shown.display, Display::Screen(_)) {
            shown.draw();
        }
    }
}

impl Shown {
    fn draw(&mut self) {
        match &mut self.display {
            Display::Nobody | Display::Titles => {}
            Display::Line => {
                let columns = terminal::size().map_or(COLUMNS, |(columns, _)| columns.into());
                let line = live::line(&self.live, columns);
                // In one piece, so that it does not flicker.
                drop(write!(std::io::stderr(), "{}", format_args!("\r{line}\x1b[K")));
            }
            Display::Screen(screen) => screen.draw(&self.live),
        }
    }
}

/// How often keys are looked at: sooner than a hand notices.
const KEYS: Duration = Duration::from_millis(50);

/// Of a terminal that does not tell.
const COLUMNS: usize = 80;
