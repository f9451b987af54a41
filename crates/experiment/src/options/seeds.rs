//! Seeds of what a run draws at random.
//!
//! Generators with one seed draw the same numbers. If service times had the seed of the arrivals, a
//! long service would always come before a long gap, and no queue would form. Each use therefore has
//! a seed of its own.

use dyno_loadgen::plan::Seeds;
use dyno_loadgen::rng::{GOLDEN_RATIO, mix};
use dyno_loadgen::settings::{Origin, Scenario, Settings};

use super::{Options, RunOptions, TenantTable, is_open};

/// What a run draws at random besides the arrivals. Those have the seed that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomStream {
    /// Order in which samples are loaded.
    SampleOrder = 1,
    /// Choice of the sample of each query.
    SampleChoice,
    /// Service times, token counts and faults of a simulated system.
    System,
    /// Values of random inputs.
    Inputs,
    /// Lengths and words of prompts.
    Prompts,
    /// Lengths and pauses of sessions and sequences.
    Sessions,
    /// Models of requests.
    Models,
    /// Requests to cancel.
    Cancellations,
    /// Arrivals of all tenants but the first one.
    Tenants,
    /// Choice of the samples of all tenants but the first one.
    TenantSamples,
}

/// Setting with the seed of the arrivals.
const SCHEDULE: &str = "schedule_rng_seed";
/// Setting with the seed of the choice of samples.
const SAMPLES: &str = "sample_index_rng_seed";

impl RandomStream {
    /// Returns the seed of the stream for a seed that a user gave.
    ///
    /// It has 32 bits, as many as the generator uses.
    pub fn seed(self, given: u64) -> u64 {
        mix(given.wrapping_add((self as u64).wrapping_mul(GOLDEN_RATIO))) >> 32
    }

    /// Returns the seed of a tenant's draws, from that of the run and its own one in the file, if any.
    fn seed_of_tenant(self, run: u64, own: Option<u64>, number: usize) -> u64 {
        let place = own.unwrap_or(0).wrapping_add((number as u64) << 40);
        self.seed(run.wrapping_add(self.seed(place) << 20))
    }

    /// Returns `seed`, or another one if a generator of the load has the same.
    pub fn apart_from(self, seed: u64, load: &Seeds) -> u64 {
        // The generator uses 32 bits. The next seed is that of the faults.
        let is_same = |other: u64| {
            let distance = (other as u32).wrapping_sub(seed as u32);
            distance <= 1
        };
        if [load.qsl, load.sample_index, load.schedule].into_iter().any(is_same) {
            self.seed(seed)
        } else {
            seed
        }
    }
}

impl RunOptions {
    /// Returns the seed of a stream: 0 unless `--seed` was given.
    pub fn seed_of(&self, stream: RandomStream) -> u64 {
        self.seed.map_or(0, |seed| stream.seed(seed))
    }
}

impl Options {
    /// Gives a tenant arrivals and samples of its own, unless the setting itself is given for it or for
    /// all tenants. Tenants with one seed would all send at the same times, and the same samples, which a
    /// cache would answer. The first tenant has those of a run without tenants.
    pub(super) fn separate_tenant(&self, settings: &mut Settings, tenant: &TenantTable) {
        let number = self.tenants.iter().position(|one| one.name == tenant.name).unwrap_or(0);
        if number == 0 {
            return;
        }
        let arrivals = "each tenant has arrivals of its own";
        let samples = "each tenant draws samples of its own";
        for (key, run, stream, why) in [
            (SCHEDULE, settings.values.schedule_rng_seed, RandomStream::Tenants, arrivals),
            (SAMPLES, settings.values.sample_index_rng_seed, RandomStream::TenantSamples, samples),
        ] {
            if self.follows_run(settings, key) {
                let own = own_seed(tenant, key, settings.values.scenario);
                let seed = stream.seed_of_tenant(run, own, number);
                settings.set(key, &seed.to_string(), Origin::Code(why)).expect("a whole number");
            }
        }
    }

    /// Returns whether a seed was not given as such, but at most by `--seed`.
    fn follows_run(&self, settings: &Settings, key: &str) -> bool {
        let is_of_seed = |origin: &Origin| {
            self.given().iter().any(|given| given.key == "seed" && given.origin == *origin)
        };
        is_open(settings, key) || settings.origin(key).is_some_and(is_of_seed)
    }
}

/// Returns the seed of a tenant in the file, if it has one.
fn own_seed(tenant: &TenantTable, key: &str, scenario: Scenario) -> Option<u64> {
    let is_own = |own: &&super::Assignment| {
        own.key == key && own.scenario.is_none_or(|only| only == scenario)
    };
    tenant.settings.iter().rfind(is_own)?.value.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_stream_has_the_seed_of_the_arrivals_or_of_another() {
        use RandomStream::{
            Cancellations, Inputs, Models, Prompts, SampleChoice, SampleOrder, Sessions, System,
            TenantSamples, Tenants,
        };
        let streams = [
            SampleOrder,
            SampleChoice,
            System,
            Inputs,
            Prompts,
            Sessions,
            Models,
            Cancellations,
            Tenants,
            TenantSamples,
        ];
        for given in (0..1_000).chain([u64::MAX, 16_159_082_839_903_944_936]) {
            let mut seeds: BTreeSet<u32> = streams.map(|stream| stream.seed(given) as u32).into();
            assert!(seeds.insert(given as u32), "{given}");
            assert_eq!(seeds.len(), streams.len() + 1, "{given}");
        }
    }

    #[test]
    fn tenants_have_seeds_of_their_own() {
        for run in [0, 7, 3_622_009_729_038_561_421] {
            let mut seeds = BTreeSet::from([run as u32]);
            for number in 1..100 {
                for stream in [RandomStream::Tenants, RandomStream::TenantSamples] {
                    let seed = |own| stream.seed_of_tenant(run, own, number) as u32;
                    seeds.extend([None, Some(11), Some(22)].map(seed));
                }
            }
            assert_eq!(seeds.len(), 1 + 2 * 3 * 99, "{run}");
        }
    }

    #[test]
    fn a_seed_that_the_load_has_is_replaced() {
        let load = Seeds { qsl: 7, sample_index: 8, schedule: 1 << 32, accuracy_log: 0 };
        let apart = |seed| RandomStream::System.apart_from(seed, &load);
        assert_eq!(apart(5), 5);
        // 0 in the low 32 bits, and faults with the seed 7.
        assert_ne!([apart(0), apart(6)], [0, 6]);
    }
}
