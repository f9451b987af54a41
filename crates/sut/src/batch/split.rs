//! System of several pools, which routes each sample to one of them.

use std::cell::RefCell;
use std::sync::Arc;

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{QuerySample, SystemUnderTest};

use super::BatchingPool;

/// Function from the index of a sample in the data set to the number of its pool.
pub type Route = Arc<dyn Fn(u64) -> usize + Send + Sync>;

/// Several pools, each with its own queue and workers, and the route of samples to them.
pub struct PoolRouter {
    name: String,
    pools: Vec<BatchingPool>,
    route: Route,
}

thread_local! {
    // Several threads may issue at once, so each has its own buffer.
    static POOL_SAMPLES: RefCell<Vec<QuerySample>> = RefCell::default();
}

impl PoolRouter {
    /// Returns a system of `pools`. Samples with a route to no pool go to the first pool, whose
    /// engine rejects them.
    ///
    /// # Panics
    /// If there are no pools.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use dyno_loadgen::sut::SystemUnderTest;
    /// use dyno_sut::batch::{BatchingPool, Policy, PoolRouter};
    /// use dyno_sut::digits::DigitsPerceptron;
    ///
    /// let policy = Policy { max_size: 8.try_into().expect("not 0"), max_wait: 0 };
    /// let one = 1.try_into().expect("not 0");
    /// let pool = || BatchingPool::start(DigitsPerceptron::new(), policy, one);
    /// let by_parity = Arc::new(|index: u64| (index % 2) as usize);
    /// let system = PoolRouter::new("two pools".into(), vec![pool()?, pool()?], by_parity);
    /// assert_eq!(system.name(), "two pools");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(name: String, pools: Vec<BatchingPool>, route: Route) -> Self {
        assert!(!pools.is_empty(), "a system needs something that computes");
        Self { name, pools, route }
    }

    fn pool(&self, sample: &QuerySample) -> usize {
        let pool = (self.route)(sample.index);
        if pool < self.pools.len() { pool } else { 0 }
    }
}

impl SystemUnderTest for PoolRouter {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        if let [sample] = samples {
            return self.pools[self.pool(sample)].issue(samples, responder);
        }
        POOL_SAMPLES.with_borrow_mut(|pool_samples| {
            for (number, pool) in self.pools.iter().enumerate() {
                pool_samples.clear();
                pool_samples.extend(samples.iter().filter(|sample| self.pool(sample) == number));
                pool.issue(pool_samples, responder);
            }
        });
    }

    fn flush(&self) {
        self.pools.iter().for_each(BatchingPool::flush);
    }
}
