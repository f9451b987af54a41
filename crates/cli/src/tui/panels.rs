//! The panels: numbers, conditions, charts, and the list of tests.

use dyno_experiment::goals::EndCondition;
use dyno_results::summary::Verdict;
use dyno_results::units;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::charts;
use super::draw::Look;

use crate::live::Live;

/// Formats a time.
pub fn time(ns: u64) -> String {
    units::duration(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// Returns the progress of the test and its remaining time.
pub fn how_far(live: &Live) -> String {
    let (seen, goals) = (&live.seen, &live.goals);
    let now = format!("{:.1}", seen.last.now as f64 / 1e9);
    let kind = if goals.is_virtual { " virtual" } else { "" };
    let mut text = match goals.until {
        // The time is over, but not the queries.
        EndCondition::Least { duration, queries }
            if seen.last.now < duration
                || (duration > 0 && seen.last.issued_queries >= queries) =>
        {
            format!("{now} of {:.0} s{kind}", duration as f64 / 1e9)
        }
        EndCondition::Samples(samples) => format!(
            "{} of {} samples, {now} s{kind}",
            units::count(seen.last.completed_samples),
            units::count(samples)
        ),
        EndCondition::Least { queries, .. } => format!(
            "{} of {} queries, {now} s{kind}",
            units::count(seen.last.issued_queries),
            units::count(queries)
        ),
        EndCondition::Unknown => format!("{now} s{kind}"),
    };
    match (seen.fraction(goals), seen.time_left(goals)) {
        (Some(fraction), _) if fraction >= 1.0 => text += ", finishing",
        (_, Some(left)) if seen.last.now > 0 && !goals.is_virtual => {
            text += &format!(", {:.0} s left", left as f64 / 1e9);
        }
        _ => {}
    }
    text
}

fn rows(frame: &mut Frame<'_>, look: Look, area: Rect, title: &str, rows: Vec<Line<'_>>) {
    frame.render_widget(Paragraph::new(rows).block(look.block(title)), area);
}

/// Draws the current numbers.
pub fn now(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let (seen, goals) = (&live.seen, &live.goals);
    let row = |name: &str, value: String| {
        Line::from(vec![Span::styled(format!(" {name:<10} "), look.dim()), Span::raw(value)])
    };
    let percentiles = |counts: &dyno_results::series::Counts, quantiles: &[f64]| {
        let one =
            |q: &f64| Some(format!("{} {}", units::percentile(*q), time(counts.quantile(*q)?)));
        quantiles
            .iter()
            .map(one)
            .collect::<Option<Vec<_>>>()
            .map_or("-".into(), |all| all.join("  "))
    };
    let rate = match seen.rate(goals) {
        Some(rate) => format!("{} {}/s", units::rate(rate), goals.unit),
        None => "-".into(),
    };
    let failed = match seen.last.failed_samples {
        0 => String::new(),
        failed => format!(", {} failed", units::count(failed)),
    };
    let mut lines = vec![
        row("rate", rate),
        row("in flight", format!("{}{failed}", units::count(seen.last.in_flight()))),
        row("latency", percentiles(&seen.latency, &[0.5, 0.99])),
    ];
    if !live.servers.is_empty() {
        lines.push(row("server", live.servers.clone()));
    }
    if seen.first_token.quantile(0.5).is_some() {
        lines.push(row("first token", percentiles(&seen.first_token, &[0.5, 0.99])));
    }
    if seen.client_lag.quantile(0.5).is_some() {
        lines.push(row("client lag", percentiles(&seen.client_lag, &[0.5, 0.99])));
    }
    rows(frame, look, area, "So far", lines);
}

/// Draws the conditions of the verdict and their current state.
pub fn conditions(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let (seen, goals) = (&live.seen, &live.goals);
    let row = |state: Option<bool>, name: &str, value: String| {
        let (mark, style) = match state {
            Some(true) => ("✓", look.in_color(Color::Green)),
            Some(false) => ("✗", look.in_color(Color::Red)),
            None => ("·", Style::new()),
        };
        let name = Span::styled(format!("{name:<12} "), look.dim());
        Line::from(vec![Span::styled(format!(" {mark} "), style), name, Span::raw(value)])
    };
    // A condition that is not met yet is not a failure.
    let reached = |so_far: u64, goal: u64| (so_far >= goal).then_some(true);
    let mut lines = Vec::new();
    match goals.until {
        EndCondition::Least { duration, queries } => {
            let (now, issued) = (seen.last.now, seen.last.issued_queries);
            let goal = format!("{} (>= {})", time(now), time(duration));
            lines.push(row(reached(now, duration), "duration", goal));
            let goal = format!("{} (>= {})", units::count(issued), units::count(queries));
            lines.push(row(reached(issued, queries), "queries", goal));
        }
        EndCondition::Samples(samples) => {
            let done = seen.last.completed_samples;
            let goal = format!("{} of {}", units::count(done), units::count(samples));
            lines.push(row(reached(done, samples), "samples", goal));
        }
        EndCondition::Unknown => {}
    }
    if let (Some(bound), Some(share)) = (goals.bound(0), seen.share_over()) {
        let allowed = 1.0 - goals.percentile;
        let name = match (bound.of_first_token, goals.bounds.len()) {
            (true, _) => "over TTFT".into(),
            (false, 1) => format!("over {}", time(bound.limit)),
            // Each tenant's queries have their own bound.
            (false, _) => "over bounds".into(),
        };
        let goal = format!("{:.2} %, {:.2} % allowed", share * 100.0, allowed * 100.0);
        lines.push(row(Some(share <= allowed), &name, goal));
    }
    if let (Some(most), Some(lag)) =
        (goals.max_client_lag, seen.client_lag.quantile(goals.percentile))
    {
        let goal =
            format!("{} {} of {}", units::percentile(goals.percentile), time(lag), time(most));
        lines.push(row(Some(lag <= most), "client lag", goal));
    }
    if seen.last.failed_samples > 0 {
        let failed = units::counted(seen.last.failed_samples, "sample", "samples");
        lines.push(row(Some(false), "failed", failed));
    }
    rows(frame, look, area, "Conditions", lines);
}

/// Draws the histogram of latencies on a log axis.
pub fn latencies(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let block = look.block("Latency, share of queries");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let bound = live.goals.bound(0).filter(|bound| !bound.of_first_token);
    let histogram = live.seen.latency.histogram();
    charts::histogram(frame.buffer_mut(), inner, &histogram, bound.map(|b| b.limit), look);
}

/// Draws throughput over time.
pub fn rates(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let (seen, goals) = (&live.seen, &live.goals);
    let per = goals.samples_per_query.max(1) as f64;
    let values = seen.time_line.rates(usize::from(area.width.saturating_sub(2)), seen.last.now);
    let values: Vec<f64> = values.into_iter().map(|rate| rate / per).collect();
    let top = values.iter().copied().fold(0.0, f64::max);
    let title = format!("{}/s, top {}", goals.unit, units::rate(top));
    over_time(frame, live, look, (area, &title), &values);
}

/// Draws the p99 of latency over time.
pub fn tail(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let values = live.seen.time_line.latencies(usize::from(area.width.saturating_sub(2)), 0.99);
    let top = values.iter().copied().fold(0.0, f64::max);
    let title = format!("p99 latency, top {}", time(top as u64));
    over_time(frame, live, look, (area, &title), &values);
}

fn over_time(
    frame: &mut Frame<'_>,
    live: &Live,
    look: Look,
    (area, title): (Rect, &str),
    values: &[f64],
) {
    let block = look.block(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    charts::over_time(frame.buffer_mut(), inner, values, live.seen.time_line.length(), look);
}

/// Draws the tests and their results.
pub fn tests(frame: &mut Frame<'_>, live: &Live, look: Look, area: Rect) {
    let room = usize::from(area.height.saturating_sub(2)).max(1);
    let done = live.tests.iter().filter(|test| test.result.is_some()).count();
    // Show the current test and as many before it as fit.
    let from = (done + 1).saturating_sub(room).min(live.tests.len().saturating_sub(room));
    let line = |(at, test): (usize, &crate::live::TestEntry)| match &test.result {
        Some(result) => {
            let color = match result.verdict {
                Verdict::Valid => Color::Green,
                Verdict::Undecided => Color::Yellow,
                Verdict::Invalid | Verdict::Interrupted | Verdict::Aborted => Color::Red,
            };
            Line::from(vec![
                Span::raw(format!(" {:<28} {:<22} ", test.title, result.text)),
                Span::styled(result.verdict.name(), look.in_color(color)),
            ])
        }
        None if at == done => Line::raw(format!(" {:<28} running", test.title)),
        None => Line::styled(format!(" {}", test.title), look.dim()),
    };
    let lines = live.tests.iter().enumerate().skip(from).take(room).map(line).collect();
    rows(frame, look, area, &format!("Tests, {done} of {} done", live.tests.len()), lines);
}
