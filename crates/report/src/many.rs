//! Page of several runs or of a search.

use std::fmt::Write as _;
use std::path::Path;

use dyno_results::collection::{Collection, Row};
use dyno_results::summary::{Headline, Test};
use dyno_results::sweep::LoadCurve;
use dyno_results::units;

use super::charts::{self, Threshold};
use super::page::{self, Masthead, Tone, badge};
use super::pareto::{self, Candidate};
use super::plot::{self, Axis, Chart, Format, Ink, Label, Point, Shape};
use super::words::{self, escaped};
use super::{load, one, searched};

/// Maximum number of curves in one chart; more cannot be distinguished.
const CURVES: usize = 12;

/// Returns the page; `home` is the folder in which it will be written.
pub fn html(several: &Collection, home: &Path) -> String {
    let rows = several.rows();
    let mut problems = several.problems.clone();
    for member in &several.members {
        problems
            .extend(member.contents.missing.iter().map(|text| format!("{}: {text}", member.label)));
    }
    let empty = several.members.iter().filter(|member| member.contents.run.tests.is_empty());
    problems.extend(empty.map(|member| format!("{}: none of its tests finished.", member.label)));
    let mut body = page::missing(&problems);
    for searched in &several.searches {
        let title = match several.searches.len() {
            1 => "Findings".into(),
            _ => searched.name(),
        };
        searched::section(&mut body, searched, &title);
    }
    for curve in several.sweeps.iter().filter_map(LoadCurve::from_sweep) {
        load::section(&mut body, &curve);
    }
    if !rows.is_empty() || several.searches.is_empty() {
        body += if several.searches.is_empty() {
            "<section class=\"card\"><h2>All results</h2>"
        } else {
            "<section class=\"card\"><h2>Full runs</h2>"
        };
        table(&mut body, several, &rows, home);
        body += "</section>\n";
    }
    let measured: Vec<Row<'_>> = rows.iter().filter(|row| row.metrics.is_some()).copied().collect();
    for scenario in scenarios(&measured) {
        let of: Vec<Row<'_>> =
            measured.iter().filter(|r| r.test.scenario == scenario).copied().collect();
        section(&mut body, &scenario, &of);
    }
    let runs = words::counted(several.members.len() as u64, "run", "runs");
    let (name, verdict) = match (&several.sweeps[..], &several.searches[..]) {
        ([], []) => (runs.clone(), None),
        ([], [only]) => (only.name(), Some(searched::verdict(only))),
        ([], searches) => (words::counted(searches.len() as u64, "search", "searches"), None),
        (sweeps, _) => {
            let names: Vec<&str> = sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
            (format!("Sweep {}", names.join(", ")), None)
        }
    };
    let mut facts = if several.sweeps.is_empty() { Vec::new() } else { vec![runs] };
    let mut systems: Vec<&str> = several
        .members
        .iter()
        .map(|m| m.contents.run.system.as_str())
        .filter(|s| !s.is_empty())
        .collect();
    systems.sort_unstable();
    systems.dedup();
    match &systems[..] {
        [] => {}
        [one] => facts.push(format!("system <b>{}</b>", escaped(one))),
        several => facts.push(format!("{} systems", several.len())),
    }
    let verdict = verdict.as_ref().map(|(text, tone)| (text.as_str(), *tone));
    page::document(&name, &Masthead { name: &name, verdict, facts }, &body)
}

fn scenarios(rows: &[Row<'_>]) -> Vec<String> {
    let mut scenarios: Vec<String> = Vec::new();
    for row in rows {
        if !scenarios.contains(&row.test.scenario) {
            scenarios.push(row.test.scenario.clone());
        }
    }
    scenarios
}

fn table(html: &mut String, several: &Collection, rows: &[Row<'_>], home: &Path) {
    let has_accuracy = rows.iter().any(|row| row.accuracy.is_some());
    let has_operations = several.members.iter().any(|member| member.operations.is_some());
    let mut heads = vec!["run", "test", "result", "throughput", "p50", "p99"];
    heads.extend(has_accuracy.then_some("accuracy"));
    heads.extend(has_operations.then_some("operations"));
    heads.push("verdict");
    let _ = write!(
        html,
        "<div class=\"{}\" tabindex=\"0\"><table class=\"filtered sorted stack\" \
         data-filter=\"results\"><thead><tr>",
        page::scroll(rows.len())
    );
    for head in &heads {
        let class = if matches!(*head, "run" | "test" | "verdict") { "" } else { " class=\"n\"" };
        let _ = write!(html, "<th scope=\"col\"{class}>{head}</th>");
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        let label = escaped(&row.label());
        let name = match link(row, home) {
            Some(link) => format!("<a href=\"{link}\">{label}</a>"),
            None => label,
        };
        let tone = Tone::of_verdict(&row.test.verdict);
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{name}</th><td data-label=\"test\">{} {}</td>",
            escaped(&row.test.scenario),
            escaped(&row.test.mode)
        );
        result_cell(html, row.test);
        cell(
            html,
            "throughput",
            row.throughput(),
            &row.throughput().map_or("–".into(), |rate| format!("{}/s", units::rate(rate))),
        );
        for (name, time) in [
            ("p50", row.timed().map(|timed| timed.p50)),
            ("p99", row.timed().map(|timed| timed.p99)),
        ] {
            let text = time.map_or("–".into(), words::time_ns);
            cell(html, name, time.map(|time| time as f64), &text);
        }
        if has_accuracy {
            cell(html, "accuracy", row.accuracy, &row.accuracy.map_or("–".into(), words::share));
        }
        if has_operations {
            let operations = row.member.operations;
            cell(
                html,
                "operations",
                operations,
                &operations.map_or("–".into(), words::round_number),
            );
        }
        let _ = writeln!(
            html,
            "<td data-label=\"verdict\">{}</td></tr>",
            badge(&row.test.verdict, tone)
        );
    }
    html.push_str("</tbody></table></div>");
}

/// Appends a cell with a text; the table sorts by `value`.
fn cell(html: &mut String, name: &str, value: Option<f64>, text: &str) {
    let _ = write!(
        html,
        "<td class=\"n\" data-label=\"{name}\" data-value=\"{}\">{}</td>",
        sort_key(value),
        escaped(text)
    );
}

/// Appends the cell of a result; the table sorts by its unit, then by its value.
fn result_cell(html: &mut String, test: &Test) {
    let (value, unit) = test.result.as_ref().map_or((None, ""), |of| (of.value, of.unit.as_str()));
    let _ = write!(
        html,
        "<td class=\"n\" data-label=\"result\" data-unit=\"{}\" data-value=\"{}\">{}</td>",
        escaped(unit),
        sort_key(value),
        escaped(&one::value(test))
    );
}

fn sort_key(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(String::new(), |value| value.to_string())
}

/// Returns the link to the report of a run, relative to `home`; `None` if the report does not exist
/// or lies outside `home`.
fn link(row: &Row<'_>, home: &Path) -> Option<String> {
    let report = std::path::absolute(row.member.contents.path.join(super::FILE)).ok()?;
    let inside = report.strip_prefix(std::path::absolute(home).ok()?).ok()?;
    report.exists().then(|| words::href(inside)).flatten()
}

fn section(html: &mut String, scenario: &str, rows: &[Row<'_>]) {
    let _ = write!(html, "<section class=\"card test\"><h2>{}</h2>", escaped(scenario));
    results(html, rows);
    let (mut figures, mut has_front) = (Vec::new(), false);
    if rows.len() > 1 {
        if scenario == "Server" {
            figures.push(latency_throughput(rows));
            has_front = figures.iter().any(Option::is_some);
        }
        figures.push(accuracy_throughput(rows));
        figures.push(accuracy_operations(rows));
        figures.push(distributions(rows));
        figures.push(spectra(rows));
    }
    let figures: String = figures.into_iter().flatten().map(|chart| plot::figure(&chart)).collect();
    if !figures.is_empty() {
        let _ = write!(html, "{}<div class=\"charts\">{figures}</div>", plot::HEADING);
    }
    if has_front {
        html.push_str(
            "<p class=\"source\">The Pareto front contains the runs that no other run beats in \
             throughput without a higher latency. The bend is the point of the front that is \
             farthest below the straight line between its ends, with both axes from 0 to 1 and \
             latency by its logarithm (Kneedle without smoothing); a front with fewer than three \
             points, or a nearly straight one, has no bend. Runs that are not VALID are shown, \
             but not used.</p>",
        );
    }
    html.push_str("</section>\n");
}

/// Appends the headline of each run as a bar; results of different names have bars of their own.
fn results(html: &mut String, rows: &[Row<'_>]) {
    let results = rows.iter().filter_map(|row| Some((row, row.test.result.as_ref()?)));
    let results: Vec<Bar<'_, '_>> =
        results.filter_map(|(row, result)| Some((row, result, result.value?))).collect();
    let mut names: Vec<&str> = Vec::new();
    for (_, result, _) in &results {
        if !names.contains(&result.name.as_str()) {
            names.push(&result.name);
        }
    }
    for name in names {
        let of: Vec<_> = results.iter().filter(|(_, of, _)| of.name == name).copied().collect();
        bars(html, name, &of);
    }
}

/// Run, its headline, and the value of the headline.
type Bar<'r, 'a> = (&'r Row<'a>, &'a Headline, f64);

/// Appends the results of one name as bars, with their confidence intervals where they are known.
fn bars(html: &mut String, name: &str, results: &[Bar<'_, '_>]) {
    let highs = results.iter().map(|(_, result, value)| {
        result.interval.as_ref().map_or(*value, |interval| interval.high.max(*value))
    });
    let most = highs.fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let _ = write!(html, "<h3>{}</h3><div class=\"bars-of\">", escaped(name));
    for &(row, result, value) in results {
        let at = |value: f64| 100.0 * (value / most).clamp(0.0, 1.0);
        let whisker = result.interval.as_ref().map(|interval| {
            let (low, high) = (at(interval.low), at(interval.high));
            let width = high - low;
            format!("<i class=\"whiskers\" style=\"left:{low:.2}%;width:{width:.2}%\"></i>")
        });
        let interval = result.interval.as_ref().map(|interval| {
            // The unit of a rate stands beside the result.
            let of = |value| match &result.unit[..] {
                "ns" => words::time(value),
                _ => units::rate(value),
            };
            let share = words::share(interval.confidence);
            format!(" <small>{} to {} ({share})</small>", of(interval.low), of(interval.high))
        });
        let tone = match Tone::of_verdict(&row.test.verdict) {
            Tone::Good => "a",
            Tone::Open => "open",
            Tone::Bad => "bad",
        };
        let _ = write!(
            html,
            "<div><span class=\"who\">{}</span><span class=\"bar {tone}\" aria-hidden=\"true\">\
             <b style=\"width:{:.2}%\"></b>{}</span><span class=\"much\">{}{}</span></div>",
            escaped(&row.label()),
            at(value),
            whisker.unwrap_or_default(),
            escaped(&one::value(row.test)),
            interval.unwrap_or_default()
        );
    }
    html.push_str("</div>");
}

/// Returns the tooltip of a run.
fn tip(row: &Row<'_>) -> String {
    let mut lines = vec![row.label()];
    lines.extend(row.throughput().map(|rate| format!("{}/s", units::rate(rate))));
    if let Some(timed) = row.timed() {
        lines.push(format!("p50 {}", words::time_ns(timed.p50)));
        lines.push(format!("p99 {}", words::time_ns(timed.p99)));
    }
    lines.extend(row.accuracy.map(|accuracy| format!("accuracy {}", words::share(accuracy))));
    lines.extend(row.member.assignments.iter().map(|(key, value)| format!("{key} = {value}")));
    lines.push(row.test.verdict.clone());
    lines.join("\n")
}

fn dots(
    rows: &[(Row<'_>, Candidate)],
    is_valid: bool,
    x: fn(&Candidate) -> f64,
    y: fn(&Candidate) -> f64,
) -> Vec<Point> {
    rows.iter()
        .filter(|(row, _)| row.test.is_valid() == is_valid)
        .map(|(row, of)| Point { x: x(of), y: y(of), tip: tip(row), ..Point::default() })
        .collect()
}

/// Returns the candidates of a Pareto front: those of valid runs.
fn valid(of: &[(Row<'_>, Candidate)]) -> Vec<Candidate> {
    of.iter().filter(|(row, _)| row.test.is_valid()).map(|(_, of)| *of).collect()
}

/// Returns p99 latency by throughput, with the Pareto front and its bend.
fn latency_throughput(rows: &[Row<'_>]) -> Option<Chart> {
    let of: Vec<(Row<'_>, Candidate)> = rows
        .iter()
        .filter_map(|row| {
            let cost = row.timed()?.p99 as f64;
            (cost > 0.0).then_some((*row, Candidate { gain: row.throughput()?, cost }))
        })
        .collect();
    if of.len() < 2 {
        return None;
    }
    let valid = valid(&of);
    let front: Vec<Candidate> = pareto::front(&valid).into_iter().map(|at| valid[at]).collect();
    // A bound on another percentile is no bound on p99.
    let judged = if rows.iter().all(|row| row.test.plan.percentile == 0.99) {
        Threshold::common_latency(rows.iter().map(|row| row.test))
    } else {
        Threshold { bound: None }
    };
    let x =
        Axis::linear("samples answered per second", Format::Rate, of.iter().map(|(_, c)| c.gain));
    let y = of.iter().map(|(_, c)| c.cost).chain(judged.bound);
    let y = Axis::log("p99 latency, logarithmic", Format::Time, y);
    let mut chart = Chart::new("Latency by throughput", x, y)
        .note("Each point is a run. Right has more throughput, down has less latency.")
        .with(
            "Pareto front",
            Ink::Good,
            Shape::Line,
            front.iter().map(|c| Point::new(c.gain, c.cost)).collect(),
        )
        .with("VALID", Ink::A, Shape::Dots, dots(&of, true, |c| c.gain, |c| c.cost))
        .with("not VALID", Ink::Bad, Shape::Dots, dots(&of, false, |c| c.gain, |c| c.cost));
    if let Some(bend) = pareto::bend(&front) {
        let Candidate { gain, cost } = front[bend];
        let name = format!("bend of the front: {}/s at {}", units::rate(gain), words::time(cost));
        chart.labels.push(Label { x: gain, y: cost, name });
    }
    Some(judged.mark(chart))
}

/// Returns an axis that covers the accuracies of the points.
fn accuracy_axis(of: &[(Row<'_>, Candidate)], accuracy: fn(&Candidate) -> f64) -> Axis {
    let values = || of.iter().map(|(_, of)| accuracy(of));
    let (low, high) = (values().fold(1.0, f64::min), values().fold(0.0, f64::max));
    let air = ((high - low) * 0.12).max(0.002);
    Axis::between("accuracy", Format::Share, (low - air).max(0.0), (high + air).min(1.0))
}

fn accuracy_throughput(rows: &[Row<'_>]) -> Option<Chart> {
    // The front minimizes cost, so cost is the share of wrong answers.
    let of: Vec<(Row<'_>, Candidate)> = rows
        .iter()
        .filter_map(|row| {
            Some((*row, Candidate { gain: row.throughput()?, cost: 1.0 - row.accuracy? }))
        })
        .collect();
    if of.len() < 2 {
        return None;
    }
    let all = valid(&of);
    let front =
        pareto::front(&all).into_iter().map(|at| Point::new(all[at].gain, 1.0 - all[at].cost));
    let x =
        Axis::linear("samples answered per second", Format::Rate, of.iter().map(|(_, of)| of.gain));
    Some(
        Chart::new("Accuracy by throughput", x, accuracy_axis(&of, |of| 1.0 - of.cost))
            .note("Each point is a run. Right has more throughput, up has higher accuracy.")
            .with("Pareto front", Ink::Good, Shape::Line, front.collect())
            .with("VALID", Ink::A, Shape::Dots, dots(&of, true, |c| c.gain, |c| 1.0 - c.cost))
            .with(
                "not VALID",
                Ink::Bad,
                Shape::Dots,
                dots(&of, false, |c| c.gain, |c| 1.0 - c.cost),
            ),
    )
}

fn accuracy_operations(rows: &[Row<'_>]) -> Option<Chart> {
    let of: Vec<(Row<'_>, Candidate)> = rows
        .iter()
        .filter_map(|row| {
            Some((*row, Candidate { gain: row.accuracy?, cost: row.member.operations? }))
        })
        .collect();
    if of.len() < 2 {
        return None;
    }
    let all = valid(&of);
    let front = pareto::front(&all).into_iter().map(|at| Point::new(all[at].cost, all[at].gain));
    let x = Axis::log(
        "operations per sample, logarithmic",
        Format::Rate,
        of.iter().map(|(_, of)| of.cost),
    );
    Some(
        Chart::new("Accuracy by operations", x, accuracy_axis(&of, |of| of.gain))
            .note("Each point is a run. Left needs fewer operations, up has higher accuracy.")
            .with("Pareto front", Ink::Good, Shape::Line, front.collect())
            .with("VALID", Ink::A, Shape::Dots, dots(&of, true, |c| c.cost, |c| c.gain))
            .with("not VALID", Ink::Bad, Shape::Dots, dots(&of, false, |c| c.cost, |c| c.gain)),
    )
}

fn plotted<'a>(rows: &[Row<'a>]) -> Vec<(String, &'a dyno_results::series::Test)> {
    let of = rows.iter().filter_map(|row| Some((row.label(), row.series?)));
    of.filter(|(_, series)| !series.latency.spectrum.is_empty()).take(CURVES).collect()
}

fn only_some(rows: usize, shown: usize) -> String {
    if rows > shown { format!(" The chart shows {shown} of {rows} runs.") } else { String::new() }
}

fn distributions(rows: &[Row<'_>]) -> Option<Chart> {
    let of = plotted(rows);
    let curves: Vec<(String, Vec<Point>)> = of
        .iter()
        .map(|(name, series)| (name.clone(), charts::cumulative_points(&series.latency)))
        .collect();
    let all = of.iter().map(|(_, series)| &series.latency);
    let x = charts::time_axis("latency, logarithmic", all, None);
    let y = Axis::between("share", Format::Share, 0.0, 1.0);
    let note = format!("Share of queries within each latency.{}", only_some(rows.len(), of.len()));
    let mut chart = Chart::new("Cumulative distributions", x, y).note(note);
    for (number, (name, points)) in curves.into_iter().enumerate() {
        chart = chart.with(&name, Ink::nth(number), Shape::Steps, points);
    }
    (!of.is_empty()).then_some(chart)
}

fn spectra(rows: &[Row<'_>]) -> Option<Chart> {
    let of = plotted(rows);
    let named: Vec<(&str, &dyno_results::series::Distribution)> =
        of.iter().map(|(name, series)| (name.as_str(), &series.latency)).collect();
    let judged = Threshold::common_latency(rows.iter().map(|row| row.test));
    let chart =
        charts::spectrum("Latency by percentile", "latency, logarithmic", &named, &judged, "bound");
    let note = format!("{}{}", chart.note, only_some(rows.len(), of.len()));
    (!of.is_empty()).then(|| chart.note(note))
}
