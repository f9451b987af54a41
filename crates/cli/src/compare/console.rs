//! A comparison on a terminal: a table a test, and what follows.

use dyno_loadgen::compare::{Finding, Interval, Metric, POWER, Row, Verdict};

use super::{Report, TestReport, metric, verdict_name};
use crate::environment::VERSION;
use crate::render::{Alignment, Color, Frame, duration, painted, rate};
use crate::summary::DISCLAIMER;

/// The whole of it.
pub fn text(report: &Report, is_colored: bool) -> String {
    let mut frame = Frame::new(&format!("dyno {VERSION}, comparison"), DISCLAIMER);
    let sides = [("baseline", &report.baseline), ("candidate", &report.candidate)];
    for ((side, runs), system) in sides.into_iter().zip(&report.systems) {
        frame.line(&format!("{side:9}  {system}: {}", runs.join(", ")), 11);
    }
    for test in &report.tests {
        frame.rule();
        of_test(&mut frame, test, report.question.threshold, is_colored);
    }
    frame.rule();
    for remark in &report.remarks {
        frame.line(remark, 2);
    }
    let together = 100.0 * (1.0 - report.question.risk);
    frame.line(&format!("All intervals hold together with {together:.0} % confidence."), 2);
    let verdict = report.verdict();
    frame.line(&painted(&verdict_name(verdict).to_uppercase(), color(verdict), is_colored), 0);
    frame.finish()
}

fn color(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Worse | Verdict::CannotTell => Color::Bad,
        Verdict::Better | Verdict::NoDifference => Color::Good,
    }
}

fn of_test(frame: &mut Frame, test: &TestReport, threshold: f64, is_colored: bool) {
    let [a, b] = test.runs;
    let runs = if [a, b] == [1, 1] { String::new() } else { format!(", {a} and {b} runs") };
    frame.line(&format!("{}{runs}", test.title), 0);
    let heads = ["", "baseline", "candidate", "change", "interval", "finding"];
    let mut rows = vec![heads.map(str::to_string).to_vec()];
    rows.extend(test.comparison.rows.iter().map(|row| cells(row, threshold, is_colored)));
    if !test.has_records {
        rows.iter_mut()
            .skip(1)
            .filter_map(|row| row.last_mut())
            .for_each(|cell| *cell = "-".into());
    }
    let right = Alignment::Right;
    frame.table(&[Alignment::Left, right, right, right, right, Alignment::Left], &rows);
    for omitted in &test.comparison.omitted {
        frame.line(&format!("{} is left out: {}", metric::title(omitted.metric), why(omitted)), 2);
    }
    frame.line(&sentence(test), 2);
    for note in &test.notes {
        frame.line(note, 2);
    }
}

fn why(omitted: &dyno_loadgen::compare::Omitted) -> String {
    let reason = omitted.reason;
    format!("it takes {} values in each run, and one has {}", reason.needed, reason.values)
}

fn cells(row: &Row, threshold: f64, is_colored: bool) -> Vec<String> {
    let finding = finding(row.finding, threshold);
    let finding = match row.finding {
        Finding::Better => painted(&finding, Color::Good, is_colored),
        Finding::Worse => painted(&finding, Color::Bad, is_colored),
        _ => finding,
    };
    let change = row.change;
    let interval = match is_open(&change) {
        true => "unknown".into(),
        false => format!("{} to {}", percent(change.low), percent(change.high)),
    };
    vec![
        metric::name(row.metric),
        value(row.metric, row.baseline),
        value(row.metric, row.candidate),
        percent(change.value),
        interval,
        finding,
    ]
}

/// Whether nothing is known on either side.
fn is_open(change: &Interval) -> bool {
    change.low <= -1.0 && change.high == f64::INFINITY
}

/// A value of a metric with its unit.
pub fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Percentile(..) | Metric::Mean(_) => duration(value.round() as i64),
        Metric::Throughput => format!("{}/s", rate(value)),
        Metric::Failures => format!("{:.2} %", 100.0 * value),
    }
}

/// A change in percent; a factor where it is large.
pub fn percent(change: f64) -> String {
    let percent = 100.0 * change;
    // No change has no sign.
    let percent = if percent.abs() < 0.005 { 0.0 } else { percent };
    match percent.abs() {
        _ if change == f64::INFINITY => "any".into(),
        _ if change <= -1.0 => "any".into(),
        // More than that is no knowledge.
        100_000.0.. => "any".into(),
        1_000.0.. => format!("x{:.0}", 1.0 + change),
        99.95.. => format!("{percent:+.0} %"),
        9.995.. => format!("{percent:+.1} %"),
        0.0 => "0 %".into(),
        _ => format!("{percent:+.2} %"),
    }
}

/// In words.
pub fn finding(finding: Finding, threshold: f64) -> String {
    let threshold = 100.0 * threshold;
    match finding {
        Finding::Better => "better".into(),
        Finding::Worse => "worse".into(),
        Finding::NoDifference => "no difference".into(),
        Finding::WithinThreshold => format!("within {threshold} %"),
        Finding::AroundThreshold => format!("around {threshold} %"),
        Finding::TooFew => "too few queries".into(),
        Finding::Drift => "drift".into(),
    }
}

/// What follows for one test.
pub fn sentence(test: &TestReport) -> String {
    let verdict = verdict_name(test.comparison.verdict);
    let rows = &test.comparison.rows;
    if !test.has_records {
        return format!(
            "{verdict}: a side has figures only, and without raw records a change is not told from \
             chance"
        );
    }
    let differing = |of: Finding| -> String {
        let rows = rows.iter().filter(|row| row.finding == of);
        let said: Vec<String> = rows
            .map(|row| format!("{} {}", metric::title(row.metric), percent(row.change.value)))
            .collect();
        said.join(", ")
    };
    let (worse, better) = (differing(Finding::Worse), differing(Finding::Better));
    let of_headline = rows.iter().find(|row| row.metric == test.headline);
    let of_headline = of_headline.map_or_else(
        || format!("too few queries for {}, which decides", metric::title(test.headline)),
        headline_sentence,
    );
    match (worse.is_empty(), better.is_empty()) {
        (false, true) => format!("{verdict}: {worse}"),
        (false, false) => format!("{verdict}: {worse}; but better: {better}"),
        (true, false) if test.comparison.verdict == Verdict::Better => {
            format!("{verdict}: {better}")
        }
        (true, false) => format!("{verdict}: {of_headline}; better: {better}"),
        (true, true) => format!("{verdict}: {of_headline}"),
    }
}

fn headline_sentence(row: &Row) -> String {
    let title = metric::title(row.metric);
    if row.finding == Finding::AroundThreshold {
        return format!("{title} differs, but perhaps by less than the threshold");
    }
    let drift = row.drift.filter(|_| row.finding == Finding::Drift);
    if let Some(drift) = drift {
        let (step, explains) = (percent(drift.per_run), percent(drift.explains));
        return format!(
            "{title} drifted by {step} from run to run, which could make {explains} of the difference"
        );
    }
    if row.finding == Finding::TooFew {
        return format!(
            "queries so alike that too few independent ones lie beyond {title}; longer runs, or \
             several (--interleave 5), can tell"
        );
    }
    if row.detectable == 0.0 {
        return format!("{title} is the same in every run");
    }
    let power = 100.0 * POWER;
    let change = percent(row.detectable);
    format!("a change of {title} by {change} would have shown in {power:.0} of 100 comparisons")
}
