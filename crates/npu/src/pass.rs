//! A pass of a network on a machine, and what schedulers may know of it before it runs.

use crate::machine::{Machine, MachineLimits};
use crate::profile::{Block, NetworkProfile, Picos};

/// A pass of a network on a machine, and what schedulers may know of it before it runs. It computes or fetches something.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// At least one, in the order of execution.
    pub blocks: Vec<Block>,
    /// Of each block: so much work must be laid up for the array when its fetch begins, lest the array stands still before
    /// it or a later one of the pass, if they follow one another.
    pub leads: Vec<Picos>,
    /// What they compute.
    pub compute: Picos,
    /// What they fetch.
    pub fetch: Picos,
    /// How long the memory waits, at least, for blocks that compute longer than the buffer takes to fill.
    pub wait: Picos,
    /// How long a pass takes that follows another of the same network, with nothing else there; at least 1.
    pub alone: Picos,
}

impl Pass {
    /// Of a profile, none if it has no blocks or they take no time: streams of such passes would never end.
    #[must_use]
    pub fn new(profile: &NetworkProfile, limits: MachineLimits) -> Option<Self> {
        /// Passes before it is counted, and passes counted: in the middle the buffer is as full as it gets.
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
        let pass = Self { blocks, leads, compute, fetch, wait, alone };
        (pass.compute > 0 || pass.fetch > 0).then_some(pass)
    }

    /// The array is what it waits for, not the memory.
    #[inline]
    #[must_use]
    pub fn is_compute_bound(&self) -> bool {
        self.compute >= self.fetch
    }
}
