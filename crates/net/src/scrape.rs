//! Reads the metrics pages of servers while a test runs, each on a thread of its own, away from the
//! threads that issue and read.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use dyno_loadgen::clock::{Clock, Nanos};

use crate::ask::{HttpAnswer, ServerQuery};
use crate::endpoint::Endpoint;
use crate::exchange::{HttpVersion, Method, Request};
use crate::exposition::{Exposition, Sample};
use crate::secrets::hide;
use crate::server_metrics::Quantities;
use crate::tls::Trust;
use crate::trouble::Trouble;

/// A metrics page.
#[derive(Debug, Clone)]
pub struct MetricsPage {
    /// Server; its own path is not used.
    pub endpoint: Endpoint,
    /// Path of the page, such as `/metrics`.
    pub path: String,
    /// HTTP version.
    pub version: HttpVersion,
    /// Fields of the request, such as `authorization`.
    pub fields: Vec<(String, String)>,
    /// How the server is verified.
    pub trust: Trust,
    /// Secrets of the request beside `fields`, which no message repeats.
    pub secrets: Vec<String>,
    /// Model under test, whose values count on a page of several models.
    pub model: Option<String>,
}

/// What was read of a page during a test.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrapedPage {
    /// URL of the page.
    pub url: String,
    /// Time between two readings, ns.
    pub interval: Nanos,
    /// Readings in order. The first one precedes the test, and the last one follows its end.
    pub readings: Vec<Reading>,
    /// Readings that failed.
    pub failures: u64,
    /// Why the first of them failed, or why the page is not read: there is none, or it has no known
    /// metric.
    pub first_failure: Option<String>,
    /// Lines that could not be read, of all readings.
    pub malformed_lines: u64,
    /// What is odd about the first reading that has lines or values of no use, such as
    /// `1 line cannot be read (line 3: expected a value)`.
    pub oddity: Option<String>,
}

/// The known quantities of a page at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Middle between request and answer, by the clock of the scraper, ns.
    pub at: Nanos,
    /// Time from the request to the whole answer, ns.
    pub took: Nanos,
    /// Known quantities.
    pub found: Quantities,
}

/// Time limit of a reading.
const LIMIT: Duration = Duration::from_secs(2);
/// Most readings that are kept. When there are more, every second one is dropped and the interval is
/// doubled.
const MOST_READINGS: usize = 1 << 15;

/// Readers of pages, one thread each.
#[derive(Debug)]
pub struct Scraper {
    readers: Vec<PageReader>,
}

#[derive(Debug)]
struct PageReader {
    url: String,
    latest: Arc<Mutex<Option<Quantities>>>,
    /// Dropped to end the thread.
    running: mpsc::Sender<()>,
    thread: JoinHandle<ScrapedPage>,
}

impl Scraper {
    /// Reads each page once and returns; readers of pages that have known metrics go on. `clock` gives
    /// the times of readings. A page whose reader cannot be started is not read.
    #[must_use]
    pub fn begin(pages: &[MetricsPage], interval: Duration, clock: Clock) -> Self {
        let start = |page: &MetricsPage| {
            let (url, latest) = (page.url(), Arc::new(Mutex::new(None)));
            let (running, is_over) = mpsc::channel::<()>();
            let (began, has_begun) = mpsc::channel::<()>();
            let (page, shared) = (page.clone(), Arc::clone(&latest));
            let thread = std::thread::Builder::new()
                .name("metrics".into())
                .spawn(move || page.read_until(&is_over, interval, clock, &shared, began));
            Some((PageReader { url, latest, running, thread: thread.ok()? }, has_begun))
        };
        let started: Vec<_> = pages.iter().filter_map(start).collect();
        let readers = started.into_iter().map(|(reader, has_begun)| {
            // It is dropped when the page was read, or could not be.
            let _ = has_begun.recv();
            reader
        });
        Self { readers: readers.collect() }
    }

    /// Returns the latest quantities of all pages together: sums, and means of shares and sizes.
    pub fn latest(&self) -> Quantities {
        let of = |reader: &PageReader| {
            reader.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        Quantities::together(&self.readers.iter().filter_map(of).collect::<Vec<_>>())
    }

    /// Reads each page a last time and returns all readings.
    pub fn end(self) -> Vec<ScrapedPage> {
        let stop = |reader: PageReader| (reader.url, reader.running, reader.thread);
        let stopped: Vec<_> = self.readers.into_iter().map(stop).collect();
        let threads: Vec<_> = stopped.into_iter().map(|(url, _, thread)| (url, thread)).collect();
        let join = |(url, thread): (String, JoinHandle<ScrapedPage>)| {
            // A panic was already reported on standard error.
            thread.join().unwrap_or_else(|_| ScrapedPage {
                first_failure: Some("the reading thread panicked".into()),
                ..ScrapedPage::unread(url, 0)
            })
        };
        threads.into_iter().map(join).collect()
    }
}

impl ScrapedPage {
    fn unread(url: String, interval: Nanos) -> Self {
        let (readings, failures) = (Vec::new(), 0);
        let (first_failure, oddity) = (None, None);
        Self { url, interval, readings, failures, first_failure, malformed_lines: 0, oddity }
    }

    /// Adds a reading of a page, without secrets that its names repeat. Returns its quantities if it
    /// succeeded.
    fn add(
        &mut self,
        read: Result<(Bytes, Nanos, Nanos), String>,
        source: &MetricsPage,
    ) -> Option<&Quantities> {
        let (body, at, took) = match read {
            Ok(read) => read,
            Err(why) => {
                self.failures += 1;
                self.first_failure.get_or_insert(why);
                return None;
            }
        };
        let text = String::from_utf8_lossy(&body);
        let page = Exposition::parse(&text);
        self.malformed_lines += page.malformed as u64;
        if self.oddity.is_none() {
            let why = oddity(&page);
            self.oddity = why.map(|why| hide(&why, &source.fields, &source.secrets));
        }
        let mut found = Quantities::from_page(&page, source.model.as_deref());
        let names = found.models.iter();
        found.models = names.map(|name| hide(name, &source.fields, &source.secrets)).collect();
        self.readings.push(Reading { at, took, found });
        if self.readings.len() > MOST_READINGS {
            let mut number = 0;
            self.readings.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.interval *= 2;
        }
        self.readings.last().map(|reading| &reading.found)
    }
}

/// Returns which lines and values of a page are of no use; `None` if there are none.
fn oddity(page: &Exposition<'_>) -> Option<String> {
    if let Some(first) = &page.first_malformed {
        let lines = if page.malformed == 1 { "line" } else { "lines" };
        return Some(format!("{} {lines} cannot be read ({first})", page.malformed));
    }
    let is_odd = |sample: &&Sample<'_>| !sample.value.is_finite();
    let first = page.samples.iter().find(is_odd)?;
    let (odd, all) = (page.samples.iter().filter(is_odd).count(), page.samples.len());
    Some(format!("{odd} of its {all} values are no finite numbers, such as {:?}", first.name))
}

impl MetricsPage {
    /// Returns the URL, without credentials.
    pub fn url(&self) -> String {
        format!("{}{}", self.endpoint.origin(), self.path)
    }

    /// Returns the usual path of the page of a server whose requests begin with `path`: `/metrics` beside
    /// `/v1` or `/v2`.
    pub fn usual_path(path: &str) -> String {
        let before = ["/v1", "/v2"].iter().filter_map(|version| path.find(version)).min();
        format!("{}/metrics", &path[..before.unwrap_or(path.len())])
    }

    /// Reads the page until the end.
    fn read_until(
        &self,
        is_over: &mpsc::Receiver<()>,
        interval: Duration,
        clock: Clock,
        latest: &Mutex<Option<Quantities>>,
        began: mpsc::Sender<()>,
    ) -> ScrapedPage {
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(Nanos::MAX);
        let mut scraped = ScrapedPage::unread(self.url(), interval);
        let share = |found: Option<&Quantities>| {
            *latest.lock().unwrap_or_else(PoisonError::into_inner) = found.cloned();
        };
        let found = scraped.add(self.read(clock), self);
        let has_known = found.is_some_and(|found| !found.values.is_empty());
        share(found);
        drop(began);
        if !has_known {
            if scraped.first_failure.is_none() {
                let why = scraped.oddity.as_ref().map(|why| format!(": {why}"));
                let why = why.unwrap_or_default();
                scraped.first_failure =
                    Some(format!("the page has no metric that Dyno knows{why}"));
            }
            return scraped;
        }
        let mut due = clock.now() + scraped.interval;
        loop {
            let left = Duration::from_nanos(due.saturating_sub(clock.now()));
            let waited = is_over.recv_timeout(left);
            let found = scraped.add(self.read(clock), self);
            share(found);
            if waited != Err(RecvTimeoutError::Timeout) {
                return scraped;
            }
            // A slow page is read less often, and never twice at once.
            due = (due + scraped.interval).max(clock.now());
        }
    }

    /// Returns the page, the middle of its request and answer, and the time between them.
    fn read(&self, clock: Clock) -> Result<(Bytes, Nanos, Nanos), String> {
        let began = clock.now();
        let words = |trouble: Trouble| hide(&trouble.words, &self.fields, &self.secrets);
        let mut answer = self.ask(&self.path).map_err(words)?;
        // vLLM and others redirect to the path with a slash at the end.
        let location = answer.location().filter(|_| (300..400).contains(&answer.status));
        if let Some(path) = location.and_then(|location| self.own_path(&location)) {
            answer = self.ask(&path).map_err(words)?;
        }
        if answer.status != 200 {
            return Err(format!("HTTP status {}", answer.status));
        }
        let took = clock.now() - began;
        Ok((Bytes::copy_from_slice(answer.body()), began + took / 2, took))
    }

    fn ask(&self, path: &str) -> Result<HttpAnswer, Trouble> {
        let query = ServerQuery {
            endpoint: &self.endpoint.origin(),
            version: self.version,
            fields: &self.fields,
            trust: &self.trust,
            secrets: &self.secrets,
            limit: LIMIT,
        };
        query.exchange(&Request {
            method: Method::Get,
            path: path.to_owned(),
            fields: vec![("accept", ACCEPT.into())],
            body: Bytes::new(),
        })
    }

    /// Returns the path of a redirection that stays on the server.
    fn own_path(&self, location: &str) -> Option<String> {
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(location.to_owned());
        }
        let target = location.parse::<Endpoint>().ok();
        let target = target.filter(|target| target.is_same_origin(&self.endpoint))?;
        let slash = if location.ends_with('/') { "/" } else { "" };
        Some(format!("{}{slash}", target.path()))
    }
}

const ACCEPT: &str = "text/plain; version=0.0.4, text/plain; q=0.5, */*; q=0.1";

#[cfg(test)]
mod tests {
    use super::*;

    fn page(url: &str) -> MetricsPage {
        let endpoint: Endpoint = url.parse().unwrap();
        let path = MetricsPage::usual_path(endpoint.path());
        let (version, trust) = (HttpVersion::Http1, Trust::default());
        let (fields, secrets) = (Vec::new(), Vec::new());
        MetricsPage { endpoint, path, version, fields, trust, secrets, model: None }
    }

    #[test]
    fn lines_and_values_of_no_use_are_named() {
        let of = |text: &str| oddity(&Exposition::parse(text));
        assert_eq!(of("queue 3\n"), None);
        let nan = of("queue NaN\nruns 3\n").unwrap();
        assert_eq!(nan, "1 of its 2 values are no finite numbers, such as \"queue\"");
        assert!(of("queue\nruns 3\n").unwrap().starts_with("1 line cannot be read (line 1: "));
    }

    #[test]
    fn the_page_lies_beside_the_version_of_the_interface() {
        for (url, expected) in [
            ("http://a:8000/v1", "http://a:8000/metrics"),
            ("http://a:8000", "http://a:8000/metrics"),
            ("https://a/gateway/v1/", "https://a/gateway/metrics"),
            ("http://a/proxy", "http://a/proxy/metrics"),
        ] {
            assert_eq!(page(url).url(), expected);
        }
    }

    /// The live view shows the quantities that `add` returns, and the summary those that it keeps.
    #[test]
    fn names_of_models_are_read_without_secrets() {
        let source = MetricsPage {
            fields: vec![("authorization".into(), "Bearer token-0815".into())],
            secrets: vec!["sesame-4711".into()],
            ..page("http://a:8000/v1")
        };
        let body = "vllm:num_requests_running{model_name=\"a-sesame-4711\"} 1\n\
                    vllm:num_requests_running{model_name=\"b-token-0815\"} 2\n\
                    vllm:num_requests_running{model_name=\"c\"} 3\n";
        let mut scraped = ScrapedPage::unread(source.url(), 0);
        let read = Ok((Bytes::from_static(body.as_bytes()), 0, 0));
        let shown = scraped.add(read, &source).cloned().unwrap();
        assert_eq!(shown.models.iter().collect::<Vec<_>>(), ["a-***", "b-***", "c"]);
        assert_eq!(scraped.readings[0].found, shown);
    }

    #[test]
    fn redirections_are_followed_on_the_same_server_alone() {
        let page = page("http://a:8000/v1");
        for (location, expected) in [
            ("/metrics/", Some("/metrics/")),
            ("http://a:8000/metrics/", Some("/metrics/")),
            ("http://b:8000/metrics/", None),
            ("//b/metrics/", None),
            ("https://a:8000/metrics/", None),
        ] {
            assert_eq!(page.own_path(location).as_deref(), expected, "{location}");
        }
    }
}
