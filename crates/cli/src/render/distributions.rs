//! Table of the metrics of a text server, a row each, and what became of the requests.

use dyno_results::summary::distributions::{MetricDistribution, is_only_largest};
use dyno_results::summary::window::Window;
use dyno_results::summary::{Metrics, Test};
use dyno_results::units::{self, count, counted, duration, percentile};

use super::{Alignment, Frame};

/// Percentiles beside the other columns of the first table, and in each table that follows.
const PERCENTILES: [usize; 2] = [3, 7];

/// Mark of a percentile that is only the largest value.
const MARK: &str = "*";

/// Explains [`MARK`].
const MARKED: &str = "* too few values for this percentile; shown is the largest one";

/// Adds the metrics of a test. A percentile that rests on a single value is marked.
pub fn table(frame: &mut Frame, test: &Test) {
    let Some(metrics) = &test.metrics else { return };
    let all = &metrics.distributions;
    let percents = all.iter().map(|of| &of.percentiles).max_by_key(|of| of.len());
    let percents: Vec<f64> = percents.into_iter().flatten().map(|of| of.percent).collect();
    let (first, further) = percents.split_at(percents.len().min(PERCENTILES[0]));
    let mut is_marked = rows(frame, all, first, true);
    for some in further.chunks(PERCENTILES[1]) {
        is_marked |= rows(frame, all, some, false);
    }
    if is_marked {
        frame.line(MARKED, 2);
    }
    frame.line(&requests(metrics), 2);
    windows(frame, metrics);
}

/// Adds the stages of the load or the steady part, and the models.
fn windows(frame: &mut Frame, metrics: &Metrics) {
    let all: Vec<&Window> =
        metrics.stages.iter().chain(&metrics.models).chain(&metrics.steady).collect();
    if all.is_empty() {
        return;
    }
    let head =
        ["", "offered/s", "answers/s", "tokens/s", "TTFT p50", "p99", "E2E p50", "p99", "lost"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for window in all {
        let time = |metric: &str, percent: f64| {
            let found = window.distribution(metric);
            let found = found.and_then(|of| Some((of.count, of.percentile(percent)?)));
            found.map_or("-".into(), |(count, value)| duration(value as i64) + mark(count, percent))
        };
        lines.push(vec![
            window.name.clone(),
            units::rate(window.offered_per_s),
            units::rate(window.completed_per_s),
            window.output_tokens_per_s.map_or("-".into(), units::rate),
            time("ttft", 50.0),
            time("ttft", 99.0),
            time("e2el", 50.0),
            time("e2el", 99.0),
            count(window.lost),
        ]);
    }
    let alignments: Vec<Alignment> = std::iter::once(Alignment::Left)
        .chain(std::iter::repeat_n(Alignment::Right, head.len() - 1))
        .collect();
    frame.rule();
    frame.table(&alignments, &lines);
    if lines.iter().any(|row| row.iter().skip(1).any(|cell| cell.ends_with(MARK))) {
        frame.line(MARKED, 2);
    }
    if let Some(steady) = &metrics.steady {
        let text = format!(
            "steady from {} on (MSER-5); the verdict covers the whole run",
            duration(steady.from_ns.cast_signed())
        );
        frame.line(&text, 2);
    }
}

/// Adds a table with these percentiles; the first one has the other figures, too. Returns whether a
/// percentile is marked.
fn rows(frame: &mut Frame, all: &[MetricDistribution], percents: &[f64], is_first: bool) -> bool {
    let names: Vec<String> = percents.iter().map(|percent| percentile(percent / 100.0)).collect();
    let (before, after) =
        if is_first { (["mean", "std", "min"].as_slice(), "max") } else { (&[][..], "") };
    let head = std::iter::once("").chain(before.iter().copied());
    let head = head.chain(names.iter().map(String::as_str)).chain(is_first.then_some(after));
    let mut lines: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    let mut is_marked = false;
    for of in all {
        let shown = |value: Option<f64>| value.map_or("-".into(), |value| show(of, value));
        // The rate of a single second has no distribution, and its mean leaves out the drain.
        let is_distributed = of.unit != "1/s" || of.count > 1;
        let figure = |value: Option<f64>| value.filter(|_| is_distributed);
        let mut line = vec![name(&of.metric).to_owned()];
        if is_first {
            line.extend([Some(of.mean), figure(of.std), figure(of.min)].map(shown));
        }
        for percent in percents {
            let found = figure(of.percentile(*percent));
            let mark = found.map_or("", |_| mark(of.count, *percent));
            is_marked |= !mark.is_empty();
            line.push(shown(found) + mark);
        }
        line.extend(is_first.then(|| shown(figure(of.max))));
        lines.push(line);
    }
    let columns = lines[0].len();
    let alignments = std::iter::once(Alignment::Left)
        .chain(std::iter::repeat_n(Alignment::Right, columns - 1))
        .collect::<Vec<_>>();
    frame.table(&alignments, &lines);
    is_marked
}

/// Returns the mark of a percentile of so many values, or nothing.
fn mark(values: u64, percent: f64) -> &'static str {
    if is_only_largest(values, percent) { MARK } else { "" }
}

fn name(metric: &str) -> &str {
    match metric {
        "ttft" => "TTFT",
        "tpot" => "TPOT",
        "itl" => "ITL",
        "e2el" => "E2E latency",
        "requests_per_s" => "requests/s",
        "images_per_s" => "images/s",
        "input_tokens_per_s" => "input tokens/s",
        "output_tokens_per_s" => "output tokens/s",
        "input_tokens" => "input tokens",
        "output_tokens" => "output tokens",
        other => other,
    }
}

fn show(of: &MetricDistribution, value: f64) -> String {
    match of.unit.as_str() {
        "ns" => duration(value as i64),
        _ if value.fract() == 0.0 && value >= 0.0 => count(value as u64),
        "tokens" => format!("{value:.1}"),
        _ => units::rate(value),
    }
}

/// Returns how many requests succeeded and failed, the peak concurrency and the duration.
fn requests(metrics: &Metrics) -> String {
    let unfinished = metrics.unfinished();
    let missing = metrics.missing.saturating_sub(unfinished);
    let lost = metrics.failed.total().saturating_add(missing);
    // The line of the client below has the kinds of failures.
    let missing = match missing {
        0 => String::new(),
        n => format!(" ({} missing)", count(n)),
    };
    let peak = metrics.peak_concurrency.map(|peak| format!(", peak concurrency {}", count(peak)));
    let unfinished = match unfinished {
        0 => String::new(),
        n => format!(", {} unfinished when the run was stopped", count(n)),
    };
    let excluded = metrics.excluded.as_ref();
    let excluded = excluded.into_iter().flat_map(|excluded| {
        [(excluded.cancelled, "cancelled"), (excluded.ramp_requests, "in the ramp")]
    });
    let others = excluded.filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {} {what}", count(n)));
    let others: String = others.collect();
    format!(
        "{} answered, {} failed{missing}{unfinished}{others}{}, {}",
        counted(metrics.sample_count, "request", "requests"),
        count(lost),
        peak.unwrap_or_default(),
        duration(metrics.lasted_ns.cast_signed())
    )
}

#[cfg(test)]
mod tests {
    use dyno_results::summary::distributions::Percentile;

    use super::*;

    #[test]
    fn the_rate_of_a_single_second_has_only_its_mean() {
        let cells = |unit: &str, count: u64| {
            let all = [MetricDistribution {
                metric: "requests_per_s".into(),
                unit: unit.into(),
                count,
                mean: 9.5,
                std: Some(0.0),
                min: Some(7.0),
                max: Some(7.0),
                percentiles: vec![Percentile { percent: 50.0, value: 7.0 }],
            }];
            let mut frame = Frame::new("title", "remark");
            rows(&mut frame, &all, &[50.0], true);
            let text = frame.finish();
            let row = text.lines().find(|line| line.contains("requests/s")).unwrap();
            row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(cells("1/s", 1)[3..7], ["-", "-", "-", "-"]);
        assert!(!cells("1/s", 2).contains(&"-".to_owned()));
        assert!(
            !cells("tokens", 1).contains(&"-".to_owned()),
            "of other figures each value counts"
        );
    }
}
