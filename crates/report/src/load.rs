//! Load curve of a sweep: throughput and times by load, with the knee.

use std::fmt::Write as _;

use dyno_results::sweep::{LoadCurve, LoadKind, Row};
use dyno_results::units;

use super::plot::{self, Axis, Chart, Format, Ink, Point, RuleAxis, Shape};
use super::words::{self, escaped};

/// A figure of a load.
type Figure = fn(&Row) -> Option<f64>;

/// Appends the charts of a load curve and its knee; nothing for fewer than two measured loads.
pub fn section(html: &mut String, curve: &LoadCurve) {
    if curve.loads.iter().filter(|(_, row)| row.throughput.is_some()).count() < 2 {
        return;
    }
    let (throughput, name): (Figure, &str) = if curve.has_tokens() {
        (|row| row.output_tokens_per_s, "output tokens per second")
    } else {
        (|row| row.throughput, "samples answered per second")
    };
    let p50_p99 = |p50: Figure, p99: Figure| [("p50", Ink::A, p50), ("p99", Ink::B, p99)];
    let charts = [
        chart(curve, "Throughput by load", name, Format::Rate, &[(name, Ink::A, throughput)]),
        chart(
            curve,
            "Time to first token by load",
            "time to first token, logarithmic",
            Format::Time,
            &p50_p99(|row| row.first_token_p50_ns, |row| row.first_token_p99_ns),
        ),
        chart(
            curve,
            "Time per output token by load",
            "time per output token, logarithmic",
            Format::Time,
            &p50_p99(
                |row| row.time_per_output_token_p50_ns,
                |row| row.time_per_output_token_p99_ns,
            ),
        ),
        chart(
            curve,
            "Latency by load",
            "end-to-end latency, logarithmic",
            Format::Time,
            &p50_p99(|row| row.p50_ns, |row| row.p99_ns),
        ),
    ];
    let charts: String = charts.into_iter().flatten().map(|chart| plot::figure(&chart)).collect();
    let _ = writeln!(
        html,
        "<section class=\"card\"><h2>Load</h2><p>{}</p>{}<div class=\"charts\">{charts}</div><p \
         class=\"source\">The knee is the load with the highest power, which is throughput \
         divided by median latency (Kleinrock, 1979). It is marked if power is at least 5 % lower \
         at the lowest and at the highest load. Loads that only miss bounds or requirements count. \
         Those with failures, those that were too short and those that the client limited are \
         shown, but not used.</p></section>",
        escaped(&knee(curve)),
        plot::HEADING,
    );
}

/// Returns the knee as a sentence.
fn knee(curve: &LoadCurve) -> String {
    match curve.knee() {
        Ok(at) => format!("Knee: {}.", loaded(curve, curve.loads[at].0)),
        Err(why) => format!("The data has no knee: {why}."),
    }
}

/// Returns a load with its unit, such as `concurrency 8`.
fn loaded(curve: &LoadCurve, load: f64) -> String {
    match curve.kind {
        LoadKind::Concurrency => format!("concurrency {load}"),
        LoadKind::Rate => format!("{} requests/s", units::rate(load)),
    }
}

fn chart(
    curve: &LoadCurve,
    title: &str,
    name: &str,
    format: Format,
    series: &[(&str, Ink, Figure)],
) -> Option<Chart> {
    let points = |figure: Figure, is_wanted: fn(&Row) -> bool| -> Vec<Point> {
        let wanted = curve.loads.iter().filter(|(_, row)| is_wanted(row));
        let point = |(load, row): &(f64, Row)| {
            let y = figure(row).filter(|y| *y > 0.0)?;
            let shown = if format == Format::Time { words::time(y) } else { units::rate(y) };
            let tip = format!("{}\n{shown}\n{}", loaded(curve, *load), row.verdict);
            Some(Point { x: *load, y, tip, ..Point::default() })
        };
        wanted.filter_map(point).collect()
    };
    let all: Vec<f64> = series
        .iter()
        .flat_map(|(.., figure)| points(*figure, |_| true))
        .map(|point| point.y)
        .collect();
    if all.len() < 2 {
        return None;
    }
    let loads = curve.loads.iter().map(|(load, _)| *load);
    let x = match curve.kind {
        LoadKind::Concurrency => Axis::log("requests in flight, logarithmic", Format::Rate, loads),
        LoadKind::Rate => Axis::linear("requests per second", Format::Rate, loads),
    };
    let y = match format {
        Format::Time => Axis::log(name, format, all.into_iter()),
        _ => Axis::linear(name, format, all.into_iter()),
    };
    let mut chart = Chart::new(title, x, y);
    for (name, ink, figure) in series {
        chart = chart.with(name, *ink, Shape::Line, points(*figure, Row::is_of_curve));
    }
    for (.., figure) in series {
        let limited = points(*figure, |row| row.is_limited_by_client);
        chart = chart.with("limited by the client", Ink::Quiet, Shape::Dots, limited);
        let invalid = points(*figure, |row| !row.is_valid() && !row.is_limited_by_client);
        chart = chart.with("not VALID", Ink::Bad, Shape::Dots, invalid);
    }
    let knee = curve.knee().ok().map(|at| curve.loads[at].0);
    Some(chart.rule(RuleAxis::X, knee, "knee", Ink::Good))
}
