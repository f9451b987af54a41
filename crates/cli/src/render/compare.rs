//! Text output of a comparison: a table for each test, and the conclusion.

use dyno_experiment::compare::metric::{self, percent};
use dyno_experiment::compare::{AccuracyRow, ComparisonReport, TestReport, verdict_name};
use dyno_loadgen::compare::{
    DataShortage, Doubt, Finding, LookPolicy, Metric, OmittedMetric, POWER, Row, Verdict,
};
use dyno_results::VERSION;
use dyno_results::summary::DISCLAIMER;
use dyno_results::units::{count, duration, rate};

use super::{Alignment, Color, Frame, painted};

/// Returns the report as text.
pub fn text(report: &ComparisonReport, is_colored: bool) -> String {
    let mut frame = Frame::new(&format!("dyno {VERSION}, comparison"), DISCLAIMER);
    let sides = [("baseline", &report.baseline), ("candidate", &report.candidate)];
    for ((side, runs), label) in sides.into_iter().zip(&report.labels) {
        frame.line(&format!("{side:9}  {label}: {}", folders(runs)), 11);
    }
    if report.systems[0] == report.systems[1] {
        frame.line(&format!("both       {}", report.systems[0]), 11);
    }
    for test in &report.tests {
        frame.rule();
        of_test(&mut frame, test, report.peer.is_some(), is_colored);
    }
    if let Some(peer) = &report.peer {
        frame.rule();
        for reason in &peer.reasons {
            frame.line(&format!("{}: {}", reason.metrics.join(", "), reason.text), 2);
        }
    }
    frame.rule();
    for remark in &report.remarks {
        frame.line(remark, 2);
    }
    frame.line(&confidence(report), 2);
    let verdict = report.verdict();
    let name = match verdict {
        Verdict::Better | Verdict::Worse if report.peer.is_some() => DIFFERENT,
        verdict => verdict_name(verdict),
    };
    frame.line(&painted(&name.to_uppercase(), color(verdict), is_colored), 0);
    frame.finish()
}

/// Finding and verdict on two load generators whose figures differ.
const DIFFERENT: &str = "different";

/// Lists the runs of a side, or the first and the last of many.
fn folders(runs: &[String]) -> String {
    match runs {
        [first, _, .., last] if runs.len() > FOLDERS_MOST => {
            format!("{first} to {last} ({} runs)", runs.len())
        }
        runs => runs.join(", "),
    }
}

/// Most runs of a side that are listed.
const FOLDERS_MOST: usize = 5;

/// Explains the intervals and findings of a report.
pub fn confidence(report: &ComparisonReport) -> String {
    let together = 100.0 * (1.0 - report.question.risk);
    let looks = match report.question.looks {
        LookPolicy::One => "",
        LookPolicy::Any => ", at any number of looks",
    };
    let margin = metric::share(report.question.margin);
    let threshold = match report.question.threshold {
        ..=0.0 => String::new(),
        share => format!("; changes up to {} are neither better nor worse", metric::share(share)),
    };
    format!(
        "All intervals hold together with {together:.0} % confidence{looks}. Equivalent: within \
         {margin}{threshold}."
    )
}

fn color(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Worse => Color::Bad,
        Verdict::Inconclusive => Color::Open,
        Verdict::Better | Verdict::Equivalent => Color::Good,
    }
}

fn of_test(frame: &mut Frame, test: &TestReport, has_peer: bool, is_colored: bool) {
    let [a, b] = test.runs;
    let mut runs = if [a, b] == SINGLE { String::new() } else { format!(", {a} and {b} runs") };
    if test.observations != test.runs {
        runs += &format!(" in slices: {} observations", test.observations[0]);
    }
    frame.line(&format!("{}{runs}", test.title), 0);
    let heads = ["", "baseline", "candidate", "change", "interval", "finding"];
    let mut rows = vec![heads.map(str::to_string).to_vec()];
    let styled = |cells, finding| colored(cells, finding, has_peer, is_colored);
    rows.extend(test.comparison.rows.iter().map(|row| styled(cells(row, test), row.finding)));
    rows.extend(test.accuracy.iter().map(|row| styled(accuracy_cells(row), row.finding)));
    rows.extend(test.output_tokens.iter().map(|row| row.cells().to_vec()));
    rows.extend(test.server.iter().map(|row| row.cells().to_vec()));
    let right = Alignment::Right;
    frame.table(&[Alignment::Left, right, right, right, right, Alignment::Left], &rows);
    for line in omissions(&test.comparison.omitted) {
        frame.line(&line, 2);
    }
    if !has_peer {
        frame.line(&sentence(test), 2);
    }
    for note in &test.notes {
        frame.line(note, 2);
    }
}

/// Returns the cells of a row, with its finding in color; two load generators only differ.
fn colored(
    mut cells: [String; 6],
    finding: Finding,
    has_peer: bool,
    is_colored: bool,
) -> Vec<String> {
    let color = match finding {
        Finding::Better => Some(Color::Good),
        Finding::Worse => Some(Color::Bad),
        _ => None,
    };
    if let (Some(color), Some(finding)) = (color, cells.last_mut()) {
        *finding = if has_peer { DIFFERENT.into() } else { painted(finding, color, is_colored) };
    }
    cells.to_vec()
}

/// One run on each side.
const SINGLE: [usize; 2] = [1, 1];

/// Returns a line for each reason that metrics are left out for.
pub fn omissions(omitted: &[OmittedMetric]) -> Vec<String> {
    let mut groups: Vec<Vec<&OmittedMetric>> = Vec::new();
    for one in omitted {
        match groups.iter_mut().find(|group| group[0].reason == one.reason) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let line = |group: &Vec<&OmittedMetric>| match &group[..] {
        [one] => left_out(one),
        several => {
            let titles = several.iter().map(|one| metric::title(one.metric));
            let titles = titles.collect::<Vec<_>>().join(", ");
            let DataShortage { values, needed } = several[0].reason;
            format!(
                "{titles} are left out: they need {} values in each run, but one run has {}",
                count(needed),
                count(values)
            )
        }
    };
    groups.iter().map(line).collect()
}

/// Returns that a metric is left out, and why.
fn left_out(omitted: &OmittedMetric) -> String {
    let (title, DataShortage { values, needed }) = (metric::title(omitted.metric), omitted.reason);
    let (needed, values) = (count(needed), count(values));
    format!("{title} is left out: it needs {needed} values in each run, but one run has {values}")
}

/// Returns the cells of a row.
pub fn cells(row: &Row, test: &TestReport) -> [String; 6] {
    let finding = if test.has_records { finding_name(row.finding) } else { "-" };
    [
        metric::name(row.metric),
        value(row.metric, row.baseline),
        value(row.metric, row.candidate),
        metric::change(row.metric, row.change.value),
        metric::interval(row),
        finding.into(),
    ]
}

/// Returns the cells of the accuracy.
pub fn accuracy_cells(row: &AccuracyRow) -> [String; 6] {
    let [name, baseline, candidate, change, interval] = row.cells();
    [name, baseline, candidate, change, interval, finding_name(row.finding).into()]
}

fn finding_name(finding: Finding) -> &'static str {
    match finding {
        Finding::Better => "better",
        Finding::Worse => "worse",
        Finding::Equivalent => "equivalent",
        Finding::Inconclusive(_) => "inconclusive",
    }
}

/// Formats a value of a metric with its unit.
fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Percentile(..) | Metric::Mean(_) => duration(value.round() as i64),
        Metric::Throughput => format!("{}/s", rate(value)),
        Metric::Failures => format!("{:.2} %", 100.0 * value),
    }
}

/// Returns the conclusion of one test.
pub fn sentence(test: &TestReport) -> String {
    let verdict = verdict_name(test.comparison.verdict);
    let rows = &test.comparison.rows;
    if !test.has_records {
        return format!(
            "{verdict}: one side has no raw records, without which a change cannot be \
             distinguished from chance"
        );
    }
    if let (Some(doubt), Verdict::Inconclusive) = (&test.accuracy_doubt, test.comparison.verdict) {
        return format!("{verdict}: {doubt}");
    }
    let differing = |finding: Finding| -> String {
        let accuracy = test.accuracy.iter().filter(|row| row.finding == finding);
        let accuracy = accuracy.map(|row| format!("{} {}", row.title(), row.change_text()));
        let rows = rows.iter().filter(|row| row.finding == finding);
        let changes = rows.map(|row| {
            format!(
                "{} {}",
                metric::title(row.metric),
                metric::change(row.metric, row.change.value)
            )
        });
        accuracy.chain(changes).collect::<Vec<_>>().join(", ")
    };
    let (worse, better) = (differing(Finding::Worse), differing(Finding::Better));
    let of_headline = rows.iter().find(|row| row.metric == test.headline);
    let of_headline = of_headline.map_or_else(
        || {
            format!(
                "too few queries for {}, which determines the verdict",
                metric::title(test.headline)
            )
        },
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
    let doubt = match row.finding {
        Finding::Inconclusive(doubt) => doubt,
        Finding::Equivalent if row.change.low == 0.0 && row.change.high == 0.0 => {
            return format!("{title} is the same in every run");
        }
        _ => return format!("{title} changes by {}", metric::interval(row)),
    };
    match (doubt, row.drift) {
        (Doubt::Conditions, _) => format!("these runs do not decide {title}"),
        (Doubt::Drift, Some(drift)) => {
            let (step, explains) = (percent(drift.per_run), percent(drift.explains));
            format!(
                "{title} drifted by {step} from run to run, which could explain {explains} of the \
                 difference"
            )
        }
        (Doubt::TooFew, _) if test.runs == SINGLE => format!(
            "queries are so correlated that too few independent ones exceed {title}; use longer \
             runs, or several (--interleave 5)"
        ),
        (Doubt::TooFew | Doubt::Drift, _) => {
            format!("too few runs to distinguish the change of {title} from chance; add runs")
        }
        (Doubt::Wide, _) => {
            let power = 100.0 * POWER;
            let change = metric::change(row.metric, row.detectable);
            format!(
                "the interval of {title} is too wide; {power:.0} of 100 such comparisons detect a \
                 change by {change}; add runs (--until-decided 5m)"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::compare::Series;

    use super::*;

    #[test]
    fn metrics_that_are_left_out_for_one_reason_share_a_line() {
        let omitted = |quantile: f64, needed: u64| OmittedMetric {
            metric: Metric::Percentile(Series::Latency, quantile),
            reason: DataShortage { values: 40, needed },
        };
        let lines = omissions(&[omitted(0.99, 500), omitted(0.5, 100), omitted(0.9, 100)]);
        let expected = [
            "p99 latency is left out: it needs 500 values in each run, but one run has 40",
            "p50 latency, p90 latency are left out: they need 100 values in each run, but one run \
             has 40",
        ];
        assert_eq!(lines, expected);
    }
}
