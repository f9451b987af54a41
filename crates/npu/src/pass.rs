//! A pass of a network on a machine, with the figures that schedulers use.

use crate::machine::{Machine, MachineLimits};
use crate::profile::{Block, NetworkProfile, Picos};

/// One pass of a network on a machine, with the figures that schedulers use. A pass computes or fetches something.
///
/// ```
/// use dyno_npu::machine::{FetchStart, MachineLimits};
/// use dyno_npu::pass::Pass;
/// use dyno_npu::profile::{Block, NetworkProfile};
///
/// let block = |compute| Block { compute, fetch: 10, bytes: 10 };
/// let blocks = vec![block(5), block(20)];
/// let profile = NetworkProfile { blocks, ..NetworkProfile::default() };
/// let limits = MachineLimits {
///     capacity: 100, depth: usize::MAX, switch: 0, ps_per_byte: 1.0,
///     fetch: FetchStart::Whole,
/// };
/// let pass = Pass::new(&profile, limits).expect("the blocks take time");
/// assert_eq!((pass.compute, pass.fetch, pass.alone), (25, 20, 25));
/// assert!(pass.is_compute_bound());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// Blocks in execution order; at least one.
    pub blocks: Vec<Block>,
    /// Lead of each block: the work that must be queued for the array when the block's fetch starts, so that the array
    /// does not idle before this block or a later one of the pass, if they follow one another. ps.
    pub leads: Vec<Picos>,
    /// Compute time of all blocks, ps.
    pub compute: Picos,
    /// Fetch time of all blocks, ps.
    pub fetch: Picos,
    /// Minimum time that the memory waits for blocks that compute longer than filling the buffer takes, ps.
    pub wait: Picos,
    /// Time of a pass that follows another of the same network with no other load, ps; at least 1.
    pub alone: Picos,
    /// Limits of the machine.
    pub limits: MachineLimits,
}

/// Time by which rounding may lengthen a fetch, ps.
const ROUNDING: Picos = 1_000;

impl Pass {
    /// Creates the pass of a profile. Returns `None` if the profile has no blocks or takes no time, because streams of
    /// such passes would never end.
    pub fn new(profile: &NetworkProfile, limits: MachineLimits) -> Option<Self> {
        /// Passes to warm up, and passes to measure: after the warm-up the buffer is as full as it gets.
        const PASSES: u64 = 32;
        let mut machine = Machine::new(limits);
        let mut middle = 0;
        for pass in 0..2 * PASSES {
            for block in &profile.blocks {
                machine.place(block, 0, 0);
            }
            if pass + 1 == PASSES {
                middle = machine.compute_free();
            }
        }
        let alone = ((machine.compute_free() - middle) / PASSES).max(1);
        let wait = profile.blocks.iter().map(|block| limits.wait(block)).sum();
        let (compute, fetch) = (profile.compute(), profile.fetch());
        let blocks = profile.blocks.clone();
        let mut leads = vec![0; blocks.len()];
        let mut after: Picos = 0;
        for (lead, block) in leads.iter_mut().zip(&blocks).rev() {
            *lead = block.fetch + after.saturating_sub(block.compute);
            after = *lead;
        }
        let pass = Self { blocks, leads, compute, fetch, wait, alone, limits };
        (pass.compute > 0 || pass.fetch > 0).then_some(pass)
    }

    /// Returns the longest time that a byte in the weight buffer takes to arrive, ps. It exceeds that of the memory for
    /// measured times, and for blocks that also transfer what they do not store, such as keys and values.
    pub(crate) fn slowest_byte(&self) -> f64 {
        let of = |block: &Block| block.fetch.saturating_sub(ROUNDING) as f64 / block.bytes as f64;
        // A block without time and bytes is NaN, which `max` ignores.
        self.blocks.iter().map(of).fold(self.limits.ps_per_byte, f64::max)
    }

    /// Returns [`Pass::wait`] if bytes take at most this time to arrive.
    pub(crate) fn wait_at(&self, ps_per_byte: f64) -> Picos {
        if ps_per_byte <= self.limits.ps_per_byte {
            return self.wait;
        }
        let limits = MachineLimits { ps_per_byte, ..self.limits };
        self.blocks.iter().map(|block| limits.wait(block)).sum()
    }

    /// Returns whether the array takes at least as long as the memory.
    #[inline]
    pub fn is_compute_bound(&self) -> bool {
        self.compute >= self.fetch
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::machine::FetchStart;

    /// A machine with room for everything that fetches a byte per picosecond.
    pub(crate) const LIMITS: MachineLimits = MachineLimits {
        capacity: 1_000_000,
        depth: usize::MAX,
        switch: 0,
        ps_per_byte: 1.0,
        fetch: FetchStart::Whole,
    };

    /// Returns a pass of one block.
    pub(crate) fn pass(compute: Picos, fetch: Picos) -> Arc<Pass> {
        let block = Block { compute, fetch, bytes: fetch };
        let profile = NetworkProfile { blocks: vec![block], ..NetworkProfile::default() };
        Arc::new(Pass::new(&profile, LIMITS).expect("it has a block"))
    }

    #[test]
    fn a_lead_covers_the_fetches_that_computation_does_not_hide() {
        let block = |compute, fetch| Block { compute, fetch, bytes: fetch };
        let blocks = vec![block(5, 10), block(20, 30), block(1, 2)];
        let profile = NetworkProfile { blocks, ..NetworkProfile::default() };
        let pass = Pass::new(&profile, LIMITS).expect("the blocks take time");
        // From the end: 2; 30, because 20 hides all of 2; 10 and the 25 of 30 that 5 does not hide.
        assert_eq!(pass.leads, [35, 30, 2]);
    }
}
