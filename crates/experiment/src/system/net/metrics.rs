//! Metrics pages of servers: where they are, and how often they are read.

use std::time::Duration;

use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::HttpVersion;
use dyno_net::scrape::MetricsPage;
use dyno_net::tls::Trust;
use dyno_results::units::parse_duration;

use super::secrets::without_credentials;
use super::spec_keys::SpecKeys;
use crate::failure::Failure;

/// Metrics pages that are read while a test runs.
#[derive(Debug, Clone)]
pub struct MetricsSource {
    /// Pages; empty if none are read.
    pub pages: Vec<MetricsPage>,
    /// Time between two readings.
    pub interval: Duration,
}

/// Default time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time between two readings: a page may take a server milliseconds.
const SHORTEST: Duration = Duration::from_millis(100);

impl Default for MetricsSource {
    fn default() -> Self {
        Self { pages: Vec::new(), interval: INTERVAL }
    }
}

impl MetricsSource {
    /// Adds the pages of another system that are not yet read.
    pub(super) fn add(&mut self, other: &Self) {
        for page in &other.pages {
            match self.pages.iter_mut().find(|known| known.url() == page.url()) {
                None => self.pages.push(page.clone()),
                // Tenants with models of their own on one server.
                Some(known) if known.model != page.model => known.model = None,
                Some(_) => {}
            }
        }
        self.interval = self.interval.min(other.interval);
    }

    /// Returns the pages with the model under test.
    pub(super) fn for_model(mut self, model: &str) -> Self {
        for page in &mut self.pages {
            page.model = Some(model.to_owned()).filter(|model| !model.is_empty());
        }
        self
    }
}

impl SpecKeys {
    /// Takes the metrics pages: `metrics=URL`, or the usual ones of the nodes if `has_usual`. The fields
    /// of requests, which may be credentials, are sent to the nodes alone.
    ///
    /// # Errors
    /// Invalid values.
    pub fn metrics(
        &mut self,
        nodes: &[Endpoint],
        options: &Options,
        version: HttpVersion,
        has_usual: bool,
    ) -> Result<MetricsSource, Failure> {
        let given = self.all("metrics");
        let interval = match self.text("metrics-interval") {
            None => INTERVAL,
            Some(text) => match parse_duration(&text).map(Duration::from_nanos) {
                Ok(interval) if interval >= SHORTEST => interval,
                Ok(_) => {
                    let why = format!("expected at least 100ms, found `{text}`");
                    return Err(self.wrong("metrics-interval", why));
                }
                Err(error) => return Err(self.wrong("metrics-interval", error)),
            },
        };
        let page = |endpoint: &Endpoint, path: String| {
            let node = nodes.iter().find(|node| node.is_same_origin(endpoint));
            let is_node = node.is_some();
            let fields = if is_node { options.fields.clone() } else { Vec::new() };
            let version = if is_node { version } else { HttpVersion::Http1 };
            // Neither the fingerprint nor the certificate of the client is meant for other servers.
            let trust = if is_node {
                options.trust.clone()
            } else {
                let trust = options.trust.clone();
                Trust { fingerprints: Vec::new(), identity: None, ..trust }
            };
            let endpoint = match node.and_then(Endpoint::signer) {
                Some(signer) => endpoint.origin().signed_by(signer.clone()),
                None => endpoint.origin(),
            };
            let secrets = options.secrets.clone();
            MetricsPage { endpoint, path, version, fields, trust, secrets, model: None }
        };
        let mut source = MetricsSource { pages: Vec::new(), interval };
        if given.is_empty() && has_usual {
            let usual = |node: &Endpoint| page(node, MetricsPage::usual_path(node.path()));
            let pages = nodes.iter().map(usual).collect();
            source.add(&MetricsSource { pages, interval });
        }
        for text in given.iter().filter(|text| *text != "off") {
            let endpoint = text.parse::<Endpoint>().map_err(|error| {
                let shown = without_credentials(text);
                self.wrong("metrics", format!("expected off or a URL: {error}, in `{shown}`"))
            })?;
            if !endpoint.query().is_empty() {
                let why = format!("expected a URL without a query, found `{endpoint}?...`");
                return Err(self.wrong("metrics", why));
            }
            let path = match endpoint.path() {
                "" => "/metrics".to_owned(),
                path => path.to_owned(),
            };
            let pages = vec![page(&endpoint, path)];
            source.add(&MetricsSource { pages, interval });
        }
        Ok(source)
    }
}

/// Returns whether all addresses of a server are those of this machine.
pub(super) fn is_on_this_machine(endpoint: &Endpoint) -> bool {
    // The address of a proxy is not that of the server behind it.
    let addresses = endpoint.proxy().is_none().then(|| endpoint.resolve());
    addresses.and_then(Result::ok).is_some_and(|addresses| {
        addresses.iter().all(|address| address.ip().to_canonical().is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(keys: &str, has_usual: bool) -> Result<MetricsSource, Failure> {
        let nodes = ["http://a:1/v1", "http://b:2/v1"].map(|url| url.parse().unwrap());
        let fields = vec![("authorization".to_owned(), "Bearer x".to_owned())];
        let options = Options { fields, ..Options::default() };
        let mut given = SpecKeys::read("openai", &format!("http://a:1/v1{keys}")).unwrap();
        given.metrics(&nodes, &options, HttpVersion::Http1, has_usual)
    }

    fn urls(source: &MetricsSource) -> Vec<String> {
        source.pages.iter().map(MetricsPage::url).collect()
    }

    #[test]
    fn each_node_has_a_page_unless_others_are_named() {
        let usual = source("", true).unwrap();
        assert_eq!(urls(&usual), ["http://a:1/metrics", "http://b:2/metrics"]);
        assert_eq!(urls(&source("", false).unwrap()), [""; 0]);
        assert_eq!(urls(&source(",metrics=off", true).unwrap()), [""; 0]);
        let named = source(",metrics=http://a:1/m,metrics=http://c:9400,metrics-interval=2s", true);
        let named = named.unwrap();
        assert_eq!(urls(&named), ["http://a:1/m", "http://c:9400/metrics"]);
        assert_eq!(named.interval, Duration::from_secs(2));
    }

    #[test]
    fn credentials_go_to_the_nodes_alone() {
        let named = source(",metrics=http://a:1/m,metrics=http://c:1/m", true).unwrap();
        let counts: Vec<usize> = named.pages.iter().map(|page| page.fields.len()).collect();
        assert_eq!(counts, [1, 0]);
    }

    #[test]
    fn invalid_values_are_refused() {
        for (keys, expected) in [
            (",metrics=on", "expected off or a URL"),
            (",metrics=http://a/m?key=1", "without a query"),
            (",metrics-interval=1ms", "at least 100ms"),
            (",metrics-interval=soon", "metrics-interval"),
        ] {
            let problem = source(keys, true).unwrap_err().problems()[0].clone();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
