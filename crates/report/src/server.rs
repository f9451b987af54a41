//! What servers exposed of themselves, and energy, within the section of a test.

use std::fmt::Write as _;

use dyno_loadgen::clock::SECOND;
use dyno_results::series::{self, ServerReadings};
use dyno_results::summary::server_metrics::{ALL, GAUGES, value};
use dyno_results::summary::{Energy, ServerMetrics, Test};
use dyno_results::units::{count, counted};

use super::charts;
use super::one::RunPage;
use super::plot::{self, Format, Point};
use super::words::{escaped, span_ns};

/// Appends the metrics pages of a test and its energy; nothing if it has none.
pub fn section(html: &mut String, test: &Test, series: Option<&series::Test>, shown: &RunPage<'_>) {
    let is_own = |scenario: &str, mode: &str| (scenario, mode) == (&*test.scenario, &*test.mode);
    let pages = shown.run.servers.iter().filter(|page| is_own(&page.scenario, &page.mode));
    let pages: Vec<&ServerMetrics> = pages.collect();
    if !pages.is_empty() {
        html.push_str(
            "<h3>Server metrics</h3><p class=\"note\">From the metrics page of the server, \
             including its other clients. Not judged.</p>",
        );
        table(html, &pages);
    }
    let readings = shown.series.servers.iter().filter(|of| is_own(&of.scenario, &of.mode));
    let readings: Vec<&ServerReadings> = readings.collect();
    if let Some(slices) = series.map(|series| &series.slices[..]).filter(|of| !of.is_empty()) {
        let figures = [
            chart("Requests in the server", "requests", &["waiting", "running"], &readings, slices),
            chart("Batch size", "requests", &["batch_size"], &readings, slices),
            chart("KV-cache use", "share in use", &["kv_cache_use"], &readings, slices),
        ];
        let figures: Vec<String> = figures.into_iter().flatten().collect();
        if !figures.is_empty() {
            let _ = write!(html, "<div class=\"charts\">{}</div>", figures.concat());
        }
    }
    let mut energy = shown.run.energy.iter().filter(|of| is_own(&of.scenario, &of.mode));
    if let Some(text) = energy.next().map(Energy::text).filter(|text| !text.is_empty()) {
        let _ = write!(html, "<p class=\"note\">Energy: {}.</p>", escaped(&text));
    }
}

fn table(html: &mut String, pages: &[&ServerMetrics]) {
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"stack\"><thead><tr>\
         <th scope=\"col\">page</th><th scope=\"col\">quantity</th>\
         <th scope=\"col\" class=\"n\">mean</th><th scope=\"col\" class=\"n\">max</th>\
         <th scope=\"col\" class=\"n\">last</th></tr></thead><tbody>",
    );
    for page in pages {
        let name = match &page.page[..] {
            ALL => "all pages".to_owned(),
            url => format!("{} {url}", page.servers.join(", ")).trim().to_owned(),
        };
        let name = escaped(&name);
        if let (Some(why), true) = (&page.absent, page.gauges.is_empty()) {
            let why = escaped(why);
            let _ = write!(
                html,
                "<tr><th scope=\"row\">{name}</th>\
                 <td colspan=\"4\" data-label=\"result\">not read: {why}</td></tr>"
            );
            continue;
        }
        for (quantity, label) in GAUGES {
            let Some(gauge) = page.gauges.get(quantity) else { continue };
            let [mean, max, last] =
                [gauge.mean, gauge.max, gauge.last].map(|found| value(quantity, found));
            let _ = write!(
                html,
                "<tr><th scope=\"row\">{name}</th><td data-label=\"quantity\">{label}</td>\
                 <td class=\"n\" data-label=\"mean\">{mean}</td>\
                 <td class=\"n\" data-label=\"max\">{max}</td>\
                 <td class=\"n\" data-label=\"last\">{last}</td></tr>"
            );
        }
        for (counter, label) in
            [("prompt_tokens", "input tokens"), ("generated_tokens", "output tokens")]
        {
            let Some(grown) = page.counters.get(counter) else { continue };
            let grown = count(grown.max(0.0).round() as u64);
            let _ = write!(
                html,
                "<tr><th scope=\"row\">{name}</th><td data-label=\"quantity\">{label}</td>\
                 <td class=\"n\" colspan=\"3\" data-label=\"total\">{grown}</td></tr>"
            );
        }
        let readings = readings(page);
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{name}</th><td data-label=\"quantity\">metrics page</td>\
             <td class=\"n\" colspan=\"3\" data-label=\"result\">{readings}</td></tr>"
        );
    }
    html.push_str("</tbody></table></div>");
}

/// Returns how often the page was read, such as `2 readings, one per second, 0 failed`.
fn readings(page: &ServerMetrics) -> String {
    let often = match page.interval_ns {
        SECOND => "one per second".into(),
        interval => format!("one every {}", span_ns(interval)),
    };
    let readings = counted(page.readings, "reading", "readings");
    format!("{readings}, {often}, {} failed", count(page.failed_readings))
}

/// Returns a chart of quantities over time, with a line for each page; `None` without values.
fn chart(
    title: &str,
    axis: &str,
    quantities: &[&str],
    pages: &[&ServerReadings],
    slices: &[series::Slice],
) -> Option<String> {
    let end = slices.last().map_or(0, |slice| slice.begin_ns.saturating_add(slice.width_ns));
    let is_one = pages.len() == 1;
    let mut lines = Vec::new();
    for page in pages {
        for &quantity in quantities {
            let points = points(page, quantity, end);
            if !points.is_empty() {
                let quantity = quantity.replace('_', " ");
                let name = if is_one { quantity } else { format!("{quantity}, {}", page.page) };
                lines.push((name, points));
            }
        }
    }
    if lines.is_empty() {
        return None;
    }
    let format = if quantities == ["kv_cache_use"] { Format::Share } else { Format::Count };
    let lines = lines.iter().map(|(name, points)| (&name[..], points.clone())).collect();
    let chart = charts::over_time(title, axis, format, slices, lines);
    Some(plot::figure(&chart.note("From the metrics page of the server.")))
}

/// Returns the values during the run. Sizes of batches that are only counted are the growth of one
/// counter per growth of the other.
fn points(page: &ServerReadings, quantity: &str, end: u64) -> Vec<Point> {
    let during = |at: i64| u64::try_from(at).is_ok_and(|at| at <= end);
    if let Some(values) = page.values.get(quantity) {
        let points = page.at_ns.iter().zip(values).filter(|(at, _)| during(**at));
        return points.filter_map(|(at, value)| Some(Point::new(*at as f64, (*value)?))).collect();
    }
    let column = |name: &str| page.values.get(name).map(Vec::as_slice).unwrap_or_default();
    let (sums, counts) = (column("batch_size_sum"), column("batches"));
    if quantity != "batch_size" {
        return Vec::new();
    }
    // A damaged file may have columns of several lengths.
    let length = page.at_ns.len().min(sums.len()).min(counts.len());
    let point = |at: usize| {
        let (sum, count) = (sums[at]? - sums[at - 1]?, counts[at]? - counts[at - 1]?);
        let time = page.at_ns[at];
        (count > 0.0 && during(time)).then(|| Point::new(time as f64, sum / count))
    };
    (1..length).filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_counted_with_their_interval() {
        let page = |readings, interval_ns| ServerMetrics {
            readings,
            interval_ns,
            ..ServerMetrics::default()
        };
        assert_eq!(readings(&page(2, SECOND)), "2 readings, one per second, 0 failed");
        assert_eq!(readings(&page(1, 2 * SECOND)), "1 reading, one every 2.00\u{202f}s, 0 failed");
    }

    #[test]
    fn values_outside_of_the_run_are_not_drawn() {
        let page = ServerReadings {
            at_ns: vec![-5, 0, 5, 10, 15],
            values: [
                ("waiting".to_owned(), vec![Some(9.0), Some(1.0), None, Some(3.0), Some(9.0)]),
                ("batch_size_sum".to_owned(), [0.0, 4.0, 12.0, 12.0, 13.0].map(Some).to_vec()),
                ("batches".to_owned(), [0.0, 2.0, 4.0, 4.0, 5.0].map(Some).to_vec()),
            ]
            .into(),
            ..ServerReadings::default()
        };
        let found = |quantity| -> Vec<(f64, f64)> {
            points(&page, quantity, 10).iter().map(|point| (point.x, point.y)).collect()
        };
        assert_eq!(found("waiting"), [(0.0, 1.0), (10.0, 3.0)]);
        assert_eq!(found("batch_size"), [(0.0, 2.0), (5.0, 4.0)]);
        assert_eq!(found("kv_cache_use"), []);
    }
}
