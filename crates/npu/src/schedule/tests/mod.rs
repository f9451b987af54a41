//! Properties of all schedulers: streams do not starve, equal inputs give equal schedules, and achievable throughput is
//! reached.

mod balanced;
mod invariants;
mod order;
mod readings;

use proptest::prelude::*;

use super::*;
use crate::bounds::throughput;
use crate::machine::{FetchStart, MachineLimits};
use crate::profile::NetworkProfile;
use crate::serve::{BatchingPolicy, NpuServer, ServedNetwork};
use crate::streams::simulate;

fn limits(capacity: u64) -> MachineLimits {
    MachineLimits {
        capacity,
        depth: usize::MAX,
        switch: 0,
        ps_per_byte: 1.0,
        fetch: FetchStart::Whole,
    }
}

fn passes(profiles: &[NetworkProfile], capacity: u64) -> Vec<Arc<Pass>> {
    profiles
        .iter()
        .filter_map(|profile| Pass::new(profile, limits(capacity)))
        .map(Arc::new)
        .collect()
}

/// Returns a profile whose blocks fetch one byte per ps.
fn profile(blocks: &[(Picos, Picos)]) -> NetworkProfile {
    let block = |&(compute, fetch)| Block { compute, fetch, bytes: fetch };
    NetworkProfile { blocks: blocks.iter().map(block).collect(), ..NetworkProfile::default() }
}

fn profiles(streams: std::ops::Range<usize>) -> impl Strategy<Value = Vec<NetworkProfile>> {
    let blocks = prop::collection::vec((1..40u64, 1..40u64), 1..8);
    prop::collection::vec(blocks.prop_map(|blocks| profile(&blocks)), streams)
}

proptest! {
    #[test]
    fn the_balanced_scheduler_starves_no_stream(profiles in profiles(2..6), capacity in 40..300u64) {
        let passes = passes(&profiles, capacity);
        let all: Picos = passes.iter().map(|pass| pass.alone).sum();
        let result = simulate(&passes, limits(capacity), &mut BalancedScheduler::new(&passes), 100 * all);
        for (at, stream) in result.streams.iter().enumerate() {
            prop_assert!(stream.passes > 0, "stream {at} had no pass in the time of 100 of each");
        }
    }

    #[test]
    fn schedules_are_the_same_each_time(profiles in profiles(2..4)) {
        let passes = passes(&profiles, 100);
        let once = || simulate(&passes, limits(100), &mut Layerweaver::new(LayerweaverRules::default()), 3_000);
        prop_assert_eq!(once(), once());
    }
}

#[test]
fn the_balanced_scheduler_reaches_the_bound_with_small_blocks() {
    // One network whose fetches come at its end, and one that mostly fetches.
    let compute = profile(&[(90, 1), (80, 5), (90, 5), (80, 1), (20, 40), (10, 30)]);
    let memory = profile(&[(5, 50), (10, 20), (10, 60), (5, 50), (10, 60), (10, 50), (5, 60)]);
    let passes = passes(&[compute, memory], 200);
    let (most, _) = throughput(&passes, true);
    let stp = |scheduler: &mut dyn Scheduler| {
        simulate(&passes, limits(200), scheduler, 1_000_000).stp(&passes)
    };
    let ours = stp(&mut BalancedScheduler::new(&passes));
    assert!(ours > 0.999 * most, "{ours} of {most}");
    assert!(
        stp(&mut SerialScheduler::new(SerialOrder::Fair, 2)) < 0.8 * most,
        "the optimum is not had for nothing"
    );
}

#[test]
fn without_its_rule_against_starvation_layerweaver_puts_off_a_long_fetch_for_ever() {
    let compute = profile(&[(100, 30), (5, 1)]);
    let memory = profile(&[(1, 10)]);
    let passes = passes(&[compute, memory], 1_000);
    let first = |starvation| {
        let rules = LayerweaverRules { starvation, ..LayerweaverRules::default() };
        simulate(&passes, limits(1_000), &mut Layerweaver::new(rules), 100_000).streams[0].passes
    };
    assert!(first(true) > 500, "{}", first(true));
    assert_eq!(first(false), 0);
}

#[test]
fn the_baselines_finish_a_pass_before_the_next() {
    let (compute, memory) = (profile(&[(10, 1), (10, 1)]), profile(&[(1, 10), (1, 10)]));
    let passes = passes(&[compute, memory], 1_000);
    let counted = |order| {
        let result = simulate(&passes, limits(1_000), &mut SerialScheduler::new(order, 2), 10_000);
        (result.streams[0].passes, result.streams[1].passes)
    };
    assert_eq!(counted(SerialOrder::Compute).1, 0);
    assert_eq!(counted(SerialOrder::Memory).0, 0);
    let (a, b) = counted(SerialOrder::Fair);
    assert!(a.abs_diff(b) <= 1 && a > 100, "{a} and {b} passes that take equally long");
}

/// Returns the pick among two requests of one network on an idle machine; the first can no longer meet its deadline.
fn one_hopeless(pick: &mut dyn Scheduler) -> usize {
    let pass = passes(&[profile(&[(100, 10), (100, 10)])], 1_000).remove(0);
    let machine = Machine::new(limits(1_000));
    let jobs = [PassJob::new(0, Arc::clone(&pass), 0, 150), PassJob::new(0, pass, 0, 260)];
    pick.pick(&SchedulerView { machine: &machine, jobs: &jobs, queues: &[], now: 0 })
}

#[test]
fn hopeless_requests_go_first_by_the_thesis_rule_and_last_by_laxity() {
    assert_eq!(one_hopeless(&mut LayerweaverPlus::new(Urgency::Text)), 0);
    assert_eq!(one_hopeless(&mut LayerweaverPlus::new(Urgency::Precise)), 0);
    assert_eq!(one_hopeless(&mut LayerweaverPlus::new(Urgency::Laxity)), 1);
    assert_eq!(one_hopeless(&mut LeastLaxity), 1);
    let passes = passes(&[profile(&[(100, 10), (100, 10)])], 1_000);
    assert_eq!(one_hopeless(&mut BalancedScheduler::new(&passes)), 1);
}

/// Without deadlines there is no laxity, so the stream with the most work left has no precedence.
#[test]
fn without_deadlines_least_laxity_is_first_come_first_served() {
    let passes = passes(&[profile(&[(100, 10), (100, 10)]), profile(&[(1, 10)])], 1_000);
    let [laxity, due] = ["least-laxity", "earliest-due"].map(|name| {
        let spec: SchedulerSpec = name.parse().expect("it is one");
        simulate(&passes, limits(1_000), spec.make(&passes).as_mut(), 10_000)
    });
    assert_eq!(laxity, due);
    assert!(laxity.streams.iter().all(|stream| stream.passes > 10), "{laxity:?}");
}

#[test]
fn every_scheduler_has_a_name_and_serves_all_requests() {
    let profiles =
        [profile(&[(90, 10), (80, 30)]), profile(&[(10, 70)]), profile(&[(30, 30), (40, 20)])];
    let passes = passes(&profiles, 200);
    for named in SCHEDULERS {
        let served = passes
            .iter()
            .map(|pass| ServedNetwork { passes: vec![Arc::clone(pass)], limit: 400 })
            .collect();
        let batching = BatchingPolicy { window: 0, active: 4, wake: Picos::MAX };
        let limits = SchedulerSpec::from(named).limits(limits(200));
        let mut server = NpuServer::new(limits, batching, served, named.make(&passes));
        for ticket in 0..30 {
            server.arrive(0, ticket as usize % 3, ticket);
        }
        let mut computed = Vec::new();
        while let Some(now) = server.next_event() {
            server.advance(now, &mut computed);
        }
        let mut tickets: Vec<u64> = computed.iter().map(|(_, ticket)| *ticket).collect();
        tickets.sort_unstable();
        assert_eq!(tickets, (0..30).collect::<Vec<_>>(), "{}", named.name);
        assert_eq!(NamedScheduler::find(named.name).map(|found| found.about), Ok(named.about));
    }
    let unknown = NamedScheduler::find("layerweaver++").unwrap_err().to_string();
    assert!(unknown.contains("the nearest is `layerweaver+`"), "{unknown}");
}
