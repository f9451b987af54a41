//! What an NPU did, as pictures: both resources over time.

use std::fmt::Write as _;

use dyno_npu::machine::Placed;
use dyno_npu::profile::Picos;
use serde_json::{Value, json};

/// A block that was placed.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Whose.
    pub stream: usize,
    /// Its layer.
    pub label: String,
    /// The number of the part of the array that computed it, and how many there are; none of the whole.
    pub part: Option<(usize, usize)>,
    /// When.
    pub placed: Placed,
}

/// Blocks of several networks.
#[derive(Clone, Copy, Debug)]
pub struct Timeline<'a> {
    /// Of the streams.
    pub names: &'a [String],
    /// In the order in which they were placed.
    pub bars: &'a [Bar],
}

/// Colours of streams, told apart by those who see few colours as well (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f"];

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 70.0;
const ROW: f64 = 46.0;
const HEIGHT: f64 = 2.0 * ROW + 74.0;

impl Timeline<'_> {
    /// When the last computation ends.
    fn end(&self) -> Picos {
        self.bars.iter().map(|bar| bar.placed.compute_end).max().unwrap_or(1).max(1)
    }

    fn label(&self, bar: &Bar) -> String {
        format!("{} {}", self.names[bar.stream], bar.label).trim_end().to_owned()
    }

    /// A picture with a row for the memory and one for the PEs; a bar says what it is when pointed at. As a file.
    pub fn svg(&self) -> String {
        let (width, height) = (WIDTH, HEIGHT);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n{}</svg>\n",
            self.drawing()
        )
    }

    /// The same as a part of a page.
    pub fn inline(&self) -> String {
        format!(
            "<svg role=\"img\" aria-label=\"memory and PEs over time\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             style=\"position:static;min-width:50rem;height:auto\" font-size=\"13\">{}</svg>",
            self.drawing()
        )
    }

    fn drawing(&self) -> String {
        let end = self.end();
        let scale = (WIDTH - LEFT - 10.0) / end as f64;
        let mut text = format!("<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n");
        for (row, name) in ["memory", "PEs"].into_iter().enumerate() {
            let y = 30.0 + ROW * row as f64 + ROW / 2.0;
            let _ = writeln!(text, "<text x=\"4\" y=\"{y:.1}\">{name}</text>");
        }
        for bar in self.bars {
            let Placed { fetch_start, fetch_end, compute_start, compute_end } = bar.placed;
            let (part, parts) = bar.part.unwrap_or((0, 1));
            let of_parts = (ROW - 10.0) / parts as f64;
            let rows = [
                (0.0, ROW - 10.0, fetch_start, fetch_end),
                (ROW + of_parts * part as f64, of_parts, compute_start, compute_end),
            ];
            for (y, height, from, to) in rows {
                let (x, width) = (LEFT + from as f64 * scale, (to - from) as f64 * scale);
                let _ = writeln!(
                    text,
                    "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" fill=\"{}\" \
                     stroke=\"white\" stroke-width=\"0.3\"><title>{}, {:.2} to {:.2} us</title></rect>",
                    26.0 + y,
                    COLOURS[bar.stream % COLOURS.len()],
                    escaped(&self.label(bar)),
                    from as f64 / 1e6,
                    to as f64 / 1e6,
                );
            }
        }
        self.legend(&mut text, end, scale);
        text
    }

    fn legend(&self, text: &mut String, end: Picos, scale: f64) {
        let y = 30.0 + 2.0 * ROW;
        for tick in 0..=8_u32 {
            let at = end as f64 * f64::from(tick) / 8.0;
            let x = LEFT + at * scale;
            let _ = writeln!(
                text,
                "<line x1=\"{x:.1}\" y1=\"24\" x2=\"{x:.1}\" y2=\"{y:.1}\" stroke=\"#bbb\" stroke-width=\"0.6\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} us</text>",
                y + 16.0,
                at / 1e6
            );
        }
        for (at, name) in self.names.iter().enumerate() {
            let x = LEFT + 150.0 * at as f64;
            let _ = writeln!(
                text,
                "<rect x=\"{x:.1}\" y=\"4\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{:.1}\" y=\"15\">{}</text>",
                COLOURS[at % COLOURS.len()],
                x + 18.0,
                escaped(name)
            );
        }
    }

    /// The same for the viewers of Chrome and Perfetto: two threads, complete events, times in us.
    pub fn trace(&self) -> String {
        let mut events: Vec<Value> = [(1, "memory"), (2, "PEs")]
            .into_iter()
            .map(|(tid, name)| {
                json!({"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}})
            })
            .collect();
        for bar in self.bars {
            let Placed { fetch_start, fetch_end, compute_start, compute_end } = bar.placed;
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_resources_of_each_block_are_drawn_and_traced() {
        let placed = Placed {
            fetch_start: 0,
            fetch_end: 2_000_000,
            compute_start: 2_000_000,
            compute_end: 5_000_000,
        };
        let names = ["a<b".to_owned()];
        let bars = [Bar { stream: 0, label: "conv1".into(), part: None, placed }];
        let timeline = Timeline { names: &names, bars: &bars };
        let svg = timeline.svg();
        assert!(svg.contains("<title>a&lt;b conv1, 2.00 to 5.00 us</title>"), "{svg}");
        assert_eq!(svg.matches("<title>").count(), 2);
        let trace: Value = serde_json::from_str(&timeline.trace()).expect("it is JSON");
        let events = trace["traceEvents"].as_array().expect("they are a list");
        assert_eq!((events.len(), events[3]["dur"].as_f64()), (4, Some(3.0)));
    }
}
