//! Values of the servers' own metrics pages beside the compared metrics. They are not judged: nothing is
//! known of their spread, and other clients of a server are part of them.

use std::collections::BTreeMap;

use dyno_results::summary::{self, server_metrics};

use super::compared_run::ComparedTest;

/// A quantity of the servers on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerRow {
    /// Quantity, such as `waiting`.
    pub quantity: String,
    /// Means over the runs of the baseline and of the candidate.
    pub values: [f64; 2],
}

impl ServerRow {
    /// Returns the cells of a table: the name, both values, and that they are not judged.
    pub fn cells(&self) -> [String; 6] {
        let labels = server_metrics::GAUGES.iter();
        let label =
            labels.clone().find(|(name, _)| *name == self.quantity).map(|(_, label)| *label);
        let [a, b] = self.values.map(|value| server_metrics::value(&self.quantity, value));
        let name = format!("server: {}", label.unwrap_or(&self.quantity));
        [name, a, b, String::new(), String::new(), "not judged".into()]
    }
}

/// Returns the mean of each gauge of a test, over all pages.
pub fn of_test(run: &summary::Run, test: &summary::Test) -> BTreeMap<String, f64> {
    let is_own = |page: &&summary::ServerMetrics| {
        (&page.scenario, &page.mode) == (&test.scenario, &test.mode) && !page.gauges.is_empty()
    };
    // The entry for all pages is the last one.
    let last = run.servers.iter().rfind(is_own);
    let gauges = last.into_iter().flat_map(|page| &page.gauges);
    gauges.map(|(name, gauge)| (name.clone(), gauge.mean)).collect()
}

/// Returns the quantities that all runs of both sides have.
pub fn rows(baseline: &[ComparedTest], candidate: &[ComparedTest]) -> Vec<ServerRow> {
    let mean = |tests: &[ComparedTest], quantity: &str| {
        let values: Option<Vec<f64>> =
            tests.iter().map(|test| test.server.get(quantity).copied()).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len().max(1) as f64)
    };
    let row = |(quantity, _): &(&str, &str)| {
        let values = [mean(baseline, quantity)?, mean(candidate, quantity)?];
        Some(ServerRow { quantity: (*quantity).to_owned(), values })
    };
    server_metrics::GAUGES.iter().filter_map(row).collect()
}
