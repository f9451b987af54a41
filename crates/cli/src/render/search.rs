//! Text output of a search: its plan, a line for each run, and a box at the end.

use std::fmt::Write as _;

use dyno_experiment::search::Job;
use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::search::{Block, Unit};
use dyno_results::search::limits::{self, exact_percent, percent};
use dyno_results::search::{Counts, Peak, Phase, Point};
use dyno_results::units;

use super::{Alignment, Color, Frame, painted, wrap};

/// Runs of a typical search: four to bracket the peak, then short ones of [`USUAL_LENGTHS`]
/// lengths at a tolerance of 1 %, as `search_trials` of the load generator counts them.
const BRACKETS: u64 = 4;
const USUAL_LENGTHS: f64 = 110.0;
/// Fewest lengths that the search runs near the peak.
const LEAST_LENGTHS: u64 = 16;

/// Returns the plan and its duration. The first load may still be unknown.
pub fn plan(job: &Job) -> String {
    let (rules, is_from_known) = (job.rules(), job.is_from_known);
    let names: Vec<String> = job.limits.iter().map(limits::show).collect();
    let mut text = format!("search: {} of {}\n", job.load.name(), job.state.definition.system);
    for remark in &job.state.remarks {
        wrap(remark, 78, 0).iter().for_each(|line| text.extend(["  ", line, "\n"]));
    }
    let _ = writeln!(text, "  limits     {}", names.join(", "));
    let from = if is_from_known {
        job.load.show(rules.from)
    } else {
        "determined by a short probe of the system".into()
    };
    let to = rules.to.map(|to| format!(", up to {}", job.load.show(to))).unwrap_or_default();
    let _ = writeln!(text, "  from       {from}{to}");
    let _ = writeln!(text, "  tolerance  {}", percent(rules.tolerance));
    let short = time(rules.short);
    let _ = writeln!(text, "  runs       {short} each at first, longer as the estimate converges");
    let confirms = rules.confirmations > 0;
    if confirms {
        let by = match rules.full_runs {
            1 => "a full run".to_string(),
            runs => format!("{runs} full runs, each"),
        };
        let _ = writeln!(
            text,
            "  confirmed  by {by} of at least {} and {} queries; up to {} tries",
            time(rules.full),
            units::count(rules.full_queries),
            rules.confirmations
        );
    } else {
        text += "  confirmed  no (--no-confirm)\n";
    }
    // A higher rate completes its queries sooner.
    let confirming_at = |load| if confirms { job.confirmation_at(load) } else { 0 };
    let full = confirming_at(f64::INFINITY);
    let best = rules.short.saturating_mul(BRACKETS + LEAST_LENGTHS).saturating_add(full);
    let lengths = USUAL_LENGTHS * (0.01 / rules.tolerance).powi(2);
    let usual = (rules.short as f64 * lengths + full as f64 * 4.0 / 3.0) as Nanos;
    let at_first = if is_from_known { confirming_at(rules.from) } else { full };
    let usually = if at_first > full {
        // The time depends on the peak.
        String::new()
    } else {
        format!(" about {} if latency rises steeply at the peak,", time(usual.max(best)))
    };
    let _ = writeln!(
        text,
        "  time       at least {},{usually} at most {}{}",
        time(best),
        time(rules.max_time),
        if job.is_virtual() { " of virtual time" } else { "" }
    );
    text += &at_first_load(job, [at_first, full]);
    if best > rules.max_time {
        text += "             --max-time is too short to finish: raise it\n";
    }
    text
}

/// Returns how long runs take that the load or wide limits make longer, if the peak is at the first load.
/// `at_first` is the time of a try at that load, and `full` that at a high one.
fn at_first_load(job: &Job, [at_first, full]: [Nanos; 2]) -> String {
    let (rules, from) = (job.rules(), job.load.show(job.rules().from));
    if !job.is_from_known {
        let is_rate = rules.confirmations > 0 && job.load.unit() == Unit::Rate;
        return if is_rate {
            "             longer if the rate is low\n".into()
        } else {
            String::new()
        };
    }
    let mut text = String::new();
    if at_first > full {
        // A higher rate completes its queries sooner; a wide limit needs longer runs near the capacity.
        let is_less = job.confirmation_at(2.0 * rules.from) < at_first;
        let when = if is_less {
            format!("at {from}, less at a higher load")
        } else {
            format!("if the peak is {from}")
        };
        let _ = writeln!(text, "             a try takes {} {when}", time(at_first));
    }
    let refining = job.refining_at(rules.from);
    if refining > rules.short {
        let near = refining.saturating_mul(LEAST_LENGTHS);
        let all = rules.short.saturating_mul(BRACKETS).saturating_add(near);
        let (each, all) = (time(refining), time(all.saturating_add(at_first)));
        let line =
            format!("             short runs then take {each} each, all runs at least {all}");
        let _ = writeln!(text, "{line}");
    }
    text
}

fn time(nanos: Nanos) -> String {
    let seconds = nanos / SECOND;
    match seconds {
        ..120 => units::duration(nanos as i64),
        120..7_200 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{:.1} h", seconds as f64 / 3_600.0),
    }
}

/// Returns the box at the end.
pub fn result(job: &Job, is_colored: bool) -> String {
    let state = &job.state;
    let title = format!("dyno {} search, {}", state.dyno_version, state.definition.system);
    let mut frame = Frame::new(&title, &state.disclaimer);
    let (headline, is_found) = dyno_results::search::headline(state, job.directory());
    let color = if is_found { Color::Good } else { Color::Bad };
    frame.line(&painted(&headline, color, is_colored), 0);
    if let Some(peak) = &state.peak {
        let half = (peak.high - peak.low) / (2.0 * peak.load);
        frame.line(
            &format!(
                "Peak: {}; with 95 % certainty {} to {} (± {})",
                job.load.show(peak.load),
                job.load.number(peak.low),
                job.load.number(peak.high),
                percent(half)
            ),
            2,
        );
        frame.line(&format!("Binds: {}{}", peak.binds, also(peak, job)), 2);
    }
    if let Some(loads) = loads_so_far(job) {
        frame.line(&loads, 2);
    }
    let counted = state.points.iter().rev().find(|p| p.folder.is_some());
    if let Some(point) = counted {
        frame.rule();
        frame.table(
            &[Alignment::Left, Alignment::Right, Alignment::Right, Alignment::Left],
            &rows(point),
        );
        let throughput = point.throughput.map_or("-".into(), units::rate);
        let goodput = units::rate(point.goodput);
        // At a rate, a query is one sample.
        let samples = if job.load.unit() == Unit::Rate { "" } else { " samples" };
        frame.line(
            &format!(
                "Target {}: completed {throughput}{samples}/s, goodput {goodput}/s, p99 {}",
                job.load.show(point.load),
                units::duration(point.p99_ns)
            ),
            2,
        );
    }
    frame.rule();
    let times = state.points.iter().map(|point| point.took_ns);
    let took = times.chain(state.unfinished.iter().map(|run| run.took_ns));
    let took = took.chain(state.disturbed.iter().map(|run| run.took_ns));
    let spent = took.fold(0, Nanos::saturating_add);
    let runs = match state.points.len() + state.unfinished.len() + state.disturbed.len() {
        1 => "1 run".to_string(),
        runs => format!("{runs} runs"),
    };
    let virtually = if job.is_virtual() { " of virtual time" } else { "" };
    frame.line(&format!("{runs} in {}{virtually}", time(spent)), 2);
    if let repeated @ 1.. = state.disturbed.len() {
        let runs = if repeated == 1 { "run was" } else { "runs were" };
        let sentence = format!("{repeated} {runs} disturbed by the client or the machine");
        frame.line(&sentence, 2);
    }
    if state.state == Phase::ClientLimited {
        frame.line(&format!("To measure higher loads: {}.", job.advice()), 2);
    }
    if !state.remarks.is_empty() {
        frame.rule();
        state.remarks.iter().for_each(|remark| frame.line(remark, 2));
    }
    frame.finish()
}

/// Returns which loads kept the limits and which did not; `None` unless the time limit came before the
/// peak was known.
fn loads_so_far(job: &Job) -> Option<String> {
    let state = &job.state;
    if state.state != Phase::OutOfTime || state.peak.is_some() {
        return None;
    }
    let loads =
        |passed: bool| state.points.iter().filter(move |p| p.passed == passed).map(|p| p.load);
    let highest = loads(true).max_by(f64::total_cmp);
    let lowest = loads(false).min_by(f64::total_cmp);
    let words = [
        highest.map(|load| format!("the highest that kept the limits is {}", job.load.show(load))),
        lowest.map(|load| format!("the lowest that missed one is {}", job.load.show(load))),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| format!("Loads so far: {}", words.join(", ")))
}

/// Returns a row for each limit of the last full run.
fn rows(point: &Point) -> Vec<Vec<String>> {
    let head = ["limit", "over", "allowed", ""].map(str::to_string).to_vec();
    let row = |counts: &Counts| {
        let limit = limits::parse(&counts.limit, 0.99).ok()?;
        let all = Block { queries: counts.queries, over: counts.over };
        let word = if limit.is_kept(&[all]) { "kept" } else { "missed" };
        let share = counts.over as f64 / counts.queries.max(1) as f64;
        let cells =
            [limits::show(&limit), percent(share), exact_percent(limit.allowed), word.into()];
        Some(cells.to_vec())
    };
    std::iter::once(head).chain(point.limits.iter().filter_map(row)).collect()
}

/// Returns other limits that may also bind.
fn also(peak: &Peak, job: &Job) -> String {
    let likely = |p: f64| (0.1..=0.5).contains(&p);
    let names: Vec<String> = peak
        .binding_probability
        .iter()
        .zip(&job.limits)
        .filter(|&(&p, limit)| likely(p) && limits::show(limit) != peak.binds)
        .map(|(_, limit)| limits::show(limit))
        .collect();
    if names.is_empty() { String::new() } else { format!("; perhaps {}", names.join(", ")) }
}
