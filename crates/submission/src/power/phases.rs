//! Checks that the clocks agree and that both runs are within the phases of the session.

use serde_json::Value;

use super::equipment::Equipment;
use super::run::{Run, Runs};
use super::session::Session;
use super::{PowerChecker, PowerFinding, Report};

const CHECK: &str = "power.phases";
const AGAIN: &str = "synchronize both machines with the same time server, and measure again";

/// Checks both runs: the clocks of client and server, the start and end of the run within its
/// phase, then the two runs against each other.
pub(super) fn check(
    client: &Session,
    server: &Session,
    runs: &Runs,
    rules: &Equipment,
    program: PowerChecker,
    report: &mut Report,
) {
    for (name, run) in [("ranging", &runs.ranging), ("testing", &runs.testing)] {
        let ours = times(client, name);
        let theirs = times(server, name);
        check_clocks(name, &ours, &theirs, server.file, rules, report);
        check_inside(name, run, &ours, report);
    }
    let cut = check_durations(runs, report);
    // The official program ends this check after its warning.
    if !(cut && program != PowerChecker::Rules) {
        check_watts(runs, rules, report);
    }
}

/// Returns when each part of a phase began, in seconds since 1970 by the clock of that side.
fn times(session: &Session, phase: &str) -> Vec<f64> {
    let list = session.value(&["phases", phase]).as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|pair| pair.get(0).and_then(Value::as_f64).unwrap_or(f64::NAN)).collect()
}

fn check_clocks(
    name: &str,
    ours: &[f64],
    theirs: &[f64],
    file: &str,
    rules: &Equipment,
    report: &mut Report,
) {
    let tolerance = rules.clock_tolerance_ms;
    if ours.len() != theirs.len() || ours.len() < 4 {
        let message = format!("times in {name}: {}, in client.json: {}", theirs.len(), ours.len());
        report.add(PowerFinding::error(CHECK, file, message, AGAIN).expected("4 times in both"));
    }
    for (number, (our, their)) in ours.iter().zip(theirs).enumerate() {
        let apart = (our - their).abs();
        if apart.is_nan() || apart > f64::from(tolerance) / 1000.0 {
            let number = number + 1;
            let apart = apart * 1000.0;
            let message = format!("at time {number} of {name}, the clocks are {apart:.0} ms apart");
            let found = PowerFinding::error(CHECK, file, message, AGAIN);
            report.add(found.expected(format!("at most {tolerance} ms")));
        }
    }
}

fn check_inside(name: &str, run: &Run, times: &[f64], report: &mut Report) {
    const HOUR: f64 = 3600.0;
    if !run.is_there {
        return;
    }
    for (key, stamp) in [("power_begin", run.begin), ("power_end", run.end)] {
        let Some(stamp) = stamp else {
            let message = format!("has no readable {key}");
            let mend = "measure with a load generator that logs wall-clock time";
            report.add(PowerFinding::error(CHECK, run.detail, message, mend));
            continue;
        };
        let Some((begin, end)) = times.get(1).zip(times.get(2)) else { continue };
        let within = |seconds: f64| *begin < seconds && seconds < *end;
        // One hour is subtracted for machines in daylight saving time.
        if !within(stamp.seconds()) && !within(stamp.seconds() - HOUR) {
            let message = format!("{key} is not within the {name} phase of client.json");
            let mend = "measure again; the machine must write its time in UTC";
            let found = PowerFinding::error(CHECK, run.detail, message, mend);
            report.add(found.expected(format!("between {begin:.3} s and {end:.3} s since 1970")));
        }
    }
}

/// Reports and returns whether the run that counts is much shorter than ranging.
fn check_durations(runs: &Runs, report: &mut Report) -> bool {
    let length = |run: &Run| run.span().map(|(begin, end)| end.seconds_since(begin));
    let Some((ranging, testing)) = length(&runs.ranging).zip(length(&runs.testing)) else {
        return false;
    };
    let short = (ranging - testing) / ranging > 0.5;
    if short {
        let message = format!("the run took {testing:.2} s, but ranging took {ranging:.2} s");
        let mend = "run the same work in both runs";
        report.add(PowerFinding::warning(CHECK, runs.testing.detail, message, mend));
    }
    short
}

fn check_watts(runs: &Runs, rules: &Equipment, report: &mut Report) {
    const LOWEST_PERCENT: f64 = -5.0;
    let mean = |run: &Run| run.span().and_then(|(begin, end)| run.mean_watts(begin, end));
    let (ranging, testing) = (mean(&runs.ranging), mean(&runs.testing));
    for run in [&runs.ranging, &runs.testing] {
        if run.span().is_some() && mean(run).is_none() {
            let message = "has no positive reading during the run".to_owned();
            let mend = "synchronize the clocks of analyzer and machine, and measure again";
            report.add(PowerFinding::error("power.samples", run.spl, message, mend));
        }
        let broken = run.broken.iter().filter(|line| line.is_marked);
        if let Some(line) = broken.clone().next() {
            let message = format!("unreadable lines: {}", broken.count());
            let mend = "submit the file unchanged, as PTDaemon wrote it";
            let found =
                PowerFinding::error("power.samples", run.spl, message, mend).at(line.number);
            report.add(found.expected("Time,STAMP,Watts,VALUE,..."));
        }
    }
    let both = ranging.zip(testing).filter(|_| rules.compares_power);
    let Some((ranging, testing)) = both else { return };
    let delta = rounded((rounded(testing, 5) / rounded(ranging, 5) - 1.0) * 100.0, 2);
    if delta.is_nan() || delta <= LOWEST_PERCENT {
        let message =
            format!("the mean power is {testing:.3} W, but {ranging:.3} W in ranging: {delta} %");
        let mend = "run the same work on the same system in both runs";
        let found = PowerFinding::error(CHECK, runs.testing.spl, message, mend);
        report.add(found.expected("not more than 5 % below ranging"));
    }
}

/// Rounds to a number of decimals; exact ties round to even.
fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse().unwrap_or(value)
}
