//! Registry of schedulers by name.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::{
    AiMt, BalancedScheduler, EarliestDeadlineFirst, Layerweaver, LayerweaverPlus, LayerweaverRules,
    LeastLaxity, Prema, RoundRobin, Scheduler, SerialOrder, SerialScheduler, StitchedScheduler,
    Urgency,
};
use crate::nearest::alternatives;
use crate::pass::Pass;

/// A scheduler with its name and description.
///
/// ```
/// use dyno_npu::schedule::NamedScheduler;
///
/// let scheduler = NamedScheduler::find("double-buffer")?;
/// assert_eq!(scheduler.depth, Some(2));
/// let error = NamedScheduler::find("layerwaever").unwrap_err();
/// assert!(error.to_string().contains("the nearest is `layerweaver`"));
/// # Ok::<(), dyno_npu::schedule::UnknownScheduler>(())
/// ```
#[derive(Clone, Copy)]
pub struct NamedScheduler {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// Maximum number of blocks in the weight buffer; `None` if only bytes count.
    pub depth: Option<usize>,
    make: fn(&[Arc<Pass>]) -> Box<dyn Scheduler>,
}

impl fmt::Debug for NamedScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn named(
    name: &'static str,
    about: &'static str,
    make: fn(&[Arc<Pass>]) -> Box<dyn Scheduler>,
) -> NamedScheduler {
    NamedScheduler { name, about, depth: None, make }
}

/// All schedulers: baselines, schedulers after other papers, those of the thesis, and Dyno's own.
pub const SCHEDULERS: &[NamedScheduler] = &[
    named("compute-only", "only the stream that asks most of the array", |passes| {
        Box::new(SerialScheduler::new(SerialOrder::Compute, passes.len()))
    }),
    named("memory-only", "only the stream that asks most of the memory", |passes| {
        Box::new(SerialScheduler::new(SerialOrder::Memory, passes.len()))
    }),
    named("fair", "whole passes, of the stream that had the least time", |passes| {
        Box::new(SerialScheduler::new(SerialOrder::Fair, passes.len()))
    }),
    named("fifo", "whole passes, first come first served", |passes| {
        Box::new(SerialScheduler::new(SerialOrder::First, passes.len()))
    }),
    NamedScheduler {
        depth: Some(2),
        ..named(
            "double-buffer",
            "first come first served, one block fetched while another is computed",
            |passes| Box::new(SerialScheduler::new(SerialOrder::First, passes.len())),
        )
    },
    named("round-robin", "a block of each stream in turn", |_| Box::new(RoundRobin::default())),
    named("stitched", "pairs of streams in turn, each scheduled by Layerweaver", |passes| {
        Box::new(StitchedScheduler::new(passes))
    }),
    named("ai-mt", "after AI-MT: blocks of the kind that the buffer has too little of", |_| {
        Box::new(AiMt::default())
    }),
    named("prema", "after PREMA: of those slowed down most, the one with least left", |_| {
        Box::new(Prema::default())
    }),
    named("earliest-due", "block by block, the request that is due first", |_| {
        Box::new(EarliestDeadlineFirst)
    }),
    named(
        "least-laxity",
        "block by block, of requests that can be in time the one with least laxity",
        |_| Box::new(LeastLaxity),
    ),
    named("layerweaver", "the block that lets least stand still", |_| {
        Box::new(Layerweaver::new(LayerweaverRules::default()))
    }),
    named("layerweaver+", "Layerweaver, and urgent requests first: the rule of the text", |_| {
        Box::new(LayerweaverPlus::new(Urgency::Text))
    }),
    named("layerweaver+printed", "the same with the rule as Figure V.3 prints it", |_| {
        Box::new(LayerweaverPlus::new(Urgency::Printed))
    }),
    named("layerweaver+precise", "the same with the rest of a pass timed exactly", |_| {
        Box::new(LayerweaverPlus::new(Urgency::Precise))
    }),
    named("layerweaver+laxity", "the same for requests that can still be in time", |_| {
        Box::new(LayerweaverPlus::new(Urgency::Laxity))
    }),
    named(
        "balanced",
        "ours: steered by the work laid up for the array, and by deadlines",
        |passes| Box::new(BalancedScheduler::new(passes)),
    ),
];

/// Error: no scheduler has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "there is no scheduler `{name}`{}",
    alternatives(name, SCHEDULERS.iter().map(|scheduler| scheduler.name))
)]
pub struct UnknownScheduler {
    /// The requested name.
    pub name: String,
}

impl NamedScheduler {
    /// Returns a scheduler of [`SCHEDULERS`].
    ///
    /// # Errors
    /// Fails if no scheduler has this name.
    pub fn find(name: &str) -> Result<&'static Self, UnknownScheduler> {
        let found = SCHEDULERS.iter().find(|scheduler| scheduler.name == name);
        found.ok_or_else(|| UnknownScheduler { name: name.to_owned() })
    }

    /// Creates the scheduler for streams with these passes.
    #[must_use]
    pub fn make(&self, passes: &[Arc<Pass>]) -> Box<dyn Scheduler> {
        (self.make)(passes)
    }
}
