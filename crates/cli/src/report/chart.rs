//! Charts as inline SVG, with colours from the style sheet.

use std::fmt::Write as _;

use crate::render;
use crate::series::Slice;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 30.0;

/// A logarithmic axis of times.
struct Log {
    low: f64,
    high: f64,
}

impl Log {
    /// Covers these times, widened to a sensible span.
    fn over(times: impl Iterator<Item = u64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for time in times {
            let time = time.max(1) as f64;
            low = low.min(time);
            high = high.max(time);
        }
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        // A little air, and never less than half a decade.
        let (low, high) = ((low / 1.15).log10(), (high * 1.15).log10());
        Self { low, high: high.max(low + 0.5) }
    }

    fn y(&self, time: u64) -> f64 {
        let share = ((time.max(1) as f64).log10() - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// Round times within the axis, at most about eight of them.
    fn ticks(&self) -> Vec<u64> {
        let steps: &[u64] = if self.high - self.low > 3.0 { &[1] } else { &[1, 2, 5] };
        let decades = (self.low.floor().max(0.0) as u32)..=(self.high.ceil().max(0.0) as u32);
        let all =
            decades.flat_map(|decade| steps.iter().map(move |step| step * 10_u64.pow(decade)));
        all.filter(|&tick| (self.low..=self.high).contains(&(tick as f64).log10())).collect()
    }
}

fn open(svg: &mut String, log: &Log, label: &str) {
    let _ =
        write!(svg, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">");
    for tick in log.ticks() {
        let y = log.y(tick);
        let text = render::duration(i64::try_from(tick).unwrap_or(i64::MAX));
        let text = text.replace(".00", "").replace(".0 ", " ");
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0
        );
    }
}

fn x_tick(svg: &mut String, x: f64, text: &str) {
    let _ = write!(
        svg,
        "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
         <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
        HEIGHT - BOTTOM,
        HEIGHT - BOTTOM + 16.0
    );
}

fn polyline(svg: &mut String, class: &str, points: &[(f64, f64)]) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = write!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
}

/// Latency, and where there is one the client's lag, by percentile. Each nine
/// more is as far as the one before.
pub fn spectrum(latency: &[(f64, u64)], lag: &[(f64, u64)], bound: Option<u64>) -> String {
    let times = latency.iter().chain(lag).map(|&(_, time)| time).chain(bound);
    let log = Log::over(times);
    // 1 - p of the last point but the largest; the largest stands a bit further.
    let nines = |q: f64| -(1.0 - q).log10();
    let deepest = latency.iter().filter(|p| p.0 < 1.0).map(|p| nines(p.0)).fold(1.0, f64::max);
    let end = deepest + 0.12 * deepest + 0.2;
    let x = |q: f64| {
        let at = if q >= 1.0 { end } else { nines(q) };
        LEFT + at / end * (WIDTH - LEFT - RIGHT)
    };
    let mut svg = String::new();
    open(&mut svg, &log, "latency by percentile");
    for q in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999] {
        if nines(q) <= deepest {
            x_tick(&mut svg, x(q), &if q == 0.0 { "min".into() } else { render::percentile(q) });
        }
    }
    x_tick(&mut svg, x(1.0), "max");
    let points = |of: &[(f64, u64)]| -> Vec<(f64, f64)> {
        of.iter().map(|&(q, time)| (x(q), log.y(time))).collect()
    };
    if let Some(bound) = bound {
        let y = log.y(bound);
        let _ = write!(
            svg,
            "<line class=\"bound\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            WIDTH - RIGHT
        );
    }
    polyline(&mut svg, "a", &points(latency));
    let _ = write!(svg, "<text class=\"key-a\" x=\"{}\" y=\"12\">latency</text>", LEFT + 4.0);
    if !lag.is_empty() {
        polyline(&mut svg, "b", &points(lag));
        let x = LEFT + 64.0;
        let _ = write!(svg, "<text class=\"key-b\" x=\"{x}\" y=\"12\">client's own lag</text>");
    }
    svg + "</svg>"
}

/// Latency over time: p50, bands up to p90 and p99, and the largest as dots.
pub fn over_time(slices: &[Slice]) -> String {
    let log = Log::over(slices.iter().filter_map(|slice| slice.latency_ns).flatten());
    let end = slices.last().map_or(1, |slice| slice.begin_ns).max(1);
    let x = |at: u64| LEFT + at as f64 / end as f64 * (WIDTH - LEFT - RIGHT);
    let mut svg = String::new();
    open(&mut svg, &log, "latency over time");
    for part in 0..=4 {
        let at = end * part / 4;
        x_tick(&mut svg, x(at), &format!("{:.2} s", at as f64 / 1e9));
    }
    let line = |which: usize| -> Vec<(f64, f64)> {
        slices
            .iter()
            .filter_map(|slice| Some((x(slice.begin_ns), log.y(slice.latency_ns?[which]))))
            .collect()
    };
    for (low, high, opacity) in [(0, 1, 0.35), (1, 2, 0.18)] {
        let mut outline = line(low);
        outline.extend(line(high).into_iter().rev());
        let points: Vec<String> = outline.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            svg,
            "<polygon class=\"band\" fill-opacity=\"{opacity}\" points=\"{}\"/>",
            points.join(" ")
        );
    }
    polyline(&mut svg, "a", &line(0));
    for (x, y) in line(3) {
        let _ = write!(svg, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.8\"/>");
    }
    let x = LEFT + 4.0;
    let _ =
        write!(svg, "<text class=\"key-a\" x=\"{x}\" y=\"12\">p50, bands to p90 and p99</text>");
    let _ = write!(svg, "<text class=\"key-b\" x=\"{}\" y=\"12\">largest</text>", x + 170.0);
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_round_ticks_within_it() {
        let log = Log::over([1_200, 90_000].into_iter());
        assert_eq!(log.ticks(), [2_000, 5_000, 10_000, 20_000, 50_000, 100_000]);
        assert!(log.y(1_200) > log.y(90_000), "larger times stand higher");
    }

    #[test]
    fn charts_of_nothing_are_still_charts() {
        for svg in [spectrum(&[], &[], None), over_time(&[])] {
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("NaN"));
        }
    }
}
