//! Early stopping in words and as a chart.

use std::fmt::Write as _;

use dyno_loadgen::early_stopping::{Params, largest_overlatency};
use dyno_results::series;
use dyno_results::summary::Test;
use dyno_results::summary::metrics::{Bound, EarlyStopping, Estimate};
use dyno_results::units::{self, count};

use super::plot::{self, Axis, Chart, Format, Ink, Label, Point, RuleAxis, Shape};
use super::words::{self, counted, escaped};

/// Number of points of the boundary.
const STEPS: u64 = 90;

/// Maximum number of queries for which the boundary is drawn; it would take too long to compute
/// for more.
const QUERIES_MOST: u64 = 1 << 30;

/// Appends the early stopping results of a test; nothing if it has none.
pub fn section(html: &mut String, test: &Test, series: Option<&series::Test>) {
    let Some(metrics) = &test.metrics else { return };
    if metrics.early_stopping.is_empty() {
        return;
    }
    html.push_str("<h3>Early stopping</h3><div class=\"stopping\">");
    for of in &metrics.early_stopping {
        match (&of.bound, of.estimates.first()) {
            (Some(bound), _) => against_bound(html, of, bound),
            (None, Some(estimate)) => estimated(html, of, estimate, series),
            (None, None) => {}
        }
    }
    html.push_str(
        "</div><p class=\"source\">Early stopping as defined in the appendix “Early Stopping \
         Criterion” of the MLPerf inference rules: an exact binomial test. <code>dyno info \
         metrics</code> has the formulas.</p>\n",
    );
}

/// Returns the name of a kind of time.
fn name(of: &str) -> &'static str {
    match of {
        "first_token" => "time to first token",
        "time_per_output_token" => "time per output token",
        _ => "latency",
    }
}

/// Returns how many of `of` queries lie above a percentile, rounded to the nearest integer because
/// 1 - 0.9 is less than 0.1 in floating point.
fn part(of: u64, percentile: f64) -> u64 {
    (of as f64 * (1.0 - percentile)).round() as u64
}

fn params(of: &EarlyStopping) -> Option<Params> {
    // A damaged summary may hold any value.
    let is_share = |value: f64| value > 0.0 && value < 1.0;
    let tolerance =
        if of.tolerance >= 0.0 && of.tolerance < of.percentile { of.tolerance } else { 0.0 };
    (is_share(of.percentile) && is_share(of.confidence)).then_some(Params {
        percentile: of.percentile,
        confidence: of.confidence,
        tolerance,
    })
}

fn against_bound(html: &mut String, of: &EarlyStopping, bound: &Bound) {
    let (kind, sure) = (name(&of.of), words::share(of.confidence));
    let may = words::share(1.0 - of.percentile);
    let _ = write!(
        html,
        "<div class=\"words\"><p>{} of {} exceeded the bound on {kind}. {may} may. But a run is a \
         sample, and a lucky run can look better than the system. So early stopping allows fewer: \
         a number that a system that just misses the bound would show in less than {} of such \
         runs.</p>",
        count(bound.over),
        counted(bound.queries, "query", "queries"),
        words::share(1.0 - of.confidence),
    );
    let allowed = match bound.allowed {
        Some(allowed) => format!(
            "With {} that is at most <b>{}</b> over the bound; {} of them would be {}.",
            counted(bound.queries, "query", "queries"),
            count(allowed),
            may,
            count(part(bound.queries, of.percentile)),
        ),
        None => format!(
            "{} too few, even if none is over the bound.",
            units::counted_with_verb(bound.queries, "query", "queries")
        ),
    };
    let verdict = if bound.deficit == 0 {
        format!("<b class=\"good\">This run is certain enough</b>, with {sure} confidence.")
    } else if bound.needed == u64::MAX {
        "<b class=\"bad\">No number of queries is enough.</b>".to_string()
    } else {
        format!(
            "<b class=\"bad\">This run is not certain enough</b>: with {} over the bound it needs \
             {}: {} more if none of those is over it.",
            count(bound.over),
            counted(bound.needed, "query", "queries"),
            count(bound.deficit),
        )
    };
    let _ = write!(html, "<p>{allowed}</p><p>{verdict}</p></div>");
    if let Some(params) = params(of).filter(|_| bound.queries < QUERIES_MOST) {
        *html += &plot::figure(&plane(&params, bound, kind));
    }
}

/// Returns a chart of queries over the bound by queries, with the region in which a run passes and
/// the position of this run.
fn plane(params: &Params, bound: &Bound, kind: &str) -> Chart {
    let needed = if bound.needed == u64::MAX { bound.queries } else { bound.needed };
    // For a run far from the boundary, the axis ends at 50 times its queries.
    let end = needed.min(bound.queries.saturating_mul(50)).max(bound.queries).max(10);
    let end = end.saturating_add(end / 6).min(QUERIES_MOST);
    let allowed = |queries: u64| largest_overlatency(queries, params).map(|most| most as f64);
    let share = 1.0 - params.percentile;
    let steps = || (0..=STEPS).map(|step| end / STEPS * step + end % STEPS * step / STEPS);
    let boundary: Vec<Point> =
        steps().filter_map(|n| Some(Point::new(n as f64, allowed(n)?))).collect();
    let over = bound.over as f64;
    let top = boundary.last().map_or(1.0, |p| p.y).max(over).max(end as f64 * share);
    let x = Axis::between("queries", Format::Count, 0.0, end as f64);
    let y = Axis::between("over the bound", Format::Count, 0.0, (top * 1.12).max(2.0));
    let passes = boundary.iter().map(|p| Point { y: 0.0, to: p.y, ..p.clone() }).collect();
    let naive = vec![Point::new(0.0, 0.0), Point::new(end as f64, end as f64 * share)];
    let here = Point {
        x: bound.queries as f64,
        y: over,
        tip: format!(
            "this run\n{} queries\n{} over the bound",
            count(bound.queries),
            count(bound.over)
        ),
        ..Point::default()
    };
    let mut chart = Chart::new(format!("Queries over the bound on {kind}"), x, y)
        .note("A run passes on the boundary or below it.")
        .with("passes", Ink::Good, Shape::Band, passes)
        .with("maximum over the bound", Ink::Good, Shape::Line, boundary)
        .with(&format!("{} of the queries", words::share(share)), Ink::Quiet, Shape::Line, naive);
    if bound.deficit > 0 && bound.needed <= end {
        let way = vec![here.clone(), Point::new(bound.needed as f64, over)];
        chart = chart.with("queries still needed", Ink::B, Shape::Line, way);
    }
    let ink = if bound.deficit == 0 { Ink::A } else { Ink::Bad };
    chart.labels.push(Label { x: here.x, y: over, name: "this run".into() });
    chart.with("this run", ink, Shape::Dots, vec![here])
}

fn estimated(
    html: &mut String,
    of: &EarlyStopping,
    estimate: &Estimate,
    series: Option<&series::Test>,
) {
    let (kind, at) = (name(&of.of), units::percentile_or_extreme(estimate.percentile));
    html.push_str("<div class=\"words\">");
    match (estimate.rank, estimate.latency_ns) {
        (Some(rank), Some(latency)) => {
            let _ = write!(
                html,
                "<p>{} of {} exceeded the {at} of this run. But a run is a sample: the true {at} \
                 of the system may be higher than that of a lucky run.</p><p>So early stopping \
                 sets aside only the <b>{} slowest</b> and uses the next one: with {} confidence \
                 the {at} {kind} of the system is <b>at most {}</b>.</p>",
                count(part(estimate.processed, estimate.percentile)),
                counted(estimate.processed, "query", "queries"),
                count(rank),
                words::share(of.confidence),
                words::time_ns(latency),
            );
        }
        _ => {
            let _ = write!(
                html,
                "<p>{} too few to bound the {at} {kind} with {} confidence: that needs at \
                 least <b>{}</b>, so that the slowest can be set aside. Raise \
                 <code>min_query_count</code> or <code>min_duration_ms</code>.</p>",
                units::counted_with_verb(estimate.processed, "query", "queries"),
                words::share(of.confidence),
                count(estimate.needed),
            );
        }
    }
    if of.estimates.len() > 1 {
        html.push_str(
            "<table class=\"plain\"><thead><tr><th scope=\"col\">percentile</th><th scope=\"col\" \
             class=\"n\">set aside</th><th scope=\"col\" class=\"n\">at most</th></tr></thead><tbody>",
        );
        for estimate in &of.estimates {
            let rank = estimate.rank.map_or_else(|| "–".into(), count);
            let most = match estimate.latency_ns {
                Some(latency) => words::time_ns(latency),
                None => format!("needs {} queries", count(estimate.needed)),
            };
            let _ = write!(
                html,
                "<tr><th scope=\"row\">{}</th><td class=\"n\">{rank}</td><td class=\"n\">{}</td></tr>",
                units::percentile_or_extreme(estimate.percentile),
                escaped(&most)
            );
        }
        html.push_str("</tbody></table>");
    }
    html.push_str("</div>");
    if let (Some(series), Some(rank)) = (series, estimate.rank) {
        *html += &plot::figure(&tail(estimate, rank, series));
    }
}

/// Returns a chart of the slowest queries in order, with the percentile of the run and the
/// estimate.
fn tail(estimate: &Estimate, rank: u64, series: &series::Test) -> Chart {
    let total = estimate.processed.max(1) as f64;
    let share = 1.0 - estimate.percentile;
    let begin = (1.0 - 2.2 * share).max(0.0);
    let set_aside = 1.0 - rank as f64 / total;
    let spectrum = series.latency.spectrum.iter().map(|&(q, time)| Point::new(q, time as f64));
    let known = estimate.latency_ns.map(|latency| Point::new(set_aside, latency as f64));
    let mut points: Vec<Point> = spectrum.chain(known).filter(|p| p.x >= begin).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    let x = Axis::between("queries from fast to slow", Format::Share, begin, 1.0);
    let y = Axis::log("latency, logarithmic", Format::Time, points.iter().map(|p| p.y));
    let zone = points.iter().filter(|p| p.x >= set_aside);
    let zone = zone.map(|p| Point { y: y.first(), to: p.y, ..p.clone() }).collect();
    let at = units::percentile_or_extreme(estimate.percentile);
    let mut chart = Chart::new(format!("The slowest {}", words::share(1.0 - begin)), x, y)
        .note(format!(
            "{} set aside; the estimate is the next one.",
            units::counted_with_verb(rank, "query", "queries")
        ))
        .with("set aside", Ink::B, Shape::Band, zone)
        .with("latency", Ink::A, Shape::Line, points)
        .rule(RuleAxis::X, Some(estimate.percentile), &format!("{at} of this run"), Ink::Quiet)
        .rule(RuleAxis::X, Some(set_aside), "estimate", Ink::B);
    if let Some(latency) = estimate.latency_ns {
        let name = format!("at most {}", words::time_ns(latency));
        chart.labels.push(Label { x: set_aside, y: latency as f64, name });
    }
    chart
}
