//! Streams compared with hand-made timelines and with the observed placements.

use proptest::prelude::*;

use super::*;
use crate::deploy::{DeployError, Deployment, DeploymentPlan, Tenant};
use crate::hardware::Npu;
use crate::lowering::LoweringOptions;
use crate::machine::FetchStart;
use crate::profile::{Block, NetworkProfile};
use crate::schedule::{
    NamedScheduler, RoundRobin, SCHEDULERS, SchedulerSpec, SerialOrder, SerialScheduler,
};
use crate::workload::Network;

/// Room for everything, and a byte per picosecond.
const LIMITS: MachineLimits = MachineLimits {
    capacity: 1_000,
    depth: usize::MAX,
    switch: 0,
    ps_per_byte: 1.0,
    fetch: FetchStart::Whole,
};

/// Returns a profile of blocks given by compute and fetch time; a block has one byte per ps of fetch.
fn profile(blocks: &[(Picos, Picos)]) -> NetworkProfile {
    let block = |&(compute, fetch)| Block { compute, fetch, bytes: fetch };
    NetworkProfile { blocks: blocks.iter().map(block).collect(), ..NetworkProfile::default() }
}

fn pass(blocks: &[(Picos, Picos)]) -> Arc<Pass> {
    Arc::new(Pass::new(&profile(blocks), LIMITS).expect("it takes time"))
}

/// Observed placements: the stream, the block's position in its pass, and its times.
type Observations = Vec<(usize, usize, Placement)>;

fn watched(
    passes: &[Arc<Pass>],
    scheduler: &mut dyn Scheduler,
    time: Picos,
) -> (StreamsResult, Observations) {
    let mut observed = Vec::new();
    let result = simulate_observed(passes, LIMITS, scheduler, time, |stream, block, placed| {
        observed.push((stream, block, *placed));
    });
    (result, observed)
}

/// Returns the times of all blocks of one stream.
fn times(observed: &Observations, stream: usize) -> Vec<[Picos; 4]> {
    let blocks = observed.iter().filter(|one| one.0 == stream);
    let times = |(_, _, placed): &(usize, usize, Placement)| {
        [placed.fetch_start, placed.fetch_end, placed.compute_start, placed.compute_end]
    };
    blocks.map(times).collect()
}

#[test]
fn passes_of_a_stream_follow_one_another_without_a_gap() {
    let (result, observed) =
        watched(&[pass(&[(5, 10), (20, 10)])], &mut RoundRobin::default(), 100);
    let expected = [
        [0, 10, 10, 15],
        [10, 20, 20, 40],
        // The next pass is requested when this one is fetched, long before it is computed.
        [20, 30, 40, 45],
        [30, 40, 45, 65],
        [40, 50, 65, 70],
        [50, 60, 70, 90],
        [60, 70, 90, 95],
        [70, 80, 95, 115],
    ];
    assert_eq!(times(&observed, 0), expected);
    let blocks: Vec<usize> = observed.iter().map(|one| one.1).collect();
    assert_eq!(blocks, [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!((result.duration, result.compute_busy, result.memory_busy), (115, 100, 80));
    assert_eq!((result.blocks, result.streams[0].passes), (8, 4));
    // The first pass ends 40 after the start; the others follow every 25.
    assert_eq!((result.streams[0].longest, result.streams[0].partial), (40, 0.0));
}

#[test]
fn a_pass_that_has_begun_counts_as_far_as_both_its_resources_were_had() {
    let one = [pass(&[(10, 1), (10, 1), (10, 1), (10, 37)])];
    let (result, _) = watched(&one, &mut RoundRobin::default(), 25);
    // Three quarters are computed, and 3 of 40 are fetched.
    assert_eq!((result.blocks, result.streams[0].passes, result.duration), (3, 0, 31));
    assert_eq!(result.streams[0].partial, 3.0 / 40.0);
    assert_eq!(result.passes(0), 3.0 / 40.0);
    assert_eq!(result.streams[0].longest, 31, "no pass has ended yet");
}

#[test]
fn shares_of_streams_add_up_and_slowdowns_are_their_inverses() {
    // In turns, each block waits for the array: a round takes 40.
    let passes = [pass(&[(10, 2)]), pass(&[(30, 2)])];
    let (result, _) = watched(&passes, &mut RoundRobin::default(), 40_000);
    assert_eq!(passes.each_ref().map(|pass| pass.alone), [10, 30]);
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-3;
    assert!(near(result.share(0, &passes), 0.25) && near(result.share(1, &passes), 0.75));
    assert!(near(result.stp(&passes), 1.0), "{}", result.stp(&passes));
    assert!(near(result.antt(&passes), (4.0 + 4.0 / 3.0) / 2.0), "{}", result.antt(&passes));
    // The second stream's first pass: 2 to fetch, 10 and 30 to compute.
    assert_eq!(result.max_slowdown(&passes), 4.2);
}

#[test]
fn a_stream_that_never_runs_waits_for_the_whole_run() {
    let passes = [pass(&[(90, 1)]), pass(&[(1, 10)])];
    let (result, observed) =
        watched(&passes, &mut SerialScheduler::new(SerialOrder::Compute, 2), 900);
    assert!(observed.iter().all(|one| one.0 == 0));
    assert_eq!((result.streams[1].passes, result.streams[1].longest), (0, result.duration));
    assert_eq!(result.antt(&passes), f64::INFINITY);
}

/// Scheduler that picks the first job and records what it saw.
#[derive(Default)]
struct RecordingScheduler(Vec<(Picos, Vec<[Picos; 3]>)>);

impl Scheduler for RecordingScheduler {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        assert!(view.queues.is_empty());
        let job = |job: &PassJob| [job.arrived, job.due, job.next as Picos];
        self.0.push((view.now, view.jobs.iter().map(job).collect()));
        0
    }

    fn reason(&self) -> &'static str {
        "the first"
    }
}

#[test]
fn a_scheduler_is_asked_when_the_memory_is_free_and_sees_the_next_block_of_each_stream() {
    let mut shown = RecordingScheduler::default();
    let passes = [pass(&[(5, 10), (5, 20)]), pass(&[(1, 1)])];
    simulate(&passes, LIMITS, &mut shown, 70);
    let (never, waits) = (Picos::MAX, [0, Picos::MAX, 0]);
    let expected = [
        (0, vec![[0, never, 0], waits]),
        (10, vec![[0, never, 1], waits]),
        // The first pass is fetched, and the next request arrives at that moment.
        (30, vec![[30, never, 0], waits]),
        (40, vec![[30, never, 1], waits]),
        (60, vec![[60, never, 0], waits]),
    ];
    assert_eq!(shown.0[..5], expected);
}

#[test]
fn first_come_first_served_takes_turns_since_the_next_request_is_there_when_one_is_fetched() {
    let passes = [pass(&[(3, 4), (3, 4)]), pass(&[(2, 9)]), pass(&[(7, 1)])];
    let (_, observed) = watched(&passes, &mut SerialScheduler::new(SerialOrder::First, 3), 200);
    let order: Vec<usize> = observed.iter().map(|one| one.0).take(8).collect();
    assert_eq!(order, [0, 0, 1, 2, 0, 0, 1, 2]);
}

/// Scheduler that always picks the job of one stream.
struct OneStream(usize);

impl Scheduler for OneStream {
    fn pick(&mut self, _view: &SchedulerView<'_>) -> usize {
        self.0
    }

    fn reason(&self) -> &'static str {
        "the one"
    }
}

#[test]
fn streams_of_one_network_take_turns_whichever_of_them_the_scheduler_picks() {
    let order = |passes: &[Arc<Pass>], picked| -> Vec<[usize; 2]> {
        let (_, observed) = watched(passes, &mut OneStream(picked), 70);
        observed.iter().map(|one| [one.0, one.1]).take(6).collect()
    };
    // Streams 1 and 2 have equal passes, in allocations of their own.
    let passes = [pass(&[(9, 1)]), pass(&[(4, 4), (2, 9)]), pass(&[(4, 4), (2, 9)])];
    // The pick wins among the first requests, which arrive together. Later the stream that has waited longer is first;
    // its second block has no equal until the other stream reaches it.
    assert_eq!(order(&passes, 2), [[2, 0], [2, 1], [1, 0], [2, 0], [1, 1], [2, 1]]);
    // A fetch without time moves no arrival time.
    assert_eq!(order(&[pass(&[(9, 0)]), pass(&[(9, 0)])], 0), [0, 1, 0, 1, 0, 1].map(|at| [at, 0]));
    // A network that is served alone has no equal.
    assert_eq!(order(&passes, 0), [[0, 0]; 6]);
}

#[test]
fn without_streams_or_time_the_result_is_empty() {
    let nothing = StreamsResult {
        duration: 0,
        compute_busy: 0,
        memory_busy: 0,
        blocks: 0,
        streams: vec![StreamResult::default()],
    };
    let one = [pass(&[(5, 10)])];
    let still = simulate(&one, LIMITS, &mut RoundRobin::default(), 0);
    assert_eq!(still, nothing);
    assert_eq!((still.share(0, &one), still.stp(&one)), (0.0, 0.0));
    let nobody = simulate(&[], LIMITS, &mut RoundRobin::default(), 1_000);
    assert_eq!(nobody, StreamsResult { streams: Vec::new(), ..nothing });
}

/// Returns a plan with one network in batches of this size.
fn plan(network: Network, batch: u64) -> DeploymentPlan {
    DeploymentPlan {
        npu: Npu::preset("memory-centric").expect("it is one"),
        mapping: "kcpx+1:128".parse().expect("it is one"),
        options: LoweringOptions { batch, ..LoweringOptions::default() },
        tenants: vec![Tenant { network, limit: Picos::MAX }],
        scheduler: SchedulerSpec::from(&SCHEDULERS[0]),
    }
}

#[test]
fn profiles_that_take_no_time_are_rejected() {
    for blocks in [&[][..], &[(0, 0)], &[(0, 0), (0, 0)]] {
        assert_eq!(Pass::new(&profile(blocks), LIMITS), None, "{blocks:?}");
    }
    // A block that takes no time is placed like any other.
    let (result, _) = watched(&[pass(&[(0, 0), (0, 3)])], &mut RoundRobin::default(), 30);
    assert_eq!((result.blocks, result.streams[0].passes, result.duration), (20, 10, 30));
    let table = "name,compute_us,fetch_us,bytes\na,0,0,0\nb,0,0,9\n";
    let network =
        Network::from_profile(NetworkProfile::from_csv("still.csv", table).expect("it reads"));
    let error = Deployment::for_streams(&plan(network, 1)).expect_err("it takes no time");
    assert_eq!(error, DeployError::Empty { network: "still.csv".into() });
    assert!(error.to_string().contains("no layer of network"), "{error}");
}

#[test]
fn a_block_larger_than_the_buffer_waits_for_all_of_it() {
    let limits = MachineLimits { capacity: 8, ..LIMITS };
    let larger = Pass::new(&profile(&[(5, 10)]), limits).map(Arc::new).expect("it takes time");
    let mut starts = Vec::new();
    simulate_observed(&[larger], limits, &mut RoundRobin::default(), 40, |_, _, placed| {
        starts.push((placed.fetch_start, placed.compute_end));
    });
    assert_eq!(starts, [(0, 15), (15, 30), (30, 45)]);
}

#[test]
fn a_batch_is_one_pass_whose_weights_are_fetched_once() {
    let network = || Network::preset("RN").expect("it is one");
    let simulate_batch = |batch: u64| {
        let deployed = Deployment::for_streams(&plan(network(), batch)).expect("it fits");
        assert_eq!(deployed.served[0].passes.len(), 1, "streams have the largest batch alone");
        let passes = deployed.largest();
        let time = 10 * passes[0].alone;
        let result = simulate(&passes, deployed.limits, deployed.scheduler().as_mut(), time);
        (result, passes)
    };
    let ((one, alone), (four, batch)) = (simulate_batch(1), simulate_batch(4));
    assert_eq!(batch[0].fetch, alone[0].fetch);
    // Each block is rounded to a whole ps.
    let rounding = 4 * batch[0].blocks.len() as Picos;
    assert!(batch[0].compute.abs_diff(4 * alone[0].compute) <= rounding, "{}", batch[0].compute);
    assert_eq!(four.blocks, one.blocks);
    for (result, passes) in [(&one, &alone), (&four, &batch)] {
        // Ten passes alone, minus the start, when the array has no work yet.
        assert!((9..=10).contains(&result.streams[0].passes), "{result:?}");
        assert!(result.share(0, passes) <= 1.0 && result.share(0, passes) > 0.95, "{result:?}");
    }
}

fn passes() -> impl Strategy<Value = Vec<Arc<Pass>>> {
    // The last block takes time, the others may not.
    let blocks = prop::collection::vec((0..40u64, 0..40u64), 0..6);
    let pass = (blocks, 1..40u64).prop_map(|(mut blocks, compute)| {
        blocks.push((compute, 3));
        pass(&blocks)
    });
    prop::collection::vec(pass, 1..5)
}

proptest! {
    #[test]
    fn a_result_matches_the_observed_placements_and_the_run_ends_with_its_time(
        passes in passes(),
        which in 0..SCHEDULERS.len(),
        time in 1..3_000u64,
    ) {
        let named = &SCHEDULERS[which];
        let (result, observed) = watched(&passes, named.make(&passes).as_mut(), time);
        // The simulation has no randomness, and an observer changes nothing.
        prop_assert_eq!(&result, &simulate(&passes, LIMITS, named.make(&passes).as_mut(), time));
        let ends: Vec<Picos> = observed.iter().map(|one| one.2.compute_end).collect();
        let (last, before) = ends.split_last().expect("time was left");
        prop_assert!(*last >= time && before.iter().all(|end| *end < time), "{ends:?}");
        prop_assert_eq!((result.duration, result.blocks), (*last, ends.len() as u64));
        for (at, stream) in result.streams.iter().enumerate() {
            let blocks: Vec<_> = observed.iter().filter(|one| one.0 == at).collect();
            let length = passes[at].blocks.len();
            prop_assert_eq!(stream.passes, (blocks.len() / length) as u64);
            prop_assert!((0.0..=1.0).contains(&stream.partial), "{stream:?}");
            prop_assert!(stream.partial == 0.0 || blocks.len() % length > 0, "{stream:?}");
            // Ends of passes, with the start before and the end of the run after them.
            let mut marks = vec![0];
            marks.extend(blocks.iter().filter(|one| one.1 + 1 == length).map(|one| one.2.compute_end));
            marks.push(result.duration);
            let longest = marks.windows(2).map(|pair| pair[1] - pair[0]).max();
            prop_assert_eq!(Some(stream.longest), longest);
        }
    }

    #[test]
    fn a_longer_run_begins_as_the_shorter_one(passes in passes(), time in 1..1_500u64) {
        let named = NamedScheduler::find("balanced").expect("it is one");
        let observed = |time| watched(&passes, named.make(&passes).as_mut(), time).1;
        let (short, long) = (observed(time), observed(2 * time));
        prop_assert_eq!(&short[..], &long[..short.len()]);
    }
}
