//! Section of one performance test.

use std::fmt::Write as _;
use std::path::Path;

use dyno_results::effective::is_relevant_to;
use dyno_results::summary::metrics::Distribution;
use dyno_results::summary::{Headline, Metrics, NO_BOUND, Test};
use dyno_results::units::{self, count};
use dyno_results::{records, series};

use super::charts::{self, Threshold};
use super::limit;
use super::page::{self, Tone, badge};
use super::plot;
use super::words::{self, counted, escaped, typeset};
use super::{answers, client, observer, one, server, stopping};

/// Appends the section of a test; nothing without metrics.
pub fn performance(
    html: &mut String,
    test: &Test,
    series: Option<&series::Test>,
    shown: &one::RunPage<'_>,
) {
    let Some(metrics) = &test.metrics else { return };
    let id = one::anchor(shown.run, test);
    let _ = write!(
        html,
        "<section class=\"card test\" id=\"{}\"><h2>{} {}</h2>",
        id,
        escaped(&test.title()),
        badge(&test.verdict, Tone::of_verdict(&test.verdict))
    );
    headline(html, test, metrics);
    // The verdict card of a run with one test already lists its reasons.
    for reason in test.reasons.iter().filter(|_| shown.run.tests.len() > 1) {
        let _ = write!(html, "<p class=\"reason\">{}</p>", typeset(&units::sentence(reason)));
    }
    match series {
        Some(series) => all_charts(html, test, &id, metrics, series),
        None => html.push_str(
            "<p class=\"note\">No plots: <code>series.json</code> has no entry for this test.</p>",
        ),
    }
    for note in &test.notes {
        let _ = write!(html, "<p class=\"note\">{}</p>", typeset(&units::sentence(note)));
    }
    html.push_str("<div class=\"sides\">");
    conditions(html, test, metrics);
    facts(html, test, metrics);
    html.push_str("</div>");
    percentiles(html, test, metrics);
    client::section(html, test, series, &shown.run.clients);
    server::section(html, test, series, shown);
    observer::section(html, test, &shown.run.observers);
    stopping::section(html, test, series);
    if shown.is_in_directory {
        files(html, test, shown.absent);
    }
    html.push_str("</section>\n");
}

fn headline(html: &mut String, test: &Test, metrics: &Metrics) {
    let Some(result) = &test.result else { return };
    let shown = one::value(test);
    let (number, unit) = shown.split_once(['\u{202f}', ' ']).unwrap_or((&shown, ""));
    let _ = write!(
        html,
        "<p class=\"headline\"><span class=\"number\">{}</span> <span class=\"unit\">{}</span> \
         <span class=\"name\">{}</span></p><p class=\"interval\">{}</p><p class=\"meaning\">{}{}</p>",
        escaped(number),
        escaped(unit),
        escaped(&result.name),
        confidence(result, metrics),
        escaped(&meaning(test, metrics)),
        limit::sentence(test).map_or_else(String::new, |text| format!(" {}", escaped(&text)))
    );
}

/// Returns the confidence interval of the headline, or the early stopping estimate, as HTML.
fn confidence(result: &Headline, metrics: &Metrics) -> String {
    if let Some(interval) = &result.interval {
        return format!(
            "{} interval {} to {} <small>({})</small>",
            words::share(interval.confidence),
            escaped(&words::in_unit(interval.low, &result.unit)),
            escaped(&words::in_unit(interval.high, &result.unit)),
            escaped(&interval.method)
        );
    }
    let estimate = metrics.early_stopping.first().and_then(|of| Some((of, of.estimates.first()?)));
    match estimate {
        Some((of, estimate)) => match estimate.latency_ns {
            Some(latency) => format!(
                "at most {} with {} confidence",
                words::time_ns(latency),
                words::share(of.confidence)
            ),
            None => "too few queries for a confidence bound".into(),
        },
        None => String::new(),
    }
}

/// Returns an explanation of the result in words.
fn meaning(test: &Test, metrics: &Metrics) -> String {
    let share = words::share(test.plan.percentile);
    let Some(timed) = metrics.answered() else { return "No query was answered.".into() };
    let target = words::time_ns(timed.target);
    match test.scenario.as_str() {
        "SingleStream" => {
            format!("One sample at a time: {share} of the queries took no longer than {target}.")
        }
        "MultiStream" if let Some(interval) = test.plan.interval_ns => format!(
            "{} every {}; {share} of the queries must complete before the next one is due.",
            counted(test.plan.samples_per_query, "stream", "streams"),
            words::bound(interval)
        ),
        "MultiStream" => format!(
            "{} at a time: {share} of the queries were done within {target}; a query is done when its \
             last sample is.",
            counted(test.plan.samples_per_query, "sample", "samples")
        ),
        "Server" => {
            let arrivals = test.plan.arrivals.as_deref().map(|a| format!(" ({a})"));
            let bound = test
                .plan
                .latency_bound_ns
                .map(|bound| format!("; the bound is {}", words::bound(bound)));
            // Of a session its first turn arrives; each other one follows the answer before it.
            let queries = if metrics.sessions.is_some() { "Sessions" } else { "Queries" };
            let answered = if metrics.sessions.is_some() { "turns" } else { "ones" };
            let in_flight = test
                .plan
                .arrivals
                .as_deref()
                .and_then(|arrivals| arrivals.strip_prefix("concurrency:"));
            if let Some(in_flight) = in_flight {
                return format!(
                    "{}: {share} of the answered {answered} took no longer than {target}{}.",
                    closed_loop(in_flight, metrics),
                    bound.unwrap_or_default(),
                );
            }
            if test.plan.target_qps == 0.0 {
                return format!(
                    "{queries} arrived all at once: {share} of the answered {answered} took no longer \
                     than {target} from their scheduled time{}.",
                    bound.unwrap_or_default(),
                );
            }
            format!(
                "{queries} arrived at {} per second{}: {share} of the answered {answered} took no \
                 longer than {target} from their scheduled time{}.",
                words::asked_rate(test.plan.target_qps),
                arrivals.unwrap_or_default(),
                bound.unwrap_or_default(),
            )
        }
        "Offline" => format!(
            "All {} at once, in any order; latency counts from the start.",
            counted(metrics.sample_count, "sample", "samples")
        ),
        _ => String::new(),
    }
}

/// Returns the load of a closed loop. After its last request is sent, the system drains.
fn closed_loop(in_flight: &str, metrics: &Metrics) -> String {
    let what = if metrics.sessions.is_some() { "sessions in progress" } else { "in flight" };
    let is_one_round = in_flight.parse().is_ok_and(|most: u64| metrics.query_count <= most);
    match metrics.last_issue_ns {
        // A single one is in flight until the end.
        _ if in_flight == "1" && metrics.sessions.is_none() => "1 in flight at all times".into(),
        _ if is_one_round => format!("{} sent at the start", count(metrics.query_count)),
        Some(last) => format!(
            "{in_flight} {what} until the last request was sent at {}",
            words::span_ns(last)
        ),
        None => format!("{in_flight} {what}"),
    }
}

fn conditions(html: &mut String, test: &Test, metrics: &Metrics) {
    let found = &metrics.conditions;
    let bound = match (test.plan.latency_bound_ns, test.plan.first_token_bound_ns) {
        (Some(bound), _) => format!(
            "{} of the latencies within {}",
            words::share(test.plan.percentile),
            words::bound(bound)
        ),
        (None, Some(_)) => "token times within their bounds".into(),
        (None, None) if test.plan.interval_ns.is_some() => {
            format!("{} of the queries skip no interval", words::share(test.plan.percentile))
        }
        (None, None) => "latency within its bound".into(),
    };
    let lag = test.plan.max_client_lag_ns.map(|budget| {
        let at = units::percentile_or_extreme(test.plan.percentile);
        format!("client lag at {at} within {}", words::bound(budget))
    });
    let rows = [
        (found.performance_met, bound),
        (
            (test.plan.min_duration_ns > 0).then_some(found.min_duration_met),
            format!("duration of at least {}", words::bound(test.plan.min_duration_ns)),
        ),
        (
            Some(found.min_queries_met),
            format!("at least {}", counted(test.plan.min_query_count, "query", "queries")),
        ),
        // Without a criterion it was not judged.
        (
            (!metrics.early_stopping.is_empty() || !found.early_stopping_met)
                .then_some(found.early_stopping_met),
            "percentile certain enough".into(),
        ),
        (found.client_lag_met, lag.unwrap_or_else(|| "client lag".into())),
    ];
    html.push_str("<ul class=\"conditions\" aria-label=\"Conditions\">");
    for (is_met, text) in rows {
        let Some(is_met) = is_met else { continue };
        let (class, sign, said) =
            if is_met { ("good", "✓", "met") } else { ("bad", "✕", "not met") };
        let _ = write!(
            html,
            "<li class=\"{class}\"><span aria-hidden=\"true\">{sign}</span> {}\
             <span class=\"spoken\"> ({said})</span></li>",
            escaped(&text)
        );
    }
    html.push_str("</ul>");
}

fn facts(html: &mut String, test: &Test, metrics: &Metrics) {
    let failed = metrics.failed.total();
    let mut rows = vec![
        ("queries", count(metrics.query_count)),
        ("samples", count(metrics.sample_count)),
        ("lasted", words::span_ns(metrics.lasted_ns)),
        ("ended by", metrics.ended.clone()),
        ("failed", count(failed)),
        ("never answered", count(metrics.missing.saturating_sub(metrics.unfinished()))),
    ];
    if metrics.unfinished() > 0 {
        rows.push(("unfinished when the run was stopped", count(metrics.unfinished())));
    }
    if let Some(over) = metrics.over_bound.most().filter(|_| test.scenario == "Server") {
        rows.push(("over a bound", count(over)));
    }
    if let Some(intervals) = &metrics.intervals {
        rows.push(("skipped an interval", count(intervals.over)));
        rows.push(("intervals skipped", count(intervals.skipped)));
    }
    let rates = &metrics.rates;
    let more = [
        ("offered", rates.scheduled_samples_per_s),
        ("answered", rates.completed_samples_per_s),
        ("within every bound", rates.goodput_samples_per_s),
        ("rate, client included", rates.queries_per_s_with_overhead),
        ("rate, client excluded", rates.queries_per_s_without_overhead),
    ];
    for (name, rate) in more {
        rows.extend(rate.map(|rate| (name, format!("{}/s", units::rate(rate)))));
    }
    if let Some(tokens) = metrics.token_count {
        rows.push(("output tokens", count(tokens.unsigned_abs())));
        let of = metrics.token_rates.as_ref();
        let rate = of.and_then(|r| r.completed_tokens_per_s.or(r.tokens_per_s));
        rows.extend(rate.map(|rate| ("tokens/s", units::rate(rate))));
    }
    rows.extend(answers::facts(metrics));
    rows.push((
        "data set",
        format!("{}, {}", test.data.name, counted(test.data.total, "sample", "samples")),
    ));
    for of in &test.requirements {
        rows.push(("required", of.line()));
    }
    rows.extend(test.data.shapes_text().map(|shapes| ("shape of a sample", shapes)));
    html.push_str("<dl class=\"pairs\">");
    for (name, value) in rows {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    }
    html.push_str("</dl>");
    html.push_str(&answers::windows(metrics));
    html.push_str(&answers::turns(metrics));
}

/// Returns the client lag of a Server test; `None` in other scenarios, where queries are due when
/// they are issued, and in virtual time, which has no client.
pub fn client_lag<'a>(test: &Test, metrics: &'a Metrics) -> Option<&'a Distribution> {
    metrics.client_lag_ns.as_ref().filter(|lag| test.scenario == "Server" && lag.max > 0)
}

fn group(html: &mut String, title: &str, figures: &[String]) {
    if figures.iter().all(String::is_empty) {
        return;
    }
    let _ = write!(html, "<h3>{title}</h3><div class=\"charts\">{}</div>", figures.concat());
}

fn all_charts(html: &mut String, test: &Test, id: &str, metrics: &Metrics, of: &series::Test) {
    let (timed, is_offline) = (charts::timed(test).1, test.scenario == "Offline");
    let latency = Threshold::latency(test);
    let target = (!is_offline).then_some(test.plan.percentile);
    let target = target.filter(|share| *share > 0.0 && *share < 1.0);
    group(
        html,
        "Latency",
        &[
            views(&charts::histograms(&of.latency, &latency, timed), &format!("{id}-h")),
            plot::figure(&charts::cumulative(&of.latency, &latency, target, timed)),
            plot::figure(&charts::spectrum(
                "Latency by percentile",
                "latency, logarithmic",
                &[("latency", &of.latency)],
                &latency,
                "bound",
            )),
            plot::figure(&charts::latency_over_time(&of.slices, &latency, is_offline)),
        ],
    );
    let per_query = test.plan.samples_per_query;
    // With one query at a time the number in flight is constant.
    let is_closed = matches!(&test.scenario[..], "SingleStream" | "MultiStream");
    let in_flight =
        if is_closed { String::new() } else { plot::figure(&charts::in_flight(&of.slices)) };
    group(
        html,
        "Load",
        &[
            plot::figure(&charts::throughput(&of.slices, per_query, is_closed || is_offline)),
            in_flight,
            plot::figure(&charts::batch_sizes(of)),
        ],
    );
    tokens(html, test, of);
    if client_lag(test, metrics).is_some() {
        let judged = Threshold::client_lag(test);
        let spectrum = charts::spectrum(
            "Lag of the client by percentile",
            "lag, logarithmic",
            &[("client's own lag", &of.client_lag)],
            &judged,
            "budget",
        );
        let over_time = charts::client_lag_over_time(&of.slices, &judged);
        group(html, "Lag of the client", &[plot::figure(&spectrum), plot::figure(&over_time)]);
    }
}

fn tokens(html: &mut String, test: &Test, of: &series::Test) {
    let spectrum = |title, name: &str, of, judged: &Threshold| {
        plot::figure(&charts::spectrum(title, "time, logarithmic", &[(name, of)], judged, "bound"))
    };
    let first = Threshold::first_token(test);
    let per_token = Threshold::per_token(test);
    group(
        html,
        "Tokens",
        &[
            spectrum("Time to first token", "first token", &of.first_token, &first),
            spectrum("Time per output token", "per token", &of.time_per_output_token, &per_token),
            plot::figure(&charts::tokens_over_time(&of.slices)),
        ],
    );
}

/// Returns two versions of one chart with a switch between them, which works without a script.
fn views([first, second]: &[plot::Chart; 2], id: &str) -> String {
    let (first, second) = (plot::figure(first), plot::figure(second));
    if first.is_empty() {
        return first;
    }
    let choice = |number: u32, name: &str, checked: &str| {
        format!(
            "<input type=\"radio\" name=\"{id}\" id=\"{id}-{number}\"{checked}>\
             <label for=\"{id}-{number}\">{name}</label>"
        )
    };
    let (linear, log) = (choice(1, "linear", " checked"), choice(2, "logarithmic", ""));
    format!("<div class=\"views\">{linear}{log}{first}{second}</div>")
}

fn percentiles(html: &mut String, test: &Test, metrics: &Metrics) {
    let mut columns: Vec<(&str, &Distribution)> = Vec::new();
    match &metrics.query_latency_ns {
        Some(of_queries) => {
            columns.push(("query latency", of_queries));
            columns.push(("sample latency", &metrics.latency_ns));
        }
        None => columns.push(("latency", &metrics.latency_ns)),
    }
    columns.extend(metrics.first_token_ns.as_ref().map(|of| ("first token", of)));
    columns.extend(metrics.time_per_output_token_ns.as_ref().map(|of| ("per output token", of)));
    columns.extend(client_lag(test, metrics).map(|of| ("client lag", of)));
    let heads = ["time", "min", "mean", "p50", "p90", "p95", "p97", "p99", "p99.9", "max"];
    let row = |(name, of): (&str, &Distribution)| -> Vec<String> {
        let percentiles = [
            (50.0, of.p50),
            (90.0, of.p90),
            (95.0, of.p95),
            (97.0, of.p97),
            (99.0, of.p99),
            (99.9, of.p99_9),
        ];
        let mut cells = vec![name.to_owned(), words::time_ns(of.min), words::time_ns(of.mean)];
        cells.extend(percentiles.map(|(at, time)| page::percentile(time as f64, of.count, at)));
        cells.push(words::time_ns(of.max));
        if of.count == 0 {
            cells[1..].fill("–".into());
        }
        cells
    };
    let rows: Vec<Vec<String>> = columns.into_iter().map(row).collect();
    let _ = write!(html, "<h3>Percentiles</h3>{}", page::numbers(&heads, &rows));
}

/// Returns whether a setting is the rate of a load whose answers set the pace.
fn is_unused_rate(name: &str, test: &Test) -> bool {
    let arrivals = test.settings.get("server_arrivals");
    name == "server_target_qps"
        && arrivals.is_some_and(|setting| setting.value.starts_with("concurrency:"))
}

/// Appends the settings of all tests in one table; a setting with the same value in several tests
/// is one row.
pub fn settings_table(html: &mut String, tests: &[Test]) {
    let mut rows: Vec<(&str, &dyno_results::summary::Setting, Vec<String>)> = Vec::new();
    for test in tests {
        let of = name_of(test);
        let is_audited = test.settings.get("test05").is_some_and(|of| of.value == "true");
        for (name, setting) in &test.settings {
            let is_of_run = matches!(&name[..], "scenario" | "mode");
            if is_of_run || !is_relevant_to(name, &test.scenario) || is_unused_rate(name, test) {
                continue;
            }
            // The built-in table has seeds for this audit, which other runs do not use.
            if name.starts_with("test05_") && !is_audited {
                continue;
            }
            match rows.iter_mut().find(|(n, s, _)| n == name && *s == setting) {
                Some((_, _, scenarios)) if scenarios.contains(&of) => {}
                Some((_, _, scenarios)) => scenarios.push(of.clone()),
                None => rows.push((name, setting, vec![of.clone()])),
            }
        }
    }
    rows.sort_by(|a, b| a.0.cmp(b.0));
    let mut all: Vec<String> = tests.iter().map(name_of).collect();
    all.dedup();
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"filtered stack wide\" data-filter=\"settings\"><thead><tr>\
         <th scope=\"col\">setting</th><th scope=\"col\" class=\"n\">value</th>\
         <th scope=\"col\">unit</th><th scope=\"col\">for</th><th scope=\"col\">set by</th>\
         </tr></thead><tbody>\n",
    );
    for (name, setting, scenarios) in rows {
        let is_bound = setting.value != NO_BOUND.to_string();
        let (value, unit) =
            if is_bound { (&setting.value[..], &setting.unit[..]) } else { ("none", "") };
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\"><code>{}</code></th><td class=\"n\" data-label=\"value\">{}</td>\
             <td data-label=\"unit\">{}</td><td data-label=\"for\">{}</td>\
             <td data-label=\"set by\">{}</td></tr>",
            escaped(name),
            escaped(value),
            escaped(unit),
            escaped(&if scenarios == all { "all".into() } else { scenarios.join(", ") }),
            escaped(&setting.origin)
        );
    }
    html.push_str("</tbody></table></div>");
}

/// Returns the scenario of a test, with its tenant if it has one.
fn name_of(test: &Test) -> String {
    match &test.tenant {
        Some(tenant) => format!("{} ({tenant})", test.scenario),
        None => test.scenario.clone(),
    }
}

fn files(html: &mut String, test: &Test, absent: &[String]) {
    let names = [
        "mlperf_log_summary.txt",
        "mlperf_log_detail.txt",
        "mlperf_log_accuracy.json",
        records::FILE,
    ];
    let here = names.iter().filter(|name| !absent.contains(&format!("{}/{name}", test.folder)));
    let links = here.filter_map(|name| {
        // A folder outside the run directory is not linked.
        let link = words::href(&Path::new(&test.folder).join(name))?;
        Some(format!("<a href=\"{link}\">{name}</a>"))
    });
    let links: Vec<String> = links.collect();
    if !links.is_empty() {
        let _ = write!(html, "<p class=\"source\">Files: {}</p>", links.join(", "));
    }
}
