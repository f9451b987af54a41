//! The search finds known peaks of simulated systems, in a fraction of the time
//! of plain bisection with full runs. `examples/search_trials` does the same for
//! more systems and hundreds of seeds.

use dyno_loadgen::clock::{Nanos, SECOND, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::run::{RecordRetention, run};
use dyno_loadgen::search::{
    BLOCKS, Block, End, Limit, Observation, Outcome, Probe, Purpose, Quantity, Rules, Search, Step,
    Unit,
};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Scenario, TestSettings};

use crate::null::{NullLibrary, tenant};
use crate::queueing::OneServer;

const FULL: Nanos = 600 * SECOND;
const TOLERANCE: f64 = 0.01;

fn rules(limit: Limit, from: f64, unit: Unit) -> Rules {
    Rules {
        limits: vec![limit],
        from,
        to: None,
        unit,
        tolerance: TOLERANCE,
        short: 10 * SECOND,
        full: FULL,
        full_queries: 0,
        certain_queries: 0,
        full_runs: 1,
        most_queries: 5_000_000,
        max_time: 24 * 3_600 * SECOND,
        confirmations: 4,
    }
}

fn latency(allowed: f64, bound: Nanos) -> Limit {
    Limit { quantity: Quantity::Latency, allowed, bound }
}

/// Runs a search with the observations that `play` returns.
fn play(rules: Rules, play: &mut dyn FnMut(&Search, Probe) -> Observation) -> (Outcome, Search) {
    let mut search = Search::new(rules);
    loop {
        match search.next() {
            Step::Run(probe) => search.observe(play(&search, probe)),
            Step::Done(outcome) => return (outcome, search),
        }
    }
}

/// A run of a queue with exponential service, of which the server completes `capacity` a second.
fn run_of_queue(search: &Search, probe: Probe, seed: u64, capacity: f64) -> Observation {
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_target_qps: probe.load,
        min_duration_ms: probe.duration / 1_000_000,
        min_query_count: 1,
        server_max_async_queries: search.most_outstanding(&probe),
        schedule_rng_seed: seed,
        ..TestSettings::default()
    };
    let mut random = Mt19937::new(seed + 1);
    let mut system = OneServer::new(|| (random.exponential(capacity) * 1e9) as Nanos);
    let library = NullLibrary::new(1_000, 1_000);
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let log = run(&mut driver, &[tenant(&settings, &library)], RecordRetention::Every, &mut |_| {})
        .swap_remove(0);
    let run = log.runs().next().unwrap();
    let limit = search.rules().limits[0];
    let blocks = limit.blocks(&run.record, probe.duration);
    // As in the command, the backlog decides only about runs that keep the limit.
    let is_kept = limit.is_kept(&blocks);
    let overloaded = is_kept && search.fails_by_backlog(&probe, &run.record);
    Observation {
        probe,
        took: run.finished_at,
        overloaded: overloaded || matches!(run.ended, EndReason::TooManyOutstanding { .. }),
        passed: is_kept && !overloaded,
        blocks: vec![blocks],
    }
}

#[test]
fn the_peak_of_m_m_1_is_found_within_two_percent_in_less_than_half_the_time() {
    // P(T > t) = exp(-(1000 - rate) t) is 1 % at t = 50 ms.
    let peak = 1_000.0 - 100.0_f64.ln() / 0.05;
    let (mut spent, mut plain) = (0.0, 0.0);
    for seed in 0..4_u64 {
        let from = 60.0 + 70.0 * seed as f64;
        let mut of_queue = |search: &Search, probe: Probe| {
            run_of_queue(search, probe, 1_000 * seed + 2 * probe.number, 1_000.0)
        };
        let (outcome, search) =
            play(rules(latency(0.01, 50_000_000), from, Unit::Rate), &mut of_queue);
        assert_eq!(outcome.end, End::Confirmed, "seed {seed}");
        for found in [outcome.peak.unwrap().load, outcome.confirmed.unwrap()] {
            assert!((found / peak - 1.0).abs() < 0.02, "seed {seed}: {found} against {peak}");
        }
        // Doublings, and halvings down to the same tolerance, if nothing errs.
        let doublings = (peak / from).log2().ceil();
        let halvings = (1.0 / TOLERANCE).log2().ceil() - 1.0;
        plain += (1.0 + doublings + halvings) * FULL as f64;
        spent += search.spent() as f64;
    }
    assert!(spent < 0.5 * plain, "{} of the time of plain bisection", spent / plain);
}

/// A run of a few seconds at a load above the capacity keeps a limit of 1 s on p90: at 105 queries/s, 0.05 s
/// of waiting is added each second. Below the capacity of 100 queries/s, P(T > 1 s) = exp(-(100 - rate)) is
/// 10 % at 97.7 queries/s. A limit of 60 s is reached at 99.96 queries/s.
#[test]
fn no_load_above_the_capacity_is_confirmed_for_a_wide_limit() {
    const CAPACITY: f64 = 100.0;
    for (bound, seed) in [(1, 0_u64), (1, 1), (60, 0), (60, 1)] {
        let peak = CAPACITY - 10.0_f64.ln() / bound as f64;
        let mut of_queue = |search: &Search, probe: Probe| {
            run_of_queue(search, probe, 1_000 * seed + 2 * probe.number, CAPACITY)
        };
        let wide = Rules {
            tolerance: 0.05,
            short: 2 * SECOND,
            full: 5 * SECOND,
            ..rules(latency(0.1, bound * SECOND), 20.0, Unit::Rate)
        };
        let (outcome, _) = play(wide, &mut of_queue);
        assert_eq!(outcome.end, End::Confirmed, "{bound} s: {outcome:?}");
        let (found, confirmed) = (outcome.peak.unwrap(), outcome.confirmed.unwrap());
        assert!((0.75 * CAPACITY..CAPACITY).contains(&confirmed), "{bound} s: {confirmed}");
        assert!((found.load / peak - 1.0).abs() < 0.05, "{bound} s: {found:?}");
    }
}

/// Runs without answers of several tokens count no query for a limit on the time per output token.
#[test]
fn a_load_at_which_no_answer_has_several_tokens_is_repeated() {
    let limit = Limit { quantity: Quantity::TimePerOutputToken, allowed: 0.01, bound: 1_000 };
    let mut search = Search::new(rules(limit, 100.0, Unit::Rate));
    let mut run = |queries: u64| {
        let Step::Run(probe) = search.next() else { panic!("the search goes on") };
        let blocks = vec![vec![Block { queries, over: 0 }; BLOCKS]];
        let took = probe.duration;
        search.observe(Observation { probe, took, overloaded: false, passed: true, blocks });
        probe.load
    };
    assert_eq!([run(0), run(50), run(50)], [100.0, 100.0, 200.0]);
}

/// A full run of 5 s at 45 queries/s has 225 queries. Early stopping passes no run with fewer than 459.
#[test]
fn full_runs_of_a_slow_system_have_enough_queries() {
    let slow = Rules {
        full: 5 * SECOND,
        short: 2 * SECOND,
        certain_queries: 4 * 459,
        ..rules(latency(0.01, SECOND / 5), 10.0, Unit::Rate)
    };
    let search = Search::new(slow);
    assert_eq!(search.full_at(45.0), 1_836 * SECOND / 45);
    // A refining run has 300 queries, of which a p99 allows three over the limit.
    assert_eq!(search.refining_at(50.0)[0], 6 * SECOND);
    // The queue that is at this limit at 1,000 queries/s forgets its state within 4 * 0.2^2 * 1000 / 4.605^2
    // = 7.54 s. A full run is four times as long.
    assert_eq!(search.refining_at(1_000.0)[0] / (SECOND / 100), 754);
    assert_eq!(search.full_at(1_000.0) / (SECOND / 100), 3_017);
}

/// Returns the observation of an ideal system with this share over the bound.
fn exact(share: f64, probe: Probe) -> Observation {
    let queries = 1_000;
    let block = Block { queries, over: (share * queries as f64).round() as u64 };
    let blocks = vec![vec![block; BLOCKS]];
    let passed = share <= 0.1;
    Observation { probe, took: probe.duration, overloaded: false, passed, blocks }
}

#[test]
fn whole_loads_end_at_the_highest_that_passes() {
    for peak in [1.0, 7.0, 100.0] {
        let mut step =
            |_: &Search, probe: Probe| exact(f64::from(u8::from(probe.load > peak)), probe);
        let (outcome, search) = play(rules(latency(0.1, 1), 1.0, Unit::Whole), &mut step);
        assert_eq!((outcome.end, outcome.confirmed), (End::Confirmed, Some(peak)));
        assert!(search.observations().iter().all(|told| told.probe.load.fract() == 0.0));
    }
}

/// Blocks of queries, of which a share is over the limit by chance.
fn random_blocks(random: &mut Mt19937, queries: u64, share: f64) -> Vec<Block> {
    let block = |_| {
        let over = (0..queries).filter(|_| random.canonical() < share).count() as u64;
        Block { queries, over }
    };
    (0..BLOCKS).map(block).collect()
}

/// A run with some queries in flight. With `even` of them, exactly the allowed hundredth is over the limit.
fn run_in_flight(random: &mut Mt19937, even: f64, probe: Probe) -> Observation {
    let share = (0.01 * (probe.load / even).powi(3)).min(1.0);
    let seconds = probe.duration as f64 / SECOND as f64;
    let queries = (50.0 * seconds / BLOCKS as f64).ceil() as u64;
    let blocks = random_blocks(random, queries, share);
    let all = Block::sum(&blocks);
    let passed = all.over as f64 <= 0.01 * all.queries as f64;
    Observation { blocks: vec![blocks], passed, ..exact(0.0, probe) }
}

/// With 5 in flight, exactly the allowed share is over the limit, so that no number of short runs decides
/// between 4 and 5.
#[test]
fn full_runs_decide_between_neighbors() {
    for seed in 0..3 {
        let mut random = Mt19937::new(seed);
        let mut even = |_: &Search, probe: Probe| run_in_flight(&mut random, 5.0, probe);
        let quick = Rules {
            short: 2 * SECOND,
            full: 60 * SECOND,
            ..rules(latency(0.01, 1), 1.0, Unit::Whole)
        };
        let (outcome, search) = play(quick, &mut even);
        assert_eq!(outcome.end, End::Confirmed, "seed {seed}: {:?}", outcome.peak);
        let confirmed = outcome.confirmed.unwrap();
        assert!((3.0..=5.0).contains(&confirmed), "seed {seed}: {confirmed}");
        let runs = search.observations().len();
        assert!(runs < 200, "seed {seed}: {runs} runs");
    }
}

/// With 1 in flight, exactly the allowed share is over the limit, so that the estimate may be below 1. No search
/// denies that a full run keeps the limit before it made one.
#[test]
fn a_full_run_decides_between_one_and_none() {
    for seed in 0..6 {
        let mut random = Mt19937::new(seed);
        let mut one = |_: &Search, probe: Probe| run_in_flight(&mut random, 1.0, probe);
        let quick = Rules {
            short: 2 * SECOND,
            full: 60 * SECOND,
            ..rules(latency(0.01, 1), 1.0, Unit::Whole)
        };
        let (outcome, search) = play(quick, &mut one);
        let is_full = |run: &Observation| matches!(run.probe.purpose, Purpose::Confirm { .. });
        let has_full = search.observations().iter().any(is_full);
        assert!(has_full || outcome.end != End::Unconfirmed, "seed {seed}: {outcome:?}");
    }
}

/// Above the peak all queries are over the bound, and none below it. The time suffices for one full run.
#[test]
fn a_step_is_confirmed_by_one_full_run_between_its_neighbors() {
    for (allowed, peak) in
        [0.1, 0.01].into_iter().flat_map(|a| [150.0, 263.0, 500.0, 810.0, 1_500.0].map(|p| (a, p)))
    {
        let mut step = |_: &Search, probe: Probe| {
            let seconds = probe.duration as f64 / SECOND as f64;
            let queries = (probe.load * seconds / BLOCKS as f64).ceil() as u64;
            let is_over = probe.load > peak;
            let block = Block { queries, over: if is_over { queries } else { 0 } };
            let blocks = vec![vec![block; BLOCKS]];
            Observation { blocks, passed: !is_over, ..exact(0.0, probe) }
        };
        let max_time = 1_000 * SECOND;
        let rules = Rules { max_time, ..rules(latency(allowed, 1), 60.0, Unit::Rate) };
        let (outcome, search) = play(rules, &mut step);
        assert_eq!(outcome.end, End::Confirmed, "{allowed} {peak}: {outcome:?}");
        let is_full = |run: &&Observation| matches!(run.probe.purpose, Purpose::Confirm { .. });
        assert_eq!(search.observations().iter().filter(is_full).count(), 1, "{allowed} {peak}");
        let found = outcome.peak.unwrap();
        assert!(found.low <= peak && peak <= found.high, "{allowed} {peak}: {found:?}");
        assert!((found.high / found.low).ln() <= TOLERANCE, "{allowed} {peak}: {found:?}");
    }
}

#[test]
fn searches_without_a_peak_end_and_say_so() {
    let ends = |share: f64| {
        let mut always = |_: &Search, probe: Probe| exact(share, probe);
        play(rules(latency(0.1, 1), 100.0, Unit::Rate), &mut always).0.end
    };
    assert_eq!((ends(0.0), ends(1.0)), (End::NothingFails, End::NothingPasses));
    // Misses every other run, whatever the load.
    let mut by_turns = |_: &Search, probe: Probe| {
        exact(if probe.number.is_multiple_of(2) { 0.05 } else { 0.3 }, probe)
    };
    let (outcome, _) = play(rules(latency(0.1, 1), 100.0, Unit::Rate), &mut by_turns);
    assert_eq!(outcome.end, End::Unclear);
}

/// Where 2 % of the answers fail at any load, short runs at low loads keep a p99 by chance.
#[test]
fn answers_that_fail_at_any_load_end_a_search_early() {
    for seed in 0..10 {
        let mut random = Mt19937::new(seed);
        let mut failing = |_: &Search, probe: Probe| {
            let all = probe.load * probe.duration as f64 / SECOND as f64;
            let queries = (all / BLOCKS as f64) as u64;
            let blocks = vec![random_blocks(&mut random, queries, 0.02)];
            Observation { blocks, passed: false, ..exact(0.02, probe) }
        };
        let (outcome, search) = play(rules(latency(0.01, 1), 400.0, Unit::Rate), &mut failing);
        assert_eq!(outcome.end, End::NothingPasses, "seed {seed}");
        let runs = search.observations().len();
        assert!(runs <= 10, "seed {seed}: {runs} runs");
    }
}

/// Where 0.9 % of the queries are over a p99 at any load, and a further share that is 0.1 % at 300 queries/s,
/// short runs miss the limit by chance at any load. Where 1.1 % are, no load keeps it.
#[test]
fn a_share_that_any_load_has_makes_no_false_peak() {
    for (floor, seed) in
        [0.009, 0.011].into_iter().flat_map(|floor| (0..4).map(move |s| (floor, s)))
    {
        let mut random = Mt19937::new(seed);
        let mut play_one = |_: &Search, probe: Probe| {
            let share = (floor + 0.001 * (probe.load / 300.0).powi(12)).min(1.0);
            let all = probe.load * probe.duration as f64 / SECOND as f64;
            let queries = (all / BLOCKS as f64).max(1.0) as u64;
            let blocks = random_blocks(&mut random, queries, share);
            let sum = Block::sum(&blocks);
            let passed = sum.over as f64 <= 0.01 * sum.queries as f64;
            Observation { blocks: vec![blocks], passed, ..exact(0.0, probe) }
        };
        let quick = Rules {
            short: 2 * SECOND,
            full: 10 * SECOND,
            tolerance: 0.02,
            ..rules(latency(0.01, 1), 53.0, Unit::Rate)
        };
        let (outcome, _) = play(quick, &mut play_one);
        let is_stated = !matches!(outcome.end, End::Unclear | End::NothingPasses);
        if floor > 0.01 {
            assert!(!is_stated, "seed {seed}: {outcome:?}");
        } else {
            assert_ne!(outcome.end, End::NothingPasses, "seed {seed}");
            let peak = outcome.peak.filter(|_| is_stated);
            let is_near = peak.is_none_or(|peak| peak.low < 309.0 && peak.high > 291.0);
            assert!(is_near, "seed {seed}: {:?}", outcome.end);
        }
    }
}

/// Where 0.6 % of the queries are over a p99 at any load, the share at the peak hardly depends on the load.
/// Short full runs miss what early stopping demands of them, however far below the peak they are.
#[test]
fn a_peak_above_a_share_that_any_load_has_is_confirmed() {
    for seed in 0..6 {
        let mut random = Mt19937::new(seed);
        let mut play_one = |_: &Search, probe: Probe| {
            let share = (0.006 + 0.004 * (probe.load / 300.0).powi(10)).min(1.0);
            let all = probe.load * probe.duration as f64 / SECOND as f64;
            let queries = (all / BLOCKS as f64).max(1.0) as u64;
            let blocks = random_blocks(&mut random, queries, share);
            let sum = Block::sum(&blocks);
            let allowed = 0.01 * sum.queries as f64;
            // The 99 % confidence of early stopping.
            let passed = sum.over as f64 <= allowed - 2.33 * (0.99 * allowed).sqrt();
            Observation { blocks: vec![blocks], passed, ..exact(0.0, probe) }
        };
        let quick = Rules {
            short: 2 * SECOND,
            full: 5 * SECOND,
            certain_queries: 1_836,
            ..rules(latency(0.01, 1), 53.0, Unit::Rate)
        };
        let (outcome, _) = play(quick, &mut play_one);
        assert_ne!(outcome.end, End::Unconfirmed, "seed {seed}: {:?}", outcome.peak);
        let confirmed = outcome.confirmed.unwrap_or(270.0);
        assert!((255.0..300.0).contains(&confirmed), "seed {seed}: {confirmed}");
    }
}

/// As in a queue with one server, late queries come in rows, here of 15. Many runs near the peak scatter around
/// the allowed share, so that they alone may not show that lower loads keep the limit.
#[test]
fn a_limit_that_depends_on_the_load_is_not_unclear() {
    const ROW: u64 = 15;
    for seed in 0..8 {
        let mut random = Mt19937::new(seed);
        let mut in_rows = |_: &Search, probe: Probe| {
            let share = (0.01 * (probe.load / 540.0).powf(5.4)).min(1.0);
            let all = probe.load * probe.duration as f64 / SECOND as f64;
            let rows = (all / (BLOCKS as u64 * ROW) as f64).max(1.0) as u64;
            let mut block = |_| {
                let over = (0..rows).filter(|_| random.canonical() < share).count() as u64;
                Block { queries: ROW * rows, over: ROW * over }
            };
            let blocks: Vec<Block> = (0..BLOCKS).map(&mut block).collect();
            let sum = Block::sum(&blocks);
            let passed = sum.over as f64 <= 0.01 * sum.queries as f64;
            Observation { blocks: vec![blocks], passed, ..exact(0.0, probe) }
        };
        let quick = Rules {
            short: 2 * SECOND,
            full: 5 * SECOND,
            ..rules(latency(0.01, 1), 118.0, Unit::Rate)
        };
        let (outcome, _) = play(quick, &mut in_rows);
        assert_ne!(outcome.end, End::Unclear, "seed {seed}");
    }
}

/// The share grows with a small power of the load, so that the peak is hardly known after the last refining run. A
/// full run above it may pass by chance.
#[test]
fn a_peak_that_is_hardly_known_is_confirmed_below_its_interval() {
    let mut vague = 0;
    for seed in 0..4 {
        let mut random = Mt19937::new(seed);
        let mut slow = |search: &Search, probe: Probe| {
            let peak = search.peak().filter(|_| matches!(probe.purpose, Purpose::Confirm { .. }));
            // The interval is wider than three tolerances on either side.
            if let Some(peak) = peak.filter(|peak| (peak.high / peak.low).ln() > 8.0 * TOLERANCE) {
                assert!(probe.load < peak.low, "seed {seed}: {} of {peak:?}", probe.load);
                vague += 1;
            }
            let share = (0.01 * (probe.load / 300.0).powf(0.6)).min(1.0);
            let all = probe.load * probe.duration as f64 / SECOND as f64;
            let queries = (all / BLOCKS as f64).max(1.0) as u64;
            let blocks = random_blocks(&mut random, queries, share);
            let sum = Block::sum(&blocks);
            let passed = sum.over as f64 <= 0.01 * sum.queries as f64;
            Observation { blocks: vec![blocks], passed, ..exact(0.0, probe) }
        };
        let quick = Rules {
            short: 2 * SECOND,
            full: 5 * SECOND,
            ..rules(latency(0.01, 1), 100.0, Unit::Rate)
        };
        play(quick, &mut slow);
    }
    assert!(vague > 0, "each peak was known well");
}

#[test]
fn no_run_is_begun_that_would_end_too_late() {
    let mut random = Mt19937::new(5);
    for minutes in (1..40).step_by(6) {
        let max_time = minutes * 60 * SECOND;
        let rules = Rules { max_time, ..rules(latency(0.1, 1), 100.0, Unit::Rate) };
        let peak = 50.0 + 1_000.0 * random.canonical();
        // Answers take their time once all is issued, and a run that is not over in
        // time is ended without an observation, as in the command.
        let mut search = Search::new(rules);
        let outcome = loop {
            let probe = match search.next() {
                Step::Run(probe) => probe,
                Step::Done(outcome) => break outcome,
            };
            let share = 0.1 * (probe.load / peak).powi(20) * (0.5 + random.canonical());
            let took = probe.duration + (3.0 * random.canonical() * SECOND as f64) as Nanos;
            match took <= search.left() {
                true => search.observe(Observation { took, ..exact(share.min(1.0), probe) }),
                false => search.lose(search.left()),
            }
        };
        assert!(search.spent() <= max_time, "{minutes} min: {outcome:?}");
        let confirms = |told: &Observation| matches!(told.probe.purpose, Purpose::Confirm { .. });
        assert!(search.observations().iter().filter(|told| confirms(told)).count() <= 4);
        assert_eq!(outcome.end == End::Confirmed, outcome.confirmed.is_some());
    }
}

#[test]
fn a_load_that_cannot_be_too_high_is_not_raised_for_ever() {
    let mut never = |_: &Search, probe: Probe| exact(0.0, probe);
    let (outcome, search) = play(rules(latency(0.1, 1), 1.0, Unit::Whole), &mut never);
    assert_eq!(outcome.end, End::NothingFails);
    let most = search.observations().iter().map(|told| told.probe.load).fold(0.0, f64::max);
    assert_eq!(most, 1_048_576.0, "a million in flight");
}

#[test]
fn no_load_above_the_highest_is_tried() {
    for unit in [Unit::Whole, Unit::Rate] {
        let capped = Rules { to: Some(40.0), ..rules(latency(0.1, 1), 1.0, unit) };
        let highest = |search: &Search| {
            search.observations().iter().map(|told| told.probe.load).fold(0.0, f64::max)
        };
        let mut never = |_: &Search, probe: Probe| exact(0.0, probe);
        let (outcome, search) = play(capped.clone(), &mut never);
        assert_eq!((outcome.end, highest(&search)), (End::NothingFails, 40.0));
        // The peak is just below, so that refining runs are drawn around the highest load.
        let mut near =
            |_: &Search, probe: Probe| exact(f64::from(u8::from(probe.load > 39.0)), probe);
        let (_, search) = play(capped, &mut near);
        assert!(highest(&search) <= 40.0, "{unit:?}: {}", highest(&search));
    }
}

#[test]
fn what_was_confirmed_within_more_is_searched_further_within_less() {
    let mut random = Mt19937::new(11);
    let mut noisy = |_: &Search, probe: Probe| {
        let share = 0.1 * (probe.load / 400.0).powi(10) * (0.7 + 0.6 * random.canonical());
        exact(share.min(1.0), probe)
    };
    let wide = Rules { tolerance: 0.05, ..rules(latency(0.1, 1), 100.0, Unit::Rate) };
    let (outcome, search) = play(wide.clone(), &mut noisy);
    assert_eq!(outcome.end, End::Confirmed);
    let goes_on = |tolerance: f64, max_time: Nanos| {
        let mut further = Search::new(Rules { tolerance, max_time, ..wide.clone() });
        search.observations().iter().for_each(|told| further.observe(told.clone()));
        further
    };
    let again = goes_on(0.05, wide.max_time);
    assert_eq!(again.next(), Step::Done(outcome), "it is the same search");
    let mut further = goes_on(0.005, wide.max_time);
    let before = further.observations().len();
    let end = loop {
        match further.next() {
            Step::Run(probe) => further.observe(noisy(&search, probe)),
            Step::Done(outcome) => break outcome,
        }
    };
    assert_eq!(end.end, End::Confirmed);
    let peak = end.peak.unwrap();
    assert!((peak.high / peak.low).ln() / 2.0 < 0.01, "{peak:?}");
    let told = &further.observations()[before..];
    let confirms = |told: &Observation| matches!(told.probe.purpose, Purpose::Confirm { .. });
    assert!(told.len() > 1 && told.last().is_some_and(confirms), "and is confirmed anew");
    // Without enough time, the confirmation is not at the requested tolerance.
    let late = goes_on(0.001, search.spent());
    assert!(matches!(late.next(), Step::Done(Outcome { end: End::OutOfTime, .. })));
}
