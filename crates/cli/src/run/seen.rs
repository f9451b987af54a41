//! What the clients of a server saw in a test: of this process, or of all workers together.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::run::TestLog;
use dyno_net::client::Seen;

use crate::outcome::{Outcome, Troubles};
use crate::summary;
use crate::system::System;
use crate::system::net::Remote;
use crate::workers::{RemoteWorkers, Reported};

/// What the client of a server counted as failed since an earlier look at it.
pub(super) fn troubles(system: &System, before: Option<&Seen>) -> Troubles {
    let seen = match reported(system) {
        Some(reported) => reported.seen(),
        None => system.remote().zip(before).map(|(remote, before)| remote.seen().since(before)),
    };
    seen.map(|seen| seen.troubles).unwrap_or_default()
}

/// What the client of a server saw in a test, which may be why its figures do not count.
pub(super) fn seen_by_client(
    system: &System,
    (before, took): (&Seen, Nanos),
    logs: &[TestLog],
    outcomes: &mut [Outcome],
) -> Option<summary::Client> {
    let remote = system.remote()?;
    let records = logs.iter().filter_map(|log| Some(&log.runs().last()?.record));
    let tenants: Vec<_> = records.zip(outcomes.iter().map(|outcome| &outcome.summary)).collect();
    let target = tenants.first().map_or(0.5, |(_, test)| test.plan.percentile);
    let client = match reported(system) {
        Some(reported) => {
            let sight = summary::Sight {
                seen: reported.seen().unwrap_or_default(),
                capacity: reported.capacity(),
                lateness: &|tenant, _| reported.lateness(tenant),
                workers: reported.workers(target),
            };
            summary::Client::of(&sight, &tenants)
        }
        None => {
            let sight = summary::Sight {
                seen: remote.seen().since(before),
                capacity: took.saturating_mul(remote.threads.max(1) as u64),
                lateness: &|tenant, record| remote.lateness(tenant, record),
                workers: Vec::new(),
            };
            summary::Client::of(&sight, &tenants)
        }
    }?;
    outcomes.iter_mut().for_each(|outcome| client.judge(&mut outcome.summary));
    Some(client)
}

/// What workers reported of the test; `None` without workers.
pub(super) fn reported(system: &System) -> Option<Reported> {
    system.remote_workers.as_ref().and_then(RemoteWorkers::reported)
}
