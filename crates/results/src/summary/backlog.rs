//! Findings about the backlog of a run at a rate: whether it still grew when the run ended.

use dyno_loadgen::backlog::Growth;
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::Record;

use super::{Reason, ReasonKind};
use crate::units;

/// Advice if nothing else than the server limits the completions.
pub(super) const GROWTH_ADVICE: &str =
    "Lower the rate, or run longer to see whether the server keeps up.";

/// Returns a sentence on the growth of the backlog.
pub fn growth_sentence(growth: &Growth) -> String {
    format!(
        "The backlog still grew when the run ended: {} requests/s arrived and {} were \
         answered, with {} outstanding at the last arrival.",
        units::rate(growth.arrivals_per_s),
        units::rate(growth.answers_per_s),
        units::counted(growth.outstanding, "request", "requests"),
    )
}

/// Returns the growth of the backlog as a reason for UNDECIDED, with advice.
pub fn growth_reason(growth: &Growth) -> Reason {
    let text = format!(
        "{} The latencies depend on the length of the run. {GROWTH_ADVICE}",
        growth_sentence(growth)
    );
    Reason::new(ReasonKind::Saturated, text).undecided()
}

/// Returns a note on a growth that is too small to leave the verdict undecided, from the offered and the
/// completed requests per second.
pub fn growth_note(offered_per_s: f64, completed_per_s: f64) -> String {
    format!(
        "Completed {}/s of {}/s offered: the queue grew during the test; figures depend on the \
         length of the test.",
        units::rate(completed_per_s),
        units::rate(offered_per_s)
    )
}

/// Lateness of turns that are due at an interval, which grew during a run: the users want more turns
/// than the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateTurns {
    /// Median lateness in the first quarter of the run, ns.
    pub first: Nanos,
    /// Median lateness in the last quarter, ns.
    pub last: Nanos,
}

/// Least growth of the lateness as a share of the time in which it grew.
const LEAST_DELAY: f64 = 0.05;
/// Least number of turns: a few do not tell a trend.
const LEAST_TURNS: usize = 100;

impl LateTurns {
    /// Returns the lateness if it grew from each quarter of the run to the next; `None` otherwise, and
    /// for turns that are due when the user sends them.
    pub fn find(record: &Record) -> Option<Self> {
        let played = record.sessions.as_ref()?;
        let late = |query: usize, ready: Nanos| ready.saturating_sub(record.scheduled(query));
        let mut turns: Vec<(Nanos, Nanos)> = (played.ready_at.iter().enumerate())
            .map(|(query, &ready)| (record.scheduled(query), late(query, ready)))
            .collect();
        if turns.len() < LEAST_TURNS {
            return None;
        }
        turns.sort_unstable();
        let quarter = turns.len() / 4;
        let medians: Vec<Nanos> = (0..4)
            .map(|at| {
                let mut part: Vec<Nanos> =
                    turns[at * quarter..(at + 1) * quarter].iter().map(|(_, late)| *late).collect();
                part.sort_unstable();
                part[part.len() / 2]
            })
            .collect();
        let (first, last) = (medians[0], medians[3]);
        // The middles of the first and of the last quarter are three quarters apart.
        let passed = (turns[turns.len() - 1].0 - turns[0].0) as f64 * 0.75;
        let grows = medians.is_sorted() && medians[1] < last;
        (grows && (last - first) as f64 >= LEAST_DELAY * passed).then_some(Self { first, last })
    }

    /// Returns the finding as a reason for UNDECIDED, with advice.
    pub fn reason(&self) -> Reason {
        let text = format!(
            "The users fell behind their interval: a turn began {} late in the first quarter of the \
             run, and {} late in the last (medians). The server answers fewer turns than they want, \
             so that the latencies depend on the length of the run. Use fewer users, or a longer \
             interval.",
            units::duration(self.first.cast_signed()),
            units::duration(self.last.cast_signed()),
        );
        Reason::new(ReasonKind::Saturated, text).undecided()
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::SECOND;
    use dyno_loadgen::record::PlayedSessions;

    use super::*;

    /// A user whose turns are due every 100 ms and begin at these times.
    fn user(ready_at: impl Fn(Nanos) -> Nanos) -> Record {
        let due: Vec<Nanos> = (0..400).map(|turn| turn * 100_000_000).collect();
        let ready_at = due.iter().map(|due| ready_at(*due).max(*due)).collect();
        let sessions = PlayedSessions { ready_at, ..PlayedSessions::default() };
        Record { issued_at: due, sessions: Some(sessions), ..Record::default() }
    }

    #[test]
    fn users_fall_behind_if_their_turns_take_longer_than_the_interval() {
        // Each turn takes 150 ms.
        let behind = LateTurns::find(&user(|due| due + due / 2)).unwrap();
        assert!(behind.first < SECOND * 4 && behind.last > SECOND * 15, "{behind:?}");
        assert!(behind.reason().undecided);
        assert_eq!(LateTurns::find(&user(|due| due)), None);
        // One answer was late, and all turns after it are on time again.
        assert_eq!(LateTurns::find(&user(|due| due.max(SECOND))), None);
        // A constant delay does not grow.
        assert_eq!(LateTurns::find(&user(|due| due + 80_000_000)), None);
        assert_eq!(LateTurns::find(&Record::default()), None);
    }

    #[test]
    fn the_reason_has_both_rates() {
        let times = (0..1_200).map(|at| (at * SECOND / 20, (at + 1) * SECOND / 8));
        let reason = growth_reason(&Growth::of_times(times.collect()).unwrap());
        assert!(reason.undecided);
        assert!(reason.text.contains("20.00 requests/s arrived and 8.000 were"), "{}", reason.text);
        assert!(reason.text.contains("with 721 requests outstanding"), "{}", reason.text);
        assert_eq!(
            growth_note(18.7, 16.0),
            "Completed 16.00/s of 18.70/s offered: the queue grew during the test; figures depend \
             on the length of the test."
        );
    }
}
