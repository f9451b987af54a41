//! One server that stalls once, seen by three clients.
//!
//! `cargo run --release -p dyno --example coordinated_omission`

use std::collections::VecDeque;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::{Outcome, Record};
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Arrivals, Scenario, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

const SERVICE: Nanos = MILLISECOND;
const STALL: std::ops::Range<Nanos> = 5 * SECOND..6 * SECOND;
const RATE: f64 = 500.0;
const LASTS_MS: u64 = 10_000;
/// Latency that a user would call slow.
const SLOW: Nanos = 10 * MILLISECOND;

/// Answers queries one by one in a millisecond each; queries that would begin during the stall
/// begin after it.
#[derive(Default)]
struct Stalling {
    free_at: Nanos,
    queue: VecDeque<(Nanos, ResponseId)>,
}

impl SimulatedSystem for Stalling {
    fn name(&self) -> &str {
        "a server that stalls"
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        let mut begin = self.free_at.max(now);
        if STALL.contains(&begin) {
            begin = STALL.end;
        }
        self.free_at = begin + SERVICE;
        self.queue.push_back((self.free_at, query.first));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.queue.front().map(|(at, _)| *at)
    }

    fn advance(&mut self, _now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        let Some((_, id)) = self.queue.pop_front() else { return };
        let outcome = Outcome::Ok { tokens: 0 };
        completions.push(SimulatedCompletion { id, first_token_at: None, outcome });
    }
}

/// An empty sample.
struct OneSample;

impl SampleLibrary for OneSample {
    fn name(&self) -> &str {
        "one"
    }

    fn total_sample_count(&self) -> usize {
        1
    }
}

fn play(settings: TestSettings) -> Record {
    let plan = Plan::resolve(&settings, Library { total: 1, performance: 1 });
    let plan = plan.expect("the settings make sense");
    let tenant =
        Tenant { settings: settings.into(), plan, library: &OneSample, messages: Vec::new() };
    let mut system = Stalling::default();
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let log = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
    log.runs().next().expect("a test has a run").record.clone()
}

fn settings(scenario: Scenario) -> TestSettings {
    TestSettings {
        scenario,
        min_duration_ms: LASTS_MS,
        continue_trace: true,
        server_target_qps: RATE,
        server_arrivals: Arrivals::Constant,
        ..TestSettings::default()
    }
}

/// Results of one client.
pub struct Report {
    /// How the client works.
    pub client: &'static str,
    /// Recorded latencies, ascending, ns.
    pub latencies: Vec<Nanos>,
}

impl Report {
    fn new(client: &'static str, latencies: impl Iterator<Item = Nanos>) -> Self {
        let mut latencies: Vec<Nanos> = latencies.collect();
        latencies.sort_unstable();
        Self { client, latencies }
    }

    /// The value at the rounded-down index, as everywhere in Dyno.
    pub fn percentile(&self, q: f64) -> Nanos {
        self.latencies[(self.latencies.len() as f64 * q) as usize]
    }

    /// Share of the queries that took longer than [`SLOW`].
    pub fn slow(&self) -> f64 {
        let slow = self.latencies.iter().filter(|&&latency| latency > SLOW).count();
        slow as f64 / self.latencies.len() as f64
    }
}

/// The three clients.
pub fn reports() -> [Report; 3] {
    let closed = play(settings(Scenario::SingleStream));
    let closed = closed.issued_at.iter().zip(&closed.completed_at).map(|(from, to)| to - from);
    let open = play(settings(Scenario::Server));
    // A client with one connection sends a due query after the answer to the previous one. The server
    // answers in order, so it notices no difference: the queries wait in the client instead of in
    // its queue.
    let before = [0].iter().chain(&open.completed_at);
    let sent = open.scheduled_at.iter().zip(before).map(|(due, before)| due.max(before));
    let from_sending = open.completed_at.iter().zip(sent).map(|(to, sent)| to - sent);
    let due = open.completed_at.iter().zip(&open.scheduled_at).map(|(to, from)| to - from);
    [
        Report::new("one query after the other", closed),
        Report::new("500/s, timed from sending", from_sending),
        Report::new("500/s, timed from due", due),
    ]
}

/// The table of the book.
pub fn text() -> String {
    let mut text = format!("{:<26}  queries  p50 ms  p90 ms  p99 ms  max ms   > 10 ms\n", "client");
    for report in reports() {
        let ms = |ns: Nanos| ns as f64 / MILLISECOND as f64;
        text += &format!(
            "{:<26}  {:7}  {:6.1}  {:6.1}  {:6.1}  {:6.0}  {:6.2} %\n",
            report.client,
            report.latencies.len(),
            ms(report.percentile(0.5)),
            ms(report.percentile(0.9)),
            ms(report.percentile(0.99)),
            ms(report.percentile(1.0 - 1e-9)),
            100.0 * report.slow(),
        );
    }
    text
}

fn main() {
    print!("{}", text());
}
