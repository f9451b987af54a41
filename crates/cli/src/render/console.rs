//! The summary of a run as a box.

use dyno_loadgen::settings::Scenario;
use dyno_net::workload::WORDS_REMARK;
use dyno_results::summary::metrics::Distribution;
use dyno_results::summary::{self, DISCLAIMER, Headline, Run};
use dyno_results::units::{self, count, duration, shortened};

use super::{Alignment, Color, Frame, details, distributions, painted};

/// Most columns of a system's name in the title.
const SYSTEM_COLUMNS: usize = 15;

/// Returns the summary of a run for terminals and issues: figures, loads, verdict with reasons,
/// machine, and the command that reproduces it, in 80 columns. Notes that hold for most runs are only
/// shown if `is_verbose`.
pub fn summary(run: &Run, is_verbose: bool, is_colored: bool) -> String {
    let version = &run.environment.dyno_version;
    // The command below shows a long name in full.
    let system = shortened(&run.system, SYSTEM_COLUMNS);
    let context = match &run.rules {
        Some(rules) => format!("{} {}", rules.round, rules.benchmark),
        None => format!("profile {}", run.profile),
    };
    let title = format!("dyno {version}, {system}, {context}");
    let mut frame = Frame::new(&title, DISCLAIMER);
    let measured: Vec<&summary::Test> =
        run.tests.iter().filter(|test| test.metrics.is_some()).collect();
    if !measured.is_empty() {
        performance_table(&mut frame, &measured, is_colored);
        frame.rule();
        if run.profile == LLM {
            for test in measured.iter().filter(|test| has_distributions(test)) {
                distributions::table(&mut frame, test);
                frame.rule();
                turns_table(&mut frame, test);
            }
        }
        let mut lines: Vec<String> = measured
            .iter()
            .flat_map(|test| details::lines(test, run.profile == LLM && has_distributions(test)))
            .collect();
        lines.extend(measured.iter().flat_map(|test| required(test)));
        lines.extend(measured.iter().flat_map(|test| details::of_servers(run, test, is_verbose)));
        lines.iter().for_each(|line| frame.line(line, 2));
        if !lines.is_empty() {
            frame.rule();
        }
    }
    let scored: Vec<&summary::Test> =
        run.tests.iter().filter(|test| test.accuracy.is_some()).collect();
    if !scored.is_empty() {
        accuracy_lines(&mut frame, &scored, is_colored);
        frame.rule();
    }
    let mut lines = Vec::new();
    for test in run.tests.iter().filter(|test| !test.is_valid()) {
        lines.push(format!("{} {}:", test.title(), test.verdict));
        lines.extend(test.reasons.iter().map(|reason| format!("  {}", units::sentence(reason))));
    }
    let notes = run.tests.iter().flat_map(|test| &test.notes).chain(&run.remarks);
    lines.extend(notes.filter(|note| is_verbose || *note != WORDS_REMARK).cloned());
    if !lines.is_empty() {
        lines.iter().for_each(|line| frame.line(line, 2));
        frame.rule();
    }
    // Without a round, the summary and the report show the division.
    if let (Some(division), true) = (&run.division, run.rules.is_some()) {
        frame.line(&dyno_report::words::division_and_why(division), 2);
        let provided = division.provided.iter().map(|item| format!("  provided: {item}"));
        provided.for_each(|line| frame.line(&line, 4));
        frame.rule();
    }
    let mut shapes: Vec<String> =
        run.tests.iter().filter_map(|test| test.data.shapes_text()).collect();
    shapes.dedup();
    shapes.iter().for_each(|shapes| frame.line(&format!("sample: {shapes}"), 2));
    if !run.is_virtual() {
        frame.line(&details::machine(&run.environment), 2);
    }
    if !run.command.is_empty() {
        frame.line(&format!("$ {}", units::command(&run.command)), 2);
    }
    let color = Color::of_verdict(&run.verdict);
    frame.line(&format!("Verdict: {}", painted(&run.verdict, color, is_colored)), 2);
    frame.finish()
}

/// Returns a line for each requirement of a test.
fn required(test: &summary::Test) -> impl Iterator<Item = String> {
    let name = test
        .tenant
        .as_ref()
        .map_or(test.scenario.clone(), |name| format!("{} {name}", test.scenario));
    test.requirements
        .iter()
        .map(move |requirement| format!("{name} requires {}", requirement.line()))
}

fn verdict(test: &summary::Test, is_colored: bool) -> String {
    let color = Color::of_verdict(&test.verdict);
    painted(&test.verdict, color, is_colored)
}

fn performance_table(frame: &mut Frame, tests: &[&summary::Test], is_colored: bool) {
    let mut rows = vec![
        ["", "result", "p50", "p90", "p99", "lag p99", "verdict"].map(str::to_string).to_vec(),
    ];
    for test in tests {
        let metrics = test.metrics.as_ref().expect("filtered by it");
        let timed = |statistic: fn(&Distribution) -> i64| {
            metrics.answered().map_or_else(|| "-".into(), |answered| duration(statistic(answered)))
        };
        let lag = metrics.client_lag_ns.filter(|lag| lag.count > 0).filter(|_| {
            test.plan.interval_ns.is_some() || test.scenario == Scenario::Server.name()
        });
        let name = match &test.tenant {
            Some(tenant) => format!("{} {tenant}", test.scenario),
            None => test.scenario.clone(),
        };
        rows.push(vec![
            name,
            test.result.as_ref().map(Headline::text).unwrap_or_default(),
            timed(|d| d.p50),
            timed(|d| d.p90),
            timed(|d| d.p99),
            lag.map_or_else(|| "-".into(), |lag| duration(lag.p99)),
            verdict(test, is_colored),
        ]);
    }
    use Alignment::{Left, Right};
    frame.table(&[Left, Right, Right, Right, Right, Right, Left], &rows);
}

/// Name of the profile for language models, whose times have a row each.
const LLM: &str = "llm";

/// Returns whether the metrics of a test have a row each.
fn has_distributions(test: &summary::Test) -> bool {
    test.metrics.as_ref().is_some_and(|metrics| !metrics.distributions.is_empty())
}

/// Maximum number of turns in the box; the report and the summary have more.
const TURNS_SHOWN: usize = 6;

/// Adds the figures of each turn of sessions.
fn turns_table(frame: &mut Frame, test: &summary::Test) {
    let Some(sessions) = test.metrics.as_ref().and_then(|metrics| metrics.sessions.as_ref()) else {
        return;
    };
    let header = ["turn", "answered", "input", "TTFT p50", "p99", "latency p50", "p99"];
    let mut rows = vec![header.map(str::to_string).to_vec()];
    let time = |times: Option<Distribution>, of: fn(Distribution) -> i64| {
        times.map_or_else(|| "-".into(), |times| duration(of(times)))
    };
    for turn in sessions.by_turn.iter().take(TURNS_SHOWN) {
        let (first, latency) = (turn.first_token_ns, turn.latency_ns);
        rows.push(vec![
            turn.name(),
            count(turn.answered),
            turn.input_tokens.map_or_else(|| "-".into(), |tokens| format!("{tokens:.0}")),
            time(first, |times| times.p50),
            time(first, |times| times.p99),
            time(latency, |times| times.p50),
            time(latency, |times| times.p99),
        ]);
    }
    use Alignment::{Left, Right};
    frame.table(&[Left, Right, Right, Right, Right, Right, Right], &rows);
    if sessions.by_turn.len() > TURNS_SHOWN {
        frame.line("further turns: see the report", 2);
    }
    frame.rule();
}

/// Adds one line if all scenarios agree, which is usual for a deterministic model.
fn accuracy_lines(frame: &mut Frame, tests: &[&summary::Test], is_colored: bool) {
    let line = |test: &summary::Test| {
        let found = test.accuracy.as_ref().expect("filtered by it");
        let result = found.text().unwrap_or_else(|| {
            let why = match &found.metric {
                _ if found.answered == 0 => "",
                Some(_) => ", not scored: not every sample has a valid answer",
                None => ", not scored: no labels",
            };
            let answered = if found.answered == 1 { "sample" } else { "samples" };
            format!("{} {answered} answered{why}", found.answered)
        });
        let at_most = if found.lower_is_better { "at most " } else { "" };
        let target =
            found.target.map(|target| format!(", target {at_most}{}", found.shown(target)));
        format!("{result}{}  {}", target.unwrap_or_default(), verdict(test, is_colored))
    };
    let first = line(tests[0]);
    if tests.iter().all(|test| line(test) == first) {
        let in_all =
            if tests.len() > 1 { format!(" in {} tests", tests.len()) } else { String::new() };
        frame.line(&format!("Accuracy{in_all}: {first}"), 2);
        return;
    }
    for test in tests {
        frame.line(&format!("{}: {}", test.title(), line(test)), 2);
    }
}
