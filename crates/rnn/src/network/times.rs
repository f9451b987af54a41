//! Where a call's time goes.

use std::time::Duration;

use dyno_kernels::Team;

use super::engine::{CallError, Engine, Feed};
use crate::calibrate::now;

/// Medians of some calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Of each node with its name, in the order in which they run.
    pub nodes: Vec<(String, Duration)>,
    /// Of the whole call.
    pub all: Duration,
}

impl Engine {
    /// Runs `calls` calls, one at least, and tells how long nodes take.
    ///
    /// # Errors
    /// A feed does not fit.
    pub fn times(
        &mut self,
        team: &mut Team,
        feeds: &[Feed<'_>],
        calls: usize,
    ) -> Result<Times, CallError> {
        let names: Vec<String> = self.network().nodes().map(|(name, _)| name.to_owned()).collect();
        let mut nodes = vec![Vec::new(); names.len()];
        let mut all = Vec::new();
        for _ in 0..calls.max(1) {
            let start = now();
            let (mut since, mut of_node) = (start, nodes.iter_mut());
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
        Ok(Times { nodes: nodes.collect(), all: median(all) })
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
