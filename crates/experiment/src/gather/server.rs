//! Converts the observation of servers to its parts of the summary and of the series.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use dyno_loadgen::clock::Nanos;
use dyno_net::scrape::{MetricsPage, Reading, ScrapedPage};
use dyno_net::server_metrics::{Quantities, Quantity};
use dyno_net::trouble::printable;
use dyno_results::series::ServerReadings;
use dyno_results::summary::energy::EnergySource;
use dyno_results::summary::server_metrics::{ALL, Gauge};
use dyno_results::summary::{Energy, ServerMetrics, Test};
use dyno_results::units::count;

use crate::observe::energy::{EnergyReadings, joules};
use crate::observe::servers::ServerObservation;
use crate::system::net::MetricsSource;

/// What servers showed during a test.
#[derive(Debug, Default)]
pub struct ServerFindings {
    /// Entries of the summary: one a page, then one for several pages together.
    pub servers: Vec<ServerMetrics>,
    /// Entries of the series, one a page.
    pub series: Vec<ServerReadings>,
    /// Energy; `None` of an accuracy test.
    pub energy: Option<Energy>,
    /// Remarks on several models, and on tokens that the servers counted differently.
    pub notes: Vec<String>,
}

/// The run that the figures are of.
#[derive(Debug, Clone, Copy)]
pub struct ObservedRun<'a> {
    /// Start by the clock of the observation, ns.
    pub began: Nanos,
    /// Tests of the tenants, at least one.
    pub tests: &'a [&'a Test],
}

impl ObservedRun<'_> {
    /// Returns the time from the start until the last answer of all tenants, ns.
    fn lasted(&self) -> Nanos {
        let lasted = |test: &&Test| test.metrics.as_ref().map(|metrics| metrics.lasted_ns);
        self.tests.iter().filter_map(lasted).max().unwrap_or(0)
    }

    /// Returns the output tokens of all answers; `None` if those of a tenant were not counted.
    fn tokens(&self) -> Option<f64> {
        let tokens = |test: &&Test| test.metrics.as_ref()?.token_count;
        let all: Option<i64> = self.tests.iter().map(tokens).sum();
        all.filter(|&tokens| tokens > 0).map(|tokens| tokens as f64)
    }

    fn answered(&self) -> f64 {
        let answered = |test: &&Test| test.metrics.as_ref().map(|metrics| metrics.sample_count);
        self.tests.iter().filter_map(answered).sum::<u64>() as f64
    }
}

/// Returns what an observation shows of a run.
pub fn findings(observation: &ServerObservation, run: ObservedRun<'_>) -> ServerFindings {
    // An accuracy test has no figures, and all readings since its start are of it.
    let ended = Some(run.lasted()).filter(|lasted| *lasted > 0);
    let (began, ended) = (run.began, ended.map_or(Nanos::MAX, |lasted| run.began + lasted));
    let mut found = ServerFindings::default();
    let (scenario, mode) = (&run.tests[0].scenario, &run.tests[0].mode);
    for page in &observation.pages {
        found.servers.push(metrics_of(page, began, ended));
        if page.readings.iter().any(|reading| !reading.found.values.is_empty()) {
            found.series.push(series_of(page, began));
        }
    }
    if found.series.len() > 1 {
        found.servers.push(together(&found.servers, &observation.pages, began, ended));
    }
    for server in &mut found.servers {
        (server.scenario, server.mode) = (scenario.clone(), mode.clone());
    }
    for series in &mut found.series {
        (series.scenario, series.mode) = (scenario.clone(), mode.clone());
    }
    found.energy = energy(observation, &found.servers, run);
    // Without the page of a node its tokens are not in the sum.
    let is_whole = found.series.len() == observation.pages.len();
    let all = found.servers.last().filter(|_| is_whole);
    let counted = all.and_then(|all| all.counters.get(COUNTED));
    let models = models(&observation.pages);
    let other_count =
        counted.zip(run.tokens()).and_then(|(theirs, ours)| other_count(*theirs, ours));
    found.notes = models.into_iter().chain(other_count).collect();
    found
}

/// Returns a remark if values of several models are combined.
fn models(pages: &[ScrapedPage]) -> Option<String> {
    let models = pages.iter().flat_map(|page| &page.readings).flat_map(|r| &r.found.models);
    let models: BTreeSet<Cow<'_, str>> = models.map(|model| printable(model)).collect();
    let more = models.len().saturating_sub(MOST_MODELS);
    let more = (more > 0).then(|| Cow::from(format!("and {more} more")));
    (!models.is_empty()).then(|| {
        format!(
            "The figures of the metrics pages combine several models: {}.",
            models.into_iter().take(MOST_MODELS).chain(more).collect::<Vec<_>>().join(", ")
        )
    })
}

/// Maximum number of models that a remark names.
const MOST_MODELS: usize = 100;

/// Returns that the pages were not read, because remote workers issue the load.
pub fn unread(source: &MetricsSource, run: ObservedRun<'_>) -> ServerFindings {
    let absent = |page: &MetricsPage| ServerMetrics {
        scenario: run.tests[0].scenario.clone(),
        mode: run.tests[0].mode.clone(),
        page: page.url(),
        interval_ns: u64::try_from(source.interval.as_nanos()).unwrap_or(u64::MAX),
        absent: Some("it is not read with remote workers".into()),
        ..ServerMetrics::default()
    };
    let servers = source.pages.iter().map(absent).collect();
    ServerFindings { servers, ..ServerFindings::default() }
}

const COUNTED: &str = "generated_tokens";
/// Differences of counts up to this share are not reported.
const SAME_COUNT: f64 = 0.01;

/// Returns a remark if the servers counted other output tokens than the answers hold.
fn other_count(theirs: f64, ours: f64) -> Option<String> {
    ((theirs - ours).abs() > SAME_COUNT * ours).then(|| {
        format!(
            "The server's own counter grew by {} output tokens during the test; its answers hold \
             {}. Possible causes: requests that are not measured (of a ramp, cancelled, failed or \
             aborted), other clients, and a different way to count.",
            count(theirs.max(0.0).round() as u64),
            count(ours.round() as u64)
        )
    })
}

/// Returns the readings during a run, and the last one before it with the last one of all: a server may
/// count an answer after it was sent.
fn around(page: &ScrapedPage, began: Nanos, ended: Nanos) -> (&[Reading], Option<[&Reading; 2]>) {
    let first = page.readings.partition_point(|reading| reading.at < began);
    let end = page.readings.partition_point(|reading| reading.at <= ended);
    let before = page.readings.get(first.saturating_sub(1));
    let after = page.readings.last();
    (&page.readings[first..end.max(first)], before.zip(after).map(|(a, b)| [a, b]))
}

fn metrics_of(page: &ScrapedPage, began: Nanos, ended: Nanos) -> ServerMetrics {
    let (during, around) = around(page, began, ended);
    let covers = around.is_some_and(|[a, b]| {
        a.at <= began && a.at < b.at && (b.at >= ended || ended == Nanos::MAX)
    });
    let counters = match around {
        Some([a, b]) if covers && !has_restarted(page, a.at) => growth(&a.found, &b.found),
        _ => BTreeMap::new(),
    };
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (quantity, value) in during.iter().flat_map(|reading| &reading.found.values) {
        if !quantity.is_counter() {
            values.entry(quantity.name()).or_default().push(*value);
        }
    }
    let mut gauges: BTreeMap<String, Gauge> = values
        .into_iter()
        .filter_map(|(name, values)| Some((name.to_owned(), gauge(&values)?)))
        .collect();
    // Sizes and shares that servers only count.
    let derived = [
        ("batch_size", "batch_size_sum", "batches"),
        ("prefix_hit_ratio", "prefix_hits", "prefix_queries"),
    ];
    for (name, part, whole) in derived {
        let ratios = ratios(during, part, whole);
        let mean = counters.get(part).zip(counters.get(whole)).filter(|(_, whole)| **whole > 0.0);
        if let (Some((part, whole)), Some(seen), None) = (mean, gauge(&ratios), gauges.get(name)) {
            gauges.insert(name.into(), Gauge { mean: part / whole, ..seen });
        }
    }
    let mut servers: Vec<String> = Vec::new();
    for server in page.readings.iter().flat_map(|reading| &reading.found.servers) {
        if !servers.iter().any(|known| known == server) {
            servers.push((*server).to_owned());
        }
    }
    ServerMetrics {
        page: page.url.clone(),
        servers,
        interval_ns: page.interval,
        readings: during.len() as u64,
        failed_readings: page.failures,
        malformed_lines: page.malformed_lines,
        absent: page.first_failure.clone(),
        gauges,
        counters,
        ..ServerMetrics::default()
    }
}

fn gauge(values: &[f64]) -> Option<Gauge> {
    let last = *values.last()?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(Gauge { mean, max: values.iter().copied().fold(f64::MIN, f64::max), last })
}

/// Returns whether a counter fell, or appeared, between readings from this time on: how much was counted
/// is unknown then.
fn has_restarted(page: &ScrapedPage, from: Nanos) -> bool {
    let readings = &page.readings[page.readings.partition_point(|reading| reading.at < from)..];
    readings.windows(2).any(|pair| {
        let mut now = pair[1].found.values.iter().filter(|(quantity, _)| quantity.is_counter());
        now.any(|(quantity, now)| {
            let then = pair[0].found.values.get(quantity).copied();
            *now < then.unwrap_or(0.0) || then.is_none() && *now > 0.0
        })
    })
}

/// Returns by how much counters grew that both have.
fn growth(before: &Quantities, after: &Quantities) -> BTreeMap<String, f64> {
    let grown = |(quantity, now): (&Quantity, &f64)| {
        let then = before.values.get(quantity).filter(|then| *then <= now)?;
        quantity.is_counter().then(|| (quantity.name().to_owned(), now - then))
    };
    after.values.iter().filter_map(grown).collect()
}

/// Returns the growth of one counter per growth of another between neighboring readings.
fn ratios(readings: &[Reading], part: &str, whole: &str) -> Vec<f64> {
    let ratio = |pair: &[Reading]| {
        let grown = growth(&pair[0].found, &pair[1].found);
        let (part, whole) = (grown.get(part)?, grown.get(whole)?);
        (*whole > 0.0).then(|| part / whole)
    };
    readings.windows(2).filter_map(ratio).collect()
}

/// Returns the entry for several pages together. The largest sum is that at the readings of the first
/// page, with the nearest readings of the others before them.
fn together(
    each: &[ServerMetrics],
    pages: &[ScrapedPage],
    began: Nanos,
    ended: Nanos,
) -> ServerMetrics {
    let mut all = ServerMetrics { page: ALL.into(), ..ServerMetrics::default() };
    for server in each {
        let new: Vec<String> =
            server.servers.iter().filter(|name| !all.servers.contains(name)).cloned().collect();
        all.servers.extend(new);
        all.interval_ns = all.interval_ns.max(server.interval_ns);
        all.readings += server.readings;
        all.failed_readings += server.failed_readings;
        all.malformed_lines += server.malformed_lines;
        for (name, grown) in &server.counters {
            *all.counters.entry(name.clone()).or_default() += grown;
        }
    }
    // The sum of a counter whose growth on one page is unknown is unknown, too.
    all.counters.retain(|name, _| {
        each.iter().zip(pages).all(|(server, page)| {
            let mut seen = page.readings.iter().flat_map(|reading| reading.found.values.keys());
            server.counters.contains_key(name) || !seen.any(|quantity| quantity.name() == name)
        })
    });
    let reads = pages.iter().filter(|page| !page.readings.is_empty());
    let reads: Vec<&ScrapedPage> = reads.collect();
    let Some((first, _)) = reads.split_first() else { return all };
    let held = |at: Nanos| {
        let latest = |page: &&ScrapedPage| {
            let after = page.readings.partition_point(|reading| reading.at <= at);
            after.checked_sub(1).map(|at| page.readings[at].found.clone())
        };
        Quantities::together(&reads.iter().filter_map(latest).collect::<Vec<_>>())
    };
    let (during, _) = around(first, began, ended);
    let sums: Vec<Quantities> = during.iter().map(|reading| held(reading.at)).collect();
    for quantity in Quantity::ALL.into_iter().filter(|quantity| !quantity.is_counter()) {
        let values = sums.iter().filter_map(|all| all.values.get(&quantity)).copied();
        if let Some(gauge) = gauge(&values.collect::<Vec<f64>>()) {
            all.gauges.insert(quantity.name().into(), gauge);
        }
    }
    all
}

fn series_of(page: &ScrapedPage, began: Nanos) -> ServerReadings {
    let known = |quantity: &Quantity| {
        page.readings.iter().any(|reading| reading.found.values.contains_key(quantity))
    };
    let column = |quantity: Quantity| {
        let value = |reading: &Reading| reading.found.values.get(&quantity).copied();
        (quantity.name().to_owned(), page.readings.iter().map(value).collect())
    };
    ServerReadings {
        page: page.url.clone(),
        at_ns: page.readings.iter().map(|r| r.at.cast_signed() - began.cast_signed()).collect(),
        took_ns: page.readings.iter().map(|reading| reading.took).collect(),
        values: Quantity::ALL.into_iter().filter(known).map(column).collect(),
        ..ServerReadings::default()
    }
}

/// Returns the energy that was read: of this machine, and of accelerators by the metrics pages.
fn energy(
    observation: &ServerObservation,
    servers: &[ServerMetrics],
    run: ObservedRun<'_>,
) -> Option<Energy> {
    let (began, lasted) = (run.began, run.lasted());
    let Test { scenario, mode, .. } = run.tests[0];
    let (scenario, mode) = (scenario.clone(), mode.clone());
    let mut found = Energy { scenario, mode, ..Energy::default() };
    let source = |name: &str, of: &str, joules: f64| EnergySource {
        name: name.into(),
        of: of.into(),
        joules,
        watts: joules / (lasted.max(1) as f64 / 1e9),
        joules_per_token: run.tokens().map(|tokens| joules / tokens),
        joules_per_request: Some(run.answered()).filter(|n| *n > 0.0).map(|n| joules / n),
    };
    if lasted == 0 {
        return None;
    }
    match &observation.energy {
        None => found.absent.push(
            "the energy of this machine is not read, because the server runs on another \
                 machine"
                .into(),
        ),
        Some(EnergyReadings { absent, .. }) => found.absent.extend(absent.iter().cloned()),
    }
    let own = observation.energy.as_ref();
    if let Some(rapl) = own.and_then(|own| own.rapl_joules(began, began + lasted)) {
        found.sources.push(source("RAPL", "processors of this machine, client included", rapl));
    }
    if let Some(watts) = own.and_then(|own| own.gpu_watts(began, began + lasted)) {
        let joules = joules(watts, lasted);
        found.sources.push(source("nvidia-smi", "accelerators of this machine", joules));
    }
    for server in servers.iter().filter(|server| server.page != ALL) {
        // The counter covers the time between the readings around the run.
        if let Some(joules) = server.counters.get("joules") {
            found.sources.push(source(&server.servers.join(", "), &server.page, *joules));
        } else if let Some(watts) = server.gauges.get("watts") {
            let joules = joules(watts.mean, lasted);
            found.sources.push(source(&server.servers.join(", "), &server.page, joules));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::SECOND;

    use super::*;

    fn page(url: &str, readings: &[(Nanos, &[(Quantity, f64)])]) -> ScrapedPage {
        let reading = |(at, values): &(Nanos, &[(Quantity, f64)])| {
            let values = values.iter().copied().collect();
            let found = Quantities { servers: vec!["vLLM"], values, models: BTreeSet::new() };
            Reading { at: *at * SECOND, took: 1, found }
        };
        ScrapedPage {
            url: url.into(),
            interval: SECOND,
            readings: readings.iter().map(reading).collect(),
            failures: 0,
            first_failure: None,
            malformed_lines: 0,
            oddity: None,
        }
    }

    use Quantity::{BatchSizeSum, Batches, GeneratedTokens, KvCacheUse, Waiting};

    #[test]
    fn a_remark_names_the_first_of_many_models() {
        let mut page = page("a", &[(1, &[])]);
        page.readings[0].found.models = (100..250).map(|n| format!("m{n}")).collect();
        let remark = models(&[page]).unwrap();
        assert!(remark.ends_with(" m198, m199, and 50 more."), "{remark}");
    }

    #[test]
    fn gauges_are_those_of_the_run_and_counters_reach_around_it() {
        let page = page(
            "a",
            &[
                (9, &[(Waiting, 99.0), (GeneratedTokens, 1_000.0)]),
                (10, &[(Waiting, 1.0), (GeneratedTokens, 1_000.0)]),
                (11, &[(Waiting, 4.0), (GeneratedTokens, 1_500.0)]),
                (13, &[(Waiting, 88.0), (GeneratedTokens, 1_800.0)]),
            ],
        );
        let found = metrics_of(&page, 10 * SECOND, 12 * SECOND);
        assert_eq!(found.readings, 2);
        assert_eq!(found.gauges["waiting"], Gauge { mean: 2.5, max: 4.0, last: 4.0 });
        assert_eq!(found.counters["generated_tokens"], 800.0);
        let series = series_of(&page, 10 * SECOND);
        assert_eq!(series.at_ns[0], -1_000_000_000);
        assert_eq!(series.values["waiting"].len(), 4);
    }

    #[test]
    fn sizes_of_batches_come_of_counters() {
        let page = page(
            "a",
            &[
                (0, &[(BatchSizeSum, 100.0), (Batches, 50.0)]),
                (1, &[(BatchSizeSum, 110.0), (Batches, 60.0)]),
                (2, &[(BatchSizeSum, 150.0), (Batches, 70.0)]),
            ],
        );
        let size = metrics_of(&page, 0, 2 * SECOND).gauges["batch_size"];
        assert_eq!(size, Gauge { mean: 2.5, max: 4.0, last: 4.0 });
    }

    #[test]
    fn counters_that_restart_or_do_not_cover_the_run_have_no_growth() {
        let counted = |readings: &[(u64, f64)]| {
            let values: Vec<_> =
                readings.iter().map(|(at, tokens)| (*at, [(GeneratedTokens, *tokens)])).collect();
            let readings: Vec<(u64, &[(Quantity, f64)])> =
                values.iter().map(|(at, values)| (*at, &values[..])).collect();
            metrics_of(&page("a", &readings), SECOND, 8 * SECOND).counters.get(COUNTED).copied()
        };
        assert_eq!(counted(&[(0, 900.0), (5, 950.0), (9, 960.0)]), Some(60.0));
        // The server was started anew, once with more tokens at its end than before.
        assert_eq!(counted(&[(0, 900.0), (9, 30.0)]), None);
        assert_eq!(counted(&[(0, 900.0), (5, 30.0), (9, 1_000.0)]), None);
        // Readings failed before or after the run.
        assert_eq!(counted(&[(0, 900.0), (5, 950.0)]), None);
        assert_eq!(counted(&[(5, 950.0), (9, 960.0)]), None);
    }

    #[test]
    fn several_pages_are_added_at_the_same_times() {
        let pages = [
            page("a", &[(1, &[(Waiting, 1.0), (KvCacheUse, 0.2)]), (3, &[(Waiting, 3.0)])]),
            page("b", &[(2, &[(Waiting, 10.0), (KvCacheUse, 0.4)]), (4, &[(Waiting, 0.0)])]),
        ];
        let each = pages.each_ref().map(|page| metrics_of(page, 0, 9 * SECOND));
        let all = together(&each, &pages, 0, 9 * SECOND);
        assert_eq!(all.gauges["waiting"], Gauge { mean: 7.0, max: 13.0, last: 13.0 });
        assert_eq!((all.page, all.readings, all.servers), (ALL.into(), 4, vec!["vLLM".into()]));
    }

    #[test]
    fn counts_of_tokens_that_differ_are_told() {
        assert_eq!(other_count(1_009.0, 1_000.0), None);
        let note = other_count(1_500.0, 1_000.0).unwrap();
        assert!(note.contains("grew by 1,500") && note.contains("hold 1,000"), "{note}");
    }
}
