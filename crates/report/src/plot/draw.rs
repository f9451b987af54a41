//! Charts as HTML.
//!
//! The drawing is an SVG of 1000 by 1000 units that is stretched to the size of its element;
//! strokes keep their width. Texts are HTML, placed over and beside it in percent, so that their
//! size does not depend on that of the chart.

use std::fmt::Write as _;

use dyno_loadgen::message::is_control;
use serde_json::{Value, json};

use super::{Axis, Chart, Format, Ink, Point, RuleAxis, Series, Shape};
use crate::words::escaped;

/// Width and height of the drawing, in units.
const SIZE: f64 = 1_000.0;

/// Width of the x axis in pixels: usual, and on a narrow phone.
const WIDE: f64 = 400.0;
const NARROW: f64 = 215.0;
/// Height of the drawing in pixels, as in the style sheet.
const HEIGHT: f64 = 210.0;
/// Width of a letter of a label and gap between two labels, in pixels.
const LETTER: f64 = 6.6;
const GAP: f64 = 12.0;
const LINE: f64 = 24.0;

/// Heading of charts without a visible one, for programs that read pages aloud: the title of a chart
/// is a heading of the fourth level.
pub const HEADING: &str = "<h3 class=\"spoken\">Charts</h3>";

/// Returns a chart as a `<figure>`; empty if the chart has no series.
pub fn figure(chart: &Chart) -> String {
    if chart.is_empty() {
        return String::new();
    }
    let mut html = String::from("<figure class=\"chart\">");
    let _ = write!(html, "<figcaption><h4>{}</h4>", escaped(&chart.title));
    if !chart.note.is_empty() {
        let _ = write!(html, "<p>{}</p>", escaped(&chart.note));
    }
    html += "</figcaption>";
    legend(&mut html, chart);
    plot(&mut html, chart);
    html + "</figure>\n"
}

/// Returns the class of a series. Series beyond the number of inks differ by their strokes.
fn class(number: usize, series: &Series) -> String {
    let again = if number < Ink::ROW.len() { "" } else { " again" };
    format!("{}{again}", series.ink.class())
}

fn legend(html: &mut String, chart: &Chart) {
    html.push_str("<div class=\"legend\">");
    for (number, series) in chart.series.iter().enumerate() {
        let shape = match series.shape {
            Shape::Line | Shape::Steps => "line",
            Shape::Dots => "dots",
            Shape::Band | Shape::Bars => "filled",
        };
        let _ = write!(
            html,
            "<span class=\"key {} {shape}\" data-series=\"{number}\">{}</span>",
            class(number, series),
            escaped(&series.name)
        );
    }
    html.push_str("</div>");
}

fn plot(html: &mut String, chart: &Chart) {
    let (x, y) = (&chart.x, &chart.y);
    let x_ticks = x.ticks(WIDE, NARROW, reach);
    let y_ticks = y.ticks(HEIGHT, HEIGHT, |_, _| (LINE / 2.0, LINE / 2.0));
    let _ = write!(html, "<div class=\"axis-name\">{}</div><div class=\"plot\">", escaped(&y.name));
    html.push_str("<div class=\"ys\" aria-hidden=\"true\">");
    for tick in &y_ticks {
        let top = 100.0 * (1.0 - tick.at);
        let _ = write!(html, "<span style=\"top:{top:.1}%\">{}</span>", escaped(&tick.text));
    }
    let label = escaped(&spoken(chart));
    let _ = write!(
        html,
        "</div><div class=\"area\"><svg viewBox=\"0 0 {SIZE} {SIZE}\" preserveAspectRatio=\"none\" \
         role=\"img\" aria-label=\"{label}\"><path class=\"grid\" d=\""
    );
    for tick in &y_ticks {
        let _ = write!(html, "M0 {:.0}h{SIZE}", SIZE * (1.0 - tick.at));
    }
    for tick in &x_ticks {
        let _ = write!(html, "M{:.0} 0v{SIZE}", SIZE * tick.at);
    }
    html.push_str("\"/>");
    for (number, series) in chart.series.iter().enumerate() {
        draw(html, number, series, chart);
    }
    rules(html, chart);
    html.push_str("</svg>");
    texts(html, chart);
    html.push_str("</div><div class=\"xs\" aria-hidden=\"true\">");
    for tick in &x_ticks {
        let class = if tick.is_minor { " class=\"minor\"" } else { "" };
        let lean = if leans(tick.at, &tick.text) { ";transform:translateX(-100%)" } else { "" };
        let (left, text) = (100.0 * tick.at, escaped(&tick.text));
        let _ = write!(html, "<span{class} style=\"left:{left:.1}%{lean}\">{text}</span>");
    }
    let _ = write!(html, "</div><div class=\"x-name\">{}</div></div>", escaped(&x.name));
    data(html, chart);
}

/// Returns the width of a label, in pixels.
fn width(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

/// Returns whether a label of the x axis ends at its tick, because it would reach beyond the page. At the
/// beginning of the axis, there is room below the labels of the y axis.
fn leans(at: f64, text: &str) -> bool {
    (1.0 - at) * NARROW < width(text) / 2.0
}

/// Returns how many pixels a label of the x axis takes before and after its tick, with half a gap.
fn reach(at: f64, text: &str) -> (f64, f64) {
    let (before, after) = if leans(at, text) { (1.0, 0.0) } else { (0.5, 0.5) };
    (before * width(text) + GAP / 2.0, after * width(text) + GAP / 2.0)
}

/// Returns the names of both axes, with the kinds of their scales at the end.
fn axes(y: &str, x: &str) -> String {
    const LOGARITHMIC: &str = ", logarithmic";
    match (y.strip_suffix(LOGARITHMIC), x.strip_suffix(LOGARITHMIC)) {
        (Some(y), Some(x)) => format!("{y} by {x}, both logarithmic"),
        (Some(y), None) => format!("{y} (logarithmic) by {x}"),
        (None, _) => format!("{y} by {x}"),
    }
}

/// Returns the text of a chart for screen readers.
fn spoken(chart: &Chart) -> String {
    let mut said = format!("{}: {}.", chart.title, axes(&chart.y.name, &chart.x.name));
    for series in chart.series.iter().filter(|series| series.shape != Shape::Dots) {
        if series.shape == Shape::Bars {
            let highest = series.points.iter().max_by(|a, b| a.y.total_cmp(&b.y));
            let at = highest.map(|bar| chart.x.text(bar.x.midpoint(bar.to))).unwrap_or_default();
            let _ = write!(said, " Most {} at {at}.", series.name);
            continue;
        }
        let of = |point: Option<&Point>| point.map(|p| chart.y.text(p.y)).unwrap_or_default();
        let (first, last) = (of(series.points.first()), of(series.points.last()));
        let _ = write!(said, " {} from {first} to {last}.", series.name);
    }
    for rule in chart.rules.iter().filter(|rule| !rule.name.is_empty()) {
        let _ = write!(said, " {}.", rule.name);
    }
    for label in &chart.labels {
        let _ = write!(said, " {}.", label.name);
    }
    said.replace('\u{202f}', " ")
}

fn draw(html: &mut String, number: usize, series: &Series, chart: &Chart) {
    let x = |value: f64| SIZE * chart.x.at(value);
    let y = |value: f64| SIZE * (1.0 - chart.y.at(value));
    let class = class(number, series);
    let _ = write!(html, "<g data-series=\"{number}\"><path class=\"{class} ");
    match series.shape {
        Shape::Line => {
            html.push_str("stroke\" d=\"");
            for (at, p) in series.points.iter().enumerate() {
                let verb = if at == 0 { 'M' } else { 'L' };
                let _ = write!(html, "{verb}{} {}", short(x(p.x)), short(y(p.y)));
            }
        }
        Shape::Steps => {
            html.push_str("stroke\" d=\"");
            for (at, p) in series.points.iter().enumerate() {
                let (x, y) = (short(x(p.x)), short(y(p.y)));
                let _ = if at == 0 { write!(html, "M{x} {y}") } else { write!(html, "H{x}V{y}") };
            }
        }
        Shape::Band => {
            html.push_str("fill\" d=\"");
            let edge = series.points.iter().map(|p| (p.x, p.y));
            let back = series.points.iter().rev().map(|p| (p.x, p.to));
            for (at, (px, py)) in edge.chain(back).enumerate() {
                let verb = if at == 0 { 'M' } else { 'L' };
                let _ = write!(html, "{verb}{} {}", short(x(px)), short(y(py)));
            }
            html.push('Z');
        }
        Shape::Bars => {
            html.push_str("fill bars\" d=\"");
            for p in &series.points {
                let (from, to, top) = (x(p.x), x(p.to), y(p.y));
                let _ = write!(
                    html,
                    "M{} {SIZE}V{}H{}V{SIZE}Z",
                    short(from),
                    short(top),
                    // Keeps thin bars visible.
                    short(to.max(from + 1.5).min(SIZE.max(from)))
                );
            }
        }
        Shape::Dots => {
            html.push_str("dot\" d=\"");
            for p in &series.points {
                let _ = write!(html, "M{} {}h.01", short(x(p.x)), short(y(p.y)));
            }
        }
    }
    html.push_str("\"/></g>");
}

fn rules(html: &mut String, chart: &Chart) {
    for rule in &chart.rules {
        let class = rule.ink.class();
        let _ = match rule.across {
            RuleAxis::X => {
                let at = short(SIZE * chart.x.at(rule.at));
                write!(html, "<path class=\"rule {class}\" d=\"M{at} 0v{SIZE}\"/>")
            }
            RuleAxis::Y => {
                let at = short(SIZE * (1.0 - chart.y.at(rule.at)));
                write!(html, "<path class=\"rule {class}\" d=\"M0 {at}h{SIZE}\"/>")
            }
        };
    }
}

/// Appends the names of rules and points, over the drawing. Names of vertical rules are stacked, so
/// that those of close rules do not overlap.
fn texts(html: &mut String, chart: &Chart) {
    let mut upright = 0;
    for rule in chart.rules.iter().filter(|rule| !rule.name.is_empty()) {
        let (class, name) = (rule.ink.class(), escaped(&rule.name));
        match rule.across {
            RuleAxis::X => {
                let at = 100.0 * chart.x.at(rule.at);
                let (edge, offset) = if at > 55.0 { ("right", 100.0 - at) } else { ("left", at) };
                let top = 2 + 18 * upright;
                upright += 1;
                let _ = write!(
                    html,
                    "<span class=\"said {class}\" style=\"{edge}:calc({offset:.1}% + 4px);\
                     top:{top}px\">{name}</span>"
                );
            }
            RuleAxis::Y => {
                let at = 100.0 * chart.y.at(rule.at);
                // Below the line where there is no room above it.
                let place = if at > 88.0 { "top" } else { "bottom" };
                let offset = if at > 88.0 { 100.0 - at } else { at };
                let _ = write!(
                    html,
                    "<span class=\"said {class}\" style=\"left:4px;\
                     {place}:calc({offset:.1}% + 2px)\">{name}</span>"
                );
            }
        }
    }
    for label in &chart.labels {
        let (x, y) = (100.0 * chart.x.at(label.x), 100.0 * chart.y.at(label.y));
        let (edge, offset) = if x > 55.0 { ("right", 100.0 - x) } else { ("left", x) };
        let (place, height) = if y > 80.0 { ("top", 100.0 - y) } else { ("bottom", y) };
        let _ = write!(
            html,
            "<span class=\"said point\" style=\"{edge}:calc({offset:.1}% + 7px);\
             {place}:calc({height:.1}% + 5px)\">{}</span>",
            escaped(&label.name)
        );
    }
}

/// Appends the numbers for the script.
fn data(html: &mut String, chart: &Chart) {
    // A chart with more than one dot is a scatter plot; a single dot marks a value of a line.
    let dots = chart.series.iter().filter(|series| series.shape == Shape::Dots);
    let is_points = dots.map(|series| series.points.len()).sum::<usize>() > 1;
    let axis = |axis: &Axis| {
        json!([axis.name, axis.scale.name(), axis.low, axis.high, axis.format.name()])
    };
    let mut before: Option<Vec<Value>> = None;
    let mut all = Vec::new();
    for series in &chart.series {
        let column = |axis: &Axis, of: fn(&Point) -> f64| -> Vec<Value> {
            series.points.iter().map(|point| number(of(point), axis.format)).collect()
        };
        let y = column(&chart.y, |p| p.y);
        let mut entry = json!({"n": series.name, "c": series.ink.class(), "y": y});
        // Most series of a chart share their x values.
        let x = column(&chart.x, |p| p.x);
        if before.as_ref() != Some(&x) {
            entry["x"] = x.clone().into();
            before = Some(x);
        }
        if matches!(series.shape, Shape::Bars | Shape::Band) {
            let axis = if series.shape == Shape::Bars { &chart.x } else { &chart.y };
            entry["to"] = column(axis, |p| p.to).into();
            entry["shape"] = format!("{:?}", series.shape).to_lowercase().into();
        }
        if series.points.iter().any(|point| !point.tip.is_empty()) {
            entry["tip"] = series.points.iter().map(|p| p.tip.as_str()).collect::<Vec<_>>().into();
        }
        all.push(entry);
    }
    let all = json!({
        "kind": if is_points { "points" } else { "lines" },
        "x": axis(&chart.x),
        "y": axis(&chart.y),
        "series": all,
    });
    let _ = write!(
        html,
        "<script type=\"application/json\" class=\"data\">{}</script>",
        inert(&all.to_string())
    );
}

/// Escapes JSON so that it cannot end the element that contains it, and no text in it controls the page.
pub fn inert(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, '<' | '>' | '&') || (is_control(c) && c != '\n') {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Rounds a number to 6 significant digits for the script; counts and rates of at least 100,000 are
/// rounded to integers. Values that are not finite become 0.
fn number(value: f64, format: Format) -> Value {
    if value == 0.0 || !value.is_finite() {
        return 0.into();
    }
    let is_in_full = matches!(format, Format::Count | Format::Rate) && value.abs() >= 1e5;
    let digits = 5 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(if is_in_full { 0 } else { digits });
    let rounded = (value * scale).round() / scale;
    // `1` is shorter than `1.0`.
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
        (rounded as i64).into()
    } else {
        rounded.into()
    }
}

/// Returns a coordinate with at most one decimal.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_named_before_their_scales() {
        let (queries, time) = ("queries per 4 % of latency", "latency, logarithmic");
        assert_eq!(
            axes("queries per 4 % of latency, logarithmic", time),
            "queries per 4 % of latency by latency, both logarithmic"
        );
        assert_eq!(axes("p99, logarithmic", "load"), "p99 (logarithmic) by load");
        assert_eq!(axes(queries, time), "queries per 4 % of latency by latency, logarithmic");
    }

    #[test]
    fn labels_at_the_ends_of_an_axis_are_apart() {
        let axes = [
            Axis::nines(0.9995),
            Axis::nines(0.999_999),
            Axis::log("", Format::Time, [103.0, 12e6].into_iter()),
            Axis::between("", Format::Elapsed, 0.0, 2.5e9),
            Axis::between("", Format::Elapsed, 0.0, 600e9),
        ];
        for axis in axes {
            let place = |at: f64, text: &str| {
                let length = 6.6 * text.chars().count() as f64;
                let is_moved = (1.0 - at) * 215.0 < length / 2.0;
                let begin = 400.0 * at - if is_moved { length } else { length / 2.0 };
                (begin, begin + length)
            };
            let ticks = axis.ticks(WIDE, NARROW, reach);
            for pair in ticks.windows(2) {
                let [first, second] = [&pair[0], &pair[1]].map(|tick| place(tick.at, &tick.text));
                assert!(second.0 - first.1 >= 12.0 - 1e-9, "{pair:?}");
            }
            assert!(ticks.len() > 2, "{ticks:?}");
        }
    }

    #[test]
    fn counts_are_whole_and_measures_have_six_digits() {
        let texts = |format| {
            [1_234_567.0, 12.345_678_9, 0.5, f64::NAN]
                .map(|value| number(value, format).to_string())
        };
        assert_eq!(texts(Format::Count), ["1234567", "12.3457", "0.5", "0"]);
        assert_eq!(texts(Format::Rate), ["1234567", "12.3457", "0.5", "0"]);
        assert_eq!(texts(Format::Time), ["1234570", "12.3457", "0.5", "0"]);
    }
}
