//! Comparisons in GitHub workflows: annotations, and a table in the job summary.

use std::fs::OpenOptions;
use std::io::Write;

use dyno_experiment::Failure;
use dyno_experiment::compare::{ComparisonReport, TestReport, verdict_name};
use dyno_loadgen::compare::Verdict;
use dyno_loadgen::message::is_control;

use super::compare::{accuracy_cells, cells, confidence, omissions, sentence};
use crate::output;

/// Where a comparison is annotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Annotations {
    /// In a workflow of GitHub: where GITHUB_ACTIONS is true
    Auto,
    /// Lines such as ::error, also outside of a workflow
    Github,
    /// Nowhere
    None,
}

impl Annotations {
    /// Whether annotations are requested.
    pub fn are_wanted(self) -> bool {
        match self {
            Self::Auto => std::env::var_os("GITHUB_ACTIONS").is_some_and(|v| v == "true"),
            Self::Github => true,
            Self::None => false,
        }
    }
}

/// Annotates a comparison if requested: with lines on stdout if `is_for_stdout`, and with a table in
/// the job summary.
///
/// # Errors
/// Stdout cannot be written.
pub fn annotate(
    report: &ComparisonReport,
    annotations: Annotations,
    is_for_stdout: bool,
) -> Result<(), Failure> {
    if !annotations.are_wanted() {
        return Ok(());
    }
    if is_for_stdout {
        output::print(output::plain(&lines(report)))?;
    }
    if let Err(error) = summarize(report) {
        output::say(format_args!("warning: cannot write the job summary: {error}"));
    }
    Ok(())
}

/// Returns one annotation for each test.
pub fn lines(report: &ComparisonReport) -> String {
    let line = |test: &TestReport| {
        let level = match test.comparison.verdict {
            Verdict::Worse => "error",
            _ if test.fails() => "error",
            Verdict::Inconclusive => "warning",
            Verdict::Better | Verdict::Equivalent => "notice",
        };
        let title = property(&format!("dyno compare: {}", test.title));
        format!("::{level} title={title}::{}\n", data(&sentence(test)))
    };
    report.tests.iter().map(line).collect()
}

/// Escapes the characters that end or encode a line of the runner.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Appends a table to the job summary if the workflow has one.
///
/// # Errors
/// The file cannot be written.
pub fn summarize(report: &ComparisonReport) -> Result<(), String> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(markdown(report).as_bytes()));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the table in Markdown.
pub fn markdown(report: &ComparisonReport) -> String {
    let [a, b] = report.labels.each_ref().map(|label| cell(label));
    let verdict = verdict_name(report.verdict());
    let mut text = format!("### dyno compare: {verdict}\n\nBaseline {a}, candidate {b}.\n\n");
    for test in &report.tests {
        text += &format!(
            "**{}**: {}\n\n| metric | {} | {} | change | interval | finding |\n\
             | --- | ---: | ---: | ---: | ---: | --- |\n",
            cell(&test.title),
            cell(&sentence(test)),
            cell(&report.labels[0]),
            cell(&report.labels[1]),
        );
        for row in &test.comparison.rows {
            let cells = cells(row, test);
            text += &format!("| {} |\n", cells.map(|text| cell(&text)).join(" | "));
        }
        if let Some(row) = &test.accuracy {
            text += &format!("| {} |\n", accuracy_cells(row).map(|text| cell(&text)).join(" | "));
        }
        if let Some(row) = &test.output_tokens {
            text += &format!("| {} |\n", row.cells().map(|text| cell(&text)).join(" | "));
        }
        for row in &test.server {
            text += &format!("| {} |\n", row.cells().map(|text| cell(&text)).join(" | "));
        }
        text.push('\n');
        text += &list(omissions(&test.comparison.omitted).into_iter().chain(test.notes.clone()));
    }
    text += &list(report.remarks.iter().cloned());
    text + &confidence(report) + "\n"
}

/// Returns one item per line, followed by an empty line.
fn list(items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("- {}\n", cell(&item))).collect();
    if items.is_empty() { items } else { items + "\n" }
}

/// Escapes text, such as file names, so that it contains neither markup nor mentions of users, and no
/// characters that control a display.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' => safe.push(' '),
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '@' => safe += "@<!-- -->",
            character if is_control(character) => safe.push('\u{fffd}'),
            '|' | '`' | '[' | ']' | '*' | '_' | '\\' => safe.extend(['\\', character]),
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_holds_neither_markup_nor_characters_that_control_a_display() {
        assert_eq!(cell("a|b\n<i>\u{1b}[31m\u{202e}"), "a\\|b &lt;i>\u{fffd}\\[31m\u{fffd}");
    }
}
