//! `--tui`: the run on the whole terminal. Drawn on stderr, because stdout is for data, and on the
//! alternate screen, so that the terminal is restored afterwards.

mod charts;
mod draw;
mod panels;

use std::fmt;
use std::io::{BufWriter, IsTerminal, Stderr, Write};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyno_experiment::Failure;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::{cursor, execute, terminal as console};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use signal_hook::consts::SIGQUIT;
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::live::Live;
use crate::{output, terminal};

pub use draw::{Look, draw};

/// Whether the screen is open.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// What a key requests beyond the screen itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Stop the run.
    Stop,
}

/// An open full screen.
pub struct Screen {
    /// [`restore`] shows its cursor; its own drop panics if the cursor cannot be shown.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Stderr>>>>,
    /// Size of the terminal when it was last drawn.
    area: Rect,
    look: Look,
    /// Whether keys can be read; false if only stderr is a terminal.
    has_keys: bool,
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").field("area", &self.area).finish_non_exhaustive()
    }
}

impl Screen {
    /// Opens the screen.
    ///
    /// # Errors
    /// Stderr is not a terminal.
    pub fn open() -> Result<Self, Failure> {
        if !terminal::redraws() {
            return Err(Failure::usage("--tui needs a terminal on stderr")
                .hint("remove --tui, or redirect only stdout: dyno run --tui > out.txt"));
        }
        let area = visible_area().unwrap_or(Rect::new(0, 0, 80, 24));
        let failed = |e: std::io::Error| Failure::set_up(format!("cannot use the terminal: {e}"));
        restore_on_ways_out().map_err(failed)?;
        IS_OPEN.store(true, Ordering::SeqCst);
        output::hold();
        let has_keys = console::enable_raw_mode().is_ok();
        let mut stderr = BufWriter::with_capacity(1 << 16, std::io::stderr());
        execute!(stderr, console::EnterAlternateScreen, cursor::Hide).map_err(failed)?;
        // Take the size from stderr: ratatui would use stdout.
        let options = TerminalOptions { viewport: Viewport::Fixed(area) };
        let terminal =
            Terminal::with_options(CrosstermBackend::new(stderr), options).map_err(failed)?;
        let look = Look { is_colored: terminal::is_colored(&std::io::stderr()), ..Look::default() };
        Ok(Self { terminal: ManuallyDrop::new(terminal), area, look, has_keys })
    }

    /// Draws the run. Errors are ignored.
    pub fn draw(&mut self, live: &Live) {
        // A panic in another thread restores the terminal; do not draw after that.
        if !IS_OPEN.load(Ordering::SeqCst) || self.look.is_paused {
            return;
        }
        if let Some(area) = visible_area().filter(|area| *area != self.area) {
            self.area = area;
            let _ = self.terminal.resize(area);
        }
        let look = self.look;
        let _ = self.terminal.draw(|frame| draw(frame, live, look));
    }

    /// Handles the keys pressed since the last call.
    pub fn keys(&mut self) -> Option<Wish> {
        let mut wish = None;
        // crossterm would spin forever on a closed terminal.
        let is_there = || std::io::stderr().is_terminal();
        while self.has_keys && is_there() && event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(event) = event::read() else {
                self.has_keys = false;
                break;
            };
            if let Event::Key(key) = event {
                wish = wish.or(self.key(key));
            }
        }
        wish
    }

    fn key(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        match key.code {
            // In raw mode, Ctrl-C is a key and not a signal.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Stop),
            KeyCode::Char('q') => Some(Wish::Stop),
            KeyCode::Char('p' | ' ') => {
                self.look.is_paused = !self.look.is_paused;
                None
            }
            KeyCode::Char('?' | 'h') => {
                self.look.shows_help = !self.look.shows_help;
                None
            }
            KeyCode::Esc => {
                self.look.shows_help = false;
                None
            }
            _ => None,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Maximum columns and rows that are drawn. Each takes memory, and some terminals claim 65,535 of both.
const MOST: (u16, u16) = (1_000, 500);

/// Returns the part of the terminal that is drawn, if its size is known.
fn visible_area() -> Option<Rect> {
    let (columns, rows) = terminal::size()?;
    Some(Rect::new(0, 0, columns.min(MOST.0), rows.min(MOST.1)))
}

/// Restores the terminal if the screen is open.
pub fn restore() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        let mut stderr = std::io::stderr();
        let _ = execute!(stderr, console::LeaveAlternateScreen, cursor::Show);
        let _ = stderr.flush();
        let _ = console::disable_raw_mode();
        output::release();
    }
}

/// Restores the terminal on panics and on a signal that ends the process at once. Signals that
/// [`crate::interrupt`] handles end the run, which drops the screen.
fn restore_on_ways_out() -> std::io::Result<()> {
    let previous_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        previous_hook(info);
    }));
    let mut signals = Signals::new([SIGQUIT])?;
    std::thread::Builder::new().name("terminal".into()).spawn(move || {
        for signal in signals.forever() {
            restore();
            let _ = low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}
