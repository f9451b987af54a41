//! Boxes of text: sections of lines and tables.

use std::borrow::Cow;

use dyno_results::units::{shortened, width};

use crate::terminal;

/// Columns inside the frame; fewer on a narrow terminal.
const WIDTH: usize = 78;
/// Fewest columns inside the frame.
const LEAST_WIDTH: usize = 18;
/// Fewest columns of names in the first column of a table.
const LEAST_NAME: usize = 6;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// A box that is written line by line. Color codes take no width.
#[derive(Debug)]
pub struct Frame {
    text: String,
    /// Columns inside the frame.
    width: usize,
}

impl Frame {
    /// Starts a box with a title at the left and a remark at the right of its top edge. It is as wide
    /// as the terminal on stdout, at most 80 columns.
    pub fn new(title: &str, remark: &str) -> Self {
        let room = terminal::columns().map_or(WIDTH, |columns| columns.saturating_sub(2));
        Self::with_width(title, remark, room.clamp(LEAST_WIDTH, WIDTH))
    }

    fn with_width(title: &str, remark: &str, columns: usize) -> Self {
        let mut title = one_line(title);
        let room = columns.saturating_sub(width(remark) + 7);
        if room < LEAST_WIDTH {
            // Too narrow for both: the remark is a line of its own.
            let title = shortened(&title, columns - 3);
            let edge = "─".repeat(columns - 3 - width(&title));
            let mut frame = Self { text: format!("┌─ {title} {edge}┐\n"), width: columns };
            frame.line(remark, 0);
            return frame;
        }
        if title.chars().count() > room {
            title = title.chars().take(room - 1).chain(['…']).collect();
        }
        let filled = columns.saturating_sub(width(&title) + width(remark) + 6);
        let edge = "─".repeat(filled);
        Self { text: format!("┌─ {title} {edge} {remark} ─┐\n"), width: columns }
    }

    /// Appends a line of text. Long lines are wrapped, and their continuation is indented by `indent`
    /// columns.
    pub fn line(&mut self, line: &str, indent: usize) {
        for part in wrap(&one_line(line), self.width - 2, indent) {
            let padding = " ".repeat((self.width - 2).saturating_sub(width(&part)));
            self.text += &format!("│ {part}{padding} │\n");
        }
    }

    /// Appends a horizontal rule.
    pub fn rule(&mut self) {
        self.text += &format!("├{}┤\n", "─".repeat(self.width));
    }

    /// Appends rows in columns as wide as their widest cells. Names in the first column are
    /// shortened if the rows are too wide; if they do not fit even then, each row is a line that wraps.
    pub fn table(&mut self, alignments: &[Alignment], rows: &[Vec<String>]) {
        let column = |at: usize| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..alignments.len()).map(column).collect();
        let room = self.width - 2;
        let others: usize = widths.iter().skip(1).map(|columns| columns + 1).sum();
        let name = widths.first().map_or(0, |&first| first.min(LEAST_NAME));
        if self.width < WIDTH && others + name > room {
            let filled = |row: &Vec<String>| -> String {
                let cells = row.iter().map(String::as_str).filter(|cell| !cell.is_empty());
                cells.collect::<Vec<_>>().join(", ")
            };
            rows.iter().map(filled).for_each(|row| self.line(&row, 2));
            return;
        }
        if let Some(first) = widths.first_mut() {
            *first = (*first).min(room.saturating_sub(others).max(1));
        }
        // Distribute the free space evenly behind the columns.
        let used: usize = widths.iter().sum();
        let gaps = alignments.len().saturating_sub(1).max(1);
        let gap = (room.saturating_sub(used) / gaps).clamp(1, 3);
        for row in rows {
            let mut line = String::new();
            for ((cell, &columns), alignment) in row.iter().zip(&widths).zip(alignments) {
                if !line.is_empty() {
                    line += &" ".repeat(gap);
                }
                let cell = one_line(cell);
                let cell = shortened(&cell, columns);
                let padding = " ".repeat(columns - width(&cell));
                line += &match alignment {
                    Alignment::Left => format!("{cell}{padding}"),
                    Alignment::Right => format!("{padding}{cell}"),
                };
            }
            let padding = " ".repeat(room.saturating_sub(width(&line)));
            self.text += &format!("│ {line}{padding} │\n");
        }
    }

    /// Returns the box.
    pub fn finish(mut self) -> String {
        self.text += &format!("└{}┘\n", "─".repeat(self.width));
        self.text
    }
}

/// Returns a text without line breaks. A text of a file may have some, and workflows execute lines that begin
/// with `::`.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Splits a word into pieces of at most `columns` columns.
fn pieces(word: &str, columns: usize) -> Vec<Cow<'_, str>> {
    if width(word) <= columns {
        return vec![word.into()];
    }
    let chars: Vec<char> = word.chars().collect();
    chars.chunks(columns).map(|piece| piece.iter().collect::<String>().into()).collect()
}

/// Splits text into lines of at most `most` columns, at spaces if possible.
pub fn wrap(text: &str, most: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let words = text.trim_start_matches(' ');
    let mut line = " ".repeat(text.len() - words.len());
    // A word longer than a line, such as a path, is split anywhere.
    let longest = most.saturating_sub(indent).max(1);
    let words = words.split(' ').flat_map(|word| pieces(word, longest));
    for word in words {
        if !line.trim().is_empty() && width(&line) + 1 + width(&word) > most {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent) + &word));
        } else {
            if !line.trim().is_empty() {
                line.push(' ');
            }
            line += &word;
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_several_lines_stays_in_the_box() {
        let mut frame = Frame::with_width("dyno, a\nb", "not an official result", WIDTH);
        frame.line("candidate: bad\r\n::error::more", 2);
        frame.table(&[Alignment::Left], &[vec!["Server\n::error::more".into()]]);
        let text = frame.finish();
        assert!(text.contains("│ candidate: bad  ::error::more "), "{text}");
        assert!(text.lines().all(|line| line.starts_with(['┌', '│', '└'])), "{text}");
    }

    #[test]
    fn a_box_is_as_wide_as_a_narrow_terminal() {
        for columns in [LEAST_WIDTH, 20, 38, 50, 77, WIDTH] {
            let mut frame = Frame::with_width("dyno, model", "not an official result", columns);
            frame.line("Verdict: VALID", 2);
            frame.rule();
            let row = |cells: [&str; 4]| cells.map(str::to_string).to_vec();
            frame.table(
                &[Alignment::Left, Alignment::Right, Alignment::Right, Alignment::Left],
                &[
                    row(["", "result", "p99", "verdict"]),
                    row(["SingleStream", "1,234 queries/s", "20.0 ms", "UNDECIDED"]),
                ],
            );
            let text = frame.finish();
            let widths: Vec<usize> = text.lines().map(width).collect();
            assert!(widths.iter().all(|&w| w == columns + 2), "{widths:?}\n{text}");
            let words = text.replace(['│', '\n'], " ");
            for part in ["not an", "official", "1,234", "queries/s", "UNDECIDED", "VALID"] {
                assert!(words.contains(part), "{part} in {columns} columns:\n{text}");
            }
        }
    }

    #[test]
    fn every_line_of_a_box_is_equally_wide() {
        let mut frame = Frame::with_width(&"a long title ".repeat(9), "remark", WIDTH);
        frame.line(&"long words ".repeat(20), 4);
        frame.line(&format!("--system onnx:{}", "long-path/".repeat(20)), 2);
        frame.rule();
        let row = |cells: [&str; 2]| cells.map(str::to_string).to_vec();
        frame.table(
            &[Alignment::Left, Alignment::Right],
            &[row(["a", "1"]), row(["\x1b[32mbbb\x1b[0m", "22"])],
        );
        let wide = format!("tenant of a long name {}", "x".repeat(90));
        frame.table(
            &[Alignment::Left, Alignment::Right],
            &[row([&wide, "1"]), row(["a", "12,345,678 queries/s"])],
        );
        let text = frame.finish();
        let widths: Vec<usize> = text.lines().map(width).collect();
        assert!(widths.iter().all(|&w| w == WIDTH + 2), "{widths:?}\n{text}");
        assert!(text.contains("a      1"), "{text}");
        assert!(text.contains("xxx… "), "{text}");
    }
}
