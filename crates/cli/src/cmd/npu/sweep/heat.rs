//! Heat maps of a grid: one SVG file that is readable on light and on dark pages.

use std::fmt::Write as _;

use super::grid::Grid;
use super::point::Metric;
use dyno_report::words::escaped;
use dyno_results::units::shortened;

/// Colours from low to high, evenly spaced; lightness grows with the value, so that they read without colour
/// (viridis, of matplotlib).
const RAMP: [[f64; 3]; 9] = [
    [68.0, 1.0, 84.0],
    [71.0, 45.0, 123.0],
    [59.0, 82.0, 139.0],
    [44.0, 114.0, 142.0],
    [33.0, 145.0, 140.0],
    [40.0, 174.0, 128.0],
    [94.0, 201.0, 98.0],
    [173.0, 220.0, 48.0],
    [253.0, 231.0, 37.0],
];

/// Cells have the same colors on light and on dark pages; everything else follows the page.
const STYLE: &str = "\
.page{fill:#ffffff}text{fill:#1b1f24}.quiet{fill:#59636e}.hole{fill:#d8dde3}.frame{stroke:#59636e}
.white{fill:#ffffff}.black{fill:#111111}
@media (prefers-color-scheme:dark){.page{fill:#14171b}text{fill:#e6e8eb}.quiet{fill:#9aa4af}.hole{fill:#343a42}
.frame{stroke:#9aa4af}.white{fill:#ffffff}.black{fill:#111111}}";

/// Width of a letter, pixels.
const LETTER: f64 = 7.0;
const CELL: f64 = 30.0;
const GAP: f64 = 28.0;
const MARGIN: f64 = 16.0;
/// Most letters of a label.
const LABEL: usize = 24;
/// Height above a map, for its title and the labels of its columns, pixels.
const HEAD: f64 = 58.0;
const LEGEND: f64 = 44.0;
/// Greatest width of maps beside one another, pixels.
const WIDE: f64 = 1_200.0;

/// Returns a map for each metric, with values in the cells, and a legend.
pub fn svg(grid: &Grid, metrics: &[Metric], subtitle: &str) -> String {
    let plan = Layout::new(grid, metrics);
    let beside = plan.panels_in_a_row(metrics.len());
    let below = metrics.len().div_ceil(beside);
    let width = 2.0 * MARGIN + beside as f64 * (plan.width + GAP) - GAP;
    let height = 2.0 * MARGIN + 22.0 + below as f64 * (plan.height + GAP) - GAP;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"system-ui,sans-serif\" font-size=\"13\">\n<style>{STYLE}</style>\n\
         <defs><linearGradient id=\"ramp\">"
    );
    for (at, colour) in RAMP.iter().enumerate() {
        let offset = at as f64 / (RAMP.len() - 1) as f64;
        let _ = write!(text, "<stop offset=\"{offset:.3}\" stop-color=\"{}\"/>", hex(*colour));
    }
    let _ = writeln!(
        text,
        "</linearGradient></defs>\n<rect class=\"page\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n\
         <text class=\"quiet\" x=\"{MARGIN}\" y=\"{:.0}\">{}</text>",
        MARGIN + 12.0,
        escaped(subtitle)
    );
    for (number, &metric) in metrics.iter().enumerate() {
        let x = MARGIN + (number % beside) as f64 * (plan.width + GAP);
        let y = MARGIN + 22.0 + (number / beside) as f64 * (plan.height + GAP);
        let _ = writeln!(text, "<g transform=\"translate({x:.1} {y:.1})\">");
        plan.map(&mut text, grid, metric);
        text.push_str("</g>\n");
    }
    text + "</svg>\n"
}

/// Sizes of a map and its cells, pixels.
struct Layout {
    label: f64,
    cell: f64,
    width: f64,
    height: f64,
}

impl Layout {
    fn new(grid: &Grid, metrics: &[Metric]) -> Self {
        let letters = |text: &str| LETTER * text.chars().count().min(LABEL) as f64;
        let rows = &grid.axes[0];
        let label =
            rows.values.iter().chain([&rows.key]).map(|text| letters(text)).fold(0.0, f64::max);
        let columns = grid.axes.get(1).map_or(&[][..], |axis| &axis.values);
        let cells = grid.feasible().flat_map(|(_, found)| {
            metrics.iter().map(|metric| letters(&metric.text(found.figure(*metric))))
        });
        let cell =
            columns.iter().map(|text| letters(text)).chain(cells).fold(40.0, f64::max) + 12.0;
        let titles = metrics.iter().map(|metric| letters(metric.title()) + 8.0);
        let maps = label + 10.0 + cell * grid.columns() as f64;
        Self {
            label: label + 10.0,
            cell,
            width: titles.fold(maps, f64::max),
            height: HEAD + CELL * rows.values.len() as f64 + LEGEND,
        }
    }

    fn panels_in_a_row(&self, panels: usize) -> usize {
        let room = ((WIDE - 2.0 * MARGIN + GAP) / (self.width + GAP)) as usize;
        // All rows of maps are equally long, except for the last.
        panels.div_ceil(panels.div_ceil(room.max(1)).max(1)).max(1)
    }

    fn map(&self, text: &mut String, grid: &Grid, metric: Metric) {
        let range = Range::for_metric(grid, metric);
        let _ = writeln!(
            text,
            "<text x=\"0\" y=\"14\" font-weight=\"600\">{}</text>",
            escaped(metric.title())
        );
        self.labels(text, grid);
        for at in 0..grid.points.len() {
            let (row, column) = (at / grid.columns(), at % grid.columns());
            let place = [self.label + self.cell * column as f64, HEAD + CELL * row as f64];
            self.cell(text, grid, at, metric, &range, place);
        }
        self.legend(text, metric, &range, HEAD + CELL * grid.axes[0].values.len() as f64 + 14.0);
    }

    fn labels(&self, text: &mut String, grid: &Grid) {
        let rows = &grid.axes[0];
        let right = self.label - 8.0;
        let _ = writeln!(
            text,
            "<text class=\"quiet\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            HEAD - 8.0,
            escaped(&shortened(&rows.key, LABEL))
        );
        for (at, value) in rows.values.iter().enumerate() {
            let _ = writeln!(
                text,
                "<text x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                HEAD + CELL * at as f64 + CELL / 2.0 + 4.5,
                escaped(&shortened(value, LABEL))
            );
        }
        let Some(columns) = grid.axes.get(1) else { return };
        let _ = writeln!(
            text,
            "<text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            self.label,
            HEAD - 25.0,
            escaped(&shortened(&columns.key, LABEL))
        );
        for (at, value) in columns.values.iter().enumerate() {
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                self.label + self.cell * (at as f64 + 0.5),
                HEAD - 8.0,
                escaped(&shortened(value, LABEL))
            );
        }
    }

    fn cell(
        &self,
        text: &mut String,
        grid: &Grid,
        at: usize,
        metric: Metric,
        range: &Range,
        [x, y]: [f64; 2],
    ) {
        let point = &grid.points[at];
        let value = point.as_ref().ok().and_then(|found| found.figure(metric));
        let (fill, ink) = match value {
            None => ("class=\"hole\"".to_owned(), "quiet"),
            Some(value) => {
                let colour = colour(range.part(value));
                (format!("fill=\"{}\"", hex(colour)), ink(colour))
            }
        };
        let shown = metric.text(value);
        let title = match point {
            Ok(_) => format!("{}: {} {shown}", grid.name(at), metric.title()),
            Err(why) => format!("{}: {why}", grid.name(at)),
        };
        let _ = writeln!(
            text,
            "<g><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" {fill}/>\
             <text class=\"{ink}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>",
            escaped(&title),
            x + 1.0,
            y + 1.0,
            self.cell - 2.0,
            CELL - 2.0,
            x + self.cell / 2.0,
            y + CELL / 2.0 + 4.5,
            escaped(&shown)
        );
    }

    fn legend(&self, text: &mut String, metric: Metric, range: &Range, y: f64) {
        let width = (self.width - self.label).min(260.0);
        let [low, high] = [range.low, range.high].map(|end| escaped(&metric.text(Some(end))));
        let _ = writeln!(
            text,
            "<rect class=\"frame\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"10\" fill=\"url(#ramp)\" \
             stroke-width=\"0.6\"/><text class=\"quiet\" font-size=\"12\" x=\"{:.1}\" y=\"{:.1}\">{low}</text>\
             <text class=\"quiet\" font-size=\"12\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{high}</text>",
            self.label,
            self.label,
            y + 24.0,
            self.label + width,
            y + 24.0,
        );
    }
}

/// Values at the ends of the color ramp.
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    /// Returns 0 to 1 for shares, so that maps of a metric are comparable, else the range of the values.
    fn for_metric(grid: &Grid, metric: Metric) -> Self {
        if metric.is_part() {
            return Self { low: 0.0, high: 1.0 };
        }
        let values: Vec<f64> =
            grid.feasible().filter_map(|(_, found)| found.figure(metric)).collect();
        let low = values.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let high = values.iter().copied().reduce(f64::max).unwrap_or(1.0);
        Self { low, high }
    }

    /// Returns the position of a value on the ramp, 0 to 1; 0.5 if all values are equal.
    fn part(&self, value: f64) -> f64 {
        let wide = self.high - self.low;
        if wide > 0.0 { ((value - self.low) / wide).clamp(0.0, 1.0) } else { 0.5 }
    }
}

fn colour(part: f64) -> [f64; 3] {
    let at = part * (RAMP.len() - 1) as f64;
    let below = (at as usize).min(RAMP.len() - 2);
    let rest = at - below as f64;
    std::array::from_fn(|i| RAMP[below][i] * (1.0 - rest) + RAMP[below + 1][i] * rest)
}

fn hex(colour: [f64; 3]) -> String {
    let [r, g, b] = colour.map(|part| part.round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Returns the ink, black or white, with more contrast on a color, by the relative luminance of WCAG 2.
fn ink(colour: [f64; 3]) -> &'static str {
    let linear = colour.map(|part| (part / 255.0).powf(2.2));
    let luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    // At this luminance the contrasts with white, 1.05 / (l + 0.05), and black, (l + 0.05) / 0.05, are equal.
    if luminance > 0.179 { "black" } else { "white" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lightness_grows_from_low_to_high_and_texts_are_read_on_all_of_it() {
        let lightness =
            |colour: [f64; 3]| 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2];
        let steps: Vec<f64> = (0..=40).map(|at| lightness(colour(f64::from(at) / 40.0))).collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
        assert_eq!((hex(colour(0.0)), ink(colour(0.0))), ("#440154".to_owned(), "white"));
        assert_eq!((hex(colour(1.0)), ink(colour(1.0))), ("#fde725".to_owned(), "black"));
    }

    #[test]
    fn parts_of_a_whole_have_the_whole_ramp_and_equal_values_its_middle() {
        let range = Range { low: 2.0, high: 4.0 };
        assert_eq!([1.0, 2.0, 3.0, 9.0].map(|value| range.part(value)), [0.0, 0.0, 0.5, 1.0]);
        assert_eq!(Range { low: 2.0, high: 2.0 }.part(2.0), 0.5);
    }
}
