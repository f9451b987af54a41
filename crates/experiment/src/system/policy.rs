//! How a system computes: batching, processors, and warm-up.

use std::num::NonZero;

use dyno_loadgen::settings::Scenario;
use dyno_sut::batch::Policy;
use dyno_sut::cores::{Binding, Cores, CoresError};
use dyno_sut::engine::Engine;

use super::BATCH_DEFAULT;
use crate::failure::Failure;
use crate::options::{BatchSizes, RunOptions};

/// Policies from the options of a run.
#[derive(Debug)]
pub struct Policies {
    batch: BatchSizes,
    batch_default: NonZero<usize>,
    max_wait: u64,
    warm_up: usize,
    cores: Option<Cores>,
}

impl Policies {
    /// Returns the policies of the options.
    pub fn new(is_simulated: bool, run: &RunOptions) -> Self {
        Self {
            batch: run.batch.clone().unwrap_or_default(),
            batch_default: if is_simulated { NonZero::<usize>::MIN } else { BATCH_DEFAULT },
            max_wait: run.batch_wait.unwrap_or(0),
            warm_up: run.warm_up.unwrap_or(0),
            cores: run.cores.clone(),
        }
    }

    /// Returns the batching policy of a scenario for an engine that takes `largest` samples per
    /// call; 0 is no limit. Larger batches would only wait for several calls.
    pub fn batching(&self, scenario: Scenario, largest: usize) -> Policy {
        let asked = self.batch.size(scenario).unwrap_or(self.batch_default);
        let max_size = NonZero::new(largest).map_or(asked, |largest| asked.min(largest));
        Policy { max_size, max_wait: self.max_wait }
    }

    /// Returns the given batch size of a scenario, if any.
    pub fn said(&self, scenario: Scenario) -> Option<NonZero<usize>> {
        self.batch.size(scenario)
    }

    /// Returns the number of warm-up calls before each test.
    pub fn warm_up(&self) -> usize {
        self.warm_up
    }

    /// Makes the warm-up calls of an engine, with `samples` samples each, until `goes_on` returns
    /// false.
    pub fn warm(&self, engine: &dyn Engine, samples: NonZero<usize>, goes_on: &dyn Fn() -> bool) {
        for _ in (0..self.warm_up).take_while(|_| goes_on()) {
            engine.warm_up(1, samples);
        }
    }

    /// Returns the minimum number of worker threads. The issuing thread belongs to the load
    /// generator and is never bound.
    pub fn least_workers(&self) -> usize {
        usize::from(self.cores.is_some())
    }

    /// Returns the number of processors that the system may use, if limited.
    pub fn cores(&self) -> Option<NonZero<usize>> {
        self.cores.as_ref().map(Cores::len)
    }

    /// Binds this thread, and threads that it starts while bound.
    ///
    /// # Errors
    /// Processors that this process may not use.
    pub fn bound(&self) -> Result<Option<Binding>, Failure> {
        bound(self.cores.as_ref())
    }
}

/// Binds this thread, and threads that it starts while bound, to the given processors.
///
/// # Errors
/// Processors that this process may not use, or an operating system that cannot bind threads.
pub fn bound(cores: Option<&Cores>) -> Result<Option<Binding>, Failure> {
    cores.map(Cores::bind).transpose().map_err(|error| {
        let failure = Failure::usage(format!("--cores: {error}"));
        match error {
            CoresError::Unsupported => failure.hint("remove it; --threads and --workers remain"),
            _ => failure.hint("nproc and taskset -p $$ show the processors that a process may use"),
        }
    })
}
