//! Page of one run.

use std::fmt::Write as _;

use dyno_results::effective::FILE;
use dyno_results::summary::{self, Metrics, Run, Test};
use dyno_results::units::{count, sentence};
use dyno_results::{contents, series};

use super::accelerator;
use super::page::{self, Masthead, Tone, badge};
use super::section;
use super::words::{self, escaped, typeset};

/// Content of the page of one run.
pub struct RunPage<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its plots.
    pub series: &'a series::Run,
    /// Problems of reading the run, as sentences.
    pub missing: &'a [String],
    /// Whether the page is written into the run directory, so that it can link to its files.
    pub is_in_directory: bool,
    /// Files that the run directory lacks.
    pub absent: &'a [String],
}

/// Returns the page.
pub fn html(shown: &RunPage<'_>) -> String {
    let run = shown.run;
    let tone = if shown.missing.is_empty() { Tone::of_verdict(&run.verdict) } else { Tone::Bad };
    let mut body = page::missing(shown.missing);
    // Failures come first; a valid run begins with its results.
    if !run.is_valid() {
        verdict(&mut body, run);
    }
    performance_overview(&mut body, run);
    accuracy_overview(&mut body, run);
    accelerator::sections(&mut body, &run.accelerators, &shown.series.timelines);
    for test in run.tests.iter().filter(|test| test.metrics.is_some()) {
        let series = shown.series.tests.iter().find(|series| series.folder == test.folder);
        section::performance(&mut body, test, series, shown);
    }
    if run.is_valid() {
        verdict(&mut body, run);
    }
    settings(&mut body, run);
    reproduce(&mut body, shown);
    environment(&mut body, run);
    eligibility(&mut body, run);
    let _ = writeln!(
        body,
        "<script type=\"application/json\" id=\"summary\">{}</script>",
        super::plot::inert(&serde_json::to_string(run).expect("keys are texts"))
    );
    let title = format!("{}: {}", run.name, run.verdict);
    let masthead =
        Masthead { name: &run.name, verdict: Some((&run.verdict, tone)), facts: facts(run) };
    page::document(&title, &masthead, &body)
}

/// Returns the anchor of the section of a test. It has the number of the test, because two titles
/// can differ only in characters that an anchor cannot have.
pub fn anchor(run: &Run, test: &Test) -> String {
    let number = run.tests.iter().position(|other| std::ptr::eq(other, test)).unwrap_or(0);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("t-{}-{}", number + 1, test.title().chars().map(plain).collect::<String>())
}

/// Returns facts of a run for the masthead, as HTML: system, profile, rules, date and machine.
pub fn facts(run: &Run) -> Vec<String> {
    let machine = &run.environment;
    let processor = machine.processor.as_deref().unwrap_or(&machine.arch);
    let cores = words::counted(machine.cores, "core", "cores");
    // Fields of a run without a summary are empty.
    let mut facts = Vec::new();
    if !run.system.is_empty() {
        facts.push(format!("system <b>{}</b>", escaped(&run.system)));
    }
    if !run.profile.is_empty() {
        facts.push(format!("profile {}", escaped(&run.profile)));
    }
    facts.push(escaped(&run.rules_title()));
    if run.is_virtual() {
        facts.push("in virtual time".into());
    } else {
        facts.push(escaped(&run.started_at));
        if run.duration_ns > 0 {
            facts.push(format!("took {}", words::span_ns(run.duration_ns)));
        }
        if machine.cores > 0 {
            facts.push(format!("{}, {cores}", escaped(processor)));
        }
    }
    facts.retain(|fact| !fact.is_empty());
    facts
}

fn verdict(html: &mut String, run: &Run) {
    let bad: Vec<&Test> = run.tests.iter().filter(|test| !test.is_valid()).collect();
    let total = words::counted(run.tests.len() as u64, "test", "tests");
    let class = Tone::of_verdict(&run.verdict).class();
    let _ = write!(html, "<section class=\"card verdict {class}\"><div><h2>Verdict</h2>");
    let what = match (run.state, bad.len()) {
        (summary::State::Interrupted, _) => {
            format!("The run was interrupted after {total} had started. Its figures are not valid.")
        }
        // The reasons below state whether the system stopped answering or failed its answers.
        (summary::State::Aborted, _) => {
            "The run was ended early because of the system. Its figures are not valid.".to_string()
        }
        (_, _) if run.tests.is_empty() => "The run has no tests.".into(),
        (_, 0) if run.tests.len() == 1 => "The test is valid: all conditions are met.".into(),
        (_, 0) => format!("All {total} are valid: all conditions are met."),
        (_, n) if run.is_undecided() => match (n, run.tests.len()) {
            (1, 1) => {
                "The test is undecided: what was measured proves neither VALID nor INVALID.".into()
            }
            (n, _) => format!(
                "{n} of {total} undecided: what was measured proves neither VALID nor INVALID."
            ),
        },
        (_, n) if n == run.tests.len() && n == 1 => "The test is not valid.".into(),
        (_, n) if n == run.tests.len() => format!("None of the {total} is valid."),
        (_, n) => format!("{n} of {total} {} not valid.", if n == 1 { "is" } else { "are" }),
    };
    let _ = write!(html, "<p class=\"lead\">{what}</p>");
    for test in bad {
        let title = escaped(&test.title());
        let link = match test.metrics {
            Some(_) => format!("<a href=\"#{}\">{title}</a>", anchor(run, test)),
            None => title,
        };
        let _ = write!(html, "<div class=\"why\"><h3>{link}</h3><ul>");
        for reason in &test.reasons {
            let _ = write!(html, "<li>{}</li>", typeset(&sentence(reason)));
        }
        if test.reasons.is_empty() {
            let _ = write!(html, "<li>The test did not finish: {}.</li>", escaped(&test.verdict));
        }
        html.push_str("</ul></div>");
    }
    html.push_str("</div>");
    if !run.remarks.is_empty() {
        html.push_str("<div><h3>Notes</h3><ul class=\"remarks\">");
        for remark in &run.remarks {
            let _ = write!(html, "<li>{}</li>", typeset(remark));
        }
        html.push_str("</ul></div>");
    }
    html.push_str("</section>\n");
}

/// Appends whether the run is eligible for MLPerf submission, if it follows a round.
fn eligibility(html: &mut String, run: &Run) {
    let Some(division) = run.division.as_ref().filter(|_| run.rules.is_some()) else { return };
    html.push_str("<section class=\"card\"><h2>MLPerf eligibility</h2>");
    let _ = write!(html, "<p>{}</p>", typeset(&words::division(division)));
    let why = if division.could_be == "open" { "Reasons against Closed" } else { "Reasons" };
    let lists = [(why, &division.reasons), ("Conditions", &division.provided)];
    for (title, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
        let _ = write!(html, "<p>{title}:</p><ul>");
        for item in items {
            let _ = write!(html, "<li>{}</li>", typeset(&sentence(item)));
        }
        html.push_str("</ul>");
    }
    html.push_str("</section>\n");
}

fn performance_overview(html: &mut String, run: &Run) {
    let measured: Vec<(&Test, &Metrics)> =
        run.tests.iter().filter_map(|test| Some((test, test.metrics.as_ref()?))).collect();
    if measured.is_empty() {
        return;
    }
    let has_lag = measured.iter().any(|(test, m)| section::client_lag(test, m).is_some());
    html.push_str(
        "<section class=\"card\"><h2>Performance</h2><div class=\"scroll\" tabindex=\"0\"><table class=\"stack\">\
         <thead><tr><th scope=\"col\">test</th><th scope=\"col\">result</th>\
         <th scope=\"col\" class=\"n\">p50</th><th scope=\"col\" class=\"n\">p90</th>\
         <th scope=\"col\" class=\"n\">p99</th><th scope=\"col\" class=\"n\">max</th>",
    );
    if has_lag {
        html.push_str("<th scope=\"col\" class=\"n\">client lag p99</th>");
    }
    html.push_str("<th scope=\"col\">verdict</th></tr></thead><tbody>\n");
    for (test, metrics) in measured {
        let timed = metrics.timed();
        let _ = write!(
            html,
            "<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th><td data-label=\"result\"><span><b>{}</b> <small>{}</small></span></td>",
            anchor(run, test),
            escaped(&test.title()),
            escaped(&value(test)),
            escaped(test.result.as_ref().map_or("", |result| &result.name)),
        );
        let times =
            [("p50", timed.p50), ("p90", timed.p90), ("p99", timed.p99), ("max", timed.max)];
        for (name, time) in times {
            let time = metrics.answered().map_or("–".into(), |_| words::time_ns(time));
            let _ = write!(html, "<td class=\"n\" data-label=\"{name}\">{time}</td>");
        }
        if has_lag {
            let lag = section::client_lag(test, metrics).map(|lag| words::time_ns(lag.p99));
            let lag = lag.unwrap_or_else(|| "–".into());
            let _ = write!(html, "<td class=\"n\" data-label=\"client lag p99\">{lag}</td>");
        }
        let verdict = badge(&test.verdict, Tone::of_verdict(&test.verdict));
        let _ = writeln!(html, "<td data-label=\"verdict\">{verdict}</td></tr>");
    }
    html.push_str("</tbody></table></div></section>\n");
}

/// Returns the result of a test with its unit; `–` without a result.
pub fn value(test: &Test) -> String {
    let Some(result) = &test.result else { return "–".into() };
    result.value.map_or_else(|| "–".into(), |value| words::in_unit(value, &result.unit))
}

fn accuracy_overview(html: &mut String, run: &Run) {
    let scored: Vec<(&Test, &summary::Accuracy)> =
        run.tests.iter().filter_map(|test| Some((test, test.accuracy.as_ref()?))).collect();
    if scored.is_empty() {
        return;
    }
    html.push_str(
        "<section class=\"card\"><h2>Accuracy</h2><div class=\"scroll\" tabindex=\"0\"><table class=\"stack\">\
         <thead><tr><th scope=\"col\">test</th><th scope=\"col\">accuracy</th>\
         <th scope=\"col\" class=\"n\">correct</th><th scope=\"col\" class=\"n\">target</th>\
         <th scope=\"col\">verdict</th></tr></thead><tbody>\n",
    );
    for (test, accuracy) in scored {
        let value = match (accuracy.value, &accuracy.metric) {
            (Some(value), Some(metric)) => format!(
                "<b>{}</b> <small>{}</small>{}",
                words::quality(accuracy, value),
                escaped(metric),
                accuracy.share().map_or_else(String::new, |value| meter(value, accuracy.target))
            ),
            _ => {
                let answered = words::counted(accuracy.answered, "sample", "samples");
                // Without the summary it is not known whether the data set has labels.
                let why = if run.verdict == contents::INCOMPLETE { "" } else { ": no labels" };
                format!("{answered} answered, not scored{why}")
            }
        };
        let correct = match (accuracy.correct, accuracy.scored) {
            (Some(correct), Some(scored)) => format!("{} of {}", count(correct), count(scored)),
            (None, Some(scored)) if accuracy.excluded > 0 => {
                format!("{} of {} compared", count(scored), count(scored + accuracy.excluded))
            }
            _ => "–".into(),
        };
        let at_most = if accuracy.lower_is_better { "at most " } else { "" };
        let shown = |target| format!("{at_most}{}", words::quality(accuracy, target));
        let target = accuracy.target.map_or_else(|| "none".into(), shown);
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"accuracy\"><span>{value}</span></td>\
             <td class=\"n\" data-label=\"correct\">{correct}</td>\
             <td class=\"n\" data-label=\"target\">{target}</td>\
             <td data-label=\"verdict\">{}</td></tr>",
            escaped(&test.title()),
            badge(&test.verdict, Tone::of_verdict(&test.verdict))
        );
    }
    html.push_str("</tbody></table></div></section>\n");
}

/// Returns a small bar with a mark at the target.
fn meter(value: f64, target: Option<f64>) -> String {
    let percent = |share: f64| 100.0 * if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let mark = target.map(|target| format!("<i style=\"left:{:.2}%\"></i>", percent(target)));
    format!(
        "<span class=\"meter\" aria-hidden=\"true\"><b style=\"width:{:.2}%\"></b>{}</span>",
        percent(value),
        mark.unwrap_or_default()
    )
}

fn settings(html: &mut String, run: &Run) {
    if run.tests.iter().all(|test| test.settings.is_empty()) {
        return;
    }
    html.push_str(
        "<section class=\"card\"><h2>Settings</h2><p>Settings that differ from their defaults, \
         and their origin. <code>dyno info settings</code> lists all.</p>",
    );
    section::settings_table(html, &run.tests);
    html.push_str("</section>\n");
}

fn reproduce(html: &mut String, shown: &RunPage<'_>) {
    let run = shown.run;
    html.push_str("<section class=\"card\"><h2>Run it again</h2>");
    if !run.command.is_empty() {
        let _ = write!(
            html,
            "<pre class=\"command\" id=\"command\" tabindex=\"0\">{}</pre>",
            escaped(&dyno_results::units::command(&run.command))
        );
    }
    if shown.is_in_directory {
        html.push_str(
            "<p>With the same settings: <code>dyno run --config effective.toml</code>. Files of this \
             run: ",
        );
        let files = [summary::FILE, series::FILE, FILE];
        let files = files.into_iter().filter(|file| shown.absent.iter().all(|no| no != file));
        let links = files.map(|file| format!("<a href=\"{file}\">{file}</a>"));
        let links: Vec<String> = links.collect();
        let _ = write!(
            html,
            "{}. They name the logs and raw records of each test.</p>",
            links.join(", ")
        );
    }
    html.push_str("</section>\n");
}

fn environment(html: &mut String, run: &Run) {
    html.push_str("<section class=\"card\"><h2>Machine and build</h2><dl class=\"pairs\">");
    if let Ok(serde_json::Value::Object(rows)) = serde_json::to_value(&run.environment) {
        for (key, value) in rows {
            let value = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Null => "unknown".into(),
                other => other.to_string(),
            };
            let key = escaped(&key.replace('_', " "));
            let _ = write!(html, "<div><dt>{key}</dt><dd>{}</dd></div>", escaped(&value));
        }
    }
    html.push_str("</dl></section>\n");
}
