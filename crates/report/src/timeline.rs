//! Timelines of an NPU: both of its resources over time.

use std::fmt::Write as _;

use dyno_results::units::shortened;
use serde_json::{Value, json};

use crate::words::escaped;

/// Time in ps.
pub type Picos = u64;

/// A scheduled block.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Index of its network in [`Timeline::names`].
    pub stream: usize,
    /// Name of its layer.
    pub label: String,
    /// Number of the part of the array that computed it, and the count of parts; `None` for the
    /// whole array.
    pub part: Option<(usize, usize)>,
    /// Start and end of its fetch, in ps.
    pub fetch: [Picos; 2],
    /// Start and end of its computation, in ps.
    pub compute: [Picos; 2],
}

/// Timeline of the blocks of several networks.
///
/// ```
/// use dyno_report::timeline::{Bar, Timeline};
///
/// let names = ["mobilenet".to_owned()];
/// let bar = Bar {
///     stream: 0,
///     label: "conv1".into(),
///     part: None,
///     fetch: [0, 2_000_000],
///     compute: [2_000_000, 5_000_000],
/// };
/// let svg = Timeline { names: &names, bars: &[bar] }.svg();
/// assert!(svg.contains("mobilenet conv1, 2.00 to 5.00 us"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Timeline<'a> {
    /// Names of the networks.
    pub names: &'a [String],
    /// Blocks in the order in which they were scheduled.
    pub bars: &'a [Bar],
}

/// Colors of networks, distinguishable with color vision deficiency (Okabe and Ito).
const COLOURS: [[u8; 3]; 8] = [
    [0x00, 0x72, 0xb2],
    [0xe6, 0x9f, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0x56, 0xb4, 0xe9],
    [0xd5, 0x5e, 0x00],
    [0xf0, 0xe4, 0x42],
    [0x7f, 0x7f, 0x7f],
];

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 70.0;
const ROW: f64 = 46.0;
/// Maximum width of a letter in most fonts, in pixels, and maximum letters of a name.
const LETTER: f64 = 8.0;
const LETTERS: usize = 40;
/// Height of a line of the legend, in pixels.
const LINE: f64 = 20.0;
/// Minimum width of a bar with an edge, in pixels; the edge would cover a narrower bar.
const EDGED: f64 = 3.0;
/// Maximum number of ticks, without the tick at 0.
const TICKS: Picos = 12;

impl Timeline<'_> {
    /// Returns the end of the last computation, at least 1 ps.
    fn end(&self) -> Picos {
        self.bars.iter().map(|bar| bar.compute[1]).max().unwrap_or(1).max(1)
    }

    fn label(&self, bar: &Bar) -> String {
        format!("{} {}", self.names[bar.stream], bar.label).trim_end().to_owned()
    }

    /// Returns an SVG file with a row for the memory and a row for the PEs. Bars have tooltips.
    pub fn svg(&self) -> String {
        let (width, height) = (WIDTH, self.height());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n{}</svg>\n",
            self.drawing()
        )
    }

    /// Returns the picture of [`Timeline::svg`] as an element of an HTML page.
    pub fn inline(&self) -> String {
        let height = self.height();
        format!(
            "<svg role=\"img\" aria-label=\"memory and PEs over time\" viewBox=\"0 0 {WIDTH} {height}\" \
             style=\"position:static;min-width:50rem;height:auto\" font-size=\"13\">{}</svg>",
            self.drawing()
        )
    }

    /// Returns the position of each name in the legend; a line is filled before the next begins.
    fn places(&self) -> Vec<[f64; 2]> {
        let (mut x, mut y) = (LEFT, 4.0);
        let place = |name: &String| {
            let width = 40.0 + LETTER * name.chars().count().min(LETTERS) as f64;
            if x > LEFT && x + width > WIDTH {
                (x, y) = (LEFT, y + LINE);
            }
            x += width;
            [x - width, y]
        };
        self.names.iter().map(place).collect()
    }

    /// Returns the top of the memory row.
    fn top(&self) -> f64 {
        self.places().last().map_or(4.0, |[_, y]| y + LINE + 2.0)
    }

    fn height(&self) -> f64 {
        self.top() + 2.0 * ROW + 28.0
    }

    fn drawing(&self) -> String {
        let (end, top) = (self.end(), self.top());
        let scale = (WIDTH - LEFT - 10.0) / end as f64;
        let height = self.height();
        let mut text = format!("<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n");
        for (row, name) in ["memory", "PEs"].into_iter().enumerate() {
            let y = top + 4.0 + ROW * row as f64 + ROW / 2.0;
            let _ = writeln!(text, "<text x=\"4\" y=\"{y:.1}\">{name}</text>");
        }
        for bar in self.bars {
            let ([fetch_start, fetch_end], [compute_start, compute_end]) = (bar.fetch, bar.compute);
            let (part, parts) = bar.part.unwrap_or((0, 1));
            let of_parts = (ROW - 10.0) / parts as f64;
            let rows = [
                (0.0, ROW - 10.0, fetch_start, fetch_end),
                (ROW + of_parts * part as f64, of_parts, compute_start, compute_end),
            ];
            for (y, height, from, to) in rows {
                let (x, width) = (LEFT + from as f64 * scale, (to - from) as f64 * scale);
                let edge =
                    if width < EDGED { "" } else { " stroke=\"white\" stroke-width=\"0.5\"" };
                let _ = writeln!(
                    text,
                    "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" {}{edge}>\
                     <title>{}, {:.2} to {:.2} us</title></rect>",
                    top + y,
                    fill(bar.stream),
                    escaped(&self.label(bar)),
                    from as f64 / 1e6,
                    to as f64 / 1e6,
                );
            }
        }
        ticks(&mut text, end, scale, [top - 2.0, top + 4.0 + 2.0 * ROW]);
        self.legend(&mut text);
        text
    }

    fn legend(&self, text: &mut String) {
        for (at, (name, [x, y])) in self.names.iter().zip(self.places()).enumerate() {
            let _ = writeln!(
                text,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"12\" height=\"12\" {}/><text x=\"{:.1}\" y=\"{}\">{}</text>",
                fill(at),
                x + 18.0,
                y + 11.0,
                escaped(&shortened(name, LETTERS))
            );
        }
    }

    /// Returns the timeline as a trace for Chrome and Perfetto: two threads of complete events, times
    /// in us.
    pub fn trace(&self) -> String {
        let mut events: Vec<Value> = [(1, "memory"), (2, "PEs")]
            .into_iter()
            .map(|(tid, name)| {
                json!({"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}})
            })
            .collect();
        for bar in self.bars {
            let ([fetch_start, fetch_end], [compute_start, compute_end]) = (bar.fetch, bar.compute);
            for (tid, from, to) in [(1, fetch_start, fetch_end), (2, compute_start, compute_end)] {
                events.push(json!({
                    "ph": "X", "pid": 1, "tid": tid, "name": self.label(bar), "cat": self.names[bar.stream],
                    "ts": from as f64 / 1e6, "dur": (to - from) as f64 / 1e6,
                }));
            }
        }
        json!({"traceEvents": events, "displayTimeUnit": "ns"}).to_string() + "\n"
    }
}

/// Returns the fill attribute of a network. Colors repeat at half the brightness.
fn fill(stream: usize) -> String {
    let round = (stream / COLOURS.len()).min(7);
    let [red, green, blue] = COLOURS[stream % COLOURS.len()].map(|channel| channel >> round);
    format!("fill=\"#{red:02x}{green:02x}{blue:02x}\"")
}

/// Appends lines at round times between two y coordinates, with the times below.
fn ticks(text: &mut String, end: Picos, scale: f64, [from, to]: [f64; 2]) {
    let step = step(end);
    let (unit, name) = if step >= 1_000_000_000 { (1e9, "ms") } else { (1e6, "us") };
    // As many digits as a step needs.
    let digits = (unit / step as f64).log10().ceil().max(0.0) as usize;
    for at in (0..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let x = LEFT + at as f64 * scale;
        let shown = format!("{:.digits$} {name}", at as f64 / unit);
        // Keeps the last label within the picture.
        let middle = x.min(WIDTH - LETTER * shown.len() as f64 / 2.0);
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{from:.1}\" x2=\"{x:.1}\" y2=\"{to:.1}\" stroke=\"#bbb\" stroke-width=\"0.6\"/>\
             <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{shown}</text>",
            to + 16.0
        );
    }
}

/// Returns the smallest step of 1, 2 or 5 times a power of ten that gives at most [`TICKS`] ticks.
fn step(end: Picos) -> Picos {
    let steps = (0..19).flat_map(|power| [1, 2, 5].map(|by: Picos| by * 10_u64.pow(power)));
    steps.into_iter().find(|step| end / step <= TICKS).unwrap_or(Picos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let us = |end: Picos| step(end * 1_000_000) / 1_000_000;
        assert_eq!([us(2_138), us(5_849), us(12), us(13)], [200, 500, 1, 2]);
        assert!([1, 999, u64::MAX / 3, u64::MAX].iter().all(|end| end / step(*end) <= TICKS));
        let mut text = String::new();
        ticks(&mut text, 1_300_000, 1e-3, [0.0, 1.0]);
        assert!(text.contains(">0.0 us<") && text.contains(">1.2 us<"), "{text}");
        assert!(!text.contains(">1.3 us<"), "{text}");
    }

    #[test]
    fn names_of_streams_have_room_however_many_and_long_they_are() {
        let names: Vec<String> = (0..20).map(|at| format!("{at}{}", "x".repeat(7 * at))).collect();
        let timeline = Timeline { names: &names, bars: &[] };
        let places = timeline.places();
        for (at, ([x, y], name)) in places.iter().zip(&names).enumerate() {
            let end = x + 18.0 + LETTER * name.len().min(LETTERS) as f64;
            assert!(end <= WIDTH && *y < timeline.top(), "{name}");
            assert!(places[at + 1..].iter().all(|[other, line]| line > y || *other > end));
        }
        let fills: std::collections::HashSet<String> = (0..20).map(fill).collect();
        assert_eq!(fills.len(), 20, "each has its own");
    }

    #[test]
    fn both_resources_of_each_block_are_drawn_and_traced() {
        let (fetch, compute) = ([0, 2_000_000], [2_000_000, 5_000_000]);
        let names = ["a<b".to_owned()];
        let bars = [Bar { stream: 0, label: "conv1".into(), part: None, fetch, compute }];
        let timeline = Timeline { names: &names, bars: &bars };
        let svg = timeline.svg();
        assert!(svg.contains("<title>a&lt;b conv1, 2.00 to 5.00 us</title>"), "{svg}");
        assert_eq!(svg.matches("<title>").count(), 2);
        let trace: Value = serde_json::from_str(&timeline.trace()).expect("it is JSON");
        let events = trace["traceEvents"].as_array().expect("they are a list");
        assert_eq!((events.len(), events[3]["dur"].as_f64()), (4, Some(3.0)));
    }
}
