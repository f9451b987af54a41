//! Charts of block characters, drawn into the cells of a terminal.

use dyno_results::series::Histogram;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::draw::Look;
use super::panels::time;

/// Block characters from one to eight eighths of a cell.
const EIGHTHS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Draws one column of this height in [0, 1] from the bottom. Any height above 0 is visible.
fn column(buffer: &mut Buffer, area: Rect, at: u16, height: f64, style: Style) {
    if height <= 0.0 || at >= area.width {
        return;
    }
    let full = f64::from(area.height) * 8.0;
    let eighths = ((height.min(1.0) * full).round() as u16).max(1);
    for row in 0..area.height {
        let Some(left) = eighths.checked_sub(row * 8).filter(|&left| left > 0) else { break };
        let cell = (area.x + at, area.bottom() - 1 - row);
        buffer[cell].set_symbol(EIGHTHS[usize::from(left.min(8)) - 1]).set_style(style);
    }
}

/// Writes a label if it fits and its place is free.
fn label(buffer: &mut Buffer, area: Rect, at: u16, text: &str, style: Style) {
    let width = text.chars().count() as u16;
    let begin = at.min(area.width.saturating_sub(width));
    let around = begin.saturating_sub(1)..(begin + width + 1).min(area.width);
    let is_free = around.into_iter().all(|x| buffer[(area.x + x, area.y)].symbol() == " ");
    if width <= area.width && is_free {
        buffer.set_string(area.x + begin, area.y, text, style);
    }
}

/// Splits an area into the rows above and the last row.
fn with_axis(area: Rect) -> Option<(Rect, Rect)> {
    let rows = area.height.checked_sub(1).filter(|&rows| rows > 0 && area.width > 0)?;
    let axis = Rect { y: area.y + rows, height: 1, ..area };
    Some((Rect { height: rows, ..area }, axis))
}

/// Draws a histogram on a log axis, with a line at the bound. Columns over the bound are red.
pub fn histogram(
    buffer: &mut Buffer,
    area: Rect,
    histogram: &Histogram,
    bound: Option<u64>,
    look: Look,
) {
    let Some((chart, axis)) = with_axis(area) else { return };
    let (Some(first), Some(last)) = (histogram.buckets.first(), histogram.buckets.last()) else {
        return;
    };
    let log = |ns: u64| (ns.max(1) as f64).log10();
    // Show at least a decade, so that a single bucket does not fill the chart.
    let (mut low, mut high) = (log(first.0), log(last.1));
    if let Some(bound) = bound.map(log).filter(|&bound| (high..high + 1.0).contains(&bound)) {
        high = bound + 0.05;
    }
    let missing = (1.0 - (high - low)).max(0.0);
    (low, high) = ((low - missing / 2.0).max(0.0), high + missing / 2.0);
    let per_column = (high - low) / f64::from(chart.width);
    let at = |position: f64| ((position - low) / per_column).floor();
    let mut columns = vec![0.0; usize::from(chart.width)];
    for &(from, to, count) in &histogram.buckets {
        let (from, to) = (log(from), log(to).max(log(from) + 1e-9));
        let (begin, end) = (at(from).max(0.0), at(to).min(f64::from(chart.width) - 1.0));
        for x in begin as u16..=end as u16 {
            let left = low + f64::from(x) * per_column;
            let part = (to.min(left + per_column) - from.max(left)).max(0.0) / (to - from);
            columns[usize::from(x)] += count as f64 * part;
        }
    }
    let bound_at = bound.map(log).filter(|b| (low..high).contains(b)).map(|b| at(b) as u16);
    if let Some(x) = bound_at {
        for y in chart.top()..chart.bottom() {
            buffer[(chart.x + x, y)].set_symbol("┊").set_style(look.in_color(Color::Red));
        }
    }
    let top = columns.iter().copied().fold(0.0, f64::max);
    for (x, count) in (0..).zip(&columns) {
        let is_over = bound.is_some_and(|bound| low + f64::from(x) * per_column > log(bound));
        let color = if is_over { Color::Red } else { Color::Cyan };
        column(buffer, chart, x, count / top, look.in_color(color));
    }
    if let Some(x) = bound_at {
        label(buffer, axis, x, "bound", look.in_color(Color::Red));
    }
    for decade in low.ceil() as i32..=high.floor() as i32 {
        let x = at(f64::from(decade)) as u16;
        label(buffer, axis, x, &short(10_u64.saturating_pow(decade.unsigned_abs())), look.dim());
    }
}

/// Formats powers of ten without superfluous digits: `10 ms`, not `10.0 ms`.
fn short(ns: u64) -> String {
    let text = time(ns);
    match text.split_once('.') {
        Some((whole, rest)) => {
            format!(
                "{whole} {}",
                rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start()
            )
        }
        None => text,
    }
}

/// Draws values over time on an axis from 0.
pub fn over_time(buffer: &mut Buffer, area: Rect, values: &[f64], length: u64, look: Look) {
    let Some((chart, axis)) = with_axis(area) else { return };
    let top = values.iter().copied().fold(0.0, f64::max);
    if top <= 0.0 || values.is_empty() {
        return;
    }
    // Few values are drawn as wide columns.
    let each = (usize::from(chart.width) / values.len()).max(1);
    for x in 0..chart.width {
        let Some(value) = values.get(usize::from(x) / each) else { break };
        column(buffer, chart, x, value / top, look.in_color(Color::Cyan));
    }
    let end = ((values.len() * each) as u16).min(chart.width);
    label(buffer, axis, 0, "0", look.dim());
    let text = time(length);
    label(buffer, axis, end.saturating_sub(text.chars().count() as u16), &text, look.dim());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_decades_are_short() {
        let shown = [1, 10, 1_000, 10_000, 1_000_000_000].map(short);
        assert_eq!(shown, ["1 ns", "10 ns", "1 us", "10 us", "1 s"]);
    }

    #[test]
    fn columns_are_drawn_by_eighths_and_what_is_there_shows() {
        let area = Rect::new(0, 0, 4, 2);
        let mut buffer = Buffer::empty(area);
        for (at, height) in (0..).zip([0.0, 1e-9, 0.5, 1.0]) {
            column(&mut buffer, area, at, height, Style::new());
        }
        assert_eq!(buffer, Buffer::with_lines(["   █", " ▁██"]));
    }
}
