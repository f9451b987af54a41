//! Section of a search: its result, and every run that it made.

use std::fmt::Write as _;

use dyno_results::collection::SearchDirectory;
use dyno_results::search::{self, Purpose, State, limits};
use dyno_results::units;

use super::page::{self, Tone, badge};
use super::plot::{self, Axis, Chart, Format, Ink, Point, RuleAxis, Shape};
use super::words::{self, escaped};

/// Minimum number of runs around the peak for a close-up of it.
const CLOSE: usize = 6;

/// Returns the phase of a search in capitals, with its tone.
pub fn verdict(search: &SearchDirectory) -> (String, Tone) {
    let phase = serde_json::to_value(search.state.state).expect("an enum of names");
    let (_, is_found) = search::headline(&search.state, &search.path);
    let text = phase.as_str().unwrap_or_default().replace('_', " ").to_uppercase();
    (text, Tone::of_validity(is_found))
}

/// Appends the section of a search: its result, charts of the limits by load, and a table of its
/// runs. `title` is the heading.
pub fn section(html: &mut String, searched: &SearchDirectory, title: &str) {
    let state = &searched.state;
    let (headline, _) = search::headline(state, &searched.path);
    let _ = write!(
        html,
        "<section class=\"card test\"><h2>{}</h2><p class=\"lead\">{}.</p>",
        escaped(title),
        escaped(&headline)
    );
    found(html, state);
    if !state.remarks.is_empty() {
        html.push_str("<ul>");
        for remark in &state.remarks {
            let _ = write!(html, "<li>{}</li>", escaped(remark));
        }
        html.push_str("</ul>");
    }
    let limits = state.definition.limits.iter().enumerate();
    let shares = limits.filter_map(|(at, limit)| share_over(state, at, limit));
    let charts = [latencies(state), throughputs(state), course(state)].into_iter().flatten();
    let figures: String = shares.chain(charts).map(|chart| plot::figure(&chart)).collect();
    if !figures.is_empty() {
        let _ = write!(html, "{}<div class=\"charts\">{figures}</div>", plot::HEADING);
    }
    table(html, state);
    html.push_str(
        "<p class=\"source\">Short runs only estimate the peak; together they determine the \
         interval. Only a full run that is VALID and keeps every limit confirms a load. The first \
         fifth of a short run does not count. A short run whose queue grows is stopped \
         early.</p></section>\n",
    );
}

/// Appends the facts of a search: the peak, the binding limit, and the number of runs.
fn found(html: &mut String, state: &State) {
    let load = state.definition.load;
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(confirmed) = &state.confirmed {
        facts.push(("Confirmed", load.show(confirmed.load)));
    }
    if let Some(peak) = &state.peak {
        facts.push(("Peak", load.show(peak.load)));
        let between = format!("{} to {}", load.number(peak.low), load.number(peak.high));
        facts.push(("Interval", format!("{between} ({})", words::share(peak.confidence))));
        facts.push(("Binds", peak.binds.replace("<=", "≤")));
    }
    // As in the box: runs that were not used cost time, too.
    let times = state.points.iter().map(|point| point.took_ns);
    let times = times.chain(state.unfinished.iter().map(|run| run.took_ns));
    let times = times.chain(state.disturbed.iter().map(|run| run.took_ns));
    let (runs, spent) = times.fold((0, 0_u64), |(n, sum), ns| (n + 1, sum.saturating_add(ns)));
    // Virtual time has no date.
    let virtually = if state.started_at.is_empty() { " of virtual time" } else { "" };
    facts.extend(state.rules.as_ref().map(|rules| ("Rules", rules.title())));
    let spent = words::span_ns(spent);
    facts.push(("Runs", format!("{} in {spent}{virtually}", units::count(runs))));
    html.push_str("<dl class=\"pairs\">");
    for (name, value) in facts {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    }
    html.push_str("</dl>");
}

/// Returns the tooltip of a run.
fn tip(point: &search::Point, state: &State) -> String {
    let mut lines = vec![
        format!("run {}, {}", point.number, point.purpose.name()),
        state.definition.load.show(point.load),
        format!("p50 {}", words::time_ns(point.p50_ns)),
        format!("p99 {}", words::time_ns(point.p99_ns)),
    ];
    lines.extend(search::nearest(point).map(|limit| limit.replace("<=", "≤")));
    lines.push(point.verdict().into());
    lines.join("\n")
}

/// Adds runs to a chart as dots of three kinds.
fn dots(
    chart: Chart,
    state: &State,
    runs: &[&search::Point],
    at: impl Fn(&search::Point) -> Option<(f64, f64)>,
) -> Chart {
    let of = |is_meant: &dyn Fn(&search::Point) -> bool| -> Vec<Point> {
        let meant = runs.iter().filter(|point| is_meant(point));
        let dot = |point: &&search::Point| {
            let (x, y) = at(point)?;
            Some(Point { x, y, tip: tip(point, state), ..Point::default() })
        };
        meant.filter_map(dot).collect()
    };
    let counts = |point: &search::Point| point.purpose == Purpose::Confirm;
    chart
        .with("kept the limits", Ink::A, Shape::Dots, of(&|p| p.passed && !counts(p)))
        .with("missed one", Ink::Bad, Shape::Dots, of(&|p| !p.passed && !counts(p)))
        .with("full run", Ink::Good, Shape::Dots, of(&counts))
}

/// Returns the runs to draw and an axis of their loads. With `is_close` and at least [`CLOSE`]
/// runs around the peak, runs that only bracket it are left out.
fn drawn(state: &State, is_close: bool) -> (Vec<&search::Point>, Axis) {
    let name = state.definition.load.axis();
    let close: Vec<&search::Point> =
        state.points.iter().filter(|point| point.purpose != Purpose::Bracket).collect();
    if !is_close || close.len() < CLOSE {
        let loads = state.points.iter().map(|point| point.load);
        let x = Axis::log(&format!("{name}, logarithmic"), Format::Rate, loads);
        return (state.points.iter().collect(), x);
    }
    let loads = || close.iter().map(|point| point.load).filter(|load| load.is_finite());
    let (low, high) = (loads().fold(f64::MAX, f64::min), loads().fold(f64::MIN, f64::max));
    let air = (high - low) * 0.05;
    (close, Axis::between(name, Format::Rate, low - air, high + air))
}

/// Returns a chart by load that marks the peak and its interval.
fn by_load(title: &str, state: &State, x: Axis, y: Axis) -> Chart {
    let (low, high) = (y.low, y.high);
    let mut chart = Chart::new(title, x, y);
    if let Some(peak) = &state.peak {
        let edge = |x: f64| Point { x, y: low, to: high, ..Point::default() };
        let band = vec![edge(peak.low), edge(peak.high)];
        chart = chart.with("location of the peak", Ink::Quiet, Shape::Band, band);
        chart = chart.rule(RuleAxis::X, Some(peak.load), "peak", Ink::Quiet);
    }
    chart
}

/// Returns the share of queries over one limit, by load.
fn share_over(state: &State, at: usize, key: &str) -> Option<Chart> {
    let limit = limits::parse(key, 0.99).ok()?;
    let share = |point: &search::Point| {
        let counts = point.limits.get(at).filter(|counts| counts.queries > 0)?;
        Some(counts.over as f64 / counts.queries as f64)
    };
    let (runs, x) = drawn(state, true);
    let shares = runs.iter().filter_map(|point| share(point));
    let y = Axis::log(
        "share over the bound, logarithmic",
        Format::Share,
        shares.chain([limit.allowed, 0.0]),
    );
    let name = limits::show(&limit);
    let is_binding = state.peak.as_ref().is_some_and(|peak| peak.binds == name);
    let title = format!("{}, by load", name.replace("<=", "≤"));
    let chart = by_load(&title, state, x, y).note(if is_binding {
        "Each point is a run; the bottom is zero. At the peak, the expected share is the allowed one."
    } else {
        "Each point is a run; the bottom is zero."
    });
    let allowed = format!("allowed {}", limits::exact_percent(limit.allowed));
    let chart = dots(chart, state, &runs, |point| Some((point.load, share(point)?)));
    let chart = chart.rule(RuleAxis::Y, Some(limit.allowed), &allowed, Ink::Bad);
    (state.points.len() > 1).then_some(chart)
}

/// Returns the latency of all runs by load.
fn latencies(state: &State) -> Option<Chart> {
    let (runs, x) = drawn(state, false);
    let values = runs.iter().flat_map(|point| [point.p50_ns as f64, point.p99_ns as f64]);
    let y = Axis::log("latency, logarithmic", Format::Time, values);
    let chart = by_load("Latency by load", state, x, y).note("p99 and median of each run.");
    let medians = runs.iter().map(|point| Point {
        x: point.load,
        y: point.p50_ns as f64,
        tip: tip(point, state),
        ..Point::default()
    });
    let chart = chart.with("median", Ink::Quiet, Shape::Dots, medians.collect());
    let slow = |point: &search::Point| Some((point.load, point.p99_ns as f64));
    (state.points.len() > 1).then(|| dots(chart, state, &runs, slow))
}

/// Returns throughput and goodput of all runs by load.
fn throughputs(state: &State) -> Option<Chart> {
    let (runs, x) = drawn(state, false);
    let rates = runs.iter().filter_map(|point| point.throughput);
    let y = Axis::linear("samples per second", Format::Rate, rates);
    let of = |rate: &dyn Fn(&search::Point) -> Option<f64>| -> Vec<Point> {
        let dot = |point: &&search::Point| {
            let (x, y) = (point.load, rate(point)?);
            Some(Point { x, y, tip: tip(point, state), ..Point::default() })
        };
        runs.iter().filter_map(dot).collect()
    };
    let chart = by_load("Throughput by load", state, x, y)
        .note("Goodput counts samples within every latency bound.")
        .with("answered", Ink::A, Shape::Dots, of(&|point| point.throughput))
        .with("goodput", Ink::Good, Shape::Dots, of(&|point| Some(point.goodput)));
    (state.points.len() > 1).then_some(chart)
}

/// Returns the loads of all runs in order.
fn course(state: &State) -> Option<Chart> {
    let load = state.definition.load;
    let last = state.points.last()?.number as f64;
    let x = Axis::between("run", Format::Count, 0.0, last + 1.0);
    let loads = state.points.iter().map(|point| point.load);
    let y = Axis::log(&format!("{}, logarithmic", load.axis()), Format::Rate, loads);
    let chart = Chart::new("Course of the search", x, y)
        .note("The load doubles until a limit is missed. Then runs near the peak get longer.");
    let all: Vec<&search::Point> = state.points.iter().collect();
    let chart = dots(chart, state, &all, |point| Some((point.number as f64, point.load)));
    let peak = state.peak.as_ref().map(|peak| peak.load);
    (state.points.len() > 1).then(|| chart.rule(RuleAxis::Y, peak, "peak", Ink::Quiet))
}

fn table(html: &mut String, state: &State) {
    if state.points.is_empty() {
        return;
    }
    let _ = write!(
        html,
        "<h3>Runs</h3><div class=\"{}\" tabindex=\"0\"><table class=\"filtered sorted stack\" \
         data-filter=\"runs\"><thead><tr>",
        page::scroll(state.points.len())
    );
    let heads =
        ["run", "why", "load", "lasted", "throughput", "p50", "p99", "nearest limit", "verdict"];
    for head in heads {
        let class =
            if ["why", "nearest limit", "verdict"].contains(&head) { "" } else { " class=\"n\"" };
        let _ = write!(html, "<th scope=\"col\"{class}>{head}</th>");
    }
    html.push_str("</tr></thead><tbody>\n");
    for point in &state.points {
        let cells = [
            ("load", point.load, state.definition.load.show(point.load)),
            ("lasted", point.duration_ns as f64, words::span_ns(point.duration_ns)),
            (
                "throughput",
                point.throughput.unwrap_or(0.0),
                point.throughput.map_or("–".into(), |rate| format!("{}/s", units::rate(rate))),
            ),
            ("p50", point.p50_ns as f64, words::time_ns(point.p50_ns)),
            ("p99", point.p99_ns as f64, words::time_ns(point.p99_ns)),
        ];
        let (number, why) = (point.number, point.purpose.name());
        let _ = write!(
            html,
            "<tr><th scope=\"row\" class=\"n\" data-value=\"{number}\">{number}</th>\
             <td data-label=\"why\">{why}</td>"
        );
        for (name, value, text) in cells {
            let _ = write!(
                html,
                "<td class=\"n\" data-label=\"{name}\" data-value=\"{value}\">{}</td>",
                escaped(&text)
            );
        }
        let _ = writeln!(
            html,
            "<td data-label=\"nearest limit\">{}</td><td data-label=\"verdict\">{}</td></tr>",
            escaped(&search::nearest(point).unwrap_or_default().replace("<=", "≤")),
            badge(point.verdict(), Tone::of_validity(point.passed))
        );
    }
    html.push_str("</tbody></table></div>");
}
