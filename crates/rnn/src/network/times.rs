//! Timing of the nodes of a network.

use std::time::Duration;

use dyno_kernels::Team;

use super::engine::{CallError, Feed, NetworkEngine};
use crate::calibrate::now;

/// Median times over several calls.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTimes {
    /// Name and time of each node, in the order in which they run.
    pub nodes: Vec<(String, Duration)>,
    /// Time of the whole call.
    pub all: Duration,
}

impl NetworkEngine {
    /// Runs `calls` calls, at least one, and returns the median time of each node.
    ///
    /// # Errors
    /// A feed does not fit.
    pub fn times(
        &mut self,
        team: &mut Team,
        feeds: &[Feed<'_>],
        calls: usize,
    ) -> Result<NodeTimes, CallError> {
        let names: Vec<String> = self.network().nodes().map(|(name, _)| name.to_owned()).collect();
        let mut nodes = vec![Vec::new(); names.len()];
        let mut all = Vec::new();
        for _ in 0..calls.max(1) {
            let start = now();
            let mut since = start;
            let mut of_node = nodes.iter_mut();
            self.run_each(team, feeds, &mut |_| {
                let now = now();
                if let Some(times) = of_node.next() {
                    times.push(now - since);
                }
                since = now;
            })?;
            all.push(start.elapsed());
        }
        let nodes = names.into_iter().zip(nodes).map(|(name, times)| (name, median(times)));
        Ok(NodeTimes { nodes: nodes.collect(), all: median(all) })
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
