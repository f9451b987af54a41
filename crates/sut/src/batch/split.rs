//! Several pools that stand for one system: which one computes a sample is up to the sample.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{QuerySample, SystemUnderTest};

use super::RealTime;

/// The pool of a sample, by its index in the data set.
pub type Route = Arc<dyn Fn(u64) -> usize + Send + Sync>;

/// Several models side by side, each with a queue and workers of its own.
pub struct Split {
    name: String,
    pools: Vec<RealTime>,
    route: Route,
}

thread_local! {
    // Several threads may issue at once, each with a buffer of its own.
    static OF_POOL: RefCell<Vec<QuerySample>> = RefCell::default();
}

impl Split {
    /// `route` names one of `pools` for each sample; one that it names none for goes to
    /// the first, whose engine refuses it.
    #[must_use]
    pub fn new(name: String, pools: Vec<RealTime>, route: Route) -> Self {
        assert!(!pools.is_empty(), "a system needs something that computes");
        Self { name, pools, route }
    }

    fn pool(&self, sample: &QuerySample) -> usize {
        let pool = (self.route)(sample.index);
        if pool < self.pools.len() { pool } else { 0 }
    }
}

impl SystemUnderTest for Split {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        if let [sample] = samples {
            return self.pools[self.pool(sample)].issue(samples, responder);
        }
        OF_POOL.with_borrow_mut(|of_pool| {
            for (number, pool) in self.pools.iter().enumerate() {
                of_pool.clear();
                of_pool.extend(samples.iter().filter(|sample| self.pool(sample) == number));
                pool.issue(of_pool, responder);
            }
        });
    }

    fn flush(&self) {
        self.pools.iter().for_each(RealTime::flush);
    }
}

impl fmt::Debug for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Split").field("pools", &self.pools).finish_non_exhaustive()
    }
}
