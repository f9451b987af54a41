//! Registry of schedulers by name.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::readings::{
    CANDIDATES, DEADLINE_TIES, FAILSAFE, FETCH, INHERENT, LAST, MEMORY_TERM, MERGE, POTENTIAL,
    PREFETCH, PRIORITY, RELIEF, STARVATION, TIES, URGENT,
};
use super::serial::failsafe;
use super::{
    AiMt, AiMtRules, BalancedScheduler, EarliestDeadlineFirst, Layerweaver, LayerweaverPlus,
    LayerweaverRules, LeastLaxity, Prema, ReadingOption, RoundRobin, Scheduler, SchedulerSpec,
    SerialOrder, SerialScheduler, StitchedScheduler, Urgency,
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
    /// Rules that can be read in several ways.
    pub options: &'static [ReadingOption],
    pub(super) make: fn(&SchedulerSpec, &[Arc<Pass>]) -> Box<dyn Scheduler>,
}

impl fmt::Debug for NamedScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn named(
    name: &'static str,
    about: &'static str,
    make: fn(&SchedulerSpec, &[Arc<Pass>]) -> Box<dyn Scheduler>,
) -> NamedScheduler {
    NamedScheduler { name, about, depth: None, options: &[FETCH], make }
}

const LAYERWEAVER: &[ReadingOption] =
    &[TIES, FETCH, FAILSAFE, INHERENT, RELIEF, MEMORY_TERM, STARVATION, POTENTIAL];
const LAYERWEAVER_PLUS: &[ReadingOption] =
    &[URGENT, DEADLINE_TIES, LAST, FETCH, FAILSAFE, INHERENT, RELIEF];
/// Options of a variant whose name fixes the rule of urgency.
const URGENCY_VARIANT: &[ReadingOption] = &[DEADLINE_TIES, FETCH, FAILSAFE, INHERENT, RELIEF];
const AI_MT: &[ReadingOption] = &[MERGE, PREFETCH, PRIORITY, CANDIDATES, FETCH];
const STITCHED: &[ReadingOption] = &[TIES, FETCH, INHERENT, RELIEF];

/// Creates Layerweaver, or its failsafe if the networks are of one kind.
fn layerweaver(spec: &SchedulerSpec, passes: &[Arc<Pass>]) -> Box<dyn Scheduler> {
    match failsafe_of(spec, passes) {
        Some(failsafe) => Box::new(failsafe),
        None => Box::new(Layerweaver::new(LayerweaverRules::from_spec(spec))),
    }
}

/// Creates Layerweaver+ with a rule of urgency.
fn layerweaver_plus(
    urgency: Urgency,
    spec: &SchedulerSpec,
    passes: &[Arc<Pass>],
) -> Box<dyn Scheduler> {
    Box::new(LayerweaverPlus::from_spec(urgency, spec, failsafe_of(spec, passes)))
}

/// Returns the failsafe if the specification has it and the networks need it.
fn failsafe_of(spec: &SchedulerSpec, passes: &[Arc<Pass>]) -> Option<SerialScheduler> {
    if spec.reads("failsafe", "off") { None } else { failsafe(passes) }
}

/// All schedulers: baselines, schedulers after other papers, those of the thesis, and Dyno's own.
pub const SCHEDULERS: &[NamedScheduler] = &[
    named("compute-only", "only the stream with the most computation", |_, passes| {
        Box::new(SerialScheduler::new(SerialOrder::Compute, passes.len()))
    }),
    named("memory-only", "only the stream with the most memory traffic", |_, passes| {
        Box::new(SerialScheduler::new(SerialOrder::Memory, passes.len()))
    }),
    named("fair", "whole passes, of the stream that received the least time", |_, passes| {
        Box::new(SerialScheduler::new(SerialOrder::Fair, passes.len()))
    }),
    named("fifo", "whole passes, first come first served", |_, passes| {
        Box::new(SerialScheduler::new(SerialOrder::First, passes.len()))
    }),
    NamedScheduler {
        depth: Some(2),
        ..named(
            "double-buffer",
            "first come first served, one block fetched while another is computed",
            |_, passes| Box::new(SerialScheduler::new(SerialOrder::First, passes.len())),
        )
    },
    named("round-robin", "a block of each stream in turn", |_, _| Box::new(RoundRobin::default())),
    NamedScheduler {
        options: STITCHED,
        ..named("stitched", "pairs of streams in turn, each scheduled by Layerweaver", {
            |spec, passes| {
                Box::new(StitchedScheduler::new(passes, LayerweaverRules::from_spec(spec)))
            }
        })
    },
    NamedScheduler {
        options: AI_MT,
        ..named("ai-mt", "after AI-MT: blocks of the kind that the buffer lacks", {
            |spec, _| Box::new(AiMt::with_rules(AiMtRules::from_spec(spec)))
        })
    },
    named(
        "prema",
        "after PREMA: the least remaining work among the most slowed-down requests",
        |_, _| Box::new(Prema::default()),
    ),
    named("earliest-due", "block by block, the request with the earliest deadline", |_, _| {
        Box::new(EarliestDeadlineFirst)
    }),
    named(
        "least-laxity",
        "block by block, the request with the least laxity that can still be in time",
        |_, _| Box::new(LeastLaxity),
    ),
    NamedScheduler {
        options: LAYERWEAVER,
        ..named("layerweaver", "the block that causes the least idle time", layerweaver)
    },
    NamedScheduler {
        options: LAYERWEAVER_PLUS,
        ..named(
            "layerweaver+",
            "Layerweaver with urgent requests first, by the rule in the text",
            |spec, passes| layerweaver_plus(spec.urgency(), spec, passes),
        )
    },
    NamedScheduler {
        options: URGENCY_VARIANT,
        ..named("layerweaver+printed", "layerweaver+ with the rule in Figure V.3", {
            |spec, passes| layerweaver_plus(Urgency::Printed, spec, passes)
        })
    },
    NamedScheduler {
        options: URGENCY_VARIANT,
        ..named("layerweaver+precise", "layerweaver+ with the rest of a pass timed exactly", {
            |spec, passes| layerweaver_plus(Urgency::Precise, spec, passes)
        })
    },
    NamedScheduler {
        options: URGENCY_VARIANT,
        ..named("layerweaver+laxity", "layerweaver+ for requests that can still be in time", {
            |spec, passes| layerweaver_plus(Urgency::Laxity, spec, passes)
        })
    },
    named(
        "balanced",
        "Dyno's own: steered by the work queued for the PEs, and by deadlines",
        |_, passes| Box::new(BalancedScheduler::new(passes)),
    ),
];

/// Error: no scheduler has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown scheduler `{name}`{}",
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

    /// Creates the scheduler in its default reading, for streams with these passes.
    pub fn make(&'static self, passes: &[Arc<Pass>]) -> Box<dyn Scheduler> {
        SchedulerSpec::from(self).make(passes)
    }

    /// Returns the keys of the options, separated by commas.
    pub(super) fn keys(&self) -> String {
        let keys: Vec<&str> = self.options.iter().map(|option| option.key).collect();
        keys.join(", ")
    }
}
