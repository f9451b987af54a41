//! Systems that break during a search: every load fails then, and none is too high.

use dyno_loadgen::record::Record;
use dyno_net::client::ClientStatistics;
use dyno_results::search::{Point, UnfinishedRun};
use dyno_results::summary;

use super::Job;

use crate::outcome::Failures;

impl Job {
    /// Returns whether a failing run shows that its load is too high. It does if the system answered at another
    /// load, and kept the limits at no load that is at least twice as high. After such a load, it does if a lower
    /// load may prevent most failures: a server with a limit on requests per minute passes bursts above it.
    pub(super) fn is_too_high(
        &self,
        load: f64,
        record: &Record,
        before: Option<&ClientStatistics>,
    ) -> bool {
        let points = &self.state.points;
        if points.iter().any(|point| point.passed && point.load >= 2.0 * load) {
            let troubles = self.seen(before).map(|seen| seen.troubles).unwrap_or_default();
            return Failures::from_samples(&record.failed, &troubles).are_mostly_overload();
        }
        points.iter().any(|point| point.throughput.is_some_and(|rate| rate > 0.0))
    }

    /// Counts the runs since the last one that kept the limits as unfinished: the system may have been broken in
    /// them, and their loads not too high.
    pub(super) fn forget_misses(&mut self) {
        let kept = self.state.points.iter().rposition(|point| point.passed);
        let misses = self.state.points.drain(kept.map_or(0, |at| at + 1)..);
        self.state.unfinished.extend(misses.map(|miss: Point| UnfinishedRun {
            purpose: miss.purpose,
            load: miss.load,
            took_ns: miss.took_ns,
        }));
        self.state.peak = None;
    }

    /// Returns the failures of a run with this many failures and answers, after which no server can be
    /// reached: every load fails then, and none is too high.
    pub(super) fn lost(
        &self,
        before: Option<&ClientStatistics>,
        (failed, answers): (u64, u64),
    ) -> Option<summary::Failing> {
        let remote = self.prepared.system.remote()?;
        let words = Some(remote.lost_after(&self.seen(before)?)?.words);
        Some(summary::Failing { window: "last".into(), failed, answers, words })
    }

    /// Returns the counters of the clients in a run.
    fn seen(&self, before: Option<&ClientStatistics>) -> Option<ClientStatistics> {
        let system = &self.prepared.system;
        match &system.remote_workers {
            Some(workers) => workers.reported()?.seen(),
            None => Some(system.remote()?.seen().since(before?)),
        }
    }
}
