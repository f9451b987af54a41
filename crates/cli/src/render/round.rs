//! Statistics of a round as text: the tables of section 6 of the MLPerf Inference paper.

use std::fmt::Write as _;

use dyno_results::units::counted;
use dyno_submission::results::{Matrix, Results, Spread, grouped};

use crate::check::safe;

/// Returns the tables of the closed division, or of the others if it has no results.
pub fn text(results: &Results) -> String {
    let all = &results.statistics;
    let closed = (&all.closed.scenarios, &all.closed.frameworks);
    let (closed_results, closed_systems) = (closed.0.total(), closed.1.total());
    let mut text = format!(
        "{}, closed division: {}",
        results.round,
        results_of_systems(closed_results, closed_systems)
    );
    let others: Vec<&str> =
        all.divisions.lines.iter().map(String::as_str).filter(|name| *name != "closed").collect();
    if !others.is_empty() {
        let _ = write!(
            text,
            "; {} division: {}",
            others.join(" and "),
            results_of_systems(
                all.scenarios.total() - closed_results,
                all.frameworks.total() - closed_systems
            )
        );
    }
    text += " (not official MLPerf results)\n";
    let (scenarios, frameworks) = match closed_results {
        0 => (&all.scenarios, &all.frameworks),
        _ => closed,
    };
    text += "\nResults by model and scenario\n";
    text += &aligned(&counts("model", scenarios));
    text += "\nSystems by framework and type of processor\n";
    text += &aligned(&counts("framework", frameworks));
    if !results.statistics.spreads.is_empty() {
        text += "\nBest to worst result; quartiles of the speed over that of the slowest system\n";
        text += &aligned(&spreads(&results.statistics.spreads));
    }
    text
}

fn results_of_systems(results: usize, systems: usize) -> String {
    let results = counted(results as u64, "result", "results");
    format!("{results} of {}", counted(systems as u64, "system", "systems"))
}

fn counts(line: &str, matrix: &Matrix) -> Vec<Vec<String>> {
    let mut rows = vec![head(line, &matrix.columns)];
    let row = |name: &str, counts: &[usize]| {
        let all = counts.iter().sum::<usize>();
        let cells = counts.iter().copied().chain([all]).map(|count| count.to_string());
        std::iter::once(safe(name)).chain(cells).collect()
    };
    for (name, counts) in matrix.lines.iter().zip(&matrix.counts) {
        rows.push(row(name, counts));
    }
    let sums: Vec<usize> = (0..matrix.columns.len())
        .map(|column| matrix.counts.iter().map(|counts| counts[column]).sum())
        .collect();
    rows.push(row("all", &sums));
    rows
}

fn head(line: &str, columns: &[String]) -> Vec<String> {
    let names = columns.iter().map(String::as_str);
    std::iter::once(line).chain(names).chain(["all"]).map(String::from).collect()
}

fn spreads(spreads: &[Spread]) -> Vec<Vec<String>> {
    let names = ["model, scenario, suite", "results", "best/worst", "q1", "median", "q3", "unit"];
    let mut rows = vec![names.map(String::from).to_vec()];
    for spread in spreads {
        let parts = [spread.model.as_str(), spread.scenario.name(), spread.suite];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let speeds = spread.speeds;
        let mut row = vec![safe(&parts.join(" ")), spread.results.to_string()];
        row.extend([spread.ratio(), speeds.first, speeds.median, speeds.third].map(times));
        row.push(spread.units.clone());
        rows.push(row);
    }
    rows
}

/// Formats a ratio with two decimals; large ones without, rounded down.
fn times(ratio: f64) -> String {
    if ratio < 100.0 {
        return format!("{ratio:.2}");
    }
    grouped(ratio.floor()).trim_end_matches(".000").to_owned()
}

/// Returns lines of cells: the first column to the left, the others to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, " {cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
