//! `FindPeakPerformance`: the search for the highest load that a system sustains. The load is the
//! rate of Server, or the number of streams of MultiStream at a fixed interval. The search doubles
//! the load, bisects it, and confirms the result. It is pure: it returns the next load to run and
//! takes whether the run passed.
//!
//! ```
//! use dyno_loadgen::peak::{Answer, End, PeakSearch, PeakStep};
//! use dyno_loadgen::plan::PeakSettings;
//! use dyno_loadgen::search::Unit;
//! use dyno_loadgen::settings::Repetition;
//!
//! // A system that sustains 12 streams.
//! let settings = PeakSettings { unit: Unit::Whole, decimals: 0, step_size: 1.0 };
//! let mut search = PeakSearch::new(1.0, settings, Repetition::Once);
//! let end = loop {
//!     match search.next() {
//!         PeakStep::Run { load, .. } => {
//!             search.answer(if load <= 12.0 { Answer::Passed } else { Answer::TooMuch });
//!         }
//!         PeakStep::Over(end) => break end,
//!     }
//! };
//! assert_eq!(end, End::Found { load: 12.0 });
//! ```

use crate::plan::PeakSettings;
use crate::search::Unit;
use crate::settings::Repetition;

/// Next step of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PeakStep {
    /// Run at this load and answer with [`PeakSearch::answer`].
    Run {
        /// Queries per second, or streams.
        load: f64,
        /// Purpose of the run.
        purpose: Purpose,
    },
    /// The search is over.
    Over(End),
}

/// Result of a run at its load, in order of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// The run passed.
    Passed,
    /// The run failed and may pass at a lower load.
    TooMuch,
    /// The run failed for a reason that a lower load does not fix.
    NotOfLoad,
}

/// How a search ended. Loads are queries per second, or streams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// All required runs passed at this load.
    Found {
        /// The load.
        load: f64,
    },
    /// No load passed.
    Failed {
        /// The load that failed last.
        load: f64,
        /// Why no other load was tried.
        because: Failure,
    },
}

/// Why a search ended without a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Failure {
    /// The load of the settings failed.
    Base,
    /// A confirming run failed, and the repetition tries no lower load.
    OneLoad,
    /// A run failed for a reason that a lower load does not fix.
    NotOfLoad,
    /// The load was lowered and still failed: the first load was too high.
    TooHigh {
        /// The first load to be confirmed.
        first: f64,
        /// How often it was lowered.
        times: u32,
    },
}

/// Maximum number of times that a load is lowered because a confirming run failed. Chance can cost
/// a well-chosen load up to ten steps of 1 % or of a stream; a search corrects a badly chosen load
/// in fewer runs.
pub const MOST_LOWERINGS: u32 = 10;

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Purpose {
    /// Check that the load of the settings passes.
    Base,
    /// Search for a load that fails, within these bounds.
    Bracket {
        /// Load that passed.
        lower: f64,
        /// Load of this run.
        upper: f64,
    },
    /// Halve the interval.
    Bisect {
        /// Load that passed.
        lower: f64,
        /// Load that failed.
        upper: f64,
    },
    /// Run the found load again.
    Confirm {
        /// Number of the run, from 1.
        run: u32,
        /// Number of confirming runs.
        runs: u32,
    },
}

/// State of a search for the peak.
#[derive(Debug, Clone, PartialEq)]
pub struct PeakSearch {
    settings: PeakSettings,
    /// Number of confirming runs; 0 means no confirmation.
    runs: u32,
    /// Amount by which a failed confirmation lowers the load; 0 ends the search. `None` is a share
    /// of the first load to be confirmed.
    decrement: Option<f64>,
    state: State,
    lower: f64,
    upper: f64,
    /// Number of times that a failed confirmation has lowered `lower`.
    lowered: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Base,
    Bracket,
    Bisect,
    Confirm { passed: u32 },
    Over(End),
}

impl PeakSearch {
    /// Returns a search from this load upward. The found load is confirmed if the repetition has
    /// several runs.
    pub fn new(base: f64, settings: PeakSettings, repetition: Repetition) -> Self {
        let (runs, decrement) = match repetition {
            Repetition::Once => (0, Some(0.0)),
            Repetition::Minimum(runs) => (runs, Some(0.0)),
            Repetition::Confirm { runs, decrement } => (runs, decrement),
        };
        let (state, lower, upper) = (State::Base, base, base);
        Self { settings, runs, decrement, state, lower, upper, lowered: 0 }
    }

    /// Returns a search that only confirms this load.
    pub fn confirming(load: f64, repetition: Repetition) -> Self {
        let unused = PeakSettings { unit: Unit::Rate, decimals: 0, step_size: 1.0 };
        let mut search = Self::new(load, unused, repetition);
        search.confirm(0);
        search
    }

    /// Returns the next step without changing the state.
    #[must_use]
    pub fn next(&self) -> PeakStep {
        let (lower, upper) = (self.lower, self.upper);
        match self.state {
            State::Base => PeakStep::Run { load: lower, purpose: Purpose::Base },
            State::Bracket => {
                PeakStep::Run { load: upper, purpose: Purpose::Bracket { lower, upper } }
            }
            State::Bisect => {
                PeakStep::Run { load: self.middle(), purpose: Purpose::Bisect { lower, upper } }
            }
            State::Confirm { passed } => {
                let runs = self.runs;
                PeakStep::Run { load: lower, purpose: Purpose::Confirm { run: passed + 1, runs } }
            }
            State::Over(end) => PeakStep::Over(end),
        }
    }

    /// Takes the result of the run that [`PeakSearch::next`] returned.
    pub fn answer(&mut self, answer: Answer) {
        let passed = answer == Answer::Passed;
        match self.state {
            State::Base if passed => self.raise(self.lower),
            State::Base => self.fail(Failure::Base),
            State::Bracket if passed => self.raise(self.upper),
            State::Bracket => self.bisect_or_confirm(),
            State::Bisect => {
                let middle = self.middle();
                *(if passed { &mut self.lower } else { &mut self.upper }) = middle;
                self.bisect_or_confirm();
            }
            State::Confirm { passed: before } if passed => self.confirm(before + 1),
            State::Confirm { .. } => self.lower_the_candidate(answer),
            State::Over(_) => {}
        }
    }

    /// Sets the highest load that can be tried. It is tried next, or becomes the candidate if it
    /// has passed.
    pub fn end_of_range(&mut self, highest: f64) {
        if self.lower < highest {
            self.upper = highest;
        } else {
            self.confirm(0);
        }
    }

    /// Searches for a load that fails above this one, which passed.
    fn raise(&mut self, passed: f64) {
        self.state = State::Bracket;
        self.lower = passed;
        self.upper = passed * (1.0 + self.settings.step_size);
    }

    fn middle(&self) -> f64 {
        let middle = self.lower + (self.upper - self.lower) / 2.0;
        match self.settings.unit {
            Unit::Rate => middle,
            Unit::Whole => middle.floor(),
        }
    }

    /// Confirms the lower bound if the bounds agree to the wanted number of decimals; otherwise
    /// bisects.
    fn bisect_or_confirm(&mut self) {
        let scale = 10_f64.powi(i32::from(self.settings.decimals));
        if (self.lower * scale).floor() + 1.0 >= (self.upper * scale).floor() {
            self.confirm(0);
        } else {
            self.state = State::Bisect;
        }
    }

    fn confirm(&mut self, passed: u32) {
        self.state = if passed >= self.runs {
            State::Over(End::Found { load: self.lower })
        } else {
            State::Confirm { passed }
        };
    }

    fn fail(&mut self, because: Failure) {
        self.state = State::Over(End::Failed { load: self.lower, because });
    }

    /// Lowers the candidate after a failed confirmation; all its runs start over.
    fn lower_the_candidate(&mut self, answer: Answer) {
        let decrement = *self.decrement.get_or_insert(self.lower * Repetition::DECREMENT_SHARE);
        let lower = self.lower - decrement;
        if decrement <= 0.0 {
            self.fail(Failure::OneLoad);
        } else if answer == Answer::NotOfLoad {
            self.fail(Failure::NotOfLoad);
        } else if lower <= 0.0 || self.lowered >= MOST_LOWERINGS {
            let times = self.lowered;
            self.fail(Failure::TooHigh { first: self.lower + f64::from(times) * decrement, times });
        } else {
            self.lowered += 1;
            self.lower = lower;
            self.confirm(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: PeakSettings = PeakSettings { unit: Unit::Rate, decimals: 1, step_size: 1.0 };

    fn confirm(runs: u32, decrement: f64) -> Repetition {
        Repetition::Confirm { runs, decrement: Some(decrement) }
    }

    /// Plays the search against a system for which `passes` returns whether a load passes; returns
    /// the end and all loads run.
    fn play(mut search: PeakSearch, passes: &mut dyn FnMut(f64) -> bool) -> (End, Vec<f64>) {
        let mut rates = Vec::new();
        loop {
            match search.next() {
                PeakStep::Run { load, .. } => {
                    rates.push(load);
                    search.answer(if passes(load) { Answer::Passed } else { Answer::TooMuch });
                }
                PeakStep::Over(end) => return (end, rates),
            }
        }
    }

    #[test]
    fn rates_are_those_of_the_reference() {
        // The rates of the reference's run in testdata (a system that sustains
        // between 204.6875 and 205.46875 queries/s), one decimal of precision.
        let search =
            PeakSearch::new(100.0, PeakSettings { decimals: 0, ..SETTINGS }, Repetition::Once);
        let (end, rates) = play(search, &mut |qps| qps <= 205.0);
        assert_eq!(
            rates,
            [100.0, 200.0, 400.0, 300.0, 250.0, 225.0, 212.5, 206.25, 203.125, 204.6875, 205.46875]
        );
        assert_eq!(end, End::Found { load: 204.6875 });
    }

    #[test]
    fn a_base_rate_that_fails_ends_the_search() {
        let (end, rates) = play(PeakSearch::new(50.0, SETTINGS, Repetition::Once), &mut |_| false);
        assert_eq!((end, rates.len()), (End::Failed { load: 50.0, because: Failure::Base }, 1));
    }

    #[test]
    fn a_failed_confirmation_lowers_the_candidate_and_starts_over() {
        let mut runs_at_peak = 0;
        let (end, _) = play(PeakSearch::new(8.0, SETTINGS, confirm(3, 0.5)), &mut |qps| {
            // Passes at 10 when searched, fails at its second confirmation.
            runs_at_peak += i32::from(qps == 10.0);
            qps < 10.0 || (qps == 10.0 && runs_at_peak <= 2)
        });
        let End::Found { load: qps } = end else { panic!("{end:?}") };
        assert!((9.0..10.0).contains(&qps), "{qps}");
    }

    #[test]
    fn a_peak_is_lowered_by_a_share_of_what_was_found() {
        // Passes up to 800 during the search, but only up to 780 when confirmed.
        let repetition = Repetition::Confirm { runs: 2, decrement: None };
        let mut search = PeakSearch::new(100.0, SETTINGS, repetition);
        let mut confirming = Vec::new();
        while let PeakStep::Run { load, purpose } = search.next() {
            let bears = match purpose {
                Purpose::Confirm { .. } => 780.0,
                _ => 800.0,
            };
            if bears < 800.0 {
                confirming.push(load.round());
            }
            search.answer(if load <= bears { Answer::Passed } else { Answer::TooMuch });
        }
        assert_eq!(confirming, [800.0, 792.0, 784.0, 776.0, 776.0]);
    }

    #[test]
    fn the_end_of_the_range_is_tried() {
        let settings = PeakSettings { unit: Unit::Whole, decimals: 0, ..SETTINGS };
        for (most, expected) in [(9.0, 9.0), (11.0, 11.0), (12.0, 12.0), (20.0, 12.0)] {
            let mut search = PeakSearch::new(5.0, settings, Repetition::Once);
            let mut calls = 0;
            let found = loop {
                match search.next() {
                    PeakStep::Run { purpose: Purpose::Bracket { upper, .. }, .. }
                        if upper > 12.0 =>
                    {
                        calls += 1;
                        search.end_of_range(12.0);
                    }
                    PeakStep::Run { load, .. } => {
                        search.answer(if load <= most { Answer::Passed } else { Answer::TooMuch });
                    }
                    PeakStep::Over(End::Found { load }) => break load,
                    PeakStep::Over(end) => panic!("{end:?}"),
                }
            };
            assert!(calls <= 2);
            assert_eq!(found, expected, "{most}");
        }
    }

    #[test]
    fn whole_loads_are_doubled_and_halved_to_the_highest_that_passes() {
        let settings = PeakSettings { unit: Unit::Whole, decimals: 0, ..SETTINGS };
        for most in 1..200 {
            let (end, loads) = play(PeakSearch::new(1.0, settings, Repetition::Once), &mut |n| {
                n <= f64::from(most)
            });
            assert_eq!(end, End::Found { load: f64::from(most) });
            assert!(loads.iter().all(|load| load.fract() == 0.0), "{loads:?}");
            // Doublings to the first that fails, and as many halvings at most.
            let doublings = f64::from(most).log2().floor() as usize + 2;
            assert!(loads.len() <= 2 * doublings, "{most}: {loads:?}");
        }
    }

    #[test]
    fn a_confirmation_alone_begins_at_its_load() {
        let search = PeakSearch::confirming(8.0, confirm(5, 1.0));
        let (end, loads) = play(search.clone(), &mut |streams| streams <= 6.0);
        assert_eq!(end, End::Found { load: 6.0 });
        assert_eq!(loads, [8.0, 7.0, 6.0, 6.0, 6.0, 6.0, 6.0]);
        // Not even one stream: seven loads lower, and there is no other.
        let (end, loads) = play(search, &mut |_| false);
        let because = Failure::TooHigh { first: 8.0, times: 7 };
        assert_eq!((end, loads.len()), (End::Failed { load: 1.0, because }, 8));
    }

    #[test]
    fn a_load_is_lowered_ten_times_and_not_for_what_that_does_not_mend() {
        let by_seven = confirm(5, 7.0);
        let (end, loads) = play(PeakSearch::confirming(700.0, by_seven), &mut |_| false);
        let because = Failure::TooHigh { first: 700.0, times: 10 };
        assert_eq!((end, loads.len()), (End::Failed { load: 630.0, because }, 11));
        // The last of the ten may still pass.
        let (end, loads) = play(PeakSearch::confirming(700.0, by_seven), &mut |qps| qps <= 630.0);
        assert_eq!((end, loads.len()), (End::Found { load: 630.0 }, 15));

        let mut search = PeakSearch::confirming(700.0, by_seven);
        for answer in [Answer::Passed, Answer::Passed, Answer::NotOfLoad] {
            search.answer(answer);
        }
        let because = Failure::NotOfLoad;
        assert_eq!(search.next(), PeakStep::Over(End::Failed { load: 700.0, because }));
        // Without a decrement, the first failure ends the search.
        for answer in [Answer::TooMuch, Answer::NotOfLoad] {
            let mut search = PeakSearch::confirming(700.0, Repetition::Minimum(5));
            search.answer(answer);
            let because = Failure::OneLoad;
            assert_eq!(search.next(), PeakStep::Over(End::Failed { load: 700.0, because }));
        }
    }
}
