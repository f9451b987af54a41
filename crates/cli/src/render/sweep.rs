//! Results of a sweep, for terminals and as CSV.

use std::fmt::Write as _;

use dyno_experiment::sweep::bounded::{BoundedRow, BoundedSweep};
use dyno_results::export::quoted;
use dyno_results::summary::{DISCLAIMER, RequirementFinding};
use dyno_results::sweep::{LoadCurve, Point, PointResult, PointState, Row, Sweep, rows};
use dyno_results::{VERSION, units};

use super::{Alignment, Color, Frame, painted};

/// Name of the CSV file.
pub const CSV_FILE: &str = "sweep.csv";

/// Most rows on a terminal.
const MOST_ROWS: usize = 40;

/// Columns of a name.
const NAME_COLUMNS: usize = 28;

/// Most messages of failed points that are shown.
const MOST_MESSAGES: usize = 5;

/// Counts points by state, such as `24 points: 20 done, 4 pending`.
pub fn states(sweep: &Sweep) -> String {
    let all = [
        PointState::Done,
        PointState::Undecided,
        PointState::Invalid,
        PointState::Failed,
        PointState::Skipped,
        PointState::Pending,
    ];
    let count = |state| sweep.points.iter().filter(|point| point.state == state).count();
    let parts = all.map(|state| (count(state), state.name()));
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, name)| format!("{count} {name}")).collect();
    let points = units::counted(sweep.points.len() as u64, "point", "points");
    format!("{points}: {}", parts.join(", "))
}

/// Returns the title of the box. The default names are `sweep` and `sweep-SYSTEM`.
fn title(name: &str) -> String {
    match name.strip_prefix("sweep-").unwrap_or(name) {
        "sweep" => format!("dyno {VERSION} sweep"),
        name => format!("dyno {VERSION} sweep, {name}"),
    }
}

/// Returns the table for terminals.
pub fn console(sweep: &Sweep, bounded: Option<&BoundedSweep>, is_colored: bool) -> String {
    let mut frame = Frame::new(&title(&sweep.name), DISCLAIMER);
    let (rows, curve) = (rows(sweep), LoadCurve::from_sweep(sweep));
    match curve.as_ref().filter(|curve| curve.has_tokens()) {
        Some(curve) => load_table(&mut frame, curve, is_colored),
        None => figures(&mut frame, &rows, sweep.definition.repeat > 1, is_colored),
    }
    frame.rule();
    if let Some(curve) = &curve {
        load_lines(&mut frame, curve);
    }
    let measured = rows.iter().filter(|row| row.is_valid() && row.throughput.is_some());
    let mut scenarios: Vec<(&str, Option<&str>)> = Vec::new();
    for row in measured {
        let scenario = (row.scenario.as_str(), row.tenant.as_deref());
        if !scenarios.contains(&scenario) {
            scenarios.push(scenario);
        }
    }
    for scenario in scenarios {
        best(&mut frame, &rows, scenario, bounded);
    }
    let shows_best = !curve.is_some_and(|curve| curve.has_tokens());
    if shows_best && rows.iter().any(|row| row.is_best) {
        frame.line("* no other valid point of its scenario is better in every column", 2);
    }
    frame.line(&states(sweep), 2);
    let failed = sweep.points.iter().filter(|point| point.state == PointState::Failed);
    for point in failed.take(MOST_MESSAGES) {
        let message = point.message.as_deref().unwrap_or("failed");
        frame.line(&format!("{} {}: {message}", point.number, point.name), 2);
    }
    frame.finish()
}

fn figures(frame: &mut Frame, rows: &[Row], has_repeats: bool, is_colored: bool) {
    let is_scored = rows.iter().any(|row| row.accuracy.is_some());
    let mut head = vec!["", "", "scenario", "samples/s"];
    let mut alignments = vec![Alignment::Left, Alignment::Left, Alignment::Left, Alignment::Right];
    for (is_there, name) in
        [(has_repeats, "+-"), (true, "p50"), (true, "p99"), (is_scored, "accuracy")]
    {
        if is_there {
            head.push(name);
            alignments.push(Alignment::Right);
        }
    }
    head.push("verdict");
    alignments.push(Alignment::Left);
    let mut lines: Vec<Vec<String>> = vec![head.iter().map(ToString::to_string).collect()];
    for row in rows.iter().take(MOST_ROWS) {
        let time = |ns: Option<f64>| ns.map_or("-".into(), |ns| units::duration(ns as i64));
        let mut cells = vec![
            if row.is_best { "*" } else { "" }.to_string(),
            shortened(&row.name),
            match &row.tenant {
                Some(tenant) => format!("{} {tenant}", row.scenario),
                None => row.scenario.clone(),
            },
            row.throughput.map_or("-".into(), units::rate),
        ];
        if has_repeats {
            cells.push(spread(row));
        }
        cells.extend([time(row.p50_ns), time(row.p99_ns)]);
        if is_scored {
            cells.push(row.accuracy.map_or("-".into(), |a| format!("{:.2} %", a * 100.0)));
        }
        let color = Color::of_verdict(&row.verdict);
        cells.push(painted(&row.verdict, color, is_colored));
        lines.push(cells);
    }
    frame.table(&alignments, &lines);
    if let Some(more @ 1..) = rows.len().checked_sub(MOST_ROWS) {
        frame.line(&format!("and {more} more rows in {CSV_FILE}"), 2);
    }
}

/// Adds the loads of a server of texts, a row each.
fn load_table(frame: &mut Frame, curve: &LoadCurve, is_colored: bool) {
    let head =
        [curve.kind.name(), "req/s", "tok/s", "TTFT p50", "p99", "TPOT p50", "p99", "verdict"];
    let mut lines = vec![head.map(str::to_string).to_vec()];
    let knee = curve.knee().ok();
    for (at, (load, row)) in curve.loads.iter().enumerate() {
        let time = |ns: Option<f64>| ns.map_or("-".into(), |ns| units::duration(ns as i64));
        let rate = |rate: Option<f64>| rate.map_or("-".into(), units::rate);
        let mark = if knee == Some(at) { " knee" } else { "" };
        let client = if row.is_limited_by_client { " (client)" } else { "" };
        lines.push(vec![
            format!("{load}{mark}"),
            rate(row.throughput),
            rate(row.output_tokens_per_s),
            time(row.first_token_p50_ns),
            time(row.first_token_p99_ns),
            time(row.time_per_output_token_p50_ns),
            time(row.time_per_output_token_p99_ns),
            painted(&row.verdict, Color::of_verdict(&row.verdict), is_colored) + client,
        ]);
    }
    use Alignment::{Left, Right};
    frame.table(&[Left, Right, Right, Right, Right, Right, Right, Left], &lines);
}

/// Adds the knee of a load curve, or why there is none, and what loads do not count.
fn load_lines(frame: &mut Frame, curve: &LoadCurve) {
    let (kind, loads) = (curve.kind.name(), &curve.loads);
    let text = match curve.knee() {
        Ok(at) => format!(
            "Knee: {kind} {}, the highest throughput divided by median latency",
            loads[at].0
        ),
        Err(why) => format!("No knee: {why}"),
    };
    frame.line(&text, 2);
    let list = |is_wanted: &dyn Fn(&Row) -> bool| {
        let wanted = loads.iter().filter(|(_, row)| is_wanted(row));
        wanted.map(|(load, _)| load.to_string()).collect::<Vec<_>>().join(", ")
    };
    let counted = list(&|row| row.is_of_curve() && !row.is_valid());
    if !counted.is_empty() {
        let text = format!(
            "{kind} {counted} count for the knee: only bounds or requirements are missed or \
             undecided there"
        );
        frame.line(&text, 2);
    }
    let left_out =
        list(&|row| row.throughput.is_some() && !row.is_of_curve() && !row.is_limited_by_client);
    if !left_out.is_empty() {
        let text = format!(
            "{kind} {left_out} do not count for the knee: answers failed, or the run was too short"
        );
        frame.line(&text, 2);
    }
    let which = list(&|row| row.is_limited_by_client);
    if !which.is_empty() {
        frame.line(
            &format!(
                "The client limited {kind} {which}; these figures do not describe the \
             server"
            ),
            2,
        );
    }
    let is_skipped = |(_, row): &&(f64, Row)| row.verdict == "SKIPPED";
    if let Some((load, _)) = loads.iter().find(is_skipped) {
        let text = format!(
            "{kind} {load} and above are skipped: two loads in a row had less than 5 % more \
             throughput and higher latency"
        );
        frame.line(&text, 2);
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_COLUMNS {
        return name.to_string();
    }
    name.chars().take(NAME_COLUMNS - 1).chain(['…']).collect()
}

/// Returns half the range of the repeats in percent of the median.
fn spread(row: &Row) -> String {
    match (row.throughput_range, row.throughput) {
        (Some((least, most)), Some(median)) if median > 0.0 => {
            format!("{:.1} %", (most - least) / 2.0 / median * 100.0)
        }
        _ => "-".into(),
    }
}

fn best(
    frame: &mut Frame,
    rows: &[Row],
    (scenario, tenant): (&str, Option<&str>),
    bounded: Option<&BoundedSweep>,
) {
    let is_of =
        |row: &&Row| row.is_valid() && row.scenario == scenario && row.tenant.as_deref() == tenant;
    let scenario_rows: Vec<&Row> = rows.iter().filter(is_of).collect();
    let throughput = |row: &&&Row| row.throughput.unwrap_or(0.0);
    let title = tenant.map_or(scenario.to_string(), |tenant| format!("{scenario} of {tenant}"));
    let mut say = |what: &str, row: Option<&&Row>| {
        let found = row.map_or("no valid point".into(), |row| {
            let rate = row.throughput.map_or("-".into(), units::rate);
            let p99 = row.p99_ns.map_or("-".into(), |ns| units::duration(ns as i64));
            format!("{} ({rate} samples/s, p99 {p99})", row.name)
        });
        frame.line(&format!("{title}, {what}: {found}"), 2);
    };
    let by_rate = |a: &&&Row, b: &&&Row| throughput(a).total_cmp(&throughput(b));
    // `max_by` returns the last one of equal points, and the first one is named.
    say("highest throughput", scenario_rows.iter().rev().max_by(by_rate));
    let timed = scenario_rows.iter().filter(|row| row.p99_ns.is_some());
    say(
        "lowest p99",
        timed.clone().min_by(|a, b| a.p99_ns.partial_cmp(&b.p99_ns).expect("no NaN")),
    );
    let Some(bounded) = bounded else { return };
    let what = format!("highest throughput with p99 below {}", units::bound(bounded.bound));
    let found = |row: &&&Row| bounded.entry(row).map(|found| found.finding);
    let is_met = |row: &&&Row| found(row) == Some(RequirementFinding::Met);
    let met = timed.filter(is_met).rev().max_by(by_rate);
    let is_open = |row: &&&Row| found(row) == Some(RequirementFinding::Undecided);
    let open = scenario_rows.iter().filter(is_open).rev().max_by(by_rate);
    if met.is_some() || open.is_none() {
        say(&what, met);
    }
    // A point that is not known to miss the bound may be faster than the one that keeps it.
    let faster = open.filter(|open| met.is_none_or(|met| throughput(open) > throughput(&met)));
    if let Some(open) = faster.and_then(|row| bounded.entry(row)) {
        frame.line(&format!("{title}, {what}: undecided: {}", advice(open)), 2);
    }
}

/// Returns what decides whether a point keeps a bound.
fn advice(open: &BoundedRow) -> String {
    let BoundedRow { name, .. } = open;
    match open.more_queries {
        Some(more) => {
            format!("about {} decide {name}", units::counted(more, "more query", "more queries"))
        }
        None if open.scenario == "Offline" => {
            format!("latencies of {name} grow with its number of samples")
        }
        None => format!("more queries do not decide {name}, or its records are missing"),
    }
}

/// Returns the CSV table: a row for each point and scenario, times in ns. Follows RFC 4180, like
/// `dyno export`.
pub fn csv(sweep: &Sweep) -> String {
    let mut text = String::from("number,repeat,name,state");
    for axis in &sweep.definition.axes {
        // The prefix separates an axis `scenario` from the scenario of a run.
        let _ = write!(text, ",{}", quoted(&format!("axis.{}", axis.key)));
    }
    text += ",scenario,tenant,verdict,result,result_unit,samples_per_s,p50_ns,p90_ns,p99_ns,\
             output_tokens_per_s,first_token_p50_ns,first_token_p99_ns,\
             time_per_output_token_p50_ns,time_per_output_token_p99_ns,accuracy,operations,took_ns,folder,\
             message\r\n";
    for point in &sweep.points {
        let none = [PointResult::default()];
        let results = if point.results.is_empty() { &none } else { &point.results[..] };
        for result in results {
            csv_row(&mut text, sweep, point, result);
        }
    }
    text
}

fn csv_row(text: &mut String, sweep: &Sweep, point: &Point, result: &PointResult) {
    fn shown<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let mut cells = vec![
        point.number.to_string(),
        point.repeat.to_string(),
        point.name.clone(),
        point.state.name().to_string(),
    ];
    let value = |key: &String| point.assignments.get(key).cloned().unwrap_or_default();
    cells.extend(sweep.definition.axes.iter().map(|axis| value(&axis.key)));
    let headline = result.headline.as_ref();
    cells.extend([
        result.scenario.clone(),
        shown(result.tenant.as_ref()),
        result.verdict.clone(),
        shown(headline.and_then(|headline| headline.value)),
        shown(headline.map(|headline| &headline.unit)),
        shown(result.throughput),
        shown(result.p50_ns),
        shown(result.p90_ns),
        shown(result.p99_ns),
        shown(result.output_tokens_per_s),
        shown(result.first_token_p50_ns),
        shown(result.first_token_p99_ns),
        shown(result.time_per_output_token_p50_ns),
        shown(result.time_per_output_token_p99_ns),
        shown(result.accuracy),
        shown(point.operations),
        shown(point.took_ns),
        point.folder.clone(),
        shown(point.message.as_ref()),
    ]);
    let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
    *text += &cells.join(",");
    *text += "\r\n";
}
