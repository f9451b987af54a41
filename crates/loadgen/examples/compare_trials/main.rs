//! How often `dyno compare` raises a false alarm, and how often it sees a change, on systems whose
//! truth is known.
//!
//! Figures as JSON lines on stdout, tables on stderr. With `--gates`, only gates in slices are
//! tried, whose figures `bench/truth` prints; with `--designs`, three ways to find the interval of
//! a percentile are compared.
//!
//! `cargo run --release -p dyno-loadgen --example compare_trials -- [--trials N] [--case TEXT]
//! [--gates] [--designs]` `--case` takes only the cases whose name contains the text.

mod designs;
mod gates;
mod sessions;
mod systems;

use dyno_loadgen::compare::{Doubt, Finding, Metric, Options, RISK, Row, Series, Verdict, compare};

use crate::sessions::Session;
use crate::systems::System;

/// Percent by which the candidate is slower.
const EFFECTS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// Options of `dyno compare` for Server runs, with the metrics of these runs.
fn options(session: &Session) -> Options {
    let percentile = |p| Metric::Percentile(Series::Latency, p);
    let mut further = vec![
        percentile(0.5),
        percentile(0.9),
        percentile(0.999),
        Metric::Mean(Series::Latency),
        Metric::Throughput,
    ];
    match session.system {
        System::MassFailure(_) => further.push(Metric::Failures),
        System::Tokens => {
            let series = [Series::FirstToken, Series::TimePerOutputToken];
            let metrics = |s| [0.5, 0.99].map(|p| Metric::Percentile(s, p));
            further.extend(series.into_iter().flat_map(metrics));
        }
        _ => {}
    }
    // Without a margin every false alarm counts.
    Options { margin: 0.0, ..Options::new(percentile(0.99), further, session.pairing) }
}

/// What came of many comparisons, in percent of them.
#[derive(Debug, Default)]
struct Shares {
    /// Better or worse in any metric.
    different: f64,
    /// Worse in any.
    worse: f64,
    /// The interval of the headline has no limit, or drift could explain it.
    unknown: f64,
    /// Inconclusive because runs drifted.
    drifted: f64,
}

impl Shares {
    fn measure(session: &Session, trials: u64, factor: f64) -> Self {
        let mut shares = Self::default();
        let one = 100.0 / trials as f64;
        for trial in 0..trials {
            let [baseline, candidate] = session.play(trial, factor);
            let found = compare(&baseline, &candidate, &options(session));
            let has = |finding: Finding| found.rows.iter().any(|row| row.finding == finding);
            let add = |share: &mut f64, counts: bool| *share += if counts { one } else { 0.0 };
            add(&mut shares.different, has(Finding::Worse) || has(Finding::Better));
            add(&mut shares.worse, found.verdict == Verdict::Worse);
            add(&mut shares.unknown, is_unknown(&found.rows, session));
            add(&mut shares.drifted, has(Finding::Inconclusive(Doubt::Drift)));
        }
        shares
    }
}

/// Whether the headline is inconclusive for another reason than a wide interval.
fn is_unknown(rows: &[Row], session: &Session) -> bool {
    let headline = options(session).headline;
    let of_headline = rows.iter().find(|row| row.metric == headline).map(|row| row.finding);
    matches!(of_headline, None | Some(Finding::Inconclusive(Doubt::TooFew | Doubt::Drift)))
}

fn false_alarms(sessions: &[Session], trials: u64) {
    eprintln!("False alarms: baseline and candidate are the same; % of {trials} comparisons");
    eprintln!("{:62} any  worse  cannot tell  (drift)", "");
    let mut worst: f64 = 0.0;
    for session in sessions {
        let shares = Shares::measure(session, trials, 1.0);
        worst = worst.max(shares.different);
        tell(session.name, &shares);
    }
    let error = (worst * (100.0 - worst) / trials as f64).sqrt();
    let head = format!("{{\"name\": \"compare.false_alarm_percent\", \"value\": {worst:.2}, ");
    println!(
        "{head}\"unit\": \"%\", \"stated\": {}, \"standard_error\": {error:.2}, \
         \"trials\": {trials}, \"cases\": {}}}",
        100.0 * RISK,
        sessions.len()
    );
    eprintln!("Not counted above, because nothing in these runs tells:");
    for session in sessions::unseen() {
        tell(session.name, &Shares::measure(&session, trials, 1.0));
    }
}

fn tell(name: &str, shares: &Shares) {
    let Shares { different, worse, unknown, drifted } = shares;
    eprintln!("{name:60} {different:5.1}  {worse:5.1}  {unknown:11.1}  {drifted:7.1}");
}

fn power(sessions: &[Session], trials: u64) {
    eprintln!("Power: the candidate is slower by so much; % of {trials} found worse");
    eprintln!("{:62}{}", "", EFFECTS.map(|e| format!("{e:5} %")).join(" "));
    for session in sessions {
        let found =
            EFFECTS.map(|percent| Shares::measure(session, trials, 1.0 + percent / 100.0).worse);
        eprintln!("{:60}  {}", session.name, found.map(|share| format!("{share:7.1}")).join(""));
        for (percent, share) in EFFECTS.iter().zip(found) {
            println!(
                "{{\"name\": \"compare.power_percent\", \"case\": \"{}\", \"effect_percent\": \
                 {percent}, \"value\": {share:.1}, \"unit\": \"%\", \"trials\": {trials}}}",
                session.name
            );
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).cloned()
    };
    let trials: u64 = value("--trials").and_then(|text| text.parse().ok()).unwrap_or(400);
    if arguments.iter().any(|argument| argument == "--designs") {
        designs::tell(trials);
        return;
    }
    if arguments.iter().any(|argument| argument == "--gates") {
        gates::print(trials);
        return;
    }
    let of_name = value("--case").unwrap_or_default();
    let mut sessions = sessions::all();
    sessions.retain(|session| session.name.contains(&of_name));
    false_alarms(&sessions, trials);
    // Power need not be known as well as false alarms.
    power(&sessions, trials.div_ceil(4).min(100));
}
