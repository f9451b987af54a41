//! Whose block is next: schedulers, one a file.

#[cfg(test)]
mod tests;

mod ai_mt;
mod balanced;
mod deadlines;
mod idle;
mod layerweaver;
mod layerweaver_plus;
mod named;
mod serial;
mod stitched;
mod turns;

pub use ai_mt::AiMt;
pub use balanced::BalancedScheduler;
pub use deadlines::{EarliestDeadlineFirst, LeastLaxity, Prema};
pub use idle::{IdleTime, idle_time};
pub use layerweaver::{Layerweaver, LayerweaverRules};
pub use layerweaver_plus::{LayerweaverPlus, Urgency};
pub use named::{NamedScheduler, SCHEDULERS, UnknownScheduler};
pub use serial::{SerialOrder, SerialScheduler};
pub use stitched::StitchedScheduler;
pub use turns::RoundRobin;

use std::sync::Arc;

use crate::machine::Machine;
use crate::pass::Pass;
use crate::profile::{Block, Picos};
use crate::queue::{Batch, RequestQueue};

/// A pass of a network that has begun or may begin: its blocks are placed in order.
#[derive(Clone, Debug)]
pub struct Job {
    /// Whose it is.
    pub stream: usize,
    /// What there is to do.
    pub pass: Arc<Pass>,
    /// Which of its blocks is next; there is one.
    pub next: usize,
    /// That one.
    pub block: Block,
    /// When it came.
    pub arrived: Picos,
    /// When it should be computed; the end of time where nobody asks.
    pub due: Picos,
    /// What its blocks from the next on compute, together.
    pub compute_left: Picos,
    /// What they fetch.
    pub fetch_left: Picos,
}

impl Job {
    /// All blocks are to be placed.
    #[must_use]
    pub fn new(stream: usize, pass: Arc<Pass>, arrived: Picos, due: Picos) -> Self {
        let (block, compute_left, fetch_left) = (pass.blocks[0], pass.compute, pass.fetch);
        Self { stream, pass, next: 0, block, arrived, due, compute_left, fetch_left }
    }

    /// Another pass of the same network.
    pub fn restart(&mut self) {
        self.next = 0;
        self.block = self.pass.blocks[0];
        self.compute_left = self.pass.compute;
        self.fetch_left = self.pass.fetch;
    }

    /// The next block is placed: whether there is another.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.compute_left -= self.block.compute;
        self.fetch_left -= self.block.fetch;
        self.next += 1;
        match self.pass.blocks.get(self.next) {
            Some(&block) => {
                self.block = block;
                true
            }
            None => false,
        }
    }

    /// The work that should be laid up for the array when the next block is fetched; see [`Pass::leads`].
    #[inline]
    #[must_use]
    pub fn lead(&self) -> Picos {
        self.pass.leads[self.next]
    }

    /// How long the rest takes alone, at least: what is longer of computing and fetching it.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> Picos {
        self.compute_left.max(self.fetch_left)
    }
}

/// What a scheduler sees.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerView<'a> {
    /// What has been placed.
    pub machine: &'a Machine,
    /// What may be placed; at least one job.
    pub jobs: &'a [Job],
    /// Requests that have not begun, of each stream; none where passes follow one another.
    pub queues: &'a [RequestQueue],
    /// When it is asked: nothing is fetched before.
    pub now: Picos,
}

impl SchedulerView<'_> {
    /// The whole batch that has been ready for longest, if any is.
    #[must_use]
    pub fn oldest(&self) -> Option<Batch> {
        let ready = |(stream, queue): (usize, &RequestQueue)| Some((queue.ready_at()?, stream));
        let (at, stream) = self.queues.iter().enumerate().filter_map(ready).min()?;
        (at <= self.now).then(|| Batch { stream, after: 0, requests: self.queues[stream].batch(0) })
    }
}

/// Says whose block is next.
pub trait Scheduler {
    /// Which requests begin as a pass, if any should now: by default the whole batch that has been ready for longest.
    /// Asked before each pick, again after each batch that it names, as long as one is ready and another pass may begin.
    fn begin(&mut self, view: &SchedulerView<'_>) -> Option<Batch> {
        view.oldest()
    }

    /// The position of a job in the view.
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize;

    /// Why it picked the last one, in a few words.
    fn reason(&self) -> &'static str;
}
