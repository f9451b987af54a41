//! A comparison on a terminal: a table a test, and what follows.

use dyno_loadgen::compare::{Finding, Metric, Omitted, POWER, Row, TooFew, Verdict};

use super::metric::{self, percent};
use super::{Report, TestReport, verdict_name};
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
    let runs = if [a, b] == SINGLE { String::new() } else { format!(", {a} and {b} runs") };
    frame.line(&format!("{}{runs}", test.title), 0);
    let heads = ["", "baseline", "candidate", "change", "interval", "finding"];
    let mut rows = vec![heads.map(str::to_string).to_vec()];
    rows.extend(test.comparison.rows.iter().map(|row| {
        let mut cells = cells(row, test, threshold);
        let color = match row.finding {
            Finding::Better => Some(Color::Good),
            Finding::Worse => Some(Color::Bad),
            _ => None,
        };
        if let (Some(color), Some(finding)) = (color, cells.last_mut()) {
            *finding = painted(finding, color, is_colored);
        }
        cells.to_vec()
    }));
    let right = Alignment::Right;
    frame.table(&[Alignment::Left, right, right, right, right, Alignment::Left], &rows);
    for omitted in &test.comparison.omitted {
        frame.line(&left_out(omitted), 2);
    }
    frame.line(&sentence(test), 2);
    for note in &test.notes {
        frame.line(note, 2);
    }
}

/// One run a side.
const SINGLE: [usize; 2] = [1, 1];

/// That a metric is, and why.
pub fn left_out(omitted: &Omitted) -> String {
    let (title, TooFew { values, needed }) = (metric::title(omitted.metric), omitted.reason);
    format!("{title} is left out: it takes {needed} values in each run, and one has {values}")
}

/// A row as it is shown; without raw records nothing follows from it.
pub fn cells(row: &Row, test: &TestReport, threshold: f64) -> [String; 6] {
    let finding = match row.finding {
        _ if !test.has_records => "-".into(),
        Finding::TooFew if test.runs != SINGLE => "too few runs".into(),
        finding => self::finding(finding, threshold),
    };
    [
        metric::name(row.metric),
        value(row.metric, row.baseline),
        value(row.metric, row.candidate),
        metric::change(row.metric, row.change.value),
        metric::interval(row),
        finding,
    ]
}

/// A value of a metric with its unit.
fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Percentile(..) | Metric::Mean(_) => duration(value.round() as i64),
        Metric::Throughput => format!("{}/s", rate(value)),
        Metric::Failures => format!("{:.2} %", 100.0 * value),
    }
}

/// In words.
fn finding(finding: Finding, threshold: f64) -> String {
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
            .map(|row| {
                format!(
                    "{} {}",
                    metric::title(row.metric),
                    metric::change(row.metric, row.change.value)
                )
            })
            .collect();
        said.join(", ")
    };
    let (worse, better) = (differing(Finding::Worse), differing(Finding::Better));
    let of_headline = rows.iter().find(|row| row.metric == test.headline);
    let of_headline = of_headline.map_or_else(
        || format!("too few queries for {}, which decides", metric::title(test.headline)),
        |row| headline_sentence(row, test),
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

fn headline_sentence(row: &Row, test: &TestReport) -> String {
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
    if row.finding == Finding::TooFew && test.runs != SINGLE {
        return format!("too few runs to tell the change of {title} from chance; more of them can");
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
    let change = metric::change(row.metric, row.detectable);
    format!("a change of {title} by {change} would have shown in {power:.0} of 100 comparisons")
}
