//! Schedulers, one per file: each decides which network's block is placed next.

#[cfg(test)]
mod tests;

mod ai_mt;
mod balanced;
mod deadlines;
mod idle;
mod layerweaver;
mod layerweaver_plus;
mod named;
mod readings;
mod serial;
mod stitched;
mod turns;

pub use ai_mt::{AiMt, AiMtRules};
pub use balanced::BalancedScheduler;
pub use deadlines::{EarliestDeadlineFirst, LeastLaxity, Prema};
pub use idle::{IdleTime, idle_time};
pub use layerweaver::{Layerweaver, LayerweaverRules, TieRule};
pub use layerweaver_plus::{LayerweaverPlus, Urgency};
pub use named::{NamedScheduler, SCHEDULERS, UnknownScheduler};
pub use readings::{ReadingOption, ReadingValue, SchedulerSpec, SpecError};
pub use serial::{SerialOrder, SerialScheduler};
pub use stitched::StitchedScheduler;
pub use turns::RoundRobin;

use std::sync::Arc;

use crate::machine::Machine;
use crate::pass::Pass;
use crate::profile::{Block, Picos};
use crate::queue::{Batch, RequestQueue};

/// A pass of a network that is active or ready. Its blocks are placed in order.
#[derive(Clone, Debug)]
pub struct PassJob {
    /// Stream of the pass.
    pub stream: usize,
    /// Blocks and totals of the pass.
    pub pass: Arc<Pass>,
    /// Index of the next block; the block exists.
    pub next: usize,
    /// The next block.
    pub block: Block,
    /// Arrival time.
    pub arrived: Picos,
    /// Deadline; `Picos::MAX` means no deadline.
    pub due: Picos,
    /// Compute time of the blocks that are left, including the next, ps.
    pub compute_left: Picos,
    /// Fetch time of the blocks that are left, including the next, ps.
    pub fetch_left: Picos,
}

impl PassJob {
    /// Creates a job with all blocks left to place.
    pub fn new(stream: usize, pass: Arc<Pass>, arrived: Picos, due: Picos) -> Self {
        let (block, compute_left, fetch_left) = (pass.blocks[0], pass.compute, pass.fetch);
        Self { stream, pass, next: 0, block, arrived, due, compute_left, fetch_left }
    }

    /// Starts another pass of the same network.
    pub fn restart(&mut self) {
        self.next = 0;
        self.block = self.pass.blocks[0];
        self.compute_left = self.pass.compute;
        self.fetch_left = self.pass.fetch;
    }

    /// Advances past the next block. Returns whether another block follows.
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

    /// Returns the work that should be queued for the array when the next block is fetched; see [`Pass::leads`].
    #[inline]
    pub fn lead(&self) -> Picos {
        self.pass.leads[self.next]
    }

    /// Returns a lower bound on the time to finish alone: the longer of the compute and the fetch time that are left,
    /// ps.
    #[inline]
    pub fn remaining(&self) -> Picos {
        self.compute_left.max(self.fetch_left)
    }
}

/// State that a scheduler sees.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerView<'a> {
    /// Machine with the blocks placed so far.
    pub machine: &'a Machine,
    /// Jobs whose next block may be placed; at least one.
    pub jobs: &'a [PassJob],
    /// Queue of waiting requests of each stream; empty in simulations of streams.
    pub queues: &'a [RequestQueue],
    /// Current time. No fetch starts earlier.
    pub now: Picos,
}

impl SchedulerView<'_> {
    /// Returns the full batch that has been ready for longest, if any is ready. Of equals, the one with the oldest
    /// request.
    pub fn oldest(&self) -> Option<Batch> {
        let ready = |(stream, queue): (usize, &RequestQueue)| {
            Some((queue.ready_at()?, queue.arrived(0)?, stream))
        };
        let (at, _, stream) = self.queues.iter().enumerate().filter_map(ready).min()?;
        (at <= self.now).then(|| Batch { stream, after: 0, requests: self.queues[stream].batch(0) })
    }
}

/// Decides which block is placed next.
///
/// ```
/// use dyno_npu::schedule::{Scheduler, SchedulerView};
///
/// /// Places the block with the shortest fetch.
/// struct ShortestFetch;
///
/// impl Scheduler for ShortestFetch {
///     fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
///         let fetch = |&job: &usize| view.jobs[job].block.fetch;
///         (0..view.jobs.len()).min_by_key(fetch).unwrap_or(0)
///     }
///
///     fn reason(&self) -> &'static str {
///         "shortest fetch"
///     }
/// }
/// # use dyno_npu::{machine::*, pass::Pass, profile::*, streams::simulate};
/// # let limits = MachineLimits {
/// #     capacity: 100, depth: usize::MAX, switch: 0, ps_per_byte: 1.0,
/// #     fetch: FetchStart::Whole,
/// # };
/// # let blocks = vec![Block { compute: 5, fetch: 10, bytes: 10 }];
/// # let profile = NetworkProfile { blocks, ..NetworkProfile::default() };
/// # let passes = [std::sync::Arc::new(Pass::new(&profile, limits).expect("the block takes time"))];
/// let result = simulate(&passes, limits, &mut ShortestFetch, 95);
/// assert_eq!(result.streams[0].passes, 9);
/// ```
pub trait Scheduler {
    /// Returns the requests that start as a pass, if any should start now. By default, this is the full batch that has
    /// been ready for longest.
    ///
    /// The server calls this before each pick, and again after each batch that starts, as long as a batch is ready and
    /// another pass may start.
    fn begin(&mut self, view: &SchedulerView<'_>) -> Option<Batch> {
        view.oldest()
    }

    /// Returns the index of the job in `view` whose block is placed next.
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize;

    /// Returns the reason for the last pick, in a few words.
    fn reason(&self) -> &'static str;
}
