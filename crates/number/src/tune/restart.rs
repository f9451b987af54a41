//! Restarts of the search: other starts on the deciding set, and seeded perturbations of the best
//! answer, each fine-tuned.
//!
//! Where the first search ends depends on the samples of the small set and on the order in which
//! groups gave up their bits. A restart gives some groups bits back and fine-tunes again, which
//! leads to another end. All restarts share the evaluations of the job.

use dyno_loadgen::rng::split_mix;

use super::trial::Stop;
use super::{Phase, Trials, TuneAnswer};
use crate::assignment::Assignment;
use crate::search::{self, Algorithm};

/// Most restarts in a row that only recall evaluations: the search has nothing new to ask.
const MOST_IDLE: u32 = 20;
/// Most groups that a restart widens.
const MOST_KICKED: u64 = 3;

impl Trials<'_, '_> {
    /// Returns the smallest of `found` and of the answers of all restarts. The objective of each
    /// end is kept for the report.
    pub(super) fn restart(&mut self, found: TuneAnswer, restarts: u32) -> Result<TuneAnswer, Stop> {
        let subset = found.subset;
        let mut ends = vec![found.objective];
        let mut best = found;
        let mut state = RESTART_SEED;
        let (mut idle, mut evaluated) = (0, self.evaluations);
        for number in 0..restarts {
            idle = if self.evaluations == evaluated { idle + 1 } else { 0 };
            evaluated = self.evaluations;
            if idle > MOST_IDLE {
                break;
            }
            let start = match number {
                0 => self.coarse(subset)?,
                1 => search::run(self, subset, Algorithm::Knapsack)?,
                _ => {
                    let kicked = self.kicked(&best, &mut state);
                    let evaluation =
                        self.ask(subset, std::slice::from_ref(&kicked), None)?.remove(0);
                    let objective = self.objective(&kicked, Some(&evaluation));
                    let accuracy = evaluation.accuracy;
                    if accuracy < self.threshold(subset) {
                        continue;
                    }
                    TuneAnswer { assignment: kicked, objective, accuracy, subset }
                }
            };
            self.phase = Phase::Width;
            let end = self.fine_tune(subset, start)?;
            let end = if number < 2 { self.go_below(end)? } else { end };
            ends.push(end.objective);
            let by_size = end.objective.total_cmp(&best.objective);
            if by_size.then(best.accuracy.total_cmp(&end.accuracy)).is_lt() {
                best = end;
            }
        }
        let best = self.smallest_seen(best);
        let best = self.go_below(best)?;
        ends.push(best.objective);
        self.restarts = ends;
        Ok(best)
    }

    /// Returns an answer in which one to three groups, drawn at random, are a bit or two wider and
    /// have the biases of their values.
    fn kicked(&self, from: &TuneAnswer, state: &mut u64) -> Assignment {
        let groups = self.space.groups.len() as u64;
        let mut now = from.assignment.clone();
        for _ in 0..1 + split_mix(state) % MOST_KICKED.min(groups) {
            let group = (split_mix(state) % groups) as usize;
            for _ in 0..1 + split_mix(state) % 2 {
                if let Some(wider) = self.space.wider(&now, group) {
                    now = wider.assignment;
                }
            }
            let mut formats = now.formats().to_vec();
            for slot in &self.space.groups[group].slots {
                formats[*slot] = self.network().profiled(self.space.slots[*slot], formats[*slot]);
            }
            now = now.with_formats(formats);
        }
        now
    }
}

/// Seed of the perturbations: equal jobs have equal restarts.
const RESTART_SEED: u64 = 0x0d1e_5eed;
