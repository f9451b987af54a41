//! Findings on queues, independent queries and rows of late ones whose truth is known.

use super::Finding::{Met, Missed, Undecided};
use super::*;
use crate::rng::Mt19937;

const RISK: f64 = 0.05;
/// p99.
const ALLOWED: f64 = 0.01;
const RUNS: u64 = 200;
/// Maximum number of wrong findings: more of 200 have a probability of 1 % if each is wrong with
/// probability 5 %.
const MOST_WRONG: usize = 17;
/// Unit of times, ns.
const UNIT: f64 = 1e6;

struct Source(Mt19937);

impl Source {
    fn unit(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

fn times(count: usize, mut next: impl FnMut() -> f64) -> Vec<Nanos> {
    (0..count).map(|_| (next() * UNIT) as Nanos).collect()
}

fn exponential(count: usize, seed: u64) -> Vec<Nanos> {
    let mut source = Source(Mt19937::new(seed));
    times(count, || source.exponential(1.0))
}

fn lognormal(count: usize, seed: u64) -> Vec<Nanos> {
    let mut source = Source(Mt19937::new(seed));
    times(count, || (1.5 * source.normal()).exp())
}

/// Lognormal times whose logarithm is an autoregressive process with this correlation.
fn autoregressive(count: usize, correlation: f64, seed: u64) -> Vec<Nanos> {
    let mut source = Source(Mt19937::new(seed));
    let mut level = source.normal();
    times(count, || {
        let new = (1.0 - correlation.powi(2)).sqrt() * source.normal();
        level = correlation * level + new;
        (0.5 * level).exp()
    })
}

/// Times in a queue with one server and exponential service with a mean of 1, in the steady state,
/// by Lindley's recursion.
fn queue(count: usize, load: f64, seed: u64) -> Vec<Nanos> {
    let mut source = Source(Mt19937::new(seed));
    let mut wait =
        (source.exponential(1.0 / (1.0 - load)) - source.exponential(1.0 / load)).max(0.0);
    times(count, || {
        let whole = wait + source.exponential(1.0);
        wait = (whole - source.exponential(1.0 / load)).max(0.0);
        whole
    })
}

/// Times in a queue with one server and lognormal service with a mean of 1 and this deviation of the
/// logarithm, in the steady state: the first wait is a geometric number of residual services.
fn heavy_queue(count: usize, deviation: f64, load: f64, seed: u64) -> Vec<Nanos> {
    let mut source = Source(Mt19937::new(seed));
    let variance = deviation.powi(2);
    let mut wait = 0.0;
    while source.unit() < load {
        wait += (0.5 * variance + deviation * source.normal()).exp() * source.unit();
    }
    times(count, || {
        let whole = wait + (deviation * source.normal() - 0.5 * variance).exp();
        wait = (whole - source.exponential(1.0 / load)).max(0.0);
        whole
    })
}

/// Times of four servers that take 10 each, with one arrival per 20 on average.
fn servers(count: usize, seed: u64) -> Vec<Nanos> {
    let mut source = Source(Mt19937::new(seed));
    let (mut free, mut now) = ([0.0_f64; 4], 0.0);
    times(count, || {
        now += source.exponential(20.0);
        free.sort_by(f64::total_cmp);
        free[0] = free[0].max(now) + 10.0;
        free[0] - now
    })
}

/// Returns the number of runs that are met, and of those that are missed.
fn found(allowed: f64, bound: f64, run: impl Fn(u64) -> Vec<Nanos>) -> (usize, usize) {
    let bound = (bound * UNIT) as Nanos;
    let all: Vec<Finding> =
        (0..RUNS).map(|seed| find_times(&run(seed), allowed, bound, RISK).finding).collect();
    let number = |finding| all.iter().filter(|&&of| of == finding).count();
    (number(Met), number(Missed))
}

#[test]
fn independent_times_far_below_the_bound_meet_it_from_299_on() {
    for count in [299, 450, 1_000, 3_000] {
        for run in [exponential as fn(usize, u64) -> Vec<Nanos>, lognormal] {
            let (met, missed) = found(ALLOWED, 5_000.0, |seed| run(count, seed));
            assert!(met >= 190 && missed == 0, "{count}: {met} met, {missed} missed");
        }
    }
    let (met, _) = found(ALLOWED, 5_000.0, |seed| exponential(298, seed));
    assert_eq!(met, 0);
}

#[test]
fn shares_of_independent_times_away_from_the_allowed_one_are_decided() {
    // A fifth of the allowed share is over the bound, and twice the allowed share.
    let (met, _) = found(ALLOWED, 500_f64.ln(), |seed| exponential(3_000, seed));
    assert!(met >= 180, "{met}");
    // The 99.8th percentile of a standard normal variable is 2.878.
    let (met, _) = found(ALLOWED, (1.5_f64 * 2.878).exp(), |seed| lognormal(3_000, seed));
    assert!(met >= 180, "{met}");
    let (met, missed) = found(ALLOWED, 50_f64.ln(), |seed| exponential(3_000, seed));
    assert!(met == 0 && missed >= 180, "{met} met, {missed} missed");
}

#[test]
fn findings_on_a_bound_at_the_percentile_are_rarely_wrong() {
    let cases = [(0.01, 1_000), (0.01, 3_000), (0.1, 300), (0.1, 3_000), (0.5, 300)];
    for (allowed, count) in cases {
        let quantile = -f64::ln(allowed);
        let (met, missed) = found(allowed, quantile, |seed| exponential(count, seed));
        assert!(met.max(missed) <= MOST_WRONG, "{allowed} {count}: {met} met, {missed} missed");
        // The time in such a queue is exponential, too.
        let (met, missed) = found(allowed, 10.0 * quantile, |seed| queue(count, 0.9, seed));
        assert!(
            met.max(missed) <= MOST_WRONG,
            "queue {allowed} {count}: {met} met, {missed} missed"
        );
    }
    // The 99th percentile of a standard normal variable is 2.326.
    for correlation in [0.5, 0.9, 0.99] {
        let run = |seed| autoregressive(1_000, correlation, seed);
        let (met, missed) = found(ALLOWED, (0.5_f64 * 2.326).exp(), run);
        assert!(
            met.max(missed) <= MOST_WRONG,
            "autoregressive {correlation}: {met} met, {missed} missed"
        );
    }
}

#[test]
fn findings_in_queues_with_heavy_tailed_service_are_rarely_wrong() {
    // Percentiles by the formula of Pollaczek and Khinchine, on a grid.
    for (deviation, load, allowed, count, bound) in
        [(2.0, 0.5, 0.5, 5_000, 1.131), (1.5, 0.5, 0.1, 3_000, 13.985)]
    {
        let (met, missed) = found(allowed, bound, |seed| heavy_queue(count, deviation, load, seed));
        assert!(met.max(missed) <= MOST_WRONG, "{deviation} {count}: {met} met, {missed} missed");
    }
}

/// In long queues, the times over a distant bound are less or more correlated than those over the
/// percentile: only the latter matter.
#[test]
fn limits_cover_the_percentile_and_agree_with_the_finding_for_any_bound() {
    const RUNS: u64 = 100;
    // More of 100 have a probability of 1 % if each is wrong with probability 5 %.
    const MOST_WRONG: usize = 11;
    let cases = [(0.1, 0.9, 2_000), (0.1, 0.7, 2_000), (0.5, 0.9, 1_000), (0.01, 0.5, 3_000)];
    for (allowed, load, count) in cases {
        // The time in such a queue is exponential.
        let truth = -f64::ln(allowed) / (1.0 - load) * UNIT;
        let runs: Vec<Vec<Nanos>> = (0..RUNS).map(|seed| queue(count, load, seed)).collect();
        for factor in [0.5, 3.0] {
            let bound = factor * truth;
            let (mut too_low, mut too_high) = (0, 0);
            for run in &runs {
                let found = judge_times(run, allowed, bound as Nanos, RISK);
                let (low, high) = (found.low.unwrap(), found.high.unwrap_or(f64::INFINITY));
                assert_eq!(found.finding == Met, high <= bound, "{bound}: {found:?}");
                assert_eq!(found.finding == Missed, low > bound, "{bound}: {found:?}");
                // A limit is beyond the truth only if the finding on the truth is wrong.
                let at_truth = find_times(run, allowed, truth as Nanos, RISK).finding;
                assert_eq!(at_truth == Met, high <= truth, "{bound}: {found:?}");
                assert_eq!(at_truth == Missed, low > truth, "{bound}: {found:?}");
                too_low += usize::from(high < truth);
                too_high += usize::from(low > truth);
            }
            let name = format!("load {load}, {count} queries, {allowed} over {factor} truths");
            assert!(too_low.max(too_high) <= MOST_WRONG, "{name}: {too_low} low, {too_high} high");
        }
    }
}

#[test]
fn limits_are_bounds_that_are_just_met_and_just_not_missed() {
    for (allowed, run) in [(0.5, exponential(300, 1)), (0.1, queue(3_000, 0.5, 2))] {
        let finding = |bound: f64| find_times(&run, allowed, bound as Nanos, RISK).finding;
        let Judgment { low, high, .. } = judge_times(&run, allowed, UNIT as Nanos, RISK);
        let (low, high) = (low.unwrap(), high.unwrap());
        assert_eq!([finding(low - 1.0), finding(low)], [Missed, Undecided], "{allowed}: {low}");
        assert_eq!([finding(high - 1.0), finding(high)], [Undecided, Met], "{allowed}: {high}");
    }
    // No bound below the times is missed, and the longest time is no limit.
    let few = judge_times(&exponential(120, 3), 0.99, 1, RISK);
    assert_eq!((few.finding, few.low), (Undecided, Some(0.0)), "{few:?}");
    let short = judge_times(&exponential(200, 3), ALLOWED, UNIT as Nanos, RISK);
    assert_eq!(short.high, None, "{short:?}");
}

#[test]
fn limits_of_odd_runs_agree_with_the_finding_too() {
    for seed in 0..400_u64 {
        let mut source = Source(Mt19937::new(seed));
        let mut pick = |most: f64| (source.unit() * most) as u64;
        // Few values that tie, in rows of equal times, in ascending order, or as they come.
        let (count, values, row) = (100 + pick(300.0), 1 + pick(6.0), 1 + pick(40.0));
        let mut run: Vec<Nanos> = Vec::new();
        while run.len() < count as usize {
            let time = pick(values as f64);
            run.resize((run.len() as u64 + 1 + pick(row as f64)) as usize, time);
        }
        if seed % 5 == 0 {
            run.sort_unstable();
        }
        let allowed = [0.5, 0.1, 0.01, 1e-9, 0.99][pick(5.0) as usize];
        for bound in [0, 1, 2, 3, 7, Nanos::MAX] {
            let found = judge_times(&run, allowed, bound, RISK);
            let (low, high) = (found.low.unwrap(), found.high.unwrap_or(f64::INFINITY));
            let name = format!("{seed}, bound {bound}: {found:?}");
            let without_limits = Judgment { low: None, high: None, ..found };
            assert_eq!(find_times(&run, allowed, bound, RISK), without_limits, "{name}");
            assert!(low <= high, "{name}");
            assert_eq!(found.finding == Met, high <= bound as f64, "{name}");
            assert_eq!(found.finding == Missed, low > bound as f64, "{name}");
        }
    }
}

#[test]
fn a_run_may_lack_rows_as_long_as_its_longest_one() {
    // 40 rows of 4, and the same number of events of which 20 come in one row.
    let with = |longest: usize| {
        let others = (160 - longest) / 4;
        let rows = (0..others).flat_map(|row| (0..4).map(move |at| 1_000 + row * 970 + at));
        let at: Vec<usize> = (0..longest).chain(rows).collect();
        let mut run = vec![false; 40_000];
        at.iter().for_each(|&at| run[at] = true);
        judge_events(&run, 0.006, RISK)
    };
    assert_eq!(with(4).finding, Met);
    assert_eq!(with(20).finding, Undecided);
}

#[test]
fn harmless_patterns_meet_a_distant_bound_at_any_length() {
    const BOUND: Nanos = 500_000_000;
    for count in (299..4_000).step_by(173) {
        let met = |name: &str, times: &[Nanos]| {
            let judgment = judge_times(times, ALLOWED, BOUND, RISK);
            assert_eq!(judgment.finding, Met, "{name} {count}: {judgment:?}");
            assert!(judgment.high.is_some_and(|high| high <= BOUND as f64), "{judgment:?}");
        };
        let n = count as Nanos;
        let run = |time: &dyn Fn(Nanos) -> Nanos| (0..n).map(time).collect::<Vec<_>>();
        met("constant", &run(&|_| 13_000_000));
        met("drift by 1 %", &run(&|at| 100_000_000 + 1_000_000 * at / n));
        met("clock ticks", &run(&|at| 13_000_000 + at * 7 / n));
        for period in [4, 8] {
            met("period", &run(&|at| 13_000_000 * (1 + at % period)));
            let is_long = |at: Nanos| u64::from(at % period < period / 2);
            met("half period", &run(&|at| 13_000_000 * (1 + is_long(at))));
        }
        for seed in 0..5 {
            met("four servers", &servers(count, seed));
        }
    }
}

#[test]
fn a_run_as_long_as_its_correlation_proves_nothing() {
    let rising: Vec<Nanos> = (0..4_000).map(|at| 100_000_000 + 50_000 * at).collect();
    let judgment = judge_times(&rising, ALLOWED, 400_000_000, RISK);
    assert_eq!((judgment.finding, judgment.high), (Undecided, None));
    assert!(judgment.is_correlated, "{judgment:?}");
}

#[test]
fn the_advice_decides_if_the_share_stays() {
    let none = Effects { all: 1.0, rises: 1.0 };
    let some = Effects { all: 6.0, rises: 3.0 };
    for effects in [none, some] {
        for (events, trials) in [(0, 200), (1, 300), (4, 500), (7, 1_000), (13, 1_000)] {
            let now = Counts::new(events, trials, ALLOWED, RISK);
            assert_eq!(now.finding(effects), Undecided, "{now:?}");
            let more = now.more(effects).unwrap() as f64;
            let factor = 1.0 + more / now.trials;
            let then = Counts { events: now.events * factor, trials: now.trials + more, ..now };
            assert_ne!(then.finding(effects), Undecided, "{now:?} {more}");
            // A run of half that length needs the other half.
            let half = Counts {
                events: now.events * 0.5 * (1.0 + factor),
                trials: now.trials + (0.5 * more).floor(),
                ..now
            };
            assert!(half.more(effects).unwrap() as f64 <= 0.6 * more + 2.0, "{half:?} {more}");
        }
    }
    let equal = Counts::new(10, 1_000, ALLOWED, RISK);
    assert_eq!(equal.more(none), None);
}

#[test]
fn shares_of_events_are_judged_as_those_of_times() {
    assert_eq!(judge_events(&[false; 299], ALLOWED, RISK).finding, Met);
    let short = judge_events(&[false; 200], ALLOWED, RISK);
    assert_eq!((short.finding, short.more), (Undecided, Some(99)));
    assert_eq!(short.low, Some(0.0));
    let each = |every: usize| (0..3_000).map(|at| at % every == 0).collect::<Vec<_>>();
    assert_eq!(judge_events(&each(25), ALLOWED, RISK).finding, Missed);
    assert_eq!(judge_events(&each(1_000), ALLOWED, RISK).finding, Met);
    // By Clopper and Pearson, at most 13.9 % fail if 7 of 91 do, independently.
    let isolated = |at: usize| at % 13 == 12;
    let few = |is_event: &dyn Fn(usize) -> bool| (0..91).map(is_event).collect::<Vec<_>>();
    let judged = judge_events(&few(&isolated), 0.3, RISK);
    assert_eq!((judged.finding, judged.is_correlated), (Met, false));
    assert!(judged.high.is_some_and(|high| (0.13..0.145).contains(&high)), "{judged:?}");
    // Nearer to the share, more queries are needed, and nothing shows that failures come in rows.
    let near = judge_events(&few(&isolated), 0.1, RISK);
    assert_eq!((near.finding, near.is_correlated), (Undecided, false));
    // In one row they do.
    for row in [7, 9] {
        let in_row = judge_events(&few(&|at| (40..40 + row).contains(&at)), 0.3, RISK);
        assert_eq!((in_row.finding, in_row.is_correlated), (Undecided, true), "{in_row:?}");
    }
    // Without failures, 91 queries count as 22.75: 0.05^(1 / 22.75) = 0.8766.
    let none = judge_events(&[false; 91], 0.3, RISK);
    assert_eq!(none.finding, Met);
    assert!(none.high.is_some_and(|high| (high - 0.1234).abs() < 1e-3), "{none:?}");
    assert_eq!(judge_events(&[false; 91], 0.05, RISK).finding, Undecided);
    // The same events in one row are one observation.
    let row: Vec<bool> = (0..3_000).map(|at| (1_000..1_120).contains(&at)).collect();
    assert_eq!(judge_events(&row, ALLOWED, RISK).finding, Undecided);
}

/// A limit that no bound would be met or missed with is not shown.
#[test]
fn shares_of_too_few_queries_have_no_limits() {
    let fail = judge_events(&[true; 19], ALLOWED, RISK);
    assert_eq!((fail.finding, fail.low), (Undecided, None), "{fail:?}");
    let more = judge_events(&[true; 20], ALLOWED, RISK);
    assert_eq!(more.finding, Missed, "{more:?}");
    assert!(more.low.is_some_and(|low| low > ALLOWED), "{more:?}");
    let pass = judge_events(&[false; 79], 0.5, RISK);
    assert_eq!((pass.finding, pass.high), (Undecided, None), "{pass:?}");
    assert_eq!(judge_events(&[false; 80], 0.5, RISK).finding, Met);
}

#[test]
fn limits_of_shares_agree_with_the_finding() {
    for seed in 0..1_000_u64 {
        let share = [0.0, 0.003, 0.02, 0.3, 0.98][seed as usize % 5];
        let (count, row) = (5 + seed as usize * 7 % 1_200, 1.0 + (seed % 9) as f64);
        let run = failures(count, share, row, seed);
        for allowed in [0.001, 0.01, 0.05, 0.3, 0.9] {
            let found = judge_events(&run, allowed, RISK);
            let (low, high) = (found.low.unwrap_or(0.0), found.high.unwrap_or(1.0));
            let name = format!("{seed}, {allowed}: {found:?}");
            assert!(low <= high, "{name}");
            assert_eq!(found.finding == Met, high <= allowed, "{name}");
            assert_eq!(found.finding == Missed, low > allowed, "{name}");
        }
    }
}

/// Returns which of the queries fail: this share of them, this many in a row in the mean.
fn failures(count: usize, share: f64, row: f64, seed: u64) -> Vec<bool> {
    let mut source = Source(Mt19937::new(seed));
    let mut fails = source.unit() < share;
    let begins = share / (1.0 - share) / row;
    let next = |_| {
        let now = fails;
        fails ^= source.unit() < if now { 1.0 / row } else { begins };
        now
    };
    (0..count).map(next).collect()
}

#[test]
fn few_rows_of_failures_rarely_meet_a_bound_at_their_share() {
    for (count, row) in [(2_000, 20.0), (5_000, 20.0), (20_000, 200.0)] {
        let judged = (0..RUNS).map(|seed| {
            let run = failures(count, 0.02, row, seed);
            (run.contains(&true), judge_events(&run, 0.02, RISK))
        });
        let judged: Vec<(bool, Judgment)> = judged.collect();
        let wrong = judged.iter().filter(|(fails, of)| *fails && of.finding == Met).count();
        assert!(wrong <= MOST_WRONG, "{count}, {row}: {wrong}");
        for (fails, of) in judged {
            assert_eq!(of.assumes_independence, !fails && of.finding == Met, "{of:?}");
        }
    }
}

#[test]
fn independent_failures_far_below_the_bound_meet_it() {
    for share in [0.0, 0.001, 0.002, 0.005] {
        let run = |seed| failures(2_000, share, 1.0 / (1.0 - share), seed);
        let is_met = |&seed: &u64| judge_events(&run(seed), 0.02, RISK).finding == Met;
        let met = (0..RUNS).filter(is_met).count();
        assert!(met >= 195, "{share}: {met}");
    }
}

#[test]
fn a_row_counts_as_one_event_of_unknown_length() {
    let at = |failed: [usize; 3]| {
        let run: Vec<bool> = (0..2_000).map(|at| failed.contains(&at)).collect();
        judge_events(&run, 0.02, RISK)
    };
    assert_eq!(at([300, 900, 1_700]).finding, Met);
    for failed in [[300, 301, 302], [300, 303, 307]] {
        let row = at(failed);
        assert_eq!((row.finding, row.is_correlated), (Undecided, true), "{row:?}");
        assert!(row.high.is_none_or(|high| high > 0.02), "{row:?}");
    }
}

#[test]
fn more_rows_decide_after_the_advised_number_of_queries() {
    let of = |count: usize| {
        let run: Vec<bool> = (0..count).map(|at| at % 20_000 < 10).collect();
        judge_events(&run, 0.001, RISK)
    };
    let short = of(20_000);
    assert_eq!((short.finding, short.is_correlated), (Undecided, true), "{short:?}");
    let more = short.more.unwrap() as usize;
    let rows = (20_000 + more).div_ceil(20_000);
    assert_eq!(of(20_000 * (rows + 1)).finding, Met, "{more}");
    assert_eq!(of(20_000 * (rows / 2)).finding, Undecided, "{more}");
}
