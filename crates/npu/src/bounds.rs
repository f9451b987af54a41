//! What no scheduler can beat.

use crate::schedule::Tenant;

/// The most that the shares of streams can add up to, each the rate of its passes times the time that one takes alone
/// (system throughput, STP), and the shares that do.
///
/// A linear program of two resources: neither the array nor the memory is busy for longer than there is time. With
/// `waits` the memory's waits for blocks that compute longer than the buffer takes to fill count as busy: the bound of
/// schedules that do not split these blocks.
///
/// Its optimum has at most two streams of shares above zero, so that all pairs are tried.
#[must_use]
pub fn throughput(tenants: &[Tenant], waits: bool) -> (f64, Vec<f64>) {
    // What a share of 1 takes of each resource.
    let takes = |tenant: &Tenant| {
        let fetch = tenant.fetch + if waits { tenant.wait } else { 0 };
        let alone = tenant.alone.max(1) as f64;
        [tenant.compute as f64 / alone, fetch as f64 / alone]
    };
    let takes: Vec<[f64; 2]> = tenants.iter().map(takes).collect();
    let mut best = (0.0, vec![0.0; tenants.len()]);
    let mut consider = |shares: &[(usize, f64)]| {
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        if sum > best.0 && shares.iter().all(|(_, share)| *share >= 0.0 && share.is_finite()) {
            best = (sum, vec![0.0; tenants.len()]);
            for &(at, share) in shares {
                best.1[at] = share;
            }
        }
    };
    for (i, a) in takes.iter().enumerate() {
        consider(&[(i, 1.0 / a[0].max(a[1]))]);
        for (j, b) in takes.iter().enumerate().skip(i + 1) {
            // Both resources are full: Cramer's rule.
            let det = a[0] * b[1] - b[0] * a[1];
            consider(&[(i, (b[1] - b[0]) / det), (j, (a[0] - a[1]) / det)]);
        }
    }
    best
}

/// The most that shares in these proportions can add up to.
#[must_use]
pub fn throughput_of_mix(tenants: &[Tenant], shares: &[f64]) -> f64 {
    let sum = |of: fn(&Tenant) -> u64| -> f64 {
        let part = |(tenant, share): (&Tenant, &f64)| {
            share * of(tenant) as f64 / tenant.alone.max(1) as f64
        };
        tenants.iter().zip(shares).map(part).sum()
    };
    let busiest = sum(|tenant| tenant.compute).max(sum(|tenant| tenant.fetch));
    shares.iter().sum::<f64>() / busiest
}

/// How busy rates of passes, in passes a second, make the array and the memory: what is above 1 can be served by nobody.
#[must_use]
pub fn load(tenants: &[Tenant], rates: &[f64]) -> [f64; 2] {
    let sum = |of: fn(&Tenant) -> u64| -> f64 {
        tenants.iter().zip(rates).map(|(tenant, rate)| rate * of(tenant) as f64 * 1e-12).sum()
    };
    [sum(|tenant| tenant.compute), sum(|tenant| tenant.fetch)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::Limits;
    use crate::profile::{Block, Profile};
    use crate::schedule::{Balanced, Layerweaver, RoundRobin, Rules, Scheduler, Serial, Whole};
    use crate::streams::{play, tenants};

    fn tenant(compute: u64, fetch: u64) -> Tenant {
        Tenant { compute, fetch, wait: 0, alone: compute.max(fetch) }
    }

    #[test]
    fn two_opposite_streams_add_up_to_two_and_equal_ones_to_one() {
        assert_eq!(throughput(&[tenant(100, 0), tenant(0, 100)], false).0, 2.0);
        assert_eq!(throughput(&[tenant(100, 100), tenant(50, 50)], false).0, 1.0);
        // By hand: x + y / 2 <= 1, x / 4 + y <= 1 meet at x = 4/7, y = 6/7.
        let (most, shares) = throughput(&[tenant(100, 25), tenant(50, 100)], false);
        assert!((most - 10.0 / 7.0).abs() < 1e-12 && (shares[1] - 6.0 / 7.0).abs() < 1e-12);
        assert!(
            (throughput_of_mix(&[tenant(100, 25), tenant(50, 100)], &[2.0, 3.0]) - most).abs()
                < 1e-12
        );
    }

    #[test]
    fn waits_that_nobody_can_avoid_lower_the_bound() {
        let waiting = Tenant { wait: 60, ..tenant(100, 0) };
        assert!(
            throughput(&[waiting, tenant(0, 100)], true).0
                < throughput(&[waiting, tenant(0, 100)], false).0
        );
    }

    #[test]
    fn a_load_is_passes_times_what_they_take() {
        assert_eq!(load(&[tenant(2_000_000, 500_000)], &[250_000.0]), [0.5, 0.125]);
    }

    fn profiles() -> impl Strategy<Value = Vec<Profile>> {
        let block = (1..40u64, 1..40u64).prop_map(|(compute, fetch)| Block {
            compute,
            fetch,
            bytes: fetch,
            lead: 0,
        });
        let profile = prop::collection::vec(block, 1..8)
            .prop_map(|blocks| Profile::new(String::new(), blocks, vec![]));
        prop::collection::vec(profile, 1..4)
    }

    proptest! {
        #[test]
        fn no_scheduler_beats_them(profiles in profiles(), capacity in 40..200u64) {
            let limits = Limits { capacity, depth: usize::MAX, switch: 0, ps_per_byte: 1.0 };
            let profiles: Vec<&Profile> = profiles.iter().collect();
            let tenants = tenants(&profiles, limits);
            let (most, _) = throughput(&tenants, true);
            let schedulers: [Box<dyn Scheduler>; 6] = [
                Box::new(Serial::new(Whole::Fair, &tenants)),
                Box::new(Serial::new(Whole::Compute, &tenants)),
                Box::new(RoundRobin::default()),
                Box::new(Layerweaver::new(Rules::default(), &tenants)),
                Box::new(Layerweaver::new(Rules { memory_idle: false, ..Rules::default() }, &tenants)),
                Box::new(Balanced::new(&tenants)),
            ];
            for mut scheduler in schedulers {
                let played = play(&profiles, limits, scheduler.as_mut(), 5_000);
                prop_assert!(played.stp(&tenants) <= most * (1.0 + 1e-9), "{} > {most}", played.stp(&tenants));
                prop_assert!(played.lasted >= played.compute_busy.max(played.memory_busy));
                let mix: Vec<f64> = (0..profiles.len()).map(|at| played.share(at, &tenants)).collect();
                prop_assert!(played.stp(&tenants) <= throughput_of_mix(&tenants, &mix) * (1.0 + 1e-9));
            }
        }
    }
}
