//! The search for the highest load that a system sustains, the rate of Server or
//! the number of streams of MultiStream at a fixed interval: doubling, then
//! bisection, then confirmation. Pure: it says which load to run and is told
//! whether the run passed.

use crate::plan::PeakSettings;
use crate::search::Unit;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Run at this load and answer with [`PeakSearch::passed`].
    Run {
        /// Queries per second, or streams.
        load: f64,
        /// Why.
        purpose: Purpose,
    },
    /// The search is over.
    Found {
        /// Queries per second, or streams.
        load: f64,
    },
    /// Not even the base load passes, or no load was confirmed.
    Failed {
        /// The load that failed last.
        load: f64,
    },
}

/// Why a run is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Purpose {
    /// The load that the settings name must pass.
    Base,
    /// Looking for a load that fails, within these bounds.
    Bracket {
        /// Passed.
        lower: f64,
        /// Is run.
        upper: f64,
    },
    /// Halving the interval.
    Bisect {
        /// Passed.
        lower: f64,
        /// Failed.
        upper: f64,
    },
    /// The load found is run again.
    Confirm {
        /// Which of the runs, from 1.
        run: u64,
        /// How many there are.
        of: u64,
    },
}

/// The search.
#[derive(Debug, Clone, PartialEq)]
pub struct PeakSearch {
    settings: PeakSettings,
    state: State,
    lower: f64,
    upper: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Base,
    Bracket,
    Bisect,
    Confirm { passed: u64 },
    Found,
    Failed,
}

impl PeakSearch {
    /// A search from this load upwards.
    #[must_use]
    pub fn new(base: f64, settings: PeakSettings) -> Self {
        Self { settings, state: State::Base, lower: base, upper: base }
    }

    /// Only the confirmation, of this load.
    #[must_use]
    pub fn confirming(load: f64, settings: PeakSettings) -> Self {
        let mut search = Self::new(load, settings);
        search.confirm(0);
        search
    }

    /// What to do next. Changes nothing.
    #[must_use]
    pub fn next(&self) -> Next {
        let (lower, upper) = (self.lower, self.upper);
        match self.state {
            State::Base => Next::Run { load: lower, purpose: Purpose::Base },
            State::Bracket => Next::Run { load: upper, purpose: Purpose::Bracket { lower, upper } },
            State::Bisect => {
                Next::Run { load: self.middle(), purpose: Purpose::Bisect { lower, upper } }
            }
            State::Confirm { passed } => {
                let of = self.settings.confirmation_runs;
                Next::Run { load: lower, purpose: Purpose::Confirm { run: passed + 1, of } }
            }
            State::Found => Next::Found { load: lower },
            State::Failed => Next::Failed { load: lower },
        }
    }

    /// Tells whether the run that [`PeakSearch::next`] asked for passed.
    pub fn passed(&mut self, passed: bool) {
        match self.state {
            State::Base if passed => {
                self.state = State::Bracket;
                self.upper = self.lower * (1.0 + self.settings.step_size);
            }
            State::Base => self.state = State::Failed,
            State::Bracket if passed => {
                self.lower = self.upper;
                self.upper = self.lower * (1.0 + self.settings.step_size);
            }
            State::Bracket => self.bisect_or_confirm(),
            State::Bisect => {
                let middle = self.middle();
                *(if passed { &mut self.lower } else { &mut self.upper }) = middle;
                self.bisect_or_confirm();
            }
            State::Confirm { passed: before } if passed => self.confirm(before + 1),
            State::Confirm { .. } => self.lower_the_candidate(),
            State::Found | State::Failed => {}
        }
    }

    /// No load beyond those that passed can be tried: the highest of them is the
    /// candidate.
    pub fn end_of_range(&mut self) {
        self.confirm(0);
    }

    fn middle(&self) -> f64 {
        let middle = self.lower + (self.upper - self.lower) / 2.0;
        match self.settings.unit {
            Unit::Rate => middle,
            Unit::Whole => middle.floor(),
        }
    }

    /// Whether the bounds agree to the wanted number of decimals.
    fn bisect_or_confirm(&mut self) {
        let scale = 10_f64.powi(i32::from(self.settings.decimals));
        if (self.lower * scale).floor() + 1.0 >= (self.upper * scale).floor() {
            self.confirm(0);
        } else {
            self.state = State::Bisect;
        }
    }

    fn confirm(&mut self, passed: u64) {
        let enough = passed >= self.settings.confirmation_runs;
        self.state = if enough { State::Found } else { State::Confirm { passed } };
    }

    /// A failed confirmation takes the candidate down, and all its runs are
    /// made anew.
    fn lower_the_candidate(&mut self) {
        let lowered = self.lower - self.settings.confirmation_decrement;
        if self.settings.confirmation_decrement > 0.0 && lowered > 0.0 {
            self.lower = lowered;
            self.confirm(0);
        } else {
            self.state = State::Failed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: PeakSettings = PeakSettings {
        unit: Unit::Rate,
        decimals: 1,
        step_size: 1.0,
        confirmation_runs: 0,
        confirmation_decrement: 0.0,
    };

    /// Plays the search against a system that passes at up to `peak`; returns
    /// the end and all rates run.
    fn play(mut search: PeakSearch, passes: &mut dyn FnMut(f64) -> bool) -> (Next, Vec<f64>) {
        let mut rates = Vec::new();
        loop {
            match search.next() {
                Next::Run { load, .. } => {
                    rates.push(load);
                    search.passed(passes(load));
                }
                end => return (end, rates),
            }
        }
    }

    #[test]
    fn rates_are_those_of_the_reference() {
        // The rates of the reference's run in testdata (a system that sustains
        // between 204.6875 and 205.46875 queries/s), one decimal of precision.
        let search = PeakSearch::new(100.0, PeakSettings { decimals: 0, ..SETTINGS });
        let (end, rates) = play(search, &mut |qps| qps <= 205.0);
        assert_eq!(
            rates,
            [100.0, 200.0, 400.0, 300.0, 250.0, 225.0, 212.5, 206.25, 203.125, 204.6875, 205.46875]
        );
        assert_eq!(end, Next::Found { load: 204.6875 });
    }

    #[test]
    fn a_base_rate_that_fails_ends_the_search() {
        let (end, rates) = play(PeakSearch::new(50.0, SETTINGS), &mut |_| false);
        assert_eq!((end, rates.len()), (Next::Failed { load: 50.0 }, 1));
    }

    #[test]
    fn a_failed_confirmation_lowers_the_candidate_and_starts_over() {
        let settings =
            PeakSettings { confirmation_runs: 3, confirmation_decrement: 0.5, ..SETTINGS };
        let mut runs_at_peak = 0;
        let (end, _) = play(PeakSearch::new(8.0, settings), &mut |qps| {
            // Passes at 10 when searched, fails at its second confirmation.
            runs_at_peak += i32::from(qps == 10.0);
            qps < 10.0 || (qps == 10.0 && runs_at_peak <= 2)
        });
        let Next::Found { load: qps } = end else { panic!("{end:?}") };
        assert!((9.0..10.0).contains(&qps), "{qps}");
    }

    #[test]
    fn whole_loads_are_doubled_and_halved_to_the_highest_that_passes() {
        let settings = PeakSettings { unit: Unit::Whole, decimals: 0, ..SETTINGS };
        for most in 1..200 {
            let (end, loads) = play(PeakSearch::new(1.0, settings), &mut |n| n <= f64::from(most));
            assert_eq!(end, Next::Found { load: f64::from(most) });
            assert!(loads.iter().all(|load| load.fract() == 0.0), "{loads:?}");
            // Doublings to the first that fails, and as many halvings at most.
            let doublings = f64::from(most).log2().floor() as usize + 2;
            assert!(loads.len() <= 2 * doublings, "{most}: {loads:?}");
        }
    }

    #[test]
    fn a_confirmation_alone_begins_at_its_load() {
        let settings = PeakSettings {
            unit: Unit::Whole,
            confirmation_runs: 5,
            confirmation_decrement: 1.0,
            ..SETTINGS
        };
        let search = PeakSearch::confirming(8.0, settings);
        let (end, loads) = play(search.clone(), &mut |streams| streams <= 6.0);
        assert_eq!(end, Next::Found { load: 6.0 });
        assert_eq!(loads, [8.0, 7.0, 6.0, 6.0, 6.0, 6.0, 6.0]);
        let (end, loads) = play(search, &mut |_| false);
        assert_eq!((end, loads.len()), (Next::Failed { load: 1.0 }, 8));
    }
}
