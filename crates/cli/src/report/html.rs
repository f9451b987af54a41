//! `report.html`: one file without references to anything outside it.

use std::fmt::Write as _;

use super::chart;
use super::effective::is_relevant_to;
use crate::render::{self, count, duration, percentile};
use crate::series;
use crate::summary::{DISCLAIMER, Metrics, Run, Test};

/// The report of a run.
pub fn html(run: &Run, series: &series::Run) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{name}: {verdict}</title><style>{style}</style></head><body>\n\
         <h1>{name} <span class=\"{class}\">{verdict}</span></h1>\
         <p class=\"dim\">System {system}, profile {profile}, {time}. This is {DISCLAIMER}.</p>\n",
        name = escaped(&run.name),
        verdict = run.verdict,
        class = class(run.is_valid()),
        style = include_str!("style.css"),
        system = escaped(&run.system),
        profile = run.profile,
        time = if run.is_virtual() { "virtual time" } else { &run.started_at },
    );
    for remark in &run.remarks {
        let _ = write!(page, "<p class=\"dim\">{}</p>", escaped(remark));
    }
    overview(&mut page, run);
    for of in &run.tests {
        test(&mut page, of, series.tests.iter().find(|series| series.folder == of.folder));
    }
    environment_section(&mut page, run);
    page + "</body></html>\n"
}

fn class(is_good: bool) -> &'static str {
    if is_good { "good" } else { "bad" }
}

fn overview(page: &mut String, run: &Run) {
    *page += "<section><h2>Results</h2><div class=\"scroll\"><table><tr><th class=\"text\">test</th>\
              <th>result</th><th>p50</th><th>p90</th><th>p99</th>\
              <th class=\"text\">verdict</th></tr>\n";
    for test in &run.tests {
        let (result, percentiles) = match (&test.metrics, &test.accuracy) {
            (Some(metrics), _) => {
                let timed = metrics.timed();
                let result = test.result.as_ref().map(render::headline).unwrap_or_default();
                (result, [timed.p50, timed.p90, timed.p99].map(duration))
            }
            (None, Some(accuracy)) => {
                let answered = || format!("{} samples answered", count(accuracy.answered));
                (render::accuracy(accuracy).unwrap_or_else(answered), Default::default())
            }
            (None, None) => Default::default(),
        };
        let [p50, p90, p99] = percentiles;
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{result}</td><td>{p50}</td><td>{p90}</td><td>{p99}</td>\
             <td class=\"text {}\">{}</td></tr>",
            escaped(&test.title()),
            class(test.is_valid()),
            test.verdict
        );
    }
    *page += "</table></div></section>\n";
}

fn test(page: &mut String, test: &Test, series: Option<&series::Test>) {
    let _ = write!(
        page,
        "<section><h2>{}: <span class=\"{}\">{}</span></h2>",
        escaped(&test.title()),
        class(test.is_valid()),
        test.verdict
    );
    for reason in &test.reasons {
        let _ = write!(page, "<p class=\"bad\">{}</p>", escaped(reason));
    }
    for note in &test.notes {
        let _ = write!(page, "<p class=\"dim\">{}</p>", escaped(note));
    }
    if let Some(metrics) = &test.metrics {
        performance_part(page, test, metrics, series);
    }
    if let Some(accuracy) = &test.accuracy {
        let text = match (render::accuracy(accuracy), accuracy.target) {
            (Some(score), Some(target)) => {
                format!("{score}; the target is {:.2} %", target * 100.0)
            }
            (Some(score), None) => format!("{score}; there is no target"),
            (None, _) => format!(
                "{} samples answered; without labels their quality is not known",
                count(accuracy.answered)
            ),
        };
        let _ = write!(page, "<p class=\"headline\">{text}</p>");
    }
    settings(page, test);
    *page += "</section>\n";
}

fn performance_part(
    page: &mut String,
    test: &Test,
    metrics: &Metrics,
    series: Option<&series::Test>,
) {
    let _ = write!(
        page,
        "<p class=\"headline\">{}</p><p class=\"dim\">{} over {} queries ({} samples) in {}{}</p>",
        escaped(&test.result.as_ref().map(render::headline).unwrap_or_default()),
        escaped(test.result.as_ref().map_or("", |result| &result.name)),
        count(metrics.query_count),
        count(metrics.sample_count),
        duration(i64::try_from(metrics.lasted_ns).unwrap_or(i64::MAX)),
        meaning(&test.scenario)
    );
    let is_server = test.scenario == "Server";
    if let Some(lag) = metrics.client_lag_ns.filter(|_| is_server) {
        let budget = match test.plan.max_client_lag_ns {
            None => "it is not judged".to_string(),
            Some(budget) => format!(
                "the budget at {} is {}",
                percentile(test.plan.percentile),
                duration(i64::try_from(budget).unwrap_or(i64::MAX))
            ),
        };
        let _ = write!(
            page,
            "<p>The client's own lag: p50 {}, p99 {}, largest {}; {budget}.</p>",
            duration(lag.p50),
            duration(lag.p99),
            duration(lag.max)
        );
    }
    let Some(series) = series else { return };
    let bound = test.plan.latency_bound_ns;
    // In virtual time there is no lag to draw.
    let lags = &series.client_lag.spectrum[..];
    let has_lag = is_server && lags.last().is_some_and(|lag| lag.1 > 0);
    let lag = if has_lag { lags } else { &[] };
    let _ = write!(
        page,
        "<div class=\"charts\"><figure>{}<figcaption>Latency by percentile, both axes \
         logarithmic{}</figcaption></figure><figure>{}<figcaption>Latency over time</figcaption>\
         </figure></div>",
        chart::spectrum(&series.latency.spectrum, lag, bound),
        if bound.is_some() { "; dotted: the bound" } else { "" },
        chart::over_time(&series.slices)
    );
}

fn meaning(scenario: &str) -> &'static str {
    match scenario {
        "SingleStream" => "; one sample at a time",
        "MultiStream" => "; a query is done when its last sample is",
        "Server" => "; latency counts from the scheduled arrival",
        "Offline" => "; one query with all samples, latency counts from the start",
        _ => "",
    }
}

fn settings(page: &mut String, test: &Test) {
    *page += "<details><summary>Settings and where they came from</summary><div class=\"scroll\">\
              <table><tr><th class=\"text\">setting</th><th>value</th><th class=\"text\">unit</th>\
              <th class=\"text\">origin</th></tr>";
    for (name, setting) in &test.settings {
        if !is_relevant_to(name, &test.scenario) {
            continue;
        }
        let _ = write!(
            page,
            "<tr><td>{name}</td><td>{}</td><td class=\"text\">{}</td><td class=\"text dim\">{}</td></tr>",
            escaped(&setting.value),
            setting.unit,
            escaped(&setting.origin)
        );
    }
    *page += "</table></div></details>";
}

fn environment_section(page: &mut String, run: &Run) {
    *page += "<section><h2>Machine and build</h2><div class=\"scroll\"><table>";
    if let Ok(serde_json::Value::Object(rows)) = serde_json::to_value(&run.environment) {
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
