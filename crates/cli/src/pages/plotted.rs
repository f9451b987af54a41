//! The page of `dyno tune plot`: accuracy against width, and histograms of weights.

use std::fmt::Write as _;

use dyno_experiment::tune::{Curve, Histogram, Plot};
use dyno_report::page::{self, Masthead};
use dyno_report::plot::{self, Axis, Chart, Format, Ink, Point, RuleAxis, Shape};
use dyno_report::words::{self, escaped};

/// Returns the page.
pub fn html(plot: &Plot) -> String {
    let mut body = String::new();
    let _ = write!(
        body,
        "<section class=\"card\"><h2>Accuracy by width</h2><p class=\"note\">On the {} set. Everything in one \
         format, and then one object while all others stay FLOAT 32; biases as the largest magnitudes ask \
         for.</p><div class=\"charts\">",
        escaped(&plot.set)
    );
    let objects = plot.curves.chunk_by(|a, b| a.object == b.object);
    for curves in objects {
        body.push_str(&accuracy(plot, curves));
    }
    body.push_str("</div></section>\n");
    if !plot.histograms.is_empty() {
        body.push_str(
            "<section class=\"card\"><h2>Weights</h2><p class=\"note\">How many weights there are of each size. \
             Upright lines are the values that the chosen format has.</p><div class=\"charts\">",
        );
        plot.histograms.iter().for_each(|histogram| body.push_str(&weights(histogram)));
        body.push_str("</div></section>\n");
    }
    let name = if plot.network.is_empty() { "network" } else { &plot.network };
    let title = format!("Widths of {name}");
    let facts = vec![
        format!("FLOAT 32 has accuracy <b>{}</b>", plot.baseline.accuracy),
        format!("the margin keeps <b>{:.5}</b>", plot.baseline.threshold),
    ];
    page::document(&title, &Masthead { name: &title, verdict: None, facts }, &body)
}

/// Appends the curves. They share an accuracy axis, which starts at a round share below all of them.
fn accuracy(plot: &Plot, curves: &[Curve]) -> String {
    let title = curves[0].object.as_deref().unwrap_or("everything");
    let x = Axis::between("bits", Format::Count, 1.0, 16.0);
    let all = plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.accuracy);
    let least = all.fold(plot.baseline.threshold, f64::min).clamp(0.0, 0.9);
    let y = Axis::between("accuracy", Format::Share, (least * 10.0).floor() / 10.0, 1.0);
    let mut chart = Chart::new(title, x, y);
    for (at, curve) in curves.iter().enumerate() {
        let points = curve.points.iter().map(|point| Point::new(point.bits.into(), point.accuracy));
        chart = chart.with(curve.kind, Ink::nth(at), Shape::Line, points.collect());
    }
    let threshold = plot.baseline.threshold;
    let name = format!("must be kept: {}", words::share(threshold));
    plot::figure(&chart.rule(RuleAxis::Y, Some(threshold), &name, Ink::Bad))
}

fn weights(histogram: &Histogram) -> String {
    let (low, high) = (histogram.edges[0], histogram.edges[histogram.edges.len() - 1]);
    let x = Axis::between("weight", Format::Rate, low, high);
    let y =
        Axis::linear("weights", Format::Count, histogram.counts.iter().map(|count| *count as f64));
    let bars = histogram.counts.iter().zip(histogram.edges.windows(2));
    let bars = bars.map(|(count, edge)| Point {
        to: edge[1],
        tip: count.to_string(),
        ..Point::new(edge[0], *count as f64)
    });
    let note = match (&histogram.format, histogram.codes.len()) {
        (None, _) => "No format is chosen for it.".to_owned(),
        (Some(format), 0) => format!("{format} has too many values to draw."),
        (Some(format), count) => format!("{format}: {count} of its values are within reach."),
    };
    let mut chart = Chart::new(&histogram.layer, x, y).note(note).with(
        "weights",
        Ink::A,
        Shape::Bars,
        bars.collect(),
    );
    for code in &histogram.codes {
        chart = chart.rule(RuleAxis::X, Some(*code), "", Ink::Bad);
    }
    plot::figure(&chart)
}
