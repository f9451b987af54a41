//! The first phase: one width for all objects, halved until the accuracy is lost, then bisected; at
//! the end EXP once.

use super::moves::Move;
use super::step::Phase;
use super::trial::{Stop, Subset};
use super::{Trials, TuneAnswer};
use crate::assignment::Assignment;
use crate::format::Kind;

/// Preferred types of one width: FLOAT before FIXED while the width is halved, FIXED before FLOAT
/// while it is bisected.
const HALVED: [Kind; 2] = [Kind::Float, Kind::Fixed];
const BISECTED: [Kind; 2] = [Kind::Fixed, Kind::Float];

impl Trials<'_, '_> {
    /// Finds the narrowest width that all objects can share, starting at FLOAT(32).
    pub fn coarse(&mut self, subset: Subset) -> Result<TuneAnswer, Stop> {
        let base = self.begin(subset)?;
        self.coarse_from(base)
    }

    /// Finds the narrowest width on a set that was begun. `base` is FLOAT(32) there.
    pub(super) fn coarse_from(&mut self, base: TuneAnswer) -> Result<TuneAnswer, Stop> {
        self.phase = Phase::Coarse;
        self.remaining = 6;
        let subset = base.subset;
        let mut best = base;
        let (mut passed, mut failed) = (32, 1);
        let mut bits = 16;
        // SPEC A14: the last width that passes is kept.
        while bits >= 1 && failed == 1 {
            let assignment = self.space.uniform(bits, &HALVED);
            let width = widest(&assignment);
            if width < passed {
                let question = "all objects share one width: is half of it enough?";
                match self.try_uniform(subset, question, assignment)? {
                    Some(answer) => (best, passed) = (answer, width),
                    None => failed = width,
                }
            }
            bits /= 2;
        }
        let mut between: Vec<u32> = self.space.widths(Some(Kind::Fixed));
        between.extend(self.space.widths(Some(Kind::Float)));
        between.sort_unstable();
        between.dedup();
        between.retain(|width| failed > 1 && *width > failed && *width < passed);
        while !between.is_empty() {
            let middle = between[between.len() / 2];
            let assignment = self.space.uniform(middle, &BISECTED);
            match self.try_uniform(subset, "does a width between the last two pass?", assignment)? {
                Some(answer) => {
                    best = answer;
                    passed = middle;
                    between.retain(|width| *width < middle);
                }
                None => between.retain(|width| *width > middle),
            }
        }
        // SPEC A15: tries EXP with one bit less for all objects, once.
        let narrower = passed.saturating_sub(1);
        if self.space.widths(Some(Kind::Exp)).contains(&narrower) {
            let assignment = self.space.uniform(narrower, &[Kind::Exp]);
            if widest(&assignment) == narrower {
                let question = "does EXP with one bit less pass?";
                if let Some(answer) = self.try_uniform(subset, question, assignment)? {
                    best = answer;
                }
            }
        }
        Ok(best)
    }

    fn try_uniform(
        &mut self,
        subset: Subset,
        question: &str,
        assignment: Assignment,
    ) -> Result<Option<TuneAnswer>, Stop> {
        let change = format!("all {assignment}");
        self.attempt(subset, question, Move { change, assignment })
    }
}

fn widest(assignment: &Assignment) -> u32 {
    assignment.formats().iter().map(|format| format.bits()).max().unwrap_or(32)
}
