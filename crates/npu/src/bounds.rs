//! Upper bounds on the throughput of any schedule.

use std::sync::Arc;

use crate::pass::Pass;

/// Returns the highest possible system throughput (STP) of streams, and the shares that reach it.
///
/// The share of a stream is the rate of its passes times the time that a pass takes alone. STP is the sum of the
/// shares.
///
/// The bound is a linear program of two resources: neither the array nor the memory can be busy for longer than the
/// elapsed time. If `waits` is true, the time that the memory must wait for long blocks counts as busy; that is the
/// bound of schedules that do not split these blocks (see [`Pass::wait`]). Blocks of any stream may fill the buffer, so
/// that the slowest of them decides how long that takes.
///
/// The optimum has at most two streams with positive shares, so all pairs are tried.
///
/// ```
/// use std::sync::Arc;
/// use dyno_npu::bounds::throughput;
/// use dyno_npu::machine::{FetchStart, MachineLimits};
/// use dyno_npu::pass::Pass;
/// use dyno_npu::profile::{Block, NetworkProfile};
///
/// let limits = MachineLimits {
///     capacity: 1_000, depth: usize::MAX, switch: 0, ps_per_byte: 1.0,
///     fetch: FetchStart::Whole,
/// };
/// let pass = |compute, fetch| {
///     let blocks = vec![Block { compute, fetch, bytes: fetch }];
///     let profile = NetworkProfile { blocks, ..NetworkProfile::default() };
///     Arc::new(Pass::new(&profile, limits).expect("the block takes time"))
/// };
/// // One stream only computes and one only fetches: they do not slow each other down.
/// let (stp, shares) = throughput(&[pass(100, 0), pass(0, 100)], false);
/// assert_eq!((stp, shares), (2.0, vec![1.0, 1.0]));
/// ```
pub fn throughput(passes: &[Arc<Pass>], waits: bool) -> (f64, Vec<f64>) {
    let slowest = passes.iter().map(|pass| pass.slowest_byte()).fold(0.0, f64::max);
    // Time of each resource that a share of 1 needs.
    let takes = |pass: &Arc<Pass>| {
        let fetch = pass.fetch + if waits { pass.wait_at(slowest) } else { 0 };
        let alone = pass.alone.max(1) as f64;
        [pass.compute as f64 / alone, fetch as f64 / alone]
    };
    let takes: Vec<[f64; 2]> = passes.iter().map(takes).collect();
    let mut best = (0.0, vec![0.0; passes.len()]);
    let mut consider = |shares: &[(usize, f64)]| {
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        if sum > best.0 && shares.iter().all(|(_, share)| *share >= 0.0 && share.is_finite()) {
            best = (sum, vec![0.0; passes.len()]);
            for &(at, share) in shares {
                best.1[at] = share;
            }
        }
    };
    for (i, a) in takes.iter().enumerate() {
        consider(&[(i, 1.0 / a[0].max(a[1]))]);
        for (j, b) in takes.iter().enumerate().skip(i + 1) {
            // Both resources are saturated: solve the two equations by Cramer's rule.
            let det = a[0] * b[1] - b[0] * a[1];
            consider(&[(i, (b[1] - b[0]) / det), (j, (a[0] - a[1]) / det)]);
        }
    }
    best
}

/// Returns how busy the array and the memory are at these rates of passes per second. A value above 1 is an overload
/// that no scheduler can serve.
pub fn load(passes: &[Arc<Pass>], rates: &[f64]) -> [f64; 2] {
    let sum = |time: fn(&Pass) -> u64| -> f64 {
        passes.iter().zip(rates).map(|(pass, rate)| rate * time(pass) as f64 * 1e-12).sum()
    };
    [sum(|pass| pass.compute), sum(|pass| pass.fetch)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::{FetchStart, MachineLimits};
    use crate::pass::tests::LIMITS;
    use crate::profile::{Block, NetworkProfile};
    use crate::schedule::{
        BalancedScheduler, Layerweaver, LayerweaverRules, RoundRobin, Scheduler, SerialOrder,
        SerialScheduler,
    };
    use crate::streams::simulate;

    fn pass(compute: u64, fetch: u64, wait: u64) -> Arc<Pass> {
        let blocks = vec![Block { compute, fetch, bytes: 0 }];
        Arc::new(Pass {
            blocks,
            leads: vec![fetch],
            compute,
            fetch,
            wait,
            alone: compute.max(fetch),
            limits: LIMITS,
        })
    }

    /// Measured times: the bytes of a block arrive more slowly than the memory of the NPU could send them.
    #[test]
    fn slow_fetches_fill_the_buffer_slowly() {
        let us = 1_000_000;
        let limits = MachineLimits { capacity: 10_000, ..LIMITS };
        let pass = |compute: u64, fetch: u64, bytes: u64| {
            let blocks = vec![Block { compute: compute * us, fetch: fetch * us, bytes }];
            let profile = NetworkProfile { blocks, ..NetworkProfile::default() };
            Arc::new(Pass::new(&profile, limits).expect("the block takes time"))
        };
        let passes = [pass(20, 10, 2_000), pass(1, 20, 4_000)];
        let (most, _) = throughput(&passes, true);
        let mut scheduler = BalancedScheduler::new(&passes);
        let found = simulate(&passes, limits, &mut scheduler, 4_000 * us).stp(&passes);
        assert!(found > 1.3 && found <= most, "{found} {most}");
        // A block that stores nothing takes no room of the buffer.
        let passes = [pass(20, 10, 2_000), pass(0, 20, 0)];
        assert_eq!(throughput(&passes, true), throughput(&passes, false));
    }

    #[test]
    fn two_opposite_streams_add_up_to_two_and_equal_ones_to_one() {
        assert_eq!(throughput(&[pass(100, 0, 0), pass(0, 100, 0)], false).0, 2.0);
        assert_eq!(throughput(&[pass(100, 100, 0), pass(50, 50, 0)], false).0, 1.0);
        // By hand: x + y / 2 <= 1, x / 4 + y <= 1 meet at x = 4/7, y = 6/7.
        let (most, shares) = throughput(&[pass(100, 25, 0), pass(50, 100, 0)], false);
        assert!((most - 10.0 / 7.0).abs() < 1e-12 && (shares[1] - 6.0 / 7.0).abs() < 1e-12);
        assert!(
            (throughput_of_mix(&[pass(100, 25, 0), pass(50, 100, 0)], &[2.0, 3.0]) - most).abs()
                < 1e-12
        );
    }

    #[test]
    fn inherent_waits_lower_the_bound() {
        let waiting = pass(100, 0, 60);
        assert!(
            throughput(&[Arc::clone(&waiting), pass(0, 100, 0)], true).0
                < throughput(&[waiting, pass(0, 100, 0)], false).0
        );
    }

    #[test]
    fn a_load_is_passes_times_what_they_take() {
        assert_eq!(load(&[pass(2_000_000, 500_000, 0)], &[250_000.0]), [0.5, 0.125]);
    }

    /// Returns the highest possible STP of streams whose shares have these proportions.
    fn throughput_of_mix(passes: &[Arc<Pass>], shares: &[f64]) -> f64 {
        let sum = |time: fn(&Pass) -> u64| -> f64 {
            let part = |(pass, share): (&Arc<Pass>, &f64)| {
                share * time(pass) as f64 / pass.alone.max(1) as f64
            };
            passes.iter().zip(shares).map(part).sum()
        };
        let busiest = sum(|pass| pass.compute).max(sum(|pass| pass.fetch));
        shares.iter().sum::<f64>() / busiest
    }

    fn profiles() -> impl Strategy<Value = Vec<NetworkProfile>> {
        let block = (1..40u64, 1..40u64).prop_map(|(compute, fetch)| Block {
            compute,
            fetch,
            bytes: fetch,
        });
        let profile = prop::collection::vec(block, 1..8)
            .prop_map(|blocks| NetworkProfile { blocks, ..NetworkProfile::default() });
        prop::collection::vec(profile, 1..4)
    }

    proptest! {
        #[test]
        fn no_scheduler_exceeds_the_bounds(profiles in profiles(), capacity in 40..200u64) {
            let limits = MachineLimits { capacity, depth: usize::MAX, switch: 0, ps_per_byte: 1.0, fetch: FetchStart::Whole };
            let passes: Vec<_> = profiles.iter().filter_map(|profile| Pass::new(profile, limits)).map(Arc::new).collect();
            let (most, _) = throughput(&passes, true);
            let schedulers: [Box<dyn Scheduler>; 6] = [
                Box::new(SerialScheduler::new(SerialOrder::Fair, passes.len())),
                Box::new(SerialScheduler::new(SerialOrder::Compute, passes.len())),
                Box::new(RoundRobin::default()),
                Box::new(Layerweaver::new(LayerweaverRules::default())),
                Box::new(Layerweaver::new(LayerweaverRules { memory_idle: false, ..LayerweaverRules::default() })),
                Box::new(BalancedScheduler::new(&passes)),
            ];
            for mut scheduler in schedulers {
                let result = simulate(&passes, limits, scheduler.as_mut(), 5_000);
                prop_assert!(result.stp(&passes) <= most * (1.0 + 1e-9), "{} > {most}", result.stp(&passes));
                prop_assert!(result.duration >= result.compute_busy.max(result.memory_busy));
                let mix: Vec<f64> = (0..profiles.len()).map(|at| result.share(at, &passes)).collect();
                prop_assert!(result.stp(&passes) <= throughput_of_mix(&passes, &mix) * (1.0 + 1e-9));
            }
        }
    }
}
