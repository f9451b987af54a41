//! Progress line of a tuning job.

use std::io::Write as _;

use dyno_experiment::tune::objective_text;
use dyno_number::Network;
use dyno_number::tune::Progress;
use dyno_results::units;

use crate::terminal;

/// A line on stderr that is redrawn, or nothing.
#[derive(Debug)]
pub struct Line {
    is_shown: bool,
}

impl Line {
    /// Returns a line if stderr is a terminal and the line is allowed.
    pub fn new(is_allowed: bool) -> Self {
        Self { is_shown: is_allowed && terminal::redraws() }
    }

    /// Shows the progress of the search.
    pub fn show(&self, progress: &Progress<'_>, network: &Network) {
        if self.is_shown {
            draw(&text(progress, |size| objective_text(network, size)));
        }
    }

    /// Shows how many of all trials are evaluated after this many ns.
    pub fn count(&self, done: usize, all: usize, ns: u64) {
        if self.is_shown {
            draw(&counted(done, all, ns));
        }
    }

    /// Removes the line.
    pub fn clear(&self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

fn draw(text: &str) {
    let columns = terminal::size().map_or(80, |(columns, _)| usize::from(columns));
    let text: String = text.chars().take(columns.saturating_sub(1)).collect();
    // A failed write must not fail the job.
    let _ = write!(std::io::stderr(), "\r{text}\x1b[K");
}

/// Returns a text such as `23 of 110 evaluated, 87 to go (4.00 s)`.
fn counted(done: usize, all: usize, ns: u64) -> String {
    let mut text = format!("{done} of {all} evaluated");
    let left = all.saturating_sub(done);
    if done > 0 && left > 0 {
        let each = ns as f64 / done as f64;
        text += &format!(", {left} to go ({})", units::duration((each * left as f64) as i64));
    }
    text
}

/// Returns a text such as
/// `width on the small set, 23 evaluated, about 11 to go (4.00 s); best 58,328 bits, accuracy 0.9691`.
fn text(progress: &Progress<'_>, size: impl Fn(f64) -> String) -> String {
    let set = progress.subset as usize;
    let evaluated: u64 = progress.evaluations.iter().sum();
    let each = progress.seconds[set] / progress.evaluations[set].max(1) as f64;
    let mut text =
        format!("{} on the {} set, {evaluated} evaluated", progress.phase, progress.subset);
    if progress.remaining > 0 {
        let left = each * progress.remaining as f64;
        let left = units::duration((left * 1e9) as i64);
        text += &format!(", about {} to go ({left})", progress.remaining);
    }
    if let Some(best) = progress.best {
        text += &format!("; best {}, accuracy {:.4}", size(best.objective), best.accuracy);
    }
    if progress.journal_problem.is_some() {
        text += "; THE JOURNAL CANNOT BE WRITTEN";
    }
    text
}

#[cfg(test)]
mod tests {
    use dyno_number::tune::{Phase, Subset};

    use super::*;

    #[test]
    fn trials_that_are_left_take_as_long_as_others() {
        assert_eq!(counted(0, 12, 5), "0 of 12 evaluated");
        assert_eq!(counted(4, 12, 2_000_000_000), "4 of 12 evaluated, 8 to go (4.00 s)");
        assert_eq!(counted(12, 12, 6_000_000_000), "12 of 12 evaluated");
    }

    #[test]
    fn the_line_has_an_estimate() {
        let progress = Progress {
            phase: Phase::Width,
            subset: Subset::Full,
            evaluations: [20, 4, 0],
            seconds: [5.0, 8.0, 0.0],
            remaining: 3,
            accuracy: 0.9,
            best: None,
            journal_problem: None,
        };
        assert_eq!(
            text(&progress, |size| size.to_string()),
            "width on the full set, 24 evaluated, about 3 to go (6.00 s)"
        );
        let full = Progress { remaining: 0, journal_problem: Some("full"), ..progress };
        assert!(
            text(&full, |size| size.to_string())
                .ends_with("24 evaluated; THE JOURNAL CANNOT BE WRITTEN")
        );
    }
}
