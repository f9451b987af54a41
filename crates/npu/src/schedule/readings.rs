//! Readings of the papers: named options of schedulers, and scheduler specifications that set them.
//!
//! The papers leave rules open, or print and describe them differently. Each such rule is an option with named values,
//! one of which is the default. A specification is a scheduler's name, a colon and options:
//! `layerweaver:ties=oldest,fetch=partial`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use super::named::{NamedScheduler, UnknownScheduler};
use super::{Scheduler, Urgency};
use crate::machine::{FetchStart, MachineLimits};
use crate::nearest::nearest;
use crate::pass::Pass;

/// A value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingValue {
    /// Name in specifications.
    pub name: &'static str,
    /// Description, with the source.
    pub about: &'static str,
}

/// An option of schedulers: a rule that the papers leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingOption {
    /// Name in specifications.
    pub key: &'static str,
    /// Values; the first is the default.
    pub values: &'static [ReadingValue],
}

const fn value(name: &'static str, about: &'static str) -> ReadingValue {
    ReadingValue { name, about }
}

/// When a fetch starts. Every scheduler has this option.
pub const FETCH: ReadingOption = ReadingOption {
    key: "fetch",
    values: &[
        value("whole", "a fetch waits until the buffer has room for the whole block"),
        value(
            "partial",
            "a fetch starts with the available room, and pauses for more (Figure IV.5)",
        ),
    ],
};

const MEMORY_FIRST: ReadingValue = value(
    "memory-first",
    "least potential idle time, not below 0; then memory-bound streams; then the pass that began first",
);
const OLDEST: ReadingValue =
    value("oldest", "least potential idle time, not below 0; then the oldest request");
const PRINTED: ReadingValue = value(
    "printed",
    "least potential idle time as printed, also below 0; then the pass that began first",
);
const MEMORY_IDLE: ReadingValue = value(
    "memory-idle",
    "least idle time of the memory (claim 10 of US 12099869); then the pass that began first",
);

/// Rule among blocks that cause equal idle time (section IV.4).
pub const TIES: ReadingOption =
    ReadingOption { key: "ties", values: &[MEMORY_FIRST, OLDEST, PRINTED, MEMORY_IDLE] };

/// Rule among blocks that cause equal idle time, with deadlines (section V.2).
pub const DEADLINE_TIES: ReadingOption = ReadingOption {
    key: "ties",
    values: &[
        value("deadline", "the earliest deadline; then `memory-first`"),
        MEMORY_FIRST,
        OLDEST,
        PRINTED,
        MEMORY_IDLE,
    ],
};

/// What runs where all networks wait for the same resource (section IV.4.A).
pub const FAILSAFE: ReadingOption = ReadingOption {
    key: "failsafe",
    values: &[
        value("on", "networks of one kind run in whole passes, in turn"),
        value("off", "networks of one kind are interleaved like others"),
    ],
};

/// Whether the wait that a long block causes in any order counts as idle time.
pub const INHERENT: ReadingOption = ReadingOption {
    key: "inherent",
    values: &[
        value("counted", "the wait counts in the idle time of the memory"),
        value("excluded", "the wait is subtracted, so that it starves no compute-bound stream"),
    ],
};

/// Choice among streams of one kind by the rule against starvation.
pub const RELIEF: ReadingOption = ReadingOption {
    key: "relief",
    values: &[
        value("least-idle", "the block that causes the least idle time"),
        value("oldest", "the oldest request"),
    ],
};

/// Whether idle time of the memory ranks blocks.
pub const MEMORY_TERM: ReadingOption = ReadingOption {
    key: "memory-idle",
    values: &[
        value("on", "idle time of both resources ranks blocks"),
        value("off", "only idle time of the array ranks blocks (an ablation)"),
    ],
};

/// Whether the rules against starvation apply.
pub const STARVATION: ReadingOption = ReadingOption {
    key: "starvation",
    values: &[
        value("on", "the rules against starvation apply"),
        value("off", "they do not (an ablation)"),
    ],
};

/// Whether potential idle time breaks ties.
pub const POTENTIAL: ReadingOption = ReadingOption {
    key: "potential",
    values: &[
        value("on", "potential idle time breaks ties"),
        value("off", "it does not (an ablation)"),
    ],
};

/// When a request is urgent (chapter V).
pub const URGENT: ReadingOption = ReadingOption {
    key: "urgent",
    values: &[
        value("text", "the remaining work takes longer than the time left (the text of V.2)"),
        value("printed", "the time left is longer than the pass takes alone (Figure V.3)"),
        value("precise", "as `text`, with the remaining work timed exactly"),
        value("laxity", "the request can be in time, but must start soon; hopeless ones come last"),
    ],
};

/// Which blocks are left of a pass (the slice of Figure V.3).
pub const LAST: ReadingOption = ReadingOption {
    key: "last",
    values: &[
        value("included", "all blocks that are not placed"),
        value("dropped", "all of them but the last of the pass, as the slice is printed"),
    ],
};

/// Whether AI-MT merges compute blocks (section IV.5.B).
pub const MERGE: ReadingOption = ReadingOption {
    key: "merge",
    values: &[
        value("on", "compute blocks are merged until they cover the next fetch"),
        value("off", "streams take turns, whatever their blocks are"),
    ],
};

/// Whether AI-MT prefetches memory blocks (section IV.5.B).
pub const PREFETCH: ReadingOption = ReadingOption {
    key: "prefetch",
    values: &[
        value("on", "fetches run ahead as far as the buffer has room"),
        value("off", "one block is fetched while another is computed"),
    ],
};

/// Whether AI-MT has a priority for blocks that release the buffer (section IV.5.B).
pub const PRIORITY: ReadingOption = ReadingOption {
    key: "priority",
    values: &[
        value("on", "with little room in the buffer, the block that computes shortest"),
        value("off", "room does not matter"),
    ],
};

/// Rule among AI-MT's candidates.
pub const CANDIDATES: ReadingOption = ReadingOption {
    key: "ties",
    values: &[
        value("turns", "streams take turns"),
        value("random", "a random stream, with a fixed seed (section IV.5.B)"),
    ],
};

/// Most options of a scheduler.
const MOST: usize = 9;

/// A scheduler with a reading of its paper.
///
/// ```
/// use dyno_npu::schedule::SchedulerSpec;
///
/// let spec: SchedulerSpec = "layerweaver:ties=oldest,fetch=partial".parse()?;
/// assert_eq!((spec.reading("ties"), spec.reading("failsafe")), ("oldest", "on"));
/// assert_eq!(spec.to_string(), "layerweaver:ties=oldest,fetch=partial");
/// assert_eq!(format!("{:#}", "fair".parse::<SchedulerSpec>()?), "fair:fetch=whole");
/// // A default is not part of the name.
/// assert_eq!("layerweaver:failsafe=on".parse::<SchedulerSpec>()?.to_string(), "layerweaver");
///
/// let error = "layerweaver:ties=first".parse::<SchedulerSpec>().unwrap_err();
/// assert!(error.to_string().contains("memory-first, oldest, printed, memory-idle"));
/// # Ok::<(), dyno_npu::schedule::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SchedulerSpec {
    named: &'static NamedScheduler,
    /// Index of the chosen value of each option of the scheduler.
    chosen: [u8; MOST],
}

/// Reason why a text specifies no scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No scheduler has this name.
    #[error("{0}")]
    Unknown(UnknownScheduler),
    /// An option has no value.
    #[error("scheduler `{scheduler}`: expected KEY=VALUE, found `{found}`; options are {options}")]
    Form {
        /// Name of the scheduler.
        scheduler: &'static str,
        /// The text in place of an option.
        found: String,
        /// Options of the scheduler.
        options: String,
    },
    /// The scheduler has no such option.
    #[error("scheduler `{scheduler}` has no option `{key}`{near}; options are {options}")]
    Key {
        /// Name of the scheduler.
        scheduler: &'static str,
        /// The requested option.
        key: String,
        /// Suggestion: `; the nearest is ...`.
        near: String,
        /// Options of the scheduler.
        options: String,
    },
    /// The option has no such value.
    #[error("scheduler `{scheduler}`: `{key}` must be one of {values}, found `{found}`")]
    Value {
        /// Name of the scheduler.
        scheduler: &'static str,
        /// The option.
        key: &'static str,
        /// The requested value.
        found: String,
        /// Values of the option.
        values: String,
    },
    /// An option is set twice.
    #[error("scheduler `{scheduler}`: `{key}` is set twice")]
    Twice {
        /// Name of the scheduler.
        scheduler: &'static str,
        /// The option.
        key: &'static str,
    },
}

impl From<&'static NamedScheduler> for SchedulerSpec {
    /// Returns the default reading.
    fn from(named: &'static NamedScheduler) -> Self {
        Self { named, chosen: [0; MOST] }
    }
}

impl SchedulerSpec {
    /// Returns the scheduler.
    pub fn named(&self) -> &'static NamedScheduler {
        self.named
    }

    /// Returns the name of the chosen value of an option; empty if the scheduler has no such option.
    pub fn reading(&self, key: &str) -> &'static str {
        let options = self.named.options.iter().zip(self.chosen);
        let mut found = options.filter(|(option, _)| option.key == key);
        found.next().map_or("", |(option, at)| option.values[usize::from(at)].name)
    }

    /// Returns whether the option has this value.
    pub fn reads(&self, key: &str, value: &str) -> bool {
        self.reading(key) == value
    }

    /// Returns the specification with another value of an option.
    ///
    /// # Errors
    /// Fails if the scheduler has no such option, or the option no such value.
    pub fn with(mut self, key: &str, value: &str) -> Result<Self, SpecError> {
        let at = self.position(key)?;
        let (scheduler, option) = (self.named.name, &self.named.options[at]);
        let found = option.values.iter().zip(0..).find(|(known, _)| known.name == value);
        let Some((_, chosen)) = found else {
            let names: Vec<_> = option.values.iter().map(|value| value.name).collect();
            let (found, values) = (value.to_owned(), names.join(", "));
            return Err(SpecError::Value { scheduler, key: option.key, found, values });
        };
        self.chosen[at] = chosen;
        Ok(self)
    }

    fn position(&self, key: &str) -> Result<usize, SpecError> {
        let options = self.named.options;
        options.iter().position(|option| option.key == key).ok_or_else(|| SpecError::Key {
            scheduler: self.named.name,
            key: key.to_owned(),
            near: nearest(key, options.iter().map(|option| option.key)),
            options: self.named.keys(),
        })
    }

    /// Returns all readings that differ from the default in one option.
    pub fn alternatives(named: &'static NamedScheduler) -> impl Iterator<Item = Self> {
        let options = named.options.iter().enumerate();
        options.flat_map(move |(at, option)| {
            let others = (0..).zip(option.values).skip(1);
            others.map(move |(chosen, _)| {
                let mut spec = Self::from(named);
                spec.chosen[at] = chosen;
                spec
            })
        })
    }

    /// Returns the limits of a machine under this scheduler.
    pub fn limits(&self, machine: MachineLimits) -> MachineLimits {
        let depth = if self.reads("prefetch", "off") { Some(2) } else { self.named.depth };
        let fetch =
            if self.reads("fetch", "partial") { FetchStart::Partial } else { FetchStart::Whole };
        MachineLimits { depth: depth.unwrap_or(machine.depth), fetch, ..machine }
    }

    /// Creates the scheduler for streams with these passes.
    pub fn make(&self, passes: &[Arc<Pass>]) -> Box<dyn Scheduler> {
        (self.named.make)(self, passes)
    }

    /// Returns the rule of urgency that the options select.
    pub(super) fn urgency(&self) -> Urgency {
        match self.reading("urgent") {
            "printed" => Urgency::Printed,
            "precise" => Urgency::Precise,
            "laxity" => Urgency::Laxity,
            _ => Urgency::Text,
        }
    }

    /// Splits a list of specifications at commas. A part that sets an option belongs to the specification before it.
    ///
    /// ```
    /// use dyno_npu::schedule::SchedulerSpec;
    ///
    /// let list = SchedulerSpec::split("fair,layerweaver:ties=oldest,fetch=partial,balanced");
    /// assert_eq!(list, ["fair", "layerweaver:ties=oldest,fetch=partial", "balanced"]);
    /// ```
    pub fn split(list: &str) -> Vec<String> {
        let mut specs: Vec<String> = Vec::new();
        for part in list.split(',') {
            match specs.last_mut() {
                Some(last) if last.contains(':') && is_option(part) => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => specs.push(part.to_owned()),
            }
        }
        specs
    }
}

/// Returns whether a part of a list sets an option and starts no specification.
fn is_option(part: &str) -> bool {
    part.split_once('=').is_some_and(|(key, _)| !key.contains(':'))
}

impl FromStr for SchedulerSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, options) = match text.split_once(':') {
            Some((name, options)) => (name, Some(options)),
            None => (text, None),
        };
        let mut spec = Self::from(NamedScheduler::find(name).map_err(SpecError::Unknown)?);
        let mut seen = [false; MOST];
        for part in options.into_iter().flat_map(|options| options.split(',')) {
            let scheduler = spec.named.name;
            let Some((key, value)) = part.split_once('=') else {
                let (found, options) = (part.to_owned(), spec.named.keys());
                return Err(SpecError::Form { scheduler, found, options });
            };
            let at = spec.position(key)?;
            if std::mem::replace(&mut seen[at], true) {
                return Err(SpecError::Twice { scheduler, key: spec.named.options[at].key });
            }
            spec = spec.with(key, value)?;
        }
        Ok(spec)
    }
}

/// Writes the name and the options that differ from the default; with `{:#}` all options.
impl fmt::Display for SchedulerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.named.name)?;
        let mut before = ':';
        let is_complete = f.alternate();
        let is_shown = |(_, at): &(_, u8)| *at > 0 || is_complete;
        for (option, at) in self.named.options.iter().zip(self.chosen).filter(is_shown) {
            write!(f, "{before}{}={}", option.key, option.values[usize::from(at)].name)?;
            before = ',';
        }
        Ok(())
    }
}
