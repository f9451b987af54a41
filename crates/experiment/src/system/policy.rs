//! How a system is driven: what computes together, on which processors, and what it
//! computes before the clock.

use std::num::NonZero;

use dyno_loadgen::settings::Scenario;
use dyno_sut::batch::Policy;
use dyno_sut::cores::{Bound, Cores, CoresError};
use dyno_sut::engine::Engine;

use super::BATCH_DEFAULT;
use crate::failure::Failure;
use crate::options::{BatchSizes, RunOptions};

/// What the options say of it.
#[derive(Debug)]
pub struct Policies {
    batch: BatchSizes,
    batch_default: NonZero<usize>,
    max_wait: u64,
    warm_up: usize,
    cores: Option<Cores>,
}

impl Policies {
    /// Takes them from the options.
    pub fn new(is_simulated: bool, run: &RunOptions) -> Self {
        Self {
            batch: run.batch.clone().unwrap_or_default(),
            batch_default: if is_simulated { NonZero::<usize>::MIN } else { BATCH_DEFAULT },
            max_wait: run.batch_wait.unwrap_or(0),
            warm_up: run.warm_up.unwrap_or(0),
            cores: run.cores.clone(),
        }
    }

    /// What is computed together in a scenario by an engine that takes so many samples in
    /// a call, 0 where it does not matter: whoever waits for more waits for several calls.
    pub fn batching(&self, scenario: Scenario, largest: usize) -> Policy {
        let asked = self.batch.of(scenario).unwrap_or(self.batch_default);
        let max_size = NonZero::new(largest).map_or(asked, |largest| asked.min(largest));
        Policy { max_size, max_wait: self.max_wait }
    }

    /// Samples in a call at most, where somebody said so.
    pub fn said(&self, scenario: Scenario) -> Option<NonZero<usize>> {
        self.batch.of(scenario)
    }

    /// Calls before the clock of each test.
    pub fn warm_up(&self) -> usize {
        self.warm_up
    }

    /// Has an engine compute its calls before the clock, with so many samples each,
    /// unless the run ends before.
    pub fn warm(&self, engine: &dyn Engine, samples: NonZero<usize>, goes_on: &dyn Fn() -> bool) {
        for _ in (0..self.warm_up).take_while(|_| goes_on()) {
            engine.warm_up(1, samples);
        }
    }

    /// Threads of its own that a system needs at least: the issuing thread is the
    /// instrument's, and is never bound.
    pub fn least_workers(&self) -> usize {
        usize::from(self.cores.is_some())
    }

    /// Processors that it may use.
    pub fn cores(&self) -> Option<NonZero<usize>> {
        self.cores.as_ref().map(Cores::len)
    }

    /// Binds this thread, and the threads that it starts meanwhile.
    ///
    /// # Errors
    /// Processors that this process must not use.
    pub fn bound(&self) -> Result<Option<Bound>, Failure> {
        bound(self.cores.as_ref())
    }
}

/// Binds this thread, and the threads that it starts meanwhile, to the processors that
/// are given.
///
/// # Errors
/// Processors that this process must not use, or a system that binds no threads.
pub fn bound(cores: Option<&Cores>) -> Result<Option<Bound>, Failure> {
    cores.map(Cores::bind).transpose().map_err(|error| {
        let failure = Failure::usage(format!("--cores: {error}"));
        match error {
            CoresError::Unsupported => failure.hint("leave it out; --threads and --workers remain"),
            _ => failure.hint("nproc and taskset -p $$ tell what a process may use"),
        }
    })
}
