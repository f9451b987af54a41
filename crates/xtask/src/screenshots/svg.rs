//! Draws the cells of a terminal as an SVG: letters as text, blocks and lines as shapes, so that no font
//! leaves gaps between them.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

/// Size of a cell, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
/// Space around the screen.
const MARGIN: f64 = 12.0;

const BACKGROUND: &str = "#10141a";
const FOREGROUND: &str = "#d5dbe3";
const DIM: &str = "#7d8894";

/// Draws a screen.
pub fn draw(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let width = f64::from(columns) * CELL.0 + 2.0 * MARGIN;
    let height = f64::from(rows) * CELL.1 + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
         aria-label=\"dyno run --tui\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" \
         font-size=\"14\">\n"
    );
    for row in 0..rows {
        draw_row(&mut svg, screen, row, columns);
    }
    svg + "</g>\n</svg>\n"
}

/// Shape of a cell; neighbors of the same shape are drawn as one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Empty,
    Text,
    /// A rectangle: x and y of its corner, width and height, as parts of a cell.
    Block(f64, f64, f64, f64),
    /// A line through the middle that reaches left, right, up and down.
    Line(bool, bool, bool, bool),
}

impl Kind {
    /// Returns whether the shape fills its cell from left to right, so that neighbors join.
    fn is_wide(self) -> bool {
        match self {
            Self::Empty | Self::Text => true,
            Self::Block(_, _, part, _) => part >= 1.0,
            Self::Line(left, right, ..) => left && right,
        }
    }
}

fn kind(symbol: &str) -> Kind {
    let mut chars = symbol.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else {
        return if symbol.is_empty() { Kind::Empty } else { Kind::Text };
    };
    match c {
        ' ' => Kind::Empty,
        // Eighths from below, and from the left.
        '▁'..='█' => {
            let part = f64::from(c as u32 - 0x2580) / 8.0;
            Kind::Block(0.0, 1.0 - part, 1.0, part)
        }
        '▉'..='▏' => Kind::Block(0.0, 0.0, f64::from(0x2590 - c as u32) / 8.0, 1.0),
        '─' => Kind::Line(true, true, false, false),
        '│' => Kind::Line(false, false, true, true),
        '┌' => Kind::Line(false, true, false, true),
        '┐' => Kind::Line(true, false, false, true),
        '└' => Kind::Line(false, true, true, false),
        '┘' => Kind::Line(true, false, true, false),
        _ => Kind::Text,
    }
}

fn draw_row(svg: &mut String, screen: &Screen, row: u16, columns: u16) {
    let look = |column: u16| {
        let cell = screen.cell(row, column).expect("it is within the screen");
        (kind(cell.contents()), color(cell), cell.bold())
    };
    let mut column = 0;
    while column < columns {
        let first = look(column);
        let alike = |c: &u16| {
            let next = look(*c);
            // A single space between words belongs to the text; viewers collapse longer gaps.
            let is_space = first.0 == Kind::Text && next.0 == Kind::Empty;
            (next == first && first.0.is_wide())
                || (is_space && *c + 1 < columns && look(*c + 1) == first)
        };
        let end = (column + 1..columns).find(|c| !alike(c)).unwrap_or(columns);
        let (x, y) = (MARGIN + f64::from(column) * CELL.0, MARGIN + f64::from(row) * CELL.1);
        let width = f64::from(end - column) * CELL.0;
        let (kind, color, is_bold) = first;
        match kind {
            Kind::Empty => {}
            Kind::Block(left, top, part, tall) => {
                let width = if part < 1.0 { part * CELL.0 } else { width };
                let (x, y, tall) = (x + left * CELL.0, y + top * CELL.1, tall * CELL.1);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.2}\" width=\"{width:.1}\" height=\"{tall:.2}\" \
                     fill=\"{color}\"/>"
                );
            }
            Kind::Line(left, right, up, down) => {
                let (mid_x, mid_y) = (x + CELL.0 / 2.0, y + CELL.1 / 2.0);
                let (from_x, to_x) =
                    (if left { x } else { mid_x }, if right { x + width } else { mid_x });
                let (from_y, to_y) =
                    (if up { y } else { mid_y }, if down { y + CELL.1 } else { mid_y });
                let _ = writeln!(
                    svg,
                    "<path d=\"M{from_x:.1} {mid_y:.1}H{to_x:.1}M{mid_x:.1} {from_y:.1}V{to_y:.1}\" \
                     stroke=\"{color}\"/>"
                );
            }
            Kind::Text => {
                let text: String = (column..end).map(|c| symbol(screen, row, c)).collect();
                let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
                let baseline = y + CELL.1 * 0.76;
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{baseline:.1}\" textLength=\"{width:.1}\" \
                     fill=\"{color}\"{weight}>{text}</text>"
                );
            }
        }
        column = end;
    }
}

fn symbol(screen: &Screen, row: u16, column: u16) -> String {
    let contents = screen.cell(row, column).map(Cell::contents).unwrap_or_default();
    match contents {
        "" => " ".into(),
        text => text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"),
    }
}

fn color(cell: &Cell) -> &'static str {
    match cell.fgcolor() {
        Color::Idx(1) => "#f0736a",
        Color::Idx(2) => "#6cc784",
        Color::Idx(3) => "#e0b354",
        Color::Idx(6) => "#4fb3d9",
        _ if cell.dim() => DIM,
        _ => FOREGROUND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_look_alike_are_one_shape() {
        let mut parser = vt100::Parser::new(2, 12, 0);
        parser.process("┌──┐\x1b[36m██▄\x1b[0m a<b\r\n││".as_bytes());
        let svg = draw(parser.screen());
        let count = |part: &str| svg.matches(part).count();
        // The background, two full blocks as one, and a half one.
        assert_eq!(count("<rect "), 3, "{svg}");
        assert_eq!(count("fill=\"#4fb3d9\""), 2, "{svg}");
        // Two corners and the line between them; two upright lines side by side.
        assert_eq!(count("<path "), 5, "{svg}");
        assert!(svg.contains(">a&lt;b</text>"), "{svg}");
    }
}
