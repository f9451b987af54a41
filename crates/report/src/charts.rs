//! The charts of one test, each from its series.

use dyno_results::series::{self, Distribution, Slice};
use dyno_results::{summary, units};

use super::plot::{Axis, Chart, Format, Ink, Point, RuleAxis, Shape};
use super::words;

/// Maximum number of bars of a histogram; more would be too thin to see.
const BARS_MOST: usize = 72;

/// Returns the unit that a test times, in singular and plural: samples in Offline, else queries.
pub fn timed(test: &summary::Test) -> (&'static str, &'static str) {
    if test.scenario == "Offline" { ("sample", "samples") } else { ("query", "queries") }
}

/// Bound that a time is compared with.
pub struct Threshold {
    /// Bound in ns; `None` without a bound.
    pub bound: Option<f64>,
}

impl Threshold {
    /// Returns the bound on the latency.
    pub fn latency(test: &summary::Test) -> Self {
        Self { bound: test.plan.latency_bound_ns.map(|bound| bound as f64) }
    }

    /// Returns the bound on the latency that all tests have; no bound if they differ.
    pub fn common_latency<'a>(tests: impl IntoIterator<Item = &'a summary::Test>) -> Self {
        let mut bounds = tests.into_iter().map(|test| test.plan.latency_bound_ns);
        let first = bounds.next().flatten();
        let common = first.filter(|_| bounds.all(|bound| bound == first));
        Self { bound: common.map(|bound| bound as f64) }
    }

    /// Returns the bound on the time to first token.
    pub fn first_token(test: &summary::Test) -> Self {
        Self { bound: test.plan.first_token_bound_ns.map(|bound| bound as f64) }
    }

    /// Returns the bound on the time per output token.
    pub fn per_token(test: &summary::Test) -> Self {
        Self { bound: test.plan.time_per_output_token_bound_ns.map(|bound| bound as f64) }
    }

    /// Returns the budget of the client lag.
    pub fn client_lag(test: &summary::Test) -> Self {
        Self { bound: test.plan.max_client_lag_ns.map(|bound| bound as f64) }
    }

    /// Adds the bound to a chart as a horizontal line.
    pub fn mark(&self, chart: Chart) -> Chart {
        self.across(chart, RuleAxis::Y, "bound")
    }

    fn across(&self, chart: Chart, across: RuleAxis, word: &str) -> Chart {
        let name = self.bound.map(|bound| format!("{word} {}", words::bound(bound as u64)));
        chart.rule(across, self.bound, &name.unwrap_or_default(), Ink::Bad)
    }
}

/// Returns the latency histogram twice: with a linear and with a logarithmic count axis.
pub fn histograms(of: &Distribution, judged: &Threshold, timed: &str) -> [Chart; 2] {
    let (bars, share) = bars(of);
    let edges = || bars.iter().flat_map(|p| [p.x, p.to]).chain(judged.bound);
    let heights = || bars.iter().map(|p| p.y);
    let x = || Axis::log("latency, logarithmic", Format::Time, edges());
    let name = format!("{timed} per {:.0}\u{202f}% of latency", 100.0 * share);
    let linear = Axis::linear(&name, Format::Count, heights());
    let mut log = Axis::log(&format!("{name}, logarithmic"), Format::Count, heights());
    // The lowest bar must be seen.
    log.low *= 0.6;
    [linear, log].map(|y| {
        let chart = Chart::new("Latency histogram", x(), y)
            .note(format!("Number of {timed} by latency: the area of a bar is its count."))
            .with(timed, Ink::A, Shape::Bars, bars.clone());
        judged.across(chart, RuleAxis::X, "bound")
    })
}

/// Returns the bars of a histogram, with neighboring buckets joined until there are at most
/// [`BARS_MOST`], and the share by which the latency grows over a bar of the usual width.
///
/// Buckets have equal widths within an octave, so on a logarithmic axis the first bucket of an
/// octave is nearly twice as wide as the last bucket of the octave before. Heights are counts
/// scaled to the usual width; unscaled counts would show a step at each octave.
fn bars(of: &Distribution) -> (Vec<Point>, f64) {
    let (joined, buckets) = of.histogram.joined(BARS_MOST);
    let usual = buckets as f64 / 16.0;
    let bar = |(from, to, count): (u64, u64, u64)| {
        // 0 has no logarithm.
        let (x, to) = ((from as f64).max(0.5), to as f64);
        let y = count as f64 * usual / (to / x).log2();
        Point { x, y, to, tip: dyno_results::units::count(count) }
    };
    (joined.into_iter().map(bar).collect(), usual.exp2() - 1.0)
}

/// Returns the cumulative distribution of a latency.
pub fn cumulative(
    of: &Distribution,
    judged: &Threshold,
    target: Option<f64>,
    timed: &str,
) -> Chart {
    let points = cumulative_points(of);
    let x = time_axis("latency, logarithmic", std::iter::once(of), judged.bound);
    let y = Axis::between(&format!("share of {timed}"), Format::Share, 0.0, 1.0);
    let chart = Chart::new("Cumulative distribution", x, y)
        .note(format!("Share of {timed} within each latency."))
        .with(timed, Ink::A, Shape::Steps, points);
    let name = target.map(units::percentile_or_extreme).unwrap_or_default();
    let chart = chart.rule(RuleAxis::Y, target, &name, Ink::Quiet);
    judged.across(chart, RuleAxis::X, "bound")
}

/// Returns a logarithmic time axis that covers the distributions and the values of `more`.
pub fn time_axis<'a>(
    name: &str,
    of: impl Iterator<Item = &'a Distribution>,
    more: impl IntoIterator<Item = f64>,
) -> Axis {
    let times = of.flat_map(|of| &of.spectrum).map(|&(_, time)| time as f64);
    Axis::log(name, Format::Time, times.chain(more))
}

/// Returns the points of a cumulative distribution from the exact counts; the smallest and the
/// largest time are exact, too.
pub fn cumulative_points(of: &Distribution) -> Vec<Point> {
    let (Some(&(_, smallest)), Some(&(_, largest))) = (of.spectrum.first(), of.spectrum.last())
    else {
        return Vec::new();
    };
    // In floating point: the counts of a damaged file may have no sum.
    let total: f64 = of.histogram.buckets.iter().map(|bucket| bucket.2 as f64).sum();
    let mut points = vec![Point::new(smallest as f64, 0.0)];
    let mut sum = 0.0;
    for &(_, to, count) in &of.histogram.buckets {
        sum += count as f64;
        let share = sum / total.max(1.0);
        points.push(Point::new(to.min(largest).max(smallest) as f64, share));
    }
    points
}

/// Returns a chart of one or more distributions by percentile.
pub fn spectrum(
    title: &str,
    axis: &str,
    of: &[(&str, &Distribution)],
    judged: &Threshold,
    word: &str,
) -> Chart {
    let points = |of: &Distribution| -> Vec<Point> {
        of.spectrum.iter().map(|&(q, time)| Point::new(q, time as f64)).collect()
    };
    let deepest = of.iter().flat_map(|(_, of)| &of.spectrum).map(|&(q, _)| q);
    let deepest = deepest.filter(|&q| q < 1.0).fold(0.9, f64::max);
    let y = time_axis(axis, of.iter().map(|(_, of)| *of), judged.bound);
    let mut chart = Chart::new(title, Axis::nines(deepest), y)
        .note("The distances between p90, p99, p99.9 and so on are equal.");
    for (number, (name, of)) in of.iter().enumerate() {
        chart = chart.with(name, Ink::nth(number), Shape::Line, points(of));
    }
    judged.across(chart, RuleAxis::Y, word)
}

/// Returns a chart of times by percentile, from a few known percentiles. The time axis also covers
/// `bound`.
pub fn by_percentile(
    title: &str,
    axis: &str,
    lines: &[(&str, Vec<(f64, f64)>)],
    bound: Option<f64>,
) -> Chart {
    let all = || lines.iter().flat_map(|(_, line)| line);
    let deepest = all().map(|&(q, _)| q).filter(|&q| q < 1.0).fold(0.9, f64::max);
    let times = all().map(|&(_, time)| time).chain(bound);
    let mut chart = Chart::new(title, Axis::nines(deepest), Axis::log(axis, Format::Time, times));
    for (number, (name, line)) in lines.iter().enumerate() {
        let points = line.iter().map(|&(q, time)| Point::new(q, time)).collect();
        chart = chart.with(name, Ink::nth(number), Shape::Line, points);
    }
    chart
}

/// Returns lines of values over the time of the slices.
pub fn over_time(
    title: &str,
    axis: &str,
    format: Format,
    slices: &[Slice],
    lines: Vec<(&str, Vec<Point>)>,
) -> Chart {
    let values = lines.iter().flat_map(|(_, points)| points).map(|point| point.y);
    let y = Axis::linear(axis, format, values);
    let mut chart = Chart::new(title, elapsed(slices), y);
    for (number, (name, points)) in lines.into_iter().enumerate() {
        chart = chart.with(name, Ink::nth(number), Shape::Line, points);
    }
    chart
}

fn elapsed(slices: &[Slice]) -> Axis {
    let end = slices.last().map_or(1.0, end_of);
    Axis::between("time since the start", Format::Elapsed, 0.0, end)
}

fn middle(slice: &Slice) -> f64 {
    slice.begin_ns as f64 + slice.width_ns as f64 / 2.0
}

fn end_of(slice: &Slice) -> f64 {
    slice.begin_ns as f64 + slice.width_ns as f64
}

/// Returns p50, bands up to p90 and p99, and the maximum latency over the scheduled time.
pub fn latency_over_time(slices: &[Slice], judged: &Threshold, is_offline: bool) -> Chart {
    let times = slices.iter().filter_map(|slice| slice.latency_ns).flatten();
    let y = Axis::log(
        "latency, logarithmic",
        Format::Time,
        times.map(|time| time as f64).chain(judged.bound),
    );
    let line = |which: usize| -> Vec<Point> {
        let of = |slice: &Slice| Some(Point::new(middle(slice), slice.latency_ns?[which] as f64));
        slices.iter().filter_map(of).collect()
    };
    let band = |low: usize| -> Vec<Point> {
        let highs = line(low + 1);
        line(low).into_iter().zip(highs).map(|(p, high)| Point { to: high.y, ..p }).collect()
    };
    let note = if is_offline {
        "By completion time; all samples were due at the start."
    } else {
        "By due time. A rise means that a queue builds up."
    };
    let chart = Chart::new("Latency over time", elapsed(slices), y)
        .note(note)
        .with("p99", Ink::Quiet, Shape::Band, band(1))
        .with("p90", Ink::A, Shape::Band, band(0))
        .with("p50", Ink::A, Shape::Line, line(0))
        .with("max", Ink::B, Shape::Line, line(3));
    judged.across(chart, RuleAxis::Y, "bound")
}

/// Returns the samples per second that were due, answered and failed, over time.
pub fn throughput(slices: &[Slice], samples_per_query: u64, is_closed: bool) -> Chart {
    let rate = |of: &dyn Fn(&Slice) -> u64| -> Vec<Point> {
        let of = |slice: &Slice| {
            let seconds = slice.width_ns.max(1) as f64 / 1e9;
            Point::new(slice.begin_ns as f64, of(slice) as f64 / seconds)
        };
        held(slices.iter().map(of).collect(), slices)
    };
    let due = rate(&|slice| slice.due.saturating_mul(samples_per_query.max(1)));
    let done = rate(&|slice| slice.completed_samples);
    let failed = rate(&|slice| slice.failed_samples);
    let has_failed = slices.iter().any(|slice| slice.failed_samples > 0);
    let values = due.iter().chain(&done).chain(&failed).map(|p| p.y);
    let y = Axis::linear("samples per second", Format::Rate, values);
    let chart = Chart::new("Throughput over time", elapsed(slices), y);
    let chart = if is_closed {
        chart.note("Samples answered per second.")
    } else {
        chart
            .note(
                "Due and answered samples. The curve of the answers follows one latency later. If that \
                 delay grows, the system falls behind.",
            )
            .with("due", Ink::Quiet, Shape::Steps, due)
    };
    let chart = chart.with("answered", Ink::A, Shape::Steps, done);
    if has_failed { chart.with("failed", Ink::Bad, Shape::Steps, failed) } else { chart }
}

/// Extends the last step to the end of the last slice.
fn held(mut points: Vec<Point>, slices: &[Slice]) -> Vec<Point> {
    if let (Some(last), Some(slice)) = (points.last().cloned(), slices.last()) {
        points.push(Point::new(end_of(slice), last.y));
    }
    points
}

/// Returns the number of samples issued and not yet completed, over time.
pub fn in_flight(slices: &[Slice]) -> Chart {
    let points: Vec<Point> =
        slices.iter().map(|slice| Point::new(end_of(slice), slice.in_flight as f64)).collect();
    let y = Axis::linear("samples in flight", Format::Count, points.iter().map(|p| p.y));
    Chart::new("In flight", elapsed(slices), y)
        .note("Outstanding samples at the end of each part.")
        .with("in flight", Ink::D, Shape::Line, points)
}

/// Returns the p99 client lag over time.
pub fn client_lag_over_time(slices: &[Slice], judged: &Threshold) -> Chart {
    let of = |slice: &Slice| Some(Point::new(middle(slice), slice.client_lag_p99_ns? as f64));
    let points: Vec<Point> = slices.iter().filter_map(of).collect();
    let y = points.iter().map(|p| p.y).chain(judged.bound);
    let y = Axis::log("lag, logarithmic", Format::Time, y);
    let chart = Chart::new("Lag of the client over time", elapsed(slices), y)
        .note("p99 of the issue delay that the client caused.")
        .with("p99 of the lag", Ink::C, Shape::Line, points);
    judged.across(chart, RuleAxis::Y, "budget")
}

/// Returns the histogram of batch sizes.
pub fn batch_sizes(of: &series::Test) -> Chart {
    let largest = of.batch_sizes.iter().map(|&(size, _)| size).max().unwrap_or(1);
    let width = largest.div_ceil(64).max(1);
    let mut bars: Vec<Point> = Vec::new();
    for &(size, count) in &of.batch_sizes {
        let begin = (size.saturating_sub(1) / width * width) as f64 + 0.55;
        match bars.last_mut().filter(|bar| bar.x == begin) {
            Some(bar) => bar.y += count as f64,
            None => bars.push(Point {
                x: begin,
                y: count as f64,
                to: begin + width as f64 - 0.1,
                tip: String::new(),
            }),
        }
    }
    let x = Axis::between("samples in a batch", Format::Count, 0.0, largest as f64 + 1.0);
    let y = Axis::linear("batches", Format::Count, bars.iter().map(|p| p.y));
    Chart::new("Batch sizes", x, y).note("Number of batches by size.").with(
        "batches",
        Ink::E,
        Shape::Bars,
        bars,
    )
}

/// Returns the output tokens per second over time.
pub fn tokens_over_time(slices: &[Slice]) -> Chart {
    let of = |slice: &Slice| {
        let seconds = slice.width_ns.max(1) as f64 / 1e9;
        Point::new(slice.begin_ns as f64, slice.tokens.max(0) as f64 / seconds)
    };
    let points: Vec<Point> = if slices.iter().any(|slice| slice.tokens > 0) {
        held(slices.iter().map(of).collect(), slices)
    } else {
        Vec::new()
    };
    let y = Axis::linear("tokens per second", Format::Rate, points.iter().map(|p| p.y));
    Chart::new("Tokens over time", elapsed(slices), y)
        .note("Output tokens. Those of an answer are spread evenly from its first to its last.")
        .with("tokens", Ink::F, Shape::Steps, points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_results::series::Counts;

    #[test]
    fn every_point_of_a_chart_lies_on_its_axes() {
        // The lag of a client that was late once: p50 8 ns, the least 0, the largest 4.7 ms.
        let spectrum =
            vec![(0.0, 0), (0.01, 0), (0.5, 8), (0.9, 31), (0.99, 40_000), (1.0, 4_700_000)];
        let mut counts = Counts::default();
        spectrum.iter().for_each(|&(_, time)| counts.add(time));
        let of = Distribution { histogram: counts.histogram(), spectrum };
        let slice = |latency: [u64; 4], lag| Slice {
            width_ns: 1_000,
            latency_ns: Some(latency),
            client_lag_p99_ns: Some(lag),
            failed_samples: 9,
            ..Slice::default()
        };
        let slices = [slice([0, 0, 5, 9_000], 0), slice([3, 4, 5_000, 6_000_000], 70_000)];
        let judged = || Threshold { bound: Some(1e9) };
        let lines = [("lag", of.spectrum.iter().map(|&(q, time)| (q, time as f64)).collect())];
        let charts = [
            spectrum_of(&of, &judged()),
            judged().mark(by_percentile("", "", &lines, Some(1e9))),
            cumulative(&of, &judged(), None, "queries"),
            latency_over_time(&slices, &judged(), false),
            client_lag_over_time(&slices, &judged()),
            throughput(&slices, 1, false),
        ];
        for chart in &charts {
            let on = |axis: &Axis, value: f64| axis.first() <= value && value <= axis.high * 1.001;
            let points = chart.series.iter().flat_map(|series| &series.points);
            for point in points {
                let is_nines = chart.x.text(0.5) == "p50";
                assert!(is_nines || on(&chart.x, point.x), "{}: {point:?}", chart.title);
                assert!(on(&chart.y, point.y), "{}: {point:?}", chart.title);
            }
            for rule in &chart.rules {
                let axis = if rule.across == RuleAxis::X { &chart.x } else { &chart.y };
                assert!(on(axis, rule.at), "{}: {rule:?}", chart.title);
            }
        }
        // p50 stands where its value is, and not at the largest.
        let y = &charts[0].y;
        assert!(y.at(8.0) > y.at(0.0) && y.at(4_700_000.0) - y.at(8.0) > 0.4);
    }

    fn spectrum_of(of: &Distribution, judged: &Threshold) -> Chart {
        spectrum("Lag", "lag", &[("lag", of)], judged, "budget")
    }

    #[test]
    fn a_histogram_counts_what_lies_in_its_bars_and_is_as_smooth_as_the_latency() {
        // A log-logistic latency: its logarithm is spread as one hill. The spreads are
        // such that bars join 1, 2, 4, 8 and 16 buckets.
        let mut joined = Vec::new();
        for shape in [20.0, 8.0, 4.0, 2.0, 1.0, 0.8] {
            let count = 200_000;
            let time = |n: i32| {
                let odds = (f64::from(n) + 0.5) / (f64::from(count - n) - 0.5);
                (5e7 * odds.powf(1.0 / shape)) as u64
            };
            let times: Vec<u64> = (0..count).map(time).collect();
            let mut counts = Counts::default();
            times.iter().for_each(|&time| counts.add(time));
            let of = Distribution { histogram: counts.histogram(), spectrum: Vec::new() };
            let (bars, share) = bars(&of);
            assert!(bars.len() <= BARS_MOST, "{} bars", bars.len());
            for bar in &bars {
                let inside = times.partition_point(|t| (*t as f64) < bar.to)
                    - times.partition_point(|t| (*t as f64) < bar.x);
                assert_eq!(
                    bar.tip,
                    dyno_results::units::count(inside as u64),
                    "{} to {}",
                    bar.x,
                    bar.to
                );
                let area = bar.y * (bar.to / bar.x).ln() / (1.0 + share).ln();
                assert!((area - inside as f64).abs() < 1e-6 * inside as f64, "{area} {inside}");
            }
            // Where a bar holds a hundred, one more or less is no hill.
            let heights = bars.iter().filter(|bar| bar.y > 100.0).map(|bar| bar.y);
            let heights: Vec<f64> = heights.collect();
            let turns = heights.windows(3).filter(|of| of[1] < of[0].min(of[2]) * 0.99).count();
            assert_eq!(turns, 0, "valleys in {heights:?}");
            joined.push((16.0 * (1.0 + share).log2()).round() as u32);
        }
        joined.dedup();
        assert_eq!(joined, [1, 2, 4, 8, 16]);
    }
}
