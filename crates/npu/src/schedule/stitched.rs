//! Two-model schedules stitched together for more models (thesis, section IV.5.E): pairs of streams take turns.

use std::sync::Arc;

use super::{Layerweaver, LayerweaverRules, Scheduler, SchedulerView};
use crate::pass::Pass;
use crate::profile::Picos;

/// Scheduler that pairs each stream with one that waits for the other resource. A pair runs under Layerweaver until
/// each of its streams could have completed a pass alone; then the next pair runs.
#[derive(Clone, Debug)]
pub struct StitchedScheduler {
    /// Pair of each stream.
    pair: Vec<usize>,
    /// Length of each pair's turn, ps.
    turns: Vec<Picos>,
    current: usize,
    since: Picos,
    inner: Layerweaver,
}

impl StitchedScheduler {
    /// Creates a scheduler for streams with these passes. Pairs run under Layerweaver with these rules.
    pub fn new(passes: &[Arc<Pass>], rules: LayerweaverRules) -> Self {
        // In order from the most memory-bound to the least: the first is paired with the last, the second with the one
        // before the last, and so on.
        let slope = |at: usize| passes[at].fetch as f64 / passes[at].compute.max(1) as f64;
        let mut order: Vec<usize> = (0..passes.len()).collect();
        order.sort_by(|&a, &b| slope(b).total_cmp(&slope(a)));
        let mut pair = vec![0; passes.len()];
        let mut turns = vec![0; passes.len().div_ceil(2)];
        for (position, &stream) in order.iter().enumerate() {
            pair[stream] = position.min(passes.len() - 1 - position);
            turns[pair[stream]] = turns[pair[stream]].max(passes[stream].alone);
        }
        Self { pair, turns, current: 0, since: 0, inner: Layerweaver::new(rules) }
    }
}

impl Scheduler for StitchedScheduler {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let free = view.machine.memory_free();
        if free >= self.since.saturating_add(self.turns[self.current]) {
            self.current = (self.current + 1) % self.turns.len();
            self.since = free;
        }
        // A pair without jobs gives up its turn.
        let has_jobs = |pair: usize| view.jobs.iter().any(|job| self.pair[job.stream] == pair);
        let turns = (0..self.turns.len()).map(|ahead| (self.current + ahead) % self.turns.len());
        let pair = turns.into_iter().find(|&pair| has_jobs(pair)).unwrap_or(self.current);
        let (mut jobs, mut places) = (Vec::new(), Vec::new());
        for (at, job) in view.jobs.iter().enumerate() {
            if self.pair[job.stream] == pair {
                jobs.push(job.clone());
                places.push(at);
            }
        }
        places[self.inner.pick(&SchedulerView { jobs: &jobs, ..*view })]
    }

    fn reason(&self) -> &'static str {
        self.inner.reason()
    }
}
