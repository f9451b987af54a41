//! `report.html`: one file without references to anything outside it.

use std::fmt::Write as _;

use dyno_loadgen::plan::Plan;
use dyno_loadgen::settings::{Origin, Scenario};

use super::chart;
use super::effective::is_relevant;
use crate::environment;
use crate::outcome::{Outcome, Performance};
use crate::render::{count, duration, percentile};
use crate::summary::{DISCLAIMER, Run};

/// The report of a run.
pub fn html(run: &Run) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{name}: {verdict}</title><style>{style}</style></head><body>\n\
         <h1>{name} <span class=\"{class}\">{verdict}</span></h1>\
         <p class=\"dim\">System {system}, profile {profile}, {time}. This is {DISCLAIMER}.</p>\n",
        name = escaped(&run.name),
        verdict = run.verdict(),
        class = class(run.is_valid()),
        style = include_str!("style.css"),
        system = escaped(&run.system),
        profile = run.profile,
        time = if run.is_virtual { "virtual time" } else { &run.started_at },
    );
    for remark in &run.remarks {
        let _ = write!(page, "<p class=\"dim\">{}</p>", escaped(remark));
    }
    overview(&mut page, run);
    for outcome in &run.outcomes {
        test(&mut page, outcome);
    }
    environment_section(&mut page);
    page + "</body></html>\n"
}

fn class(is_good: bool) -> &'static str {
    if is_good { "good" } else { "bad" }
}

fn overview(page: &mut String, run: &Run) {
    *page += "<section><h2>Results</h2><div class=\"scroll\"><table><tr><th class=\"text\">test</th>\
              <th>result</th><th>p50</th><th>p90</th><th>p99</th>\
              <th class=\"text\">verdict</th></tr>\n";
    for outcome in &run.outcomes {
        let (result, percentiles) = match (&outcome.performance, &outcome.accuracy) {
            (Some(performance), _) => {
                (performance.headline(&outcome.plan).text, performance.percentiles().map(duration))
            }
            (None, Some(accuracy)) => {
                let result = accuracy.score.map_or_else(
                    || format!("{} samples answered", count(accuracy.answered)),
                    |score| format!("top-1 {score}"),
                );
                (result, Default::default())
            }
            (None, None) => Default::default(),
        };
        let [p50, p90, p99] = percentiles;
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{result}</td><td>{p50}</td><td>{p90}</td><td>{p99}</td>\
             <td class=\"text {}\">{}</td></tr>",
            escaped(&outcome.title()),
            class(outcome.is_valid()),
            outcome.verdict()
        );
    }
    *page += "</table></div></section>\n";
}

fn test(page: &mut String, outcome: &Outcome) {
    let _ = write!(
        page,
        "<section><h2>{}: <span class=\"{}\">{}</span></h2>",
        escaped(&outcome.title()),
        class(outcome.is_valid()),
        outcome.verdict()
    );
    for reason in &outcome.reasons {
        let _ = write!(page, "<p class=\"bad\">{}</p>", escaped(reason));
    }
    for note in &outcome.notes {
        let _ = write!(page, "<p class=\"dim\">{}</p>", escaped(note));
    }
    if let Some(performance) = &outcome.performance {
        performance_part(page, performance, &outcome.plan);
    }
    if let Some(accuracy) = &outcome.accuracy {
        let text = match (accuracy.score, accuracy.target) {
            (Some(score), Some(target)) => {
                format!("top-1 {score}; the target is {:.2} %", target * 100.0)
            }
            (Some(score), None) => format!("top-1 {score}; there is no target"),
            (None, _) => format!(
                "{} samples answered; without labels their quality is not known",
                count(accuracy.answered)
            ),
        };
        let _ = write!(page, "<p class=\"headline\">{text}</p>");
    }
    settings(page, outcome);
    *page += "</section>\n";
}

fn performance_part(page: &mut String, performance: &Performance, plan: &Plan) {
    let headline = performance.headline(plan);
    let metrics = &performance.metrics;
    let _ = write!(
        page,
        "<p class=\"headline\">{}</p><p class=\"dim\">{} over {} queries ({} samples) in {}{}</p>",
        escaped(&headline.text),
        escaped(&headline.name),
        count(metrics.query_count),
        count(metrics.sample_count),
        duration(i64::try_from(performance.lasted).unwrap_or(i64::MAX)),
        meaning(plan)
    );
    if let Some(lag) = metrics.client_lag.filter(|_| plan.scenario() == Scenario::Server) {
        let budget = match plan.max_client_lag {
            0 => "it is not judged".to_string(),
            budget => format!(
                "the budget at {} is {}",
                percentile(plan.percentile()),
                duration(i64::try_from(budget).unwrap_or(i64::MAX))
            ),
        };
        let _ = write!(
            page,
            "<p>The client's own lag: p50 {}, p99 {}, largest {}; {budget}.</p>",
            duration(lag.percentiles[0]),
            duration(lag.percentiles[4]),
            duration(lag.max)
        );
    }
    let bound = Some(plan.target_latency()).filter(|&bound| bound > 0 && plan.tokens.is_none());
    // In virtual time there is no lag to draw.
    let lags = &performance.lag_spectrum[..];
    let has_lag = plan.scenario() == Scenario::Server && lags.last().is_some_and(|lag| lag.1 > 0);
    let lag = if has_lag { lags } else { &[] };
    let _ = write!(
        page,
        "<div class=\"charts\"><figure>{}<figcaption>Latency by percentile, both axes \
         logarithmic{}</figcaption></figure><figure>{}<figcaption>Latency over time</figcaption>\
         </figure></div>",
        chart::spectrum(&performance.latency_spectrum, lag, bound),
        if bound.is_some() { "; dotted: the bound" } else { "" },
        chart::over_time(&performance.slices)
    );
}

fn meaning(plan: &Plan) -> &'static str {
    match plan.scenario() {
        Scenario::SingleStream => "; one sample at a time",
        Scenario::MultiStream => "; a query is done when its last sample is",
        Scenario::Server => "; latency counts from the scheduled arrival",
        Scenario::Offline => "; one query with all samples, latency counts from the start",
    }
}

fn settings(page: &mut String, outcome: &Outcome) {
    *page += "<details><summary>Settings and where they came from</summary><div class=\"scroll\">\
              <table><tr><th class=\"text\">setting</th><th>value</th><th class=\"text\">unit</th>\
              <th class=\"text\">origin</th></tr>";
    for (field, value, origin) in outcome.settings.rows() {
        if *origin == Origin::Default || !is_relevant(field.name, outcome.scenario) {
            continue;
        }
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td><td class=\"text dim\">{}</td></tr>",
            field.name,
            escaped(&value),
            field.unit,
            escaped(&origin.to_string())
        );
    }
    *page += "</table></div></details>";
}

fn environment_section(page: &mut String) {
    *page += "<section><h2>Machine and build</h2><div class=\"scroll\"><table>";
    if let serde_json::Value::Object(rows) = environment::describe() {
        for (key, value) in rows {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            let _ = write!(
                page,
                "<tr><td>{}</td><td class=\"text\">{}</td></tr>",
                key.replace('_', " "),
                escaped(&value)
            );
        }
    }
    *page += "</table></div></section>";
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
