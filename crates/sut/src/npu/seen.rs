//! What simulated NPUs did in a run, for whoever started them and has them no more.

use std::sync::{Arc, Mutex, PoisonError};

use dyno_npu::machine::Placement;
use dyno_npu::profile::Picos;

/// Where it is left. Clones are the same place.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<Option<Observed>>>);

impl Seen {
    /// What was left there last, if anything was since somebody asked.
    #[must_use]
    pub fn take(&self) -> Option<Observed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn leave(&self, observed: Observed) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(observed);
    }
}

/// The last run of a test. Times count from its first query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// To the end of the last computation.
    pub lasted: Picos,
    /// Of each NPU.
    pub npus: Vec<Busy>,
    /// Of each network.
    pub networks: Vec<Answered>,
    /// What the first NPU did at first.
    pub bars: Vec<Bar>,
}

/// For how long an NPU was at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Its array; of one that is split, each part as far as it is one.
    pub compute: Picos,
    /// Its memory.
    pub memory: Picos,
}

/// What a network was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answered {
    /// Requests.
    pub requests: u64,
    /// For how long they take the array at least, in whatever batches.
    pub compute: Picos,
    /// And the memory.
    pub fetch: Picos,
    /// In which versions they were answered, the most accurate first: names, accuracies and requests. Empty of a network
    /// that has but one.
    pub versions: Vec<(String, f64, u64)>,
}

/// A block that was fetched and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Of which network.
    pub stream: usize,
    /// Which of its pass.
    pub block: usize,
    /// On which part of the array; none on the whole.
    pub part: Option<usize>,
    /// When.
    pub placed: Placement,
}
