//! Layout of the screen: the most important panels that fit.

use dyno_results::VERSION;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::panels;

use crate::live::{self, Live};

/// Options of drawing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    /// Whether to use colors.
    pub is_colored: bool,
    /// Whether the picture is paused.
    pub is_paused: bool,
    /// Whether the help on keys is shown.
    pub shows_help: bool,
}

impl Look {
    /// Returns a style in this color, if colors are used.
    pub fn in_color(self, color: Color) -> Style {
        if self.is_colored { Style::new().fg(color) } else { Style::new() }
    }

    /// Returns the style of less important text.
    pub fn dim(self) -> Style {
        if self.is_colored { Style::new().add_modifier(Modifier::DIM) } else { Style::new() }
    }

    /// Returns a frame with a title.
    pub fn block(self, title: &str) -> Block<'_> {
        let bold = Style::new().add_modifier(Modifier::BOLD).remove_modifier(Modifier::DIM);
        let title = Span::styled(format!(" {title} "), bold);
        Block::bordered().border_style(self.dim()).title(title)
    }
}

/// Columns from which panels stand in two columns.
const WIDE: u16 = 72;
/// Smallest columns and rows for panels; a smaller screen shows only the progress line.
const LEAST: (u16, u16) = (24, 5);

/// Draws the run.
pub fn draw(frame: &mut Frame<'_>, live: &Live, look: Look) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let line = live::line(live, usize::from(area.width) + 1);
        frame.render_widget(Paragraph::new(line), area);
        return;
    }
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [heading, bar, body, keys] = rows.areas(area);
    draw_heading(frame, live, look, heading);
    draw_bar(frame, live, look, bar);
    draw_body(frame, live, look, body);
    let text = if look.is_paused {
        " p resumes: the display is paused, the run continues"
    } else {
        " q stop   p pause display   ? help"
    };
    frame.render_widget(Paragraph::new(Line::styled(text, look.dim())), keys);
    if look.shows_help {
        draw_help(frame, look, area);
    }
}

fn draw_heading(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let title = if live.remark.is_empty() {
        live.title.clone()
    } else {
        format!("{}, {}", live.title, live.remark)
    };
    let left = format!(" dyno {VERSION}  {}", live.heading);
    let room = usize::from(area.width).saturating_sub(title.chars().count() + 2);
    let left: String = left.chars().take(room).collect();
    let gap = " ".repeat((room + 1).saturating_sub(left.chars().count()));
    let line = Line::from(vec![
        Span::styled(left, look.dim()),
        Span::raw(gap),
        Span::styled(title, Style::new().add_modifier(Modifier::BOLD)),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_bar(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let text = panels::how_far(live);
    let room = usize::from(area.width).saturating_sub(text.chars().count() + 4);
    let line = match live.seen.fraction(&live.goals) {
        Some(fraction) if room >= 4 => Line::from(vec![
            Span::raw(" "),
            Span::styled(live::bar(fraction, room), look.in_color(Color::Cyan)),
            Span::raw(format!("  {text}")),
        ]),
        _ => Line::raw(format!(" {text}")),
    };
    frame.render_widget(Paragraph::new(line), area);
}

/// A panel of the body.
struct Panel {
    draw: fn(&mut Frame<'_>, &Live, Look, Rect),
    /// Rows that the panel needs.
    rows: u16,
    /// Whether the panel takes free rows.
    grows: bool,
    /// Importance: if rows are scarce, panels of the lowest rank are shown.
    rank: u8,
}

/// Returns the panels in reading order.
fn panels(live: &Live, is_wide: bool) -> Vec<Panel> {
    let fixed = |draw, rows, rank| Panel { draw, rows, grows: false, rank };
    let chart = |draw, rank| Panel { draw, rows: 6, grows: true, rank };
    let rows = 7 + u16::from(!live.servers.is_empty());
    let mut panels = if is_wide {
        vec![fixed(now_and_conditions, rows, 0)]
    } else {
        vec![fixed(panels::now, rows, 0), fixed(panels::conditions, 6, 2)]
    };
    panels.push(chart(panels::latencies, 1));
    panels.push(chart(if is_wide { both_time_lines } else { panels::rates }, 3));
    if live.tests.len() > 1 {
        let rows = live.tests.len().clamp(1, 8) as u16 + 2;
        panels.push(fixed(panels::tests, rows, 4));
    }
    panels
}

fn draw_body(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let mut shown = panels(live, area.width >= WIDE);
    while shown.iter().map(|panel| panel.rows).sum::<u16>() > area.height {
        let last = shown.iter().enumerate().max_by_key(|(_, panel)| panel.rank);
        let Some((at, _)) = last else { return };
        shown.remove(at);
    }
    let rows = shown.iter().map(|panel| {
        if panel.grows { Constraint::Min(panel.rows) } else { Constraint::Length(panel.rows) }
    });
    let areas = Layout::vertical(rows).split(area);
    for (panel, area) in shown.iter().zip(areas.iter()) {
        (panel.draw)(frame, live, look, *area);
    }
}

fn now_and_conditions(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let halves = Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]);
    let [left, right] = halves.areas(area);
    panels::now(frame, live, look, left);
    panels::conditions(frame, live, look, right);
}

fn both_time_lines(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let halves = Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]);
    let [left, right] = halves.areas(area);
    panels::rates(frame, live, look, left);
    panels::tail(frame, live, look, right);
}

fn draw_help(frame: &mut Frame<'_>, look: Look, area: Rect) {
    const LINES: [&str; 10] = [
        "q, Ctrl-C  stop the run and keep its results.",
        "           Twice: end 1.5 s after the first time,",
        "           or when the results are written.",
        "p, space   pause or resume the display",
        "?, h, Esc  this help",
        "",
        "Latency counts from the due time of a query. Here it",
        "covers a random sample of the queries, in",
        "steps of 3 to 6 %; the result uses all queries.",
        "Lag is the client's delay; it limits the accuracy.",
    ];
    let (columns, rows) = (58.min(area.width), (LINES.len() as u16 + 2).min(area.height));
    let corner = ((area.width - columns) / 2, (area.height - rows) / 2);
    let area = Rect::new(area.x + corner.0, area.y + corner.1, columns, rows);
    frame.render_widget(Clear, area);
    let text: Vec<Line<'_>> = LINES.into_iter().map(Line::raw).collect();
    frame.render_widget(Paragraph::new(text).block(look.block("Help")), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;

    use super::*;
    use crate::live::examples;

    fn drawn(live: &Live, look: Look, (columns, rows): (u16, u16)) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, live, look)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn text(buffer: &Buffer) -> String {
        let rows = buffer.content().chunks(usize::from(buffer.area.width).max(1));
        let row = |cells: &[ratatui::buffer::Cell]| {
            let row: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            format!("{}\n", row.trim_end())
        };
        rows.map(row).collect()
    }

    /// Compares with a recorded frame; `UPDATE_EXPECT=1` records a new one.
    #[track_caller]
    fn check(name: &str, frame: &str) {
        let path = format!("{}/testdata/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, frame).unwrap();
        }
        let recorded = std::fs::read_to_string(&path).unwrap();
        assert_eq!(frame, recorded, "{path} has another frame:\n{frame}");
    }

    #[test]
    fn frames_are_the_recorded_ones() {
        let live = examples::server();
        for (columns, rows) in [(100, 36), (80, 24), (40, 24), (80, 10)] {
            let frame = text(&drawn(&live, Look::default(), (columns, rows)));
            check(&format!("tui-{columns}x{rows}"), &frame);
        }
        let look = Look { shows_help: true, ..Look::default() };
        check("tui-help-80x24", &text(&drawn(&live, look, (80, 24))));
    }

    #[test]
    fn no_size_is_too_small() {
        let empty = Live { title: "1/1 Offline accuracy".into(), ..Live::default() };
        for live in [&examples::server(), &empty] {
            for columns in [0, 1, 2, 5, 23, 24, 30, 40, 71, 72, 80, 300] {
                for rows in [0, 1, 4, 5, 6, 9, 12, 16, 24, 90] {
                    let look = Look { shows_help: true, ..Look::default() };
                    let buffer = drawn(live, look, (columns, rows));
                    assert_eq!(buffer.area, Rect::new(0, 0, columns, rows));
                }
            }
        }
    }

    #[test]
    fn colors_are_drawn_only_where_they_are_welcome() {
        let colored = |is_colored| {
            let look = Look { is_colored, ..Look::default() };
            let buffer = drawn(&examples::server(), look, (100, 36));
            buffer.content().iter().any(|cell| cell.fg != Color::Reset)
        };
        assert!(colored(true));
        assert!(!colored(false));
    }
}
