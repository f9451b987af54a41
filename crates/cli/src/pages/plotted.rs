//! The page of `dyno tune plot`: accuracy against width, and histograms of weights.

use std::fmt::Write as _;

use dyno_experiment::tune::{Curve, Frontier, Histogram, Plot};
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
         for.</p>{}<div class=\"charts\">",
        escaped(&plot.set),
        plot::HEADING
    );
    let objects = plot.curves.chunk_by(|a, b| a.object == b.object);
    for curves in objects {
        body.push_str(&accuracy(plot, curves));
    }
    body.push_str("</div></section>\n");
    if let Some(frontier) = &plot.frontier {
        body.push_str("<section class=\"card\"><h2>Accuracy by size</h2>");
        body.push_str(plot::HEADING);
        body.push_str("<div class=\"charts\">");
        body.push_str(&sizes(frontier));
        body.push_str("</div></section>\n");
    }
    if !plot.histograms.is_empty() {
        body.push_str(
            "<section class=\"card\"><h2>Weights</h2><p class=\"note\">How many weights there are of each size. \
             Upright lines are the values that the chosen format has.</p>",
        );
        body.push_str(plot::HEADING);
        body.push_str("<div class=\"charts\">");
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

/// Returns the accuracies that matter: from some margins beyond the limit to the best one. Points
/// far beyond it would hide those near it. FLOAT 32 and the limit are always inside.
fn relevant(plot: &Plot) -> [f64; 2] {
    let Plot { baseline, curves, .. } = plot;
    let all = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.accuracy);
    let margin = (baseline.accuracy - baseline.threshold).abs().max(0.005);
    let is_error = baseline.threshold > baseline.accuracy;
    let reach = MARGINS_SHOWN * margin;
    let (low, high) =
        (baseline.accuracy.min(baseline.threshold), baseline.accuracy.max(baseline.threshold));
    let [least, most] = [all().fold(low, f64::min), all().fold(high, f64::max)];
    let (least, most) = if is_error {
        (least, most.min(baseline.threshold + reach))
    } else {
        (least.max(baseline.threshold - reach), most)
    };
    let air = 0.04 * (most - least);
    [least - air, most + air]
}

/// Margins beyond the limit that the axis shows.
const MARGINS_SHOWN: f64 = 5.0;

/// Returns the widths that matter: up to a few bits beyond the narrowest from which all keep the
/// margin.
fn widest(plot: &Plot) -> f64 {
    let threshold = plot.baseline.threshold;
    let is_error = threshold > plot.baseline.accuracy;
    let fails = |accuracy: f64| if is_error { accuracy > threshold } else { accuracy < threshold };
    let points = plot.curves.iter().flat_map(|curve| &curve.points);
    let last = points.filter(|point| fails(point.accuracy)).map(|point| point.bits).max();
    (f64::from(last.unwrap_or(1)) + 4.0).clamp(6.0, 16.0)
}

/// Returns the chart of an object. All charts share their axes.
fn accuracy(plot: &Plot, curves: &[Curve]) -> String {
    let title = curves[0].object.as_deref().unwrap_or("everything");
    let ([low, high], widest) = (relevant(plot), widest(plot));
    let x = Axis::between("bits", Format::Count, 1.0, widest);
    let y = Axis::between("accuracy", Format::Share, low, high);
    let mut chart = Chart::new(title, x, y);
    for (at, curve) in curves.iter().enumerate() {
        let points = curve.points.iter().filter(|point| f64::from(point.bits) <= widest);
        // A line that leaves the axis ends at its border.
        let points =
            points.map(|point| Point::new(point.bits.into(), point.accuracy.clamp(low, high)));
        chart = chart.with(curve.kind, Ink::nth(at), Shape::Line, points.collect());
    }
    let threshold = plot.baseline.threshold;
    let name = format!("must be kept: {}", words::share(threshold));
    plot::figure(&chart.rule(RuleAxis::Y, Some(threshold), &name, Ink::Bad))
}

/// Returns the chart of a job's configurations that no other one beats.
fn sizes(frontier: &Frontier) -> String {
    let Frontier { set, samples, points, .. } = frontier;
    let threshold = frontier.threshold;
    // Configurations far beyond the limit do not matter.
    let best = points.last().map_or(threshold, |point| point.accuracy);
    let reach = MARGINS_SHOWN * (best - threshold).abs().max(0.005);
    let shown = || points.iter().filter(move |point| (point.accuracy - threshold).abs() <= reach);
    let edges = || shown().flat_map(|point| point.interval.unwrap_or([point.accuracy; 2]));
    let (low, high) = (edges().fold(threshold, f64::min), edges().fold(threshold, f64::max));
    let air = 0.04 * (high - low).max(0.001);
    let x = Axis::log(
        "bits of weights and activations",
        Format::Count,
        shown().map(|point| point.bits),
    );
    let y = Axis::between("accuracy", Format::Share, low - air, high + air);
    let band = shown().filter_map(|point| {
        let [low, high] = point.interval?;
        Some(Point { to: high, ..Point::new(point.bits, low) })
    });
    let band: Vec<Point> = band.collect();
    let dot = |point: &dyno_experiment::tune::FrontierPoint| Point {
        tip: format!("{}\naccuracy {}", point.formats, point.accuracy),
        ..Point::new(point.bits, point.accuracy)
    };
    let count = samples.map_or_else(String::new, |samples| format!(" of {samples} samples"));
    let about = if band.is_empty() {
        "The accuracy is not a share of samples, so it has no interval."
    } else {
        "The band is the interval that contains the accuracy with 95 % confidence."
    };
    let mut chart = Chart::new("Configurations of the job", x, y).note(format!(
        "Each dot is a configuration on the {set} set{count} that is smaller than all that are as accurate. \
         {about} The best of many configurations looks better on these samples than on others."
    ));
    if !band.is_empty() {
        chart = chart.with("95 % interval", Ink::Quiet, Shape::Band, band);
    }
    let chart = chart.with("configurations", Ink::B, Shape::Dots, shown().map(dot).collect());
    let name = format!("must be kept: {threshold:.5}");
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
