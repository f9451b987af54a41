//! A grid as text: tables that fit a screen, CSV, and a document for programs.

use std::fmt::Write as _;

use dyno_results::export::quoted;
use dyno_results::units::shortened;
use serde_json::{Value, json};

use super::grid::Grid;
use super::point::Metric;

/// Most columns of a label.
const LABEL: usize = 28;
/// Most columns of a heading.
const HEADING: usize = 20;

/// Returns a table for each metric, or one table of all metrics if the grid has only rows; at most as wide as the
/// screen.
pub fn text(grid: &Grid, metrics: &[Metric], screen: usize) -> String {
    let failures = grid.failures();
    let cell = |at: usize, metric: Metric| match &grid.points[at] {
        Ok(found) => metric.text(found.figure(metric)),
        Err(why) => {
            let number = failures.iter().position(|(other, _)| other == why).unwrap_or(0);
            format!("({})", number + 1)
        }
    };
    let mut text = String::new();
    match &grid.axes[..] {
        [rows, columns] => {
            for &metric in metrics {
                let corner = format!("{} \\ {}", rows.key, columns.key);
                let _ = writeln!(text, "{}", metric.title());
                let cell_text = |row, column| cell(row * columns.values.len() + column, metric);
                text += &layout(&corner, &rows.values, &columns.values, cell_text, screen);
                if let Some((at, most)) = grid.best(metric) {
                    let _ =
                        writeln!(text, "best: {} at {}", metric.text(Some(most)), grid.name(at));
                }
                text.push('\n');
            }
        }
        axes => {
            let rows = &axes[0];
            let headings: Vec<String> =
                metrics.iter().map(|metric| metric.heading().to_owned()).collect();
            text += &layout(
                &rows.key,
                &rows.values,
                &headings,
                |row, at| cell(row, metrics[at]),
                screen,
            );
            text.push('\n');
        }
    }
    for (number, (why, places)) in failures.iter().enumerate() {
        let more = match places.len() {
            1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        let _ = writeln!(text, "({}) {}{more}: {why}", number + 1, grid.name(places[0]));
    }
    text
}

/// Returns rows and columns with their labels; columns that do not fit the screen continue below.
fn layout(
    corner: &str,
    rows: &[String],
    columns: &[String],
    cell: impl Fn(usize, usize) -> String,
    screen: usize,
) -> String {
    let long = |text: &str| text.chars().count();
    let labels = rows.iter().map(String::as_str).chain([corner]);
    let label = labels.map(long).max().unwrap_or(0).min(LABEL);
    let width = |column: usize| {
        let cells = (0..rows.len()).map(|row| long(&cell(row, column)));
        2 + cells.max().unwrap_or(0).max(long(&shortened(&columns[column], HEADING)))
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    let mut from = 0;
    while from < columns.len() {
        let mut to = from + 1;
        while to < columns.len() && label + widths[from..=to].iter().sum::<usize>() <= screen {
            to += 1;
        }
        let mut line = |name: &str, cell: &dyn Fn(usize) -> String| {
            let _ = write!(text, "{:label$}", shortened(name, label));
            for (column, &width) in widths.iter().enumerate().take(to).skip(from) {
                let _ = write!(text, "{:>width$}", cell(column));
            }
            text.push('\n');
        };
        line(corner, &|column| shortened(&columns[column], HEADING).into_owned());
        for (row, name) in rows.iter().enumerate() {
            line(name, &|column| cell(row, column));
        }
        from = to;
    }
    text
}

/// Returns all metrics of all points as CSV, with each stream's share of its rate alone, joined by +.
pub fn csv(grid: &Grid) -> String {
    let mut head: Vec<&str> = grid.axes.iter().map(|axis| axis.key.as_str()).collect();
    head.extend(Metric::ALL.map(Metric::key));
    head.extend(["stp_bound", "stp_bound_of_blocks", "baseline_stp", "shares", "error"]);
    let mut text = head.join(",") + "\n";
    for (at, point) in grid.points.iter().enumerate() {
        let mut row: Vec<String> =
            grid.settings(at).iter().map(|(_, value)| (*value).to_owned()).collect();
        match point {
            Ok(found) => {
                let figure = |metric| found.figure(metric).map_or(String::new(), |n| n.to_string());
                row.extend(Metric::ALL.map(figure));
                let document = &found.document;
                for value in ["/stp_bound", "/stp_bound_of_blocks", "/baseline/stp"] {
                    row.push(document.pointer(value).map_or(String::new(), Value::to_string));
                }
                let streams = document["streams"].as_array();
                let shares: Vec<String> = streams
                    .into_iter()
                    .flatten()
                    .map(|stream| stream["share"].to_string())
                    .collect();
                row.extend([shares.join("+"), String::new()]);
            }
            Err(why) => {
                row.resize(head.len() - 1, String::new());
                row.push(why.clone());
            }
        }
        let row: Vec<String> = row.iter().map(|field| quoted(field)).collect();
        text += &(row.join(",") + "\n");
    }
    text
}

/// Returns the document of all points.
pub fn document(grid: &Grid) -> Value {
    let axis = |at: usize| {
        let axis = grid.axes.get(at)?;
        Some(json!({"key": axis.key, "values": axis.values}))
    };
    let point = |(at, point): (usize, &Result<super::point::PointOutcome, String>)| {
        let settings: serde_json::Map<String, Value> = grid
            .settings(at)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect();
        let mut document = match point {
            Ok(found) => found.document.clone(),
            Err(why) => json!({"error": why}),
        };
        document["at"] = settings.into();
        document
    };
    json!({
        "rows": axis(0),
        "columns": axis(1),
        "points": grid.points.iter().enumerate().map(point).collect::<Vec<_>>(),
    })
}
