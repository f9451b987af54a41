//! Probability that a run counts, by how often its system misses the bound: by the percentile
//! alone, and with early stopping.
//!
//! `cargo run --release -p dyno --example early_stopping [FIGURE.svg]`

use std::fmt::Write as _;
use std::process::ExitCode;

use dyno_loadgen::clock::{MILLISECOND, Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::Outcome;
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_loadgen::verdict::judge;

/// Simulated runs behind each point.
const RUNS: u32 = 500;
/// Queries in a run.
const LENGTHS: [u64; 2] = [1_000, 5_000];
/// Share of late queries, in hundredths of a percent. The bound allows 1 %.
const SHARES: [u32; 9] = [20, 40, 60, 80, 100, 120, 140, 160, 180];
const BOUND: Nanos = 100 * MILLISECOND;
/// Longer than any answer takes, so that queries do not overlap.
const GAP: Nanos = 1_000 * MILLISECOND;

/// Misses the bound with a fixed probability, query by query.
struct Sometimes {
    late: f64,
    random: Mt19937,
    next: Option<(Nanos, ResponseId)>,
}

impl SimulatedSystem for Sometimes {
    fn name(&self) -> &str {
        "sometimes late"
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        let is_late = self.random.canonical() < self.late;
        self.next = Some((now + if is_late { 2 * BOUND } else { BOUND / 2 }, query.first));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.next.map(|(at, _)| at)
    }

    fn advance(&mut self, _now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        let Some((_, id)) = self.next.take() else { return };
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

/// Shares of runs that pass, in [0, 1].
#[derive(Debug, Clone, Copy)]
pub struct PassedShares {
    /// The measured p99 is within the bound.
    pub percentile: f64,
    /// The run has enough queries to rule out luck.
    pub early_stopping: f64,
}

/// Simulates [`RUNS`] runs of this many queries on a system with this share of late queries.
pub fn passed(queries: u64, late: f64) -> PassedShares {
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_target_qps: 1e9 / GAP as f64,
        server_arrivals: dyno_loadgen::settings::Arrivals::Constant,
        server_target_latency_ns: BOUND,
        min_query_count: queries,
        min_duration_ms: 0,
        ..TestSettings::default()
    };
    let plan = Plan::resolve(&settings, Library { total: 1, performance: 1 });
    let plan = plan.expect("the settings make sense");
    let (mut percentile, mut early_stopping) = (0, 0);
    for seed in 0..RUNS {
        let mut system = Sometimes { late, random: Mt19937::new(u64::from(seed) + 1), next: None };
        let tenant = Tenant {
            settings: settings.clone().into(),
            plan: plan.clone(),
            library: &OneSample,
            messages: Vec::new(),
        };
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        let log = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
        let run = log.runs().next().expect("a test has a run");
        let judged = judge(&Metrics::from_record(&run.record, &run.plan), &run.plan, run.ended);
        percentile += u32::from(judged.performance_met == Some(true));
        early_stopping += u32::from(judged.early_stopping_met);
    }
    let share = |count: u32| f64::from(count) / f64::from(RUNS);
    PassedShares { percentile: share(percentile), early_stopping: share(early_stopping) }
}

/// Results by length of the run and share of late queries.
pub fn table() -> [Vec<PassedShares>; 2] {
    LENGTHS.map(|queries| {
        SHARES.iter().map(|&share| passed(queries, f64::from(share) / 1e4)).collect()
    })
}

/// The table of the book.
pub fn text(table: &[Vec<PassedShares>; 2]) -> String {
    let mut text = String::from(
        "             1,000 queries a run           5,000 queries a run\n\
         truly late   p99 in bound  early stopping   p99 in bound  early stopping\n",
    );
    for (i, &share) in SHARES.iter().enumerate() {
        let _ = write!(text, "{:8.1} %", f64::from(share) / 100.0);
        for passed in [table[0][i], table[1][i]] {
            let PassedShares { percentile, early_stopping } = passed;
            let (percentile, early_stopping) = (100.0 * percentile, 100.0 * early_stopping);
            let _ = write!(text, "   {percentile:10.1} %  {early_stopping:12.1} %");
        }
        text.push('\n');
    }
    text
}

/// The plot within the figure: left, top, right, bottom.
const PLOT: [f64; 4] = [56.0, 20.0, 470.0, 290.0];

fn x(share: f64) -> f64 {
    PLOT[0] + share / 200.0 * (PLOT[2] - PLOT[0])
}

fn y(passed: f64) -> f64 {
    PLOT[3] - passed * (PLOT[3] - PLOT[1])
}

const HEAD: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340" font-family="sans-serif" font-size="13" role="img" aria-label="Share of runs that pass against the share of late queries">
<style>
svg { --ink: #222; --grid: #ddd; --a: #0b62a4; --b: #b34700; background: #fff }
@media (prefers-color-scheme: dark) { svg { --ink: #ddd; --grid: #444; --a: #6cb4ee; --b: #ffa25c; background: #1b1b1b } }
text { fill: var(--ink) } .grid { stroke: var(--grid) } .limit { stroke: var(--ink); stroke-dasharray: 2 4 }
path { fill: none; stroke-width: 2 } .n0 { stroke: var(--a) } .n1 { stroke: var(--b) } .percentile { stroke-dasharray: 7 4 }
</style>
"##;

/// The figure of the book.
pub fn svg(table: &[Vec<PassedShares>; 2]) -> String {
    let mut svg = String::from(HEAD);
    let [left, top, right, bottom] = PLOT;
    for percent in [0, 25, 50, 75, 100] {
        let at = y(f64::from(percent) / 100.0);
        let _ = writeln!(
            svg,
            r#"<line class="grid" x1="{left}" x2="{right}" y1="{at:.1}" y2="{at:.1}"/><text x="{}" y="{:.1}" text-anchor="end">{percent} %</text>"#,
            left - 6.0,
            at + 4.0
        );
    }
    for share in [0, 50, 100, 150, 200] {
        let at = x(f64::from(share));
        let label = f64::from(share) / 100.0;
        let _ = writeln!(
            svg,
            r#"<text x="{at:.1}" y="{}" text-anchor="middle">{label} %</text>"#,
            bottom + 18.0
        );
    }
    let (middle, below) = (f64::midpoint(left, right), bottom + 38.0);
    let limit = x(100.0);
    let _ = writeln!(
        svg,
        r#"<line class="limit" x1="{limit}" x2="{limit}" y1="{top}" y2="{bottom}"/><text x="{}" y="{}">the bound allows 1 %</text>
<text x="{middle}" y="{below}" text-anchor="middle">queries that really are late</text>"#,
        limit + 6.0,
        top + 12.0
    );
    for (n, rows) in table.iter().enumerate() {
        curve(&mut svg, &format!("n{n} percentile"), rows.iter().map(|row| row.percentile));
        curve(&mut svg, &format!("n{n}"), rows.iter().map(|row| row.early_stopping));
    }
    let key = [
        ("n0 percentile", "1,000: p99 in bound"),
        ("n0", "1,000: early stopping"),
        ("n1 percentile", "5,000: p99 in bound"),
        ("n1", "5,000: early stopping"),
    ];
    for (i, (class, label)) in (0_u8..).zip(key) {
        let at = 60.0 + 24.0 * f64::from(i);
        let _ = writeln!(
            svg,
            r#"<path class="{class}" d="M482 {at}h22"/><text x="510" y="{}" font-size="12">{label}</text>"#,
            at + 4.0
        );
    }
    svg + "</svg>\n"
}

fn curve(svg: &mut String, class: &str, values: impl Iterator<Item = f64>) {
    let points = SHARES.iter().zip(values);
    let points =
        points.map(|(&share, value)| format!("{:.1} {:.1}", x(f64::from(share)), y(value)));
    let points: Vec<String> = points.collect();
    let _ = writeln!(svg, r#"<path class="{class}" d="M{}"/>"#, points.join("L"));
}

fn main() -> ExitCode {
    let table = table();
    print!("{}", text(&table));
    let Some(path) = std::env::args_os().nth(1) else { return ExitCode::SUCCESS };
    if let Err(error) = std::fs::write(&path, svg(&table)) {
        eprintln!("cannot write {}: {error}", path.display());
        return ExitCode::from(3);
    }
    ExitCode::SUCCESS
}
