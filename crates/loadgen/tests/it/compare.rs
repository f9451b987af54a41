//! `compare` on systems whose truth is known, played in virtual time.
//! `examples/compare_trials` has more cases and more trials of each.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare::{
    DataShortage, Doubt, Finding, Metric, OmittedMetric, Options, Pairing, RISK, Row, Run, Series,
    Verdict, compare,
};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::settings::TestSettings;

use crate::queueing::{MU, OneServer, server, simulate};

const P99: Metric = Metric::Percentile(Series::Latency, 0.99);
const P50: Metric = Metric::Percentile(Series::Latency, 0.5);
const TOO_FEW: Finding = Finding::Inconclusive(Doubt::TooFew);
const MEAN: Metric = Metric::Mean(Series::Latency);

fn options(headline: Metric, pairing: Pairing) -> Options {
    let all = [P50, P99, MEAN, Metric::Throughput, Metric::Failures];
    let further = all.into_iter().filter(|metric| *metric != headline).collect();
    Options::new(headline, further, pairing)
}

/// A run of a queue at `load` whose service is exponential and `factor` times as
/// long as its arrivals expect.
fn queue(load: f64, queries: u64, seed: u64, factor: f64) -> Run {
    let settings = TestSettings { schedule_rng_seed: seed, ..server(load * MU, queries) };
    let mut random = Mt19937::new(seed + 500_000);
    let service = || (factor * random.exponential(MU) * 1e9) as Nanos;
    let log = simulate(&settings, &mut OneServer::new(service));
    let record = &log.runs().next().unwrap().record;
    let done = &record.completed_at;
    let latency = (0..done.len()).map(|query| done[query] - record.scheduled(query)).collect();
    let mut completed = done.clone();
    completed.sort_unstable();
    let failed = vec![false; done.len()];
    Run { latency, completed, failed, stride: 1.0, ..Run::default() }
}

/// Returns correlated latencies, times a factor for the whole run.
fn alike(queries: usize, random: &mut Mt19937, factor: f64) -> Run {
    let mut level = random.normal();
    let mut draw = |_| {
        level = 0.9 * level + 0.19_f64.sqrt() * random.normal();
        (1e6 * factor * (0.3 * level).exp()) as Nanos
    };
    let latency: Vec<Nanos> = (0..queries).map(&mut draw).collect();
    let ends = latency.iter().scan(0, |end, latency| {
        *end += latency;
        Some(*end)
    });
    Run {
        completed: ends.collect(),
        failed: vec![false; queries],
        stride: 1.0,
        latency,
        ..Run::default()
    }
}

#[test]
fn a_queue_differs_from_itself_no_more_often_than_stated() {
    const TRIALS: u64 = 200;
    for (load, queries) in [(0.5, 4_000), (0.8, 8_000)] {
        let headlines = [MEAN, P99];
        let mut alarms = [0; 2];
        for trial in 0..TRIALS {
            let [a, b] = [0, 1].map(|side| [queue(load, queries, 2 * trial + side, 1.0)]);
            for (count, headline) in alarms.iter_mut().zip(headlines) {
                let found = compare(&a, &b, &options(headline, Pairing::None));
                *count += u64::from(found.rows.iter().any(|row| row.finding.is_difference()));
            }
        }
        let most = (TRIALS as f64 * RISK) as u64;
        assert!(alarms.iter().all(|&count| count <= most), "load {load}: {alarms:?} of {TRIALS}");
    }
}

/// Latencies that tie: a query in `per_cent` of a hundred takes 2 ms, the others
/// 1 ms, and queries that come together (`burst` of them) take the same.
fn of_two_values(burst: usize, per_cent: f64, random: &mut Mt19937) -> Run {
    const QUERIES: usize = 10_000;
    let is_slow: Vec<bool> =
        (0..QUERIES / burst).map(|_| random.canonical() < per_cent / 100.0).collect();
    let latency: Vec<Nanos> =
        (0..QUERIES).map(|at| if is_slow[at / burst] { 2_000_000 } else { 1_000_000 }).collect();
    let failed = vec![false; QUERIES];
    Run { completed: Vec::new(), failed, stride: 1.0, latency, ..Run::default() }
}

#[test]
fn a_percentile_on_a_step_of_the_distribution_is_not_taken_for_certain() {
    const TRIALS: u64 = 200;
    let alarms = |burst: usize, per_cent: f64, percentile: f64| {
        let headline = Metric::Percentile(Series::Latency, percentile);
        let options = Options { further: Vec::new(), ..options(headline, Pairing::None) };
        let is_alarm = |trial: &u64| {
            let mut random = Mt19937::new(*trial);
            let [a, b] = [0, 1].map(|_| [of_two_values(burst, per_cent, &mut random)]);
            compare(&a, &b, &options).rows[0].finding.is_difference()
        };
        (0..TRIALS).filter(is_alarm).count()
    };
    // The p99 is 1 ms in one run and 2 ms in the next.
    for (burst, per_cent, percentile) in
        [(10, 1.0, 0.99), (50, 1.0, 0.99), (200, 1.0, 0.99), (50, 10.0, 0.9), (200, 10.0, 0.9)]
    {
        let found = alarms(burst, per_cent, percentile);
        let most = (TRIALS as f64 * RISK) as usize;
        assert!(found <= most, "bursts of {burst}, p{percentile}: {found} of {TRIALS}");
    }
}

#[test]
fn differences_that_are_all_the_same_are_not_taken_for_certain() {
    // Latencies in steps of a millisecond: all of a run takes one step.
    let run = |ms: u64| of_steps(ms, 4_000);
    let finding = |pairs: usize, pairing: Pairing| {
        let (a, b) = (vec![run(4); pairs], vec![run(5); pairs]);
        let options = Options { further: Vec::new(), ..options(P50, pairing) };
        compare(&a, &b, &options).rows[0].finding
    };
    for pairs in [2, 3, 4] {
        assert_eq!(finding(pairs, Pairing::InOrder), TOO_FEW, "{pairs} pairs");
    }
    // Of 64 ways to order six pairs two have all of one sign.
    assert_eq!(finding(6, Pairing::InOrder), Finding::Worse);
    // Of 6 ways to choose the slower two of four runs two choose a side.
    assert_eq!(finding(2, Pairing::None), TOO_FEW);
    assert_eq!(finding(5, Pairing::None), Finding::Worse);
}

fn of_steps(ms: u64, queries: usize) -> Run {
    let latency = vec![ms * 1_000_000; queries];
    Run { failed: vec![false; queries], stride: 1.0, latency, ..Run::default() }
}

#[test]
fn a_slower_queue_is_found_and_by_how_much() {
    let (mut worse, mut within) = (0, 0);
    for trial in 0..20 {
        let (a, b) = (queue(0.3, 20_000, trial, 1.0), queue(0.3, 20_000, trial + 100, 1.15));
        let found = compare(&[a], &[b], &options(MEAN, Pairing::None));
        worse += u32::from(found.verdict == Verdict::Worse);
        // Time in system of M/M/1: 1 / (mu - lambda).
        let truth = (1.0 - 0.3) / (1.0 / 1.15 - 0.3) - 1.0;
        let change = found.rows[0].change;
        within += u32::from(change.low < truth && truth < change.high);
    }
    assert_eq!(worse, 20);
    // 96 % of the intervals have the truth: fewer than 17 of 20 are one case in 130.
    assert!(within >= 17, "{within} of 20");
}

#[test]
fn what_runs_differ_by_is_in_the_intervals_of_several_runs() {
    const TRIALS: u64 = 200;
    for pairing in [Pairing::InOrder, Pairing::None] {
        let (mut alarms, mut found_worse) = (0, 0);
        for trial in 0..TRIALS {
            let mut random = Mt19937::new(trial);
            let mut side = |factor: f64| -> Vec<Run> {
                let mut run = |_| {
                    let befalls = (0.03 * random.normal()).exp();
                    alike(600, &mut random, factor * befalls)
                };
                (0..5).map(&mut run).collect()
            };
            let (same, again, slower) = (side(1.0), side(1.0), side(1.3));
            let compared = |a: &[Run], b: &[Run]| compare(a, b, &options(P50, pairing));
            let null = compared(&same, &again);
            alarms += u64::from(null.rows.iter().any(|row| row.finding.is_difference()));
            found_worse += u64::from(compared(&same, &slower).verdict == Verdict::Worse);
        }
        let most = (TRIALS as f64 * RISK) as u64;
        assert!(alarms <= most, "{pairing:?}: {alarms} of {TRIALS}");
        assert!(found_worse > TRIALS * 9 / 10, "{pairing:?}: {found_worse} of {TRIALS}");
    }
}

#[test]
fn a_drift_that_could_be_all_of_a_difference_makes_it_untold() {
    let run = |position: usize| {
        let mut random = Mt19937::new(position as u64);
        let run = alike(4_000, &mut random, 1.0 + 0.05 * position as f64);
        Run { position: Some(position as f64), ..run }
    };
    let side = |positions: [usize; 5]| positions.map(run).to_vec();
    let (before, after) = (side([0, 1, 2, 3, 4]), side([5, 6, 7, 8, 9]));
    let found = compare(&before, &after, &options(P50, Pairing::None));
    assert_eq!(found.rows[0].finding, Finding::Inconclusive(Doubt::Drift));
    assert_eq!(found.verdict, Verdict::Inconclusive);
    let (a, b) = (side([0, 3, 4, 7, 8]), side([1, 2, 5, 6, 9]));
    let found = compare(&a, &b, &options(P50, Pairing::InOrder));
    assert!(found.rows[0].drift.unwrap().is_seen(), "{:?}", found.rows[0]);
    let finding = found.rows[0].finding;
    assert_eq!(
        finding,
        Finding::Inconclusive(Doubt::Wide),
        "taken in turn, both sides drift alike"
    );
}

#[test]
fn the_same_run_twice_does_not_differ_at_all() {
    let run = || queue(0.5, 4_000, 3, 1.0);
    let found = compare(&[run()], &[run()], &options(MEAN, Pairing::InOrder));
    let row = &found.rows[0];
    assert_eq!((row.change.low, row.change.high), (0.0, 0.0));
    assert_eq!(found.verdict, Verdict::Equivalent);
}

#[test]
fn too_few_queries_are_told_and_nothing_is_made_of_them() {
    let found =
        compare(&[queue(0.5, 90, 1, 1.0)], &[queue(0.5, 90, 2, 1.0)], &options(P99, Pairing::None));
    let reason = DataShortage { values: 90, needed: 500 };
    assert!(found.omitted.contains(&OmittedMetric { metric: P99, reason }), "{:?}", found.omitted);
    let is_of_failures = |row: &Row| row.metric == Metric::Failures;
    assert!(found.rows.iter().all(is_of_failures), "{:?}", found.rows);
    assert_eq!(found.verdict, Verdict::Inconclusive);
    let none = compare(&[Run::default()], &[Run::default()], &options(P99, Pairing::None));
    assert_eq!((none.rows.len(), none.verdict), (0, Verdict::Inconclusive));
    // Enough for an estimate of the percentile, too few to exclude twice its value.
    let (a, b) = (queue(0.9, 600, 1, 1.0), queue(0.9, 600, 2, 1.0));
    let found = compare(&[a], &[b], &options(P99, Pairing::None));
    assert_eq!(found.rows[0].finding, TOO_FEW, "{:?}", found.rows[0]);
}

#[test]
fn failures_are_compared_as_shares_and_bursts_count_once() {
    let failing = |is_failed: &dyn Fn(usize) -> bool| {
        let mut random = Mt19937::new(9);
        let run = alike(2_000, &mut random, 1.0);
        Run { failed: (0..2_000).map(is_failed).collect(), ..run }
    };
    let none = failing(&|_| false);
    let spread = failing(&|query| query % 50 == 0);
    let burst = failing(&|query| (500..540).contains(&query));
    let compared = |a: &Run, b: &Run| {
        let options = options(Metric::Failures, Pairing::None);
        compare(std::slice::from_ref(a), std::slice::from_ref(b), &options).rows.remove(0)
    };
    let row = compared(&none, &spread);
    assert_eq!((row.baseline, row.candidate, row.finding), (0.0, 0.02, Finding::Worse));
    assert_eq!(compared(&spread, &none).finding, Finding::Better);
    let wide = Finding::Inconclusive(Doubt::Wide);
    assert_eq!(compared(&none, &burst).finding, wide, "one event is no rate");
    assert_eq!(compared(&none, &none).finding, Finding::Equivalent);
}

#[test]
fn failures_of_few_runs_count_by_their_queries() {
    // The position in the run decides by a hash, so that failures do not cluster.
    let run = |share: f64, seed: u64| {
        let mut random = Mt19937::new(seed);
        let failed = (0..5_000).map(|_| random.canonical() < share).collect();
        Run { failed, stride: 1.0, ..alike(5_000, &mut Mt19937::new(seed + 50), 1.0) }
    };
    let side = |shares: [f64; 2], seed: u64| -> Vec<Run> {
        (seed..).zip(shares).map(|(seed, share)| run(share, seed)).collect()
    };
    let none = side([0.0, 0.0], 1);
    let compared = |a: &[Run], b: &[Run], pairing: Pairing| {
        let found = compare(a, b, &options(MEAN, pairing));
        let row = found.rows.iter().find(|row| row.metric == Metric::Failures).cloned().unwrap();
        (row, found.verdict, found.has_more_failures)
    };
    for pairing in [Pairing::InOrder, Pairing::None] {
        let (row, verdict, is_open) = compared(&none, &side([0.1, 0.5], 5), pairing);
        assert_eq!((row.finding, verdict, is_open), (Finding::Worse, Verdict::Worse, false));
        assert!(row.change.low > 0.25 && row.change.high < 0.35, "{row:?}");
        // Only one of the two runs fails more. Two runs do not show how much runs differ.
        let some = side([0.02, 0.0], 9);
        let (row, verdict, is_open) = compared(&some, &side([0.0, 0.5], 5), pairing);
        assert!(matches!(row.finding, Finding::Inconclusive(_)), "{row:?}");
        assert!(is_open && verdict != Verdict::Worse);
        // As many failures on both sides.
        let (row, _, is_open) = compared(&side([0.1, 0.5], 5), &side([0.1, 0.5], 7), pairing);
        assert!(!is_open && !row.finding.is_difference(), "{row:?}");
    }
}

#[test]
fn a_short_run_that_fails_is_worse_without_any_latency() {
    let failing = |queries: usize, failures: usize| Run {
        failed: (0..queries).map(|query| query < failures).collect(),
        stride: 1.0,
        ..Run::default()
    };
    let verdict = |queries: usize, failures: usize| {
        let (a, b) = (failing(queries, 0), failing(queries, failures));
        compare(&[a], &[b], &options(P99, Pairing::None)).verdict
    };
    assert_eq!(verdict(49, 49), Verdict::Worse);
    // One burst, and one query that stands for nothing.
    assert_eq!(verdict(49, 5), Verdict::Inconclusive);
    assert_eq!(verdict(1, 1), Verdict::Inconclusive);
}

#[test]
fn a_threshold_says_which_changes_matter() {
    let side = |factor: f64, seed: u64| -> Vec<Run> {
        let mut run = |i: u64| alike(4_000, &mut Mt19937::new(100 * i + seed), factor);
        (0..8).map(&mut run).collect()
    };
    // With equal seeds, pairs differ only by the factor.
    let finding = |factor: f64, threshold: f64| {
        let options = Options { threshold, margin: threshold, ..options(MEAN, Pairing::InOrder) };
        compare(&side(1.0, 1), &side(factor, 1), &options).rows[0].finding
    };
    assert_eq!(finding(1.03, 0.0), Finding::Worse);
    assert_eq!(finding(1.03, 0.02), Finding::Worse);
    assert_eq!(finding(1.03, 0.05), Finding::Equivalent);
    assert_eq!(finding(0.9, 0.05), Finding::Better);
    // It is a share of the baseline's value, and failures have none to begin with.
    let failing = |share: f64| {
        let side = side(1.0, 1).into_iter();
        let fails = |run: Run| {
            let failed = (0..4_000).map(|query| f64::from(query % 100) < 100.0 * share).collect();
            Run { failed, ..run }
        };
        side.map(fails).collect::<Vec<Run>>()
    };
    let failures = Options { threshold: 0.05, ..options(Metric::Failures, Pairing::InOrder) };
    let found = compare(&failing(0.0), &failing(0.03), &failures);
    assert_eq!((found.rows[0].finding, found.verdict), (Finding::Worse, Verdict::Worse));
    let options = Options { threshold: 0.03, ..options(MEAN, Pairing::None) };
    let around = compare(&side(1.0, 1), &side(1.03, 2), &options);
    assert!(!around.rows[0].finding.is_difference(), "{:?}", around.rows[0]);
}

/// The change of the mean of eight pairs whose every run has the same factor.
fn conclusion(factor: f64, (threshold, margin): (f64, f64)) -> Finding {
    let side = |factor: f64| -> Vec<Run> {
        let mut run = |i: u64| {
            let befalls = (0.004 * Mt19937::new(700 + i).normal()).exp();
            let factor = if factor > 1.0 { factor * befalls } else { factor };
            alike(4_000, &mut Mt19937::new(i), factor)
        };
        (0..8).map(&mut run).collect()
    };
    let options = Options { threshold, margin, ..options(MEAN, Pairing::InOrder) };
    compare(&side(1.0), &side(factor), &options).rows[0].finding
}

#[test]
fn what_lies_within_the_margin_is_equivalent_even_where_it_is_a_difference() {
    // Each interval is about 1 % wide.
    assert_eq!(conclusion(1.02, (0.0, 0.0)), Finding::Worse);
    assert_eq!(conclusion(1.02, (0.0, 0.05)), Finding::Equivalent);
    assert_eq!(conclusion(1.05, (0.0, 0.05)), Finding::Worse, "it reaches beyond the margin");
    let around = conclusion(1.05, (0.05, 0.05));
    assert_eq!(around, Finding::Inconclusive(Doubt::Wide), "on both sides of the threshold");
    assert_eq!(conclusion(1.1, (0.05, 0.05)), Finding::Worse);
}

#[test]
fn single_runs_are_equivalent_only_where_runs_do_not_differ_by_more() {
    let run = |seed: u64, factor: f64| [alike(100_000, &mut Mt19937::new(seed), factor)];
    let finding = |factor: f64, between_runs: f64| {
        let options = Options { between_runs, ..options(MEAN, Pairing::None) };
        compare(&run(1, 1.0), &run(2, factor), &options).rows[0].finding
    };
    assert_eq!(finding(1.0, 0.0), Finding::Equivalent);
    assert_eq!(finding(1.1, 0.0), Finding::Worse);
    // 5 % between runs are 2.05 * 5 % * sqrt 2 = 14.5 % between two of them.
    let wide = Finding::Inconclusive(Doubt::Wide);
    assert_eq!((finding(1.0, 0.05), finding(1.1, 0.05)), (wide, wide));
    assert_eq!(finding(1.25, 0.05), Finding::Worse);
    assert_eq!(finding(0.8, 0.05), Finding::Better);
}

#[test]
fn pooled_slices_have_the_rate_of_all_of_their_time() {
    let slice = |gap: Nanos| Run {
        completed: (1..=100).map(|query| query * gap).collect(),
        latency: vec![gap; 100],
        failed: vec![false; 100],
        stride: 1.0,
        position: Some(gap as f64),
        ..Run::default()
    };
    let pooled = Run::pool(&[slice(10), slice(30)]);
    assert_eq!((pooled.completed.len(), pooled.completed[199]), (200, 4_000));
    assert!(pooled.completed.is_sorted());
    assert_eq!((pooled.latency.len(), pooled.position), (200, Some(20.0)));
}

#[test]
fn observations_too_small_for_a_percentile_are_pooled() {
    let side = |seed: u64| -> Vec<Run> {
        (0..8).map(|i| alike(300, &mut Mt19937::new(8 * seed + i), 1.0)).collect()
    };
    let rows = |pooled_most: usize| {
        let further = vec![P50];
        let options = Options { pooled_most, ..Options::new(P99, further, Pairing::InOrder) };
        compare(&side(1), &side(2), &options).rows
    };
    // A p99 takes 500 values; the p50 has enough without pooling.
    assert_eq!(rows(1).len(), 1);
    assert_eq!(rows(2)[0].change.freedom, 3.0);
    assert_eq!(rows(2)[1].change.freedom, 7.0);
}

#[test]
fn runs_that_do_not_measure_the_same_are_inconclusive_unless_one_is_worse() {
    let compared = |factor: f64| {
        let mut run = |i: u64| alike(4_000, &mut Mt19937::new(i), 1.0);
        let a: Vec<Run> = (0..6).map(&mut run).collect();
        let b: Vec<Run> = (0..6).map(|i| alike(4_000, &mut Mt19937::new(i), factor)).collect();
        let options = Options::new(MEAN, vec![P50], Pairing::InOrder);
        compare(&a, &b, &options)
    };
    let mut same = compared(1.0);
    assert_eq!(same.verdict, Verdict::Equivalent);
    same.doubt(MEAN, |metric| metric == P50, true);
    assert_eq!(same.verdict, Verdict::Equivalent, "the headline is not doubted");
    same.doubt(MEAN, |_| true, true);
    assert_eq!(same.verdict, Verdict::Inconclusive);
    let mut slower = compared(1.3);
    slower.doubt(MEAN, |_| true, false);
    assert_eq!(slower.verdict, Verdict::Worse);
    slower.doubt(MEAN, |_| true, true);
    assert_eq!(slower.verdict, Verdict::Inconclusive);
}

#[test]
fn figures_of_all_queries_count_where_the_columns_are_a_selection() {
    let selection = |exact: f64| Run {
        latency: vec![1_000_000; 2_000],
        failed: vec![false; 2_000],
        stride: 4.0,
        exact: vec![(P50, exact), (Metric::Failures, exact * 1e-8)],
        ..Run::default()
    };
    let options = Options::new(P50, vec![Metric::Failures], Pairing::None);
    let same = compare(&[selection(1e6)], &[selection(1e6)], &options);
    assert_eq!(same.verdict, Verdict::Equivalent);
    let slower = compare(&[selection(1e6)], &[selection(2e6)], &options);
    let [median, failures] = &slower.rows[..] else { panic!("{slower:?}") };
    assert!((median.baseline - 1e6).abs() < 1.0 && (median.candidate - 2e6).abs() < 1.0);
    assert!((median.change.value - 1.0).abs() < 1e-6, "{median:?}");
    assert_eq!((failures.baseline, failures.candidate), (0.01, 0.02));
    assert_ne!(slower.verdict, Verdict::Equivalent);
}
