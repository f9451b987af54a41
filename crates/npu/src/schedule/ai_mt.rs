//! A scheduler after AI-MT, as the thesis describes it in prose. This is our reading, not the authors' system.
//!
//! AI-MT (Baek et al., ISCA 2020) prefetches memory blocks, merges compute blocks, and has a priority for blocks that
//! release the buffer (thesis, section IV.5.B). Its blocks are parts of layers; here blocks are those of the profile.
//! Each mechanism can be switched off alone:
//!
//! 1. *Priority.* With little room in the buffer, pick the block that computes shortest, because it releases its room
//!    soonest.
//! 2. *Merging.* With little work queued for the array, pick blocks that compute at least as long as they fetch, until
//!    their work covers the next fetch. Otherwise pick a block that computes shorter than it fetches. Without merging,
//!    streams take turns.
//! 3. *Prefetching.* Fetches run ahead as far as the buffer has room. Without it, the machine fetches one block while
//!    another is computed ([`super::SchedulerSpec::limits`]).
//!
//! Candidates of the second rule take turns; the thesis picks one at random.

use super::{Scheduler, SchedulerSpec, SchedulerView};

/// Mechanisms of AI-MT that apply, without those that are limits of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AiMtRules {
    /// Merge compute blocks until they cover the next fetch.
    pub merge: bool,
    /// Prefer the block that releases its room soonest, with little room.
    pub priority: bool,
    /// Pick a random stream among candidates instead of the next in turn.
    pub random: bool,
}

impl Default for AiMtRules {
    fn default() -> Self {
        Self { merge: true, priority: true, random: false }
    }
}

impl AiMtRules {
    /// Returns the rules that a specification selects.
    pub(super) fn from_spec(spec: &SchedulerSpec) -> Self {
        Self {
            merge: !spec.reads("merge", "off"),
            priority: !spec.reads("priority", "off"),
            random: spec.reads("ties", "random"),
        }
    }
}

/// Scheduler after AI-MT.
#[derive(Clone, Debug)]
pub struct AiMt {
    /// Fraction of the buffer below which room is little.
    room: f64,
    /// Fraction of the buffer's fill time below which queued work is little.
    work: f64,
    rules: AiMtRules,
    last: usize,
    /// State of the generator of random candidates.
    random: u64,
    reason: &'static str,
}

impl Default for AiMt {
    /// Returns the thresholds that were best in a sweep over the thesis' pairs.
    fn default() -> Self {
        Self::new(0.1, 0.2)
    }
}

impl AiMt {
    /// Seed of random candidates.
    const SEED: u64 = 1;

    /// Creates a scheduler with other thresholds in [0, 1]: fractions of the buffer, and of the time to fill it.
    pub fn new(room: f64, work: f64) -> Self {
        let rules = AiMtRules::default();
        Self { room, work, rules, last: 0, random: Self::SEED, reason: "" }
    }

    /// Creates a scheduler with the default thresholds and these mechanisms.
    pub fn with_rules(rules: AiMtRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Returns the next random number (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the oldest job of the stream that is next: in turn, or at random.
    fn next(
        &mut self,
        view: &SchedulerView<'_>,
        is_candidate: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let last = self.last;
        let after = |stream: usize| (stream <= last, stream);
        let candidates = || (0..view.jobs.len()).filter(|&at| is_candidate(at));
        let turn = |at: &usize| (after(view.jobs[*at].stream), view.jobs[*at].arrived);
        let mut next = candidates().min_by_key(turn)?;
        if self.rules.random {
            // Each stream counts once, and its oldest job is the first in order.
            let is_first = |at: &usize| {
                candidates().find(|other| view.jobs[*other].stream == view.jobs[*at].stream)
                    == Some(*at)
            };
            let streams = candidates().filter(is_first).count() as u64;
            let drawn = usize::try_from(self.draw() % streams.max(1)).unwrap_or(0);
            next = candidates().filter(is_first).nth(drawn).unwrap_or(next);
        }
        self.last = view.jobs[next].stream;
        Some(next)
    }
}

impl Scheduler for AiMt {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let (machine, limits) = (view.machine, view.machine.limits());
        let is_full = (machine.room() as f64) < self.room * limits.capacity as f64;
        if self.rules.priority && is_full {
            self.reason = "little room in the buffer: shortest computation";
            let soonest = (0..view.jobs.len()).min_by_key(|&at| view.jobs[at].block.compute);
            return soonest.unwrap_or(0);
        }
        if !self.rules.merge {
            self.reason = "its turn";
            return self.next(view, |_| true).unwrap_or(0);
        }
        let laid_up = machine.compute_free().saturating_sub(machine.memory_free().max(view.now));
        let is_little = (laid_up as f64) < self.work * limits.capacity as f64 * limits.ps_per_byte;
        let brings_work = |at: usize| view.jobs[at].block.compute >= view.jobs[at].block.fetch;
        self.reason = if is_little {
            "little work queued for the PEs: adds work"
        } else {
            "enough work queued for the PEs: adds less"
        };
        let wanted = self.next(view, |at| brings_work(at) == is_little);
        wanted
            .or_else(|| {
                self.reason = "its turn, because no block is of the wanted kind";
                self.next(view, |_| true)
            })
            .unwrap_or(0)
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
