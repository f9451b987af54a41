//! Plays the search for the peak, and plain bisection with full runs, against
//! simulated systems whose peak is known. Prints one JSON line a system and two
//! over all.
//!
//! `cargo run --release -p dyno-loadgen --example search_trials [-- TRIALS [SYSTEM]]`
//!
//! TRIALS (by default 26) is for each system; SYSTEM is part of a name. With
//! `-v` as a further argument each trial is printed. `--floors` plays the short searches of the
//! command, also on systems that use up a part of the allowed share at any load.

mod systems;

use dyno_loadgen::clock::{Nanos, SECOND, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::log::{Report, reports};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::run::{RecordRetention, RunLog, Tenant, TestLog, run};
use dyno_loadgen::search::{
    End, Limit, Observation, Outcome, Purpose, Quantity, Rules, Search, Step, Unit,
};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Scenario, Settings, TestSettings};

use systems::Case;

/// As official runs have it.
const FULL: Nanos = 600 * SECOND;
const SHORT: Nanos = 10 * SECOND;
const TOLERANCE: f64 = 0.01;
/// Where both searches begin: a fraction of the peak that differs from trial to
/// trial, as a user's guess does.
const FROM: std::ops::Range<f64> = 0.03..0.6;
/// What counts as found.
const WITHIN: f64 = 0.02;

struct Numbers;

impl SampleLibrary for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }
    fn total_sample_count(&self) -> usize {
        1_024
    }
}

/// The percentile that a run of this case is judged by, and its bound in ns, as
/// `dyno search` sets them.
fn target(case: &Case) -> (f64, Nanos) {
    const NO_BOUND: Nanos = 24 * 3_600 * SECOND;
    let of_latency = case.limits.iter().filter(|limit| limit.quantity == Quantity::Latency);
    let strictest = of_latency.min_by(|a: &&Limit, b| a.allowed.total_cmp(&b.allowed));
    strictest.map_or((0.99, NO_BOUND), |limit| (1.0 - limit.allowed, limit.bound))
}

/// One run at this rate.
fn play(case: &Case, rate: f64, duration: Nanos, most_outstanding: u64, seed: u64) -> TestLog {
    let (percentile, bound) = target(case);
    let settings = TestSettings {
        server_target_latency_percentile: percentile,
        server_target_latency_ns: bound,
        scenario: Scenario::Server,
        server_target_qps: rate,
        min_duration_ms: duration / 1_000_000,
        min_query_count: 1,
        server_max_async_queries: most_outstanding,
        schedule_rng_seed: seed,
        ..TestSettings::default()
    };
    let plan = Plan::resolve(&settings, Library { total: 1_024, performance: 1_024 });
    let plan = plan.expect("settings of a simulation");
    let tenant =
        Tenant { settings: Settings::from(settings), plan, library: &Numbers, messages: vec![] };
    let mut system = (case.build)(seed.wrapping_mul(7_919));
    let mut driver = VirtualTime::new(&mut *system, WallTime { unix_ns: 0 });
    run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0)
}

/// Whether a run keeps all limits, over all its queries.
fn keeps_all(case: &Case, run: &RunLog) -> bool {
    case.limits.iter().all(|limit| limit.is_kept(&limit.blocks(&run.record, FULL)))
}

struct Trial {
    outcome: Outcome,
    refined: Nanos,
    took: Nanos,
    runs: usize,
}

fn rules(case: &Case, from: f64) -> Rules {
    Rules {
        limits: case.limits.clone(),
        from,
        to: None,
        unit: Unit::Rate,
        tolerance: TOLERANCE,
        short: SHORT,
        full: FULL,
        full_queries: 0,
        certain_queries: 0,
        full_runs: 1,
        most_queries: 5_000_000,
        max_time: 24 * 3_600 * SECOND,
        confirmations: 4,
    }
}

/// As the command has it without settings.
fn quick_rules(case: &Case, from: f64) -> Rules {
    Rules { short: 2 * SECOND, full: 10 * SECOND, certain_queries: 1_836, ..rules(case, from) }
}

fn search(case: &Case, rules: Rules, seed: u64) -> Trial {
    let mut search = Search::new(rules);
    loop {
        let probe = match search.next() {
            Step::Run(probe) => probe,
            Step::Done(outcome) => {
                let is_short =
                    |told: &&Observation| !matches!(told.probe.purpose, Purpose::Confirm { .. });
                return Trial {
                    outcome,
                    refined: search.observations().iter().filter(is_short).map(|t| t.took).sum(),
                    took: search.spent(),
                    runs: search.observations().len(),
                };
            }
        };
        let patience = search.most_outstanding(&probe);
        let log = play(case, probe.load, probe.duration, patience, seed * 1_000 + probe.number);
        let run = log.runs().next().expect("one run");
        let blocks = case.limits.iter().map(|l| l.blocks(&run.record, probe.duration)).collect();
        // As in the command: the counts of its limits and the verdict of the run.
        let is_valid = match probe.purpose {
            Purpose::Confirm { .. } => reports(&log).iter().all(Report::is_valid),
            Purpose::Bracket | Purpose::Refine => true,
        };
        search.observe(Observation {
            probe,
            took: run.finished_at,
            overloaded: matches!(run.ended, EndReason::TooManyOutstanding { .. }),
            passed: is_valid && keeps_all(case, run),
            blocks,
        });
    }
}

/// Doubling and bisection to the same tolerance, each step a full run, each
/// believed. Returns the rate and the time.
fn plain(case: &Case, from: f64, seed: u64) -> (f64, Nanos) {
    let (mut low, mut high, mut took, mut number) = (0.0, f64::INFINITY, 0, 0);
    while high - low > TOLERANCE * low {
        let rate = if low == 0.0 && high.is_infinite() {
            from
        } else if high.is_infinite() {
            low * 2.0
        } else if low == 0.0 {
            high / 2.0
        } else {
            f64::midpoint(low, high)
        };
        let log = play(case, rate, FULL, 0, seed * 1_000 + 500 + number);
        number += 1;
        let run = log.runs().next().expect("one run");
        // Not the time in which an overload drains: an abort would save it.
        took += run.finished_at.min(FULL + SECOND);
        *(if keeps_all(case, run) { &mut low } else { &mut high }) = rate;
    }
    (low, took)
}

#[derive(Default)]
struct Totals {
    trials: u32,
    within: u32,
    confirmed: u32,
    confirmed_within: u32,
    covered: u32,
    plain_within: u32,
    time: Nanos,
    time_short: Nanos,
    time_plain: Nanos,
    runs: usize,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.trials += other.trials;
        self.within += other.within;
        self.confirmed += other.confirmed;
        self.confirmed_within += other.confirmed_within;
        self.covered += other.covered;
        self.plain_within += other.plain_within;
        self.time += other.time;
        self.time_short += other.time_short;
        self.time_plain += other.time_plain;
        self.runs += other.runs;
    }

    fn share(&self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.trials)
    }

    fn line(&self, name: &str, peak: f64) -> String {
        let mean = |sum: Nanos| sum as f64 / 1e9 / f64::from(self.trials);
        format!(
            "{{\"name\":\"search.trials\",\"system\":\"{name}\",\"peak_qps\":{peak:.2},\
             \"trials\":{},\"within_2_percent\":{:.4},\"confirmed\":{:.4},\
             \"confirmed_within_2_percent\":{:.4},\"interval_covers\":{:.4},\
             \"plain_within_2_percent\":{:.4},\"runs\":{:.1},\"short_s\":{:.0},\"total_s\":{:.0},\
             \"plain_s\":{:.0},\"time_against_plain\":{:.3}}}",
            self.trials,
            self.share(self.within),
            self.share(self.confirmed),
            self.share(self.confirmed_within),
            self.share(self.covered),
            self.share(self.plain_within),
            self.runs as f64 / f64::from(self.trials),
            mean(self.time_short),
            mean(self.time),
            mean(self.time_plain),
            self.time as f64 / self.time_plain as f64,
        )
    }
}

fn trials(case: &Case, count: u64, is_told: bool) -> Totals {
    let mut totals = Totals::default();
    for seed in 1..=count {
        let part = seed as f64 * 0.618_034 % 1.0;
        let from = case.peak * (FROM.start + (FROM.end - FROM.start) * part);
        let trial = search(case, rules(case, from), seed);
        let (plain_rate, plain_time) = plain(case, from, seed);
        let is_within = |rate: f64| u32::from((rate / case.peak - 1.0).abs() <= WITHIN);
        let peak = trial.outcome.peak.as_ref().expect("every system is bracketed");
        let covers = peak.low <= case.peak && case.peak <= peak.high;
        if is_told {
            println!(
                "{seed}: {:.1} [{:.1}, {:.1}] {:+.2} %, confirmed {:?}, {} runs, {} s; plain {plain_rate:.1} {:+.2} %, {} s",
                peak.load,
                peak.low,
                peak.high,
                100.0 * (peak.load / case.peak - 1.0),
                trial.outcome.confirmed,
                trial.runs,
                trial.took / SECOND,
                100.0 * (plain_rate / case.peak - 1.0),
                plain_time / SECOND,
            );
        }
        let confirmed = trial.outcome.end == End::Confirmed;
        totals.add(&Totals {
            trials: 1,
            within: is_within(peak.load),
            confirmed: u32::from(confirmed),
            confirmed_within: trial.outcome.confirmed.map_or(0, is_within),
            covered: u32::from(covers),
            plain_within: is_within(plain_rate),
            time: trial.took,
            time_short: trial.refined,
            time_plain: plain_time,
            runs: trial.runs,
        });
    }
    totals
}

/// Plays searches of a system that uses up a part of the allowed share at any load. Prints how they
/// ended, and how many stated a peak that is not the one known, or none although there is one.
fn floor_trials(case: &Case, count: u64, is_told: bool) {
    let (mut ends, mut wrong, mut stated) = (std::collections::BTreeMap::new(), 0, 0);
    let (mut runs, mut took, mut width, mut bias) = (0, 0, 0.0, 0.0);
    for seed in 1..=count {
        let part = seed as f64 * 0.618_034 % 1.0;
        let top = if case.peak > 0.0 { case.peak } else { 300.0 };
        let from = top * (FROM.start + (FROM.end - FROM.start) * part);
        let trial = search(case, quick_rules(case, from), seed);
        let end = trial.outcome.end;
        // The command states no peak of an unclear search.
        let peak = trial.outcome.peak.filter(|_| end != End::Unclear);
        let is_wrong = match &peak {
            Some(peak) => !(peak.low <= case.peak && case.peak <= peak.high),
            None => end != End::Unclear && (end != End::NothingPasses || case.peak > 0.0),
        };
        stated += u32::from(peak.is_some());
        wrong += u32::from(is_wrong);
        width += peak.as_ref().map_or(0.0, |peak| (peak.high - peak.low) / 2.0 / peak.load);
        bias += peak.as_ref().map_or(0.0, |peak| peak.load / case.peak - 1.0);
        *ends.entry(format!("{end:?}")).or_insert(0) += 1;
        (runs, took) = (runs + trial.runs, took + trial.took / SECOND);
        if is_told {
            let peak = peak.map(|peak| [peak.low, peak.load, peak.high].map(f64::round));
            println!("{seed}: {end:?} {peak:?}, {} runs, is wrong: {is_wrong}", trial.runs);
        }
    }
    println!(
        "{{\"name\":\"search.floors\",\"system\":\"{}\",\"peak_qps\":{:.2},\"trials\":{count},\"wrong\":{wrong},\
         \"stated\":{stated},\"bias_percent\":{:.2},\"half_width\":{:.3},\"runs\":{:.1},\"total_s\":{:.0},\"ends\":{ends:?}}}",
        case.name,
        case.peak,
        100.0 * bias / f64::from(stated.max(1)),
        width / f64::from(stated.max(1)),
        runs as f64 / count as f64,
        took as f64 / count as f64,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has_floors = arguments.iter().any(|argument| argument == "--floors");
    let is_told = arguments.iter().any(|argument| argument == "-v");
    let mut plain = arguments.iter().filter(|argument| !argument.starts_with('-'));
    let count = plain.next().map_or(26, |text| text.parse().expect("a number of trials"));
    let system = plain.next().map_or("", |text| text);
    if has_floors {
        let all = systems::cases().into_iter().chain(systems::floors());
        let cases = all.filter(|case| case.name.contains(system));
        cases.for_each(|case| floor_trials(&case, count, is_told));
        return;
    }
    let mut all = Totals::default();
    for case in systems::cases().iter().filter(|case| case.name.contains(system)) {
        let totals = trials(case, count, is_told);
        println!("{}", totals.line(case.name, case.peak));
        all.add(&totals);
    }
    let line = |name: &str, value: f64, unit: &str| {
        println!(
            "{{\"name\":\"{name}\",\"value\":{value:.4},\"unit\":\"{unit}\",\"trials\":{}}}",
            all.trials
        );
    };
    line("search.within_2_percent", all.share(all.within), "share of trials");
    line("search.confirmed_within_2_percent", all.share(all.confirmed_within), "share of trials");
    line("search.time_against_plain", all.time as f64 / all.time_plain as f64, "ratio");
}
