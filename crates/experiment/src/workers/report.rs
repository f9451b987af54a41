//! Reports of workers on a run besides its record, and effects of their clients.

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_net::client::{ClientStatistics, RetryTimes};
use dyno_net::ledger::Entry;
use dyno_net::worker::coordinator::WorkerShare;
use dyno_results::summary::metrics::Distribution;
use dyno_results::summary::observer::{is_unjudged, unjudged_note};
use dyno_results::summary::{Cause, Observer, Reason, ReasonKind, Test, Worker};
use dyno_results::units;
use serde::{Deserialize, Serialize};

/// Report of a worker on a run besides its record. It is sent as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerReport {
    /// Counters of its client since the test began; `None` without a server.
    pub seen: Option<ClientStatistics>,
    /// Number of threads of its client.
    pub threads: usize,
    /// Duration of the test, ns.
    pub took: Nanos,
    /// How late each request was written to a socket, ns; one entry per tenant.
    pub lateness: Vec<Vec<Nanos>>,
    /// When each request was written to a socket, by sample, ns since the start of the record; 0 if it
    /// was not. One entry per tenant.
    pub sent: Vec<Vec<Nanos>>,
    /// How often each request was sent again, by sample; one entry per tenant.
    pub retries: Vec<Vec<u64>>,
    /// How long each sample waited for its retries, ns; one entry per tenant.
    pub retry_waits: Vec<Vec<Nanos>>,
    /// When each request was between two attempts, by sample, ns since the start of the record; one entry
    /// per tenant.
    pub retry_times: Vec<Vec<RetryTimes>>,
    /// Accounts of its answers, by sample; one entry per tenant.
    pub ledger: Vec<Vec<Option<Entry>>>,
    /// What delayed it.
    pub observer: Option<Observer>,
}

impl WorkerReport {
    /// Returns the bytes that are sent.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("keys are texts")
    }

    /// Returns the share of time in which the client's threads computed, in [0, 1].
    fn busy(&self) -> Option<f64> {
        let seen = self.seen.as_ref()?;
        let threads = self.threads.max(1) as u64;
        Some(seen.cpu_ns as f64 / self.took.saturating_mul(threads).max(1) as f64)
    }
}

/// Reports of the workers of a test.
#[derive(Debug, Clone, Default)]
pub struct WorkerReports {
    shares: Vec<(WorkerShare, WorkerReport)>,
}

/// Longest silence of a worker in a run, ns. Workers send several messages a second. A longer
/// silence means that the worker or its connection was stopped or starved.
const SILENCE_BUDGET: Nanos = SECOND;

impl WorkerReports {
    /// Returns the reports in the shares of a run.
    pub fn new(shares: Vec<WorkerShare>) -> Self {
        let report = |share: &WorkerShare| serde_json::from_slice(&share.report);
        let all = shares.into_iter().map(|share| {
            let report = report(&share).unwrap_or_default();
            (share, report)
        });
        Self { shares: all.collect() }
    }

    /// Returns the counters of all workers' clients; `None` without a server.
    pub fn seen(&self) -> Option<ClientStatistics> {
        let seen = self.shares.iter().filter_map(|(_, report)| report.seen.as_ref());
        seen.fold(None, |sum: Option<ClientStatistics>, seen| {
            Some(sum.map_or_else(|| seen.clone(), |sum| sum.and(seen)))
        })
    }

    /// Returns the available time of all threads of all clients, ns.
    pub fn capacity(&self) -> Nanos {
        let of =
            |(_, report): &(_, WorkerReport)| report.took.saturating_mul(report.threads as u64);
        self.shares.iter().map(of).sum()
    }

    /// Returns how late the requests of a tenant were written to sockets, ns.
    pub fn lateness(&self, tenant: u8) -> Vec<Nanos> {
        let of =
            |(_, report): &(_, WorkerReport)| report.lateness.get(usize::from(tenant)).cloned();
        self.shares.iter().filter_map(of).flatten().collect()
    }

    /// Returns the accounts of a tenant's answers, in the order of the run's record; empty if
    /// answers are not text.
    pub fn ledger(&self, tenant: u8, samples: usize) -> Vec<Option<Entry>> {
        let has_entries = |(_, report): &(_, WorkerReport)| {
            let entries = report.ledger.get(usize::from(tenant)).into_iter().flatten();
            entries.flatten().next().is_some()
        };
        // An account has 120 bytes, and there may be 10^8 samples.
        if !self.shares.iter().any(has_entries) {
            return Vec::new();
        }
        self.placed(tenant, samples, |report| &report.ledger)
    }

    /// Returns when each request of a tenant was written to a socket, in the order of the run's record,
    /// ns since its start; 0 if it was not.
    pub fn sent(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.placed(tenant, samples, |report| &report.sent)
    }

    /// Returns how often each request of a tenant was sent again, in the order of the run's record.
    pub fn retries(&self, tenant: u8, samples: usize) -> Vec<u64> {
        self.placed(tenant, samples, |report| &report.retries)
    }

    /// Returns how long each sample of a tenant waited for its retries, in the order of the run's record,
    /// ns.
    pub fn retry_waits(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.placed(tenant, samples, |report| &report.retry_waits)
    }

    /// Returns when each request of a tenant was between two attempts, in the order of the run's record,
    /// ns since its start.
    pub fn retry_times(&self, tenant: u8, samples: usize) -> Vec<RetryTimes> {
        self.placed(tenant, samples, |report| &report.retry_times)
    }

    /// Returns values of the samples of all workers in the order of the run's record.
    fn placed<T: Copy + Default>(
        &self,
        tenant: u8,
        samples: usize,
        values: fn(&WorkerReport) -> &Vec<Vec<T>>,
    ) -> Vec<T> {
        let mut all = vec![T::default(); samples];
        for (share, report) in &self.shares {
            let places = share.places.get(usize::from(tenant)).into_iter().flatten();
            let values = values(report).get(usize::from(tenant)).into_iter().flatten();
            for (&place, &value) in places.zip(values) {
                if let Some(slot) = all.get_mut(place) {
                    *slot = value;
                }
            }
        }
        all
    }

    /// Returns what delayed each worker.
    pub fn observers(&self) -> Vec<Observer> {
        let of = |(share, report): &(WorkerShare, WorkerReport)| {
            let observer = report.observer.clone()?;
            Some(Observer { worker: Some(share.worker + 1), ..observer })
        };
        self.shares.iter().filter_map(of).collect()
    }

    /// Returns the summary of each worker, with its percentiles.
    pub fn workers(&self, target: f64) -> Vec<Worker> {
        let row = |(share, report): &(WorkerShare, WorkerReport)| {
            let lag = share.client_lag.iter().flatten().map(|&lag| Nanos::from(lag)).collect();
            let lateness = report.lateness.iter().flatten().copied().collect();
            Worker {
                worker: share.worker + 1,
                name: share.name.clone(),
                queries: share.queries,
                sent: report.seen.as_ref().map(|seen| seen.sent),
                failed: report.seen.as_ref().map(ClientStatistics::failed),
                busy: report.busy(),
                client_lag_ns: Distribution::from_times(lag, target),
                lateness_ns: Distribution::from_times(lateness, target),
                longest_silence_ns: share.longest_silence,
                began_late_ns: share.late,
            }
        };
        self.shares.iter().map(row).collect()
    }

    /// Adds reasons to a tenant's test if a worker distorted its figures. They come before those of
    /// the system, because the client is judged first.
    pub fn judge(&self, test: &mut Test) {
        if test.metrics.is_none() {
            return;
        }
        // Each reason is inserted before those added so far: the longest silence comes first, then the
        // other workers by number. All come before the lag of the whole client: the worker is what a
        // user can fix.
        let mut workers = self.workers(test.plan.percentile);
        workers.reverse();
        workers.sort_by_key(|worker| silence(worker).unwrap_or(0));
        for worker in workers {
            if let Some(text) = reason(&worker, test) {
                if is_unjudged(test) {
                    test.notes.push(unjudged_note(&text));
                    continue;
                }
                let reason = Reason::new(ReasonKind::ClientLag, text).because_of(Cause::Client);
                test.add_reason_after_failures(reason);
            }
        }
        test.settle();
    }
}

/// Returns for how long a worker sent nothing, in ns, if that exceeds the budget.
fn silence(worker: &Worker) -> Option<u64> {
    Some(worker.longest_silence_ns).filter(|&silence| silence > SILENCE_BUDGET)
}

/// Returns why the figures of a test show this worker and not the system.
fn reason(worker: &Worker, test: &Test) -> Option<String> {
    let shown = |ns: u64| units::duration(ns.cast_signed());
    let who = format!("Worker {} ({})", worker.worker, worker.name);
    if let Some(silence) = silence(worker) {
        return Some(format!(
            "{who} sent nothing for {} during the run: it was stopped, short of CPU time or \
             disconnected. These delays belong to the client, not to the system. Repeat the run \
             with the worker on its own machine.",
            shown(silence)
        ));
    }
    let is_paced = test.scenario == "Server";
    let budget = test.plan.max_client_lag_ns.filter(|_| is_paced)?;
    let late = |times: &Option<Distribution>| {
        let target = u64::try_from(times.as_ref()?.target).unwrap_or(0);
        (target > budget).then_some(target)
    };
    let (what, by) = match (late(&worker.client_lag_ns), late(&worker.lateness_ns)) {
        (Some(by), _) => ("issued too late", by),
        (None, Some(by)) => ("sent too late", by),
        (None, None) => return None,
    };
    Some(format!(
        "{who} {what}: at the target percentile {} after a query was due, more than the {} of \
         max_client_lag_ns. Run it on a faster machine, add workers, or lower the rate.",
        shown(by),
        shown(budget)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_answers_that_are_no_text_take_no_memory() {
        assert!(WorkerReports::new(Vec::new()).ledger(0, usize::MAX).is_empty());
    }
}
