//! Invariants of all schedules, and cases in which the greedy scheduler is optimal.

use super::*;
use crate::machine::Placement;
use crate::streams::{StreamsResult, simulate_observed};

/// Returns all readings that differ from a default in one option, and the defaults.
pub fn readings() -> Vec<SchedulerSpec> {
    let all = |named| {
        std::iter::once(SchedulerSpec::from(named)).chain(SchedulerSpec::alternatives(named))
    };
    SCHEDULERS.iter().flat_map(all).collect()
}

/// Returns the result and the placements of a scheduler.
fn watched(
    spec: &SchedulerSpec,
    passes: &[Arc<Pass>],
    limits: MachineLimits,
) -> (StreamsResult, Vec<(usize, usize, Placement)>) {
    let mut observed = Vec::new();
    let mut scheduler = spec.make(passes);
    let result =
        simulate_observed(passes, limits, scheduler.as_mut(), 2_000, |stream, block, placed| {
            observed.push((stream, block, *placed));
        });
    (result, observed)
}

proptest! {
    #[test]
    fn every_schedule_obeys_the_machine_and_its_bounds(profiles in profiles(1..5), capacity in 40..200u64) {
        for spec in readings() {
            let limits = spec.limits(limits(capacity));
            let passes: Vec<Arc<Pass>> =
                profiles.iter().filter_map(|profile| Pass::new(profile, limits)).map(Arc::new).collect();
            let (result, observed) = watched(&spec, &passes, limits);
            prop_assert_eq!(&(result.clone(), observed.clone()), &watched(&spec, &passes, limits), "{}", spec);

            // No schedule is shorter than the work of either resource, nor better than the two-resource optimum.
            let block = |&(stream, block, _): &(usize, usize, Placement)| passes[stream].blocks[block];
            let compute: Picos = observed.iter().map(|one| block(one).compute).sum();
            let fetch: Picos = observed.iter().map(|one| block(one).fetch).sum();
            prop_assert_eq!((result.compute_busy, result.memory_busy), (compute, fetch));
            prop_assert!(result.duration >= compute.max(fetch), "{spec}");
            let (stp, (most, _)) = (result.stp(&passes), throughput(&passes, true));
            prop_assert!(stp <= most * (1.0 + 1e-9), "{spec}: {stp} > {most}");

            let mut before: Vec<Option<(usize, Placement)>> = vec![None; passes.len()];
            for (at, one) in observed.iter().enumerate() {
                let (stream, number, now) = *one;
                // Each block is computed after its fetch, and after the block of its stream before it.
                prop_assert!(now.fetch_end <= now.compute_start);
                let fetched = now.fetch_end - now.fetch_start;
                let is_partial = limits.fetch == FetchStart::Partial;
                prop_assert!(fetched == block(one).fetch || is_partial && fetched > block(one).fetch);
                prop_assert_eq!(now.compute_end - now.compute_start, block(one).compute);
                let expected = before[stream].map_or(0, |(last, _)| (last + 1) % passes[stream].blocks.len());
                prop_assert_eq!(number, expected, "{}: stream {}", spec, stream);
                prop_assert!(before[stream].is_none_or(|(_, last)| last.compute_end <= now.compute_start));
                before[stream] = Some((number, now));
                // The buffer has room for the block when its fetch starts, or ends if it may be partial: earlier blocks
                // hold theirs until they are computed.
                let needed = if is_partial { now.fetch_end } else { now.fetch_start };
                let held = observed[..at].iter().filter(|(_, _, other)| needed < other.compute_end);
                let bytes: u64 = held.clone().map(|one| block(one).bytes).sum();
                prop_assert!(bytes + block(one).bytes <= capacity, "{spec}");
                prop_assert!(held.count() < limits.depth, "{spec}");
            }
        }
    }

    #[test]
    fn schedulers_that_take_turns_starve_no_stream(profiles in profiles(2..6), capacity in 40..300u64) {
        for name in ["fair", "fifo", "double-buffer", "round-robin", "prema", "earliest-due", "balanced"] {
            let named = NamedScheduler::find(name).unwrap();
            let limits = MachineLimits { depth: named.depth.unwrap_or(usize::MAX), ..limits(capacity) };
            let passes: Vec<Arc<Pass>> =
                profiles.iter().filter_map(|profile| Pass::new(profile, limits)).map(Arc::new).collect();
            let all: Picos = passes.iter().map(|pass| pass.alone).sum();
            let result = simulate(&passes, limits, named.make(&passes).as_mut(), 100 * all);
            for (at, stream) in result.streams.iter().enumerate() {
                prop_assert!(stream.passes > 0, "{name}: stream {at} had no pass in the time of 100 of each");
            }
        }
    }
}

/// Returns when one pass of each stream is computed, in this order of streams.
fn ended(passes: &[Arc<Pass>], capacity: u64, order: &[usize]) -> Picos {
    let mut machine = Machine::new(limits(capacity));
    let mut next = vec![0; passes.len()];
    for &stream in order {
        machine.place(&passes[stream].blocks[next[stream]], stream, 0);
        next[stream] += 1;
    }
    machine.compute_free()
}

/// Returns the earliest end of all orders that continue `order`.
fn soonest(passes: &[Arc<Pass>], capacity: u64, order: &mut Vec<usize>) -> Picos {
    let mut best = Picos::MAX;
    for stream in 0..passes.len() {
        let placed = order.iter().filter(|other| **other == stream).count();
        if placed < passes[stream].blocks.len() {
            order.push(stream);
            best = best.min(soonest(passes, capacity, order));
            order.pop();
        }
    }
    if best == Picos::MAX { ended(passes, capacity, order) } else { best }
}

/// Returns the order that Layerweaver chooses for one pass of each stream, and calls `picked` for each pick.
fn greedy(
    passes: &[Arc<Pass>],
    capacity: u64,
    mut picked: impl FnMut(&SchedulerView<'_>, usize, bool),
) -> Vec<usize> {
    let mut machine = Machine::new(limits(capacity));
    let mut scheduler = Layerweaver::new(LayerweaverRules::default());
    let new = |(at, pass): (usize, &Arc<Pass>)| PassJob::new(at, Arc::clone(pass), 0, Picos::MAX);
    let mut jobs: Vec<PassJob> = passes.iter().enumerate().map(new).collect();
    let mut order = Vec::new();
    while !jobs.is_empty() {
        let view = SchedulerView { machine: &machine, jobs: &jobs, queues: &[], now: 0 };
        let at = scheduler.pick(&view);
        picked(&view, at, scheduler.was_starved());
        machine.place(&jobs[at].block, jobs[at].stream, 0);
        order.push(jobs[at].stream);
        if !jobs[at].step() {
            jobs.remove(at);
        }
    }
    order
}

fn few(blocks: impl Strategy<Value = (Picos, Picos)>) -> impl Strategy<Value = NetworkProfile> {
    prop::collection::vec(blocks, 1..6).prop_map(|blocks| profile(&blocks))
}

proptest! {
    #[test]
    fn greed_is_best_where_each_stream_asks_one_resource(
        compute in few((1..40u64, Just(0))),
        memory in few((Just(0), 1..40u64)),
    ) {
        // Some choice never causes idle time, so no order can be shorter than the busier resource.
        let passes = passes(&[compute, memory], 1_000);
        let order = greedy(&passes, 1_000, |_, _, _| {});
        let end = ended(&passes, 1_000, &order);
        prop_assert_eq!(end, passes[0].compute.max(passes[1].fetch));
        prop_assert_eq!(end, soonest(&passes, 1_000, &mut Vec::new()));
    }

    #[test]
    fn greed_takes_what_lets_least_stand_still_and_no_order_beats_the_work(
        streams in prop::collection::vec(few((1..40u64, 1..40u64)), 2..3),
        capacity in 40..200u64,
    ) {
        let passes = passes(&streams, capacity);
        let order = greedy(&passes, capacity, |view, at, starved| {
            let total = |at: usize| idle_time(view, at).total();
            let least = (0..view.jobs.len()).map(total).min();
            assert!(starved || Some(total(at)) == least);
        });
        let best = soonest(&passes, capacity, &mut Vec::new());
        let [compute, fetch]: [Picos; 2] = [
            passes.iter().map(|pass| pass.compute).sum(),
            passes.iter().map(|pass| pass.fetch).sum(),
        ];
        prop_assert!(best >= compute.max(fetch));
        prop_assert!(ended(&passes, capacity, &order) >= best);
    }
}
