//! Observation of simulated NPUs in a run, which outlives the simulated system.

use std::sync::{Arc, Mutex, PoisonError};

use dyno_npu::machine::Placement;
use dyno_npu::profile::Picos;

/// Place where a system stores its observation when it is dropped. Clones share the place.
#[derive(Clone, Debug, Default)]
pub struct ObservationSlot(Arc<Mutex<Option<NpuObservation>>>);

impl ObservationSlot {
    /// Takes the stored observation; `None` if there is none since the last call.
    #[must_use]
    pub fn take(&self) -> Option<NpuObservation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn put(&self, observed: NpuObservation) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(observed);
    }
}

/// Observation of the last run of a test. Times count from its first query, in ps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NpuObservation {
    /// Time until the end of the last computation.
    pub duration: Picos,
    /// Busy time of each NPU.
    pub npus: Vec<BusyTime>,
    /// Load of each network.
    pub networks: Vec<NetworkLoad>,
    /// First blocks of the first NPU.
    pub bars: Vec<Bar>,
}

/// Time in which an NPU was busy, ps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyTime {
    /// Busy time of the array. In a partitioned array, the time of each part counts by its share of
    /// the array.
    pub compute: Picos,
    /// Busy time of the memory.
    pub memory: Picos,
}

/// Requests to a network, and the minimum work that they need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkLoad {
    /// Number of requests.
    pub requests: u64,
    /// Minimum time on the array over all batch sizes, ps.
    pub compute: Picos,
    /// Minimum time of the memory over all batch sizes, ps.
    pub fetch: Picos,
    /// Versions that answered the requests, the most accurate first. Empty for a network with only
    /// one version.
    pub versions: Vec<VersionLoad>,
}

/// Requests that a version of a network answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VersionLoad {
    /// Name of the version.
    pub name: String,
    /// Accuracy of the version.
    pub accuracy: f64,
    /// Number of requests.
    pub requests: u64,
}

/// A block that was fetched and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Number of the network.
    pub stream: usize,
    /// Number of the block in a pass.
    pub block: usize,
    /// Part of the array; `None` means the whole array.
    pub part: Option<usize>,
    /// Times of the block.
    pub placed: Placement,
}
