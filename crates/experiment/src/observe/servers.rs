//! Observes servers while a test runs: their metrics pages, and the energy of this machine if they run
//! here.

use dyno_loadgen::clock::Clock;
use dyno_net::scrape::{ScrapedPage, Scraper};
use dyno_net::server_metrics::{Quantities, Quantity};
use dyno_results::summary::server_metrics;

use super::energy::{EnergyMeter, EnergyReadings};
use crate::system::net::Remote;

/// A running observation of the servers of a test.
#[derive(Debug)]
pub struct ServerObserver {
    scraper: Scraper,
    /// `None` if a server runs on another machine.
    meter: Option<EnergyMeter>,
}

/// Observation of the servers of a test, by the clock of its [`super::Heart`].
#[derive(Debug, Default)]
pub struct ServerObservation {
    /// Metrics pages.
    pub pages: Vec<ScrapedPage>,
    /// Energy of this machine; `None` if a server runs on another one.
    pub energy: Option<EnergyReadings>,
}

impl ServerObserver {
    /// Reads each page once, and starts to observe.
    pub fn begin(remote: &Remote, clock: Clock) -> Self {
        let source = &remote.metrics;
        let scraper = Scraper::begin(&source.pages, source.interval, clock);
        Self { scraper, meter: remote.is_local.then(|| EnergyMeter::begin(clock)) }
    }

    /// Returns the latest values of all servers together in words, such as `8 running, 3 waiting`; empty
    /// if nothing is known.
    pub fn words(&self) -> String {
        words(&self.scraper.latest())
    }

    /// Ends the observation.
    pub fn end(self) -> ServerObservation {
        let energy = self.meter.map(EnergyMeter::end);
        ServerObservation { pages: self.scraper.end(), energy }
    }
}

fn words(latest: &Quantities) -> String {
    let shown = [
        (Quantity::Running, "", " running"),
        (Quantity::Waiting, "", " waiting"),
        (Quantity::BatchSize, "batch ", ""),
        (Quantity::KvCacheUse, "KV ", ""),
    ];
    let part = |(quantity, before, after): &(Quantity, &str, &str)| {
        let value = server_metrics::value(quantity.name(), *latest.values.get(quantity)?);
        Some(format!("{before}{value}{after}"))
    };
    let parts: Vec<String> = shown.iter().filter_map(part).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_values_are_a_few_words() {
        let values = [
            (Quantity::Waiting, 3.0),
            (Quantity::Running, 8.0),
            (Quantity::KvCacheUse, 0.4136),
            (Quantity::PromptTokens, 1e6),
        ];
        let latest =
            Quantities { servers: vec!["vLLM"], values: values.into(), ..Quantities::default() };
        assert_eq!(words(&latest), "8 running, 3 waiting, KV 41.4 %");
        assert_eq!(words(&Quantities::default()), "");
    }
}
